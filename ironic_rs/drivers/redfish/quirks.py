"""What is matched of a Redfish machine with the table of quirks.

Source: specification drivers.md sections 6.4, 6.6 and 6.11; field case 50.
"""

from __future__ import annotations

from typing import Any

import sushy.exceptions

from ironic_rs.db import models
from ironic_rs.drivers.quirks import Quirk, matches
from ironic_rs.drivers.redfish.sessions import NodeBmc

__all__ = ["Quirk", "described", "has"]


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


def has(quirk: Quirk, node: models.Node, bmc: NodeBmc) -> bool:
    """Tell whether the machine of a node has a quirk.

    Costs at most a read of the system; of the managers when a row asks for firmware.
    """
    return matches(quirk, _Machine(node, bmc))
