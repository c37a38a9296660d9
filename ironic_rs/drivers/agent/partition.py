"""Partition images: the ramdisk makes the partitions, and writes the image to one of them.

Source: specification drivers.md sections 10.3 and 12.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.domain import bootmode, capabilities, errors

if TYPE_CHECKING:
    from ironic_rs.db import models

#: instance_info ``image_type``.
TYPE = "partition"

#: driver_internal_info key: sizes of the partitions of the instance (MiB).
_WRITTEN = "instance"
_SIZES = ("root_mb", "swap_mb", "ephemeral_mb")
_MIB_PER_GIB = 1024


def is_wanted(node: models.Node) -> bool:
    """Tell whether the image of the node is a partition image."""
    return bool(node.instance_info.get("image_type") == TYPE)


def layout(node: models.Node) -> dict[str, Any]:
    """Return sizes and options of the partitions, as instance_info asks for them.

    :raises MissingParameterValue: there is no root_gb.
    :raises InvalidParameterValue: a value that can not be, or another layout than that
        on the disk although the ephemeral partition is to be kept.
    """
    info = node.instance_info
    if info.get("root_gb") is None:
        raise errors.MissingParameterValue(
            f"instance_info of node {node.uuid} needs root_gb, the size of the root partition "
            "in GiB, for a partition image."
        )
    root = _size(node, "root_gb", least=1)
    swap = _size(node, "swap_mb")
    ephemeral = _size(node, "ephemeral_gb")
    try:
        preserve = strutils.bool_from_string(info.get("preserve_ephemeral", False), strict=True)
    except ValueError as exc:
        raise errors.InvalidParameterValue(
            f"instance_info preserve_ephemeral of node {node.uuid} is not a boolean: {exc}"
        ) from exc
    found = {
        "root_gb": root,
        "root_mb": root * _MIB_PER_GIB,
        "swap_mb": swap,
        "ephemeral_gb": ephemeral,
        "ephemeral_mb": ephemeral * _MIB_PER_GIB,
        "ephemeral_format": info.get("ephemeral_format"),
        "preserve_ephemeral": preserve,
    }
    if ephemeral and not found["ephemeral_format"]:
        found["ephemeral_format"] = CONF.pxe.default_ephemeral_format
    if preserve:
        _check_unchanged(node, found)
    return found


def _size(node: models.Node, name: str, least: int = 0) -> int:
    value = node.instance_info.get(name) or 0
    try:
        size = int(value)
    except (TypeError, ValueError):
        size = -1
    if size < least or isinstance(value, bool):
        raise errors.InvalidParameterValue(
            f"instance_info {name} of node {node.uuid} is {value!r}, expected an integer of at "
            f"least {least}."
        )
    return size


def _check_unchanged(node: models.Node, wanted: dict[str, Any]) -> None:
    written = node.driver_internal_info.get(_WRITTEN) or {}
    changed = [
        f"{name} {written[name]} to {wanted[name]}"
        for name in _SIZES
        if name in written and written[name] != wanted[name]
    ]
    if changed:
        raise errors.InvalidParameterValue(
            f"The ephemeral partition of node {node.uuid} can not be preserved while the "
            f"partitions change: {', '.join(changed)} (MiB)."
        )


def remember(node: models.Node) -> None:
    """Note the sizes that were written (not saved)."""
    node.driver_internal_info[_WRITTEN] = {name: node.instance_info[name] for name in _SIZES}


def arguments(node: models.Node) -> dict[str, Any]:
    """Return what ``image_info`` has for a partition image beside the rest."""
    info = node.instance_info
    keys = (
        "root_gb",
        *_SIZES,
        "ephemeral_format",
        "preserve_ephemeral",
        "image_type",
        "kernel",
        "ramdisk",
    )
    found: dict[str, Any] = {key: info.get(key) for key in keys}
    found["deploy_boot_mode"] = bootmode.effective(node)
    found["boot_option"] = capabilities.boot_option(node)
    label = bootmode.disk_label(node)
    if label is not None:
        found["disk_label"] = label
    return found
