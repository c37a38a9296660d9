"""Verification: from enroll to manageable.

Source: specification conductor.md section 10.4, defect W47.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import advice, failures
from ironic_rs.conductor.flows import cache, power
from ironic_rs.conductor.steps import collect
from ironic_rs.domain import errors, steps

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def do_node_verify(task: Task) -> None:
    """Check the power credentials, run the verify steps, and decide."""
    node = task.node
    try:
        task.driver.power.validate(task)
        power_state = power.real_power_state(task)
        # Steps may change the machine: never without working credentials (W47).
        for step in collect.verify_steps(task):
            # Nothing is saved between the steps that would notice a lost lock.
            task.check_lock()
            _run_step(task, step)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.error(
            "Node %s failed verification: %s",
            node.uuid,
            exc,
            exc_info=not isinstance(exc, errors.IronicError),
        )
        advice.tell(task, f"Failed to verify node {node.uuid}: {errors.reason(exc)}", "verify")
        failures.fail(task)
        return
    cache.update(task)
    node = task.node
    if power_state != node.power_state:
        LOG.info(
            "Node %s: power state corrected from %s to %s",
            node.uuid,
            node.power_state,
            power_state,
        )
        stored, node.power_state = node.power_state, power_state
        task.event("done")
        task.conductor.news.power_corrected(task, stored)
        return
    task.event("done")


def _run_step(task: Task, step: steps.Step) -> None:
    LOG.info("Node %s: verify step %s", task.node.uuid, steps.step_id(step))
    try:
        getattr(task.driver, step["interface"]).execute_verify_step(task, step)
    except errors.LockLost:
        raise
    except Exception as exc:
        raise errors.NodeVerifyFailure(
            node=task.node.uuid, reason=f"verify step {steps.step_id(step)}: {errors.reason(exc)}"
        ) from exc
