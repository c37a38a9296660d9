"""Boot device, NMI, indicator lights; vendor methods of nodes and drivers.

Source: specification rest-api.md sections 10.1, 10.2, 11.4.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api import documents
from ironic_rs.api.args import BOOLEAN, Arg
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.v1 import node_view
from ironic_rs.domain import errors
from ironic_rs.domain.fields import show
from ironic_rs.domain.fields.kinds import String

BOOT_DEVICE_ARGS = (
    Arg("boot_device", String(minimum=1), required=True),
    Arg("persistent", BOOLEAN, default=False),
)
INDICATOR_STATES = ("off", "on", "blinking", "unknown")
INDICATOR_ARGS = (Arg("state", String(choices=INDICATOR_STATES, lower=True), required=True),)
#: Names that vendor methods get from the service itself.
_TAKEN = frozenset({"task", "context", "method", "http_method", "self"})
PASSTHRU_ARGS = (Arg("method", String(minimum=1), required=True),)

BOOT_DEVICE = documents.Shape(
    "the boot device; null when it is not known",
    documents.record(
        {
            "boot_device": documents.or_null(documents.TEXT),
            "persistent": documents.or_null(documents.BOOLEAN),
        }
    ),
)
BOOT_DEVICES = documents.Shape(
    "the boot devices to choose from", documents.listing("supported_boot_devices", documents.TEXT)
)
INDICATORS = documents.Shape(
    "indicator lights",
    documents.listing(
        "indicators",
        documents.record(
            {
                "name": documents.TEXT,
                "component": documents.TEXT,
                "readonly": documents.BOOLEAN,
                "states": {"type": "array", "items": documents.TEXT},
                "links": documents.LINKS,
            }
        ),
    ),
)
INDICATOR = documents.Shape(
    "state of the indicator light", documents.record({"state": documents.TEXT})
)
METHODS = documents.Shape(
    "vendor methods by name",
    documents.mapping(
        {
            "type": "object",
            "properties": {
                "http_methods": {"type": "array", "items": documents.TEXT},
                "async": documents.BOOLEAN,
                "description": documents.TEXT,
                "attach": documents.BOOLEAN,
                "require_exclusive_lock": documents.BOOLEAN,
            },
            "required": ["http_methods", "async", "description", "attach"],
        }
    ),
)
METHOD_ARGUMENTS = documents.Shape("arguments of the vendor method", documents.OBJECT)
METHOD_RESULT = documents.Shape("what the vendor method returned", documents.ANYTHING, raw=True)


def show_boot_device(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/management/boot_device."""
    return call.conductors.get_boot_device(call.context, node_view.load(call))


def list_boot_devices(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/management/boot_device/supported."""
    row = node_view.load(call)
    return {"supported_boot_devices": call.conductors.get_supported_boot_devices(call.context, row)}


def set_boot_device(call: Call) -> None:
    """PUT /v1/nodes/{node}/management/boot_device."""
    call.conductors.set_boot_device(
        call.context,
        node_view.load(call),
        call.args["boot_device"],
        persistent=call.args["persistent"],
    )


def inject_nmi(call: Call) -> None:
    """PUT /v1/nodes/{node}/management/inject_nmi."""
    call.conductors.inject_nmi(call.context, node_view.load(call))


# Indicators


def list_indicators(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/management/indicators."""
    row = node_view.load(call)
    found = call.conductors.get_supported_indicators(call.context, row)
    base = f"nodes/{segment(call.path['node'])}/management/indicators"
    return {
        "indicators": [
            {
                "name": f"{indicator}@{component}",
                "component": component,
                "readonly": about["readonly"],
                "states": about["states"],
                "links": call.links(f"{base}/{segment(f'{indicator}@{component}')}"),
            }
            for component, indicators in sorted(found.items())
            for indicator, about in sorted(indicators.items())
        ]
    }


def show_indicator(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/management/indicators/{indicator}."""
    indicator, component = _indicator(call)
    row = node_view.load(call)
    state = call.conductors.get_indicator_state(call.context, row, component, indicator)
    return {"state": state}


def set_indicator(call: Call) -> None:
    """PUT /v1/nodes/{node}/management/indicators/{indicator}."""
    indicator, component = _indicator(call)
    row = node_view.load(call)
    call.conductors.set_indicator_state(call.context, row, component, indicator, call.args["state"])


def _indicator(call: Call) -> tuple[str, str]:
    name = call.path["indicator"]
    indicator, at, component = name.rpartition("@")
    if not at or not indicator or not component:
        raise errors.InvalidParameterValue(
            f"Invalid indicator {show(name)}; accepted: <indicator>@<component>."
        )
    return indicator, component


# Vendor methods


def node_methods(call: Call) -> Any:
    """GET /v1/nodes/{node}/vendor_passthru/methods."""
    row = node_view.load(call, ("vendor_interface",))
    key = ("node_methods", f"{row['driver']}/{row['vendor_interface']}")
    cache = call.services.driver_cache
    if key not in cache:
        cache[key] = call.conductors.get_node_vendor_passthru_methods(call.context, row)
    return cache[key]


def node_passthru(call: Call) -> Reply:
    """Any method on /v1/nodes/{node}/vendor_passthru[/{method}]."""
    info = _info(call)
    row = node_view.load(call)
    answer = call.conductors.vendor_passthru(
        call.context, row, _method(call), call.route.method, info
    )
    return _passed(answer)


def driver_methods(call: Call) -> Any:
    """GET /v1/drivers/{driver}/vendor_passthru/methods."""
    call.authorize()
    name = call.path["driver"]
    key = ("driver_methods", name)
    cache = call.services.driver_cache
    if key not in cache:
        cache[key] = call.conductors.get_driver_vendor_passthru_methods(call.context, name)
    return cache[key]


def driver_passthru(call: Call) -> Reply:
    """Any method on /v1/drivers/{driver}/vendor_passthru[/{method}]."""
    call.authorize()
    info = _info(call)
    answer = call.conductors.driver_vendor_passthru(
        call.context, call.path["driver"], _method(call), call.route.method, info
    )
    return _passed(answer)


def _method(call: Call) -> str:
    return call.path.get("method") or str(call.args["method"])


def _info(call: Call) -> dict[str, Any]:
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object.")
    taken = sorted(_TAKEN & set(call.body))
    if taken:
        raise errors.InvalidParameterValue(
            f"The key '{taken[0]}' can not be an argument of a vendor method."
        )
    return call.body


def _passed(answer: dict[str, Any]) -> Reply:
    value = answer["return"]
    if answer["async"]:
        return Reply(value, status=202)
    if answer["attach"]:
        content = value.encode() if isinstance(value, str) else b""
        return Reply(status=200, content=content, content_type="application/octet-stream")
    # A value of null is an answer as well.
    return Reply(value, status=200) if value is not None else Reply(status=200, content=b"null")
