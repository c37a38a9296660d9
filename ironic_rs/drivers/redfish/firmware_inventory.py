"""Firmware versions that a BMC shows.

Source: specification drivers.md section 6.9; field case 95.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.db import models
from ironic_rs.drivers.redfish.resources import members, optional
from ironic_rs.drivers.redfish.sessions import NodeBmc

BIOS, BMC, NIC_PREFIX = "bios", "bmc", "nic:"


def components(node: models.Node, bmc: NodeBmc) -> list[dict[str, Any]]:
    """Return the components as rows: component, current_version, vendor, model, serial_number.

    A network card is known by its serial number, which stays when a BMC counts its
    cards anew at a boot; by its id only when it has none.
    """
    found: dict[str, dict[str, Any]] = {}
    version = optional(node, "BIOS version", lambda: bmc.system.bios_version, None)
    if version:
        found[BIOS] = {"component": BIOS, "current_version": str(version)}
    for manager in members(node, bmc.system, "managers")[:1]:
        if manager.firmware_version:
            found[BMC] = {
                "component": BMC,
                "current_version": str(manager.firmware_version),
                "model": manager.model,
            }
    for chassis in members(node, bmc.system, "chassis"):
        if "NetworkAdapters" not in (chassis.json or {}):
            continue
        for adapter in members(node, chassis, "network_adapters"):
            name = f"{NIC_PREFIX}{adapter.serial_number or adapter.identity}"
            for controller in adapter.controllers or ():
                if controller.firmware_package_version and name not in found:
                    found[name] = {
                        "component": name,
                        "current_version": str(controller.firmware_package_version),
                        "vendor": adapter.manufacturer,
                        "model": adapter.model,
                        "serial_number": adapter.serial_number,
                    }
    return list(found.values())


def version(node: models.Node, bmc: NodeBmc, component: str) -> str | None:
    """Return the version of a component now; None when the BMC does not show it."""
    if component == BMC:
        managers = bmc.system.managers
        return str(managers[0].firmware_version) if managers else None
    if component == BIOS:
        return bmc.system.bios_version
    for row in components(node, bmc):
        if row["component"] == component:
            return str(row["current_version"])
    return None
