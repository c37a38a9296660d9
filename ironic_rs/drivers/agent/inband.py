"""Steps that the ramdisk runs: their list, their start, and what came of them.

Source: specification conductor.md sections 8.6 and 17 (W17, W21), drivers.md
sections 9.2 and 9.3, agent-protocol.md section 7; field case 64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import timeutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import Step, StepKind
from ironic_rs.drivers.agent import client, raid_result, ramdisk
from ironic_rs.drivers.agent.client import AgentClient, Command

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

#: driver_internal_info key: the step that was sent to the agent.  An agent whose
#: command list is empty has been restarted; this tells whether a step died with it.
_SENT = "agent_step_sent"

_FAILURES: Mapping[str, type[errors.IronicError]] = {
    "clean": errors.NodeCleaningFailure,
    "deploy": errors.InstanceDeployFailure,
    "service": errors.NodeServicingFailure,
}

#: In-band clean step -> option of [deploy] that replaces its priority.  Steps of the
#: same name in other flows keep theirs: a deployment must not erase what it wrote.
_PRIORITY_OPTIONS: Mapping[tuple[str, str], str] = {
    ("deploy", "erase_devices"): "erase_devices_priority",
    ("deploy", "erase_devices_metadata"): "erase_devices_metadata_priority",
    ("raid", "delete_configuration"): "delete_configuration_priority",
    ("raid", "create_configuration"): "create_configuration_priority",
}

#: Interface -> what writes the result of its in-band steps to the node.
_KEEPERS: Mapping[str, Callable[[Task, StepKind, Step, Mapping[str, Any]], None]] = {
    "raid": raid_result.keep,
}


def _failure(task: Task, kind: StepKind, reason: str) -> errors.IronicError:
    return _FAILURES[kind.name](node=task.node.uuid, reason=reason)


def refresh(task: Task, kind: StepKind) -> bool:
    """Ask the agent for its steps and cache them on the node (not saved).

    :returns: False when the agent is busy: the cache is as it was, the next heartbeat
        asks again.
    :raises AgentConnectionFailed: no answer.
    :raises NodeCleaningFailure, InstanceDeployFailure, NodeServicingFailure: the
        answer lacks something.
    """
    node = task.node
    try:
        command = AgentClient(node).get_steps(kind, task.ports)
    except errors.AgentInProgress as exc:
        LOG.info("Node %s: steps are fetched later: %s", node.uuid, exc)
        return False
    except errors.AgentAPIError as exc:
        if kind is not steps.SERVICE:
            raise
        LOG.warning("Node %s: the ramdisk offers no service steps: %s", node.uuid, exc)
        command = {"command_result": {"service_steps": {}, "hardware_manager_version": {}}}
    name = f"{kind.name}_steps"
    result = command.get("command_result")
    if not isinstance(result, Mapping):
        raise _failure(task, kind, f"the agent did not return {name}: {client.error_text(command)}")
    missing = [key for key in (name, "hardware_manager_version") if key not in result]
    if missing:
        raise _failure(task, kind, f"the agent's answer lacks {', '.join(missing)}")
    info = node.driver_internal_info
    info[kind.cached_key] = _grouped(task, kind, result[name])
    info[f"{kind.cached_key}_refreshed"] = timeutils.utcnow().isoformat()
    info["hardware_manager_version"] = result["hardware_manager_version"]
    return True


def _grouped(task: Task, kind: StepKind, by_manager: Any) -> dict[str, list[Step]]:
    """Check the steps of all hardware managers and group them by interface."""
    if not isinstance(by_manager, Mapping):
        raise _failure(task, kind, f"the agent's {kind.name} steps are not grouped by manager")
    grouped: dict[str, list[Step]] = {}
    for found in by_manager.values():
        for step in found:
            missing = [key for key in ("interface", "step", "priority") if key not in step]
            if missing:
                raise _failure(task, kind, f"in-band step {step} lacks {', '.join(missing)}")
            if kind is steps.CLEAN:
                step["requires_ramdisk"] = True
            # As for the steps of the conductor: only a deployment may be broken off.
            step.setdefault("abortable", kind is steps.DEPLOY)
            grouped.setdefault(step["interface"], []).append(step)
    return grouped


def cached(task: Task, kind: StepKind, interface: str) -> list[Step]:
    """Return the cached in-band steps of an interface, priorities of cleaning overridden."""
    found = task.node.driver_internal_info.get(kind.cached_key) or {}
    options = _PRIORITY_OPTIONS if kind is steps.CLEAN else {}
    result = []
    for step in found.get(interface, ()):
        option = options.get((interface, step["step"]))
        priority = CONF.deploy[option] if option else None
        result.append(dict(step) if priority is None else {**step, "priority": priority})
    return result


def execute(task: Task, kind: StepKind, step: Step, **node_values: Any) -> str:
    """Start an in-band step; returns the wait state of the kind.

    :param node_values: columns of the node that the ramdisk is to see changed.
    :raises AgentConnectionFailed, AgentInProgress: not now (the engine waits).
    :raises AgentAPIError: the agent refused.
    """
    AgentClient(task.node).execute_step(kind, step, task.ports, **node_values)
    task.node.driver_internal_info[_SENT] = steps.step_id(step)
    return kind.wait


def process_next_step(task: Task, kind: StepKind) -> bool:
    """Look at what the agent has done and go on if something is to be done.

    :returns: False when there is nothing to do but wait; nothing was saved then.
    """
    node = task.node
    commands = AgentClient(node).commands()
    own = f"get_{kind.name}_steps"
    if all(command.get("command_name") == own for command in commands):
        return _freshly_booted(task, kind)
    last = commands[-1]
    if _is_put_off(task, kind):
        if last.get("command_status") == client.RUNNING:
            return False
        task.flows.resume(kind.name)
        return True
    if last.get("command_name") != f"execute_{kind.name}_step":
        LOG.debug("Node %s: the agent's last command is no %s step", node.uuid, kind.name)
        return False
    status = last.get("command_status")
    if status == client.RUNNING:
        return False
    if status == client.SUCCEEDED:
        return _succeeded(task, kind, last)
    if status in client.VERSION_MISMATCH:
        _versions_differ(task, kind)
    elif status == client.FAILED:
        _fail(task, kind, client.error_text(last))
    else:
        _fail(task, kind, f"the agent returned an unknown status: {status}")
    return True


def _current(task: Task, kind: StepKind) -> Step:
    step: Step = getattr(task.node, kind.field) or {}
    return step


def _is_put_off(task: Task, kind: StepKind) -> bool:
    """Tell whether the running step has still to be started: the agent was busy then."""
    info = task.node.driver_internal_info
    to_be_run = info.get(kind.skip_flag) is False and not info.get(kind.reboot_flag)
    return to_be_run and not _was_sent(task, kind)


def _was_sent(task: Task, kind: StepKind) -> bool:
    """Tell whether the running step is the one that was last sent to the agent."""
    sent = task.node.driver_internal_info.get(_SENT)
    return sent is not None and sent == steps.step_id(_current(task, kind))


def _freshly_booted(task: Task, kind: StepKind) -> bool:
    info = task.node.driver_internal_info
    rebooted = info.pop(kind.reboot_flag, None)
    was_sent = _was_sent(task, kind)
    info.pop(_SENT, None)
    if not rebooted and was_sent:
        # Going on would take a half-written disk for a good one.
        _fail(task, kind, "the agent was restarted while the step was running")
        return True
    task.flows.resume(kind.name)
    return True


def _succeeded(task: Task, kind: StepKind, command: Command) -> bool:
    node = task.node
    result = command.get("command_result")
    if not isinstance(result, Mapping):
        result = {}
    done = result.get(f"{kind.name}_step")
    current = _current(task, kind)
    if not steps.step_id(done) and _was_sent(task, kind):
        # Nothing more will come of it: better a failure now than at the end of the wait.
        _fail(task, kind, "the agent did not say what it has done")
        return True
    if steps.step_id(done) != steps.step_id(current):
        LOG.debug(
            "Node %s: the agent has done %s, %s is not started yet",
            node.uuid,
            steps.step_id(done),
            steps.step_id(current),
        )
        return False
    node.driver_internal_info.pop(_SENT, None)
    keep = _KEEPERS.get(str(current.get("interface")))
    if keep is not None:
        try:
            keep(task, kind, current, result)
        except errors.IronicError as exc:
            _fail(task, kind, f"The step has succeeded, but {exc}")
            return True
    if current.get("reboot_requested"):
        _reboot(task, kind)
    else:
        task.flows.resume(kind.name)
    return True


def _reboot(task: Task, kind: StepKind) -> None:
    """Reboot into the ramdisk again, as the step asked for."""
    try:
        steps.set_flags(task.node, reboot=True, kind=kind)
        ramdisk.reboot_to_finish_step(task)
        task.save()
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: reboot after a step failed", task.node.uuid)
        _fail(task, kind, f"the reboot after the step failed: {exc}", logs=False)


def _versions_differ(task: Task, kind: StepKind) -> None:
    """The hardware managers changed since the steps were listed: list them again."""
    node = task.node
    LOG.info("Node %s: the hardware managers of the ramdisk changed", node.uuid)
    info = node.driver_internal_info
    info.pop(_SENT, None)
    try:
        refresh(task, kind)
        if _current(task, kind).get("abort_after"):
            LOG.info("Node %s: %s is aborted, not started over", node.uuid, kind.label)
        elif kind is steps.CLEAN and node.target_provision_state != states.MANAGEABLE:
            # Automated cleaning starts over with the new list.
            task.flows.set_steps(kind.name, reset_current=True)
        else:
            info[kind.skip_flag] = False
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: the steps could not be listed again", node.uuid)
        _fail(task, kind, f"the hardware managers changed, and then: {exc}")
        return
    task.flows.resume(kind.name)


def _fail(task: Task, kind: StepKind, reason: str, *, logs: bool = True) -> None:
    task.flows.fail(
        kind.name,
        f"{kind.name.capitalize()} step {steps.step_id(_current(task, kind))} failed on node "
        f"{task.node.uuid}. {reason}",
        collect_logs=logs,
    )
