"""Boot device, boot mode and secure boot of a machine.

Source: specification conductor.md section 10.15.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.domain import errors, states

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)


def _persistence(task: Task, asked: bool) -> bool:
    forced = task.node.driver_info.get("force_persistent_boot_device")
    if forced is None:
        return asked
    word = str(forced).lower()
    if word == "always":
        return True
    if word == "never":
        return False
    return True if strutils.bool_from_string(word) else asked


def set_boot_device(task: Task, device: str, persistent: bool = False) -> None:
    """Set the boot device, honouring driver_info.force_persistent_boot_device.

    Nothing happens while the node is being adopted: its instance runs.

    :raises InvalidParameterValue: the driver does not know the device.
    """
    task.driver.management.validate(task)
    if task.node.provision_state == states.ADOPTING:
        return
    task.driver.management.set_boot_device(
        task, device=device, persistent=_persistence(task, persistent)
    )


def set_boot_mode(task: Task, mode: str) -> None:
    """Set the boot mode; nothing happens while the node is being adopted.

    :raises InvalidParameterValue: the machine does not support the mode.
    :raises UnsupportedDriverExtension: the driver can not set boot modes.
    """
    management = task.driver.management
    management.validate(task)
    if task.node.provision_state == states.ADOPTING:
        return
    try:
        supported: list[str] | None = management.get_supported_boot_modes(task)
    except errors.UnsupportedDriverExtension:
        supported = None  # unknown: try
    if supported is not None and mode not in supported:
        raise errors.InvalidParameterValue(
            f"Node {task.node.uuid} does not support boot mode {mode}; supported: "
            f"{', '.join(supported) or 'none'}."
        )
    management.set_boot_mode(task, mode=mode)


def _change(
    task: Task,
    what: str,
    wanted: Any,
    read: Callable[[], Any],
    write: Callable[[], None],
) -> bool:
    """Read, write if different, record the failure; True when ``wanted`` is reached."""
    node = task.node
    try:
        try:
            current = read()
        except errors.UnsupportedDriverExtension:
            current = None
        if current == wanted:
            LOG.info("Node %s: %s is %s already", node.uuid, what, wanted)
            return True
        write()
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Node %s: could not change the %s", node.uuid, what)
        task.history(f"Failed to change {what} to {wanted}: {errors.reason(exc)}", "UNKNOWN")
        task.save()
        return False
    return True


def change_boot_mode(task: Task, mode: str) -> None:
    """Worker of the boot mode request: reach it and record it."""
    management = task.driver.management
    if _change(
        task,
        "boot mode",
        mode,
        lambda: management.get_boot_mode(task),
        lambda: management.set_boot_mode(task, mode=mode),
    ):
        task.node.boot_mode = mode
        task.save()


def change_secure_boot(task: Task, wanted: bool) -> None:
    """Worker of the secure boot request: reach it and record it."""
    management = task.driver.management
    if _change(
        task,
        "secure boot state",
        wanted,
        lambda: management.get_secure_boot_state(task),
        lambda: management.set_secure_boot_state(task, wanted),
    ):
        task.node.secure_boot = wanted
        task.save()
