"""Data migrations that run while the services do, and the check of row versions.

Specification data-model.md section 4.6, operations.md section 2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table

from ironic_rs.conf import CONF
from ironic_rs.db import models, session, values
from ironic_rs.db.base import Base, table
from ironic_rs.domain import errors, states

Migration = Callable[[int], tuple[int, int]]

_nodes = table(models.Node)
_runbooks = table(models.Runbook)
_runbook_traits = table(models.RunbookTrait)


def _versioned() -> list[type[Base]]:
    """Record classes whose rows carry an object version."""
    return [m.class_ for m in Base.registry.mappers if m.class_.object_version is not None]


def _known(model: type[Base], version: str | None) -> bool:
    """Whether a row of this version is one of a release up to this one."""
    if version is None:
        # Upstream leaves it out of the traits made together with a runbook.
        return model is models.RunbookTrait
    assert model.object_version is not None
    major, _, minor = model.object_version.partition(".")
    row_major, _, row_minor = version.partition(".")
    return row_major == major and row_minor.isdigit() and int(row_minor) <= int(minor)


@dataclasses.dataclass(frozen=True)
class RowVersions:
    """Row versions ("none" for no version) by table, where they are not the newest."""

    unsupported: dict[str, list[str]]
    """Not known to this release."""
    older: dict[str, list[str]]
    """Readable; :func:`update_to_latest_versions` has not stamped the rows yet."""


@session.reads
def row_versions(connection: Connection) -> RowVersions:
    """Look at the versions of all rows, with one statement a table.

    Tables that do not exist (yet) are skipped.

    :raises DatabaseVersionTooOld: a table has no column for the version.
    """
    inspector = sa.inspect(connection)
    present = set(inspector.get_table_names())
    found = RowVersions({}, {})
    for model in _versioned():
        name = model.__tablename__
        if name not in present:
            continue
        if "version" not in {column["name"] for column in inspector.get_columns(name)}:
            raise errors.DatabaseVersionTooOld()
        versions = connection.execute(sa.select(table(model).c.version).distinct()).scalars()
        for version in sorted(versions, key=str):
            if version != model.object_version:
                into = found.older if _known(model, version) else found.unsupported
                into.setdefault(name, []).append(version or "none")
    return found


def _key(rows: Table) -> ColumnElement[int]:
    """What a batch is cut by: id, or the parent for tables without one."""
    column: ColumnElement[int] = rows.c.id if "id" in rows.c else next(iter(rows.primary_key))
    return column


@session.writes
def update_to_latest_versions(connection: Connection, max_count: int) -> tuple[int, int]:
    """Stamp rows with the newest object version; their data stays as it is.

    :param max_count: most rows to stamp (0: all); tables without an id are stamped
        by whole parents.
    :returns: rows that needed it, rows that were stamped.
    """
    total = done = 0
    for model in _versioned():
        rows = table(model)
        stale = sa.or_(rows.c.version.is_(None), rows.c.version != model.object_version)
        count = sa.select(sa.func.count()).select_from(rows).where(stale)
        total += connection.execute(count).scalar_one()
        statement = sa.update(rows).where(stale)
        if max_count:
            if done >= max_count:
                continue
            key = _key(rows)
            batch = sa.select(key).where(stale).order_by(key).limit(max_count - done)
            keys = connection.execute(batch).scalars().all()
            statement = statement.where(key.in_(keys))
        # The row is not changed: its updated_at stays, too.
        stamped = statement.values(version=model.object_version, updated_at=rows.c.updated_at)
        done += connection.execute(stamped).rowcount
    return total, done


@session.writes
def migrate_to_builtin_inspection(connection: Connection, max_count: int) -> tuple[int, int]:
    """Move nodes from the retired inspect interface "inspector" to "agent".

    Only where "agent" is enabled and "inspector" is not, and not during an inspection.
    """
    enabled = CONF.enabled_inspect_interfaces or []
    if "agent" not in enabled or "inspector" in enabled:
        return 0, 0
    where = [
        _nodes.c.inspect_interface == "inspector",
        sa.or_(
            _nodes.c.provision_state.is_(None),
            _nodes.c.provision_state.not_in(sorted(states.INSPECTION_STATES)),
        ),
    ]
    ids = connection.execute(sa.select(_nodes.c.id).where(*where).order_by(_nodes.c.id))
    found = ids.scalars().all()
    batch = found[:max_count] if max_count else found
    if batch:
        connection.execute(
            sa.update(_nodes).where(_nodes.c.id.in_(batch)).values(inspect_interface="agent")
        )
    return len(found), len(batch)


@session.writes
def migrate_runbook_names_to_traits(connection: Connection, max_count: int) -> tuple[int, int]:
    """Give each runbook without traits one that is its name, as names used to work."""
    with_traits = sa.select(_runbook_traits.c.runbook_id)
    query = sa.select(_runbooks.c.id, _runbooks.c.name).where(_runbooks.c.id.not_in(with_traits))
    found = connection.execute(query.order_by(_runbooks.c.id)).all()
    batch = found[:max_count] if max_count else found
    rows = [
        values.for_insert(models.RunbookTrait, {"runbook_id": runbook_id, "trait": name})
        for runbook_id, name in batch
    ]
    if rows:
        connection.execute(sa.insert(_runbook_traits), rows)
    return len(found), len(batch)


MIGRATIONS: Mapping[str, Migration] = {
    "migrate_to_builtin_inspection": migrate_to_builtin_inspection,
    "migrate_runbook_names_to_traits": migrate_runbook_names_to_traits,
    "update_to_latest_versions": update_to_latest_versions,
}
"""Name to function of the most rows to handle (0: all); it returns (needed, done)."""
