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
from typing import Any

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
    #: Takes media in its first slot only, whatever the others say.
    FIRST_MEDIA_SLOT = "first-media-slot"
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
    :param model: searched for in the model of the BMC, which likewise may be empty.
    """

    quirks: frozenset[Quirk]
    vendor: str
    product: str = ""
    firmware: str = ""
    model: str = ""


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
    Row(
        frozenset({Quirk.FIRST_MEDIA_SLOT}),
        vendor=r"\bdell\b",
        # Generations of machines; iDRAC 10 came with the 17th.
        model=r"^(1[7-9]|[2-9]\d)G\b",
    ),
)


class _Machine:
    """What is matched, each read from the BMC only when a row needs it."""

    def __init__(self, node: models.Node, bmc: NodeBmc) -> None:
        self._node = node
        self._bmc = bmc
        self._managers: list[Any] | None = None

    def vendor(self) -> str:
        chosen = self._node.properties.get("vendor") or self._root("Vendor")
        return str(chosen or self._bmc.system.manufacturer or "")

    def product(self) -> str:
        return str(self._root("Product") or "")

    def firmware(self) -> str:
        return self._of_manager("firmware_version")

    def model(self) -> str:
        return self._of_manager("model")

    def _of_manager(self, attribute: str) -> str:
        if self._managers is None:
            try:
                self._managers = self._bmc.system.managers
            except (
                sushy.exceptions.MissingAttributeError,
                sushy.exceptions.ResourceNotFoundError,
            ):
                self._managers = []
        return str(getattr(self._managers[0], attribute) or "") if self._managers else ""

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
    for name in ("vendor", "product", "firmware", "model"):
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
