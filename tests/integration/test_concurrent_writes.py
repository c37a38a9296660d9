"""No acknowledged write is lost, whatever runs at the same time (W11, field-cases.md K02)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.harness import servers
from tests.harness.cluster import VERSION, Cluster, Sandbox, running

pytestmark = pytest.mark.timeout(600)

NODES = 10
PATCHES = 200
COLUMNS = ("extra", "properties", "driver_info")
THREADS = 50


@pytest.fixture(params=["one process, SQLite", "two conductors, MariaDB"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Cluster, Sandbox]]:
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(running(Sandbox(tmp_path, NODES)))
        sandbox.start()
        options = sandbox.options()
        options["conductor"]["sync_power_state_interval"] = 1
        # A manageable node may be looked up, and its agent heard, with fast track.
        options["deploy"] = {"fast_track": True}
        if request.param.startswith("one"):
            database, transport = f"sqlite:///{tmp_path}/ironic.sqlite", "fake://"
        else:
            database = stack.enter_context(servers.mariadb_database())
            transport = stack.enter_context(servers.rabbit_vhost())
        cluster = stack.enter_context(running(Cluster(tmp_path, database, transport, options)))
        cluster.migrate()
        if request.param.startswith("one"):
            cluster.start_all_in_one()
        else:
            cluster.start_api()
            for host in ("c1", "c2"):
                cluster.start_conductor(host)
        yield cluster, sandbox


def test_every_acknowledged_key_is_in_the_database_at_the_end(
    place: tuple[Cluster, Sandbox],
) -> None:
    cluster, sandbox = place
    nodes = [sandbox.enroll(cluster, machine) for machine in sandbox.machines()]
    for node in nodes:
        cluster.manage(node["uuid"])
    tokens = [lookup(cluster, node) for node in nodes]
    local = threading.local()
    over = threading.Event()

    def session() -> requests.Session:
        if not hasattr(local, "session"):
            local.session = requests.Session()
            local.session.headers["X-OpenStack-Ironic-API-Version"] = VERSION
        return local.session  # type: ignore[no-any-return]

    def patch(number: int) -> tuple[int, str, str, str, int]:
        column, node = COLUMNS[number % len(COLUMNS)], nodes[number % NODES]
        body = [{"op": "add", "path": f"/{column}/key{number}", "value": f"value{number}"}]
        url = f"{cluster.url}/v1/nodes/{node['uuid']}"
        answer = session().patch(url, json=body, timeout=120)
        return number, node["uuid"], column, answer.text, answer.status_code

    def heartbeats(number: int) -> set[int]:
        seen = set()
        while not over.is_set():
            answer = session().post(
                f"{cluster.url}/v1/heartbeat/{nodes[number]['uuid']}",
                json={
                    "callback_url": "https://127.0.0.1:9",
                    "agent_version": "13.0.0",
                    "agent_token": tokens[number],
                },
                timeout=120,
            )
            seen.add(answer.status_code)
            over.wait(0.2)
        return seen

    with ThreadPoolExecutor(THREADS + NODES) as pool:
        beats = [pool.submit(heartbeats, number) for number in range(NODES)]
        try:
            answers = list(pool.map(patch, range(PATCHES)))
        finally:
            over.set()
        statuses = set().union(*(beat.result() for beat in beats))

    assert {status for *_, status in answers} <= {200, 409, 503}, answers
    good = [answer for answer in answers if answer[-1] == 200]
    print(f"{len(good)} of {PATCHES} patches acknowledged, heartbeats answered {statuses}")
    assert len(good) > PATCHES / 2
    records: dict[str, Any] = {node["uuid"]: cluster.node(node["uuid"]) for node in nodes}
    lost = [
        (uuid, f"{column}.key{number}")
        for number, uuid, column, _, _ in good
        if records[uuid][column].get(f"key{number}") != f"value{number}"
    ]
    assert lost == []
    assert statuses <= {202, 409, 503}
    assert all(record["reservation"] is None for record in records.values())
    for process in cluster.processes.values():
        assert "database is locked" not in process.text()


def lookup(cluster: Cluster, node: dict[str, Any]) -> str:
    """Get a token as an agent does: a node that is locked is asked for again."""

    def answer() -> dict[str, Any] | None:
        found = cluster.http.get(
            f"{cluster.url}/v1/lookup", params={"node_uuid": node["uuid"]}, timeout=60
        )
        if found.status_code == 409:
            return None
        assert found.status_code == 200, found.text
        return dict(found.json())

    found: Any = servers.wait_until(answer, "an unlocked node")
    return str(found["config"]["agent_token"])
