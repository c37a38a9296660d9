"""Hardware type ``ipmi``: machines whose BMC speaks IPMI."""

from __future__ import annotations

from typing import ClassVar

from ironic_rs.drivers.hardware.base import (
    DEPLOYS,
    NETWORK_BOOTS,
    NETWORKS,
    HardwareType,
    Interfaces,
)


class IPMIHardware(HardwareType):
    """Machines managed through the IPMI service of their BMC."""

    interfaces: ClassVar[Interfaces] = {
        "bios": ("no-bios",),
        "boot": NETWORK_BOOTS,
        "console": ("ipmitool-socat", "no-console", "fake-graphical"),
        "deploy": DEPLOYS,
        "firmware": ("no-firmware",),
        "inspect": ("agent", "no-inspect"),
        "management": ("ipmitool", "noop"),
        "network": NETWORKS,
        "power": ("ipmitool",),
        "raid": ("no-raid", "agent"),
        "rescue": ("no-rescue", "agent"),
        "storage": ("noop", "cinder", "external"),
        "vendor": ("ipmitool", "no-vendor"),
    }
