"""What some BMCs want otherwise than the standard says: one table of them all.

Nothing else of this package knows the name of a vendor.

Source: specification drivers.md sections 6.4, 6.6 and 6.11; field case 50.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from re import Pattern

import sushy.exceptions

from ironic_rs.db import models
from ironic_rs.drivers.redfish.sessions import NodeBmc


class Quirk(Enum):
    """A way to be different."""

    #: Refuses boot settings that are not the whole boot object; gets it at once.
    WHOLE_BOOT_OBJECT = "whole-boot-object"
    #: Forgets whether the boot device is for once when only the device is sent.
    ENABLED_WITH_TARGET = "enabled-with-target"
    #: May change the boot mode along with the boot device.
    DEVICE_CHANGES_MODE = "device-changes-mode"
    #: Boots from virtual media only by a request of its own.
    OWN_MEDIA_BOOT = "own-media-boot"
    #: Shows the number by which everybody knows the machine as its SKU.
    SERIAL_IS_SKU = "serial-is-sku"


@dataclass(frozen=True)
class Row:
    """Machines that have quirks: those that all patterns are found in.

    :param vendor: regular expression, searched for in ``properties.vendor`` of the
        node, else in the vendor of the service root, else in the manufacturer of the
        system; case does not matter.
    :param product: searched for in the product of the service root.
    :param firmware: searched for in the firmware version of the BMC, which is empty
        when the BMC does not tell.
    """

    quirks: frozenset[Quirk]
    vendor: str
    product: str = ""
    firmware: str = ""


TABLE = (
    Row(
        frozenset({Quirk.WHOLE_BOOT_OBJECT}),
        # The last is for operators, whose machine does as these do.
        vendor=r"american megatrends international|ami|asrockrack|redfish_compatible",
    ),
    Row(
        frozenset({Quirk.ENABLED_WITH_TARGET, Quirk.DEVICE_CHANGES_MODE}),
        vendor=r"supermicro",
    ),
    Row(frozenset({Quirk.SERIAL_IS_SKU}), vendor=r"dell"),
    Row(
        frozenset({Quirk.OWN_MEDIA_BOOT}),
        vendor=r"\bdell\b",
        # iDRAC 9 learnt the standard's way with firmware 6; iDRAC 10 begins anew.
        firmware=r"^(?![67](\.|$))",
    ),
)


class _Machine:
    """What is matched, each read from the BMC only when a row needs it."""

    def __init__(self, node: models.Node, bmc: NodeBmc) -> None:
        self._node = node
        self._bmc = bmc
        self._firmware: str | None = None

    def vendor(self) -> str:
        chosen = self._node.properties.get("vendor") or self._root("Vendor")
        return str(chosen or self._bmc.system.manufacturer or "")

    def product(self) -> str:
        return str(self._root("Product") or "")

    def firmware(self) -> str:
        if self._firmware is None:
            try:
                managers = self._bmc.system.managers
            except (
                sushy.exceptions.MissingAttributeError,
                sushy.exceptions.ResourceNotFoundError,
            ):
                managers = []
            self._firmware = str(managers[0].firmware_version or "") if managers else ""
        return self._firmware

    def _root(self, name: str) -> object:
        return (self._bmc.root.json or {}).get(name)


def described(node: models.Node, bmc: NodeBmc) -> str:
    """Return what rows are matched with, for texts."""
    machine = _Machine(node, bmc)
    parts = (machine.vendor(), machine.product())
    firmware = machine.firmware()
    return ", ".join(
        [*filter(None, parts), f"BMC firmware {firmware or 'of unknown version'}"],
    )


def _patterns(row: Row) -> Iterator[tuple[str, Pattern[str]]]:
    for name in ("vendor", "product", "firmware"):
        text = getattr(row, name)
        if text:
            yield name, re.compile(text, re.IGNORECASE)


_COMPILED = tuple((row.quirks, tuple(_patterns(row))) for row in TABLE)


def has(quirk: Quirk, node: models.Node, bmc: NodeBmc) -> bool:
    """Tell whether the machine of a node has a quirk.

    Costs at most a read of the system; of the managers when a row asks for firmware.
    """
    machine = _Machine(node, bmc)
    return any(
        quirk in quirks
        and all(pattern.search(getattr(machine, name)()) for name, pattern in patterns)
        for quirks, patterns in _COMPILED
    )
