"""One service for the machines of the room that the tests run in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster, running
from tests.harness.machine_room import Room


@pytest.fixture(scope="session")
def room() -> Room:
    return Room()


@pytest.fixture(scope="module")
def service(room: Room, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """API and conductor in one process, in the network of the machines."""
    folder: Path = tmp_path_factory.mktemp("service")
    database = f"sqlite:///{folder}/ironic.sqlite"
    options = room.options(folder)
    with running(Cluster(folder, database, "fake://", options, address=room.address)) as cluster:
        cluster.migrate()
        cluster.start_all_in_one(room.files_port)
        yield cluster
