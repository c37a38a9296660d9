"""Runbooks: named steps for cleaning and servicing, tied to nodes by traits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import ColumnElement, Connection

from ironic_rs.db import jsontext, models, revision, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals, is_in
from ironic_rs.db.resource import Change, Resource
from ironic_rs.db.step_lists import StepList
from ironic_rs.db.types import is_text, json_strings
from ironic_rs.domain import errors

Runbook = models.Runbook

_runbooks = table(Runbook)
_traits = table(models.RunbookTrait)
_steps = StepList(models.RunbookStep, "runbook_id", "order")
_ATTACHED = ("steps", "traits")

LISTING = Listing(
    Runbook,
    missing=lambda ident: errors.RunbookNotFound(runbook=ident),
    derived={
        "steps_json": _steps.in_row(_runbooks),
        "traits_json": sa.select(json_strings(_traits.c.trait))
        .where(_traits.c.runbook_id == _runbooks.c.id)
        .scalar_subquery(),
    },
    filters={
        **{
            name: equals(_runbooks.c[name])
            for name in ("id", "uuid", "name", "public", "owner", "disable_ramdisk")
        },
        **{f"{name}_in": is_in(_runbooks.c[name]) for name in ("id", "uuid", "name", "owner")},
        "project": lambda project: sa.or_(
            _runbooks.c.owner == project, _runbooks.c.public.is_(True)
        ),
    },
)
select = LISTING.select
_resource = Resource(Runbook, LISTING)


#: What :func:`revision_of` needs.
REVISION_COLUMNS = (*revision.columns(Runbook), "steps_json", "traits_json")


def traits_in(row: Mapping[Any, Any]) -> list[str]:
    """Return the traits of a row that was selected with ``traits_json``."""
    return sorted(jsontext.loads(row["traits_json"]) if row["traits_json"] else [])


def revision_of(row: Mapping[Any, Any]) -> str:
    """Return the revision of a row that was selected with ``REVISION_COLUMNS``."""
    steps = _steps.read(row["steps_json"])
    return revision.of(Runbook, row, steps=steps, traits=traits_in(row))


def _traits_of(connection: Connection, runbook_ids: Sequence[int]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {runbook_id: [] for runbook_id in runbook_ids}
    if runbook_ids:
        rows = connection.execute(
            sa.select(_traits.c.runbook_id, _traits.c.trait)
            .where(_traits.c.runbook_id.in_(list(runbook_ids)))
            .order_by(_traits.c.trait)
        )
        for runbook_id, trait in rows:
            found[runbook_id].append(trait)
    return found


def _complete(connection: Connection, runbooks: Sequence[Runbook]) -> Sequence[Runbook]:
    ids = [runbook.id for runbook in runbooks]
    steps, traits = _steps.of(connection, ids), _traits_of(connection, ids)
    for runbook in runbooks:
        runbook.steps = steps[runbook.id]
        runbook.traits = traits[runbook.id]
    return runbooks


def _one(connection: Connection, where: ColumnElement[bool], ident: Any) -> Runbook:
    return _complete(connection, [_resource.one(connection, where, ident)])[0]


@session.reads
def get(connection: Connection, ident: int | str) -> Runbook:
    """Runbook with steps and traits, by integer id or uuid.

    :raises InvalidIdentity, RunbookNotFound: as named.
    """
    return _one(connection, _resource.where(ident), ident)


@session.reads
def get_by_ident(connection: Connection, ident: str) -> Runbook:
    """Runbook with steps and traits, by uuid or name.

    :raises RunbookNotFound: no such runbook.
    """
    is_uuid = uuidutils.is_uuid_like(ident)
    return _one(
        connection,
        _runbooks.c.uuid == ident if is_uuid else is_text(_runbooks.c.name, ident),
        ident,
    )


@session.reads
def for_traits(connection: Connection, traits: Iterable[str]) -> Sequence[Runbook]:
    """Runbooks that one of these traits asks for, with steps and traits."""
    wanted = sa.select(_traits.c.runbook_id).where(_traits.c.trait.in_(list(traits)))
    return _complete(connection, _resource.all(connection, _runbooks.c.id.in_(wanted)))


@session.reads
def steps_of(connection: Connection, runbook_ids: Sequence[int]) -> dict[int, list[dict[str, Any]]]:
    """Steps of many runbooks (1 statement): interface, step, args, order."""
    return _steps.of(connection, runbook_ids)


@session.reads
def traits_of(connection: Connection, runbook_ids: Sequence[int]) -> dict[int, list[str]]:
    """Sorted traits of many runbooks (1 statement)."""
    return _traits_of(connection, runbook_ids)


def _set_traits(connection: Connection, runbook_id: int, traits: Iterable[str]) -> None:
    connection.execute(sa.delete(_traits).where(_traits.c.runbook_id == runbook_id))
    rows = [
        values.for_insert(models.RunbookTrait, {"runbook_id": runbook_id, "trait": trait})
        for trait in sorted(set(traits))
    ]
    if rows:
        connection.execute(sa.insert(_traits), rows)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> Runbook:
    """Store a runbook.

    :param given: columns, ``traits``, and ``steps``: dicts of interface, step, args, order.
    :raises RunbookDuplicateName, RunbookAlreadyExists: not unique.
    """
    columns = {name: value for name, value in given.items() if name not in _ATTACHED}
    runbook = _resource.insert(connection, columns)
    _steps.insert(connection, runbook.id, given.get("steps") or [])
    _set_traits(connection, runbook.id, given.get("traits") or [])
    return _complete(connection, [runbook])[0]


@session.writes
def change(connection: Connection, ident: int | str, make: Change[Runbook]) -> Runbook:
    """Change a runbook by what it is under the lock of its row.

    :param make: gets the runbook with steps and traits, returns columns to write and,
        where they change, all ``steps`` or ``traits``; may be called again after a
        deadlock.
    :raises RunbookNotFound, RunbookDuplicateName: as named.
    """
    runbook_id = _resource.lock(connection, ident)
    where = _runbooks.c.id == runbook_id
    columns = dict(make(_one(connection, where, ident)))
    attached = {name: columns.pop(name) for name in _ATTACHED if name in columns}
    if "steps" in attached:
        _steps.replace(connection, runbook_id, attached["steps"])
    if "traits" in attached:
        _set_traits(connection, runbook_id, attached["traits"])
    if attached:
        _resource.touch(connection, runbook_id)
    _resource.update(connection, runbook_id, columns)
    return _one(connection, where, ident)


@session.writes
def destroy(
    connection: Connection, ident: int | str, if_match: Iterable[str] | None = None
) -> None:
    """Delete a runbook, its steps and traits.

    :param if_match: revisions that it may have; None for any.
    :raises RunbookNotFound, PreconditionFailed: as named.
    """
    runbook_id = _resource.lock(connection, ident)
    if if_match is not None:
        revision.require(_one(connection, _runbooks.c.id == runbook_id, ident), if_match)
    _steps.delete(connection, runbook_id)
    connection.execute(sa.delete(_traits).where(_traits.c.runbook_id == runbook_id))
    _resource.delete(connection, runbook_id)
