"""Consoles: switched on and off on request, and kept over deployments and take-overs.

Source: specification conductor.md section 10.15.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import history
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def set_console_mode(task: Task, enabled: bool) -> None:
    """Start or stop the console and record it."""
    node = task.node
    try:
        with task.conductor.news.console(task, "console_set"):
            if enabled:
                task.driver.console.start_console(task)
            else:
                task.driver.console.stop_console(task)
            task.node.console_enabled = enabled
            history.forget_error(task.node)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: console could not be switched", node.uuid)
        what = "enabling" if enabled else "disabling"
        task.history(
            f"Error {what} the console of node {task.node.uuid}: {errors.reason(exc)}", "console"
        )
        task.save()
        return
    task.save()


def restart(task: Task, event_type: str) -> None:
    """Start the console again if it is wanted; a failure switches it off (not saved)."""
    if not task.node.console_enabled:
        return
    try:
        task.check_lock()
        with task.conductor.news.console(task, "console_restore"):
            task.driver.console.start_console(task)
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: console could not be started again", task.node.uuid)
        node = task.node
        node.console_enabled = False
        task.history(
            f"Failed to restart the console of node {node.uuid}: {errors.reason(exc)}", event_type
        )
