"""Inspection rules: what is done with the data of inspected nodes; database only.

Source: specification rest-api.md section 11.10, inspection.md section 7.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api.args import DETAIL, FIELDS, PAGE, TEXT, Arg
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.collection import Page
from ironic_rs.api.documents import New, Schema, one_of
from ironic_rs.api.representation import Computed, Resource, link_fields
from ironic_rs.db import inspection_rules as db_rules
from ironic_rs.db import records
from ironic_rs.domain import errors, fields, inspection_rules, names, patch
from ironic_rs.domain.fields import show


def _secret(name: str) -> Computed:
    return Computed((name, "sensitive"), lambda row, _: None if row["sensitive"] else row[name])


RULE = Resource(
    fields.INSPECTION_RULE,
    computed={
        "links": link_fields(lambda row: f"inspection_rules/{row['uuid']}"),
        "actions": _secret("actions"),
        "conditions": _secret("conditions"),
    },
)

LIST_ARGS = (Arg("phase", TEXT), *PAGE, FIELDS, DETAIL)
SHOW_ARGS = (FIELDS,)

#: What a rule has beside its fields: patches of these do nothing, as upstream.
_INTERNAL = ("id", "scope", "version", "created_at", "updated_at")
PATCHABLE = fields.INSPECTION_RULE.names("P")


def _operations(names: list[str], **more: Schema) -> Schema:
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "op": one_of(names),
                "args": {"type": ["object", "array"]},
                "loop": {"type": ["object", "array"]},
                **more,
            },
            "required": ["op", "args"],
        },
    }


def _adjust(schema: Schema, minor: int) -> None:
    operators = list(inspection_rules.OPERATORS)
    inverted = [inspection_rules.INVERT + name for name in operators]
    actions = _operations(list(inspection_rules.ACTIONS))
    conditions = _operations([*operators, *inverted], multiple=one_of(inspection_rules.MULTIPLE))
    schema["properties"] |= {"actions": {**actions, "minItems": 1}, "conditions": conditions}


NEW = New(fields.INSPECTION_RULE, _adjust)


def list_rules(call: Call) -> dict[str, Any]:
    """GET /v1/inspection_rules."""
    page = Page(call, RULE)
    call.authorize()
    phase = call.args["phase"]
    rows = page.read(db_rules.select, {} if phase is None else {"phase": phase})
    return page.answer([page.view.render(row, call) for row in rows], rows, "inspection_rules")


def _uuid(call: Call) -> str:
    uuid = call.path["rule"]
    if not names.is_uuid_like(uuid):
        raise errors.InvalidUUID(uuid=show(uuid))
    return uuid


def show_rule(call: Call) -> Reply:
    """GET /v1/inspection_rules/{rule}."""
    uuid = _uuid(call)
    view = RULE.single(call)
    call.authorize()
    return RULE.reply(call, view, db_rules.get(uuid))


def create_rule(call: Call) -> Reply:
    """POST /v1/inspection_rules."""
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue(
            "The request body must be a JSON object: an inspection rule."
        )
    values = fields.INSPECTION_RULE.check_create(call.body)
    if "phase" in call.body and call.body["phase"] is None:
        raise errors.InvalidParameterValue(
            "Invalid value None of field 'phase' of the inspection rule; accepted: one of "
            f"{', '.join(inspection_rules.PHASES)}."
        )
    _check(values)
    call.authorize()
    created = db_rules.create(values)
    return RULE.reply(call, RULE.detail(call.minor), created, f"inspection_rules/{created.uuid}")


def _check(values: dict[str, Any]) -> None:
    """Check actions and conditions, where they are given, and keep what counts of them."""
    if "actions" in values:
        values["actions"] = inspection_rules.check_actions(values["actions"])
    if "conditions" in values:
        values["conditions"] = inspection_rules.check_conditions(values["conditions"])


def update_rule(call: Call) -> Reply:
    """PATCH /v1/inspection_rules/{rule}."""
    uuid = _uuid(call)
    given = patch.validate(call.body, any_pointer=True)
    ops = [op for op in given if patch.root(op) not in (*_INTERNAL, "uuid")]
    patch.check_roots(ops, PATCHABLE)
    call.authorize()
    if any(patch.root(op) == "uuid" for op in given):
        raise errors.RuleNotFound(
            f"Inspection rule {uuid} can not be stored under another UUID: the uuid of a rule "
            "can not be changed."
        )

    def make(rule: Any) -> dict[str, Any]:
        values = patch.changed(records.as_dict(rule), ops, fields.INSPECTION_RULE)
        if rule.sensitive and values.get("sensitive") is False:
            raise errors.PatchError(
                f"Inspection rule {uuid} is sensitive: that can not be taken back, as it would "
                "show what it holds."
            )
        _check(values)
        return values

    rule = db_rules.change(uuid, call.guarded(make))
    return RULE.reply(call, RULE.detail(call.minor), rule)


def delete_rule(call: Call) -> None:
    """DELETE /v1/inspection_rules/{rule}."""
    uuid = _uuid(call)
    call.authorize()
    db_rules.destroy(uuid, call.context.take_condition())
