"""MAC addresses that the BMC knows of its machine.

Source: specification drivers.md sections 6.2 (get_enabled_macs), 6.11; field case 66.
"""

from __future__ import annotations

from typing import Any

import sushy
from oslo_log import log
from sushy.resources.system.ethernet_interface import EthernetInterface
from sushy.resources.system.network.device_function import EthernetField

from ironic_rs.db import models
from ironic_rs.domain import names
from ironic_rs.drivers.redfish.resources import members
from ironic_rs.drivers.redfish.sessions import NodeBmc

LOG = log.getLogger(__name__)


def _mac(value: Any) -> str | None:
    """Return a MAC address in lower case with colons, None for anything else.

    The eight-byte names of Fibre Channel cards are something else.
    """
    return names.normalize_mac(value.strip()) if isinstance(value, str) else None


def interfaces(node: models.Node, bmc: NodeBmc) -> list[EthernetInterface]:
    """Return the Ethernet interfaces of the machine; none when the BMC shows none."""
    return members(node, bmc.system, "ethernet_interfaces")


def mac_of(interface: EthernetInterface) -> str | None:
    """Return the configured MAC address of an interface, else the permanent one."""
    return _mac(interface.mac_address) or _mac(interface.permanent_mac_address)


def lasting_mac(function: EthernetField) -> str | None:
    """Return the permanent MAC address of a function of a network card, else the configured.

    Zeros, as of functions that are switched off, are none.
    """
    macs = (_mac(function.permanent_mac_address), _mac(function.mac_address))
    return next((mac for mac in macs if mac and mac.strip("0:")), None)


def enabled_macs(node: models.Node, bmc: NodeBmc) -> list[str]:
    """Return the MAC addresses of the enabled, healthy interfaces, without repetition."""
    macs: dict[str, None] = {}
    for interface in interfaces(node, bmc):
        status = interface.status
        if status is None or status.health not in (None, sushy.Health.OK):
            continue
        mac = mac_of(interface)
        if mac is None:
            LOG.warning(
                "Node %s: interface %s has no usable MAC address (%r)",
                node.uuid,
                interface.identity,
                interface.mac_address,
            )
        elif status.state == sushy.State.ENABLED:
            macs[mac] = None
    return list(macs)
