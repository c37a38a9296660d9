"""The inventory of a machine as its BMC tells it, in the form that the ramdisk uses.

Values are plain text and numbers.  Whatever the BMC does not show, or shows in a
strange form, is logged and left out.

Source: specification drivers.md section 6.11, inspection.md section 5; field cases
66 and 72.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import sushy
from oslo_log import log
from oslo_utils import units
from sushy.resources.system.system import System

from ironic_rs.db import models
from ironic_rs.drivers.redfish import boot_options, nics, quirks
from ironic_rs.drivers.redfish.quirks import Quirk
from ironic_rs.drivers.redfish.resources import members, optional, plain
from ironic_rs.drivers.redfish.sessions import NodeBmc

LOG = log.getLogger(__name__)

Inventory = dict[str, Any]

#: Anything smaller is no disk to deploy to.
SMALLEST_DISK = 4 * units.Gi

_ARCHITECTURES = {
    sushy.InstructionSet.ARM_A32: "arm",
    sushy.InstructionSet.ARM_A64: "aarch64",
    sushy.InstructionSet.IA_64: "ia64",
    sushy.InstructionSet.MIPS32: "mips",
    sushy.InstructionSet.MIPS64: "mips64",
    sushy.InstructionSet.X86: "i686",
    sushy.InstructionSet.X86_64: "x86_64",
}


@dataclass(frozen=True)
class Found:
    """What the BMC tells of its machine.

    :param inventory: cpu, memory, disks, interfaces, ... (inspection.md section 5).
    :param local_gb: GiB for properties.local_gb, 0 when there is no disk.
    :param lldp: port id -> what the switch says of itself.
    """

    inventory: Inventory
    local_gb: int
    lldp: dict[str, dict[str, Any]]


def collect(node: models.Node, bmc: NodeBmc) -> Found:
    """Read everything that the inventory wants; takes many requests."""
    system = bmc.system
    inventory: Inventory = {
        "interfaces": _interfaces(node, bmc),
        "system_vendor": _vendor(node, bmc),
        "boot": {},
    }
    memory = optional(node, "memory", lambda: system.memory_summary.size_gib, None)
    if memory:
        inventory["memory"] = {"physical_mb": int(memory) * units.Ki}
    cpu = _cpu(members(node, system, "processors"))
    if cpu:
        inventory["cpu"] = cpu
    mode = boot_options.get_mode(bmc)
    if mode is not None:
        inventory["boot"]["current_boot_mode"] = mode
    simple = _simple_disks(node, system)
    storages = _storages(node, system)
    drives = [drive for _storage, its_drives in storages for drive in its_drives]
    inventory["disks"] = [_disk(drive) for drive in drives] or [
        {"name": device.name, "size": device.capacity_bytes} for device in simple
    ]
    if storages:
        inventory["storage_controllers"] = [_controller(node, *pair) for pair in storages]
    pci = _pci_devices(node, system)
    if pci:
        inventory["pci_devices"] = pci
    return Found(inventory, _local_gb(node, simple, storages), _lldp(node, system))


def _cpu(processors: list[Any]) -> dict[str, Any] | None:
    processors = [p for p in processors if p.processor_type in (None, sushy.ProcessorType.CPU)]
    if not processors:
        return None
    first = processors[0]
    return {
        "count": sum(processor.total_threads or 0 for processor in processors),
        "model_name": first.model,
        "frequency": first.max_speed_mhz,
        "architecture": _ARCHITECTURES.get(first.instruction_set, ""),
    }


def _interfaces(node: models.Node, bmc: NodeBmc) -> list[dict[str, Any]]:
    found = []
    for interface in nics.interfaces(node, bmc):
        mac = nics.mac_of(interface)
        if mac is None:
            LOG.warning(
                "Node %s: interface %s has no usable MAC address (%r), left out",
                node.uuid,
                interface.identity,
                interface.mac_address,
            )
            continue
        found.append(
            {
                "mac_address": mac,
                "name": str(interface.identity or mac),
                "speed_mbps": interface.speed_mbps,
            }
        )
    return found


def _vendor(node: models.Node, bmc: NodeBmc) -> dict[str, Any]:
    system = bmc.system
    serial = system.serial_number
    if system.sku and quirks.has(Quirk.SERIAL_IS_SKU, node, bmc):
        serial = system.sku
    return {
        "product_name": system.model,
        "serial_number": serial,
        "manufacturer": system.manufacturer,
        "system_uuid": system.uuid,
        "sku": system.sku,
    }


def _simple_disks(node: models.Node, system: System) -> list[Any]:
    return [
        device
        for storage in members(node, system, "simple_storage")
        for device in storage.devices or []
        if device.capacity_bytes
    ]


def _storages(node: models.Node, system: System) -> list[tuple[Any, list[Any]]]:
    """Return (storage, its drives)."""
    return [
        (storage, members(node, storage, "drives") if storage.drives_identities else [])
        for storage in members(node, system, "storage")
    ]


def _disk(drive: Any) -> dict[str, Any]:
    return {
        "name": drive.name,
        "size": drive.capacity_bytes,
        "vendor": drive.manufacturer,
        "model": drive.model,
        "serial": drive.serial_number,
        "rotational": drive.media_type == "HDD" if drive.media_type else None,
    }


def _status(resource: Any) -> dict[str, Any]:
    status = resource.status
    return {
        "health": plain(status.health) if status is not None else None,
        "state": plain(status.state) if status is not None else None,
    }


def _texts(values: Iterable[Any] | None) -> list[Any]:
    return [plain(value) for value in values or []]


def _controller(node: models.Node, storage: Any, drives: list[Any]) -> dict[str, Any]:
    controllers = members(node, storage, "controllers")
    return {
        "id": storage.identity,
        "name": storage.name,
        "storage_controllers": [
            {
                "member_id": getattr(controller, "member_id", None)
                or getattr(controller, "identity", None),
                "name": controller.name,
                "raid_types": _texts(controller.raid_types),
                "speed_gbps": controller.speed_gbps,
                "controller_protocols": _texts(controller.controller_protocols),
                "device_protocols": _texts(controller.device_protocols),
                "status": _status(controller),
            }
            for controller in controllers or storage.storage_controllers or []
        ],
        "drives": [
            {
                "name": drive.name,
                "size": drive.capacity_bytes,
                "id": drive.identity,
                "media_type": drive.media_type,
                "serial_number": drive.serial_number,
                "manufacturer": drive.manufacturer,
                "model": drive.model,
                "revision": drive.revision,
                "protocol": plain(drive.protocol),
                "status": _status(drive),
            }
            for drive in drives
        ],
    }


def _pci_devices(node: models.Node, system: System) -> list[dict[str, Any]]:
    return [
        {
            "class": _hex(function.class_code),
            "product_id": _hex(function.device_id),
            "vendor_id": _hex(function.vendor_id),
            "subsystem_id": _hex(function.subsystem_id),
            "subsystem_vendor_id": _hex(function.subsystem_vendor_id),
            "revision": _hex(function.revision_id),
        }
        for device in members(node, system, "pcie_devices")
        for function in members(node, device, "pcie_functions")
    ]


def _hex(value: Any) -> str | None:
    """Return a hexadecimal number as the ramdisk writes it: lower case, no 0x."""
    return str(value).lower().removeprefix("0x") if value is not None else None


def _local_gb(node: models.Node, simple: list[Any], storages: list[tuple[Any, list[Any]]]) -> int:
    """Return the size for properties.local_gb: one GiB less than the smallest disk.

    Of simple storage and of volumes (drives when there are no volumes) each the
    smallest disk of at least 4 GiB counts, and of these two the smaller; 0 when there
    is none.
    """
    volumes = [
        volume for storage, _drives in storages for volume in members(node, storage, "volumes")
    ]
    drives = [drive for _storage, its_drives in storages for drive in its_drives]
    candidates = []
    for disks in (simple, volumes or drives):
        usable = [
            disk.capacity_bytes for disk in disks if (disk.capacity_bytes or 0) >= SMALLEST_DISK
        ]
        if usable:
            candidates.append(min(usable))
    if not candidates:
        LOG.warning("Node %s: the BMC shows no disk of 4 GiB or more", node.uuid)
        return 0
    return int(max(min(candidates) // units.Gi - 1, 0))


def _lldp(node: models.Node, system: System) -> dict[str, dict[str, Any]]:
    """Return port id -> what the switch says of itself, for plugin_data.parsed_lldp."""
    ports = [
        port
        for chassis in members(node, system, "chassis")
        for adapter in members(node, chassis, "network_adapters")
        for port in members(node, adapter, "ports")
    ]
    found: dict[str, dict[str, Any]] = {}
    for port in ports:
        heard = port.ethernet.lldp_receive if port.ethernet is not None else None
        if heard is None:
            continue
        values = {
            "switch_chassis_id": heard.chassis_id,
            "switch_port_id": heard.port_id,
            "switch_system_name": heard.system_name,
            "switch_system_description": heard.system_description,
            "switch_vlan_id": heard.management_vlan_id,
        }
        values = {name: value for name, value in values.items() if value is not None}
        if values:
            found[str(port.identity)] = values
    return found
