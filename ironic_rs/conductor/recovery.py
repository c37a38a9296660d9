"""Nodes that lost their worker: what happens to them, whoever finds them.

A node in a transient state that no worker drives is failed, with a reason, so
that it is never stuck (conductor.md sections 6.1, 7 and 17: W08, W09).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ironic_rs.conductor.advice import tell
from ironic_rs.conductor.flows import console
from ironic_rs.conductor.periodics.framework import for_each, my_rows
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, states, steps
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = logging.getLogger(__name__)

_CLEANING = frozenset({states.CLEANING, states.CLEANWAIT})
#: Nodes that something has to be done to, while nobody holds them: what worked on them
#: ended and could write no more, for example because the database was away.
STRAY = {"reserved": False, "on_its_way_in": states.STUCK_STATES_TREATED_AS_FAIL}


def kept_target(node: models.Node) -> str | None:
    """Return the target that has to survive a fail event, or None.

    ``manageable`` is the only mark of a manual cleaning.
    """
    manual = node.target_provision_state == states.MANAGEABLE
    return states.MANAGEABLE if manual and node.provision_state in _CLEANING else None


def forget_step(node: models.Node) -> None:
    """Forget the step that a lost worker was running (not saved): its flow is over."""
    for kind in steps.KINDS.values():
        if node.provision_state in (kind.running, kind.failed):
            setattr(node, kind.field, {})
            node.driver_internal_info.pop(kind.index_key, None)
            steps.wipe_flags(node)


def fail_transient(
    task: Task, text: str, event_type: str, *, clean_up_follows: bool = False
) -> bool:
    """Fail a node that rests in a transient state without a worker.

    Needs the exclusive lock.  A pending power action is aborted as well.

    :param text: why; recorded in the history and as ``last_error``.
    :param event_type: history type.
    :param clean_up_follows: an error handler comes next, which needs the running step.
    :returns: False when there was nothing to do.
    """
    node = task.node
    stuck = node.provision_state in states.STUCK_STATES_TREATED_AS_FAIL
    if not stuck and node.target_power_state is None:
        return False
    if node.target_power_state is not None:
        # Nobody knows whether the machine got the request: power sync takes what it
        # finds then, and undoes nothing.
        node.power_state = None
        node.target_power_state = None
    tell(task, text, event_type)
    if stuck and not clean_up_follows:
        forget_step(node)
    if stuck:
        task.event("fail", target_state=kept_target(node), last_error=node.last_error)
    else:
        task.save()
    return True


def worker_failed(task: Task, name: str, error: Exception) -> None:
    """Record that a worker raised: the first error is kept, no state stays transient.

    :param name: function that raised.
    :raises LockLost: nothing was written.
    """
    node = task.node
    unexpectedly = "" if isinstance(error, errors.IronicError) else " unexpectedly"
    text = f"{name} failed{unexpectedly}: {errors.reason(error)}"
    first_error = node.last_error
    if fail_transient(task, first_error or text, "UNKNOWN"):
        return
    if first_error is None:
        node.last_error = text
        task.save()


def free_own_locks(conductor: Conductor) -> None:
    """At start: give up every lock that this host left behind in an earlier life."""
    uuids = db_nodes.clear_own(conductor.host)
    if uuids:
        LOG.warning(
            "Locks left behind by an earlier run of conductor %s are cleared: %s",
            conductor.host,
            ", ".join(uuids),
        )


def fail_stuck_at_start(conductor: Conductor) -> None:
    """At start: fail every stray node of this conductor (W08).

    Nodes that map here later are found by the orphan check.
    """
    rows = my_rows(conductor, (), STRAY)
    for_each(conductor, rows, lambda row: fail_stray(conductor, row["uuid"]))


def restart_consoles(conductor: Conductor) -> None:
    """At start: start the consoles of this conductor's nodes that are wanted, anew.

    What shows them may have ended with the last run of the conductor, or belong to it.
    """
    rows = my_rows(conductor, (), {"reserved": False, "console_enabled": True})
    for_each(conductor, rows, lambda row: _restart_console(conductor, row["uuid"]))


def _restart_console(conductor: Conductor, uuid: str) -> None:
    try:
        with conductor.tasks.acquire(
            admin_context(), uuid, purpose="start console", retry=False
        ) as task:
            console.restart(task, "startup failure")
            task.save()
    except (errors.NodeLocked, errors.NodeNotFound) as exc:
        LOG.debug("Console at start: %s", exc)
    except errors.LockLost as exc:
        LOG.error("LockLost: console of node %s: %s", uuid, exc)
    except errors.IronicError as exc:
        LOG.error("Console of node %s at start: %s", uuid, exc)


def fail_stray(conductor: Conductor, uuid: str) -> None:
    """Fail a node that rests in a transient state, or before a power action, without a lock."""
    try:
        with conductor.tasks.acquire(
            admin_context(),
            uuid,
            purpose="node state check",
            retry=False,
            load_driver=False,
        ) as task:
            state = task.node.provision_state
            what = (
                f"State '{state}'"
                if state in states.STUCK_STATES_TREATED_AS_FAIL
                else f"Power action '{task.node.target_power_state}'"
            )
            fail_transient(
                task,
                f"{what} cannot be resumed by conductor {conductor.host}: the work on the node "
                "was interrupted.",
                "transition",
            )
    except (errors.NodeLocked, errors.NodeNotFound) as exc:
        LOG.debug("Node in a transient state: %s", exc)
    except errors.LockLost as exc:
        LOG.error("LockLost: node %s: %s", uuid, exc)
