"""Management through IPMI: boot device, sensors, NMI, vendor.

Source: specification drivers.md section 5.4.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.domain import errors
from ironic_rs.drivers.base import ManagementInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.ipmi import boot_device, manufacturer, power
from ironic_rs.drivers.ipmi.bmc import operate
from ironic_rs.drivers.ipmi.driver_info import PROPERTIES, parse, validate
from ironic_rs.drivers.ipmi.errors import UnreadableSensors


class IPMIManagement(ManagementInterface):
    """Boot device, sensors, NMI and vendor of a machine."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        validate(task.node)

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return list(boot_device.DEVICES)

    @require_exclusive_lock
    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        boot_device.set_device(task, parse(task.node), device, persistent)

    def get_boot_device(self, task: Task) -> dict[str, Any]:
        return boot_device.get_device(task, parse(task.node))

    def get_sensors_data(self, task: Task) -> dict[str, Any]:
        node = task.node
        try:
            return operate(node, "reading the sensors", lambda link: link.sensors())
        except errors.IPMIFailure as exc:
            if isinstance(exc.__cause__, UnreadableSensors):
                raise errors.FailedToParseSensorData(node=node.uuid, error=str(exc)) from exc
            raise errors.FailedToGetSensorData(node=node.uuid, error=str(exc)) from exc

    @require_exclusive_lock
    def inject_nmi(self, task: Task) -> None:
        operate(task.node, "sending an NMI", lambda link: power.control(link, power.NMI))

    def detect_vendor(self, task: Task) -> str | None:
        return manufacturer.detect(task.node)
