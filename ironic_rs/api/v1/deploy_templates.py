"""Deploy templates: steps that the traits of an instance ask for; database only.

Source: specification rest-api.md sections 9.4, 11.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ironic_rs.api import steps, traits
from ironic_rs.api.args import DETAIL, FIELDS, PAGE
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import TRAIT, New, Schema
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, Row, View, link_fields
from ironic_rs.db import records
from ironic_rs.db import templates as db_templates
from ironic_rs.domain import errors, fields, names, patch

TEMPLATE = Resource(
    fields.DEPLOY_TEMPLATE,
    computed={
        "links": link_fields(lambda row: f"deploy_templates/{row['uuid']}"),
        "steps": Computed(("id",), lambda row, call: steps.shown(call.batch["steps"][row["id"]])),
    },
)

LIST_ARGS = (*PAGE, FIELDS, DETAIL)
SHOW_ARGS = (FIELDS,)


def _adjust(schema: Schema, minor: int) -> None:
    schema["properties"] |= {"name": TRAIT, "steps": steps.TEMPLATE.schemas}


NEW = New(fields.DEPLOY_TEMPLATE, _adjust)
PATCHABLE = fields.DEPLOY_TEMPLATE.names("P")


def list_templates(call: Call) -> dict[str, Any]:
    """GET /v1/deploy_templates."""
    page = Page(call, TEMPLATE)
    call.authorize()
    rows = page.read(db_templates.select, {})
    return page.answer(_documents(call, page.view, rows), rows, "deploy_templates")


def _documents(call: Call, view: View, rows: Sequence[Row]) -> list[dict[str, Any]]:
    if "steps" in view.fields:
        call.batch["steps"] = db_templates.steps_of([row["id"] for row in rows])
    return [view.render(row, call) for row in rows]


def _reply(call: Call, view: View, template: Any, location: str | None = None) -> Reply:
    call.batch["steps"] = {template.id: template.steps}
    return TEMPLATE.reply(call, view, template, location)


def _find(call: Call, columns: Sequence[str] = ()) -> Row:
    ident = call.ident("template")
    key = "uuid" if names.is_uuid_like(ident) else "name"
    rows = db_templates.select(dict.fromkeys((*columns, "uuid")), {key: ident}, limit=1)
    if not rows:
        raise errors.DeployTemplateNotFound(template=ident)
    return rows[0]


def show_template(call: Call) -> Reply:
    """GET /v1/deploy_templates/{template}."""
    view = TEMPLATE.single(call)
    call.authorize()
    row = _find(call, (*view.columns, *db_templates.REVISION_COLUMNS))
    return Reply(_documents(call, view, [row])[0], revision=db_templates.revision_of(row))


def create_template(call: Call) -> Reply:
    """POST /v1/deploy_templates."""
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue(
            "The request body must be a JSON object: a deploy template."
        )
    values = fields.DEPLOY_TEMPLATE.check_create(call.body)
    # Taken for compatibility; there is no place for it.
    values.pop("description", None)
    _check(values)
    call.authorize()
    created = db_templates.create(values)
    view = TEMPLATE.detail(call.minor)
    return _reply(call, view, created, f"deploy_templates/{created.uuid}")


def _check(values: dict[str, Any]) -> None:
    """Check name and steps, where they are given, and put numbers for digits."""
    if "name" in values:
        traits.check(values["name"])
    if "steps" in values:
        values["steps"] = steps.check_list(values["steps"], steps.TEMPLATE)


def update_template(call: Call) -> Reply:
    """PATCH /v1/deploy_templates/{template}."""
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    patch.check_roots(ops, PATCHABLE)
    call.authorize()

    def make(template: Any) -> dict[str, Any]:
        before = {**records.as_dict(template), "steps": template.steps}
        values = patch.changed(before, ops, fields.DEPLOY_TEMPLATE)
        _check(values)
        return values

    template = db_templates.change(_find(call)["uuid"], call.guarded(make))
    return _reply(call, TEMPLATE.detail(call.minor), template)


def delete_template(call: Call) -> None:
    """DELETE /v1/deploy_templates/{template}."""
    call.authorize()
    db_templates.destroy(_find(call)["uuid"], call.context.take_condition())
