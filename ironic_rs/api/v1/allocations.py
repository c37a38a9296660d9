"""Allocations: requests for a node that has what somebody needs.

Source: specification rest-api.md sections 10.7, 11.7, 13.1; warts 20, 21 and 30 of
section 15.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oslo_config import cfg

from ironic_rs.api import policy, traits
from ironic_rs.api.args import FIELDS, IDENT, PAGE, TEXT, Arg, check_name
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import IDENT as IDENT_SCHEMA
from ironic_rs.api.documents import TRAIT, New, Patch, Schema
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, Row, link_fields
from ironic_rs.api.v1 import node_view
from ironic_rs.db import allocations as db_allocations
from ironic_rs.db import models
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, fields, names, patch
from ironic_rs.domain.fields import show

GET = "baremetal:allocation:get"
CREATE = "baremetal:allocation:create"
CREATE_RESTRICTED = "baremetal:allocation:create_restricted"
CREATE_PRE_RBAC = "baremetal:allocation:create_pre_rbac"
UPDATE = "baremetal:allocation:update"
DELETE = "baremetal:allocation:delete"

ALLOCATION = Resource(
    fields.ALLOCATION,
    computed={
        "links": link_fields(lambda row: f"allocations/{row['uuid']}"),
        "node_uuid": Computed(("node_uuid",), lambda row, _: row["node_uuid"]),
    },
    model=models.Allocation,
)

LIST_ARGS = (
    Arg("node", IDENT),
    Arg("resource_class", TEXT),
    Arg("state", TEXT),
    Arg("owner", TEXT, since=V.ALLOCATION_OWNER),
    *PAGE,
    FIELDS,
)
SHOW_ARGS = (FIELDS,)
PATCHABLE = fields.ALLOCATION.names("P")


def _adjust(schema: Schema, minor: int) -> None:
    schema["properties"]["name"] = {"anyOf": [IDENT_SCHEMA, {"type": "null"}]}
    schema["properties"]["traits"] = {"type": "array", "items": TRAIT}
    if minor < V.BACKFILL:
        schema["required"] = ["resource_class"]
    else:
        schema["anyOf"] = [{"required": ["resource_class"]}, {"required": ["node"]}]


NEW = New(fields.ALLOCATION, _adjust)
CHANGE = Patch(fields.ALLOCATION, any_pointer=True)


# Reading


def list_allocations(call: Call) -> dict[str, Any]:
    """GET /v1/allocations."""
    page = Page(call, ALLOCATION)
    project = call.project_filter()
    filters = {
        name: call.args[name]
        for name in ("resource_class", "state", "owner")
        if call.args[name] is not None
    }
    if project is not None:
        filters["project"] = project
        if filters.get("owner", project) != project:
            raise errors.OperationNotPermitted(
                f"Allocations of project {show(filters['owner'])} can not be listed from "
                "another project."
            )
    if call.args["node"] is not None:
        filters["node_id"] = _node(call, call.args["node"])["id"]
    rows = page.read(db_allocations.select, filters)
    return page.answer([page.view.render(row, call) for row in rows], rows, "allocations")


def _node(call: Call, ident: str, columns: Iterable[str] = ()) -> Row:
    """Return a node; one that is not there, or not for this caller, is the client's error."""
    try:
        return node_view.find(call, ident, columns)
    except errors.NodeNotFound as exc:
        raise errors.InvalidParameterValue(str(exc)) from exc


def show_allocation(call: Call) -> Reply:
    """GET /v1/allocations/{allocation}."""
    view = ALLOCATION.single(call)
    return ALLOCATION.reply_row(call, view, _find(call, ALLOCATION.single_columns(view)))


def _find(call: Call, columns: Iterable[str] = ()) -> Row:
    """Return columns of the allocation of the path, if the caller may see it."""
    ident = call.ident("allocation")
    key = "uuid" if names.is_uuid_like(ident) else "name"
    row = _row({key: ident}, columns)
    if row is None or not call.allows(GET, policy.allocation_target(row["owner"])):
        raise errors.AllocationNotFound(allocation=ident)
    return row


def _row(filters: dict[str, Any], columns: Iterable[str]) -> Row | None:
    wanted = dict.fromkeys((*columns, "uuid", "owner"))
    rows = db_allocations.select(wanted, filters, limit=1)
    return rows[0] if rows else None


def show_node_allocation(call: Call) -> Reply:
    """GET /v1/nodes/{node}/allocation."""
    view = ALLOCATION.single(call)
    row = _of_node(call, ALLOCATION.single_columns(view))
    call.authorize(policy.allocation_target(row["owner"]))
    return ALLOCATION.reply_row(call, view, row)


