"""Nodes: list, create, show, delete, validate, maintenance.

Source: specification rest-api.md section 8.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api import documents, policy
from ironic_rs.api.args import BOOLEAN, IDENT, LIST, TEXT, UUID, Arg
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.collection import Page
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import node_checks, node_view
from ironic_rs.db import chassis as db_chassis
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, fields, names, states
from ironic_rs.domain.fields.kinds import String

FAULTS = (
    states.FAULT_POWER,
    states.FAULT_CLEAN,
    states.FAULT_RESCUE_ABORT,
    states.FAULT_SERVICE,
)

FILTERS: tuple[Arg, ...] = (
    Arg("chassis_uuid", UUID),
    Arg("instance_uuid", UUID),
    Arg("associated", BOOLEAN),
    Arg("maintenance", BOOLEAN),
    Arg("retired", BOOLEAN),
    Arg("provision_state", String(choices=tuple(states.STATES)), since=V.FILTER_PROVISION_STATE),
    Arg("driver", TEXT, since=V.FILTER_DRIVER),
    Arg("resource_class", TEXT, since=V.FILTER_RESOURCE_CLASS),
    Arg("fault", String(choices=FAULTS), since=V.FILTER_FAULT),
    Arg("conductor_group", TEXT, since=V.CONDUCTOR_GROUP),
    Arg("conductor", TEXT, since=V.CONDUCTORS),
    Arg("owner", TEXT, since=V.OWNER),
    Arg("lessee", TEXT, since=V.LESSEE),
    Arg("project", TEXT),
    Arg("description_contains", TEXT),
    Arg("shard", LIST, since=V.SHARDS),
    Arg("sharded", BOOLEAN, since=V.SHARDS),
    Arg("include_children", BOOLEAN, since=V.CHILDREN),
    Arg("parent_node", UUID, since=V.CHILDREN),
    Arg("instance_name", TEXT, since=V.INSTANCE_NAME),
)
#: The detailed list takes these two in every version.
DETAIL_FILTERS = tuple(
    Arg(a.name, a.kind) if a.name in ("include_children", "parent_node") else a for a in FILTERS
)

_SAME_NAME = (
    "chassis_uuid",
    "instance_uuid",
    "associated",
    "maintenance",
    "retired",
    "provision_state",
    "driver",
    "resource_class",
    "fault",
    "conductor_group",
    "owner",
    "lessee",
    "project",
    "description_contains",
    "sharded",
    "parent_node",
    "instance_name",
)


def _adjust(schema: documents.Schema, minor: int) -> None:
    if "network_data" in schema["properties"]:
        schema["properties"]["network_data"] = documents.or_null(documents.reference("NetworkData"))


NEW = documents.New(fields.NODE, _adjust)
VALIDATION = documents.Shape(
    "whether each interface has what it needs",
    documents.mapping(documents.record({"result": documents.BOOLEAN}, reason=documents.TEXT)),
)


def list_nodes(call: Call) -> dict[str, Any]:
    """GET /v1/nodes."""
    return _list(call, "nodes")


def list_nodes_detail(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/detail."""
    return _list(call, "nodes/detail", detail=True)


def list_chassis_nodes(call: Call) -> dict[str, Any]:
    """GET /v1/chassis/{chassis}/nodes."""
    chassis = _chassis_of_path(call)
    return _list(call, f"chassis/{chassis}/nodes", chassis)


def list_chassis_nodes_detail(call: Call) -> dict[str, Any]:
    """GET /v1/chassis/{chassis}/nodes/detail."""
    chassis = _chassis_of_path(call)
    return _list(call, f"chassis/{chassis}/nodes/detail", chassis, detail=True)


def _chassis_of_path(call: Call) -> str:
    uuid = call.path["chassis"]
    if not names.is_uuid_like(uuid):
        raise errors.InvalidUUID(uuid=fields.show(uuid))
    return uuid


def _list(
    call: Call, path: str, chassis: str | None = None, *, detail: bool = False
) -> dict[str, Any]:
    page = Page(call, node_view.NODE, detail=detail)
    project = call.project_filter()
    args = call.args
    filters = {n: args[n] for n in _SAME_NAME if args.get(n) is not None}
    if project is not None and filters.setdefault("project", project) != project:
        raise errors.OperationNotPermitted(
            f"Nodes of project {fields.show(args['project'])} can not be listed from another "
            "project."
        )
    if args["shard"] is not None:
        filters["shard_in"] = args["shard"]
    if not args["include_children"] and args["parent_node"] is None:
        filters["include_children"] = False
    if chassis is not None:
        filters["chassis_uuid"] = chassis
    if "chassis_uuid" in filters:
        db_chassis.get(filters["chassis_uuid"])
    rows = page.read(db_nodes.select, filters, node_view.columns_to_redact(page.view))
    documents = node_view.render(call, page.view, rows)
    if args["conductor"] is not None:
        documents = _served_by(call, args["conductor"], rows, documents, page)
    answer = page.answer(documents, rows, path)
    if args["instance_uuid"] is not None:
        answer.pop("next", None)
    return answer


