"""A database of its own, and a real conductor on it, for each test."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes, session
from ironic_rs.domain import states
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.rpc.direct import DirectTransport
from tests.unit.conductor.flowkit import empty_database  # noqa: F401
from tests.unit.conductor.tablekit import shared_table, table  # noqa: F401

HOST = "cond-a"


@pytest.fixture
def database(empty_database: Path, tmp_path: Path) -> Iterator[None]:  # noqa: F811
    """An empty database, and the defaults of the options but for fake hardware."""
    path = tmp_path / "core.sqlite"
    shutil.copy(empty_database, path)
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", f"sqlite:///{path}", group="database")
    CONF.set_override("host", HOST)
    CONF.set_override("enabled_hardware_types", ["fake-hardware"])
    for kind in INTERFACE_TYPES:
        CONF.set_override(
            f"enabled_{kind}_interfaces",
            {"network": ["noop"], "bios": ["no-bios"]}.get(kind, ["fake"]),
        )
    CONF.set_override("default_storage_interface", "fake")
    CONF.set_override("node_locked_retry_attempts", 1, group="conductor")
    CONF.set_override("hash_ring_reset_interval", 0)
    session.configure()
    try:
        yield
    finally:
        session.dispose()
        CONF.reset()
        CONF.clear()


@pytest.fixture
def make_conductor(database: None) -> Iterator[Callable[..., Conductor]]:
    """Make conductors that are registered and in the ring, without any thread."""
    made: list[Conductor] = []
    transport = DirectTransport()

    def make(host: str = HOST) -> Conductor:
        conductor = Conductor(host, transport)
        conductor.drivers.load()
        conductor._register()
        for other in (*made, conductor):
            other.ring.reset()
        made.append(conductor)
        return conductor

    yield make
    for conductor in made:
        conductor.workers.close()
        assert conductor.workers.wait(30)


@pytest.fixture
def conductor(make_conductor: Callable[..., Conductor]) -> Conductor:
    """The only conductor."""
    return make_conductor()


@pytest.fixture
def make_node(database: None) -> Callable[..., models.Node]:
    """Store nodes."""

    def make(state: str = states.MANAGEABLE, **values: Any) -> models.Node:
        row: dict[str, Any] = {
            "driver": "fake-hardware",
            "provision_state": state,
            "target_provision_state": states.STATES[state].target,
            "power_state": states.POWER_ON,
        }
        return nodes.create(row | values)

    return make
