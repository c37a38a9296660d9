"""What is read of a node besides the node itself, and traits, VIFs.

Source: specification rest-api.md sections 10.3 to 10.7.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ironic_rs.api import traits
from ironic_rs.api.args import BOOLEAN, DETAIL, FIELDS, NAMES, PAGE, Arg
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import (
    OBJECT,
    TEXT,
    UUID,
    Schema,
    Shape,
    listing,
    mapping,
    record,
    reference,
)
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, Row
from ironic_rs.api.v1 import node_view
from ironic_rs.db import bios as db_bios
from ironic_rs.db import firmware as db_firmware
from ironic_rs.db import history as db_history
from ironic_rs.db import inventory as db_inventory
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db import records
from ironic_rs.domain import errors, fields, names
from ironic_rs.domain.fields import show

_EVENT_LENGTH = 255
_EVENT_CUT = 251

# Traits


def show_traits(call: Call) -> Reply:
    """GET /v1/nodes/{node}/traits."""
    row = node_view.load(call, db_nodes.REVISION_COLUMNS)
    return Reply({"traits": db_nodes.traits_in(row)}, revision=db_nodes.revision_of(row))


def set_traits(call: Call) -> None:
    """PUT /v1/nodes/{node}/traits."""
    wanted = traits.of_body(call, "node")
    call.conductors.add_node_traits(call.context, node_view.load(call), wanted, replace=True)


def add_trait(call: Call) -> Reply:
    """PUT /v1/nodes/{node}/traits/{trait}."""
    trait = traits.of_path(call)
    call.conductors.add_node_traits(call.context, node_view.load(call), [trait])
    return Reply(location=f"nodes/{segment(call.path['node'])}/traits/{segment(trait)}")


def remove_traits(call: Call) -> None:
    """DELETE /v1/nodes/{node}/traits."""
    call.conductors.remove_node_traits(call.context, node_view.load(call), None)


def remove_trait(call: Call) -> None:
    """DELETE /v1/nodes/{node}/traits/{trait}."""
    row = node_view.load(call)
    call.conductors.remove_node_traits(call.context, row, [call.path["trait"]])


# VIFs


def _new_vif(minor: int) -> Schema:
    vif: Schema = {
        "type": "object",
        "properties": {"id": {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,255}$"}},
        "required": ["id"],
        "description": "Other keys are passed to the network interface of the node.",
    }
    if minor >= V.VIF_PORT:
        vif["not"] = {"required": ["port_uuid", "portgroup_uuid"]}
    return vif


VIFS = Shape(
    "VIFs of the node",
    listing("vifs", {"type": "object", "properties": {"id": TEXT}, "required": ["id"]}),
)
NEW_VIF = Shape("a VIF", _new_vif)


def list_vifs(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/vifs."""
    return {"vifs": call.conductors.vif_list(call.context, node_view.load(call))}


def attach_vif(call: Call) -> None:
    """POST /v1/nodes/{node}/vifs."""
    body = call.body
    if not isinstance(body, dict) or not isinstance(body.get("id"), str):
        raise errors.InvalidParameterValue(
            "The request body must be an object with the id of the VIF, a UUID or a name."
        )
    if not names.is_uuid_like(body["id"]) and not names.is_logical_name(body["id"]):
        raise errors.InvalidUuidOrName(
            f"Expected UUID or name as id of the VIF but received {show(body['id'])}; accepted: "
            "characters A-Z a-z 0-9 - . _ ~."
        )
    if call.has(V.VIF_PORT) and "port_uuid" in body and "portgroup_uuid" in body:
        raise errors.InvalidParameterValue(
            "port_uuid and portgroup_uuid can not be given together."
        )
    call.conductors.vif_attach(call.context, node_view.load(call), body)


def detach_vif(call: Call) -> None:
    """DELETE /v1/nodes/{node}/vifs/{vif}."""
    call.conductors.vif_detach(call.context, node_view.load(call), call.path["vif"])


# BIOS settings and firmware


def _bios_link(row: Any, call: Call) -> Any:
    return call.links(f"nodes/{segment(call.batch['node'])}/bios/{segment(row['name'])}")


BIOS = Resource(fields.BIOS_SETTING, computed={"links": Computed(("name",), _bios_link)})
FIRMWARE = Resource(fields.FIRMWARE_COMPONENT)

BIOS_ARGS = (
    Arg("detail", BOOLEAN, since=V.BIOS_REGISTRY, below=400),
    Arg("fields", NAMES, since=V.BIOS_REGISTRY, below=400),
)
FIRMWARE_ARGS = (Arg("fields", NAMES),)
BIOS_BY_NAME = Shape("the BIOS setting, by its name", mapping(reference("BIOSSetting")))
_BIOS_ALWAYS = ("created_at", "updated_at", "links")


