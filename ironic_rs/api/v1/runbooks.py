"""Runbooks: steps for cleaning and servicing that traits approve for nodes; database only.

Source: specification rest-api.md sections 9.4, 11.9, 13.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from ironic_rs.api import policy, steps, traits
from ironic_rs.api.args import DETAIL, FIELDS, PAGE, TEXT, Arg, check_name
from ironic_rs.api.call import Call, Reply, segment
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import IDENT, TRAIT, New, Schema
from ironic_rs.api.microversions import V
from ironic_rs.api.representation import Computed, Resource, Row, View, link_fields
from ironic_rs.db import records
from ironic_rs.db import runbooks as db_runbooks
from ironic_rs.domain import errors, fields, names, patch
from ironic_rs.domain.fields import show

RUNBOOK = Resource(
    fields.RUNBOOK,
    computed={
        "links": link_fields(lambda row: f"runbooks/{row['uuid']}"),
        "steps": Computed(("id",), lambda row, call: steps.shown(call.batch["steps"][row["id"]])),
        "traits": Computed(("id",), lambda row, call: call.batch["traits"][row["id"]]),
    },
)

LIST_ARGS = (Arg("project", TEXT), *PAGE, FIELDS, DETAIL)
SHOW_ARGS = (FIELDS,)


def _adjust(schema: Schema, minor: int) -> None:
    name = IDENT if minor >= V.RUNBOOK_TRAITS else TRAIT
    schema["properties"] |= {"name": name, "steps": steps.RUNBOOK.schemas}


NEW = New(fields.RUNBOOK, _adjust)
PATCHABLE = fields.RUNBOOK.names("P")

_UPDATE = "baremetal:runbook:update"
#: Rules of the paths that have one of their own.
_RULES: Mapping[str, str] = {"owner": f"{_UPDATE}:owner", "public": f"{_UPDATE}:public"}
#: What policy and visibility need.
_BASE = ("uuid", "owner", "public")


def list_runbooks(call: Call) -> dict[str, Any]:
    """GET /v1/runbooks."""
    page = Page(call, RUNBOOK)
    own, asked = call.project_filter(), call.args["project"]
    if own is not None and asked not in (None, own):
        raise errors.OperationNotPermitted(
            f"Runbooks of project {show(asked)} can not be listed from another project."
        )
    project = asked if asked is not None else own
    rows = page.read(db_runbooks.select, {} if project is None else {"project": project})
    return page.answer(_documents(call, page.view, rows), rows, "runbooks")


def _documents(call: Call, view: View, rows: Sequence[Row]) -> list[dict[str, Any]]:
    if "steps" in view.fields:
        call.batch["steps"] = db_runbooks.steps_of([row["id"] for row in rows])
    if "traits" in view.fields:
        call.batch["traits"] = db_runbooks.traits_of([row["id"] for row in rows])
    return [view.render(row, call) for row in rows]


def _reply(call: Call, view: View, runbook: Any, location: str | None = None) -> Reply:
    call.batch["steps"] = {runbook.id: runbook.steps}
    call.batch["traits"] = {runbook.id: runbook.traits}
    return RUNBOOK.reply(call, view, runbook, location)


def _find(call: Call, columns: Sequence[str] = ()) -> Row:
    ident = call.ident("runbook")
    key = "uuid" if names.is_uuid_like(ident) else "name"
    rows = db_runbooks.select(dict.fromkeys((*columns, *_BASE)), {key: ident}, limit=1)
    if not rows:
        raise errors.RunbookNotFound(runbook=ident)
    return rows[0]


def _target(row: Row) -> dict[str, Any]:
    return policy.runbook_target(row["owner"], bool(row["public"]))


def _load(call: Call, columns: Sequence[str] = ()) -> Row:
    row = _find(call, columns)
    call.authorize(_target(row))
    return row


def show_runbook(call: Call) -> Reply:
    """GET /v1/runbooks/{runbook}."""
    view = RUNBOOK.single(call)
    row = _find(call, (*view.columns, *db_runbooks.REVISION_COLUMNS))
    if not row["public"]:
        call.authorize(_target(row))
    return Reply(_documents(call, view, [row])[0], revision=db_runbooks.revision_of(row))


def create_runbook(call: Call) -> Reply:
    """POST /v1/runbooks."""
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue("The request body must be a JSON object: a runbook.")
    values = fields.RUNBOOK.check_create(call.body)
    if "description" in values:
        call.require(V.RUNBOOK_TRAITS, "Field 'description' of a runbook", 400)
    _check(call, values)
    call.authorize(policy.runbook_target(values.get("owner"), bool(values.get("public"))))
    _settle_owner(call, values)
    _authorize_steps(call, values)
    created = db_runbooks.create(values)
    return _reply(call, RUNBOOK.detail(call.minor), created, f"runbooks/{created.uuid}")


def _check(call: Call, values: dict[str, Any]) -> None:
    """Check name and steps, where they are given, and put numbers for digits."""
    if "name" in values:
        _check_name(call, values["name"])
    if "steps" in values:
        values["steps"] = steps.check_list(values["steps"], steps.RUNBOOK)


def _check_name(call: Call, name: str) -> None:
    if not call.has(V.RUNBOOK_TRAITS):
        # In these versions the name is the trait that approves the runbook.
        traits.check(name)
    else:
        check_name(name, "runbook")


def _settle_owner(call: Call, values: dict[str, Any]) -> None:
    """Runbooks that are not made for the whole system belong to the caller's project."""
    if call.context.system_scope == "all":
        return
    project, owner = call.context.project_id, values.get("owner")
    if owner is not None and owner != project:
        raise errors.InvalidParameterValue(
            f"Cannot create a runbook for the project {show(owner)}: it is not the caller's."
        )
    if project is not None and values.get("public"):
        raise errors.InvalidParameterValue(
            "Cannot create a public runbook in a project: public runbooks have no owner."
        )
    values["owner"] = project


