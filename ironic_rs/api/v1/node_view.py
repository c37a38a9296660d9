"""Nodes as they are read: finding one, checking that it may be seen, showing it.

Source: specification rest-api.md sections 3.2, 5.2, 7 (value translation), 8.2.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ironic_rs.api import policy
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, FromText, Resource, Row, View, link_fields
from ironic_rs.db import jsontext
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, fields, names, patch, secrets, states

#: Who does not pass this rule gets the answer as if there were no node.
SEE = "baremetal:node:get"
#: Columns that authorisation and routing to a conductor need.
BASE_COLUMNS = ("id", "uuid", "name", "driver", "conductor_group", "owner", "lessee")


def _conductor(row: Row, call: Call) -> str | None:
    try:
        return call.services.ring.host_for(row["driver"], row["conductor_group"], row["uuid"])
    except errors.IronicError:
        return None


def _provision_state(value: str | None, minor: int) -> str | None:
    if value == states.AVAILABLE and minor < V.AVAILABLE_STATE:
        return None
    if value == states.INSPECTWAIT and minor < V.INSPECT_WAIT:
        return states.INSPECTING
    return value


def _masked(mask: Callable[[Mapping[str, Any]], Any], keys: Collection[str] = ()) -> FromText:
    """Return what shows a stored JSON object with its secrets masked.

    :param keys: keys that ``mask`` hides besides those that the words tell.
    """

    def show(text: str | None, minor: int) -> Any:
        if (
            text
            and text != "{}"
            and (secrets.may_hold_secret(text) or any(map(text.__contains__, keys)))
        ):
            return mask(jsontext.loads(text) or {})
        return jsontext.fragment(text)

    return show


def _part(name: str) -> Computed:
    return Computed(("uuid",), lambda row, call: call.links(f"nodes/{row['uuid']}/{name}"))


NODE = Resource(
    fields.NODE,
    computed={
        "links": link_fields(lambda row: f"nodes/{row['uuid']}"),
        "traits": Computed(("traits_json",), lambda row, _: db_nodes.traits_in(row)),
        "conductor": Computed(("driver", "conductor_group", "uuid"), _conductor),
        "allocation_uuid": Computed(("allocation_uuid",), lambda row, _: row["allocation_uuid"]),
        "chassis_uuid": Computed(("chassis_uuid",), lambda row, _: row["chassis_uuid"]),
        "ports": _part("ports"),
        "states": _part("states"),
        "portgroups": _part("portgroups"),
        "volume": _part("volume"),
    },
    shown={
        "provision_state": _provision_state,
    },
    texts={
        "driver_info": _masked(secrets.mask_driver_info, secrets.DRIVER_INFO_KEYS),
        "instance_info": _masked(secrets.mask_instance_info, secrets.INSTANCE_INFO_KEYS),
        "driver_internal_info": _masked(secrets.mask),
        "clean_step": _masked(secrets.mask),
        "deploy_step": _masked(secrets.mask),
        "service_step": _masked(secrets.mask),
    },
)

#: The same where the caller may see secrets, by (of the driver, of the instance).
_WITH_SECRETS = {
    (driver, instance): replace(
        NODE,
        texts={
            name: show
            for name, show in NODE.texts.items()
            if not (driver and name == "driver_info") and not (instance and name == "instance_info")
        },
    )
    for driver in (True, False)
    for instance in (True, False)
}

_THRESHOLD = "baremetal:node:get:filter_threshold"
#: What whoever is neither of the system nor the owner gets to see in place of the value.
_REDACTED: Mapping[str, Any] = {
    "last_error": "** Value Redacted - Requires baremetal:node:get:last_error permission. **",
    "reservation": "** Redacted - requires baremetal:node:get:reservation permission. **",
    "driver_info": {
        "content": "** Redacted - requires baremetal:node:get:driver_info permission. **"
    },
    "driver_internal_info": {
        "content": "** Redacted - requires baremetal:node:get:driver_internal_info permission. **"
    },
}

STATES = Resource(fields.NODE_STATES, shown={"provision_state": _provision_state})


def ident_filter(call: Call, ident: str) -> dict[str, str]:
    """Return the filter for a node named by UUID or name.

    :raises NodeNotFound: a name, in a version without names.
    """
    if names.is_uuid_like(ident):
        return {"uuid": ident}
    if not call.has(V.NODE_NAME):
        raise errors.NodeNotFound(node=ident)
    return {"name": ident}


def find(call: Call, ident: str, columns: Iterable[str] = (), stored: Collection[str] = ()) -> Row:
    """Return columns of a node that the caller may see; the operation is not checked.

    :param columns: besides :data:`BASE_COLUMNS`.
    :param stored: columns in their stored form, as a view wants them.
    :raises NodeNotFound: no such node, or not for this caller.
    """
    wanted = dict.fromkeys((*columns, *BASE_COLUMNS))
    rows = db_nodes.select(wanted, ident_filter(call, ident), limit=1, stored=stored)
    if not rows or not call.allows(SEE, policy.node_target(rows[0])):
        raise errors.NodeNotFound(node=ident)
    return rows[0]


def load(call: Call, columns: Iterable[str] = (), stored: Collection[str] = ()) -> Row:
    """Return columns of the node of the path, after the route's policy.

    :param columns, stored: as of :func:`find`.
    :raises NodeNotFound: no such node, or not for this caller.
    :raises HTTPForbidden: the operation is refused.
    """
    row = find(call, call.path["node"], columns, stored)
    call.authorize(policy.node_target(row))
    return row


def find_to_attach(call: Call, ident: str) -> Row:
    """Return the node that something new is to be attached to, after the route's policy.

    Who may attach to no node of his project is refused, whether or not there is such a
    node.

    :raises InvalidParameterValue: no such node, or not for this caller.
    :raises HTTPForbidden: the operation is refused.
    """
    try:
        node = find(call, ident)
    except errors.NodeNotFound as exc:
        call.authorize({"node.owner": None, "node.lessee": None})
        raise errors.InvalidParameterValue(f"Node {ident} could not be found.") from exc
    call.authorize(policy.node_target(node))
    return node


def find_all(call: Call, uuids: Sequence[str]) -> Sequence[Row]:
    """Return nodes that the caller may see (1 statement); operations are not checked.

    :raises NodeNotFound: one of them does not exist, or not for this caller.
    """
    rows = db_nodes.select(BASE_COLUMNS, {"uuid_in": uuids})
    visible = {row["uuid"] for row in rows if call.allows(SEE, policy.node_target(row))}
    for uuid in uuids:
        if uuid not in visible:
            raise errors.NodeNotFound(node=uuid)
    return rows


def move_target(call: Call, node: Row, uuid: str) -> Row:
    """Return the node that something attached to ``node`` may be moved to.

    :raises InvalidParameterValue: not visible, or of another owner; which of them is
        not told.
    """
    try:
        target = find(call, uuid)
    except errors.NodeNotFound:
        target = None
    if target is None or target["owner"] != node["owner"]:
        raise errors.InvalidParameterValue(f"Node {uuid} could not be found.")
    return target


def on_columns(call: Call, node: Row, ops: Iterable[patch.Operation]) -> list[patch.Operation]:
    """Return the patch of something attached to ``node`` with the column of the node.

    :raises InvalidParameterValue: it can not be moved to the node that is named.
    """
    return [
        {"op": "replace", "path": "/node_id", "value": move_target(call, node, op["value"])["id"]}
        if op["path"] == "/node_uuid"
        else op
        for op in ops
    ]


def render(call: Call, view: View, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the documents of nodes, with what the caller may see of them.

    Policy is asked once for each pair of owner and lessee.

    :param rows: they have the columns of the view, then :func:`columns_to_redact`.
    """
    view = _with_secrets(call, view)
    documents = [view.render(row, call) for row in rows]
    _redact(call, view, rows, documents)
    return documents