def _served_by(
    call: Call, conductor: str, rows: Any, documents: list[dict[str, Any]], page: Page
) -> list[dict[str, Any]]:
    shown = {"driver", "conductor_group", "uuid"} <= set(page.view.columns)
    if not shown:
        uuids = [row["uuid"] for row in rows]
        found = db_nodes.select(("driver", "conductor_group", "uuid"), {"uuid_in": uuids})
        owners = {row["uuid"]: row for row in found}
        rows = [owners.get(uuid) for uuid in uuids]
    make = node_view.NODE.computed["conductor"].make
    return [
        document
        for row, document in zip(rows, documents, strict=True)
        if row is not None and make(row, call) == conductor
    ]


def show_node(call: Call) -> Reply:
    """GET /v1/nodes/{node}."""
    view = node_view.NODE.single(call)
    row = node_view.load(call, node_view.single_columns(view), view.stored)
    return node_view.single(call, view, row)


def create_node(call: Call) -> Reply:
    """POST /v1/nodes."""
    body = call.body
    if not isinstance(body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object: a node.")
    values = fields.NODE.check_create(body)
    node_checks.check_network_data(call.conf, values.get("network_data"))
    node_checks.check_boot_mode(call.conf, values.get("properties"))
    _authorize_create(call)
    node_checks.check_versions(
        call, [n for n, v in body.items() if not (n == "name" and v is None)]
    )
    name = values.get("name")
    if name is not None:
        node_checks.check_name(call, name)
    _set_defaults(call, values)
    _settle_owner(call, values)
    values["chassis_id"] = node_checks.chassis_id(values.pop("chassis_uuid", None))
    if values.get("parent_node") is not None:
        values["parent_node"] = node_checks.parent_uuid(
            call, values["parent_node"], values.get("owner")
        )
    if not call.has(V.ENROLL):
        values["provision_state"] = states.AVAILABLE
    created = call.conductors.create_node(call.context, values)
    uuid = created["uuid"]
    return node_view.show(call, uuid, location=f"nodes/{uuid}")


def _authorize_create(call: Call) -> None:
    if call.conf.api.project_admin_can_manage_own_nodes:
        call.authorize_any()
    else:
        call.authorize(None, "baremetal:node:create")


def _settle_owner(call: Call, values: dict[str, Any]) -> None:
    """Nodes that are not created by the system's staff belong to the caller's project.

    :raises InvalidParameterValue: another project is to own it.
    """
    if call.context.system_scope == "all":
        return
    project, owner = call.context.project_id, values.get("owner")
    if owner is not None and owner != project:
        how = "it is not the caller's" if project else "set /owner by a PATCH afterwards"
        raise errors.InvalidParameterValue(
            f"Cannot create a node for the project {fields.show(owner)}: {how}."
        )
    values["owner"] = project


def _set_defaults(call: Call, values: dict[str, Any]) -> None:
    if values.get("uuid") is None:
        values["uuid"] = node_checks.new_uuid()
    if values.get("conductor_group") in (None, ""):
        values["conductor_group"] = call.conf.default_conductor_group
    values["conductor_group"] = values["conductor_group"].lower()
    if values.get("resource_class") is None:
        values["resource_class"] = call.conf.default_resource_class


def delete_node(call: Call) -> None:
    """DELETE /v1/nodes/{node}."""
    row = node_view.find(call, call.path["node"])
    target = policy.node_target(row)
    if call.conf.api.project_admin_can_manage_own_nodes:
        call.authorize_any(target)
    else:
        call.authorize(target, "baremetal:node:delete")
    call.conductors.destroy_node(call.context, row)


def validate_node(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/validate."""
    row = node_view.load(call)
    return call.conductors.validate_driver_interfaces(call.context, row)


VALIDATE_ARGS = (Arg("node", IDENT), Arg("node_uuid", UUID))


def validate_named(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/validate?node= | ?node_uuid=."""
    ident = call.args["node"] or call.args["node_uuid"]
    if ident is None:
        raise errors.MissingParameterValue("Mandatory argument missing: node (a UUID or name).")
    if not names.is_uuid_like(ident):
        call.require(V.NODE_NAME, "Naming a node by its name")
    row = node_view.find(call, ident)
    call.authorize(policy.node_target(row))
    return call.conductors.validate_driver_interfaces(call.context, row)


MAINTENANCE_ARGS = (Arg("reason", String(maximum=4096)),)


def set_maintenance(call: Call) -> None:
    """PUT /v1/nodes/{node}/maintenance."""
    _set_maintenance(call, True, call.args["reason"])


def clear_maintenance(call: Call) -> None:
    """DELETE /v1/nodes/{node}/maintenance."""
    _set_maintenance(call, False, None)


def _set_maintenance(call: Call, on: bool, reason: str | None) -> None:
    row = node_view.load(call)
    patch: list[dict[str, Any]] = [
        {"op": "replace", "path": "/maintenance", "value": on},
        {"op": "replace", "path": "/maintenance_reason", "value": reason},
    ]
    call.conductors.update_node(call.context, row, patch)
