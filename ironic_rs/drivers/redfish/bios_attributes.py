"""BIOS attributes: what the BMC shows of them, which values they take, what is applied.

Source: specification drivers.md section 6.8; field case 92.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sushy
import sushy.exceptions
from oslo_log import log
from sushy.resources.registry.attribute_registry import AttributeListField
from sushy.resources.registry.message_registry_file import MessageRegistryFile
from sushy.resources.system.bios import Bios

from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.resources import optional
from ironic_rs.drivers.redfish.sessions import NodeBmc

LOG = log.getLogger(__name__)

Attributes = dict[str, Any]

_BIGINT = 2**63
_INT = 2**31 - 1
_BOOLEANS = {"true": True, "false": False}
_NAME_LENGTH = 255


def resource(node: models.Node, bmc: NodeBmc) -> Bios:
    """Return the BIOS resource of the system.

    :raises UnsupportedDriverExtension: it has none.
    """
    try:
        return bmc.system.bios
    except (
        sushy.exceptions.MissingAttributeError,
        sushy.exceptions.ResourceNotFoundError,
    ) as exc:
        raise errors.UnsupportedDriverExtension(driver=node.driver, extension="bios") from exc


def pending(bios: Bios) -> Attributes:
    """Return the attributes that the next boot sets; none when the BMC does not tell."""
    try:
        return dict(bios.pending_attributes or {})
    except (
        AttributeError,
        sushy.exceptions.MissingAttributeError,
        sushy.exceptions.ResourceNotFoundError,
    ):
        return {}


def rows(node: models.Node, bmc: NodeBmc, bios: Bios) -> list[dict[str, Any]]:
    """Return the attributes as rows of the table of BIOS settings.

    Without a readable registry a row has a name and a value only.
    """
    known = {entry.name: entry for entry in _registry(node, bmc, bios)}
    found = []
    for name, value in (bios.attributes or {}).items():
        if len(name) > _NAME_LENGTH:
            LOG.warning("Node %s: the BIOS attribute %.40s... has too long a name", node.uuid, name)
            continue
        row = {"name": name, "value": None if value is None else str(value)}
        if name in known:
            row |= _described(known[name])
        found.append(row)
    return found


def _described(entry: AttributeListField) -> dict[str, Any]:
    return {
        "attribute_type": _text(entry.attribute_type),
        "allowable_values": _names(entry.allowable_values) or None,
        "lower_bound": _number(entry.lower_bound, _BIGINT - 1),
        "upper_bound": _number(entry.upper_bound, _BIGINT - 1),
        "min_length": _number(entry.min_length, _INT),
        "max_length": _number(entry.max_length, _INT),
        "read_only": entry.read_only,
        "reset_required": entry.reset_required,
        "unique": entry.unique,
    }


def _names(values: Any) -> list[str]:
    if not isinstance(values, list):
        return []
    names = (
        value.get("ValueName") or value.get("ValueDisplayName")
        for value in values
        if isinstance(value, Mapping)
    )
    return [str(name) for name in names if name is not None]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and len(value) <= _NAME_LENGTH else None


def _number(value: Any, limit: int) -> int | None:
    """Return a bound, also one in text, cut to what the column holds; None for others."""
    try:
        number = int(value) if isinstance(value, int | str) else None
    except ValueError:
        number = None
    if number is None or isinstance(value, bool):
        return None
    return max(-limit, min(number, limit))


def _registry(node: models.Node, bmc: NodeBmc, bios: Bios) -> Sequence[AttributeListField]:
    """Return the entries of the attribute registry; none when it is not readable.

    Only this registry is read, and only from the BMC: sushy's own look-up reads all
    registries of the BMC, those published on the Internet too.
    """
    wanted = bios._attribute_registry
    if not wanted:
        return ()

    def read() -> Sequence[AttributeListField]:
        files = bmc.root._get_registry_collection()
        if files is None:
            return ()
        paths = files.members_identities
        named = [path for path in paths if path.rstrip("/").rpartition("/")[2] == wanted]
        for path in named or paths:
            file = files.get_member(path)
            if wanted not in (file.identity, file.registry) or not _is_local(file):
                continue
            found = file.get_attribute_registry("en", None)
            if found is not None and found.registry_entries is not None:
                return list(found.registry_entries.attributes or ())
        return ()

    return optional(node, f"BIOS attribute registry {wanted}", read, ())


def _is_local(file: MessageRegistryFile) -> bool:
    return all(place.uri or place.archive_uri for place in file.location)


def wanted(
    node: models.Node, settings: Sequence[Mapping[str, Any]], known: Iterable[models.BIOSSetting]
) -> Attributes:
    """Return name -> value to set, of the type that the registry asks for.

    Values of attributes that are not known, or without a type, stay as they are.

    :param settings: [{name, value}] as the operator gave them.
    :param known: the stored settings of the node.
    :raises InvalidParameterValue: names each refused attribute with the reason.
    """
    rows_by_name = {row.name: row for row in known}
    found: Attributes = {}
    wrong: list[str] = []
    if not isinstance(settings, list) or not settings:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: BIOS settings have to be a list of {{name, value}}, "
            f"not {settings!r}."
        )
    for setting in settings:
        if not isinstance(setting, Mapping) or not {"name", "value"} <= setting.keys():
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: a BIOS setting needs name and value: {setting!r}."
            )
        name, value = str(setting["name"]), setting["value"]
        row = rows_by_name.get(name)
        try:
            found[name] = value if row is None else _converted(row, value)
        except ValueError as exc:
            wrong.append(f"{name}: {exc}")
    if wrong:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: BIOS settings cannot be applied. {'; '.join(wrong)}."
        )
    return found


def _converted(row: models.BIOSSetting, value: Any) -> Any:
    """Return the value in the type of its attribute.

    :raises ValueError: with the reason why the attribute does not take it.
    """
    if row.read_only:
        raise ValueError("is read-only")
    if value is None:
        return None
    if row.attribute_type == "Enumeration":
        if row.allowable_values and str(value) not in row.allowable_values:
            raise ValueError(f"{value!r} is none of {', '.join(row.allowable_values)}")
        return str(value)
    if row.attribute_type == "Integer":
        return _integer(row, value)
    if row.attribute_type == "Boolean":
        if str(value).lower() not in _BOOLEANS:
            raise ValueError(f"{value!r} is neither true nor false")
        return _BOOLEANS[str(value).lower()]
    if row.attribute_type in ("String", "Password"):
        return _string(row, str(value))
    return value


def _integer(row: models.BIOSSetting, value: Any) -> int:
    try:
        if isinstance(value, bool | float):
            raise ValueError
        number = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"{value!r} is no integer") from None
    low, high = row.lower_bound, row.upper_bound
    if (low is not None and number < low) or (high is not None and number > high):
        raise ValueError(
            f"{number} is not between {'any' if low is None else low} "
            f"and {'any' if high is None else high}"
        )
    return number


def _string(row: models.BIOSSetting, text: str) -> str:
    low, high = row.min_length, row.max_length
    if low is not None and len(text) < low:
        raise ValueError(f"is shorter than {low} characters")
    if high is not None and len(text) > high:
        raise ValueError(f"is longer than {high} characters")
    return text


def _same(shown: Any, asked: Any) -> bool:
    """Compare; values without a registry may come as text."""
    if shown is None or asked is None:
        return shown is asked
    return shown == asked or str(shown).lower() == str(asked).lower()


def are_set(bios: Bios, asked: Attributes) -> bool:
    """Tell whether there is nothing to do: all set, and no other value is pending."""
    current, later = bios.attributes or {}, pending(bios)
    return all(
        name in current
        and _same(current[name], value)
        and (name not in later or _same(later[name], value))
        for name, value in asked.items()
    )


def unapplied(bios: Bios, asked: Attributes) -> list[str]:
    """Return the names of attributes that a boot has not set yet."""
    current, later = bios.attributes or {}, pending(bios)
    # Some BMCs show all attributes as pending, always: that tells nothing.
    telling = later if len(later) <= len(asked) else {}
    return [
        name
        for name, value in asked.items()
        if name not in current or not _same(current[name], value) or name in telling
    ]


def are_refused(bios: Bios, asked: Attributes) -> bool:
    """Tell whether the BMC complains and has none of the values to be set any more."""
    later = pending(bios)
    waits = any(name in later and _same(later[name], value) for name, value in asked.items())
    return not waits and bool(complaints(bios))


def complaints(bios: Bios) -> str:
    """Return what the BMC dislikes in the last attempt to apply settings; maybe nothing."""
    settings = bios._settings
    messages = settings.messages if settings is not None else None
    found = [
        message.message or message.message_id
        for message in messages or ()
        if message.severity is not sushy.Severity.OK
    ]
    return "; ".join(str(text) for text in found if text)
