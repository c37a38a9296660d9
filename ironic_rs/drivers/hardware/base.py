"""What a hardware type is: the interfaces that fit a kind of machine, in order.

Source: specification drivers.md sections 1.1, 1.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_rs.drivers.base import BaseInterface

#: An interface by entry-point name, or by class.
Supported = str | type[BaseInterface]
#: Interface type -> what fits, best first.
Interfaces = Mapping[str, tuple[Supported, ...]]

NETWORKS = ("flat", "neutron", "ironic-networking", "noop")
NETWORK_BOOTS = ("ipxe", "pxe", "http-ipxe", "http")
DEPLOYS = ("autodetect", "direct", "ansible", "ramdisk", "anaconda", "bootc", "custom-agent")


class HardwareType:
    """A kind of machine.

    ``interfaces`` maps an interface type to what fits, best first.  Names that
    are not installed are skipped, so the lists may name interfaces of optional
    packages.  Types that are left out get the no-op of that type.
    """

    #: False: the conductor warns when the type is enabled.
    supported: ClassVar[bool] = True
    #: True: any enabled interface is accepted when asked for by name.
    accepts_any: ClassVar[bool] = False
    interfaces: ClassVar[Interfaces]

    _NO_OPS: ClassVar[Interfaces] = {
        "bios": ("no-bios",),
        "console": ("no-console",),
        "firmware": ("no-firmware",),
        "inspect": ("no-inspect",),
        "network": ("noop",),
        "raid": ("no-raid",),
        "rescue": ("no-rescue",),
        "storage": ("noop",),
        "vendor": ("no-vendor",),
    }

    def supports(self, interface_type: str) -> tuple[Supported, ...]:
        """Return the interfaces of a type that fit, best first."""
        found = self.interfaces.get(interface_type)
        return self._NO_OPS[interface_type] if found is None else found
