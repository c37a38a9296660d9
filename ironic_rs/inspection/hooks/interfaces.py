"""Hook ``validate-interfaces``: which network interfaces of an inventory count.

Source: specification inspection.md section 4; field case 66.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, names
from ironic_rs.inspection.hooks.base import Data, Hook, InspectionTask

LOG = log.getLogger(__name__)


class ValidateInterfaces(Hook):
    """Writes plugin_data ``all_interfaces``, ``valid_interfaces`` (by name) and ``macs``."""

    def preprocess(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        uuid = task.node.uuid
        found = inventory.get("interfaces")
        if not found or not isinstance(found, list):
            raise errors.HardwareInspectionFailure(error="the inventory has no network interfaces")
        pxe_mac = pxe_address(inventory)
        usable = _usable(uuid, found, pxe_mac)
        if not usable:
            raise errors.HardwareInspectionFailure(
                error="no network interface of the inventory has a name and a valid MAC address"
            )
        wanted = {name: entry for name, entry in usable.items() if _counts(entry, pxe_mac)}
        if not wanted:
            raise errors.HardwareInspectionFailure(
                error=(
                    "no network interface of the inventory is one that [inspector]add_ports = "
                    f"{CONF.inspector.add_ports} wants"
                )
            )
        plugin_data["all_interfaces"] = usable
        plugin_data["valid_interfaces"] = wanted
        plugin_data["macs"] = sorted({entry["mac_address"] for entry in wanted.values()})

    def __call__(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        """Everything is done in preprocessing, for the hooks that depend on it."""


def pxe_address(inventory: Data) -> str | None:
    """Return the MAC address of the interface that the machine booted from.

    The form of BOOTIF, with a leading hardware type, is understood.
    """
    boot = inventory.get("boot")
    value = boot.get("pxe_interface") if isinstance(boot, dict) else None
    if not isinstance(value, str):
        return None
    if value.count("-") == 6:
        value = value.partition("-")[2]
    return names.normalize_mac(value)


def _usable(uuid: str, found: list[Any], pxe_mac: str | None) -> dict[str, Data]:
    usable: dict[str, Data] = {}
    for entry in found:
        if not isinstance(entry, dict):
            continue
        name, mac = entry.get("name"), entry.get("mac_address")
        address = names.normalize_mac(mac) if isinstance(mac, str) else None
        if not name or address is None:
            LOG.warning("Node %s: interface %r with MAC %r is left out", uuid, name, mac)
            continue
        if name == "lo" or _is_loopback(entry):
            continue
        usable[str(name)] = {
            **entry,
            "mac_address": address,
            # Without knowing the boot interface, each may be the one.
            "pxe_enabled": pxe_mac is None or address == pxe_mac,
            "ipv6_address": _without_scope(entry.get("ipv6_address")),
        }
    return usable


def _without_scope(address: Any) -> Any:
    return address.partition("%")[0] if isinstance(address, str) else address


def _is_loopback(entry: Data) -> bool:
    for key in ("ipv4_address", "ipv6_address"):
        value = entry.get(key)
        try:
            if value and ipaddress.ip_address(_without_scope(value)).is_loopback:
                return True
        except ValueError:
            continue
    return False


def _counts(entry: Data, pxe_mac: str | None) -> bool:
    wanted = CONF.inspector.add_ports
    if wanted == "pxe":
        return bool(entry["pxe_enabled"])
    if wanted == "active":
        return bool(entry.get("ipv4_address") or entry.get("ipv6_address"))
    return True
