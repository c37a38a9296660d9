"""Checks of the steps that users and templates ask for.

Reserved steps and steps on child nodes have no driver to ask: they pass
unchecked and stay in place, in the order given (W02).

Source: specification conductor.md section 9.2, data/reserved-steps.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor.steps import collect
from ironic_rs.domain import errors, steps
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

#: Reserved steps that pause the flow of the node itself; children have no flow.
_PAUSES = ("hold", "wait")
CORE_DEPLOY_STEP = "deploy.deploy"


def is_plain(step: Step) -> bool:
    """Tell whether the step is run by an interface of this node."""
    return step.get("step") not in steps.RESERVED and not step.get("execute_on_child_nodes")


def refuse_disallowed(kind: StepKind, wanted: Iterable[Step] | None) -> None:
    """Refuse a request that contains a forbidden step.

    :raises StepNotAllowed: one of the steps is on the disallow list.
    """
    forbidden = collect.disallowed(kind)
    for step in wanted or ():
        if steps.step_id(step) in forbidden:
            raise errors.StepNotAllowed(step=steps.step_id(step))


def _priority(step: Step) -> int:
    """Return the priority of a deploy step; digit strings count too (W23)."""
    try:
        return int(step.get("priority") or 0)
    except (TypeError, ValueError):
        raise errors.InvalidParameterValue(
            f"priority {step.get('priority')!r} of step {steps.step_id(step)} is not a number."
        ) from None


def _check_reserved(step: Step) -> list[str]:
    name = step.get("step")
    problems = []
    if step.get("execute_on_child_nodes") and name in _PAUSES:
        problems.append(f"step {name} can not be executed on child nodes")
    seconds = (step.get("args") or {}).get("seconds")
    if name == "wait" and seconds is not None:
        try:
            negative = int(seconds) < 0
        except (TypeError, ValueError):
            negative = True
        if negative:
            problems.append(f"step wait needs a number of seconds, not {seconds!r}")
    return problems


def _check_args(kind: StepKind, step: Step, known: Step) -> list[str]:
    problems = []
    argsinfo: dict[str, dict[str, Any]] = known.get("argsinfo") or {}
    given = set(step.get("args") or {})
    unexpected = given - set(argsinfo)
    if unexpected:
        problems.append(
            f"step {steps.step_id(step)} has unexpected arguments: {', '.join(sorted(unexpected))}"
        )
    if kind is not steps.DEPLOY or _priority(step) > 0:
        missing = [
            f"{name} ({info.get('description')})"
            for name, info in argsinfo.items()
            if info.get("required") and name not in given
        ]
        if missing:
            problems.append(
                f"step {steps.step_id(step)} lacks required arguments: {', '.join(missing)}"
            )
    return problems


def _check_plain(kind: StepKind, step: Step, known: Step, disable_ramdisk: bool) -> list[str]:
    problems = _check_args(kind, step, known)
    if disable_ramdisk and known.get("requires_ramdisk", True):
        problems.append(f"step {steps.step_id(step)} needs a ramdisk, which this request disables")
    if kind is steps.DEPLOY and steps.step_id(step) == CORE_DEPLOY_STEP and _priority(step) > 0:
        problems.append(
            f"step {CORE_DEPLOY_STEP} can not be overridden, only disabled by priority 0"
        )
    return problems


def _completed(kind: StepKind, step: Step, known: Step | None) -> Step:
    """Return a copy of a user's step with what the driver knows about it."""
    result = dict(step)
    if known is None:
        # Nothing runs while a flow is held or waits by itself: abort acts at once.
        result["abortable"] = step.get("step") in _PAUSES
    else:
        result["abortable"] = known.get("abortable", kind is steps.DEPLOY)
    if kind is steps.DEPLOY:
        result["priority"] = _priority(step)
        return result
    result["priority"] = known.get("priority", 0) if known else 0
    # Without it nobody knows whether the ramdisk must boot (W22).
    result["requires_ramdisk"] = known.get("requires_ramdisk", True) if known else False
    return result


def validate(
    task: Task,
    kind: StepKind,
    wanted: Sequence[Step],
    *,
    source: str,
    disable_ramdisk: bool = False,
    skip_missing: bool = False,
) -> list[Step]:
    """Check steps of a user or template and complete them from the driver's.

    :param source: where the steps come from, for the error text.
    :param skip_missing: a step that the driver does not know yet is dropped with a
        debug line (in-band steps are known only once the agent runs).
    :returns: new step dicts in the order given.
    :raises InvalidParameterValue: all problems, joined with ``; ``.
    """
    known = {}
    if any(is_plain(step) for step in wanted):
        known = {steps.step_id(step): step for step in collect.driver_steps(task, kind)}
    problems: list[str] = []
    result: list[Step] = []
    for step in wanted:
        if not is_plain(step):
            problems += _check_reserved(step)
            result.append(_completed(kind, step, None))
            continue
        match = known.get(steps.step_id(step))
        if match is None:
            if skip_missing:
                LOG.debug(
                    "Node %s does not offer %s step %s (yet)",
                    task.node.uuid,
                    kind.name,
                    steps.step_id(step),
                )
            else:
                problems.append(
                    f"node {task.node.uuid} does not support {kind.name} step {steps.step_id(step)}"
                )
            continue
        problems += _check_plain(kind, step, match, disable_ramdisk)
        result.append(_completed(kind, step, match))
    if kind is steps.DEPLOY:
        counts = Counter(steps.step_id(step) for step in wanted if is_plain(step))
        doubled = sorted(name for name, count in counts.items() if count > 1)
        if doubled:
            problems.append(f"duplicate steps: {', '.join(doubled)}")
    if problems:
        raise errors.InvalidParameterValue(
            f"Invalid {kind.name} steps in {source}: {'; '.join(problems)}."
        )
    return result
