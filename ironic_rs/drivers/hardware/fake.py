"""Hardware type ``fake-hardware``: machines that exist only in the database."""

from __future__ import annotations

from typing import ClassVar

from ironic_rs.drivers.hardware.base import (
    DEPLOYS,
    NETWORK_BOOTS,
    NETWORKS,
    HardwareType,
    Interfaces,
)


class FakeHardware(HardwareType):
    """For trying and testing the service; accepts every enabled interface."""

    accepts_any = True
    interfaces: ClassVar[Interfaces] = {
        "bios": ("fake", "no-bios"),
        "boot": ("fake", *NETWORK_BOOTS),
        "console": ("fake", "no-console", "fake-graphical"),
        "deploy": ("fake", *DEPLOYS),
        "firmware": ("fake", "no-firmware"),
        "inspect": ("fake", "agent", "no-inspect"),
        "management": ("fake",),
        "network": NETWORKS,
        "power": ("fake",),
        "raid": ("fake", "no-raid", "agent"),
        "rescue": ("fake", "no-rescue", "agent"),
        "storage": ("fake", "noop", "cinder", "external"),
        "vendor": ("fake", "no-vendor"),
    }
