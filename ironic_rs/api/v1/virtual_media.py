"""Virtual media of nodes: what is in them, inserting, ejecting.

Source: specification rest-api.md section 10.7.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ironic_rs.api.args import LIST, Arg
from ironic_rs.api.call import Call
from ironic_rs.api.documents import TEXT, Shape
from ironic_rs.api.v1 import node_view
from ironic_rs.domain import errors
from ironic_rs.domain.fields import show
from ironic_rs.domain.fields.kinds import String

DEVICE_TYPES = ("cdrom", "disk", "floppy")
SOURCES = ("http", "local", "swift")
_SCHEMES = ("http", "https", "nfs", "cifs", "smb")

ATTACH_ARGS = (
    Arg("device_type", String(choices=DEVICE_TYPES), required=True),
    Arg("image_url", String(minimum=1, maximum=None), required=True),
    Arg("image_download_source", String(choices=SOURCES), default="local"),
)
DETACH_ARGS = (Arg("device_types", LIST),)
DEVICES = Shape(
    "virtual media devices of the node",
    {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "media_types": {"type": "array", "items": TEXT},
                "inserted": {"type": "boolean"},
                "image": {"type": ["string", "null"]},
            },
        },
    },
)


def list_media(call: Call) -> list[dict[str, Any]]:
    """GET /v1/nodes/{node}/vmedia."""
    return call.conductors.get_virtual_media(call.context, node_view.load(call))


def attach_media(call: Call) -> None:
    """POST /v1/nodes/{node}/vmedia."""
    _check_url(call.args["image_url"])
    call.conductors.attach_virtual_media(
        call.context,
        node_view.load(call),
        call.args["device_type"],
        call.args["image_url"],
        call.args["image_download_source"],
    )


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() not in _SCHEMES or not parts.netloc:
        raise errors.InvalidParameterValue(
            f"Invalid image_url {show(url)}; accepted: a URL with a host and one of the schemes "
            f"{', '.join(_SCHEMES)}."
        )


def detach_media(call: Call) -> None:
    """DELETE /v1/nodes/{node}/vmedia."""
    _detach(call, call.args["device_types"])


def detach_named_media(call: Call) -> None:
    """DELETE /v1/nodes/{node}/vmedia/{device_types}."""
    _detach(call, [name.strip() for name in call.path["device_types"].split(",")])


def _detach(call: Call, device_types: list[str] | None) -> None:
    unknown = [name for name in device_types or () if name not in DEVICE_TYPES]
    if unknown:
        raise errors.InvalidParameterValue(
            f"Unknown virtual media device type {show(unknown[0])} in device_types; accepted: "
            f"{', '.join(DEVICE_TYPES)}."
        )
    call.conductors.detach_virtual_media(call.context, node_view.load(call), device_types or None)
