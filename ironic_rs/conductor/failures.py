"""Error handlers: what happens to a node when a flow fails.

Every handler keeps the first error: what goes wrong while cleaning up after it is
appended, never put in its place.  Handlers need the exclusive lock and leave the
node saved.  ``LockLost`` always propagates.

Source: specification conductor.md sections 11.1 and 11.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import history
from ironic_rs.conductor.advice import last_error, tell
from ironic_rs.conductor.flows import power
from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.conductor.steps import events
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, secrets, states, steps
from ironic_rs.domain.steps import StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

NO_WORKER = "No free conductor workers available"

_DEPLOYING = frozenset({states.DEPLOYING, states.DEPLOYWAIT, states.DEPLOYFAIL})
_CLEANING = frozenset({states.CLEANING, states.CLEANWAIT, states.CLEANFAIL})
_SERVICING = frozenset({states.SERVICING, states.SERVICEWAIT, states.SERVICEFAIL})


def attempt(task: Task, what: str, action: Callable[[Task], object]) -> str | None:
    """Run one part of a clean-up; return its error text, or None.

    Nothing but ``LockLost`` escapes.
    """
    try:
        action(task)
    except errors.LockLost:
        raise
    except errors.IronicError as exc:
        LOG.error("Node %s: could not %s: %s", task.node.uuid, what, exc)
        return f"could not {what}: {exc}"
    except Exception as exc:
        LOG.exception("Node %s: could not %s", task.node.uuid, what)
        return f"could not {what}: {errors.reason(exc)}"
    return None


def _and_then(message: str, problem: str) -> str:
    """Append what went wrong after a failure: the first error is never replaced."""
    return f"{message.removesuffix('.')}. Afterwards: {problem.removesuffix('.')}."


def fail(task: Task, kind: StepKind | None = None) -> None:
    """Save, and move to the failed state unless the node is there already (W15)."""
    if states.is_allowed(task.node.provision_state, "fail"):
        if kind is None:
            task.event("fail")
        else:
            events.fire(task, kind, "fail")
        return
    LOG.info(
        "Node %s: no 'fail' in state '%s', the failure is only recorded",
        task.node.uuid,
        task.node.provision_state,
    )
    task.save()


def collect_logs(task: Task) -> None:
    """Fetch the logs of the ramdisk if the driver can; errors are only logged."""
    collect = getattr(task.driver.deploy, "collect_ramdisk_logs", None)
    if collect is None or CONF.agent.deploy_logs_collect == "never":
        return
    attempt(task, "collect the logs of the ramdisk", collect)


def _power_off(task: Task) -> None:
    if not task.node.disable_power_off:
        power.node_power_action(task, states.POWER_OFF)


def deploying_error_handler(task: Task, message: str, *, clean_up: bool = True) -> None:
    """A deployment failed.

    :param clean_up: run the driver's clean-up; its error is appended.
    """
    LOG.error("Node %s: deployment failed: %s", task.node.uuid, message)
    tell(task, message, "deploying")
    task.save()
    if clean_up:
        problem = attempt(
            task, "clean up after the deployment", lambda t: t.driver.deploy.clean_up(t)
        )
        if problem:
            message = _and_then(message, problem)
            tell(task, message, "deploying")
        # A power action of the clean-up forgets what went wrong before it.
        task.node.last_error = last_error(task.node, message)
    elif CONF.conductor.clear_image_cache_on_deploy_failure:
        remove = getattr(task.driver.deploy, "remove_cached_images", None)
        if remove is not None:
            attempt(task, "remove the cached images", remove)
    node = task.node
    if node.provision_state in _DEPLOYING:
        node.deploy_step = {}
        steps.wipe_deploy_info(node, keep_agent=keep_agent(task))
    fail(task)


def set_failed_state(task: Task, message: str, *, logs: bool = True) -> None:
    """A deployment failed for a reason of the driver: fail, and power off.

    :param logs: collect the ramdisk's logs first.
    """
    if logs:
        collect_logs(task)
    deploying_error_handler(task, message, clean_up=False)
    if CONF.deploy.power_off_after_deploy_failure:
        attempt(task, "power off after the failed deployment", _power_off)
    _restore_error(task, message)


def _restore_error(task: Task, message: str) -> None:
    """Make ``message`` the last error again, if clean-up has written another one."""
    text = last_error(task.node, message)
    if task.node.last_error != text:
        task.node.last_error = text
        task.save()


def _into_maintenance(node: models.Node, fault: str) -> None:
    # A fault belongs to maintenance that the conductor set, never the operator's.
    if not node.maintenance:
        node.maintenance = True
        node.fault = fault


def cleaning_error_handler(
    task: Task,
    message: str,
    *,
    tear_down: bool = True,
    set_fail_state: bool = True,
) -> None:
    """A cleaning failed; when a step was running the node goes into maintenance.

    :param tear_down: stop the ramdisk, if there is one, through the driver; its error is
        appended.
    """
    node = task.node
    LOG.error("Node %s: cleaning failed: %s", node.uuid, message)
    if node.clean_step:
        _into_maintenance(node, states.FAULT_CLEAN)
    if tear_down and not steps.without_ramdisk(node, steps.CLEAN):
        problem = attempt(
            task, "tear down cleaning", lambda t: t.driver.deploy.tear_down_cleaning(t)
        )
        if problem:
            message = _and_then(message, problem)
    _end_of_step_flow(task, steps.CLEAN, message, set_fail_state=set_fail_state)


def servicing_error_handler(
    task: Task,
    message: str,
    *,
    tear_down: bool = True,
    set_fail_state: bool = True,
) -> None:
    """A servicing failed; arguments as :func:`cleaning_error_handler`."""
    node = task.node
    LOG.error("Node %s: servicing failed: %s", node.uuid, message)
    if node.service_step:
        _into_maintenance(node, states.FAULT_SERVICE)
    if tear_down and not steps.without_ramdisk(node, steps.SERVICE):
        problem = attempt(
            task, "tear down servicing", lambda t: t.driver.deploy.tear_down_service(t)
        )
        if problem:
            message = _and_then(message, problem)
    _end_of_step_flow(task, steps.SERVICE, message, set_fail_state=set_fail_state)


def _end_of_step_flow(task: Task, kind: StepKind, message: str, *, set_fail_state: bool) -> None:
    node = task.node
    flow_states = _CLEANING if kind is steps.CLEAN else _SERVICING
    if node.provision_state in flow_states:
        setattr(node, kind.field, {})
        node.driver_internal_info.pop(kind.index_key, None)
        steps.wipe_flags(node)
        steps.wipe_token_and_url(node)
    tell(task, message, kind.label)
    if node.maintenance and not node.maintenance_reason:
        node.maintenance_reason = history.truncate_error(message)
    off = (
        CONF.conductor.poweroff_in_cleanfail
        if kind is steps.CLEAN
        else CONF.conductor.poweroff_in_servicefail
    )
    if off:
        attempt(task, f"power off after the failed {kind.label}", _power_off)
        task.node.last_error = last_error(task.node, message)
    attempt(task, "restore the deploy interface", lambda t: t.driver.deploy.restore_interface(t))
    if set_fail_state and task.node.provision_state != kind.failed:
        fail(task, kind)
    else:
        task.save()


def rescuing_error_handler(task: Task, message: str, *, set_fail_state: bool = True) -> None:
    """A rescue failed or timed out."""
    LOG.error("Node %s: rescue failed: %s", task.node.uuid, message)
    # What the ramdisk needed goes also when the machine can not be reached.
    problems = [
        attempt(task, "power off after the rescue", _power_off),
        attempt(task, "clean up after the rescue", lambda t: t.driver.rescue.clean_up(t)),
    ]
    task.node.driver_internal_info.pop("agent_url", None)
    secrets.forget_rescue_password(task.node)
    if any(problems):
        message = _and_then(message, "; ".join(filter(None, problems)))
    tell(task, message, "rescue")
    if set_fail_state:
        fail(task)
    else:
        task.save()


def inspecting_error_handler(task: Task, message: str) -> None:
    """An inspection failed or timed out; the caller fires the event (W32)."""
    LOG.error("Node %s: inspection failed: %s", task.node.uuid, message)
    problems = _tear_down_inspection(task)
    if problems:
        message = _and_then(message, "; ".join(problems))
    steps.wipe_token_and_url(task.node)
    tell(task, message, "introspection")
    task.save()


def _tear_down_inspection(task: Task) -> list[str]:
    def stop(t: Task) -> None:
        try:
            t.driver.inspect.abort(t)
        except errors.UnsupportedDriverExtension:
            t.driver.boot.clean_up_ramdisk(t)

    problems = [
        attempt(task, "stop the inspection", stop),
        attempt(
            task,
            "remove the inspection network",
            lambda t: t.driver.network.remove_inspection_network(t),
        ),
    ]
    return [problem for problem in problems if problem]


def step_error_handler(task: Task, kind: StepKind, message: str) -> None:
    """Fail the step flow of the kind."""
    if kind is steps.CLEAN:
        cleaning_error_handler(task, message)
    elif kind is steps.SERVICE:
        servicing_error_handler(task, message)
    else:
        deploying_error_handler(task, message)


# Roll-backs of work that found no free worker: the node is as before the call.


def _refused(exc: Exception, task: Task, event_type: str) -> None:
    if not isinstance(exc, errors.NoFreeConductorWorker):
        return
    task.put_back()
    task.history(NO_WORKER, event_type)
    task.save()


def provision_refused(exc: Exception, task: Task, *_state_and_target: str | None) -> None:
    """Undo the start of a flow that no worker will ever run (W12, W13)."""
    inspecting = task.node.provision_state in states.INSPECTION_STATES
    _refused(exc, task, "introspection" if inspecting else "provisioning")


def work_refused(exc: Exception, task: Task) -> None:
    """Undo the start of other work that no worker will ever run."""
    _refused(exc, task, "conductor")
