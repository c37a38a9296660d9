"""An application with a database of its own, and a real conductor beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.direct import DirectTransport
from ironic_rs.rpc.ring import HashRing
from tests.functional.api.harness import Client

HOST = "cond-a"


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the tables and no rows."""
    path = tmp_path_factory.mktemp("api") / "empty.sqlite"
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", f"sqlite:///{path}", group="database")
    session.configure()
    with session.writer() as connection:
        models.Base.metadata.create_all(connection)
    session.dispose()
    CONF.clear_override("connection", group="database")
    return path


@pytest.fixture
def conf(empty_database: Path, tmp_path: Path) -> Iterator[Any]:
    """The configuration: no authentication, fake hardware, an empty database."""
    path = tmp_path / "api.sqlite"
    shutil.copy(empty_database, path)
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", f"sqlite:///{path}", group="database")
    CONF.set_override("sqlite_synchronous", False, group="database")
    CONF.set_override("auth_strategy", "noauth")
    CONF.set_override("host", HOST)
    CONF.set_override("enabled_hardware_types", ["fake-hardware"])
    for kind in INTERFACE_TYPES:
        extra = {"network": [], "storage": ["noop"], "deploy": ["noop"]}.get(kind, [f"no-{kind}"])
        optional = extra if kind not in ("power", "boot", "management") else []
        names = ["noop"] if kind == "network" else ["fake", *optional]
        CONF.set_override(f"enabled_{kind}_interfaces", names)
    CONF.set_override("default_storage_interface", "noop")
    CONF.set_override("node_locked_retry_attempts", 1, group="conductor")
    CONF.set_override("certificates_path", str(tmp_path / "certificates"), group="agent")
    session.configure()
    try:
        yield CONF
    finally:
        session.dispose()
        CONF.reset()
        CONF.clear()


@pytest.fixture
def transport() -> DirectTransport:
    return DirectTransport()


@pytest.fixture
def services(conf: Any, transport: DirectTransport) -> Services:
    ring = HashRing()
    return Services(conf, ConductorClient(transport, ring), ring)


@pytest.fixture
def lonely(services: Services) -> Client:
    """A client of an application without any conductor."""
    return Client(app.build(services))


@pytest.fixture
def conductor(conf: Any, transport: DirectTransport) -> Iterator[Conductor]:
    """A conductor that is registered and answers; it runs no periodic tasks."""
    made = Conductor(HOST, transport)
    made.drivers.load()
    server = transport.serve(HOST, made.registry)
    server.start()
    made._register(first=True)
    yield made
    server.stop()
    made.workers.close()
    assert made.workers.wait(30)


@pytest.fixture
def api(lonely: Client, conductor: Conductor) -> Client:
    """A client of an application with a conductor."""
    return lonely