def list_bios(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/bios."""
    asked = call.args["fields"]
    if asked is not None and call.args["detail"]:
        raise errors.InvalidParameterValue(
            "The arguments fields and detail can not be given together."
        )
    if asked is not None:
        chosen = BIOS.choose(asked, call.minor)
        view = BIOS.view(tuple(dict.fromkeys((*chosen, *_BIOS_ALWAYS))), call.minor)
    else:
        view = BIOS.detail(call.minor) if call.args["detail"] else BIOS.short(call.minor)
    node = node_view.load(call)
    call.batch["node"] = call.path["node"]
    return {"bios": [_render(call, view, s) for s in db_bios.of_node(node["id"])]}


def show_bios(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/bios/{setting}."""
    name = call.path["setting"]
    if not names.is_logical_name(name):
        raise errors.InvalidName(name=show(name))
    node = node_view.load(call)
    call.batch["node"] = node["uuid"]
    try:
        setting = db_bios.get(node["id"], name)
    except errors.BIOSSettingNotFound as exc:
        raise errors.BIOSSettingNotFound(node=node["uuid"], name=name) from exc
    view = BIOS.detail(call.minor)
    return {name: _render(call, view, setting)}


def list_firmware(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/firmware."""
    asked = call.args["fields"]
    if asked is not None:
        newer = [
            f.name
            for f in fields.FIRMWARE_COMPONENT.rows
            if f.name in asked and f.since > call.minor
        ]
        if newer:
            call.require(V.FIRMWARE_IDENTITY, f"Field(s) {', '.join(newer)}", 400)
        view = FIRMWARE.view(FIRMWARE.choose(asked, call.minor), call.minor)
    else:
        view = FIRMWARE.detail(call.minor)
    node = node_view.load(call)
    return {"firmware": [_render(call, view, c) for c in db_firmware.of_node(node["id"])]}


def _render(call: Call, view: Any, record: Any) -> dict[str, Any]:
    values = records.as_dict(record)
    document: dict[str, Any] = view.render({n: values[n] for n in view.columns}, call)
    return document


# History


def _cut(event: Any, minor: int) -> Any:
    if isinstance(event, str) and len(event) > _EVENT_LENGTH:
        return f"{event[:_EVENT_CUT]}..."
    return event


def _history_link(row: Any, call: Call) -> Any:
    return call.links(f"nodes/{call.batch['node']}/history/{row['uuid']}", bookmark=False)


_LINK = {"links": Computed(("uuid",), _history_link)}
HISTORY = Resource(fields.NODE_HISTORY, computed=_LINK)
HISTORY_SHORT = Resource(fields.NODE_HISTORY, computed=_LINK, shown={"event": _cut})

HISTORY_ARGS = (
    *(replace(a, default="created_at") if a.name == "sort_key" else a for a in PAGE),
    DETAIL,
)


def list_history(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/history."""
    resource = HISTORY if call.args["detail"] else HISTORY_SHORT
    page = Page(call, resource)
    node = node_view.load(call)
    call.batch["node"] = node["uuid"]
    if page.marker is not None:
        _entry(node, page.marker)
    rows = page.read(db_history.select, {"node_id": node["id"]})
    documents = [page.view.render(row, call) for row in rows]
    return page.answer(documents, rows, f"nodes/{segment(call.path['node'])}/history")


def show_history(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/history/{uuid}."""
    uuid = call.path["uuid"]
    if not names.is_uuid_like(uuid):
        raise errors.InvalidUUID(uuid=show(uuid))
    node = node_view.load(call)
    call.batch["node"] = node["uuid"]
    return _render(call, HISTORY.detail(call.minor), _entry(node, uuid))


def _entry(node: Row, uuid: str) -> Any:
    """Return an entry of the node's own history."""
    entry = db_history.get(uuid)
    if entry.node_id != node["id"]:
        raise errors.NodeHistoryNotFound(history=uuid)
    return entry


# Inventory and children

INVENTORY = Shape(
    "what the last inspection found", record({"inventory": OBJECT, "plugin_data": OBJECT})
)
CHILDREN = Shape(
    "UUIDs of the children",
    record(
        {
            "children": {"type": "array", "items": UUID},
            "links": record({"href": {"type": "string", "format": "uri"}, "rel": TEXT}),
        }
    ),
)


def show_inventory(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/inventory."""
    node = node_view.load(call)
    if call.conf.inventory.data_backend == "none":
        raise errors.NodeInventoryNotFound(node=node["uuid"])
    try:
        found = db_inventory.get(node["id"])
    except errors.NodeInventoryNotFound as exc:
        raise errors.NodeInventoryNotFound(node=node["uuid"]) from exc
    return {"inventory": found.inventory_data, "plugin_data": found.plugin_data}


def list_children(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/children."""
    node = node_view.find(call, call.path["node"])
    return {
        "children": db_nodes.child_uuids(node["uuid"], call.project_filter()),
        "links": {
            "href": f"{call.url('nodes')}?parent_node={node['uuid']}",
            "rel": "children",
        },
    }


NODE_ARGS = (FIELDS,)
