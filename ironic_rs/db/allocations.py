"""Allocations: requests for nodes, and the binding of a node to one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import ColumnElement, Connection

from ironic_rs.db import conductors, integrity, models, revision, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals, is_in
from ironic_rs.db.resource import Change, Resource, node_uuid_of
from ironic_rs.db.types import is_text
from ironic_rs.domain import errors, states

Allocation = models.Allocation

_allocations = table(Allocation)
_nodes = table(models.Node)


LISTING = Listing(
    Allocation,
    missing=lambda ident: errors.AllocationNotFound(allocation=ident),
    derived={"node_uuid": node_uuid_of(Allocation)},
    filters={
        "state": equals(_allocations.c.state),
        "resource_class": equals(_allocations.c.resource_class),
        "owner": equals(_allocations.c.owner),
        "project": equals(_allocations.c.owner),
        "uuid": equals(_allocations.c.uuid),
        "name": equals(_allocations.c.name),
        "node_id": equals(_allocations.c.node_id),
        "id_in": is_in(_allocations.c.id),
        "node_uuid": lambda uuid: _allocations.c.node_id.in_(
            sa.select(_nodes.c.id).where(_nodes.c.uuid == uuid)
        ),
    },
)
select = LISTING.select
_resource = Resource(Allocation, LISTING)


@session.reads
def get(connection: Connection, ident: int | str) -> Allocation:
    """Allocation by its integer id or uuid.

    :raises InvalidIdentity: neither of them.
    :raises AllocationNotFound: no such allocation.
    """
    return _resource.one(connection, _resource.where(ident), ident)


@session.reads
def get_by_ident(connection: Connection, ident: str) -> Allocation:
    """Allocation by uuid or name.

    :raises AllocationNotFound: no such allocation.
    """
    is_uuid = uuidutils.is_uuid_like(ident)
    where = _allocations.c.uuid == ident if is_uuid else is_text(_allocations.c.name, ident)
    return _resource.one(connection, where, ident)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> Allocation:
    """Store an allocation, in state ``allocating`` unless another is given.

    :raises AllocationDuplicateName, AllocationAlreadyExists: not unique.
    """
    row = dict(given)
    if not row.get("state"):
        row["state"] = states.ALLOCATING
    return _resource.insert(connection, row)


@session.writes
def change(connection: Connection, ident: int | str, make: Change[Allocation]) -> Allocation:
    """Change an allocation by what it is under the lock of its row.

    :param make: gets the allocation, returns the columns to write; may be called again
        after a deadlock.
    :raises AllocationNotFound, AllocationDuplicateName: as named.
    """
    return _resource.change(connection, ident, make)


def _pending(allocation: Allocation) -> list[ColumnElement[bool]]:
    """True while the conductor that the record names is still the one to settle it."""
    return [
        _allocations.c.id == allocation.id,
        _allocations.c.state == states.ALLOCATING,
        _allocations.c.conductor_affinity == allocation.conductor_affinity,
    ]


@session.writes
def bind(
    connection: Connection, allocation: Allocation, node_id: int, *, fence: str | None = None
) -> None:
    """Give a node to an allocation that still waits for one, both in one transaction.

    The allocation becomes active; the node gets allocation_id, instance_uuid (the
    allocation's uuid) and instance_info.traits.  The record is left as it is.

    :param fence: hostname that must hold the node.
    :raises AllocationNotFound: deleted.
    :raises AllocationLost: settled already, or another conductor's to settle.
    :raises NodeAssociated: the node has another instance.
    :raises InstanceAssociated: another node has the uuid as its instance.
    :raises NodeNotFound, LockLost: as named.
    """
    taken = values.for_update(
        Allocation, {"node_id": node_id, "state": states.ALLOCATION_ACTIVE, "last_error": None}
    )
    statement = sa.update(_allocations).where(*_pending(allocation)).values(taken)
    if connection.execute(statement).rowcount == 0:
        raise _not_pending(connection, allocation)
    _give_node(connection, allocation, node_id, fence)


def _not_pending(connection: Connection, allocation: Allocation) -> errors.IronicError:
    query = sa.select(_allocations.c.state).where(_allocations.c.id == allocation.id)
    state = connection.execute(query).scalar()
    if state is None:
        return errors.AllocationNotFound(allocation=allocation.uuid)
    return errors.AllocationLost(allocation=allocation.uuid, state=state)


def _give_node(
    connection: Connection, allocation: Allocation, node_id: int, fence: str | None
) -> None:
    node = connection.execute(
        sa.select(
            _nodes.c.uuid, _nodes.c.instance_uuid, _nodes.c.instance_info, _nodes.c.reservation
        )
        .where(_nodes.c.id == node_id)
        .with_for_update()
    ).one_or_none()
    if node is None:
        raise errors.NodeNotFound(node=node_id)
    if fence is not None and node.reservation != fence:
        raise errors.LockLost(
            host=fence, node=node.uuid, reason=f"it is held by {node.reservation}"
        )
    if node.instance_uuid and node.instance_uuid != allocation.uuid:
        raise errors.NodeAssociated(node=node.uuid, instance=node.instance_uuid)
    row = values.for_update(
        models.Node,
        {
            "allocation_id": allocation.id,
            "instance_uuid": allocation.uuid,
            "instance_info": {**node.instance_info, "traits": allocation.traits or []},
        },
    )
    with integrity.translated(models.Node, {"uuid": node.uuid, **row}):
        connection.execute(sa.update(_nodes).where(_nodes.c.id == node_id).values(row))


@session.writes
def create_bound(
    connection: Connection, given: Mapping[str, Any], node_id: int, fence: str | None = None
) -> Allocation:
    """Store an allocation of a node that is in use already, active at once.

    Nothing is stored when the node can not have it; parameters and errors as of
    :func:`create` and :func:`bind`.
    """
    row = {**given, "node_id": node_id, "state": states.ALLOCATION_ACTIVE}
    allocation = _resource.insert(connection, row)
    _give_node(connection, allocation, node_id, fence)
    return allocation


@session.writes_once
def fail(connection: Connection, allocation: Allocation, reason: str) -> bool:
    """Move an allocation that still waits for a node to ``error``.

    :returns: False when it does not: deleted, settled, or another conductor's.
    """
    failed = values.for_update(
        Allocation, {"node_id": None, "state": states.ALLOCATION_ERROR, "last_error": reason}
    )
    statement = sa.update(_allocations).where(*_pending(allocation)).values(failed)
    return connection.execute(statement).rowcount == 1


@session.reads
def unattended(connection: Connection, conductor_id: int | None) -> list[Allocation]:
    """Allocations that wait for a node and that no other live conductor has.

    Those of the conductor itself are among them, and those whose conductor is dead,
    not registered (any more), or unknown.
    """
    affinity = _allocations.c.conductor_affinity
    nobody = sa.or_(affinity.is_(None), affinity.not_in(conductors.fresh_ids()))
    mine = affinity == conductor_id
    return _resource.all(
        connection, _allocations.c.state == states.ALLOCATING, sa.or_(mine, nobody)
    )


@session.writes_once
def take_over(connection: Connection, allocation_id: int, old: int | None, new: int | None) -> bool:
    """Move an allocation from one conductor to another; False when it is not the old one's."""
    statement = sa.update(_allocations).where(
        _allocations.c.id == allocation_id, _allocations.c.conductor_affinity == old
    )
    return connection.execute(statement.values(conductor_affinity=new)).rowcount == 1


@session.writes
def destroy(
    connection: Connection,
    ident: int | str,
    *,
    fence: str | None = None,
    bound: bool = True,
    if_match: Iterable[str] | None = None,
) -> bool:
    """Delete an allocation and free its node from it.

    :param fence: hostname that must hold its node.
    :param bound: false deletes it only while it has no node.
    :param if_match: revisions that it may have; None for any.
    :returns: False when it has one and ``bound`` is false.
    :raises AllocationNotFound, PreconditionFailed: as named.
    :raises LockLost: ``fence`` does not hold the node.
    """
    found = connection.execute(
        sa.select(_allocations.c.id, _allocations.c.node_id)
        .where(_resource.where(ident))
        .with_for_update()
    ).one_or_none()
    if found is None:
        raise errors.AllocationNotFound(allocation=ident)
    if not bound and found.node_id is not None:
        return False
    if if_match is not None:
        record = _resource.one(connection, _allocations.c.id == found.id, ident)
        revision.require(record, if_match)
    held = _nodes.c.allocation_id == found.id
    if fence is not None:
        node = connection.execute(
            sa.select(_nodes.c.uuid, _nodes.c.reservation).where(held).with_for_update()
        ).one_or_none()
        if node is not None and node.reservation != fence:
            raise errors.LockLost(
                host=fence, node=node.uuid, reason=f"it is held by {node.reservation}"
            )
    connection.execute(sa.update(_nodes).where(held).values(allocation_id=None, instance_uuid=None))
    connection.execute(sa.delete(_allocations).where(_allocations.c.id == found.id))
    return True
