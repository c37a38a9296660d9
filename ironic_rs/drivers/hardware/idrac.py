"""Hardware type ``idrac``: Redfish, and what these BMCs offer beside it."""

from __future__ import annotations

from typing import ClassVar

from ironic_rs.drivers.hardware.base import NETWORK_BOOTS, Interfaces
from ironic_rs.drivers.hardware.redfish import RedfishHardware


class IDRACHardware(RedfishHardware):
    """Machines with an integrated remote access controller."""

    interfaces: ClassVar[Interfaces] = {
        **RedfishHardware.interfaces,
        "bios": ("idrac-redfish", "redfish", "no-bios"),
        "boot": (*NETWORK_BOOTS, "idrac-redfish-virtual-media", "redfish-https"),
        "inspect": ("idrac-redfish", "agent", "no-inspect"),
        "management": ("idrac-redfish",),
        "power": ("idrac-redfish", "redfish"),
        "raid": ("idrac-redfish", "no-raid", "agent"),
        "vendor": ("idrac-redfish", "redfish", "no-vendor"),
    }
