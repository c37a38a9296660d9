"""Hardware type ``manual-management``: machines without a usable BMC."""

from __future__ import annotations

from typing import ClassVar

from ironic_rs.drivers.hardware.base import (
    DEPLOYS,
    NETWORK_BOOTS,
    NETWORKS,
    HardwareType,
    Interfaces,
)


class ManualManagementHardware(HardwareType):
    """Machines that somebody else, or their own ramdisk, switches on and off."""

    interfaces: ClassVar[Interfaces] = {
        "bios": ("no-bios",),
        "boot": NETWORK_BOOTS,
        "console": ("no-console", "fake-graphical"),
        "deploy": (*DEPLOYS, "noop"),
        "firmware": ("no-firmware",),
        "inspect": ("agent", "no-inspect"),
        "management": ("noop", "fake"),
        "network": NETWORKS,
        "power": ("agent", "fake"),
        "raid": ("no-raid", "agent"),
        "rescue": ("no-rescue", "agent"),
        "storage": ("noop", "cinder", "external"),
        "vendor": ("no-vendor",),
    }
