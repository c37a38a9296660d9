"""Hints that tell the ramdisk which disk takes the image.

Source: specification drivers.md section 3 (root device hints).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oslo_utils import strutils

from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.db import models

_TEXTS = frozenset(
    {
        "model",
        "wwn",
        "serial",
        "vendor",
        "wwn_with_extension",
        "wwn_vendor_extension",
        "name",
        "hctl",
        "by_path",
    }
)
#: Operators before a number, longest first.
_COMPARISONS = ("==", "!=", ">=", "<=", "=", ">", "<")


def of_node(node: models.Node) -> Mapping[str, Any] | None:
    """Return the hints of the instance, else of the node, checked; None without any.

    :raises InvalidParameterValue: an unknown hint or a bad value.
    """
    hints = node.instance_info.get("root_device") or node.properties.get("root_device")
    if not hints:
        return None
    try:
        _check(hints)
    except ValueError as exc:
        raise errors.InvalidParameterValue(
            f"Root device hints of node {node.uuid} are not valid: {exc}"
        ) from exc
    checked: Mapping[str, Any] = hints
    return checked


def _check(hints: Any) -> None:
    if not isinstance(hints, Mapping):
        raise ValueError("they must be a dictionary")
    unknown = set(hints) - _TEXTS - {"size", "rotational"}
    if unknown:
        raise ValueError(f"unknown hints {', '.join(sorted(map(str, unknown)))}")
    for name in _TEXTS & set(hints):
        if not isinstance(hints[name], str):
            raise ValueError(f"{name} must be a string")
    if "rotational" in hints:
        strutils.bool_from_string(hints["rotational"], strict=True)
    if "size" in hints:
        _check_size(str(hints["size"]))


def _check_size(text: str) -> None:
    """Accept GiB, with a comparison in front, or a set or range of them."""
    text = text.strip()
    if text.startswith(("<or>", "<range-in>", "<in>", "<all-in>")):
        return
    for operator in _COMPARISONS:
        if text.startswith(operator):
            text = text[len(operator) :].strip()
            break
    if not text.isdigit() or int(text) == 0:
        raise ValueError("size must be a positive number of GiB")
