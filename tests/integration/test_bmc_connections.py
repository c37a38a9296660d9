"""A conductor keeps one session and one connection to each BMC (W38)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(300)

MACHINES = 10


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with running(Sandbox(tmp_path, MACHINES)) as fleet:
        fleet.start()
        yield fleet


@pytest.mark.parametrize("auth", ["session", "basic"])
def test_a_power_sync_cycle_is_one_get_on_the_kept_session_and_connection(
    auth: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    options = sandbox.options()
    options["redfish"] = {"auth_type": auth}
    options["conductor"]["sync_power_state_interval"] = 2
    cluster = Cluster(tmp_path, f"sqlite:///{tmp_path}/ironic.sqlite", "fake://", options)
    machines = sandbox.machines()
    with running(cluster):
        cluster.migrate()
        cluster.start_all_in_one()
        nodes = [sandbox.enroll(cluster, machine)["uuid"] for machine in machines]
        for node in nodes:
            cluster.manage(node)

        def requests(machine: dict[str, Any]) -> int:
            return int(counts(sandbox, machine)["counts"].get("bmc.requests", 0))

        def cycles(number: int) -> None:
            start = {machine["name"]: requests(machine) for machine in machines}
            wait_until(
                lambda: all(requests(m) >= start[m["name"]] + number for m in machines),
                f"every machine has been through {number} cycles",
            )

        # One cycle warms up: vendor, health and boot mode are looked up once.
        cycles(1)
        before = {machine["name"]: counts(sandbox, machine) for machine in machines}
        cycles(2)

        for machine in machines:
            old, new = before[machine["name"]], counts(sandbox, machine)
            assert new["counts"]["bmc.connections"] == 1
            assert new["counts"].get("bmc.sessions", 0) == (1 if auth == "session" else 0)
            moved = {
                path
                for path, number in new["bmc_paths"].items()
                if number != old["bmc_paths"].get(path)
            }
            assert moved == {f"GET {machine['bmc']['system_id']}"}


def counts(sandbox: Sandbox, machine: dict[str, Any]) -> dict[str, Any]:
    return dict(sandbox.get(f"/machines/{machine['name']}/counters"))
