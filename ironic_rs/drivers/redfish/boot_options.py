"""Boot device and boot mode of a system, with what BMCs make of the standard.

A request names first only what shall change.  BMCs that insist on the whole boot
object get it at the second try (or at once, by vendor), filled up with what they
report themselves.

Source: specification drivers.md section 6.4; field cases 33, 35, 50.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import sushy
import sushy.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish import quirks
from ironic_rs.drivers.redfish.quirks import Quirk
from ironic_rs.drivers.redfish.sessions import FRESH, NodeBmc

LOG = log.getLogger(__name__)

BOOT_DEVICES = {
    "pxe": sushy.BootSource.PXE,
    "disk": sushy.BootSource.HDD,
    "cdrom": sushy.BootSource.CD,
    "bios": sushy.BootSource.BIOS_SETUP,
    "uefihttp": sushy.BootSource.UEFI_HTTP,
}
DEVICE_NAMES = {
    **{target: name for name, target in BOOT_DEVICES.items()},
    # Some show virtual media as a USB CD drive; sushy asks for that there.
    sushy.BootSource.USB_CD: "cdrom",
}
#: Names that older releases left in driver_internal_info.redfish_boot_device.
LEGACY_NAMES = {"hdd": "disk", "cd": "cdrom", "bios setup": "bios"}

BOOT_MODES = {
    "uefi": sushy.BootSourceOverrideMode.UEFI,
    "bios": sushy.BootSourceOverrideMode.LEGACY,
}
MODE_NAMES = {mode: name for name, mode in BOOT_MODES.items()}

ENABLED_NAMES = {
    sushy.BootSourceOverrideEnabled.CONTINUOUS: True,
    sushy.BootSourceOverrideEnabled.ONCE: False,
}

#: What was read is outdated; the tag of what was read is wanted.
_PRECONDITION = (412, 428)

_BUSY_IN_POST = "UnableToModifyDuringSystemPOST"


def _patient(node: models.Node, request: Callable[[], None]) -> None:
    """Send a request; again with growing pauses while the machine is in POST."""
    attempts = CONF.redfish.post_boot_retry_attempts
    first = CONF.redfish.post_boot_retry_delay
    for attempt in range(1, attempts + 1):
        try:
            request()
        except sushy.exceptions.BadRequestError as exc:
            if _BUSY_IN_POST not in str(exc) or attempt == attempts:
                raise
            wait = min(first * 2 ** (attempt - 1), first * 6)
            LOG.info("Node %s is in POST; boot settings are tried again in %d s", node.uuid, wait)
            time.sleep(wait)
        else:
            return


def _send(node: models.Node, bmc: NodeBmc, values: dict[str, Any]) -> None:
    _patient(node, lambda: _send_once(node, bmc, values))


def _send_once(node: models.Node, bmc: NodeBmc, values: dict[str, Any]) -> None:
    try:
        bmc.system.set_system_boot_options(**values)
    except sushy.exceptions.HTTPError as exc:
        if exc.status_code not in _PRECONDITION:
            raise
        # The system has changed since it was read, if only because it is booting.
        LOG.debug("Node %s: the system is read again to change it: %s", node.uuid, exc)
        bmc.reread().set_system_boot_options(**values)


def _minimal_then_full(
    node: models.Node, bmc: NodeBmc, minimal: dict[str, Any], full: dict[str, Any]
) -> None:
    """Send the minimal request, and the full one if it is refused with 400."""
    if minimal == full:
        _send(node, bmc, full)
        return
    try:
        _send(node, bmc, minimal)
    except sushy.exceptions.BadRequestError as exc:
        LOG.debug(
            "Node %s: the BMC refused %s, trying the whole boot object: %s",
            node.uuid,
            ", ".join(minimal),
            exc,
        )
        _send(node, bmc, full)


def set_device(
    node: models.Node,
    bmc: NodeBmc,
    device: str,
    *,
    persistent: bool,
    http_boot_uri: str | None = None,
) -> bool:
    """Set the boot device.

    :returns: False when the BMC does not keep a persistent device: it has to be set
        again before each boot.
    :raises InvalidParameterValue: an unknown device, or not one of this machine.
    :raises UnsupportedHardwareFeature: the system has no boot override.
    """
    target = BOOT_DEVICES.get(device)
    if target is None:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: unknown boot device '{device}'; "
            f"known are {', '.join(sorted(BOOT_DEVICES))}."
        )
    if bmc.system.boot is None:
        raise errors.UnsupportedHardwareFeature(node=node.uuid, feature="boot device override")
    once = sushy.BootSourceOverrideEnabled.ONCE
    wanted = sushy.BootSourceOverrideEnabled.CONTINUOUS if persistent else once
    try:
        try:
            _set_target(node, bmc, target, wanted, http_boot_uri)
        except sushy.exceptions.HTTPError as exc:
            if not persistent or not _is_refusal(exc):
                raise
            LOG.info(
                "Node %s: the BMC cannot keep a boot device, setting it once: %s",
                node.uuid,
                exc,
            )
            _set_target(node, bmc, target, once, http_boot_uri)
            return False
    except sushy.exceptions.InvalidParameterValueError as exc:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid} cannot boot from '{device}': {exc}"
        ) from exc
    finally:
        bmc.changed()
    return not persistent or _is_kept(node, bmc, device)


def _is_kept(node: models.Node, bmc: NodeBmc, device: str) -> bool:
    """Tell whether a device that was accepted for good is shown so.

    Some BMCs make "once" of it, or nothing at all, without a word.  One that cannot
    be asked now is believed.
    """
    try:
        bmc.reread()
        shown = get_device(bmc)
    except sushy.exceptions.SushyError as exc:
        LOG.debug("Node %s: the boot device could not be read back: %s", node.uuid, exc)
        return True
    if shown == {"boot_device": device, "persistent": True}:
        return True
    LOG.warning(
        "Node %s: the BMC accepted boot device '%s' for good, but shows %s; it is set again "
        "before each power on",
        node.uuid,
        device,
        shown,
    )
    return False


def _is_refusal(exc: sushy.exceptions.HTTPError) -> bool:
    """Tell whether the BMC understood and said no to what was asked."""
    return exc.status_code in (400, 405, 409, 422, 501)


def _set_target(
    node: models.Node,
    bmc: NodeBmc,
    target: sushy.BootSource,
    wanted: sushy.BootSourceOverrideEnabled,
    http_boot_uri: str | None,
) -> None:
    boot = bmc.system.boot
    minimal: dict[str, Any] = {"target": target}
    if http_boot_uri:
        minimal["http_boot_uri"] = http_boot_uri
    full = {**minimal, "enabled": wanted}
    if boot.enabled != wanted or quirks.has(Quirk.ENABLED_WITH_TARGET, node, bmc):
        minimal["enabled"] = wanted
    if boot.mode is not None:
        full["mode"] = boot.mode
    if quirks.has(Quirk.WHOLE_BOOT_OBJECT, node, bmc):
        full.setdefault("mode", sushy.BootSourceOverrideMode.UEFI)
        minimal = full
    _minimal_then_full(node, bmc, minimal, full)


def get_device(bmc: NodeBmc) -> dict[str, Any]:
    """Return {boot_device, persistent}; None for what the BMC does not tell."""
    boot = bmc.system.boot
    if boot is None:
        return {"boot_device": None, "persistent": None}
    return {
        "boot_device": DEVICE_NAMES.get(boot.target),
        "persistent": ENABLED_NAMES.get(boot.enabled),
    }


def request_mode(node: models.Node, bmc: NodeBmc, mode: sushy.BootSourceOverrideMode) -> None:
    """Ask the BMC for a boot mode; whether it took effect is another question."""
    boot = bmc.system.boot
    minimal: dict[str, Any] = {"mode": mode}
    full = dict(minimal)
    # "Enabled" together with target None is refused by some BMCs.
    if boot is not None and boot.target not in (None, sushy.BootSource.NONE):
        full["target"] = boot.target
        if boot.enabled is not None:
            full["enabled"] = boot.enabled
    if quirks.has(Quirk.WHOLE_BOOT_OBJECT, node, bmc):
        full.setdefault("target", sushy.BootSource.PXE)
        full.setdefault("enabled", sushy.BootSourceOverrideEnabled.ONCE)
        minimal = full
    try:
        _minimal_then_full(node, bmc, minimal, full)
    finally:
        bmc.changed()


def get_mode(bmc: NodeBmc) -> str | None:
    """Return ``uefi``, ``bios`` or None; costs nothing right after a power read."""
    summary = bmc.summary(max_age=FRESH)
    mode = summary.boot_mode
    if mode is None and summary.has_settings:
        boot = bmc.system.boot
        mode = boot.mode if boot is not None else None
    return MODE_NAMES.get(mode)
