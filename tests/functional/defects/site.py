"""A site for tests: the REST API over a real conductor with scripted machines.

Locks, worker pools, RPC and SQLite are the real ones; a test writes down what the
machines offer and answer (:class:`tests.harness.scripted.Kit`) and calls the periodic
tasks of the conductor by their names, instead of waiting for them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from ironic_rs.conductor.periodics import tasks
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, models, nodes, session
from ironic_rs.domain import states
from ironic_rs.drivers.interface import BaseInterface
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.harness import Answer, Client
from tests.harness.scripted import Kit, KitRegistry
from tests.harness.servers import wait_until

HOST = "cond-a"
TOKEN = "t" * 43
WAIT = 30.0


def scripted(host: str, transport: DirectTransport, kit: Kit) -> Conductor:
    """A conductor, not started, whose machines are those of the kit."""
    made = Conductor(host, transport)
    made.drivers = KitRegistry(CONF)
    made.drivers.kit = kit
    return made


class Site:
    """One conductor, and a client of the API.

    :ivar kit: what the machines offer, answer and have been asked.
    :ivar power: power state by node uuid, as the BMC tells it; a node that is not in
        there has the stored one.
    """

    def __init__(self, api: Client, conductor: Conductor, kit: Kit) -> None:
        self.api, self.conductor, self.kit = api, conductor, kit
        self.context = admin_context()
        #: Periodic tasks by name, those of interfaces as ``Class.method``.
        self.periodics = {task.name: task for task in tasks.collect(conductor)}

    # Nodes

    def enroll(self, **body: Any) -> str:
        """Create a node by the API; return its uuid."""
        answer = self.api.post("/v1/nodes", {"driver": "fake-hardware", **body})
        assert answer.status == 201, answer.body
        return str(answer.body["uuid"])

    def node(self, state: str = states.MANAGEABLE, **values: Any) -> str:
        """Store a node that has got somewhere already; return its uuid."""
        info = {"agent_secret_token": TOKEN, **values.pop("driver_internal_info", {})}
        row: dict[str, Any] = {
            "driver": "fake-hardware",
            "provision_state": state,
            "target_provision_state": states.STATES[state].target,
            "power_state": states.POWER_ON,
            "driver_internal_info": info,
        }
        return str(nodes.create(row | values).uuid)

    def shown(self, uuid: str) -> dict[str, Any]:
        """The node as the API shows it."""
        answer = self.api.get(f"/v1/nodes/{uuid}")
        assert answer.status == 200, answer.body
        return dict(answer.body)

    def listed(self, *fields: str) -> list[dict[str, Any]]:
        """These fields of all nodes, children included."""
        query = f"fields=uuid,{','.join(fields)}&include_children=true"
        return list(self.api.get(f"/v1/nodes?{query}").body["nodes"])

    def stored(self, uuid: str) -> models.Node:
        """The record, with what the API does not show."""
        return nodes.get(uuid)

    def history(self, uuid: str) -> list[dict[str, Any]]:
        """The node's history in full, oldest first."""
        answer = self.api.get(f"/v1/nodes/{uuid}/history?detail=true")
        assert answer.status == 200, answer.body
        return sorted(answer.body["history"], key=lambda row: str(row["created_at"]))

    # Requests

    def settle(self) -> None:
        """Wait until no worker runs and no node is held by one."""
        assert self.conductor.tasks.book.wait_empty(WAIT), "a worker does not end"
        assert self.conductor.workers.wait(WAIT), "a worker does not end"

    def ask(self, uuid: str, target: str, **more: Any) -> Answer:
        """Ask for a provision state; the answer, whatever it is."""
        path = f"/v1/nodes/{uuid}/states/provision"
        return self.api.put(path, {"target": target, **more})

    def provision(self, uuid: str, target: str, **more: Any) -> dict[str, Any]:
        """Ask for a provision state, wait for the worker, return the node."""
        answer = self.ask(uuid, target, **more)
        assert answer.status == 202, answer.body
        self.settle()
        return self.shown(uuid)

    def power(self, uuid: str, target: str, **more: Any) -> dict[str, Any]:
        """Ask for a power state, wait for the worker, return the node."""
        answer = self.api.put(f"/v1/nodes/{uuid}/states/power", {"target": target, **more})
        assert answer.status == 202, answer.body
        self.settle()
        return self.shown(uuid)

    def beat(self, uuid: str, url: str = "https://192.0.2.5", **more: Any) -> Answer:
        """A heartbeat of the node's ramdisk; its worker has ended on return."""
        body = {"callback_url": url, "agent_version": "13", "agent_token": TOKEN, **more}
        answer = self.api.post(f"/v1/heartbeat/{uuid}", body)
        self.settle()
        return answer

    def cast(self, kind: str, uuid: str) -> None:
        """What a driver sends when a flow may go on; accepted at once."""
        self.conductor.rpc.continue_node(self.context, self.stored(uuid), kind)

    def becomes(self, uuid: str, **fields: Any) -> dict[str, Any]:
        """Wait until the API shows these values and nobody holds the node."""

        def there() -> dict[str, Any] | None:
            node = self.shown(uuid)
            wanted = {"reservation": None, **fields}
            return node if {name: node[name] for name in wanted} == wanted else None

        found = wait_until(there, f"{uuid} becomes {fields}", WAIT, 0.01)
        assert isinstance(found, dict)
        return found

    # The conductor

    def tick(self, name: str) -> None:
        """Run a periodic task once."""
        self.periodics[name].run(self.conductor)

    def tick_all(self) -> None:
        """Run every periodic task once."""
        for name in self.periodics:
            self.tick(name)

    @contextlib.contextmanager
    def held(self, uuid: str) -> Iterator[None]:
        """The node is locked by other work of the conductor."""
        with self.conductor.tasks.acquire(self.context, uuid, purpose="other work"):
            yield

    def install(self, interface: BaseInterface) -> None:
        """Give the machines another interface, its periodic tasks included."""
        self.kit.interfaces[interface.interface_type] = interface
        found = {task.name: task for task in tasks.of_interfaces([interface])}
        self.periodics.update(found)

    @contextlib.contextmanager
    def no_worker(self, *, reserved: bool = False) -> Iterator[None]:
        """Every worker of the conductor is busy.

        :param reserved: those that are kept for the requests of users are free.
        """
        gate = threading.Event()
        workers = self.conductor.workers
        pools = [workers.normal] if reserved else workers._pools()
        for pool in pools:
            for _ in range(pool.size - pool.busy):
                pool.submit(gate.wait)
        try:
            yield
        finally:
            gate.set()
            assert self.conductor.workers.wait(WAIT)


def age(uuid: str, seconds: int, column: str = "provision_updated_at") -> None:
    """Make a node wait for so long already."""
    _write(
        f"UPDATE nodes SET {column} = datetime('now', :ago) WHERE uuid = :uuid",
        ago=f"-{seconds} seconds",
        uuid=uuid,
    )


def dead_conductor(host: str) -> None:
    """Register a conductor that has not been heard of for an hour (but is 'online')."""
    conductors.register(host, ["fake-hardware"], update_existing=True)
    CONF.set_override("heartbeat_timeout", 1800, group="conductor")
    _write(
        "UPDATE conductors SET updated_at = datetime('now', '-1 hour') WHERE hostname = :host",
        host=host,
    )


def write(uuid: str, **values: Any) -> None:
    """Change a record behind the back of everybody, as another host would."""
    nodes.update(nodes.get(uuid), values, fence=None)


def steps(*names: str, **details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Steps for ``interface.step`` names; reserved ones have no interface of their own."""
    made = []
    for name in names:
        interface, _, step = name.rpartition(".")
        made.append({"interface": interface or "deploy", "step": step, **details})
    return made


def _write(text: str, **values: Any) -> None:
    with session.writer() as connection:
        connection.execute(sa.text(text), values)
