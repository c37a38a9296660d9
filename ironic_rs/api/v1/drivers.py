"""Drivers, that is: hardware types which live conductors serve.

Source: specification rest-api.md section 11.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ironic_rs.api.args import BOOLEAN, NAMES, Arg
from ironic_rs.api.call import Call, segment
from ironic_rs.api.documents import TEXT, Schema, Shape, mapping, one_of
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource
from ironic_rs.db import conductors as db_conductors
from ironic_rs.domain import errors, fields
from ironic_rs.domain.fields.kinds import String

_COMPUTED = ("default_", "enabled_")


def _chosen(minor: int) -> Schema:
    plain = [n for n in fields.DRIVER.choices(minor) if not n.startswith(_COMPUTED)]
    return {"type": "array", "items": one_of(plain)}


LIST_ARGS = (
    Arg("type", String(choices=("classic", "dynamic")), since=V.DYNAMIC_DRIVERS),
    Arg("detail", BOOLEAN, since=V.DYNAMIC_DRIVERS),
    Arg("fields", NAMES, since=V.DRIVER_FIELDS, form=_chosen),
)
SHOW_ARGS = (Arg("fields", NAMES, since=V.DRIVER_FIELDS),)

PROPERTIES = Shape("properties with their meaning", mapping(TEXT))


def _column(name: str) -> Computed:
    return Computed((name,), lambda row, _: row[name])


DRIVER = Resource(
    fields.DRIVER,
    computed={
        **{
            f.name: _column(f.name)
            for f in fields.DRIVER.rows
            if f.name not in ("links", "properties", "type")
        },
        "links": Computed(
            ("name",), lambda row, call: call.links(f"drivers/{segment(row['name'])}")
        ),
        "properties": Computed(
            ("name",),
            lambda row, call: call.links(f"drivers/{segment(row['name'])}/properties"),
        ),
        "type": Computed((), lambda row, _: "dynamic"),
    },
)


def list_drivers(call: Call) -> dict[str, Any]:
    """GET /v1/drivers."""
    args = call.args
    asked = args["fields"]
    if asked is not None and args["detail"]:
        raise errors.InvalidParameterValue(
            "The arguments fields and detail can not be given together."
        )
    if asked is not None:
        chosen = DRIVER.choose(asked, call.minor)
        computed = [n for n in chosen if n.startswith(_COMPUTED)]
        if computed:
            raise errors.InvalidParameterValue(
                f"Field(s) {', '.join(computed)} can only be asked for with detail, or of one "
                "driver."
            )
        view = DRIVER.view(chosen, call.minor)
    else:
        view = DRIVER.detail(call.minor) if args["detail"] else DRIVER.short(call.minor)
    call.authorize()
    if args["type"] == "classic":
        return {"drivers": []}
    return {"drivers": [view.render(row, call) for row in _drivers()]}


def show_driver(call: Call) -> dict[str, Any]:
    """GET /v1/drivers/{driver}."""
    view = DRIVER.single(call)
    call.authorize()
    name = call.path["driver"]
    rows = _drivers([name])
    if not rows:
        raise errors.DriverNotFound(driver_name=name)
    return view.render(rows[0], call)


def _drivers(hardware_types: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Return the hardware types with hosts and interfaces (1 statement)."""
    found: dict[str, dict[str, Any]] = {}
    for row in db_conductors.interfaces(hardware_types):
        driver = found.setdefault(row["hardware_type"], _empty(row["hardware_type"]))
        if row["hostname"] not in driver["hosts"]:
            driver["hosts"].append(row["hostname"])
        kind = row["interface_type"]
        enabled = driver.get(f"enabled_{kind}_interfaces")
        if enabled is None:
            continue
        if row["interface_name"] not in enabled:
            enabled.append(row["interface_name"])
        if row["default"]:
            driver[f"default_{kind}_interface"] = row["interface_name"]
    for driver in found.values():
        driver["hosts"].sort()
    return [found[name] for name in sorted(found)]


def _empty(name: str) -> dict[str, Any]:
    driver: dict[str, Any] = {"name": name, "hosts": []}
    for kind in fields.DRIVER_INTERFACES:
        driver[f"default_{kind}_interface"] = None
        driver[f"enabled_{kind}_interfaces"] = []
    return driver


def show_properties(call: Call) -> Mapping[str, str]:
    """GET /v1/drivers/{driver}/properties."""
    call.authorize()
    name = call.path["driver"]
    cache = call.services.driver_cache
    if ("properties", name) not in cache:
        cache["properties", name] = call.conductors.get_driver_properties(call.context, name)
    properties: Mapping[str, str] = cache["properties", name]
    return properties


def show_raid_properties(call: Call) -> Mapping[str, str]:
    """GET /v1/drivers/{driver}/raid/logical_disk_properties."""
    call.authorize()
    name = call.path["driver"]
    cache = call.services.driver_cache
    if ("raid", name) not in cache:
        try:
            found = call.conductors.get_raid_logical_disk_properties(call.context, name)
        except errors.UnsupportedDriverExtension as exc:
            raise errors.NotFound(str(exc)) from exc
        cache["raid", name] = found
    properties: Mapping[str, str] = cache["raid", name]
    return properties
