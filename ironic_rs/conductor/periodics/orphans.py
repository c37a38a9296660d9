"""Nodes whose worker is gone: of a dead conductor, or lost by this one.

Three ways to lose a worker, one check:

* the conductor died: its reservation is moved here by compare-and-set;
* this conductor could not end a worker properly (the database was away, the
  self-fence had tripped): the node is still reserved here, and no task holds it;
* a node rests in a transient state without any reservation.

Whatever the way, a transient state is failed with a reason (W08, W09).

Source: specification conductor.md sections 7, 10.12 and 17.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ironic_rs.conductor import failures, recovery
from ironic_rs.conductor.periodics.framework import for_each, my_rows
from ironic_rs.db import conductors as db_conductors
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

#: What changes when somebody takes a node up again.
_MOVES = ("provision_state", "provision_updated_at", "target_power_state", "updated_at")

#: State in which a ramdisk may be running -> what clears up after its flow.
_CLEAN_UPS = {
    states.CLEANING: failures.cleaning_error_handler,
    states.SERVICING: failures.servicing_error_handler,
}


class OrphanCheck:
    """One conductor's check; remembers what it saw in the pass before."""

    def __init__(self) -> None:
        self._seen: dict[str, Any] = {}

    def run(self, conductor: Conductor) -> None:
        """One pass over all three kinds of orphans."""
        take_over_dead_locks(conductor)
        adopt_own_locks(conductor)
        self._fail_strays(conductor)

    def _fail_strays(self, conductor: Conductor) -> None:
        rows = my_rows(conductor, _MOVES, recovery.STRAY)
        now = {row["uuid"]: tuple(row[name] for name in _MOVES) for row in rows}
        before, self._seen = self._seen, now
        # Unchanged since the last pass: nobody is about to take it up.
        for_each(
            conductor,
            [row for row in rows if before.get(row["uuid"]) == now[row["uuid"]]],
            lambda row: recovery.fail_stray(conductor, row["uuid"]),
        )


def take_over_dead_locks(conductor: Conductor) -> None:
    """Free the nodes that dead conductors hold, and fail what ran on them."""
    dead = set(db_conductors.offline_hosts())
    if conductor.host in dead:
        # Never touch what is our own: the keep-alive is late, nothing else.
        LOG.warning("The heartbeat of this conductor %s is late", conductor.host)
        dead.discard(conductor.host)
    if not dead:
        return
    rows = my_rows(conductor, ["reservation"], {"reserved_by_any_of": sorted(dead)})

    def one(row: Row) -> None:
        host = row["reservation"]
        if not db_nodes.take_over_lock(row["id"], host, conductor.host):
            return
        LOG.warning("Node %s: lock of the dead conductor %s taken over", row["uuid"], host)
        _settle_own(conductor, row, f"conductor {host}, which worked on it, is not alive any more")

    for_each(conductor, rows, lambda row: _tolerant(row["uuid"], lambda: one(row)))


def adopt_own_locks(conductor: Conductor) -> None:
    """Settle the nodes that are reserved here while no task holds them."""
    rows = db_nodes.select(["id", "uuid"], {"reservation": conductor.host})

    for_each(
        conductor,
        [row for row in rows if not conductor.tasks.book.is_held(row["uuid"])],
        lambda row: _tolerant(
            row["uuid"],
            lambda: _settle_own(conductor, row, "its worker ended without recording the result"),
        ),
    )


def _settle_own(conductor: Conductor, row: Row, reason: str) -> None:
    """Settle and release a node that is reserved here while no task holds it."""
    task = conductor.tasks.adopt(admin_context(), row["uuid"], row["id"])
    if task is None:
        return
    LOG.warning("Node %s is reserved here without a worker: %s", row["uuid"], reason)
    with task:
        _settle(task, reason)


def _tolerant(uuid: str, action: Any) -> None:
    """Run an action on a node; what goes wrong with it must not end the pass."""
    try:
        action()
    except (errors.NodeLocked, errors.NodeNotFound) as exc:
        LOG.debug("Orphan check: %s", exc)
    except errors.LockLost as exc:
        LOG.error("LockLost: orphan check of node %s: %s", uuid, exc)


def _settle(task: Task, reason: str) -> None:
    """Fail what ran on a node that lost its worker; clean up where a ramdisk may run."""
    node = task.node
    what = (
        f"Operation in state '{node.provision_state}'"
        if node.provision_state in states.STUCK_STATES_TREATED_AS_FAIL
        else "Pending power operation"
    )
    message = f"{what} was aborted: {reason}."
    clean_up = _CLEAN_UPS.get(node.provision_state)
    follows = clean_up is not None
    if not recovery.fail_transient(task, message, "takeover", clean_up_follows=follows):
        return
    if clean_up is not None:
        try:
            task.load_driver()
        except errors.IronicError as exc:
            LOG.error("Node %s: no clean-up without its driver: %s", node.uuid, exc)
            recovery.forget_step(task.node)
            task.save()
            return
        clean_up(task, message, set_fail_state=False)
