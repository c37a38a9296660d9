"""Deploy templates: named steps that a trait of the instance asks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oslo_utils import uuidutils
from sqlalchemy import ColumnElement, Connection

from ironic_rs.db import models, revision, session
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals, is_in
from ironic_rs.db.resource import Change, Resource
from ironic_rs.db.step_lists import StepList
from ironic_rs.db.types import is_text
from ironic_rs.domain import errors

DeployTemplate = models.DeployTemplate

_templates = table(DeployTemplate)
_steps = StepList(models.DeployTemplateStep, "deploy_template_id", "priority")

LISTING = Listing(
    DeployTemplate,
    missing=lambda ident: errors.DeployTemplateNotFound(template=ident),
    derived={"steps_json": _steps.in_row(_templates)},
    filters={
        "uuid": equals(_templates.c.uuid),
        "name": equals(_templates.c.name),
        "name_in": is_in(_templates.c.name),
    },
)
select = LISTING.select
_resource = Resource(DeployTemplate, LISTING)


#: What :func:`revision_of` needs.
REVISION_COLUMNS = (*revision.columns(DeployTemplate), "steps_json")


def revision_of(row: Mapping[Any, Any]) -> str:
    """Return the revision of a row that was selected with ``REVISION_COLUMNS``."""
    return revision.of(DeployTemplate, row, steps=_steps.read(row["steps_json"]))


def _with_steps(
    connection: Connection, templates: Sequence[DeployTemplate]
) -> Sequence[DeployTemplate]:
    steps = _steps.of(connection, [template.id for template in templates])
    for template in templates:
        template.steps = steps[template.id]
    return templates


def _one(connection: Connection, where: ColumnElement[bool], ident: Any) -> DeployTemplate:
    return _with_steps(connection, [_resource.one(connection, where, ident)])[0]


@session.reads
def get(connection: Connection, ident: int | str) -> DeployTemplate:
    """Template with its steps, by integer id or uuid.

    :raises InvalidIdentity, DeployTemplateNotFound: as named.
    """
    return _one(connection, _resource.where(ident), ident)


@session.reads
def get_by_ident(connection: Connection, ident: str) -> DeployTemplate:
    """Template with its steps, by uuid or name.

    :raises DeployTemplateNotFound: no such template.
    """
    is_uuid = uuidutils.is_uuid_like(ident)
    return _one(
        connection,
        _templates.c.uuid == ident if is_uuid else is_text(_templates.c.name, ident),
        ident,
    )


@session.reads
def named(connection: Connection, names: Iterable[str]) -> Sequence[DeployTemplate]:
    """Templates with these names (instance traits), with their steps (2 statements)."""
    found = _resource.all(connection, _templates.c.name.in_(list(names)))
    return _with_steps(connection, found)


@session.reads
def steps_of(
    connection: Connection, template_ids: Sequence[int]
) -> dict[int, list[dict[str, Any]]]:
    """Steps of many templates (1 statement): interface, step, args, priority."""
    return _steps.of(connection, template_ids)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> DeployTemplate:
    """Store a template.

    :param given: columns, and ``steps``: dicts of interface, step, args, priority.
    :raises DeployTemplateDuplicateName, DeployTemplateAlreadyExists: not unique.
    """
    columns = {name: value for name, value in given.items() if name != "steps"}
    template = _resource.insert(connection, columns)
    _steps.insert(connection, template.id, given.get("steps") or [])
    return _with_steps(connection, [template])[0]


@session.writes
def change(
    connection: Connection, ident: int | str, make: Change[DeployTemplate]
) -> DeployTemplate:
    """Change a template by what it is under the lock of its row.

    :param make: gets the template with its steps, returns columns to write and, where
        they change, all ``steps``; may be called again after a deadlock.
    :raises DeployTemplateNotFound, DeployTemplateDuplicateName: as named.
    """
    template_id = _resource.lock(connection, ident)
    where = _templates.c.id == template_id
    columns = dict(make(_one(connection, where, ident)))
    if "steps" in columns:
        _steps.replace(connection, template_id, columns.pop("steps"))
        _resource.touch(connection, template_id)
    _resource.update(connection, template_id, columns)
    return _one(connection, where, ident)


@session.writes
def destroy(
    connection: Connection, ident: int | str, if_match: Iterable[str] | None = None
) -> None:
    """Delete a template and its steps.

    :param if_match: revisions that it may have; None for any.
    :raises DeployTemplateNotFound, PreconditionFailed: as named.
    """
    template_id = _resource.lock(connection, ident)
    if if_match is not None:
        revision.require(_one(connection, _templates.c.id == template_id, ident), if_match)
    _steps.delete(connection, template_id)
    _resource.delete(connection, template_id)
