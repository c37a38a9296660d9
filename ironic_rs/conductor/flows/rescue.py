"""Rescue and unrescue.

Source: specification conductor.md section 10.11, defect W12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import advice, failures, healing
from ironic_rs.domain import errors, secrets, states, steps

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def do_node_rescue(task: Task) -> None:
    """Boot the rescue ramdisk; the node is in state ``rescuing``."""
    try:
        with healing.within(task, "rescue"):
            result = task.driver.rescue.rescue(task)
        if result not in (states.RESCUEWAIT, states.RESCUE):
            raise errors.InstanceRescueFailure(
                instance=task.node.instance_uuid,
                node=task.node.uuid,
                reason=f"the driver returned {result!r}, which is no result of a rescue",
            )
    except errors.LockLost:
        raise
    except Exception as exc:
        secrets.forget_rescue_password(task.node)
        _failed(task, "rescue", exc)
        return
    if result == states.RESCUEWAIT:
        task.event("wait")
        return
    secrets.forget_rescue_password(task.node)
    task.event("done")


def continue_node_rescue(task: Task) -> None:
    """The rescue ramdisk is ready: hand it to the tenant's network."""
    task.event("resume")
    try:
        task.driver.rescue.clean_up(task)
        task.check_lock()
        task.driver.network.configure_tenant_networks(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: rescue could not be finished", task.node.uuid)
        failures.rescuing_error_handler(
            task, f"Failed to finish the rescue of node {task.node.uuid}: {errors.reason(exc)}"
        )
        return
    secrets.forget_rescue_password(task.node)
    task.event("done")


def do_node_unrescue(task: Task) -> None:
    """Boot the instance again; the node is in state ``unrescuing``."""
    try:
        with healing.within(task, "unrescue"):
            result = task.driver.rescue.unrescue(task)
        if result != states.ACTIVE:
            raise errors.InstanceUnrescueFailure(
                instance=task.node.instance_uuid,
                node=task.node.uuid,
                reason=f"the driver returned {result!r} instead of '{states.ACTIVE}'",
            )
    except errors.LockLost:
        raise
    except Exception as exc:
        _failed(task, "unrescue", exc)
        return
    steps.wipe_token_and_url(task.node)
    task.event("done")


def _failed(task: Task, what: str, exc: Exception) -> None:
    known = isinstance(exc, errors.IronicError)
    LOG.error("Node %s: %s failed: %s", task.node.uuid, what, exc, exc_info=not known)
    reason = errors.reason(exc)
    advice.tell(task, f"Failed to {what} node {task.node.uuid}: {reason}", "rescue")
    failures.fail(task)