def columns_to_redact(view: View) -> tuple[str, ...]:
    """Return the columns that :func:`render` needs besides those of the view."""
    return ("owner", "lessee") if _REDACTED.keys() & set(view.fields) else ()


def _with_secrets(call: Call, view: View) -> View:
    driver = "driver_info" in view.fields and call.allows(policy.SHOW_DRIVER_SECRETS)
    instance = "instance_info" in view.fields and call.allows(policy.SHOW_INSTANCE_SECRETS)
    if not driver and not instance:
        return view
    return _WITH_SECRETS[driver, instance].view(view.fields, call.minor)


def _redact(
    call: Call, view: View, rows: Sequence[Row], documents: Sequence[dict[str, Any]]
) -> None:
    sensitive = [name for name in _REDACTED if name in view.fields]
    if not sensitive or call.allows(_THRESHOLD):
        return
    hidden: dict[tuple[Any, Any], list[str]] = {}
    for row, document in zip(rows, documents, strict=True):
        pair = (row["owner"], row["lessee"])
        if pair not in hidden:
            target = policy.node_target(row)
            hidden[pair] = [
                name for name in sensitive if not call.allows(f"baremetal:node:get:{name}", target)
            ]
        for name in hidden[pair]:
            document[name] = _REDACTED[name]


def single(call: Call, view: View, row: Row, location: str | None = None) -> Reply:
    """Return the answer that shows one node.

    :param row: has :func:`single_columns`, those of ``view.stored`` in their stored form.
    """
    document = render(call, view, [row])[0]
    return Reply(document, location=location, revision=db_nodes.revision_of(row))


def single_columns(view: View) -> tuple[str, ...]:
    """Return what has to be read to show one node; the view's own columns come first."""
    return (*view.columns, *db_nodes.REVISION_COLUMNS)


def show(call: Call, uuid: str, location: str | None = None) -> Reply:
    """Return the answer that shows a node that was just written, read anew.

    :raises NodeNotFound: deleted in the meantime.
    """
    view = NODE.detail(call.minor)
    columns = dict.fromkeys(single_columns(view))
    rows = db_nodes.select(columns, {"uuid": uuid}, limit=1, stored=view.stored)
    if not rows:
        raise errors.NodeNotFound(node=uuid)
    return single(call, view, rows[0], location)


def state_path(call: Call, tail: str = "") -> str:
    """Return the path of the states of the path's node, ident as the client gave it."""
    return f"nodes/{segment(call.path['node'])}/states{tail}"
