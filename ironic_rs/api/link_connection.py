"""The local_link_connection of a port: where its cable ends.

Source: specification rest-api.md section 11.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.api.call import Call
from ironic_rs.api.microversions import V
from ironic_rs.db import jsontext
from ironic_rs.domain import errors, names
from ironic_rs.domain.fields import show
from ironic_rs.domain.fields.kinds import Schema

_VTEP = ("vtep-logical-switch", "vtep-physical-switch")
_KEYS = ("port_id", "switch_id", "hostname", "switch_info", "network_type", *_VTEP)
_NETWORK_TYPES = ("managed", "unmanaged")
#: Sets of keys of which one has to be complete.
_FORMS = (
    {"port_id", "switch_id"},
    {"port_id", "hostname"},
    {"port_id", *_VTEP},
)


def form(minor: int) -> Schema:
    """Return the JSON schema of a connection at microversion 1.``minor``."""
    vtep = V.OVN_VTEP <= minor < V.NO_OVN_VTEP
    keys = [key for key in _KEYS if (vtep or key not in _VTEP)]
    properties: dict[str, Schema] = {key: {"type": "string"} for key in keys}
    properties["switch_id"]["pattern"] = (
        "^([0-9A-Fa-f]{16}|[0-9A-Fa-f]{2}((:[0-9A-Fa-f]{2}){5}|(-[0-9A-Fa-f]{2}){5}))$"
    )
    forms: list[Schema] = [{"maxProperties": 0}]
    forms += [{"required": sorted(form)} for form in _FORMS if form <= set(keys)]
    if minor < V.NETWORK_TYPE:
        del properties["network_type"]
    else:
        properties["network_type"] = {"type": "string", "enum": list(_NETWORK_TYPES)}
        unmanaged = {"network_type": {"const": "unmanaged"}}
        forms.append({"properties": unmanaged, "required": [*unmanaged], "maxProperties": 1})
    return {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "anyOf": forms,
    }


def shown(text: str | None, minor: int) -> Any:
    """Return the stored value as a version may see it: VTEP keys exist in 1.90 to 1.104 only."""
    if text and not V.OVN_VTEP <= minor < V.NO_OVN_VTEP and any(key in text for key in _VTEP):
        value = jsontext.loads(text) or {}
        return {} if any(key in value for key in _VTEP) else value
    return jsontext.fragment(text)


def check(call: Call, value: Mapping[str, Any]) -> dict[str, Any]:
    """Check a connection and return it with a normalised switch_id.

    :raises InvalidParameterValue: unknown key, bad value, or an incomplete set.
    :raises InvalidSwitchID: switch_id is no MAC address and no datapath id.
    :raises NotAcceptable: keys that the version does not have.
    """
    unknown = [key for key in value if key not in _KEYS]
    if unknown:
        raise errors.InvalidParameterValue(
            f"Unknown key {show(unknown[0])} in local_link_connection; accepted: "
            f"{', '.join(_KEYS)}."
        )
    for key, part in value.items():
        if not isinstance(part, str) or not names.is_storable(part):
            raise errors.InvalidParameterValue(
                f"Invalid value {show(part)} of {key} in local_link_connection; accepted: a string."
            )
    checked = dict(value)
    network_type = value.get("network_type")
    if network_type is not None:
        call.require(V.NETWORK_TYPE, "network_type in local_link_connection")
        if network_type not in _NETWORK_TYPES:
            raise errors.InvalidParameterValue(
                f"Invalid network_type {show(network_type)} in local_link_connection; accepted: "
                f"{', '.join(_NETWORK_TYPES)}."
            )
    if any(key in value for key in _VTEP) and not V.OVN_VTEP <= call.minor < V.NO_OVN_VTEP:
        raise errors.NotAcceptable(
            f"{' and '.join(_VTEP)} in local_link_connection are for API versions 1.90 to 1.104; "
            f"the request uses 1.{call.minor}."
        )
    if "switch_id" in value:
        switch_id = names.normalize_switch_id(value["switch_id"])
        if switch_id is None:
            raise errors.InvalidSwitchID(switch_id=show(value["switch_id"]))
        checked["switch_id"] = switch_id
    if network_type == "unmanaged" and len(value) == 1:
        return checked
    if not any(form <= set(value) for form in _FORMS):
        raise errors.InvalidParameterValue(
            "local_link_connection is incomplete; accepted: port_id with switch_id, port_id with "
            "hostname, or network_type unmanaged."
        )
    return checked
