"""Take-over of a deployed node by a new conductor, and adoption of a foreign one.

Source: specification conductor.md section 10.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import advice, failures
from ironic_rs.conductor.flows import console, image_type
from ironic_rs.domain import capabilities, errors

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def do_takeover(task: Task) -> None:
    """Prepare on this host what the node's instance needs of a conductor.

    :raises IronicError: the driver could not; the caller records it.
    """
    LOG.info("Node %s is taken over", task.node.uuid)
    # Nothing is saved between these, so that nothing else would notice a lost lock.
    task.driver.deploy.switch_interface(task)
    task.check_lock()
    task.driver.deploy.prepare(task)
    task.check_lock()
    task.driver.deploy.take_over(task)
    console.restart(task, "takeover")
    task.node.conductor_affinity = task.conductor.conductor_id
    task.save()


def do_adoption(task: Task) -> None:
    """Take over a machine that somebody else deployed; the node is ``adopting``."""
    node = task.node
    try:
        image_type.infer(node)
        if capabilities.boot_option(task.node) != "local":
            task.driver.boot.validate(task)
        do_takeover(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        known = isinstance(exc, errors.IronicError)
        LOG.error("Node %s: adoption failed: %s", task.node.uuid, exc, exc_info=not known)
        reason = errors.reason(exc)
        failures.attempt(
            task, "restore the deploy interface", lambda t: t.driver.deploy.restore_interface(t)
        )
        # Nobody has spoken to its BMC successfully: its power state is unknown.
        task.node.power_state = None
        advice.tell(task, f"Failed to adopt node {task.node.uuid}: {reason}", "adoption")
        failures.fail(task)
        return
    task.event("done")
