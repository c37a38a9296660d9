"""The config drive of a provision request.

Source: specification rest-api.md section 9.6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ironic_rs.api.call import Call
from ironic_rs.api.microversions import V
from ironic_rs.domain import errors
from ironic_rs.domain.fields import Kind, show
from ironic_rs.domain.fields.kinds import Schema


@dataclass(frozen=True)
class ConfigDrive(Kind):
    """Text or an object; what is in it depends on verb and version: see :func:`check`."""

    label: str = "string or object"

    @property
    def accepted(self) -> str:
        return "a URL, base64 text or an object"

    def convert(self, value: Any) -> Any:
        if not isinstance(value, str | dict):
            raise self.refuse()
        return value


_BASE64 = re.compile(r"[A-Za-z0-9+/=\n\r\t ]*")
#: Keys of the object form, with the JSON types of their values.
_PARTS: dict[str, tuple[type, ...]] = {
    "meta_data": (dict,),
    "network_data": (dict,),
    "user_data": (dict, list, str, type(None)),
    "vendor_data": (dict,),
}
_TYPE_TEXT = {
    "meta_data": "an object",
    "network_data": "an object",
    "user_data": "an object, a list, a string or null",
    "vendor_data": "an object",
}


def form(minor: int) -> Schema:
    """Return the JSON schema of a config drive at microversion 1.``minor``."""
    text: Schema = {
        "type": "string",
        "pattern": "^([A-Za-z0-9+/=\\n\\r\\t ]*|[^:]*://.*)$",
        "description": "A URL, or base64 of a gzipped image of a file system.",
    }
    if minor < V.CONFIGDRIVE_OBJECT:
        return text
    parts: Schema = {
        "type": "object",
        "properties": {
            "meta_data": {"type": "object"},
            "network_data": {"type": "object"},
            "user_data": {"type": ["object", "array", "string", "null"]},
        },
        "additionalProperties": False,
    }
    if minor >= V.VENDOR_DATA:
        parts["properties"]["vendor_data"] = {"type": "object"}
    return {"anyOf": [text, parts]}


def check(call: Call, value: Any, target: str) -> Any:
    """Return the config drive to send on, None for none.

    :param target: verb of the request.
    :raises InvalidParameterValue: malformed, newer than the version, or not for this
        verb.
    """
    if not value:
        return None
    if target not in ("active", "rebuild") or (
        target == "rebuild" and not call.has(V.REBUILD_CONFIGDRIVE)
    ):
        raise errors.InvalidParameterValue(
            f"configdrive can not be given with target '{target}'; it is for target active, and "
            "from API version 1.35 for target rebuild."
        )
    if isinstance(value, str):
        _check_text(value)
    else:
        _check_object(call, value)
    return value


def _check_text(value: str) -> None:
    if "://" in value:
        return
    if not _BASE64.fullmatch(value):
        raise errors.InvalidParameterValue(
            "Invalid configdrive: the text is neither a URL nor base64."
        )


def _check_object(call: Call, value: dict[str, Any]) -> None:
    call.require(V.CONFIGDRIVE_OBJECT, "A configdrive that is an object", 400)
    if "vendor_data" in value:
        call.require(V.VENDOR_DATA, "vendor_data in a configdrive", 400)
    unknown = [key for key in value if key not in _PARTS]
    if unknown:
        raise errors.InvalidParameterValue(
            f"Unknown key {show(unknown[0])} in the configdrive; accepted: {', '.join(_PARTS)}."
        )
    for key, part in value.items():
        if not isinstance(part, _PARTS[key]):
            raise errors.InvalidParameterValue(
                f"Invalid {key} in the configdrive; accepted: {_TYPE_TEXT[key]}."
            )
