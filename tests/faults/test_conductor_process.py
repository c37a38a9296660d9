"""One conductor as a process of its own, killed, frozen, forgotten and flooded.

All with the smallest pool that has a reserved worker.

Source: specification conductor.md section 17 (W06, W08, W26, W27, W28, W50, W51).
"""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.messaging import MessagingTransport
from tests.harness import servers
from tests.harness.cluster import Cluster, running
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(600)

#: Neither name is to be found by a pattern that is made of the other one.
HOST, NEIGHBOUR = "c_1", "cx1"
#: 28 workers, one of them reserved.
POOL = {"workers_pool_size": 28, "reserved_workers_pool_percentage": 5}
#: An inspection never ends there.
ENDLESS = {"conductor": POOL, "fake": {"inspect_delay": 3600}}
INTERRUPTED = 12


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The API, and no conductor yet."""
    folder: Path = tmp_path_factory.mktemp("process")
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(servers.mariadb_database())
        transport = stack.enter_context(servers.rabbit_vhost())
        made = stack.enter_context(running(Cluster(folder, database, transport)))
        made.migrate()
        made.start_api()
        yield made


@pytest.fixture(scope="module")
def fleet(site: Cluster) -> list[str]:
    """Nodes of the conductor whose inspection was interrupted by kill -9."""
    process = site.start_conductor(HOST, ENDLESS)
    found = [str(site.create(HOST)["uuid"]) for _ in range(INTERRUPTED)]
    for uuid in found:
        site.provision(uuid, "manage")
    for uuid in found:
        site.wait_state(uuid, "manageable")
        site.provision(uuid, "inspect")
    assert {site.node(uuid)["reservation"] for uuid in found} == {HOST}
    process.kill()
    # What is not failed by the start itself stays as it is.
    site.start_conductor(HOST, {"conductor": {**POOL, "check_provision_state_interval": 3600}})
    return found


def test_w51_a_conductor_with_one_reserved_worker_runs(site: Cluster, fleet: list[str]) -> None:
    site.wait_conductor(HOST)
    assert site.processes[HOST].alive


def test_w08_every_interrupted_node_is_failed_at_the_start(site: Cluster, fleet: list[str]) -> None:
    for uuid in fleet:
        node = site.wait_state(uuid, "inspect failed")
        assert node["last_error"]


@pytest.fixture(scope="module")
def theirs(site: Cluster, fleet: list[str]) -> str:
    """A node that another conductor inspects for ever."""
    site.start_conductor(NEIGHBOUR, ENDLESS)
    uuid = str(site.create(NEIGHBOUR)["uuid"])
    site.manage(uuid)
    site.provision(uuid, "inspect")
    assert site.node(uuid)["reservation"] == NEIGHBOUR
    return uuid


@contextlib.contextmanager
def bus(site: Cluster) -> Iterator[MessagingTransport]:
    """The message bus, for calls that the API never makes."""
    client = MessagingTransport(CONF, site.transport)
    try:
        yield client
    finally:
        client.close()


def test_w26_casts_to_a_locked_node_do_not_hold_up_calls(site: Cluster, theirs: str) -> None:
    more = str(site.create(NEIGHBOUR)["uuid"])
    with bus(site) as client:
        # More than the bus has threads.
        for _ in range(100):
            client.cast(NEIGHBOUR, "continue_node_clean", {"node_id": theirs}, admin_context())
        site.get(f"/v1/nodes/{theirs}/validate")
        site.manage(more)
    site.send("DELETE", f"/v1/nodes/{more}", expect=204)


def test_w28_a_restart_leaves_the_locks_of_a_neighbour_alone(site: Cluster, theirs: str) -> None:
    site.processes[HOST].kill()
    site.start_conductor(HOST, {"conductor": POOL})

    assert site.node(theirs)["reservation"] == NEIGHBOUR
    assert site.node(theirs)["provision_state"] == "inspecting"
    site.processes[NEIGHBOUR].kill()
    # As that one is dead, its node goes to the one that lives.
    site.wait_state(theirs, "inspect failed")


@pytest.mark.parametrize("method", ["stop", "prepare_host", "keepalive_halt", "acquire", "start"])
def test_w27_a_method_that_is_not_in_the_table_can_not_be_called(
    site: Cluster, fleet: list[str], method: str
) -> None:
    node = {"node_id": fleet[0]}
    with bus(site) as client:
        with pytest.raises(errors.IronicError, match=method):
            client.call(HOST, method, {}, admin_context(), timeout=60)
        # It goes on; the ring of the API may still lead to the neighbour that was killed.
        assert client.call(HOST, "validate_driver_interfaces", node, admin_context(), timeout=60)
    assert site.processes[HOST].alive


def test_w50_a_conductor_that_was_removed_while_it_was_frozen_registers_itself_again(
    site: Cluster, fleet: list[str]
) -> None:
    process = site.processes[HOST]
    process.signal(signal.SIGSTOP)
    engine = sa.create_engine(site.database)
    try:
        with engine.begin() as connection:
            for table in ("conductor_hardware_interfaces", "conductors"):
                connection.execute(sa.text(f"DELETE FROM {table}"))
    finally:
        engine.dispose()
        process.signal(signal.SIGCONT)

    site.wait_conductor(HOST)

    power = f"/v1/nodes/{fleet[0]}/states/power"

    def accepted() -> bool:
        return bool(site.send("PUT", power, {"target": "power on"}).status_code == 202)

    # The first may go to the neighbour that was killed, by a ring of the API from before
    # its end, and waits for an answer as long as any request does.
    wait_until(accepted, "requests reach it again", timeout=180)


def test_w06_after_a_burst_to_the_maximum_requests_are_accepted_again(
    site: Cluster, fleet: list[str]
) -> None:
    site.processes[HOST].signal(signal.SIGTERM)
    assert site.processes[HOST].wait() == 0
    small: dict[str, Any] = {
        "workers_pool_size": 8,
        "reserved_workers_pool_percentage": 25,
        "sync_power_state_workers": 1,
        "periodic_max_workers": 1,
    }
    site.start_conductor(HOST, {"conductor": small, "fake": {"power_delay": 1}})

    def ask(uuid: str) -> int:
        path = f"/v1/nodes/{uuid}/states/power"
        return int(site.send("PUT", path, {"target": "power off"}).status_code)

    with ThreadPoolExecutor(len(fleet)) as threads:
        burst = Counter(threads.map(ask, fleet))

    assert burst[202] > 0
    assert burst[503] > 0, burst
    assert set(burst) == {202, 503}
    # Every worker has been busy; all of them can be had again.
    for uuid in fleet:
        wait_until(lambda n=uuid: ask(n) == 202, "a worker is free")
