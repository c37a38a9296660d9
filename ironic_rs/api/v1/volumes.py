"""Volume connectors (initiators) and volume targets (remote volumes) of nodes.

Source: specification rest-api.md sections 10.8, 11.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ironic_rs.api import policy
from ironic_rs.api.args import BOOLEAN, FIELDS, IDENT, PAGE, Arg
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import LINKS, Shape, record
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, Row, View, link_fields
from ironic_rs.api.v1 import node_view
from ironic_rs.db import models
from ironic_rs.db import volumes as db_volumes
from ironic_rs.domain import errors, fields, names, patch, secrets
from ironic_rs.domain.fields import show

VIEW_PROPERTIES = "baremetal:volume:view_target_properties"
_REDACTED = {"redacted_contents": f"** redacted: needs the rule {VIEW_PROPERTIES} **"}

# Of every version that has volumes, unlike elsewhere.
DETAIL = Arg("detail", BOOLEAN)
LIST_ARGS = (Arg("node", IDENT), *PAGE, FIELDS, DETAIL)
BELOW_ARGS = (*PAGE, FIELDS, DETAIL)
SHOW_ARGS = (FIELDS,)

OVERVIEW = Shape(
    "links to the volumes", record({"links": LINKS, "connectors": LINKS, "targets": LINKS})
)


def _properties(row: Row, call: Call) -> Any:
    """Return the properties without secrets, or what stands for them."""
    if call.batch.get("redacted"):
        return dict(_REDACTED)
    return secrets.mask(row["properties"])


_NODE_UUID = Computed(("node_uuid",), lambda row, _: row["node_uuid"])


@dataclass(frozen=True, eq=False)
class _Kind:
    """Connectors or targets.

    :param path: of the collection.
    :param argument: of the path that is the uuid.
    :param missing: the NotFound error of a uuid.
    """

    path: str
    argument: str
    resource: Resource
    select: Callable[..., Any]
    create: Callable[[Mapping[str, Any]], Any]
    missing: Callable[[str], errors.IronicError]

    @property
    def table(self) -> fields.Table:
        return self.resource.table


CONNECTORS = _Kind(
    path="volume/connectors",
    argument="connector",
    resource=Resource(
        fields.VOLUME_CONNECTOR,
        computed={
            "links": link_fields(lambda row: f"volume/connectors/{row['uuid']}"),
            "node_uuid": _NODE_UUID,
        },
        model=models.VolumeConnector,
    ),
    select=db_volumes.select_connectors,
    create=db_volumes.create_connector,
    missing=lambda uuid: errors.VolumeConnectorNotFound(connector=uuid),
)
TARGETS = _Kind(
    path="volume/targets",
    argument="target",
    resource=Resource(
        fields.VOLUME_TARGET,
        computed={
            "links": link_fields(lambda row: f"volume/targets/{row['uuid']}"),
            "node_uuid": _NODE_UUID,
            "properties": Computed(("properties",), _properties),
        },
        model=models.VolumeTarget,
    ),
    select=db_volumes.select_targets,
    create=db_volumes.create_target,
    missing=lambda uuid: errors.VolumeTargetNotFound(target=uuid),
)


# Overviews


def show_volume(call: Call) -> dict[str, Any]:
    """GET /v1/volume."""
    call.authorize()
    return _overview(call, "volume")


def show_node_volume(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/volume; the node is not looked at."""
    call.authorize()
    return _overview(call, f"nodes/{segment(call.path['node'])}/volume")


def _overview(call: Call, path: str) -> dict[str, Any]:
    return {
        "links": call.links(path),
        "connectors": call.links(f"{path}/connectors"),
        "targets": call.links(f"{path}/targets"),
    }


# Lists


def list_connectors(call: Call) -> dict[str, Any]:
    """GET /v1/volume/connectors."""
    return _list_filtered(call, CONNECTORS)


def list_targets(call: Call) -> dict[str, Any]:
    """GET /v1/volume/targets."""
    return _list_filtered(call, TARGETS)


