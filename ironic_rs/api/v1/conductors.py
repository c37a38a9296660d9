"""Conductors, read only.

Source: specification rest-api.md section 11.6.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api.args import DETAIL, FIELDS, PAGE, Arg, HostName
from ironic_rs.api.call import Call, segment
from ironic_rs.api.collection import Page
from ironic_rs.api.representation import Computed, Resource, link_fields
from ironic_rs.db import conductors as db_conductors
from ironic_rs.domain import errors, fields

CONDUCTOR = Resource(
    fields.CONDUCTOR,
    computed={
        "links": link_fields(lambda row: f"conductors/{segment(row['hostname'])}", ("hostname",)),
        "alive": Computed(("alive",), lambda row, _: bool(row["alive"])),
    },
)

LIST_ARGS = (
    *(Arg("marker", HostName()) if a.name == "marker" else a for a in PAGE),
    FIELDS,
    DETAIL,
)
SHOW_ARGS = (FIELDS,)


def list_conductors(call: Call) -> dict[str, Any]:
    """GET /v1/conductors."""
    page = Page(call, CONDUCTOR)
    call.authorize()
    rows = page.read(db_conductors.select, {})
    documents = [page.view.render(row, call) for row in rows]
    return page.answer(documents, rows, "conductors", marker="hostname")


def show_conductor(call: Call) -> dict[str, Any]:
    """GET /v1/conductors/{hostname}."""
    view = CONDUCTOR.single(call)
    call.authorize()
    hostname = call.path["hostname"]
    rows = db_conductors.select(view.columns, {"hostname": hostname}, limit=1)
    if not rows:
        raise errors.ConductorNotFound(conductor=hostname)
    return view.render(rows[0], call)
