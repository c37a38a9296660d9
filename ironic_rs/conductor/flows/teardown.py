"""Undeploy: take the instance off, and hand the node to automated cleaning.

Source: specification conductor.md section 10.7, defect W18.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import advice, failures
from ironic_rs.conductor.flows import clean, runbooks
from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.conductor.steps import collect
from ironic_rs.domain import errors, secrets, states, steps

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

#: driver_internal_info keys that describe the instance.
_INSTANCE_KEYS = (
    "instance",
    "root_uuid_or_disk_id",
    "is_whole_disk_image",
    "is_source_a_path",
    "deploy_boot_mode",
)


def do_node_tear_down(task: Task, previous_state: str) -> None:
    """Tear the instance down; the node is in state ``deleting``.

    Nothing about the instance is forgotten unless all of it is gone (W18).

    :param previous_state: provision state before the request.
    """
    _end_flows(task.node)
    try:
        _take_off(task, previous_state)
    except errors.LockLost:
        raise
    except Exception as exc:
        known = isinstance(exc, errors.IronicError)
        LOG.error("Node %s: tear down failed: %s", task.node.uuid, exc, exc_info=not known)
        reason = errors.reason(exc)
        advice.tell(task, f"Failed to tear down node {task.node.uuid}: {reason}", "unprovision")
        failures.fail(task)
        return
    _forget_instance(task)
    _clean(task)


def _end_flows(node: models.Node) -> None:
    """Forget what a deployment, a servicing or a rescue waited for (not saved).

    They are over even if the instance can not be taken off.
    """
    for kind in (steps.DEPLOY, steps.SERVICE):
        setattr(node, kind.field, {})
        node.driver_internal_info.pop(kind.index_key, None)
    steps.wipe_flags(node)
    secrets.forget_rescue_password(node)


def _take_off(task: Task, previous_state: str) -> None:
    # Nothing is saved between most of these, so that nothing else would notice a lost lock.
    if previous_state in states.RESCUE_CLEANUP_ON_TEARDOWN:
        task.driver.rescue.clean_up(task)
    if task.node.console_enabled:
        # Wanted again for the next instance: console_enabled stays.
        with task.conductor.news.console(task, "console_stop"):
            task.driver.console.stop_console(task)
    task.check_lock()
    task.driver.deploy.switch_interface(task)
    task.driver.deploy.clean_up(task)
    task.check_lock()
    task.driver.deploy.tear_down(task)
    for vif in task.driver.network.vif_list(task):
        task.check_lock()
        try:
            task.driver.network.vif_detach(task, vif["id"])
        except (errors.VifNotAttached, errors.NetworkError) as exc:
            LOG.warning("Node %s: VIF %s was not detached: %s", task.node.uuid, vif["id"], exc)


def _forget_instance(task: Task) -> None:
    """Clear all that belongs to the instance; the next event saves it.

    The allocation goes with that save: until then the tear-down may still fail.
    """
    node = task.node
    node.allocation_id = None
    node.instance_info = {}
    node.instance_uuid = None
    node.instance_name = None
    steps.wipe_deploy_info(node, keep_agent=keep_agent(task))
    info = node.driver_internal_info
    for key in _INSTANCE_KEYS:
        info.pop(key, None)
    if info.pop("automatic_lessee", None):
        node.lessee = None
    if info.get("service_steps"):
        steps.wipe_service_info(node)


def _clean(task: Task) -> None:
    try:
        clean_steps, disable_ramdisk = runbooks.automated_steps(task.node)
    except errors.NodeCleaningFailure as exc:
        # The instance is gone: only cleaning can fail now.
        task.event("clean")
        failures.cleaning_error_handler(task, str(exc), tear_down=False)
        return
    task.event("clean")
    if clean_steps is None:
        clean.do_node_clean(task)
        return
    clean.do_node_clean(
        task,
        collect.without_disallowed(steps.CLEAN, clean_steps),
        disable_ramdisk,
        automated_with_steps=True,
    )
