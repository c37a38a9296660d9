"""One conductor for all rows of a table: what thousands of small cases share.

A case gets an empty database and machines as they come; the work that a call hands
to a worker is kept until the case runs it.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ironic_rs.conductor import lock
from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers import noop
from ironic_rs.drivers.hardware.base import HardwareType, Interfaces
from ironic_rs.rpc import dispatch
from tests.unit.conductor import flowkit
from tests.unit.conductor.flowkit import World

DATA = Path(__file__).parents[2] / "data"
#: Holds a node for somebody else.
OTHER_HOST = "host-2"
#: Not the rows of the conductor itself.
_KEPT = ("conductors", "conductor_hardware_interfaces")
_TABLES = tuple(
    table.name for table in reversed(models.Base.metadata.sorted_tables) if table.name not in _KEPT
)

Work = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def load(name: str) -> dict[str, Any]:
    """Read a table of facts."""
    table: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return table


class Picky(HardwareType):
    """Fits nothing that is enabled."""

    interfaces: ClassVar[Interfaces] = {kind: ("unheard-of",) for kind in flowkit.INTERFACE_TYPES}


class Mute(HardwareType):
    """Can nothing but what everything can."""

    interfaces: ClassVar[Interfaces] = {"vendor": ("no-vendor",), "raid": ("no-raid",)}


class KeptWork(flowkit.InlineWorkers):
    """Workers that take what they are given and do not begin with it."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Work] = []

    def submit(
        self, fn: Callable[..., Any], *args: Any, reserved_ok: bool = True, **kwargs: Any
    ) -> Future[Any]:
        if self.full:
            raise errors.NoFreeConductorWorker()
        self.kept.append((fn, args, kwargs))
        return Future()

    def run(self) -> None:
        """Do what was kept."""
        while self.kept:
            fn, args, kwargs = self.kept.pop(0)
            fn(*args, **kwargs)


class Table:
    """The conductor of a module of cases."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.workers = KeptWork()
        world.workers = self.workers
        self.interfaces = {
            f"{kind}_interface": world.drivers.default_interface("fake-hardware", kind)
            for kind in flowkit.INTERFACE_TYPES
        }
        drivers = world.drivers
        drivers._hardware = {**drivers._hardware, "picky": Picky(), "mute": Mute()}
        drivers._interfaces = {
            **drivers._interfaces,
            "vendor": {**drivers._interfaces["vendor"], "no-vendor": noop.NoVendor()},
            "raid": {**drivers._interfaces["raid"], "no-raid": noop.NoRAID()},
        }

    def clean(self) -> None:
        """Take everything back that a case has left."""
        self.workers.kept.clear()
        self.workers.full = False
        world = self.world
        world.tasks.book = type(world.tasks.book)()
        world.allocating = type(world.allocating)()
        world.kit.offered = {kind: [] for kind in world.kit.offered}
        world.kit.results.clear()
        world.kit.ran.clear()
        with session.writer() as connection:
            for name in _TABLES:
                connection.exec_driver_sql(f"DELETE FROM {name}")

    def node(self, state: str = states.MANAGEABLE, **values: Any) -> models.Node:
        """Store a node whose interfaces are all named, as they are after its creation."""
        return self.world.node(state, **(self.interfaces | values))

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return everything that is stored but for the history, as stored."""
        with session.reader() as connection:
            return {
                name: [
                    {column: _parsed(value) for column, value in row.items()}
                    for row in connection.exec_driver_sql(f"SELECT * FROM {name}").mappings()
                ]
                for name in _TABLES
                if name != "node_history"
            }

    def answer(
        self, method: str, node: models.Node | None = None, /, **args: Any
    ) -> dict[str, Any]:
        """Call an RPC method as it comes from the wire; the answer as it goes back."""
        if node is not None:
            args["node_id"] = str(node.uuid)
        context = self.world.context.to_dict()
        reply = dispatch.answer(self.world.registry, method, json.loads(json.dumps(args)), context)
        answer: dict[str, Any] = json.loads(json.dumps(reply))
        return answer

    @contextmanager
    def scripted(self, answers: Mapping[str, Any]) -> Iterator[None]:
        """Let methods of the driver, named ``interface.method``, answer or raise."""
        with ExitStack() as stack:
            for name, answer in answers.items():
                interface, method = name.split(".")
                target = self.world.kit.interfaces[interface]
                setattr(target, method, _answering(answer))
                stack.callback(delattr, target, method)
            yield


def _parsed(value: Any) -> Any:
    """Return a value without what means nothing: the order of keys in a JSON text."""
    is_json = isinstance(value, str) and value[:1] in ("{", "[")
    return json.loads(value) if is_json else value


def _answering(answer: Any) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer(*args, **kwargs) if callable(answer) else answer

    return method


@contextmanager
def configured(values: Mapping[tuple[str, str], Any]) -> Iterator[None]:
    """Have other values of options, by (group, name)."""
    groups = {key: None if key[0] == "DEFAULT" else key[0] for key in values}
    before = {
        (group, name): CONF[name] if group == "DEFAULT" else CONF[group][name]
        for group, name in values
    }
    for key, value in values.items():
        CONF.set_override(key[1], value, group=groups[key])
    try:
        yield
    finally:
        for key, value in before.items():
            CONF.set_override(key[1], value, group=groups[key])


@pytest.fixture(scope="module")
def shared_table(empty_database: Path) -> Iterator[Table]:
    # In memory where there is such a place: a commit on a disk takes longer than a case.
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=memory))
        path = Path(directory) / "ironic.sqlite"
        world = stack.enter_context(flowkit.running_world(empty_database, path))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # Nobody gives a lock back while a case waits for it.
        patch.setattr(lock, "PATIENT_SECONDS", 0.0)
        yield Table(world)


@pytest.fixture
def table(shared_table: Table) -> Iterator[Table]:
    """The conductor of the module, with an empty database."""
    yield shared_table
    shared_table.clean()
