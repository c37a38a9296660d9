"""Traits of nodes: replaced, added and removed as whole small sets."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy import Connection

from ironic_rs.db import models, session, values
from ironic_rs.db.base import table
from ironic_rs.db.resource import node_name
from ironic_rs.domain import errors

MAX_TRAITS = 50

_nodes = table(models.Node)
_traits = table(models.NodeTrait)


def _lock_node(connection: Connection, node_id: int, fence: str | None) -> None:
    """Take the row of the node: concurrent changes of its traits queue, and the
    fence and existence are checked with one UPDATE that also moves updated_at."""
    where = [_nodes.c.id == node_id]
    if fence is not None:
        where.append(_nodes.c.reservation == fence)
    touch = sa.update(_nodes).where(*where).values(id=_nodes.c.id)
    if connection.execute(touch).rowcount == 1:
        return
    found = connection.execute(
        sa.select(_nodes.c.uuid, _nodes.c.reservation).where(_nodes.c.id == node_id)
    ).one_or_none()
    if found is None:
        raise errors.NodeNotFound(node=node_id)
    raise errors.LockLost(host=fence, node=found.uuid, reason=f"held by {found.reservation}")


def _present(connection: Connection, node_id: int) -> set[str]:
    rows = connection.execute(sa.select(_traits.c.trait).where(_traits.c.node_id == node_id))
    return {row.trait for row in rows}


def _insert(connection: Connection, node_id: int, traits: Iterable[str]) -> None:
    rows = [
        values.for_insert(models.NodeTrait, {"node_id": node_id, "trait": trait})
        for trait in traits
    ]
    if rows:
        connection.execute(sa.insert(_traits), rows)


def _check_number(number: int) -> None:
    if number > MAX_TRAITS:
        raise errors.InvalidParameterValue(
            err=f"A node can not have more than {MAX_TRAITS} traits, these are {number}."
        )


@session.writes
def set_traits(
    connection: Connection, node_id: int, traits: Iterable[str], fence: str | None = None
) -> None:
    """Give the node exactly these traits.

    :raises InvalidParameterValue: more than 50.
    :raises NodeNotFound, LockLost: as of the node's lock.
    """
    wanted = set(traits)
    _check_number(len(wanted))
    _lock_node(connection, node_id, fence)
    connection.execute(sa.delete(_traits).where(_traits.c.node_id == node_id))
    _insert(connection, node_id, sorted(wanted))


@session.writes
def add_traits(
    connection: Connection, node_id: int, traits: Iterable[str], fence: str | None = None
) -> None:
    """Add traits; those that are there already do not count twice."""
    _lock_node(connection, node_id, fence)
    present = _present(connection, node_id)
    new = set(traits) - present
    _check_number(len(present | new))
    _insert(connection, node_id, sorted(new))


@session.writes
def remove_traits(
    connection: Connection, node_id: int, trait: str, fence: str | None = None
) -> None:
    """Remove one trait.

    :raises NodeTraitNotFound: the node does not have it.
    """
    _lock_node(connection, node_id, fence)
    result = connection.execute(
        sa.delete(_traits).where(_traits.c.node_id == node_id, _traits.c.trait == trait)
    )
    if result.rowcount == 0:
        raise errors.NodeTraitNotFound(node_id=node_name(connection, node_id), trait=trait)
