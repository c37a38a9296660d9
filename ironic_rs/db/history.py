"""Node history: events written once, read by page, purged by age and number."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, RowMapping

from ironic_rs.db import integrity, models, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals
from ironic_rs.db.resource import Resource, node_filters, node_uuid_of
from ironic_rs.db.types import seconds_ago
from ironic_rs.domain import errors

NodeHistory = models.NodeHistory

_history = table(NodeHistory)
_nodes = table(models.Node)

LISTING = Listing(
    NodeHistory,
    missing=lambda ident: errors.NodeHistoryNotFound(history=ident),
    derived={"node_uuid": node_uuid_of(NodeHistory)},
    filters={
        **node_filters(NodeHistory),
        "severity": equals(_history.c.severity),
        "event_type": equals(_history.c.event_type),
    },
)
select = LISTING.select
_resource = Resource(NodeHistory, LISTING)


@session.reads
def get(connection: Connection, uuid: str) -> NodeHistory:
    """Entry by its uuid.

    :raises InvalidIdentity: not a uuid.
    :raises NodeHistoryNotFound: no such entry.
    """
    return _resource.one(connection, _resource.where(uuid), uuid)


@session.reads
def of_node(connection: Connection, node_id: int) -> list[NodeHistory]:
    """Entries of a node, oldest first."""
    return _resource.all(connection, _history.c.node_id == node_id)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> str:
    """Store an entry (1 statement) and return its uuid.

    An ``event`` over 65,535 UTF-8 bytes loses its middle.
    """
    row = values.for_insert(NodeHistory, {**given, "event": values.cut_middle(given.get("event"))})
    with integrity.translated(NodeHistory, row):
        connection.execute(sa.insert(_history).values(row))
    return str(row["uuid"])


@session.writes
def create_all(connection: Connection, given: Sequence[Mapping[str, Any]]) -> None:
    """Store entries (1 statement); all have the same fields."""
    rows = [
        values.for_insert(NodeHistory, {**entry, "event": values.cut_middle(entry.get("event"))})
        for entry in given
    ]
    with integrity.translated(NodeHistory, rows[0]):
        connection.execute(sa.insert(_history), rows)


@session.reads
def newest_of_type(
    connection: Connection, node_ids: Sequence[int], event_type: str
) -> dict[int, datetime.datetime]:
    """When the newest entry of a type was made, for those of the nodes that have one."""
    rows = connection.execute(
        sa.select(_history.c.node_id, sa.func.max(_history.c.created_at))
        .where(_history.c.node_id.in_(list(node_ids)), _history.c.event_type == event_type)
        .group_by(_history.c.node_id)
    )
    return {node_id: at for node_id, at in rows}


#: Rows that one statement names.
_CHUNK = 1000


def _old_enough(days: int) -> ColumnElement[bool]:
    return _history.c.created_at < seconds_ago(days * 86400) if days > 0 else sa.true()


@session.reads
def overfull(connection: Connection, *, keep: int, days: int) -> Sequence[RowMapping]:
    """Nodes with more than ``keep`` entries that are older than ``days`` (0: of any age).

    :returns: node_id, excess, and what the ring needs: uuid, driver, conductor_group.
    """
    number = sa.func.count(_history.c.id)
    full = (
        sa.select(_history.c.node_id, (number - keep).label("excess"))
        .where(_old_enough(days))
        .group_by(_history.c.node_id)
        .having(number > keep)
        .subquery()
    )
    return (
        connection.execute(
            sa.select(
                full.c.node_id,
                full.c.excess,
                _nodes.c.uuid,
                _nodes.c.driver,
                _nodes.c.conductor_group,
            ).select_from(full.join(_nodes, _nodes.c.id == full.c.node_id))
        )
        .mappings()
        .all()
    )


@session.reads
def _excess(connection: Connection, node_ids: Sequence[int], keep: int, days: int) -> list[int]:
    newest_first = sa.func.row_number().over(
        partition_by=_history.c.node_id,
        order_by=(_history.c.created_at.desc(), _history.c.id.desc()),
    )
    ranked = (
        sa.select(_history.c.id, newest_first.label("place"))
        .where(_history.c.node_id.in_(node_ids), _old_enough(days))
        .subquery()
    )
    return list(connection.execute(sa.select(ranked.c.id).where(ranked.c.place > keep)).scalars())


@session.writes_once
def _delete(connection: Connection, ids: Sequence[int]) -> int:
    return connection.execute(sa.delete(_history).where(_history.c.id.in_(ids))).rowcount


def delete_oldest(node_ids: Sequence[int], *, keep: int, days: int) -> int:
    """Delete all but the newest ``keep`` of the entries older than ``days`` of some nodes.

    One statement that looks, and one for each thousand entries to delete.

    :param node_ids: at most some thousands.
    :returns: number of deleted entries.
    """
    ids = _excess(node_ids, keep, days)
    return sum(_delete(ids[start : start + _CHUNK]) for start in range(0, len(ids), _CHUNK))
