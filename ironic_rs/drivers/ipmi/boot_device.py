"""The boot device of a machine, as BMCs keep it: flags for the firmware.

Source: specification drivers.md section 5.4.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log

from ironic_rs.db import models
from ironic_rs.domain import bootmode, errors
from ironic_rs.drivers import quirks
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.ipmi.bmc import Link, operate
from ironic_rs.drivers.ipmi.driver_info import BmcTarget
from ironic_rs.drivers.ipmi.errors import BmcError
from ironic_rs.drivers.quirks import Quirk

LOG = log.getLogger(__name__)

DEVICES = {"pxe": 0x04, "disk": 0x08, "cdrom": 0x14, "bios": 0x18, "safe": 0x0C}
#: What some BMCs call the disk of a machine in UEFI mode.
_OWN_UEFI_DISK = 0x24
_NAMES = {code: name for name, code in DEVICES.items()} | {_OWN_UEFI_DISK: "disk"}

_CHASSIS = 0x00
_SET_OPTION = 0x08
_GET_OPTION = 0x09
#: Boot option parameters, and their data.
_CLEARING = 0x03
_KEEP_AFTER_TIMEOUT = 0x08
_FLAGS = 0x05
_VALID = 0x80
_PERSISTENT = 0x40
_UEFI = 0x20
_DEVICE_BITS = 0x3C
#: Completion codes of a BMC that does not know a parameter.
_NOT_KNOWN = frozenset({0x80, 0xC1, 0xC9, 0xCC})

#: driver_internal_info: what is set again before each power-on, and whether the next
#: one is an exception.
KEPT = "persistent_boot_device"
NEXT_IS_PERSISTENT = "is_next_boot_persistent"


def _code(node: models.Node, device: str, uefi: bool) -> int:
    if device not in DEVICES:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: unknown boot device '{device}'; known are {', '.join(DEVICES)}."
        )
    if device == "disk" and uefi and quirks.stored(Quirk.OWN_UEFI_DISK, node):
        return _OWN_UEFI_DISK
    return DEVICES[device]


def set_device(task: Task, target: BmcTarget, device: str, persistent: bool) -> None:
    """Set the boot device.

    :raises InvalidParameterValue: an unknown device.
    :raises IPMIFailure: the BMC refused, or did not answer.
    """
    node = task.node
    uefi = bootmode.effective(node) == bootmode.UEFI
    code = _code(node, device, uefi)
    if target.force_boot_device:
        info = node.driver_internal_info
        if persistent:
            info[KEPT] = device
            info.pop(NEXT_IS_PERSISTENT, None)
        else:
            info[NEXT_IS_PERSISTENT] = False
        task.save()
        persistent = False
    flags = _VALID | (_PERSISTENT if persistent else 0) | (_UEFI if uefi else 0)

    def write(link: Link) -> None:
        if target.disable_boot_timeout:
            _keep_flags(link, node)
        link.ask(_CHASSIS, _SET_OPTION, bytes([_FLAGS, flags, code, 0, 0, 0]))

    operate(node, f"setting boot device '{device}'", write)


def _keep_flags(link: Link, node: models.Node) -> None:
    """Tell the BMC not to forget the flags after 60 seconds; not all know that."""
    try:
        link.ask(_CHASSIS, _SET_OPTION, bytes([_CLEARING, _KEEP_AFTER_TIMEOUT]))
    except BmcError as exc:
        if exc.code not in _NOT_KNOWN:
            raise
        LOG.info("Node %s: its BMC has no time-out of boot flags to disable: %s", node.uuid, exc)


def get_device(task: Task, target: BmcTarget) -> dict[str, Any]:
    """Return {boot_device, persistent}; None for what the BMC does not tell.

    :raises IPMIFailure: the BMC did not answer.
    """
    info = task.node.driver_internal_info
    if target.force_boot_device and KEPT in info and info.get(NEXT_IS_PERSISTENT) is not False:
        return {"boot_device": info[KEPT], "persistent": True}
    answer = operate(task.node, "reading the boot device", _read_flags, reading=True)
    # version, parameter, flags, device, ...
    if len(answer) < 4 or answer[1] & _VALID or not answer[2] & _VALID:
        return {"boot_device": None, "persistent": False}
    name = _NAMES.get(answer[3] & _DEVICE_BITS)
    return {"boot_device": name, "persistent": bool(answer[2] & _PERSISTENT)}


def _read_flags(link: Link) -> bytes:
    return link.ask(_CHASSIS, _GET_OPTION, bytes([_FLAGS, 0, 0]))


def restore(task: Task, target: BmcTarget) -> None:
    """Before a power-on: set the kept boot device again, for BMCs that forget it.

    :raises IPMIFailure: the BMC refused, or did not answer.
    """
    if not target.force_boot_device:
        return
    info = task.node.driver_internal_info
    if info.get(NEXT_IS_PERSISTENT) is False:
        del info[NEXT_IS_PERSISTENT]
        task.save()
    elif info.get(KEPT):
        task.flows.set_boot_device(info[KEPT], persistent=True)
