"""Nodes that lost their worker: what happens to them, whoever finds them.

A node in a transient state that no worker drives is failed, with a reason, so
that it is never stuck (conductor.md sections 6.1, 7 and 17: W08, W09).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ironic_rs.domain import errors, states

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)


def kept_target(task: Task) -> str | None:
    """Return the target that has to survive a fail event, or None.

    ``manageable`` is the only mark of a manual cleaning.
    """
    node = task.node
    manual = node.target_provision_state == states.MANAGEABLE
    return states.MANAGEABLE if manual and node.provision_state == states.CLEANING else None


def fail_transient(task: Task, text: str, event_type: str) -> bool:
    """Fail a node that rests in a transient state without a worker.

    Needs the exclusive lock.  A pending power action is aborted as well.

    :param text: why; recorded in the history and as ``last_error``.
    :param event_type: history type.
    :returns: False when there was nothing to do.
    """
    node = task.node
    stuck = node.provision_state in states.STUCK_STATES_TREATED_AS_FAIL
    if not stuck and node.target_power_state is None:
        return False
    node.target_power_state = None
    task.history(text, event_type)
    if stuck:
        task.event("fail", target_state=kept_target(task), last_error=node.last_error)
    else:
        task.save()
    return True


def worker_failed(task: Task, name: str, error: Exception) -> None:
    """Record that a worker raised: the first error is kept, no state stays transient.

    :param name: function that raised.
    :raises LockLost: nothing was written.
    """
    node = task.node
    text = f"{name} failed: {error or type(error).__name__}"
    if not isinstance(error, errors.IronicError):
        text = f"{name} failed unexpectedly: {type(error).__name__}: {error}"
    first_error = node.last_error
    if fail_transient(task, first_error or text, "UNKNOWN"):
        return
    if first_error is None:
        node.last_error = text
        task.save()
