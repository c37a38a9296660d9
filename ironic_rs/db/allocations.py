"""Allocations: requests for nodes, and the binding of a node to one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import uuidutils
from sqlalchemy import ColumnElement, Connection

from ironic_rs.db import integrity, models, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals, is_in
from ironic_rs.db.resource import Resource, node_uuid_of
from ironic_rs.domain import errors, states

Allocation = models.Allocation

_allocations = table(Allocation)
_conductors = table(models.Conductor)
_nodes = table(models.Node)


def _affinity(conductor: int | str) -> ColumnElement[bool]:
    """Allocations of a conductor, by its id or hostname."""
    if isinstance(conductor, int):
        return _allocations.c.conductor_affinity == conductor
    return _allocations.c.conductor_affinity.in_(
        sa.select(_conductors.c.id).where(_conductors.c.hostname == conductor)
    )


LISTING = Listing(
    Allocation,
    missing=lambda ident: errors.AllocationNotFound(allocation=ident),
    derived={"node_uuid": node_uuid_of(Allocation)},
    filters={
        "state": equals(_allocations.c.state),
        "resource_class": equals(_allocations.c.resource_class),
        "owner": equals(_allocations.c.owner),
        "uuid": equals(_allocations.c.uuid),
        "name": equals(_allocations.c.name),
        "node_id": equals(_allocations.c.node_id),
        "id_in": is_in(_allocations.c.id),
        "conductor_affinity": _affinity,
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
    where = _allocations.c.uuid == ident if is_uuid else _allocations.c.name == ident
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


@session.writes_once
def update(
    connection: Connection, allocation: Allocation | int | str, given: Mapping[str, Any]
) -> None:
    """Write columns of an allocation; :func:`bind` is what sets its node.

    :raises AllocationNotFound, AllocationDuplicateName: as named.
    """
    _resource.update(connection, allocation, given)


@session.writes
def bind(
    connection: Connection,
    allocation: Allocation,
    node_id: int,
    given: Mapping[str, Any] | None = None,
) -> None:
    """Give a node to an allocation, both rows in one transaction.

    The node gets allocation_id, instance_uuid (the allocation's uuid) and
    instance_info.traits; the record of the allocation is left as it is.

    :param given: more columns of the allocation to write.
    :raises NodeAssociated: the node has another instance.
    :raises InstanceAssociated: another node has the uuid as its instance.
    :raises NodeNotFound, AllocationNotFound: as named.
    """
    _resource.update(connection, allocation, {**(given or {}), "node_id": node_id})
    node = connection.execute(
        sa.select(_nodes.c.uuid, _nodes.c.instance_uuid, _nodes.c.instance_info)
        .where(_nodes.c.id == node_id)
        .with_for_update()
    ).one_or_none()
    if node is None:
        raise errors.NodeNotFound(node=node_id)
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


@session.writes_once
def take_over(connection: Connection, allocation_id: int, old: int, new: int) -> bool:
    """Move an allocation from one conductor to another; False when it is not the old one's."""
    statement = sa.update(_allocations).where(
        _allocations.c.id == allocation_id, _allocations.c.conductor_affinity == old
    )
    return connection.execute(statement.values(conductor_affinity=new)).rowcount == 1


@session.writes
def destroy(connection: Connection, ident: int | str) -> None:
    """Delete an allocation and free its node from it.

    :raises AllocationNotFound: no such allocation.
    """
    found = connection.execute(
        sa.select(_allocations.c.id).where(_resource.where(ident)).with_for_update()
    ).one_or_none()
    if found is None:
        raise errors.AllocationNotFound(allocation=ident)
    connection.execute(
        sa.update(_nodes)
        .where(_nodes.c.allocation_id == found.id)
        .values(allocation_id=None, instance_uuid=None)
    )
    connection.execute(sa.delete(_allocations).where(_allocations.c.id == found.id))
