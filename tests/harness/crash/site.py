"""One conductor of a process, on one database, as the flows of the crash tests use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, Protocol, cast

import sqlalchemy as sa

from ironic_rs.conductor.periodics import tasks
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import allocations, history, models, nodes, session
from ironic_rs.db.base import table
from ironic_rs.domain import errors, states, steps
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from tests.harness.crash import machine as fake
from tests.harness.crash.flows import NODE

LIMIT = 60.0
#: Passes of all periodics after which a node that still changes never comes to rest.
_PASSES = 12
#: Refusals of a locked node after which its lock is one that nobody gives back.
_REFUSALS = 10

_STEPS = {
    "clean": ("wipe_two", "wipe_slowly", "wipe_one"),
    "service": ("mend_one", "mend_slowly", "mend_two"),
}
_WAITS = {kind.wait: kind.name for kind in steps.KINDS.values()}
_SHOWN = (
    "provision_state",
    "target_provision_state",
    "power_state",
    "target_power_state",
    "reservation",
    "last_error",
    "maintenance",
    "fault",
    "conductor_affinity",
    "instance_uuid",
    "instance_info",
    "allocation_id",
    "console_enabled",
    "clean_step",
    "deploy_step",
    "service_step",
)


class Machine(Protocol):
    """A machine under test: what it is, and what was done to it."""

    #: Only the conductor switches it, and never when it cleans up after a failure.
    only_switched_on_request: bool

    def power(self) -> str:
        """Return the state of its power switch."""
        ...

    def calls(self) -> Counter[str]:
        """Return what was done to it so far, and how often: ``step ...``, ``power ...``."""
        ...

    def forget_calls(self) -> None:
        """Count anew."""
        ...


class Site:
    """A conductor whose parts are ready before the process is forked for its work.

    :ivar machine: what the conductor works on.
    """

    machine: Machine = cast("Machine", fake)

    def __init__(self, host: str) -> None:
        self.transport = DirectTransport()
        self.conductor = Conductor(host, self.transport)
        self.conductor.drivers.load()
        self.client = ConductorClient(self.transport, self.conductor.ring)
        self.context = admin_context()

    def open(self, database: Path) -> None:
        """Use this database from now on, in this process."""
        CONF.set_override("connection", f"sqlite:///{database}", group="database")
        session.configure()

    def serve(self) -> None:
        """Register, and serve RPC calls."""
        self.conductor._register()
        self.conductor.ring.reset()
        self.transport.serve(self.conductor.host, self.conductor.registry).start()

    # What flows ask for

    def call(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Call an RPC method for the node, and wait for its worker.

        A ramdisk may be telling that it is there: like any client, this one asks again.
        """
        for left in reversed(range(_REFUSALS)):
            try:
                getattr(self.client, method)(self.context, self.node(), *args, **kwargs)
                break
            except errors.NodeLocked:
                if not left:
                    raise
                self.settle()
        self.settle()

    def steps(self, kind: str) -> list[dict[str, str]]:
        """Return steps that a user may ask for."""
        return [{"interface": "management", "step": name} for name in _STEPS[kind]]

    def go_on(self, kind: str) -> None:
        """Drive the flow on while it waits, as the machine's end of a step does."""
        while kind in steps.KINDS and self.node().provision_state == steps.KINDS[kind].wait:
            method = f"continue_node_{kind}"
            self.conductor.registry.dispatch(method, self.context, {"node_id": NODE})
            self.settle()

    def follow(self) -> None:
        """Drive the flow on as long as the BMC works for it, by the periodics of drivers."""
        raise NotImplementedError("fake machines have no BMC")

    def settle(self) -> None:
        """Wait until no worker holds anything."""
        assert self.conductor.tasks.book.wait_empty(LIMIT), "a worker does not end"
        assert self.conductor.workers.wait(LIMIT), "a worker does not end"

    # What the database says

    @staticmethod
    def node() -> models.Node:
        return nodes.get(NODE)

    def picture(self) -> dict[str, Any]:
        """Everything about the node that matters here, as JSON values."""
        node = self.node()
        with session.reader() as connection:
            info = connection.execute(sa.select(table(models.Port).c.internal_info)).scalar()
        return {
            **{name: getattr(node, name) for name in _SHOWN},
            "vif": (info or {}).get("tenant_vif_port_id"),
            "allocations": [
                dict(row) for row in allocations.select(["uuid", "state", "node_id", "last_error"])
            ],
            "history": len(history.select(["id"], {"node_id": node.id})),
        }

    @staticmethod
    def dump() -> dict[str, list[Any]]:
        """Return all rows that a conductor writes about its nodes, by table."""
        rows: dict[str, list[Any]] = {}
        with session.reader() as connection:
            for each in models.Base.metadata.sorted_tables:
                if not each.name.startswith("conductor"):
                    found = connection.execute(sa.select(each).order_by(*each.primary_key))
                    rows[each.name] = [[str(value) for value in row] for row in found]
        return rows

    # Recovery

    def take_over(self, dead: Collection[str]) -> None:
        """Be there after the death of other conductors.

        :param dead: who is dead for as long as it takes to be sure of it; nobody: this
            conductor itself died, and starts again.
        """
        if not dead:
            self.conductor.start()
            return
        self.serve()
        rows = table(models.Conductor)
        with session.writer() as connection:
            connection.execute(
                sa.update(rows)
                .where(rows.c.hostname.in_(dead))
                .values(updated_at=sa.func.datetime("now", "-1 day"))
            )

    def come_to_rest(self) -> dict[str, Any]:
        """Run all periodics until nothing changes any more; return the picture then."""
        periodics = tasks.collect(self.conductor)
        before: dict[str, Any] | None = None
        same = 0
        for _ in range(_PASSES):
            for periodic in periodics:
                periodic.run(self.conductor)
            self.settle()
            now = self.picture()
            same = same + 1 if now == before else 0
            before = now
            # A stray node is failed by the second pass that sees it.
            if same == 2:
                return now
        raise AssertionError(f"after {_PASSES} passes of all periodics it still changes: {before}")

    def go_on_waiting(self) -> bool:
        """Let a node that waits for its machine hear of it; False when it does not wait."""
        kind = _WAITS.get(self.node().provision_state)
        if kind is None:
            return False
        self.go_on(kind)
        return True

    def leave_maintenance(self) -> None:
        """Do what an operator does with a failed cleaning before trying it again."""
        node = self.node()
        if node.maintenance:
            patch = [{"op": "replace", "path": "/maintenance", "value": False}]
            self.client.update_node(self.context, node, patch)
        if self.node().provision_state == states.CLEANFAIL:
            self.call("do_provisioning_action", "manage")


def text_of(exc: BaseException) -> str:
    """Name an error, shortly."""
    return str(exc) if isinstance(exc, errors.IronicError) else f"{type(exc).__name__}: {exc}"
