"""Deployment and rebuild.

Source: specification conductor.md sections 9.5 and 10.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor import failures, healing
from ironic_rs.conductor.flows import abort, console
from ironic_rs.conductor.flows import configdrive as drives
from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.conductor.steps import engine, plan, record
from ironic_rs.domain import errors, steps
from ironic_rs.domain.steps import Step

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def do_node_deploy(
    task: Task,
    configdrive: str | dict[str, Any] | None = None,
    deploy_steps: Sequence[Step] | None = None,
) -> None:
    """Start a deployment; the node is in state ``deploying``.

    :param configdrive: URL, base64 and gzip ISO, or a dict to build one from; None
        keeps what instance_info has.
    :param deploy_steps: steps of the user, checked by the caller.
    """
    node = task.node
    steps.wipe_deploy_info(node, keep_agent=keep_agent(task))
    if deploy_steps:
        node.driver_internal_info["user_deploy_steps"] = [dict(step) for step in deploy_steps]
    if _configdrive_stored(task, configdrive):
        _run_from_start(task)


def _run_from_start(task: Task) -> None:
    if _prepared(task) and _planned(task):
        record.step_flow(task, steps.DEPLOY, record.STARTED)
        engine.run(task, FLOW, 0)


def _configdrive_stored(task: Task, configdrive: str | dict[str, Any] | None) -> bool:
    node = task.node
    if not configdrive:
        return True
    previous = node.instance_info.get("configdrive")
    node.instance_info["configdrive"] = drives.checked(task, configdrive)
    try:
        task.save()
    except errors.LockLost:
        raise
    except Exception as exc:
        # What the database refused must not be part of the next save.
        node.instance_info.pop("configdrive", None)
        if previous is not None:
            node.instance_info["configdrive"] = previous
        failures.deploying_error_handler(
            task,
            f"Failed to store the config drive of node {node.uuid} in the database: "
            f"{errors.reason(exc)}",
            clean_up=False,
        )
        return False
    return True


def _prepared(task: Task) -> bool:
    """Let the driver prepare; False when the flow waits, or has failed."""
    try:
        with healing.within(task, "preparation of the deployment"):
            task.driver.deploy.prepare(task)
    except errors.LockLost:
        raise
    except errors.AgentConnectionFailed as exc:
        LOG.info("Node %s: no agent yet, waiting for it: %s", task.node.uuid, exc)
        task.event("wait")
        return False
    except Exception as exc:
        unexpected = "" if isinstance(exc, errors.IronicError) else "unexpected "
        if unexpected:
            LOG.exception("Node %s: unexpected error while preparing to deploy", task.node.uuid)
        failures.deploying_error_handler(
            task,
            f"Failed to prepare node {task.node.uuid} to deploy: {unexpected}{errors.reason(exc)}",
            clean_up=False,
        )
        return False
    return True


def _planned(task: Task) -> bool:
    try:
        plan.set_deployment_steps(task, skip_missing=True)
    except errors.LockLost:
        raise
    except Exception as exc:
        failures.deploying_error_handler(
            task, f"Failed to get the deploy steps of node {task.node.uuid}: {errors.reason(exc)}"
        )
        return False
    node = task.node
    if not node.driver_internal_info.get("deploy_steps"):
        failures.deploying_error_handler(
            task, f"The driver of node {node.uuid} returned no deploy steps to run."
        )
        return False
    node.conductor_affinity = task.conductor.conductor_id
    return True


def continue_node_deploy(task: Task) -> None:
    """Go on after the running step; the node is in state ``deploying``."""
    node = task.node
    if (node.deploy_step or {}).get("abort_after"):
        text = abort.message(task, steps.DEPLOY)
        LOG.info("Node %s: %s", node.uuid, text)
        node.driver_internal_info.pop("agent_url", None)
        task.event("fail", last_error=text)
        abort.do_node_deploy_abort(task)
        return
    try:
        plan.revalidate_deployment(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        failures.deploying_error_handler(
            task,
            f"Failed to validate the deploy steps of node {task.node.uuid}: {errors.reason(exc)}",
        )
        return
    if not task.node.driver_internal_info.get("deploy_steps"):
        # The flow waited for the agent before there was a plan.
        _run_from_start(task)
        return
    engine.continue_plan(task, FLOW)


def _finish(task: Task) -> None:
    record.step_flow(task, steps.DEPLOY, record.COMPLETED)
    node = task.node
    node.deploy_step = {}
    steps.wipe_deploy_info(node, keep_agent=keep_agent(task))
    console.restart(task, "deploying")
    task.event("done")


FLOW = engine.StepFlow(
    kind=steps.DEPLOY,
    finish=_finish,
    fail=failures.deploying_error_handler,
    collect_logs=failures.collect_logs,
)
