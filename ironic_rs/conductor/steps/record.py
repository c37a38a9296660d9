"""Step flows in the node history: which steps were started, and how it ended.

Source: specification data/reserved-steps.json (flows_logged_to_history).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.domain import states, steps
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

STARTED = "started"
COMPLETED = "completed"
ABORTED = "aborted"

_FLOWS = {"deploy": "deployment", "service": "servicing"}
_SHOWN = ("interface", "step", "args", "priority")


def flow_name(task: Task, kind: StepKind) -> str:
    """Return ``manual_cleaning``, ``automated_cleaning``, ``deployment`` or ``servicing``."""
    if kind is steps.CLEAN:
        manual = task.node.target_provision_state == states.MANAGEABLE
        return "manual_cleaning" if manual else "automated_cleaning"
    return _FLOWS[kind.name]


def shown(step: Step) -> Step:
    """Return what people need to see of a step, its secrets masked."""
    short = {key: step[key] for key in _SHOWN if step.get(key)}
    masked: Step = strutils.mask_dict_password(short)
    return masked


def step_flow(task: Task, kind: StepKind, outcome: str) -> None:
    """Record the start or the end of a step flow, with its plan (secrets masked).

    Must run while the plan is still stored (W25).
    """
    if not (CONF.conductor.record_step_flows_in_history or CONF.conductor.log_step_flows_to_syslog):
        return
    flow = flow_name(task, kind)
    plan = task.node.driver_internal_info.get(kind.steps_key) or []
    text = f"StepFlow {flow} {outcome}: {json.dumps([shown(step) for step in plan])}"
    if CONF.conductor.log_step_flows_to_syslog:
        LOG.info("Node %s: %s", task.node.uuid, text)
    if CONF.conductor.record_step_flows_in_history:
        suffix = "start" if outcome == STARTED else "end"
        task.history(text, f"{flow}_{suffix}", error=False)
