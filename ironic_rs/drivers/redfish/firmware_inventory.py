"""Firmware versions that a BMC shows.

Source: specification drivers.md section 6.9; field case 95.
"""

from __future__ import annotations

import contextlib
from typing import Any

import sushy.exceptions

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


def versions(node: models.Node, bmc: NodeBmc, component: str | None) -> dict[str, str]:
    """Return component -> version now, of those that the BMC shows.

    :param component: the one to look at; None: all.
    """
    if component == BMC:
        managers = bmc.system.managers
        shown = managers[0].firmware_version if managers else None
    elif component == BIOS:
        shown = bmc.system.bios_version
    else:
        return {
            row["component"]: row["current_version"]
            for row in components(node, bmc)
            if component in (row["component"], None)
        }
    return {component: str(shown)} if shown else {}


def read_all(bmc: NodeBmc) -> None:
    """Read what firmware updates are known to disturb; parts not offered are passed over.

    :raises sushy.exceptions.SushyError: a part cannot be read.
    """
    with contextlib.suppress(sushy.exceptions.MissingAttributeError):
        list(bmc.system.managers)
    with contextlib.suppress(sushy.exceptions.MissingAttributeError):
        for chassis in bmc.system.chassis:
            if "NetworkAdapters" in (chassis.json or {}):
                chassis.network_adapters.get_members()
