"""The plan of a flow: which steps, in which order, and which one comes next.

A plan lives in driver_internal_info (``<kind>_steps``, ``<kind>_step_index``) and
the running step in the column of the kind.  Nothing here saves: the caller's next
save or event writes the plan in the same UPDATE.

Source: specification conductor.md sections 9.3 and 9.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor.steps import collect
from ironic_rs.conductor.steps import validate as checks
from ironic_rs.domain import steps
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = log.getLogger(__name__)


def _store(node: models.Node, kind: StepKind, plan: list[Step], *, reset_current: bool) -> None:
    node.driver_internal_info[kind.steps_key] = plan
    if reset_current:
        node.driver_internal_info[kind.index_key] = None
        setattr(node, kind.field, {})
    else:
        _find_current(node, kind, plan)


def set_cleaning_steps(
    task: Task,
    *,
    disable_ramdisk: bool = False,
    use_existing_steps: bool = False,
    reset_current: bool = True,
) -> None:
    """Make the plan of a cleaning.

    :param use_existing_steps: check and complete the steps stored by the request or
        the runbook; otherwise the plan is what the drivers do by themselves.
    :param reset_current: start from the beginning; otherwise the running step stays
        the running step, wherever it is in the new plan.
    :raises InvalidParameterValue: an existing step is not acceptable.
    :raises NodeCleaningFailure: the steps could not be obtained.
    """
    kind = steps.CLEAN
    node = task.node
    if use_existing_steps:
        plan = checks.validate(
            task,
            kind,
            node.driver_internal_info.get(kind.steps_key) or [],
            source="the request",
            disable_ramdisk=disable_ramdisk,
        )
    else:
        plan = collect.enabled_driver_steps(task, kind)
    _store(node, kind, collect.without_disallowed(kind, plan), reset_current=reset_current)


def set_service_steps(
    task: Task, *, disable_ramdisk: bool = False, reset_current: bool = True
) -> None:
    """Check and complete the stored service steps; their order is the user's.

    :param reset_current: as :func:`set_cleaning_steps`.
    :raises InvalidParameterValue: a step is not acceptable.
    :raises NodeServicingFailure: the steps could not be obtained.
    """
    kind = steps.SERVICE
    node = task.node
    plan = checks.validate(
        task,
        kind,
        node.driver_internal_info.get(kind.steps_key) or [],
        source="the request",
        disable_ramdisk=disable_ramdisk,
    )
    _store(node, kind, collect.without_disallowed(kind, plan), reset_current=reset_current)


def check_deploy_steps(
    task: Task, user_steps: Sequence[Step] | None, *, skip_missing: bool
) -> tuple[list[Step], list[Step]]:
    """Return the checked (user steps, template steps) of a deployment.

    :param skip_missing: tolerate steps that only the running agent knows.
    :raises InvalidParameterValue: a step is not acceptable.
    """
    user = checks.validate(
        task,
        steps.DEPLOY,
        user_steps or [],
        source="the request",
        skip_missing=skip_missing,
    )
    template = checks.validate(
        task,
        steps.DEPLOY,
        collect.template_steps(task),
        source="deploy templates",
        skip_missing=skip_missing,
    )
    return user, template


def set_deployment_steps(
    task: Task, *, reset_current: bool = True, skip_missing: bool = False
) -> None:
    """Make the plan of a deployment from user, template and driver steps.

    A user step replaces a template's, and both replace the driver's of the same
    name; priority 0 only takes the driver's step out.

    :param reset_current: as :func:`set_cleaning_steps`.
    :raises InvalidParameterValue: a user or template step is not acceptable.
    :raises InstanceDeployFailure: the steps could not be obtained.
    """
    kind = steps.DEPLOY
    node = task.node
    user, template = check_deploy_steps(
        task, node.driver_internal_info.get("user_deploy_steps"), skip_missing=skip_missing
    )
    own = {steps.step_id(step) for step in user if checks.is_plain(step)}
    wanted = user + [step for step in template if steps.step_id(step) not in own]
    replaced = {steps.step_id(step) for step in wanted if checks.is_plain(step)}
    plan = [
        step
        for step in collect.enabled_driver_steps(task, kind)
        if steps.step_id(step) not in replaced
    ]
    plan += [step for step in wanted if step["priority"] > 0]
    plan = collect.without_disallowed(kind, steps.sort_steps(plan, kind.interface_priority))
    _store(node, kind, plan, reset_current=reset_current)


def _find_current(node: models.Node, kind: StepKind, plan: list[Step]) -> None:
    """Point the index at the running step in a plan that was made anew."""
    current = getattr(node, kind.field)
    if not current:
        return
    wanted = steps.step_id(current)
    index = node.driver_internal_info.get(kind.index_key)
    matches = [i for i, step in enumerate(plan) if steps.step_id(step) == wanted]
    if matches and index not in matches:
        # Reserved steps may occur more than once: the nearest is the running one.
        node.driver_internal_info[kind.index_key] = min(
            matches, key=lambda i: abs(i - (index or 0))
        )


def needs_ramdisk(plan: list[Step]) -> bool:
    """Tell whether a step of a checked plan can run only inside the ramdisk."""
    return any(checks.is_plain(step) and step.get("requires_ramdisk", True) for step in plan)


def next_index(node: models.Node, kind: StepKind) -> int | None:
    """Return the position of the step to run next; None when the plan is done.

    Consumes the skip flag and drops the polling flag.
    """
    info = node.driver_internal_info
    skip_current = info.pop(kind.skip_flag, True)
    info.pop(kind.polling_flag, None)
    plan = info.get(kind.steps_key) or []
    if not getattr(node, kind.field):
        index: int | None = 0
    else:
        index = info.get(kind.index_key)
        if index is not None and skip_current:
            index += 1
    if index is None or index >= len(plan):
        return None
    return index


def revalidate_deployment(task: Task) -> None:
    """Check the whole plan once the agent has told its steps, and complete it.

    Before there is an agent (steps of the BMC come first) nothing is checked.

    :raises InvalidParameterValue, InstanceDeployFailure: as
        :func:`set_deployment_steps`.
    """
    info = task.node.driver_internal_info
    if info.get("steps_validated") or not info.get("agent_url"):
        return
    set_deployment_steps(task, reset_current=False)
    task.node.driver_internal_info["steps_validated"] = True
