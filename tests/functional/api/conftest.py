"""An application with a database of its own, and a real conductor beside it."""

from __future__ import annotations

import contextlib
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

#: Interfaces beside ``fake``, by kind.
_MORE = {"storage": ["noop"], "deploy": ["noop"], "management": ["noop"], "power": [], "boot": []}


@contextlib.contextmanager
def configured(empty_database: Path, folder: Path) -> Iterator[Any]:
    """No authentication, fake hardware, and an empty database in the folder."""
    path = folder / "api.sqlite"
    shutil.copy(empty_database, path)
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", f"sqlite:///{path}", group="database")
    CONF.set_override("sqlite_synchronous", False, group="database")
    CONF.set_override("auth_strategy", "noauth")
    CONF.set_override("host", HOST)
    CONF.set_override("enabled_hardware_types", ["fake-hardware"])
    for kind in INTERFACE_TYPES:
        names = ["noop"] if kind == "network" else ["fake", *_MORE.get(kind, [f"no-{kind}"])]
        CONF.set_override(f"enabled_{kind}_interfaces", names)
    CONF.set_override("default_storage_interface", "noop")
    CONF.set_override("node_locked_retry_attempts", 1, group="conductor")
    # There is no keep-alive that would tell that the conductor lives.
    CONF.set_override("heartbeat_timeout", 3600, group="conductor")
    CONF.set_override("certificates_path", str(folder / "certificates"), group="agent")
    session.configure()
    try:
        yield CONF
    finally:
        session.dispose()
        CONF.reset()
        CONF.clear()


@contextlib.contextmanager
def conducted(transport: DirectTransport) -> Iterator[Conductor]:
    """A conductor that is registered and answers; it runs no periodic tasks."""
    made = Conductor(HOST, transport)
    made.drivers.load()
    server = transport.serve(HOST, made.registry)
    server.start()
    made._register(first=True)
    try:
        yield made
    finally:
        server.stop()
        made.workers.close()
        assert made.workers.wait(30)


def services_over(conf: Any, transport: DirectTransport) -> Services:
    """What the application of a process works with."""
    ring = HashRing()
    return Services(conf, ConductorClient(transport, ring), ring)


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
    """The configuration; a test may override options before it asks for ``api``."""
    with configured(empty_database, tmp_path) as found:
        yield found


@pytest.fixture
def transport() -> DirectTransport:
    return DirectTransport()


@pytest.fixture
def services(conf: Any, transport: DirectTransport) -> Services:
    return services_over(conf, transport)


@pytest.fixture
def lonely(services: Services) -> Client:
    """A client of an application without any conductor."""
    return Client(app.build(services))


@pytest.fixture
def conductor(conf: Any, transport: DirectTransport) -> Iterator[Conductor]:
    """A conductor that answers."""
    with conducted(transport) as made:
        yield made


@pytest.fixture
def api(lonely: Client, conductor: Conductor) -> Client:
    """A client of an application with a conductor."""
    return lonely


@pytest.fixture(scope="module")
def shared_services(
    empty_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Services]:
    """The same, with a conductor, for all tests of a module."""
    transport = DirectTransport()
    with configured(empty_database, tmp_path_factory.mktemp("shared")) as found:
        services = services_over(found, transport)
        with conducted(transport):
            yield services


@pytest.fixture(scope="module")
def shared_api(shared_services: Services) -> Client:
    """For requests that leave little behind."""
    return Client(app.build(shared_services))
