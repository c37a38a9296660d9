"""A conductor without threads and with scripted machines, for tests of flows.

Everything is real but the worker pool (work runs at once, in the caller's
thread) and the interfaces of the fake hardware, whose steps and answers a test
writes down in a :class:`Kit`.
"""

from __future__ import annotations

import copy
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.endpoints import ENDPOINTS
from ironic_rs.conductor.fence import SelfFence
from ironic_rs.conductor.flows.hooks import TaskFlows
from ironic_rs.conductor.interrupts import Interrupts
from ironic_rs.conductor.lockbook import LockBook
from ironic_rs.conductor.news import News
from ironic_rs.conductor.task import Task, TaskManager
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, history, models, nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.rpc.context import RequestContext, admin_context
from ironic_rs.rpc.registry import Registry
from ironic_rs.telemetry.metrics import Metrics
from tests.harness.scripted import Kit, KitRegistry

HOST = "host-1"


class InlineWorkers:
    """Runs work at once; ``full`` refuses it."""

    def __init__(self) -> None:
        self.full = False
        self.reserved_ok: list[bool] = []

    def submit(
        self, fn: Callable[..., Any], *args: Any, reserved_ok: bool = True, **kwargs: Any
    ) -> Future[Any]:
        if self.full:
            raise errors.NoFreeConductorWorker()
        self.reserved_ok.append(reserved_ok)
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class World:
    """One conductor, its database and its machines."""

    def __init__(self) -> None:
        self.kit = Kit()
        self.host = HOST
        self.stopping = threading.Event()
        self.fence = SelfFence(lambda: 0)
        self.news = News(HOST)
        self.metrics = Metrics(CONF, HOST)
        self.interrupts = Interrupts()
        self.workers = InlineWorkers()
        self.tasks = TaskManager(self)  # type: ignore[arg-type]
        self.allocating = LockBook()
        self.drivers = KitRegistry(CONF)
        self.drivers.kit = self.kit
        self.drivers.load()
        self.conductor_id = conductors.register(HOST, ["fake-hardware"]).id
        self.context: RequestContext = admin_context()
        self.registry = Registry(endpoint(self) for endpoint in ENDPOINTS)  # type: ignore[arg-type]

    def flow_hooks(self, task: Task) -> TaskFlows:
        return TaskFlows(task)

    @property
    def driver(self) -> Any:
        """The scripted interfaces by attribute; set attributes to override methods."""
        return _Attributes(self.kit.interfaces)

    def node(self, state: str = states.MANAGEABLE, **values: Any) -> models.Node:
        """Store a node."""
        row: dict[str, Any] = {
            "driver": "fake-hardware",
            "provision_state": state,
            "target_provision_state": states.STATES[state].target,
            "power_state": states.POWER_ON,
        }
        return nodes.create(row | values)

    def read(self, node: models.Node) -> models.Node:
        """Return the node as stored now."""
        return nodes.get(node.id)

    def task(self, node: models.Node, **kwargs: Any) -> Task:
        """Take the exclusive lock."""
        kwargs.setdefault("retry", False)
        return self.tasks.acquire(self.context, str(node.uuid), purpose="test", **kwargs)

    def call(self, method: str, target: models.Node | None = None, /, **arguments: Any) -> Any:
        """Call an RPC method as it comes from the wire."""
        if target is not None:
            arguments["node_id"] = str(target.uuid)
        reply = self.registry.dispatch(method, self.context, json.loads(json.dumps(arguments)))
        return json.loads(json.dumps(reply))

    def events(self, node: models.Node) -> list[tuple[str, str]]:
        """Return the (event_type, severity) pairs of the node's history, oldest first."""
        rows = history.select(["event_type", "severity"], {"node_id": node.id})
        return [(row["event_type"], row["severity"]) for row in rows]


class _Attributes:
    def __init__(self, interfaces: dict[str, Any]) -> None:
        self._interfaces = interfaces

    def __getattr__(self, name: str) -> Any:
        return self._interfaces[name]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and no rows."""
    path = tmp_path_factory.mktemp("schema") / "empty.sqlite"
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", f"sqlite:///{path}", group="database")
    session.configure()
    with session.writer() as connection:
        models.Base.metadata.create_all(connection)
        connection.exec_driver_sql("PRAGMA user_version")
    session.dispose()
    CONF.clear_override("connection", group="database")
    for side in path.parent.glob("empty.sqlite-*"):
        assert side.stat().st_size == 0, "the schema must be in the file itself"
    return path


@contextmanager
def running_world(empty_database: Path, path: Path) -> Iterator[World]:
    """Have a fresh conductor with an empty database in a file at ``path``."""
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
    CONF.set_override("automated_clean", True, group="conductor")
    CONF.set_override("node_locked_retry_attempts", 1, group="conductor")
    session.configure()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("time.sleep", _refuse_to_sleep)
            yield World()
    finally:
        session.dispose()
        CONF.reset()
        CONF.clear()


@pytest.fixture
def world(empty_database: Path, tmp_path: Path) -> Iterator[World]:
    """A fresh conductor with an empty database."""
    with running_world(empty_database, tmp_path / "ironic.sqlite") as made:
        yield made


def _refuse_to_sleep(seconds: float) -> None:
    raise AssertionError(f"a flow sleeps for {seconds} s without being asked to")


def steps(*names: str, **details: Any) -> list[dict[str, Any]]:
    """Return user steps for ``interface.step`` names (reserved ones without interface)."""
    made = []
    for name in names:
        interface, _, step = name.rpartition(".")
        made.append({"interface": interface or "deploy", "step": step, **copy.deepcopy(details)})
    return made
