"""What some machines and BMCs want otherwise than the standards say: one table of them all.

No other module asks for a vendor.

Source: specification drivers.md sections 5.4, 6.4, 6.6, 6.11, 7 and 12; field case 50.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from re import Pattern
from typing import Protocol

from ironic_rs.db import models


class Quirk(Enum):
    """A way to be different."""

    #: Loses the boot entry of the installed system when a boot device is set.
    LOSES_BOOT_ENTRY = "loses-boot-entry"
    #: Has a code of its own, in IPMI, for the disk of a machine in UEFI mode.
    OWN_UEFI_DISK = "own-uefi-disk"
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
        vendor=r"american megatrends international|\bami\b|asrockrack|redfish_compatible",
    ),
    Row(
        frozenset({Quirk.ENABLED_WITH_TARGET, Quirk.DEVICE_CHANGES_MODE, Quirk.OWN_UEFI_DISK}),
        vendor=r"supermicro",
    ),
    Row(frozenset({Quirk.LOSES_BOOT_ENTRY}), vendor=r"lenovo"),
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


class Machine(Protocol):
    """What rows are matched with; a method is only called when a row needs it."""

    def vendor(self) -> str: ...

    def product(self) -> str: ...

    def firmware(self) -> str: ...

    def model(self) -> str: ...


class _Stored:
    """A machine of which nothing is known but what its node says."""

    def __init__(self, node: models.Node) -> None:
        self._node = node

    def vendor(self) -> str:
        return str(self._node.properties.get("vendor") or "")

    def product(self) -> str:
        return ""

    def firmware(self) -> str:
        return ""

    def model(self) -> str:
        return ""


def _patterns(row: Row) -> Iterator[tuple[str, Pattern[str]]]:
    for name in ("vendor", "product", "firmware", "model"):
        text = getattr(row, name)
        if text:
            yield name, re.compile(text, re.IGNORECASE)


def compiled(
    rows: Sequence[Row],
) -> tuple[tuple[frozenset[Quirk], tuple[tuple[str, Pattern[str]], ...]], ...]:
    """Return rows as they are matched: (quirks, ((what, pattern), ...))."""
    return tuple((row.quirks, tuple(_patterns(row))) for row in rows)


_COMPILED = compiled(TABLE)


def matches(quirk: Quirk, machine: Machine) -> bool:
    """Tell whether a machine has a quirk."""
    return any(
        quirk in quirks
        and all(pattern.search(getattr(machine, name)()) for name, pattern in patterns)
        for quirks, patterns in _COMPILED
    )


def stored(quirk: Quirk, node: models.Node) -> bool:
    """Tell whether a node has a quirk by ``properties.vendor`` alone, where no BMC is asked."""
    return matches(quirk, _Stored(node))
