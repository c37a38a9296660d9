"""Node history: events written once, read by page, purged by age and number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

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


@session.reads
def _overfull(
    connection: Connection, conductor_id: int, keep: int, days: int
) -> list[tuple[int, int]]:
    """(node id, number of entries to delete) of nodes of a conductor, or of none."""
    number = sa.func.count(_history.c.id)
    where = [
        sa.or_(_nodes.c.conductor_affinity == conductor_id, _nodes.c.conductor_affinity.is_(None))
    ]
    if days > 0:
        where.append(_history.c.created_at < seconds_ago(days * 86400))
    rows = connection.execute(
        sa.select(_history.c.node_id, number)
        .select_from(_history.join(_nodes, _nodes.c.id == _history.c.node_id))
        .where(*where)
        .group_by(_history.c.node_id)
        .having(number > keep)
    )
    return [(node_id, count - keep) for node_id, count in rows]


@session.writes
def _delete_oldest(connection: Connection, node_id: int, number: int) -> int:
    mine = _history.c.node_id == node_id
    last = connection.execute(
        sa.select(_history.c.created_at, _history.c.id)
        .where(mine)
        .order_by(_history.c.created_at, _history.c.id)
        .offset(number - 1)
        .limit(1)
    ).one_or_none()
    if last is None:
        return 0
    at, last_id = last
    older = sa.or_(
        _history.c.created_at < at, sa.and_(_history.c.created_at == at, _history.c.id <= last_id)
    )
    return connection.execute(sa.delete(_history).where(mine, older)).rowcount


def purge(conductor_id: int, *, keep: int, days: int, batch: int) -> int:
    """Delete old entries of the nodes of a conductor and of nodes that are nobody's.

    Of the entries older than ``days`` (0: of all) the newest ``keep`` stay.  Ends
    after the node with which ``batch`` deleted entries are reached.

    :returns: number of deleted entries.
    """
    deleted = 0
    for node_id, number in _overfull(conductor_id, keep, days):
        deleted += _delete_oldest(node_id, number)
        if deleted >= batch:
            break
    return deleted
