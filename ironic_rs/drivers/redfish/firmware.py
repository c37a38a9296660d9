"""Firmware versions and updates through Redfish.

Source: specification drivers.md section 6.9; field case 90.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.domain import steps
from ironic_rs.drivers.base import FirmwareInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    node_periodic,
    require_exclusive_lock,
    service_step,
)
from ironic_rs.drivers.redfish import firmware_flow, firmware_images, firmware_inventory
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.firmware_flow import UpdateFlow
from ironic_rs.drivers.redfish.firmware_progress import Update

_SETTINGS = {
    "settings": {
        "description": (
            "List of {component, url, wait}: component is bios, bmc or nic:ID; wait is "
            "optional, in seconds."
        ),
        "required": True,
    }
}
_FLOW = UpdateFlow(steps.FIRMWARE_UPDATES)


class RedfishFirmware(FirmwareInterface):
    """Shows versions of BIOS, BMC and network cards, and updates them by SimpleUpdate."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)

    def cache_firmware_components(self, task: Task) -> None:
        """Store the versions that the BMC shows.

        :raises UnsupportedDriverExtension: it shows none.
        """
        firmware_flow.cache(task)

    @clean_step(priority=0, argsinfo=_SETTINGS, requires_ramdisk=True)
    @deploy_step(priority=0, abortable=False, argsinfo=_SETTINGS)
    @service_step(priority=0, argsinfo=_SETTINGS, requires_ramdisk=False)
    @require_exclusive_lock
    def update(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        """Update components one after the other, in the given order.

        :raises InvalidParameterValue: ``settings`` is not acceptable.
        :raises IronicError: an image cannot be had, or the BMC refuses the first.
        """
        return _FLOW.start(task, _checked(task.node.uuid, settings))

    @node_periodic(
        "checking if async update of firmware component failed",
        lambda conf: int(conf.redfish.firmware_update_fail_interval),
        filters={
            "reserved": False,
            "provision_state_in": list(firmware_flow.FAILED),
            "maintenance": True,
        },
        columns=("driver_internal_info",),
        predicate=_FLOW.is_left_over,
    )
    def _query_update_failed(self, task: Task) -> None:
        """Forget updates of a flow that has failed."""
        _FLOW.forget(task)

    @node_periodic(
        "checking async update of firmware component",
        lambda conf: int(conf.redfish.firmware_update_status_interval),
        filters={"reserved": False, "provision_state_in": list(firmware_flow.WAITING)},
        columns=("driver_internal_info",),
        predicate=_FLOW.is_running,
    )
    def _query_update_status(self, task: Task) -> None:
        """Go on with the updates of a node, one small piece at a time."""
        _FLOW.follow(task)


def _checked(uuid: str, settings: Any) -> list[Update]:
    """Return the updates to make.

    :raises InvalidParameterValue: names the entry and what is wrong with it.
    """
    return firmware_images.checked(uuid, settings, "settings", _fault)


def _fault(entry: Mapping[str, Any]) -> str | None:
    reason = firmware_images.fault_of_keys(entry, ("component", "url"), ("wait",))
    if reason:
        return reason
    component = entry["component"]
    if not isinstance(component, str) or not (
        component in (firmware_inventory.BIOS, firmware_inventory.BMC)
        or component.removeprefix(firmware_inventory.NIC_PREFIX) not in ("", component)
    ):
        return "component has to be bios, bmc or nic:ID"
    return None