def list_node_connectors(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/volume/connectors."""
    return _list_below(call, CONNECTORS)


def list_node_targets(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/volume/targets."""
    return _list_below(call, TARGETS)


def _list_filtered(call: Call, kind: _Kind) -> dict[str, Any]:
    filters = {}
    if call.args["node"] is not None:
        filters["node_id"] = node_view.find(call, call.args["node"])["id"]
    return _list(call, kind, kind.path, filters)


def _list_below(call: Call, kind: _Kind) -> dict[str, Any]:
    node = node_view.find(call, call.path["node"])
    path = f"nodes/{segment(call.path['node'])}/{kind.path}"
    return _list(call, kind, path, {"node_id": node["id"]})


def _list(call: Call, kind: _Kind, path: str, filters: dict[str, Any]) -> dict[str, Any]:
    page = Page(call, kind.resource)
    project = call.project_filter()
    if project is not None:
        filters["project"] = project
    _decide_on_properties(call, page.view)
    rows = page.read(kind.select, filters)
    return page.answer([page.view.render(row, call) for row in rows], rows, path)


def _decide_on_properties(call: Call, view: View, target: Mapping[str, Any] | None = None) -> None:
    if "properties" in view.fields:
        call.batch["redacted"] = not call.allows(VIEW_PROPERTIES, target)


# Single ones


def show_connector(call: Call) -> Reply:
    """GET /v1/volume/connectors/{connector}."""
    return _show(call, CONNECTORS)


def show_target(call: Call) -> Reply:
    """GET /v1/volume/targets/{target}."""
    return _show(call, TARGETS)


def _show(call: Call, kind: _Kind) -> Reply:
    uuid = _uuid(call, kind)
    view = kind.resource.single(call)
    row = _row(kind, uuid, kind.resource.single_columns(view))
    node = _node_of(call, kind, row)
    _decide_on_properties(call, view, policy.node_target(node))
    return kind.resource.reply_row(call, view, row)


def _uuid(call: Call, kind: _Kind) -> str:
    uuid = call.path[kind.argument]
    if not names.is_uuid_like(uuid):
        raise errors.InvalidUUID(uuid=show(uuid))
    return uuid


def _row(kind: _Kind, uuid: str, columns: Iterable[str]) -> Row:
    rows = kind.select(dict.fromkeys((*columns, "uuid", "node_uuid")), {"uuid": uuid}, limit=1)
    if not rows:
        raise kind.missing(uuid)
    row: Row = rows[0]
    return row


def _node_of(call: Call, kind: _Kind, row: Row) -> Row:
    """Return the node of a row, after the first rule of the route."""
    try:
        node = node_view.find(call, row["node_uuid"])
    except errors.NodeNotFound as exc:
        raise kind.missing(row["uuid"]) from exc
    call.authorize(policy.node_target(node), call.route.policy[0])
    return node


def create_connector(call: Call) -> Reply:
    """POST /v1/volume/connectors."""
    return _create(call, CONNECTORS)


def create_target(call: Call) -> Reply:
    """POST /v1/volume/targets."""
    return _create(call, TARGETS)


def _create(call: Call, kind: _Kind) -> Reply:
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue(
            f"The request body must be a JSON object: a {kind.table.resource}."
        )
    values = kind.table.check_create(call.body)
    node = node_view.find_to_attach(call, values.pop("node_uuid"))
    created = kind.create({**values, "node_id": node["id"]})
    view = kind.resource.detail(call.minor)
    row = _row(kind, str(created.uuid), kind.resource.single_columns(view))
    return kind.resource.reply_row(call, view, row, f"{kind.path}/{created.uuid}")


def update_connector(call: Call) -> Reply:
    """PATCH /v1/volume/connectors/{connector}."""
    return _update(call, CONNECTORS, call.conductors.update_volume_connector)


def update_target(call: Call) -> Reply:
    """PATCH /v1/volume/targets/{target}."""
    return _update(call, TARGETS, call.conductors.update_volume_target)


def _update(call: Call, kind: _Kind, send: Callable[..., None]) -> Reply:
    uuid = _uuid(call, kind)
    patchable = kind.table.names("P")
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    patch.check_roots(ops, patchable)
    row = _row(kind, uuid, patchable)
    node = _node_of(call, kind, row)
    converted = patch.convert(ops, kind.table)
    after = patch.apply({name: row[name] for name in patchable}, converted, kind.table)
    for name in {patch.root(op) for op in converted}:
        kind.table.by_name[name].convert(after[name], kind.table.resource)
    send(call.context, node, uuid, node_view.on_columns(call, node, converted))
    view = kind.resource.detail(call.minor)
    _decide_on_properties(call, view, policy.node_target(node))
    row = _row(kind, uuid, kind.resource.single_columns(view))
    return kind.resource.reply_row(call, view, row)


def delete_connector(call: Call) -> None:
    """DELETE /v1/volume/connectors/{connector}."""
    _delete(call, CONNECTORS, call.conductors.destroy_volume_connector)


def delete_target(call: Call) -> None:
    """DELETE /v1/volume/targets/{target}."""
    _delete(call, TARGETS, call.conductors.destroy_volume_target)


def _delete(call: Call, kind: _Kind, send: Callable[..., None]) -> None:
    row = _row(kind, _uuid(call, kind), ())
    send(call.context, _node_of(call, kind, row), row["uuid"])
