"""Portgroups: bonds of ports.

Source: specification rest-api.md section 11.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.api import policy
from ironic_rs.api.args import DETAIL, FIELDS, IDENT, LIST, MAC, PAGE, Arg, check_name
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.collection import Page
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, link_fields
from ironic_rs.api.v1 import node_view, ports
from ironic_rs.db import models
from ironic_rs.db import portgroups as db_portgroups
from ironic_rs.domain import errors, fields, names, patch, states

PORTGROUP = Resource(
    fields.PORTGROUP,
    computed={
        "links": link_fields(lambda row: f"portgroups/{row['uuid']}"),
        "node_uuid": Computed(("node_uuid",), lambda row, _: row["node_uuid"]),
        "ports": Computed(
            ("uuid",), lambda row, call: call.links(f"portgroups/{row['uuid']}/ports")
        ),
    },
    model=models.Portgroup,
)

FILTERS = (
    Arg("node", IDENT),
    Arg("address", MAC),
    Arg("shard", LIST, since=V.PORTGROUP_SHARD),
    Arg("conductor_groups", LIST),
)
LIST_ARGS = (*FILTERS, *PAGE, FIELDS, DETAIL)
DETAIL_ARGS = (*FILTERS, *PAGE)

PATCHABLE = fields.PORTGROUP.names("P")
#: Fields of a creation that need their version when they are not empty.
_GATED = ("mode", "properties")


def list_portgroups(call: Call) -> dict[str, Any]:
    """GET /v1/portgroups."""
    return _list(call, "portgroups", _filters(call))


def list_portgroups_detail(call: Call) -> dict[str, Any]:
    """GET /v1/portgroups/detail."""
    return _list(call, "portgroups/detail", _filters(call), detail=True)


def list_node_portgroups(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/portgroups."""
    return _of_node(call, "portgroups")


def list_node_portgroups_detail(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/portgroups/detail."""
    return _of_node(call, "portgroups/detail", detail=True)


def _of_node(call: Call, tail: str, *, detail: bool = False) -> dict[str, Any]:
    node = node_view.find(call, call.path["node"])
    path = f"nodes/{segment(call.path['node'])}/{tail}"
    return _list(call, path, {"node_id": node["id"]}, detail=detail)


def _list(
    call: Call, path: str, filters: Mapping[str, Any], *, detail: bool = False
) -> dict[str, Any]:
    page = Page(call, PORTGROUP, detail=detail)
    project = call.project_filter()
    if project is not None:
        filters = {**filters, "project": project}
    rows = page.read(db_portgroups.select, filters)
    return page.answer([page.view.render(row, call) for row in rows], rows, path)


def _filters(call: Call) -> dict[str, Any]:
    # Before what is asked for is looked up.
    call.project_filter()
    given = [a.name for a in FILTERS if call.args[a.name] is not None]
    if len(given) > 1:
        raise errors.InvalidParameterValue(
            f"The filters {' and '.join(given)} can not be given together."
        )
    filters: dict[str, Any] = {}
    for name in given:
        value = call.args[name]
        if name == "node":
            filters["node_id"] = node_view.find(call, value)["id"]
        elif name == "shard":
            filters["shard_in"] = value
        elif name == "conductor_groups":
            filters["conductor_groups"] = [group.lower() for group in value]
        else:
            filters[name] = value
    return filters


def show_portgroup(call: Call) -> Reply:
    """GET /v1/portgroups/{portgroup}."""
    view = PORTGROUP.single(call)
    row = _row(call.path["portgroup"], PORTGROUP.single_columns(view))
    _node_of(call, row)
    return PORTGROUP.reply_row(call, view, row)


def _row(ident: str, columns: Any) -> Any:
    wanted = dict.fromkeys((*columns, "id", "uuid", "node_uuid"))
    key = "uuid" if names.is_uuid_like(ident) else "name"
    rows = db_portgroups.select(wanted, {key: ident}, limit=1)
    if not rows:
        raise errors.PortgroupNotFound(portgroup=ident)
    return rows[0]


def _node_of(call: Call, row: Mapping[Any, Any], columns: tuple[str, ...] = ()) -> Any:
    try:
        node = node_view.find(call, row["node_uuid"], columns)
    except errors.NodeNotFound as exc:
        raise errors.PortgroupNotFound(portgroup=call.path["portgroup"]) from exc
    call.authorize(policy.node_target(node))
    return node


def create_portgroup(call: Call) -> Reply:
    """POST /v1/portgroups."""
    body = call.body
    if not isinstance(body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object: a portgroup.")
    values = fields.PORTGROUP.check_create(body)
    for name in _GATED:
        if body.get(name):
            call.require(fields.PORTGROUP.by_name[name].since, f"Field '{name}' of a portgroup")
    check_name(values.get("name"), "portgroup")
    node = node_view.find_to_attach(call, values.pop("node_uuid"))
    if values.get("mode") is None:
        values["mode"] = call.conf.default_portgroup_mode
    created = db_portgroups.create({**values, "node_id": node["id"]})
    return _show(call, str(created.uuid), f"portgroups/{created.uuid}")


def _show(call: Call, uuid: str, location: str | None = None) -> Reply:
    view = PORTGROUP.detail(call.minor)
    return PORTGROUP.reply_row(call, view, _row(uuid, PORTGROUP.single_columns(view)), location)


def update_portgroup(call: Call) -> Reply:
    """PATCH /v1/portgroups/{portgroup}."""
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    patch.check_roots(ops, PATCHABLE)
    for op in ops:
        name = patch.root(op)
        if name in _GATED:
            call.require(fields.PORTGROUP.by_name[name].since, f"Field '{name}' of a portgroup")
        if op["path"] == "/mode" and op.get("value") is None:
            raise errors.InvalidParameterValue("The mode of a portgroup can not be removed.")
    row = _row(call.path["portgroup"], PATCHABLE)
    node = _node_of(call, row, ("provision_state",))
    if node["provision_state"] == states.INSPECTING and call.has(V.INSPECT_WAIT):
        raise errors.Conflict(
            f"Portgroup {row['uuid']} can not be updated: node {node['uuid']} is in provision "
            f"state '{states.INSPECTING}'."
        )
    converted = patch.convert(ops, fields.PORTGROUP)
    for value in patch.values(converted, "/name"):
        check_name(value, "portgroup")
    after = patch.apply({n: row[n] for n in PATCHABLE}, converted, fields.PORTGROUP)
    for name in {patch.root(op) for op in converted}:
        fields.PORTGROUP.by_name[name].convert(after[name], "portgroup")
    call.conductors.update_portgroup(
        call.context, node, row["uuid"], node_view.on_columns(call, node, converted)
    )
    return _show(call, row["uuid"])


def delete_portgroup(call: Call) -> None:
    """DELETE /v1/portgroups/{portgroup}."""
    row = _row(call.path["portgroup"], ())
    node = _node_of(call, row)
    call.conductors.destroy_portgroup(call.context, node, row["uuid"])


SHOW_ARGS = ports.SHOW_ARGS
