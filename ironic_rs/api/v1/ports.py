"""Ports.

Source: specification rest-api.md sections 10.8, 11.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ironic_rs.api import link_connection, policy
from ironic_rs.api.args import (
    DETAIL,
    FIELDS,
    IDENT,
    LIST,
    MAC,
    PAGE,
    TEXT,
    UUID,
    Arg,
    check_name,
    too_new,
)
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import New, Schema, or_null
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, link_fields
from ironic_rs.api.v1 import node_view
from ironic_rs.db import models
from ironic_rs.db import portgroups as db_portgroups
from ironic_rs.db import ports as db_ports
from ironic_rs.domain import errors, fields, names, patch, states
from ironic_rs.domain.fields import show

PORT = Resource(
    fields.PORT,
    computed={
        "links": link_fields(lambda row: f"ports/{row['uuid']}"),
        "node_uuid": Computed(("node_uuid",), lambda row, _: row["node_uuid"]),
        "portgroup_uuid": Computed(("portgroup_uuid",), lambda row, _: row["portgroup_uuid"]),
    },
    texts={"local_link_connection": link_connection.shown},
    left_out=frozenset({"internal_info"}),
    model=models.Port,
)

FILTERS = (
    Arg("node", IDENT),
    Arg("node_uuid", UUID),
    Arg("address", MAC),
    Arg("portgroup", IDENT, since=V.PORTGROUP_PORTS),
    Arg("shard", LIST, since=V.SHARDS),
    Arg("description_contains", TEXT),
    Arg("conductor_groups", LIST),
)
LIST_ARGS = (*FILTERS, *PAGE, FIELDS, DETAIL)
DETAIL_ARGS = (*FILTERS, *PAGE)
BELOW_ARGS = (*PAGE, FIELDS, DETAIL)

#: Fields whose version is checked in a patch, a removal included.
_GATED_IN_PATCH = frozenset(
    {
        "pxe_enabled",
        "local_link_connection",
        "portgroup_uuid",
        "physical_network",
        "is_smartnic",
    }
)
PATCHABLE = (*fields.PORT.names("P"), "node_ident")


def _adjust(schema: Schema, minor: int) -> None:
    properties = schema["properties"]
    if "local_link_connection" in properties:
        properties["local_link_connection"] = or_null(link_connection.form(minor))
    if "node_ident" in properties:
        schema["oneOf"] = [{"required": ["node_uuid"]}, {"required": ["node_ident"]}]
    else:
        schema["required"] = [*schema["required"], "node_uuid"]


NEW = New(fields.PORT, _adjust)


def list_ports(call: Call) -> dict[str, Any]:
    """GET /v1/ports."""
    return _list(call, "ports", _filters(call))


def list_ports_detail(call: Call) -> dict[str, Any]:
    """GET /v1/ports/detail."""
    return _list(call, "ports/detail", _filters(call), detail=True)


def list_node_ports(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/ports."""
    return _of_node(call, "ports")