def _authorize_steps(call: Call, values: Mapping[str, Any]) -> None:
    if "steps" in values:
        target = policy.runbook_target(values.get("owner"), bool(values.get("public")))
        call.authorize(target, *steps.policy_rules(values["steps"]))


def update_runbook(call: Call) -> Reply:
    """PATCH /v1/runbooks/{runbook}."""
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    visible = fields.RUNBOOK.visible(call.minor)
    patch.check_roots(ops, [name for name in PATCHABLE if name in visible])
    touched = {patch.root(op) for op in ops}
    row = _find(call)
    call.authorize(_target(row), *_rules(touched))

    def make(runbook: Any) -> dict[str, Any]:
        before = {**records.as_dict(runbook), "steps": runbook.steps}
        if "public" in touched:
            before["owner"] = None
        values = patch.changed(before, ops, fields.RUNBOOK)
        after = {**before, **values}
        if "owner" in touched and after["owner"] is not None and after["public"]:
            raise errors.PatchError(
                f"Runbook {runbook.uuid} is public and can have no owner; clear public in the "
                "same patch."
            )
        _check(call, values)
        _authorize_steps(call, {**values, "owner": after["owner"], "public": after["public"]})
        if "public" in touched:
            values["owner"] = after["owner"]
        return values

    runbook = db_runbooks.change(row["uuid"], call.guarded(make))
    return _reply(call, RUNBOOK.detail(call.minor), runbook)


def _rules(touched: Set[str]) -> list[str]:
    rules = [rule for name, rule in _RULES.items() if name in touched]
    return rules if touched and touched <= _RULES.keys() else [_UPDATE, *rules]


def delete_runbook(call: Call) -> None:
    """DELETE /v1/runbooks/{runbook}."""
    db_runbooks.destroy(_load(call)["uuid"], call.context.take_condition())


# Traits


def show_traits(call: Call) -> Reply:
    """GET /v1/runbooks/{runbook}/traits."""
    row = _load(call, db_runbooks.REVISION_COLUMNS)
    return Reply({"traits": db_runbooks.traits_in(row)}, revision=db_runbooks.revision_of(row))


def set_traits(call: Call) -> None:
    """PUT /v1/runbooks/{runbook}/traits."""
    wanted = traits.of_body(call, "runbook")
    db_runbooks.change(_load(call)["uuid"], call.guarded(lambda _: {"traits": wanted}))


def add_trait(call: Call) -> Reply:
    """PUT /v1/runbooks/{runbook}/traits/{trait}."""
    trait = traits.of_path(call)

    def make(runbook: Any) -> dict[str, Any]:
        if trait in runbook.traits:
            return {}
        traits.check_number(len(runbook.traits) + 1, "runbook")
        return {"traits": [*runbook.traits, trait]}

    db_runbooks.change(_load(call)["uuid"], call.guarded(make))
    return Reply(location=f"runbooks/{segment(call.path['runbook'])}/traits/{segment(trait)}")


def remove_traits(call: Call) -> None:
    """DELETE /v1/runbooks/{runbook}/traits."""
    db_runbooks.change(_load(call)["uuid"], call.guarded(lambda _: {"traits": []}))


def remove_trait(call: Call) -> None:
    """DELETE /v1/runbooks/{runbook}/traits/{trait}; one that is not there is gone already."""
    trait = call.path["trait"]

    def make(runbook: Any) -> dict[str, Any]:
        kept = [name for name in runbook.traits if name != trait]
        return {} if kept == runbook.traits else {"traits": kept}

    db_runbooks.change(_load(call)["uuid"], call.guarded(make))
