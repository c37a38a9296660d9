"""Chassis: groups of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals, is_in
from ironic_rs.db.resource import Change, Resource
from ironic_rs.domain import errors

Chassis = models.Chassis

_chassis = table(Chassis)
_nodes = table(models.Node)

LISTING = Listing(
    Chassis,
    missing=lambda ident: errors.ChassisNotFound(chassis=ident),
    filters={"uuid": equals(_chassis.c.uuid), "id_in": is_in(_chassis.c.id)},
)
select = LISTING.select
_resource = Resource(Chassis, LISTING)


@session.reads
def get(connection: Connection, ident: int | str) -> Chassis:
    """Chassis by its integer id or uuid.

    :raises InvalidIdentity: neither of them.
    :raises ChassisNotFound: no such chassis.
    """
    return _resource.one(connection, _resource.where(ident), ident)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> Chassis:
    """Store a chassis.

    :raises ChassisAlreadyExists: the uuid is taken.
    """
    return _resource.insert(connection, given)


@session.writes
def change(connection: Connection, ident: int | str, make: Change[Chassis]) -> Chassis:
    """Change a chassis by what it is under the lock of its row.

    :param make: gets the chassis, returns the columns to write; may be called again
        after a deadlock.
    :raises ChassisNotFound: no such chassis.
    """
    return _resource.change(connection, ident, make)


@session.writes
def destroy(
    connection: Connection, ident: int | str, if_match: Iterable[str] | None = None
) -> None:
    """Delete a chassis.

    :param if_match: revisions that it may have; None for any.
    :raises ChassisNotEmpty: a node refers to it.
    :raises ChassisNotFound, PreconditionFailed: as named.
    """
    _resource.require(connection, ident, if_match)
    where = _resource.where(ident)
    inside = sa.select(_nodes.c.id).where(
        _nodes.c.chassis_id.in_(sa.select(_chassis.c.id).where(where))
    )
    if connection.execute(inside.limit(1)).first() is not None:
        raise errors.ChassisNotEmpty(chassis=ident)
    _resource.delete(connection, ident)
