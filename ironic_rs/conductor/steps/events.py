"""Machine events of a step flow, which never lose the target of the flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_rs.domain import states, steps
from ironic_rs.domain.steps import StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task


def kept_target(task: Task, kind: StepKind) -> str | None:
    """Return the target to pass with an event: ``manageable`` marks manual cleaning.

    It is the only mark of manual cleaning, so that every event of the flow must
    hand it on (conductor.md section 2.2, W05).
    """
    if kind is steps.CLEAN and task.node.target_provision_state == states.MANAGEABLE:
        return states.MANAGEABLE
    return None


def fire(task: Task, kind: StepKind, event: str, **kwargs: Any) -> None:
    """Fire an event of the kind's flow, keeping the target; arguments as ``event``."""
    task.event(event, target_state=kept_target(task, kind), **kwargs)