def _of_node(call: Call, columns: Iterable[str] = ()) -> Row:
    node = _node(call, call.path["node"])
    row = _row({"node_id": node["id"]}, columns)
    if row is None:
        raise errors.AllocationNotFound(f"Node {call.path['node']} has no allocation.")
    return row


# Creating


def create_allocation(call: Call) -> Reply:
    """POST /v1/allocations."""
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object: an allocation.")
    values = fields.ALLOCATION.check_create(call.body)
    if "node" in values:
        call.require(V.BACKFILL, "Field 'node' of an allocation", 400)
    if values.get("owner") is not None:
        call.require(V.ALLOCATION_OWNER, "Field 'owner' of an allocation")
    check_name(values.get("name"), "allocation")
    for trait in values.get("traits") or ():
        traits.check(trait)
    ident = values.pop("node", None)
    if ident is None and not values.get("resource_class"):
        raise errors.MissingParameterValue(
            "The resource_class of an allocation is mandatory (unless it is for a node that is "
            "in use already, named by node)."
        )
    values["owner"] = _owner(call, values.get("owner"))
    if values.get("candidate_nodes"):
        values["candidate_nodes"] = _candidates(call, values["candidate_nodes"])
    node = None if ident is None else _node(call, ident)
    created = call.conductors.create_allocation(call.context, values, node)
    view = ALLOCATION.detail(call.minor)
    document = view.render({name: created[name] for name in view.columns}, call)
    return Reply(document, location=f"allocations/{created['uuid']}")


def _owner(call: Call, wanted: str | None) -> str | None:
    """Return the owner of a new allocation: the caller's project, unless he may choose.

    :raises HTTPForbidden: no allocation for this caller, or not with this owner.
    """
    own = call.context.project_id
    target = policy.allocation_target(wanted or own)
    call.authorize(target, CREATE)
    if call.allows(CREATE_RESTRICTED, target):
        if wanted in (None, own) or _new_defaults(call) or call.allows(CREATE_PRE_RBAC, target):
            return wanted
        raise errors.HTTPForbidden(resource=CREATE_PRE_RBAC)
    if wanted not in (None, own):
        raise errors.HTTPForbidden(resource=CREATE_RESTRICTED)
    return own


def _new_defaults(call: Call) -> bool:
    """Tell whether the rules are the present ones alone, which keep the owners apart."""
    try:
        return bool(call.conf.oslo_policy.enforce_new_defaults)
    except cfg.NoSuchOptError:
        # Without a policy there are no old rules either.
        return True


def _candidates(call: Call, idents: Sequence[str]) -> list[str]:
    """Return the UUIDs of the nodes, in their order.

    :raises InvalidParameterValue: one does not exist, or not for this caller.
    """
    rows = db_nodes.select(("uuid", "name", "owner", "lessee"), {"ident_in": idents})
    found: dict[str, str] = {}
    for row in rows:
        if call.allows(node_view.SEE, policy.node_target(row)):
            found |= {row["uuid"]: row["uuid"], row["name"]: row["uuid"]}
    for ident in idents:
        if ident not in found:
            raise errors.InvalidParameterValue(
                f"Nodes cannot be found: {show(ident)}, one of the candidate_nodes."
            )
    return [found[ident] for ident in idents]


# Changing


def update_allocation(call: Call) -> Reply:
    """PATCH /v1/allocations/{allocation}."""
    ops = patch.validate(call.body, any_pointer=True)
    patch.check_roots(ops, PATCHABLE)
    for op in ops:
        if isinstance(op.get("value"), list | float):
            raise errors.PatchError(
                f"Invalid value {show(op['value'])} for {op['path']}; accepted: a string, an "
                "object, an integer, a boolean or null."
            )
    row = _find(call)
    call.authorize(policy.allocation_target(row["owner"]), UPDATE)

    def make(allocation: Any) -> dict[str, Any]:
        before = {name: getattr(allocation, name) for name in PATCHABLE}
        values = patch.changed(before, ops, fields.ALLOCATION)
        check_name(values.get("name"), "allocation")
        return values

    db_allocations.change(row["uuid"], call.guarded(make))
    view = ALLOCATION.detail(call.minor)
    after = _row({"uuid": row["uuid"]}, ALLOCATION.single_columns(view))
    if after is None:
        raise errors.AllocationNotFound(allocation=row["uuid"])
    return ALLOCATION.reply_row(call, view, after)


def delete_allocation(call: Call) -> None:
    """DELETE /v1/allocations/{allocation}."""
    row = _find(call)
    call.authorize(policy.allocation_target(row["owner"]), DELETE)
    call.conductors.destroy_allocation(call.context, row["uuid"])


def delete_node_allocation(call: Call) -> None:
    """DELETE /v1/nodes/{node}/allocation."""
    row = _of_node(call)
    call.authorize(policy.allocation_target(row["owner"]))
    call.conductors.destroy_allocation(call.context, row["uuid"])
