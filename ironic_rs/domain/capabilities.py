"""Capabilities of a node: what its properties and the wish of its instance say.

``properties.capabilities`` is text (``key:value,key:value``),
``instance_info.capabilities`` a dictionary or its JSON text.

Source: specification drivers.md section 3 (field lookups).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

#: Capabilities with a closed set of values.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "boot_mode": ("bios", "uefi"),
    "secure_boot": ("true", "false"),
    "disk_label": ("msdos", "gpt"),
}


def _pairs(text: str) -> tuple[dict[str, str], list[str]]:
    """Split the text form; return the pairs and what is not a pair."""
    found: dict[str, str] = {}
    malformed: list[str] = []
    for item in text.split(","):
        key, colon, value = item.partition(":")
        if colon and key.strip():
            found[key.strip()] = value.strip()
        elif item.strip():
            malformed.append(item)
    return found, malformed


def parse(text: Any) -> dict[str, str]:
    """Parse the text form strictly; nothing at all is an empty set.

    :raises InvalidParameterValue: not a string, or an item that is not ``key:value``.
    """
    if text is None or text == "":
        return {}
    if not isinstance(text, str):
        raise errors.InvalidParameterValue(
            f"Capabilities must be a string of the form 'key:value,key:value', not {text!r}."
        )
    found, malformed = _pairs(text)
    if malformed:
        raise errors.InvalidParameterValue(
            f"Capabilities contain '{malformed[0]}', expected 'key:value' separated by commas."
        )
    return found


def of_node(node: models.Node, name: str) -> str | None:
    """Return one capability of ``properties``; malformed items are ignored with a warning."""
    text = node.properties.get("capabilities")
    if not isinstance(text, str):
        return None
    found, malformed = _pairs(text)
    if malformed:
        LOG.warning(
            "Node %s: ignoring malformed items of properties.capabilities: %s",
            node.uuid,
            ", ".join(malformed),
        )
    return found.get(name)


def replaced(text: Any, name: str, value: str | None) -> str:
    """Return the text form with one capability set, or without it.

    :param text: what there is; None or empty for nothing.
    :param value: None removes it.
    :raises InvalidParameterValue: the text is none, or name or value can not be in it.
    """
    if text is not None and not isinstance(text, str):
        raise errors.InvalidParameterValue(
            f"Capabilities must be a string of the form 'key:value,key:value', not {text!r}."
        )
    if not name.strip() or "," in name or ":" in name or "," in (value or ""):
        raise errors.InvalidParameterValue(
            f"A capability '{name}' with the value '{value}' can not be written: commas and "
            "colons stand between capabilities."
        )
    kept = [i for i in (text or "").split(",") if i.strip() and i.partition(":")[0].strip() != name]
    return ",".join(kept if value is None else [*kept, f"{name}:{value}"])


def of_instance(node: models.Node) -> dict[str, Any]:
    """Return the capabilities that the instance asks for.

    :raises InvalidParameterValue: neither a dictionary nor its JSON text.
    """
    value = node.instance_info.get("capabilities") or {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as exc:
            raise errors.InvalidParameterValue(
                f"Capabilities in instance_info of node {node.uuid} are not JSON: {exc}"
            ) from exc
    if not isinstance(value, dict):
        raise errors.InvalidParameterValue(
            f"Capabilities in instance_info of node {node.uuid} must be a dictionary."
        )
    return value


def validate(node: models.Node) -> None:
    """Check the capabilities that have a closed set of values.

    :raises InvalidParameterValue: malformed, or another value.
    """
    for place, found in (
        ("properties", parse(node.properties.get("capabilities"))),
        ("instance_info", of_instance(node)),
    ):
        for name, choices in _CHOICES.items():
            value = found.get(name)
            if value is not None and value not in choices:
                raise errors.InvalidParameterValue(
                    f"Capability {name} in {place} of node {node.uuid} is '{value}', "
                    f"expected one of {', '.join(choices)}."
                )


def boot_option(node: models.Node) -> str:
    """Return how the instance boots: ``local``, ``ramdisk`` or ``kickstart``."""
    by_deploy = {"anaconda": "kickstart", "ramdisk": "ramdisk"}
    return by_deploy.get(node.get_interface("deploy") or "", "local")
