"""Firmware versions that a BMC shows.

Source: specification drivers.md section 6.9; field case 95.
"""

from __future__ import annotations

import contextlib
from typing import Any

import sushy.exceptions
from sushy.resources.system.network.adapter import NetworkAdapter

from ironic_rs.db import models
from ironic_rs.drivers.redfish import nics
from ironic_rs.drivers.redfish.resources import members, optional
from ironic_rs.drivers.redfish.sessions import NodeBmc

BIOS, BMC, NIC_PREFIX = "bios", "bmc", "nic:"

_MOST = 255
_NO_SERIAL_NUMBERS = frozenset(
    {
        "",
        "default string",
        "n/a",
        "na",
        "none",
        "not available",
        "not specified",
        "null",
        "to be filled by o.e.m.",
        "unknown",
    }
)


def components(node: models.Node, bmc: NodeBmc) -> list[dict[str, Any]]:
    """Return the components as rows: component, current_version, vendor, model, serial_number.

    One row for each network card, also when a BMC lists it several times.  A card is
    known by what stays when a BMC counts its cards anew at a boot: its serial number,
    without one the lowest of its MAC addresses.  Only one that has neither goes by its id.
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
    for adapter in _adapters(node, bmc):
        shown = (controller.firmware_package_version for controller in adapter.controllers or ())
        package = next(filter(None, shown), None)
        if package is None:
            continue
        serial = _serial_number(adapter)
        name = f"{NIC_PREFIX}{serial or _lowest_mac(node, adapter) or adapter.identity}"[:_MOST]
        row = {
            "component": name,
            "current_version": str(package),
            "vendor": adapter.manufacturer,
            "model": adapter.model,
            "serial_number": serial,
        }
        # Parts of one card in any order give the same row.
        known = found.get(name)
        if known is None or row["current_version"] < known["current_version"]:
            found[name] = row
    return list(found.values())


def _adapters(node: models.Node, bmc: NodeBmc) -> list[NetworkAdapter]:
    """Return the network cards of all chassis, each resource once."""
    found: dict[str, NetworkAdapter] = {}
    for chassis in members(node, bmc.system, "chassis"):
        if "NetworkAdapters" in (chassis.json or {}):
            for adapter in members(node, chassis, "network_adapters"):
                found.setdefault(adapter.path, adapter)
    return list(found.values())


def _serial_number(adapter: NetworkAdapter) -> str | None:
    """Return the serial number, None for what BMCs write in its place."""
    text = str(adapter.serial_number or "").strip()
    known = text.lower() not in _NO_SERIAL_NUMBERS and text.strip("0- ")
    return text if known else None


def _lowest_mac(node: models.Node, adapter: NetworkAdapter) -> str | None:
    """Return the lowest permanent MAC address of a card, None when it shows none."""
    if "NetworkDeviceFunctions" not in (adapter.json or {}):
        return None
    macs = (
        nics.lasting_mac(function.ethernet)
        for function in members(node, adapter, "network_device_functions")
        if function.ethernet is not None
    )
    return min(filter(None, macs), default=None)


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
