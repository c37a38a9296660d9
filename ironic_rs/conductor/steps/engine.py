"""The loop that runs clean, deploy and service steps.

One loop for the three kinds: what differs is data (:mod:`ironic_rs.domain.steps`)
and the few functions of a :class:`StepFlow`.

Source: specification conductor.md section 9.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import healing
from ironic_rs.conductor.steps import children, events, plan, record, reserved
from ironic_rs.domain import errors, steps
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

_NEXT = "next"
_STOP = "stop"


@dataclass(frozen=True)
class StepFlow:
    """What the loop asks of the flow that uses it.

    :param kind: data of the kind.
    :param finish: everything after the last step; must end the flow by an event.
    :param fail: error handler ``(task, message)``; must move to the failed state.
    :param collect_logs: fetch the ramdisk's logs after a failed step, never raises.
    """

    kind: StepKind
    finish: Callable[[Task], None]
    fail: Callable[[Task, str], None]
    collect_logs: Callable[[Task], None]


def run(task: Task, flow: StepFlow, index: int | None) -> None:
    """Run the plan from ``index`` until the flow waits, holds, ends or fails.

    Never raises for a failing machine: the flow's error handler has been called
    then.  ``LockLost`` propagates.

    :param index: position of the first step to run; None: the plan is done.
    """
    kind = flow.kind
    try:
        while index is not None:
            # The list is read anew each turn: a step may have replaced it.
            steps_now = task.node.driver_internal_info.get(kind.steps_key) or []
            if index >= len(steps_now):
                break
            step = dict(steps_now[index])
            _begin(task, kind, step, index)
            if _turn(task, flow, step) == _STOP:
                return
            index = _after(task, kind)
        LOG.info("Node %s: all %s steps done", task.node.uuid, kind.name)
        flow.finish(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        # The flow itself broke, not a step of the driver.
        LOG.exception("Node %s: unexpected error in %s", task.node.uuid, kind.label)
        flow.fail(
            task,
            f"Unexpected error in {kind.label} of node {task.node.uuid}: {errors.reason(exc)}",
        )


def _begin(task: Task, kind: StepKind, step: Step, index: int) -> None:
    """Save the step as the running one: it can not be lost or run twice."""
    node = task.node
    setattr(node, kind.field, step)
    node.driver_internal_info[kind.index_key] = index
    node.driver_internal_info.pop(kind.polling_flag, None)
    task.save()
    LOG.info("Node %s: %s step %s: %s", node.uuid, kind.name, index, steps.step_id(step))


def _after(task: Task, kind: StepKind) -> int:
    """Return the position after the step that has just been done."""
    if not getattr(task.node, kind.field):
        return 0  # the step made a new plan
    return (task.node.driver_internal_info.get(kind.index_key) or 0) + 1


def _turn(task: Task, flow: StepFlow, step: Step) -> str:
    """Run one step and decide; returns _NEXT or _STOP."""
    kind = flow.kind
    try:
        doing = f"{kind.name} step {steps.step_id(step)}"
        if step.get("execute_on_child_nodes"):
            with healing.within(task, doing):
                result = children.run(task, kind, step)
        elif step.get("step") in steps.RESERVED:
            with healing.within(task, doing):
                return _NEXT if reserved.run(task, kind, step) else _STOP
        else:
            interface = getattr(task.driver, step["interface"])
            with healing.within(task, doing, agent=not _expects_silence(task, kind)):
                result = getattr(interface, f"execute_{kind.name}_step")(task, step)
    except errors.LockLost:
        raise
    except errors.AgentInProgress as exc:
        LOG.info("Node %s: agent is busy, trying the step again later: %s", task.node.uuid, exc)
        return _try_again_later(task, kind)
    except errors.AgentConnectionFailed as exc:
        if _expects_silence(task, kind):
            LOG.info("Node %s: no agent yet, waiting for it: %s", task.node.uuid, exc)
            return _try_again_later(task, kind)
        return _failed(task, flow, step, exc)
    except Exception as exc:
        return _failed(task, flow, step, exc)

    if task.node.provision_state == kind.failed:
        LOG.info("Node %s: step %s has failed the flow", task.node.uuid, steps.step_id(step))
        return _STOP
    if result is None:
        return _NEXT
    if result == kind.wait:
        LOG.info("Node %s: step %s goes on by itself", task.node.uuid, steps.step_id(step))
        # A driver may have moved the node to the wait state itself.
        if task.node.provision_state != kind.wait:
            events.fire(task, kind, "wait")
        else:
            task.save()
        return _STOP
    record.step_flow(task, kind, record.ABORTED)
    flow.fail(
        task,
        f"Step {steps.step_id(step)} of {kind.label} of node {task.node.uuid} returned an "
        f"invalid result: {result!r} (step {record.shown(step)}).",
    )
    return _STOP


def _expects_silence(task: Task, kind: StepKind) -> bool:
    """Tell whether a lost connection is part of the plan."""
    info = task.node.driver_internal_info
    if info.get(kind.reboot_flag):
        return True
    # A deployment may start right after an inspection, before the first heartbeat.
    return kind is steps.DEPLOY and not info.get("agent_url")


def _try_again_later(task: Task, kind: StepKind) -> str:
    task.node.driver_internal_info[kind.skip_flag] = False
    events.fire(task, kind, "wait")
    return _STOP


def _failed(task: Task, flow: StepFlow, step: Step, exc: Exception) -> str:
    kind = flow.kind
    if task.node.provision_state == kind.failed:
        LOG.info("Node %s: step %s has failed the flow", task.node.uuid, steps.step_id(step))
        return _STOP
    known = isinstance(exc, errors.IronicError)
    LOG.error(
        "Node %s: %s step %s failed: %s",
        task.node.uuid,
        kind.name,
        steps.step_id(step),
        exc,
        exc_info=not known,
    )
    flow.collect_logs(task)
    record.step_flow(task, kind, record.ABORTED)
    reason = errors.reason(exc)
    flow.fail(
        task,
        f"Node {task.node.uuid} failed {kind.name} step {steps.step_id(step)} "
        f"({record.shown(step)}): {reason}",
    )
    return _STOP


def continue_plan(task: Task, flow: StepFlow) -> None:
    """Go on after the running step: next index, then the loop."""
    run(task, flow, plan.next_index(task.node, flow.kind))
