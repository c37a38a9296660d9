"""Cleaning, automated and manual.

Source: specification conductor.md sections 9.5 and 10.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import failures, healing
from ironic_rs.conductor.flows import abort, cache, ending
from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.conductor.steps import engine, events, plan, record
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import Step

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = log.getLogger(__name__)


def is_skipped(node: models.Node) -> bool:
    """Tell whether automated cleaning is switched off for the node."""
    if node.automated_clean is not None:
        return not node.automated_clean
    return not CONF.conductor.automated_clean


def do_node_clean(
    task: Task,
    clean_steps: Sequence[Step] | None = None,
    disable_ramdisk: bool | None = False,
    automated_with_steps: bool = False,
) -> None:
    """Start a cleaning; the node is in state ``cleaning``.

    :param clean_steps: steps of the user or of a runbook; None: the drivers' own.
    :param automated_with_steps: the steps come from a runbook of automated cleaning.
    """
    manual = clean_steps is not None and not automated_with_steps
    disable_ramdisk = bool(disable_ramdisk)
    node = task.node
    if not manual and is_skipped(node):
        LOG.info("Node %s: automated cleaning is disabled, skipping it", node.uuid)
        node.clean_step = {}
        task.driver.deploy.restore_interface(task)
        _leave_cleaning(task)
        return
    if not _prepared(task, clean_steps, disable_ramdisk):
        return
    node = task.node
    validated = False
    if clean_steps is not None and not disable_ramdisk:
        try:
            plan.set_cleaning_steps(task, use_existing_steps=True)
            validated = True
        except errors.LockLost:
            raise
        except errors.InvalidParameterValue as exc:
            LOG.info("Node %s: steps are checked again with the ramdisk: %s", node.uuid, exc)
        except Exception as exc:
            failures.cleaning_error_handler(
                task, f"Cannot clean node {node.uuid}: {errors.reason(exc)}"
            )
            return
        if validated and not plan.needs_ramdisk(node.driver_internal_info["clean_steps"]):
            LOG.info("Node %s: no clean step needs the ramdisk", node.uuid)
            disable_ramdisk = True
            node.driver_internal_info["cleaning_disable_ramdisk"] = True
    if not disable_ramdisk and not _ramdisk_ready(task):
        return
    if not validated:
        try:
            plan.set_cleaning_steps(
                task,
                disable_ramdisk=disable_ramdisk,
                use_existing_steps=clean_steps is not None,
            )
        except errors.LockLost:
            raise
        except Exception as exc:
            failures.cleaning_error_handler(
                task, f"Cannot clean node {task.node.uuid}: {errors.reason(exc)}"
            )
            return
    record.step_flow(task, steps.CLEAN, record.STARTED)
    engine.run(task, FLOW, 0)


def _prepared(task: Task, clean_steps: Sequence[Step] | None, disable_ramdisk: bool) -> bool:
    """Check the node and store the wanted steps; False after a failure."""
    node = task.node
    if node.maintenance and not CONF.conductor.allow_provisioning_in_maintenance:
        failures.cleaning_error_handler(
            task,
            f"Cleaning of node {node.uuid} is not allowed: the node is in maintenance.",
            tear_down=False,
        )
        return False
    try:
        task.driver.deploy.switch_interface(task)
        if not disable_ramdisk:
            task.driver.power.validate(task)
            task.driver.network.validate(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        failures.cleaning_error_handler(
            task,
            f"Validation of node {task.node.uuid} for cleaning failed: {errors.reason(exc)}",
            tear_down=False,
        )
        return False
    node = task.node
    steps.wipe_clean_info(node, keep_agent=keep_agent(task))
    if clean_steps is not None:
        info = node.driver_internal_info
        info["clean_steps"] = [dict(step) for step in clean_steps]
        info["cleaning_disable_ramdisk"] = disable_ramdisk
        info["declarative_cleaning"] = True
    cache.update(task)
    return True


def _ramdisk_ready(task: Task) -> bool:
    """Boot the ramdisk; False when the flow waits for it, or has failed."""
    try:
        with healing.within(task, "preparation of cleaning"):
            result = task.driver.deploy.prepare_cleaning(task)
    except errors.LockLost:
        raise
    except errors.AgentConnectionFailed as exc:
        LOG.info("Node %s: no agent yet, waiting for it: %s", task.node.uuid, exc)
        events.fire(task, steps.CLEAN, "wait")
        return False
    except Exception as exc:
        failures.cleaning_error_handler(
            task, f"Failed to prepare node {task.node.uuid} for cleaning: {errors.reason(exc)}"
        )
        return False
    if result == states.CLEANWAIT:
        # Heartbeats go on from here.
        events.fire(task, steps.CLEAN, "wait")
        return False
    return True


def begin(task: Task) -> None:
    """First heartbeat of the ramdisk: the plan is known now, run it."""
    info = task.node.driver_internal_info
    plan.set_cleaning_steps(task, use_existing_steps=bool(info.get("declarative_cleaning")))
    record.step_flow(task, steps.CLEAN, record.STARTED)
    engine.run(task, FLOW, 0)


def continue_node_clean(task: Task) -> None:
    """Go on after the running step; the node is in state ``cleaning``."""
    if (task.node.clean_step or {}).get("abort_after"):
        name = steps.step_id(task.node.clean_step)
        events.fire(task, steps.CLEAN, "fail", last_error=abort.message(task, steps.CLEAN))
        LOG.info("Node %s: cleaning is aborted after step %s", task.node.uuid, name)
        abort.do_node_clean_abort(task)
        return
    engine.continue_plan(task, FLOW)


def _finish(task: Task) -> None:
    if ending.leave_ramdisk(
        task,
        steps.CLEAN,
        wipe=lambda: steps.wipe_clean_info(task.node, keep_agent=keep_agent(task)),
        tear_down=task.driver.deploy.tear_down_cleaning,
        fail=failures.cleaning_error_handler,
    ):
        _leave_cleaning(task)


def _leave_cleaning(task: Task) -> None:
    node = task.node
    # A retired node is never schedulable again.
    if node.target_provision_state == states.MANAGEABLE or node.retired:
        task.event("manage")
    else:
        task.event("done")


FLOW = engine.StepFlow(
    kind=steps.CLEAN,
    finish=_finish,
    fail=failures.cleaning_error_handler,
    collect_logs=partial(ending.collect_logs, steps.CLEAN),
)