def list_node_ports_detail(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/ports/detail."""
    return _of_node(call, "ports/detail", detail=True)


def _of_node(call: Call, tail: str, *, detail: bool = False) -> dict[str, Any]:
    node = node_view.find(call, call.path["node"])
    path = f"nodes/{segment(call.path['node'])}/{tail}"
    return _list(call, path, {"node_id": node["id"]}, detail=detail)


def list_portgroup_ports(call: Call) -> dict[str, Any]:
    """GET /v1/portgroups/{portgroup}/ports."""
    return _of_portgroup(call, "ports")


def list_portgroup_ports_detail(call: Call) -> dict[str, Any]:
    """GET /v1/portgroups/{portgroup}/ports/detail."""
    return _of_portgroup(call, "ports/detail", detail=True)


def _of_portgroup(call: Call, tail: str, *, detail: bool = False) -> dict[str, Any]:
    group = find_portgroup(call, call.path["portgroup"])
    path = f"portgroups/{segment(call.path['portgroup'])}/{tail}"
    return _list(call, path, {"portgroup_id": group.id}, detail=detail)


def _list(
    call: Call, path: str, filters: Mapping[str, Any], *, detail: bool = False
) -> dict[str, Any]:
    page = Page(call, PORT, detail=detail)
    project = call.project_filter()
    if project is not None:
        filters = {**filters, "project": project}
    rows = page.read(db_ports.select, filters)
    return page.answer([page.view.render(row, call) for row in rows], rows, path)


def _filters(call: Call) -> dict[str, Any]:
    # Before what is asked for is looked up.
    call.project_filter()
    args = call.args
    node = args["node"] or args["node_uuid"]
    chosen = [n for n in ("portgroup", "shard") if args[n] is not None]
    if node is not None:
        chosen.insert(0, "node")
    if len(chosen) > 1:
        # Not a matter of permissions, but this status is what clients know.
        raise errors.OperationNotPermitted(
            f"The filters {' and '.join(chosen)} can not be given together."
        )
    if args["conductor_groups"] is not None and (
        node is not None or args["portgroup"] is not None or args["address"] is not None
    ):
        raise errors.InvalidParameterValue(
            "The filter conductor_groups can not be given with node, portgroup or address."
        )
    filters: dict[str, Any] = {}
    if node is not None:
        if not names.is_uuid_like(node):
            call.require(V.NODE_NAME, "Naming a node by its name")
        filters["node_id"] = node_view.find(call, node)["id"]
    if args["portgroup"] is not None:
        filters["portgroup_id"] = find_portgroup(call, args["portgroup"]).id
    if args["shard"] is not None:
        filters["shard_in"] = args["shard"]
    if args["conductor_groups"] is not None:
        filters["conductor_groups"] = [group.lower() for group in args["conductor_groups"]]
    for name in ("address", "description_contains"):
        if args[name] is not None:
            filters[name] = args[name]
    return filters


def find_portgroup(call: Call, ident: str) -> Any:
    """Return a portgroup that the caller may see.

    :raises PortgroupNotFound: no such portgroup, or not for this caller.
    """
    group = db_portgroups.get_by_ident(ident)
    try:
        node_view.find(call, str(group.node_uuid))
    except errors.NodeNotFound as exc:
        raise errors.PortgroupNotFound(portgroup=ident) from exc
    return group


def _find(call: Call, ident: str, view: Any | None = None) -> Any:
    """Return the row of a port, with what the view needs to show it."""
    wanted = PORT.single_columns(view) if view else ()
    columns = dict.fromkeys((*wanted, "uuid", "node_uuid", "id"))
    key = "uuid" if names.is_uuid_like(ident) else "name"
    rows = db_ports.select(columns, {key: ident}, limit=1, stored=view.stored if view else ())
    if not rows:
        raise errors.PortNotFound(port=ident)
    return rows[0]


def _node_of(call: Call, row: Mapping[Any, Any], ident: str, columns: Sequence[str] = ()) -> Any:
    try:
        node = node_view.find(call, row["node_uuid"], columns)
    except errors.NodeNotFound as exc:
        raise errors.PortNotFound(port=ident) from exc
    call.authorize(policy.node_target(node))
    return node


def show_port(call: Call) -> Reply:
    """GET /v1/ports/{port}."""
    ident = _ident(call)
    view = PORT.single(call)
    row = _find(call, ident, view)
    _node_of(call, row, ident)
    return PORT.reply_row(call, view, row)


def _ident(call: Call) -> str:
    ident = call.path["port"]
    if not names.is_uuid_like(ident) and not names.is_logical_name(ident):
        raise errors.InvalidUuidOrName(name=show(ident))
    return ident


def create_port(call: Call) -> Reply:
    """POST /v1/ports."""
    body = call.body
    if not isinstance(body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object: a port.")
    values = fields.PORT.check_create(body)
    _check_versions(call, [n for n, v in body.items() if v is not None])
    check_name(values.get("name"), "port")
    if values.get("local_link_connection"):
        values["local_link_connection"] = link_connection.check(
            call, values["local_link_connection"]
        )
    node = node_view.find_to_attach(call, _node_ident(values))
    _check_smartnic(values.get("is_smartnic"), values.get("local_link_connection"))
    _join_portgroup(values, node, "pxe_enabled" in body)
    created = call.conductors.create_port(call.context, node, values)
    uuid = created["uuid"]
    return _show(call, uuid, f"ports/{uuid}")


def _node_ident(values: dict[str, Any]) -> str:
    uuid, ident = values.pop("node_uuid", None), values.pop("node_ident", None)
    if (uuid is None) == (ident is None):
        raise errors.MissingParameterValue(
            "Exactly one of node_uuid (a UUID) and node_ident (a UUID or a name) is required."
        )
    return str(uuid or ident)


def _check_versions(call: Call, given: Sequence[str]) -> None:
    for name in given:
        row = fields.PORT.by_name[name]
        if row.since > call.minor:
            raise too_new(f"Field '{name}' of a port", row.since, call.minor)


def _check_smartnic(is_smartnic: Any, connection: Any) -> None:
    if is_smartnic and not {"port_id", "hostname"} <= set(connection or {}):
        raise errors.InvalidParameterValue(
            "A smart NIC port (is_smartnic true) needs port_id and hostname in "
            "local_link_connection."
        )


def _join_portgroup(values: dict[str, Any], node: Mapping[Any, Any], pxe_given: bool) -> None:
    uuid = values.pop("portgroup_uuid", None)
    if uuid is None:
        return
    group = _portgroup_of(uuid, node)
    if not group.standalone_ports_supported and pxe_given and values.get("pxe_enabled"):
        raise _no_standalone(group)
    values["portgroup_id"] = group.id


def _portgroup_of(uuid: str, node: Mapping[Any, Any]) -> Any:
    text = f"Portgroup {uuid} could not be found among those of node {node['uuid']}."
    try:
        group = db_portgroups.get(uuid)
    except errors.PortgroupNotFound as exc:
        raise errors.InvalidParameterValue(text) from exc
    if group.node_id != node["id"]:
        # The same text: the caller may not know that it exists.
        raise errors.InvalidParameterValue(text)
    return group


def _no_standalone(group: Any) -> errors.Conflict:
    return errors.Conflict(
        f"Port group {group.uuid} doesn't support standalone ports: a member can not have "
        "pxe_enabled."
    )


def _show(call: Call, uuid: str, location: str | None = None) -> Reply:
    view = PORT.detail(call.minor)
    return PORT.reply_row(call, view, _find(call, uuid, view), location)


def update_port(call: Call) -> Reply:
    """PATCH /v1/ports/{port}."""
    ident = _ident(call)
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    patch.check_roots(ops, PATCHABLE)
    for op in ops:
        row = fields.PORT.by_name[patch.root(op)]
        if row.name in _GATED_IN_PATCH and row.since > call.minor:
            raise too_new(f"Field '{row.name}' of a port", row.since, call.minor)
    columns = [n for n in PATCHABLE if n != "node_ident"]
    found = db_ports.select(
        dict.fromkeys((*columns, "uuid", "node_uuid", "portgroup_uuid")),
        {"uuid" if names.is_uuid_like(ident) else "name": ident},
        limit=1,
    )
    if not found:
        raise errors.PortNotFound(port=ident)
    port = found[0]
    node = _node_of(call, port, ident, ("provision_state",))
    if node["provision_state"] == states.INSPECTING and call.has(V.INSPECT_WAIT):
        raise errors.Conflict(
            f"Port {port['uuid']} can not be updated: node {node['uuid']} is in provision state "
            f"'{states.INSPECTING}'."
        )
    after, ops = _apply(call, port, ops)
    moves = after["node_uuid"] != node["uuid"]
    target = node_view.move_target(call, node, after["node_uuid"]) if moves else node
    call.conductors.update_port(
        call.context, node, port["uuid"], _on_columns(call, port, target, after, ops)
    )
    return _show(call, port["uuid"])


def _apply(
    call: Call, port: Mapping[Any, Any], ops: Sequence[patch.Operation]
) -> tuple[dict[str, Any], list[patch.Operation]]:
    """Convert the values of a patch and try it on the record as read."""
    # Taking the node away is a no-op, for clients that write back what they read.
    kept = [op for op in ops if not (op["path"] == "/node_uuid" and op["op"] == "remove")]
    converted = patch.convert(kept, fields.PORT)
    for value in patch.values(converted, "/name"):
        check_name(value, "port")
    if None in patch.values(converted, "/node_uuid"):
        raise errors.InvalidParameterValue("The node_uuid of a port can not be null.")
    document = {n: port[n] for n in PATCHABLE if n != "node_ident"}
    after = patch.apply(document, converted, fields.PORT)
    touched = {patch.root(op) for op in converted}
    for name in touched:
        after[name] = fields.PORT.by_name[name].convert(after[name], "port")
    if "local_link_connection" in touched and after["local_link_connection"]:
        checked = link_connection.check(call, after["local_link_connection"])
        if checked != after["local_link_connection"]:
            # Normalised as a whole: the parts may come from several operations.
            after["local_link_connection"] = checked
            converted.append({"op": "replace", "path": "/local_link_connection", "value": checked})
    _check_smartnic(after["is_smartnic"], after["local_link_connection"])
    return after, converted


def _on_columns(
    call: Call,
    port: Mapping[Any, Any],
    node: Mapping[Any, Any],
    after: Mapping[Any, Any],
    ops: Sequence[patch.Operation],
) -> list[patch.Operation]:
    """Return the patch with the names and values of the database columns."""
    columns: list[patch.Operation] = []
    for op in ops:
        if op["path"] == "/node_uuid":
            columns.append({"op": "replace", "path": "/node_id", "value": node["id"]})
        elif op["path"] == "/portgroup_uuid":
            columns.append(
                {"op": "replace", "path": "/portgroup_id", "value": _group_id(node, after)}
            )
        else:
            columns.append(op)
    if (
        call.has(V.PORTGROUP_PHYSICAL_NETWORK)
        and port["portgroup_uuid"] is not None
        and after["portgroup_uuid"] == port["portgroup_uuid"]
        and after["physical_network"] != port["physical_network"]
    ):
        raise errors.InvalidParameterValue(
            f"The physical_network of port {port['uuid']} is that of its portgroup "
            f"{port['portgroup_uuid']}: change it there."
        )
    return columns


def _group_id(node: Mapping[Any, Any], after: Mapping[Any, Any]) -> int | None:
    """Return the id of the portgroup that a port joins.

    :raises InvalidParameterValue: no such portgroup of the port's node.
    :raises Conflict: its members can not boot from the network.
    """
    if after["portgroup_uuid"] is None:
        return None
    group = _portgroup_of(after["portgroup_uuid"], node)
    if not group.standalone_ports_supported and after["pxe_enabled"]:
        raise _no_standalone(group)
    return int(group.id)


def delete_port(call: Call) -> None:
    """DELETE /v1/ports/{port}."""
    ident = call.path["port"]
    if not names.is_uuid_like(ident):
        raise errors.InvalidUUID(uuid=show(ident))
    row = _find(call, ident)
    node = _node_of(call, row, ident)
    call.conductors.destroy_port(call.context, node, row["uuid"])


def refuse_below_node(call: Call) -> None:
    """Anything but a list of what is attached to a node, below the node.

    :raises Invalid: always.
    """
    collection = call.route.path.removeprefix("/v1/nodes/{node}/").removesuffix("/{ident}")
    raise errors.Invalid(
        f"{call.route.method} is not possible below a node: use the collection "
        f"/v1/{collection} itself."
    )


SHOW_ARGS = (FIELDS,)
