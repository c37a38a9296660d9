"""What is left to do after a flow was told to abort.

The machine event has been fired; these functions run in the worker and clear the
machine up.  Failures are recorded, the state stays.

Source: specification conductor.md section 10.10, defects W15, W16 and W19.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import advice, failures, history
from ironic_rs.conductor.flows import power
from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

RESCUE_ABORTED = "Rescue was aborted on request."


def message(task: Task, kind: StepKind) -> str:
    """Return what last_error says of an aborted flow."""
    text = f"{kind.label.capitalize()} was aborted on request"
    step = getattr(task.node, kind.field)
    if step:
        text += f" during or after step {steps.step_id(step)}"
    return text + "."


def do_node_clean_abort(task: Task) -> None:
    """Clear up an aborted cleaning; the node is in state ``clean failed``."""
    text = message(task, steps.CLEAN)
    try:
        if not steps.without_ramdisk(task.node, steps.CLEAN):
            task.driver.deploy.tear_down_cleaning(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: could not tear down an aborted cleaning", task.node.uuid)
        failures.cleaning_error_handler(
            task,
            f"{text} Failed to tear down cleaning: {errors.reason(exc)}",
            tear_down=False,
            set_fail_state=False,
        )
        return
    node = task.node
    node.last_error = history.truncate_error(text)
    node.clean_step = {}
    steps.wipe_clean_info(node)
    task.driver.deploy.restore_interface(task)
    task.save()


def do_node_deploy_abort(task: Task) -> None:
    """Clear up an aborted deployment; the node is in state ``deploy failed``."""
    text = message(task, steps.DEPLOY)
    try:
        task.driver.deploy.clean_up(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: could not clean up an aborted deployment", task.node.uuid)
        failures.deploying_error_handler(
            task, f"{text} Failed to clean up: {errors.reason(exc)}", clean_up=False
        )
        return
    node = task.node
    node.last_error = history.truncate_error(text)
    node.deploy_step = {}
    steps.wipe_deploy_info(node, keep_agent=keep_agent(task))
    task.save()


def do_node_service_abort(task: Task, leave: bool = True) -> None:
    """Clear up an aborted servicing, and only then give the instance back.

    The node stays ``service failed`` while the instance is not running (W19).

    :param leave: return to ``active`` at the end; otherwise the failed state stays,
        as after an abort that had to wait for the end of a step.
    """
    text = message(task, steps.SERVICE)
    info = task.node.driver_internal_info
    try:
        if info.get("agent_start_attempted") and not task.node.disable_power_off:
            # The ramdisk must not run on beside what comes next.
            power.node_power_action(task, states.POWER_OFF)
        if not steps.without_ramdisk(task.node, steps.SERVICE):
            task.driver.deploy.tear_down_service(task)
            task.driver.boot.prepare_instance(task)
        power.node_power_action(task, states.POWER_ON)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: could not clear up an aborted servicing", task.node.uuid)
        failures.servicing_error_handler(
            task,
            f"{text} Failed to return to the instance: {errors.reason(exc)}",
            tear_down=False,
            set_fail_state=False,
        )
        return
    node = task.node
    node.service_step = {}
    steps.wipe_service_info(node)
    task.driver.deploy.restore_interface(task)
    if leave:
        task.event("abort", last_error=text)
        return
    node.last_error = history.truncate_error(text)
    task.save()


def do_node_rescue_abort(task: Task) -> None:
    """Clear up an aborted rescue; the node is in state ``rescue failed``."""
    node = task.node
    try:
        task.driver.rescue.clean_up(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: could not clean up an aborted rescue", node.uuid)
        node = task.node
        advice.tell(
            task, f"Failed to clean up after the aborted rescue: {errors.reason(exc)}", "rescue"
        )
        if not node.maintenance:
            node.maintenance = True
            node.fault = states.FAULT_RESCUE_ABORT
            node.maintenance_reason = node.last_error
        task.save()
        return
    task.history(RESCUE_ABORTED, "rescue", error=False)
    task.node.driver_internal_info.pop("agent_url", None)
    task.save()
