"""Reserved steps: what the conductor does itself, for every kind of flow.

Source: specification data/reserved-steps.json, defects W03 and W05.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor.flows import power
from ironic_rs.conductor.steps import events
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

_POWER = {
    "power_on": states.POWER_ON,
    "power_off": states.POWER_OFF,
    "reboot": states.REBOOT,
}
#: After these the ramdisk boots anew: lost contact means "wait", not "fail".
_BOOTS = ("power_on", "reboot")


def run_power(task: Task, step: Step) -> bool:
    """Run a reserved power step on the task's node; False if the step is none."""
    action = _POWER.get(step["step"])
    if action is None:
        return False
    power.node_power_action(task, action)
    return True


def run(task: Task, kind: StepKind, step: Step) -> bool:
    """Run a reserved step of the flow.

    :returns: True when the flow goes on with the next step, False when the worker
        ends here (hold, or wait for a call-back).
    """
    if run_power(task, step):
        if step["step"] in _BOOTS:
            task.node.driver_internal_info[kind.reboot_flag] = True
        return True
    if step["step"] == "hold":
        events.fire(task, kind, "hold")
        return False
    return _wait(task, kind, step)


def _wait(task: Task, kind: StepKind, step: Step) -> bool:
    seconds = (step.get("args") or {}).get("seconds")
    events.fire(task, kind, "wait")
    if seconds is None:
        return False
    seconds = int(seconds)
    limit = CONF.conductor.max_conductor_wait_step_seconds
    if seconds > limit:
        task.history(
            f"The wait step asks for {seconds} seconds, which is over the limit of "
            f"[conductor]max_conductor_wait_step_seconds: waiting for {limit} seconds.",
            kind.wait,
            error=False,
        )
        seconds = limit
    LOG.info("Node %s: %s waits for %s seconds", task.node.uuid, kind.label, seconds)
    time.sleep(seconds)
    events.fire(task, kind, "resume")
    return True


def refuse_pause(step: Step) -> None:
    """Refuse hold and wait on child nodes.

    :raises InvalidParameterValue: children have no flow that could pause.
    """
    if step["step"] in ("hold", "wait"):
        raise errors.InvalidParameterValue(
            f"Step {step['step']} can not be executed on child nodes."
        )
