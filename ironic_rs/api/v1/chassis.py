"""Chassis: groups of nodes; kept by the API itself, no conductor is asked.

Source: specification rest-api.md section 11.3.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api.args import DETAIL, FIELDS, PAGE
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.collection import Page
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, link_fields
from ironic_rs.db import chassis as db_chassis
from ironic_rs.db import records
from ironic_rs.domain import errors, fields, names, patch
from ironic_rs.domain.fields import show

CHASSIS = Resource(
    fields.CHASSIS,
    computed={
        "links": link_fields(lambda row: f"chassis/{row['uuid']}"),
        # A list with one list of links: that is what clients have learned to read.
        "nodes": Computed(
            ("uuid",), lambda row, call: [call.links(f"chassis/{row['uuid']}/nodes")]
        ),
    },
)

LIST_ARGS = (*PAGE, FIELDS, DETAIL)
DETAIL_ARGS = PAGE
SHOW_ARGS = (FIELDS,)
PATCHABLE = (*fields.CHASSIS.names("P"), "uuid")


def list_chassis(call: Call) -> dict[str, Any]:
    """GET /v1/chassis."""
    return _list(call, "chassis")


def list_chassis_detail(call: Call) -> dict[str, Any]:
    """GET /v1/chassis/detail."""
    return _list(call, "chassis/detail", detail=True)


def _list(call: Call, path: str, *, detail: bool = False) -> dict[str, Any]:
    page = Page(call, CHASSIS, detail=detail)
    call.authorize()
    rows = page.read(db_chassis.select, {})
    return page.answer([page.view.render(row, call) for row in rows], rows, path)


def _uuid(call: Call) -> str:
    uuid = call.path["chassis"]
    if not names.is_uuid_like(uuid):
        raise errors.InvalidUUID(uuid=show(uuid))
    return uuid


def show_chassis(call: Call) -> Reply:
    """GET /v1/chassis/{chassis}."""
    uuid = _uuid(call)
    view = CHASSIS.single(call)
    call.authorize()
    return CHASSIS.reply(call, view, db_chassis.get(uuid))


def create_chassis(call: Call) -> Reply:
    """POST /v1/chassis."""
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object: a chassis.")
    values = fields.CHASSIS.check_create(call.body)
    call.authorize()
    created = db_chassis.create({n: v for n, v in values.items() if v is not None})
    view = CHASSIS.detail(call.minor)
    return CHASSIS.reply(call, view, created, f"chassis/{created.uuid}")


def update_chassis(call: Call) -> Reply:
    """PATCH /v1/chassis/{chassis}."""
    uuid = _uuid(call)
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    patch.check_roots(ops, PATCHABLE)
    if any(patch.root(op) == "uuid" for op in ops):
        raise errors.InvalidParameterValue("The uuid of a chassis can not be changed.")
    call.authorize()

    def make(chassis: Any) -> dict[str, Any]:
        return patch.changed(records.as_dict(chassis), ops, fields.CHASSIS)

    chassis = db_chassis.change(uuid, call.guarded(make))
    return CHASSIS.reply(call, CHASSIS.detail(call.minor), chassis)


def delete_chassis(call: Call) -> None:
    """DELETE /v1/chassis/{chassis}."""
    uuid = _uuid(call)
    call.authorize()
    db_chassis.destroy(uuid, call.context.take_condition())
