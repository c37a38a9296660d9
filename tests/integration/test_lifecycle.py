"""The whole life of machines, as an operator's clients drive it, on every kind of set-up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import servers
from tests.harness.cluster import Cluster, Sandbox, running

DATABASES = {
    "mariadb": servers.mariadb_database,
    "postgresql": servers.postgresql_database,
}


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with running(Sandbox(tmp_path, 4)) as fleet:
        fleet.start()
        yield fleet


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", DATABASES)
def test_two_conductors_and_two_api_workers_run_the_whole_life(
    kind: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(DATABASES[kind]())
        transport = stack.enter_context(servers.rabbit_vhost())
        cluster = stack.enter_context(
            running(Cluster(tmp_path, database, transport, sandbox.options()))
        )
        cluster.migrate()
        api = cluster.start_api()
        conductors = [cluster.start_conductor(host) for host in ("c1", "c2")]

        print(sandbox.lifecycle(cluster))

        assert all(node["reservation"] is None for node in cluster.get("/v1/nodes/detail")["nodes"])
        for process in [*conductors, api]:
            process.signal(signal.SIGTERM)
        assert [process.wait() for process in [*conductors, api]] == [0, 0, 0]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["threads", "eventlet"])
def test_one_process_on_sqlite_runs_the_whole_life_on_each_backend(
    backend: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    cluster = Cluster(
        tmp_path,
        f"sqlite:///{tmp_path}/ironic.sqlite",
        "fake://",
        sandbox.options(),
        env={"IRONIC_RS_BACKEND": backend},
    )
    with running(cluster):
        cluster.migrate()
        process = cluster.start_all_in_one()

        print(sandbox.lifecycle(cluster))

        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        warnings = [line for line in process.text().splitlines() if "deprecated" in line.lower()]
        about = [line for line in warnings if "eventlet" in line]
        assert len(about) == (1 if backend == "eventlet" else 0), warnings
        assert "database is locked" not in process.text()
