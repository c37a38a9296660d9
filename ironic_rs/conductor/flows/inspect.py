"""Inspection: out-of-band, or by waiting for what a ramdisk posts.

Source: specification conductor.md section 10.5, defect W32.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor import failures, healing
from ironic_rs.conductor.flows import cache
from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.domain import errors, states, steps
from ironic_rs.inspection import store
from ironic_rs.inspection.rules import engine as rules

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def do_inspect_hardware(task: Task) -> None:
    """Run an inspection that has just been asked for."""
    # Saved before the ramdisk boots: it must not be told that it has a token already.
    steps.wipe_token_and_url(task.node)
    task.save()
    try:
        with healing.within(task, "inspection"):
            result = task.driver.inspect.inspect_hardware(task)
        if result not in (states.MANAGEABLE, states.INSPECTWAIT):
            raise errors.HardwareInspectionFailure(
                error=f"the driver returned {result!r}, which is no result of an inspection"
            )
    except errors.LockLost:
        raise
    except Exception as exc:
        _failed(task, exc)
        return
    if result == states.INSPECTWAIT:
        task.event("wait")
        return
    task.event("done")


def continue_inspection(
    task: Task, inventory: dict[str, Any], plugin_data: dict[str, Any] | None
) -> None:
    """Process what the ramdisk has posted.

    An auto-discovered node (state ``enroll``) gets the data and keeps its state.
    """
    plugin_data = {} if plugin_data is None else plugin_data
    # The post is as good as a heartbeat: fast track counts on it.
    task.node.driver_internal_info["agent_last_heartbeat"] = datetime.now(UTC).isoformat()
    try:
        result = task.driver.inspect.continue_inspection(task, inventory, plugin_data)
        if result == states.INSPECTWAIT:
            task.event("wait")
            return
        rules.apply(task, inventory, plugin_data)
        store.store(task.node, inventory, plugin_data)
    except errors.LockLost:
        raise
    except Exception as exc:
        _failed(task, exc)
        return
    if task.node.provision_state == states.ENROLL:
        task.save()
        return
    cache.firmware(task)
    if not keep_agent(task):
        # A pre-generated token would lock out a ramdisk that is booted another way.
        steps.wipe_token_and_url(task.node)
    task.event("done")


def _failed(task: Task, exc: Exception) -> None:
    """The one place that ends a failed inspection, whatever the error (W32)."""
    known = isinstance(exc, errors.IronicError)
    if not known:
        LOG.exception("Node %s: unexpected error in inspection", task.node.uuid)
    reason = errors.reason(exc)
    failures.inspecting_error_handler(task, f"Failed to inspect node {task.node.uuid}: {reason}")
    if task.node.provision_state != states.ENROLL:
        failures.fail(task)


def abort_inspection(task: Task) -> None:
    """Stop a waiting inspection on request.

    :raises UnsupportedDriverExtension: the driver can not; nothing changed.
    :raises IronicError: the driver failed; recorded, the node still waits.
    """
    node = task.node
    try:
        task.driver.inspect.abort(task)
    except (errors.LockLost, errors.UnsupportedDriverExtension):
        raise
    except Exception as exc:
        task.history(
            f"Failed to abort the inspection of node {node.uuid}: {errors.reason(exc)}",
            "introspection",
        )
        task.save()
        raise
    node = task.node
    task.history(f"Inspection of node {node.uuid} was aborted by request.", "introspection")
    steps.wipe_token_and_url(node)
    if states.is_allowed(node.provision_state, "abort"):
        task.event("abort")
    else:
        task.save()
