"""Hardware type ``redfish``: machines whose BMC speaks Redfish."""

from __future__ import annotations

from typing import ClassVar

from ironic_rs.drivers.hardware.base import (
    DEPLOYS,
    NETWORK_BOOTS,
    NETWORKS,
    HardwareType,
    Interfaces,
)


class RedfishHardware(HardwareType):
    """Machines managed through the Redfish service of their BMC."""

    interfaces: ClassVar[Interfaces] = {
        "bios": ("redfish", "no-bios"),
        "boot": (*NETWORK_BOOTS, "redfish-virtual-media", "redfish-https"),
        "console": ("redfish-graphical", "ipmitool-socat", "no-console", "fake-graphical"),
        "deploy": DEPLOYS,
        "firmware": ("redfish", "no-firmware"),
        "inspect": ("redfish", "agent", "no-inspect"),
        "management": ("redfish", "noop"),
        "network": NETWORKS,
        "power": ("redfish",),
        "raid": ("redfish", "no-raid", "agent"),
        "rescue": ("no-rescue", "agent"),
        "storage": ("noop", "cinder", "external"),
        "vendor": ("redfish", "no-vendor"),
    }
