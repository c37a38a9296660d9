"""What a BMC tells along with the power state: health, vendor, boot mode.

A driver answers these from what it has just read for the power state, so a node
that did not change costs no further BMC call and no SQL.

Source: specification conductor.md section 10.2 (step 3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = logging.getLogger(__name__)

_HEALTH = frozenset({states.HEALTH_OK, states.HEALTH_WARNING, states.HEALTH_CRITICAL, None})
_UNKNOWN = object()


def remember(task: Task) -> None:
    """Record what has changed; takes the lock only if something did.

    Errors of the BMC cost a debug line.  A node that is locked is left to the next
    cycle.

    :raises LockLost: nothing was written.
    """
    seen = _look(task)
    if not _differs(task.node, seen):
        return
    try:
        task.upgrade_lock(retry=False)
    except errors.NodeLocked as exc:
        LOG.debug("What the BMC tells is recorded in the next cycle: %s", exc)
        return
    node = task.node
    if "health" in seen and seen["health"] != node.health:
        LOG.info("Health of node %s: %s, was %s", node.uuid, seen["health"], node.health)
        task.history(
            f"Health changed from {node.health or 'unknown'} to {seen['health'] or 'unknown'}",
            "monitoring",
            error=False,
        )
        node.health = seen["health"]
    if "vendor" in seen and not node.properties.get("vendor"):
        node.properties["vendor"] = seen["vendor"]
    for name in ("boot_mode", "secure_boot"):
        if name in seen:
            setattr(node, name, seen[name])
    task.save()


def _look(task: Task) -> dict[str, Any]:
    """Ask the driver; what it cannot tell is left out."""
    node, management = task.node, task.driver.management
    seen: dict[str, Any] = {}
    if CONF.conductor.enable_health_monitoring:
        health = _ask(lambda: management.get_node_health(task))
        if health is not _UNKNOWN and health in _HEALTH:
            seen["health"] = health
    if not node.properties.get("vendor"):
        vendor = _ask(lambda: management.detect_vendor(task))
        if vendor is not _UNKNOWN and vendor:
            seen["vendor"] = vendor
    mode = _ask(lambda: management.get_boot_mode(task))
    if mode is not _UNKNOWN:
        seen["boot_mode"] = mode
    # A resource of its own, which hardly ever changes by itself.
    if node.secure_boot is None or mode not in (_UNKNOWN, node.boot_mode):
        secure = _ask(lambda: management.get_secure_boot_state(task))
        if secure is not _UNKNOWN:
            seen["secure_boot"] = secure
    return seen


def _ask(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.debug("Not told by the BMC: %s", exc)
        return _UNKNOWN


def _differs(node: models.Node, seen: dict[str, Any]) -> bool:
    return "vendor" in seen or any(
        getattr(node, name) != value for name, value in seen.items() if name != "vendor"
    )
