"""Boot device, boot mode, secure boot, virtual media and more through Redfish.

Source: specification drivers.md section 6.4; field cases 35, 50.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sushy
import sushy.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers.base import ManagementInterface, Properties
from ironic_rs.drivers.boot_mode import sync_boot_mode
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    node_periodic,
    require_exclusive_lock,
    service_step,
    verify_step,
)
from ironic_rs.drivers.redfish import (
    boot_options,
    clock,
    firmware_flow,
    firmware_images,
    indicators,
    nics,
    quirks,
    sensors,
    virtual_media,
)
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.firmware_flow import UpdateFlow
from ironic_rs.drivers.redfish.quirks import Quirk
from ironic_rs.drivers.redfish.sessions import FRESH, NodeBmc, talk
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

#: Seconds between looks at a change that needs a reboot to take effect.
APPLY_POLL = 15.0

#: driver_internal_info: what the next boot device ``uefihttp`` loads.
UEFI_HTTP_URL = "redfish_uefi_http_url"
_ON_BOOT_DEVICE_LOST = "redfish_boot_device"
_IMAGES = {
    "firmware_images": {
        "description": (
            "List of {url, checksum, wait, source}: checksum is SHA1, SHA256 or SHA512; wait "
            "(seconds) and source (http, local) are optional."
        ),
        "required": True,
    }
}
_FLOW = UpdateFlow(steps.FIRMWARE_IMAGES, reboots_at_once=True)


class RedfishManagement(ManagementInterface):
    """Everything about the machine that is neither power nor an image."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return list(boot_options.BOOT_DEVICES)

    @require_exclusive_lock
    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        node = task.node
        info = node.driver_internal_info
        url = info.get(UEFI_HTTP_URL) if device == "uefihttp" else None
        if info.pop(_ON_BOOT_DEVICE_LOST, None) is not None or url is not None:
            info.pop(UEFI_HTTP_URL, None)
            task.save()
        with talk(task, f"setting boot device '{device}'") as bmc:
            kept = boot_options.set_device(
                node, bmc, device, persistent=persistent, http_boot_uri=url
            )
            mode_may_follow = quirks.has(Quirk.DEVICE_CHANGES_MODE, node, bmc)
        if not kept:
            info[_ON_BOOT_DEVICE_LOST] = device
            task.save()
        if mode_may_follow:
            sync_boot_mode(task)

    def restore_boot_device(self, task: Task) -> None:
        """Set a persistent boot device again that the BMC keeps for one boot only.

        Called before every power on and reboot; a failure is only told about.
        """
        device = task.node.driver_internal_info.get(_ON_BOOT_DEVICE_LOST)
        if device is None:
            return
        name = boot_options.LEGACY_NAMES.get(str(device), str(device))
        try:
            with talk(task, f"restoring boot device '{name}'") as bmc:
                boot_options.set_device(task.node, bmc, name, persistent=False)
        except errors.IronicError as exc:
            LOG.warning(
                "Node %s: boot device '%s' could not be set again before power on: %s",
                task.node.uuid,
                name,
                exc,
            )

    def get_boot_device(self, task: Task) -> dict[str, Any]:
        with talk(task, "reading the boot device") as bmc:
            return boot_options.get_device(bmc)

    def get_supported_boot_modes(self, task: Task) -> list[str]:
        return list(boot_options.BOOT_MODES)

    @require_exclusive_lock
    def set_boot_mode(self, task: Task, mode: str) -> None:
        wanted = boot_options.BOOT_MODES.get(mode)
        if wanted is None:
            raise errors.InvalidParameterValue(
                f"Node {task.node.uuid}: unknown boot mode '{mode}'; known are "
                f"{', '.join(boot_options.BOOT_MODES)}."
            )
        with talk(task, f"setting boot mode '{mode}'") as bmc:
            boot = bmc.system.boot
            current = boot.mode if boot is not None else None
            try:
                boot_options.request_mode(task.node, bmc, wanted)
            except sushy.exceptions.SushyError as exc:
                if current is None and not isinstance(exc, sushy.exceptions.ConnectionError):
                    LOG.debug("Node %s refuses boot modes: %s", task.node.uuid, exc)
                    raise self._unsupported(task, "set_boot_mode") from exc
                raise
            if current is None:
                # The mode cannot be read, so it cannot be waited for.
                return
        self._wait_until_applied(
            task,
            f"boot mode '{mode}'",
            lambda bmc: bmc.system.boot is not None and bmc.system.boot.mode == wanted,
        )

    def get_boot_mode(self, task: Task) -> str | None:
        with talk(task, "reading the boot mode") as bmc:
            return boot_options.get_mode(bmc)

    def get_secure_boot_state(self, task: Task) -> bool | None:
        with talk(task, "reading the secure boot state") as bmc:
            try:
                return _as_bool(bmc.secure_boot.enabled)
            except (
                sushy.exceptions.MissingAttributeError,
                sushy.exceptions.ResourceNotFoundError,
            ) as exc:
                raise self._unsupported(task, "get_secure_boot_state") from exc
            except sushy.exceptions.AccessError as exc:
                if "OemLicenseNotPassed" not in str(exc):
                    raise
                return None

    @require_exclusive_lock
    def set_secure_boot_state(self, task: Task, state: bool) -> None:
        doing = "turning secure boot on" if state else "turning secure boot off"
        with talk(task, doing) as bmc:
            try:
                secure_boot = bmc.secure_boot
            except (
                sushy.exceptions.MissingAttributeError,
                sushy.exceptions.ResourceNotFoundError,
            ) as exc:
                raise self._unsupported(task, "set_secure_boot_state") from exc
            if secure_boot.enabled == state:
                return
            if boot_options.get_mode(bmc) == "bios":
                raise errors.RedfishError(
                    error=(
                        f"secure boot of node {task.node.uuid} cannot be changed: "
                        "the machine is in boot mode bios"
                    )
                )
            secure_boot.set_enabled(state)
            bmc.changed()

        def applied(bmc: NodeBmc) -> bool:
            try:
                return _as_bool(bmc.secure_boot.enabled) == state
            except sushy.exceptions.ServerSideError as exc:
                LOG.debug("Node %s: secure boot not readable: %s", task.node.uuid, exc)
                return False

        self._wait_until_applied(task, doing, applied)

    def _wait_until_applied(
        self, task: Task, what: str, applied: Callable[[NodeBmc], bool]
    ) -> None:
        """Wait for a change; most machines make it while they boot.

        A machine that has not made it is rebooted, and put into its old power state
        in the end.

        :raises RedfishError: not within ``[redfish]boot_mode_config_timeout``.
        """

        def look() -> bool:
            with talk(task, f"waiting for {what}") as bmc:
                bmc.reread()
                return applied(bmc)

        timeout = CONF.redfish.boot_mode_config_timeout
        if timeout == 0 or look():
            return
        before = task.driver.power.get_power_state(task)
        LOG.info("Node %s is rebooted for %s to take effect", task.node.uuid, what)
        task.flows.power(states.REBOOT)
        end = time.monotonic() + timeout
        while not look():
            if time.monotonic() >= end:
                raise errors.RedfishError(
                    error=f"{what} of node {task.node.uuid} did not take effect in {timeout} s"
                )
            time.sleep(APPLY_POLL)
        if before == states.POWER_OFF:
            task.flows.power(states.POWER_OFF)

    @clean_step(priority=0)
    @deploy_step(priority=0)
    def reset_secure_boot_keys_to_default(self, task: Task) -> None:
        """Put the manufacturer's secure boot keys back."""
        self._reset_keys(task, sushy.SecureBootResetKeysType.RESET_ALL_KEYS_TO_DEFAULT)

    @clean_step(priority=0)
    @deploy_step(priority=0)
    def clear_secure_boot_keys(self, task: Task) -> None:
        """Delete all secure boot keys."""
        self._reset_keys(task, sushy.SecureBootResetKeysType.DELETE_ALL_KEYS)

    def _reset_keys(self, task: Task, kind: sushy.SecureBootResetKeysType) -> None:
        with talk(task, f"resetting secure boot keys ({kind.value})") as bmc:
            try:
                bmc.secure_boot.reset_keys(kind)
            except sushy.exceptions.MissingAttributeError as exc:
                raise self._unsupported(task, "secure boot keys") from exc

    @clean_step(
        priority=0,
        argsinfo={
            "target_datetime": {
                "description": "Time to set, ISO 8601 with offset. Default: now, in UTC."
            },
            "datetime_local_offset": {"description": "Offset that the BMC shows, such as +00:00."},
        },
    )
    def set_bmc_clock(
        self,
        task: Task,
        target_datetime: str | None = None,
        datetime_local_offset: str | None = None,
    ) -> None:
        """Set the clock of the BMC and check that it took the time."""
        with talk(task, "setting the clock of the BMC") as bmc:
            clock.set_time(task.node, bmc, target_datetime, datetime_local_offset)

    @verify_step(priority=1)
    def verify_bmc_clock(self, task: Task) -> None:
        """Set the clock of the BMC when it is more than a second off.

        Does nothing unless ``[redfish]enable_verify_bmc_clock`` is set.

        :raises NodeVerifyFailure: it cannot be read or set.
        """
        if not CONF.redfish.enable_verify_bmc_clock:
            return
        try:
            with talk(task, "checking the clock of the BMC") as bmc:
                clock.correct(task.node, bmc)
        except errors.IronicError as exc:
            raise errors.NodeVerifyFailure(node=task.node.uuid, reason=str(exc)) from exc

    @clean_step(priority=0, argsinfo=_IMAGES)
    @service_step(priority=0, argsinfo=_IMAGES)
    @require_exclusive_lock
    def update_firmware(self, task: Task, firmware_images: list[dict[str, Any]]) -> str | None:
        """Update firmware from images one after the other, each with a reboot.

        :raises InvalidParameterValue: ``firmware_images`` is not acceptable.
        :raises IronicError: an image cannot be had, or the BMC refuses the first.
        """
        return _FLOW.start(task, _checked(task.node.uuid, firmware_images))

    @node_periodic(
        "checking if async firmware update failed",
        lambda conf: int(conf.redfish.firmware_update_fail_interval),
        filters={
            "reserved": False,
            "provision_state_in": list(firmware_flow.FAILED),
            "maintenance": True,
        },
        columns=("driver_internal_info",),
        predicate=_FLOW.is_left_over,
    )
    def _query_firmware_update_failed(self, task: Task) -> None:
        """Forget updates of a flow that has failed."""
        _FLOW.forget(task)

    @node_periodic(
        "checking async firmware update",
        lambda conf: int(conf.redfish.firmware_update_status_interval),
        filters={"reserved": False, "provision_state_in": list(firmware_flow.WAITING)},
        columns=("driver_internal_info",),
        predicate=_FLOW.is_running,
    )
    def _query_firmware_update_status(self, task: Task) -> None:
        """Go on with the updates of a node, one small piece at a time."""
        _FLOW.follow(task)

    def get_sensors_data(self, task: Task) -> dict[str, Any]:
        try:
            with talk(task, "reading the sensors") as bmc:
                return sensors.collect(task.node, bmc)
        except errors.RedfishError as exc:
            raise errors.FailedToGetSensorData(node=task.node.uuid, error=str(exc)) from exc

    @require_exclusive_lock
    def inject_nmi(self, task: Task) -> None:
        with talk(task, "sending an NMI") as bmc:
            bmc.system.reset_system(sushy.ResetType.NMI)

    def get_node_health(self, task: Task) -> str | None:
        with talk(task, "reading the health") as bmc:
            health = bmc.summary(max_age=FRESH).health
            return None if health is None else str(health.value)

    def get_supported_indicators(
        self, task: Task, component: str | None = None
    ) -> dict[str, dict[str, Any]]:
        with talk(task, "reading the indicators") as bmc:
            return indicators.supported(bmc, component)

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str:
        with talk(task, f"reading indicator '{indicator}'") as bmc:
            return indicators.get(task.node, bmc, component, indicator)

    @require_exclusive_lock
    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        with talk(task, f"setting indicator '{indicator}' to '{state}'") as bmc:
            indicators.set_(task.node, bmc, component, indicator, state)

    def detect_vendor(self, task: Task) -> str | None:
        with talk(task, "detecting the vendor") as bmc:
            vendor = (bmc.root.json or {}).get("Vendor")
            return vendor or bmc.summary(max_age=FRESH).manufacturer

    def get_mac_addresses(self, task: Task) -> list[str]:
        with talk(task, "reading the MAC addresses") as bmc:
            return nics.enabled_macs(task.node, bmc)

    def get_virtual_media(self, task: Task) -> list[dict[str, Any]]:
        with talk(task, "reading the virtual media") as bmc:
            return virtual_media.devices(bmc)

    @require_exclusive_lock
    def attach_virtual_media(self, task: Task, device_type: str, image_url: str) -> None:
        kind = _media_type(task, device_type)
        with talk(task, f"inserting {redact(image_url)} as {device_type}") as bmc:
            virtual_media.insert(task.node, bmc, image_url, kind)

    @require_exclusive_lock
    def detach_virtual_media(self, task: Task, device_types: Sequence[str] | None = None) -> None:
        kinds = [_media_type(task, name) for name in device_types or virtual_media.MEDIA_TYPES]
        with talk(task, "ejecting virtual media") as bmc:
            for kind in kinds:
                virtual_media.eject(task.node, bmc, kind)


def _checked(uuid: str, images: Any) -> list[dict[str, Any]]:
    """Return the updates to make.

    :raises InvalidParameterValue: names the image and what is wrong with it.
    """
    return firmware_images.checked(uuid, images, "firmware_images", _fault)


def _fault(image: Mapping[str, Any]) -> str | None:
    reason = firmware_images.fault_of_keys(image, ("url", "checksum"), ("wait", "source"))
    if reason:
        return reason
    if image.get("source", "http") not in firmware_images.SOURCES:
        return f"source has to be one of {', '.join(firmware_images.SOURCES)}"
    return firmware_images.fault_of_checksum(image["checksum"])


def _media_type(task: Task, device_type: str) -> sushy.VirtualMediaType:
    kind = virtual_media.MEDIA_TYPES.get(device_type)
    if kind is None:
        raise errors.InvalidParameterValue(
            f"Node {task.node.uuid}: unknown virtual media type '{device_type}'; known are "
            f"{', '.join(virtual_media.MEDIA_TYPES)}."
        )
    return kind


def _as_bool(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
