"""Servicing: steps on an active node.

Source: specification conductor.md sections 9.5 and 10.9, defects W22 and W49.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import failures, healing
from ironic_rs.conductor.flows import abort, cache, ending
from ironic_rs.conductor.steps import engine, plan, record
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import Step

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def do_node_service(
    task: Task, service_steps: Sequence[Step], disable_ramdisk: bool | None = False
) -> None:
    """Start a servicing; the node is in state ``servicing``.

    :param service_steps: steps of the user, in the order of execution.
    """
    disable_ramdisk = bool(disable_ramdisk)
    if not _checked(task, disable_ramdisk):
        return
    node = task.node
    steps.wipe_service_info(node)
    node.driver_internal_info["service_steps"] = [dict(step) for step in service_steps]
    node.driver_internal_info["service_disable_ramdisk"] = disable_ramdisk
    cache.update(task)
    try:
        plan.set_service_steps(task, disable_ramdisk=disable_ramdisk)
        need_ramdisk = plan.needs_ramdisk(task.node.driver_internal_info["service_steps"])
        validated = True
    except errors.LockLost:
        raise
    except errors.InvalidParameterValue as exc:
        if disable_ramdisk:
            # Nobody else would ever know the step (W49).
            failures.servicing_error_handler(task, _cannot(task, exc), tear_down=False)
            return
        LOG.info("Node %s: steps are checked again with the ramdisk: %s", node.uuid, exc)
        need_ramdisk, validated = True, False
    except Exception as exc:
        failures.servicing_error_handler(task, _cannot(task, exc), tear_down=False)
        return
    if need_ramdisk and not disable_ramdisk:
        if not _ramdisk_ready(task):
            return
    else:
        task.node.driver_internal_info["service_disable_ramdisk"] = True
    if not validated:
        try:
            plan.set_service_steps(task)
        except errors.LockLost:
            raise
        except Exception as exc:
            failures.servicing_error_handler(task, _cannot(task, exc))
            return
    record.step_flow(task, steps.SERVICE, record.STARTED)
    engine.run(task, FLOW, 0)


def _cannot(task: Task, exc: Exception) -> str:
    return f"Cannot service node {task.node.uuid}: {errors.reason(exc)}"


def _checked(task: Task, disable_ramdisk: bool) -> bool:
    try:
        task.driver.deploy.switch_interface(task)
        if not disable_ramdisk:
            task.driver.power.validate(task)
            task.driver.network.validate(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        failures.servicing_error_handler(
            task,
            f"Validation of node {task.node.uuid} for servicing failed: {errors.reason(exc)}",
            tear_down=False,
        )
        return False
    return True


def _ramdisk_ready(task: Task) -> bool:
    """Boot the ramdisk; False when the flow waits for it, or has failed."""
    try:
        with healing.within(task, "preparation of servicing"):
            result = task.driver.deploy.prepare_service(task)
    except errors.LockLost:
        raise
    except errors.AgentConnectionFailed as exc:
        LOG.info("Node %s: no agent yet, waiting for it: %s", task.node.uuid, exc)
        task.event("wait")
        return False
    except Exception as exc:
        failures.servicing_error_handler(
            task, f"Failed to prepare node {task.node.uuid} for servicing: {errors.reason(exc)}"
        )
        return False
    if result == states.SERVICEWAIT:
        task.event("wait")
        return False
    return True


def begin(task: Task) -> None:
    """First heartbeat of the ramdisk: the plan is known now, run it."""
    plan.set_service_steps(task)
    record.step_flow(task, steps.SERVICE, record.STARTED)
    engine.run(task, FLOW, 0)


def continue_node_service(task: Task) -> None:
    """Go on after the running step; the node is in state ``servicing``."""
    if (task.node.service_step or {}).get("abort_after"):
        text = abort.message(task, steps.SERVICE)
        LOG.info("Node %s: %s", task.node.uuid, text)
        task.event("fail", last_error=text)
        abort.do_node_service_abort(task, leave=False)
        return
    engine.continue_plan(task, FLOW)


def _finish(task: Task) -> None:
    if ending.leave_ramdisk(
        task,
        steps.SERVICE,
        wipe=lambda: steps.wipe_service_info(task.node),
        tear_down=task.driver.deploy.tear_down_service,
        fail=failures.servicing_error_handler,
    ):
        task.event("done")


FLOW = engine.StepFlow(
    kind=steps.SERVICE,
    finish=_finish,
    fail=failures.servicing_error_handler,
    collect_logs=partial(ending.collect_logs, steps.SERVICE),
)
