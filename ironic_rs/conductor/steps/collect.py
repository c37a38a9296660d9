"""Which steps a node can run: those of its interfaces and of its deploy templates.

Source: specification conductor.md section 9.1 and 9.3.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import templates
from ironic_rs.domain import steps
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def _overrides(option: Iterable[Mapping[str, str]] | None) -> dict[str, int]:
    """Read a multi-valued ``interface.step:priority`` option; bad values are skipped."""
    result: dict[str, int] = {}
    for item in option or ():
        for name, value in item.items():
            if not value:
                continue
            try:
                result[name] = int(value)
            except ValueError:
                LOG.warning("Ignoring step priority override %s:%s: not a number", name, value)
    return result


def _from_interfaces(task: Task, getter: str, interface_priority: Mapping[str, int]) -> list[Step]:
    found: list[Step] = []
    for interface in interface_priority:
        implementation = getattr(task.driver, interface, None)
        if implementation is None:
            continue
        # Copies: an interface is shared by all nodes (W48).
        found.extend(copy.deepcopy(getattr(implementation, getter)(task) or []))
    return found


def driver_steps(task: Task, kind: StepKind) -> list[Step]:
    """Return all steps of the kind that the interfaces offer, unsorted.

    Priority overrides of the configuration are applied; priority 0 is kept.
    """
    found = _from_interfaces(task, f"get_{kind.name}_steps", kind.interface_priority)
    if kind is steps.CLEAN:
        overrides = _overrides(CONF.conductor.clean_step_priority_override)
        for step in found:
            if steps.step_id(step) in overrides:
                step["priority"] = overrides[steps.step_id(step)]
    return found


def enabled_driver_steps(task: Task, kind: StepKind) -> list[Step]:
    """Return the steps with a priority other than 0, in the order of execution."""
    enabled = [step for step in driver_steps(task, kind) if step.get("priority")]
    return steps.sort_steps(enabled, kind.interface_priority)


def verify_steps(task: Task) -> list[Step]:
    """Return the enabled verify steps, in the order of execution."""
    priorities = steps.VERIFY_INTERFACE_PRIORITY
    found = _from_interfaces(task, "get_verify_steps", priorities)
    overrides = _overrides(CONF.conductor.verify_step_priority_override)
    for step in found:
        step["priority"] = overrides.get(steps.step_id(step), step.get("priority", 0))
    return steps.sort_steps([s for s in found if s["priority"] > 0], priorities)


def template_steps(task: Task) -> list[Step]:
    """Return the steps of the deploy templates named by instance_info.traits."""
    names = task.node.instance_info.get("traits") or []
    if not names:
        return []
    return [
        {
            "interface": step["interface"],
            "step": step["step"],
            "args": dict(step.get("args") or {}),
            "priority": int(step["priority"]),
        }
        for template in templates.named(names)
        for step in template.steps
    ]


def disallowed(kind: StepKind) -> frozenset[str]:
    """Return the ``interface.step`` ids that the configuration forbids."""
    return frozenset(getattr(CONF.api, f"disallow_{kind.name}_steps") or ())


def without_disallowed(kind: StepKind, plan: list[Step]) -> list[Step]:
    """Drop the steps that the configuration forbids."""
    forbidden = disallowed(kind)
    return [step for step in plan if steps.step_id(step) not in forbidden]
