"""Management through IPMI: boot device, sensors, NMI, vendor.

Source: specification drivers.md section 5.4.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.domain import errors
from ironic_rs.drivers.base import ManagementInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.ipmi import boot_device, power
from ironic_rs.drivers.ipmi.bmc import Link, operate
from ironic_rs.drivers.ipmi.driver_info import PROPERTIES, parse, validate
from ironic_rs.drivers.ipmi.errors import BmcError

_APPLICATION = 0x06
_GET_DEVICE_ID = 0x01

#: Manufacturers by their enterprise number (IANA), as vendors are called elsewhere.
MANUFACTURERS = {
    2: "ibm",
    9: "cisco",
    11: "hewlett-packard",
    42: "sun",
    193: "ericsson",
    343: "intel",
    368: "fujitsu",
    674: "dell",
    2011: "huawei",
    5771: "cisco",
    6653: "tyan",
    7154: "nutanix",
    7244: "quanta",
    8741: "inspur",
    10368: "fujitsu",
    10437: "wiwynn",
    10876: "supermicro",
    15000: "gigabyte",
    15370: "gigabyte",
    19046: "lenovo",
    20301: "ibm",
    20974: "american megatrends",
    37945: "inspur",
    42817: "ibm",
    47196: "hpe",
    47488: "supermicro",
    49622: "asrockrack",
    50673: "nvidia",
}


def _device_id(link: Link) -> bytes:
    answer = link.ask(_APPLICATION, _GET_DEVICE_ID)
    if len(answer) < 9:
        raise BmcError(f"its identification has only {len(answer)} bytes")
    return answer


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
            raise errors.FailedToGetSensorData(node=node.uuid, error=str(exc)) from exc

    @require_exclusive_lock
    def inject_nmi(self, task: Task) -> None:
        operate(task.node, "sending an NMI", lambda link: power.control(link, power.NMI))

    def detect_vendor(self, task: Task) -> str | None:
        answer = operate(task.node, "reading the vendor", _device_id, reading=True)
        return MANUFACTURERS.get(int.from_bytes(answer[6:9], "little"))
