"""The boot mode that a node should use: BIOS or UEFI, secure boot or not.

Source: specification drivers.md section 3 (boot mode).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.domain import capabilities, errors

if TYPE_CHECKING:
    from ironic_rs.db import models

BIOS = "bios"
UEFI = "uefi"


def secure_boot_requested(node: models.Node) -> bool:
    """Tell whether the instance asks for secure boot."""
    return str(capabilities.of_instance(node).get("secure_boot", "")).lower() == "true"


def requested(node: models.Node) -> str | None:
    """Return the boot mode that the node or its instance asks for, None when neither does.

    :raises InvalidParameterValue: the instance asks for another mode than the
        capability of the node.
    """
    own = capabilities.of_node(node, "boot_mode")
    if secure_boot_requested(node):
        wanted: str | None = UEFI
    else:
        wanted = (
            capabilities.of_instance(node).get("boot_mode")
            or node.instance_info.get("deploy_boot_mode")
            or own
            or node.driver_internal_info.get("deploy_boot_mode")
        )
    if wanted is None:
        return None
    wanted = str(wanted).lower()
    if own is not None and own.lower() != wanted:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: boot mode {wanted} is asked for, but capability boot_mode "
            f"of the node is {own}."
        )
    return wanted


def effective(node: models.Node) -> str:
    """Return the boot mode to use: the requested one or ``[deploy]default_boot_mode``.

    :raises InvalidParameterValue: see :func:`requested`.
    """
    return requested(node) or str(CONF.deploy.default_boot_mode)


def disk_label(node: models.Node) -> str | None:
    """Return the partition table wanted for the disk, None for the ramdisk's choice."""
    label = capabilities.of_instance(node).get("disk_label")
    if label:
        return str(label)
    return "gpt" if effective(node) == UEFI else None
