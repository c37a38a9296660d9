"""BIOS settings of nodes, as last read from the hardware."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from ironic_rs.db import integrity, models, records, session, values
from ironic_rs.db.base import table
from ironic_rs.db.resource import node_name
from ironic_rs.domain import errors

BIOSSetting = models.BIOSSetting

_settings = table(BIOSSetting)


class Changes(NamedTuple):
    """Names of the settings that a :func:`sync` wrote, and of those it left."""

    created: list[str]
    updated: list[str]
    deleted: list[str]
    unchanged: list[str]


def _all(connection: Connection, node_id: int) -> list[BIOSSetting]:
    query = sa.select(_settings).where(_settings.c.node_id == node_id).order_by(_settings.c.name)
    return [records.build(BIOSSetting, row) for row in connection.execute(query).mappings()]


@session.reads
def of_node(connection: Connection, node_id: int) -> list[BIOSSetting]:
    """Settings of a node, by name."""
    return _all(connection, node_id)


@session.reads
def get(connection: Connection, node_id: int, name: str) -> BIOSSetting:
    """One setting of a node.

    :raises BIOSSettingNotFound: it has none of that name.
    """
    query = sa.select(_settings).where(_settings.c.node_id == node_id, _settings.c.name == name)
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise errors.BIOSSettingNotFound(node=node_name(connection, node_id), name=name)
    return records.build(BIOSSetting, row)


@session.writes
def create(connection: Connection, node_id: int, settings: Iterable[Mapping[str, Any]]) -> None:
    """Store settings (mappings of columns, ``name`` among them).

    :raises BIOSSettingAlreadyExists: one of the names is there already.
    """
    for setting in settings:
        row = values.for_insert(BIOSSetting, {**setting, "node_id": node_id})
        with integrity.translated(BIOSSetting, row):
            connection.execute(sa.insert(_settings).values(row))


@session.writes
def destroy(connection: Connection, node_id: int, names: Sequence[str]) -> None:
    """Delete settings; all or none.

    :raises BIOSSettingListNotFound: one of the names is not there.
    """
    mine = [_settings.c.node_id == node_id, _settings.c.name.in_(list(names))]
    present = set(connection.execute(sa.select(_settings.c.name).where(*mine)).scalars())
    missing = [name for name in names if name not in present]
    if missing:
        raise errors.BIOSSettingListNotFound(
            node=node_name(connection, node_id), names=", ".join(missing)
        )
    connection.execute(sa.delete(_settings).where(*mine))


def _differs(stored: BIOSSetting, given: Mapping[str, Any]) -> bool:
    # An empty list is stored for no list.
    return any((getattr(stored, name) or None) != (given[name] or None) for name in given)


@session.writes
def sync(connection: Connection, node_id: int, settings: Iterable[Mapping[str, Any]]) -> Changes:
    """Make the stored settings those given, in one transaction.

    A setting is unchanged when all that is given of it is: what a registry says of an
    attribute may become readable later, or go away.  New ones are inserted and vanished
    ones deleted with one statement each.

    :param settings: mappings of columns, ``name`` among them.
    """
    wanted = {setting["name"]: setting for setting in settings}
    present = {setting.name: setting for setting in _all(connection, node_id)}
    created = [name for name in wanted if name not in present]
    deleted = [name for name in present if name not in wanted]
    both = [name for name in wanted if name in present]
    updated = [name for name in both if _differs(present[name], wanted[name])]
    if deleted:
        connection.execute(
            sa.delete(_settings).where(
                _settings.c.node_id == node_id, _settings.c.name.in_(deleted)
            )
        )
    for name in created:
        row = values.for_insert(BIOSSetting, {**wanted[name], "node_id": node_id})
        with integrity.translated(BIOSSetting, row):
            connection.execute(sa.insert(_settings).values(row))
    for name in updated:
        connection.execute(
            sa.update(_settings)
            .where(_settings.c.node_id == node_id, _settings.c.name == name)
            .values(values.for_update(BIOSSetting, wanted[name]))
        )
    return Changes(created, updated, deleted, [name for name in both if name not in updated])
