"""Steps that a parent node's flow executes on its child nodes.

Source: specification conductor.md sections 9.5 and 10.16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor.steps import reserved
from ironic_rs.conf import CONF
from ironic_rs.db import nodes
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

_WAITS = frozenset({states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT})


def run(task: Task, kind: StepKind, step: Step) -> str | None:
    """Run a step on the child nodes, one after the other.

    :returns: None when all are done, else the first result that is no success.
    :raises NodeLocked: a child is busy; the children before it have run the step.
    :raises InvalidParameterValue: the step can not run on children.
    """
    reserved.refuse_pause(step)
    limit = step.get("limit_child_node_execution")
    for uuid in nodes.child_uuids(str(task.node.uuid)):
        if limit and uuid not in limit:
            continue
        LOG.info("Node %s: step %s on child %s", task.node.uuid, steps.step_id(step), uuid)
        with task.tasks.acquire(task.context, uuid, purpose="execute step") as child:
            result = _run_on(child, kind, step)
        if result is not None:
            return result
    return None


def _run_on(child: Task, kind: StepKind, step: Step) -> str | None:
    if reserved.run_power(child, step):
        return None
    interface = getattr(child.driver, step["interface"])
    if kind is steps.SERVICE:
        result: str | None = interface.execute_service_step(child, step)
    else:
        result = interface.execute_clean_step(child, step)
    if result in _WAITS:
        if CONF.conductor.permit_child_node_step_async_result:
            return None
        # The parent would wait for a call-back that only the child gets.
        raise errors.InvalidState(
            f"Step {steps.step_id(step)} on child node {child.node.uuid} did not end by "
            f"itself but returned '{result}'; [conductor]permit_child_node_step_async_result "
            "allows that."
        )
    return result
