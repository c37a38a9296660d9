"""What the conductor remembers about a machine: vendor, boot mode, BIOS, firmware.

Every part is optional: a driver that can not tell, or a BMC that fails, costs a
log line and never the flow.  Node columns are set, not saved: the event that
follows writes them in its own UPDATE.

Source: specification conductor.md sections 10.2 (step 3), 10.4 and 10.15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def _read(task: Task, what: str, action: Callable[[], Any]) -> tuple[bool, Any]:
    """Return (known, value) of something that the driver may or may not tell."""
    try:
        return True, action()
    except errors.LockLost:
        raise
    except errors.UnsupportedDriverExtension:
        LOG.debug("Node %s: its driver does not tell the %s", task.node.uuid, what)
    except errors.IronicError as exc:
        LOG.warning("Node %s: could not read the %s: %s", task.node.uuid, what, exc)
    except Exception:
        LOG.exception("Node %s: could not read the %s", task.node.uuid, what)
    return False, None


def vendor(task: Task) -> bool:
    """Set properties.vendor when it is empty; tell whether it changed (not saved)."""
    node = task.node
    if node.properties.get("vendor"):
        return False
    known, value = _read(task, "vendor", lambda: task.driver.management.detect_vendor(task))
    if not known or not value:
        return False
    node.properties["vendor"] = value
    return True


def boot_mode(task: Task) -> bool:
    """Set boot_mode and secure_boot; tell whether one changed (not saved)."""
    node = task.node
    changed = False
    known, mode = _read(task, "boot mode", lambda: task.driver.management.get_boot_mode(task))
    if known and mode != node.boot_mode:
        node.boot_mode = mode
        changed = True
    known, secure = _read(
        task, "secure boot state", lambda: task.driver.management.get_secure_boot_state(task)
    )
    if known and secure != node.secure_boot:
        node.secure_boot = secure
        changed = True
    return changed


def firmware(task: Task) -> None:
    """Refresh the table of firmware components."""
    _read(
        task,
        "firmware components",
        lambda: task.driver.firmware.cache_firmware_components(task),
    )


def update(task: Task) -> None:
    """Refresh everything (columns of the node are not saved)."""
    vendor(task)
    boot_mode(task)
    _read(task, "BIOS settings", lambda: task.driver.bios.cache_bios_settings(task))
    firmware(task)
