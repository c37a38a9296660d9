"""A cluster of two conductors with simulated and fake machines, to be hurt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import servers
from tests.harness.cluster import Cluster, Sandbox, running


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def sandbox(folder: Path) -> Iterator[Sandbox]:
    with running(Sandbox(folder, 6)) as fleet:
        fleet.start()
        yield fleet


@pytest.fixture(scope="module")
def cluster(folder: Path, sandbox: Sandbox) -> Iterator[Cluster]:
    """API and the conductors c1 and c2 on shared servers."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(servers.mariadb_database())
        transport = stack.enter_context(servers.rabbit_vhost())
        made = stack.enter_context(running(Cluster(folder, database, transport, sandbox.options())))
        made.migrate()
        made.start_api()
        for host in ("c1", "c2"):
            made.start_conductor(host)
        yield made
