"""Portgroups (bonds) of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import netutils, uuidutils
from sqlalchemy import Connection

from ironic_rs.conf import CONF
from ironic_rs.db import models, records, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals, is_in
from ironic_rs.db.resource import Resource, node_filters, node_uuid_of
from ironic_rs.db.types import is_text
from ironic_rs.domain import errors

Portgroup = models.Portgroup

_portgroups = table(Portgroup)
_ports = table(models.Port)

LISTING = Listing(
    Portgroup,
    missing=lambda ident: errors.PortgroupNotFound(portgroup=ident),
    derived={"node_uuid": node_uuid_of(Portgroup)},
    filters={
        **node_filters(Portgroup),
        "uuid": equals(_portgroups.c.uuid),
        "name": equals(_portgroups.c.name),
        "address": lambda address: _portgroups.c.address == address.lower(),
        "uuid_in": is_in(_portgroups.c.uuid),
        "id_in": is_in(_portgroups.c.id),
    },
)
select = LISTING.select
_resource = Resource(Portgroup, LISTING, attached=("node_uuid",))


@session.reads
def get(connection: Connection, ident: int | str) -> Portgroup:
    """Portgroup by its integer id or uuid.

    :raises InvalidIdentity: neither of them.
    :raises PortgroupNotFound: no such portgroup.
    """
    return _resource.one(connection, _resource.where(ident), ident)


@session.reads
def get_by_ident(connection: Connection, ident: str) -> Portgroup:
    """Portgroup by uuid, MAC address or name.

    :raises PortgroupNotFound: no such portgroup.
    """
    if uuidutils.is_uuid_like(ident):
        where = _portgroups.c.uuid == ident
    elif netutils.is_valid_mac(ident):
        where = _portgroups.c.address == ident.lower()
    else:
        where = is_text(_portgroups.c.name, ident)
    return _resource.one(connection, where, ident)


@session.reads
def of_node(connection: Connection, node_id: int) -> list[Portgroup]:
    """Portgroups of a node, in order of creation."""
    return _resource.all(connection, _portgroups.c.node_id == node_id)


def _lower(given: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(given)
    if row.get("address"):
        row["address"] = row["address"].lower()
    return row


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> Portgroup:
    """Store a portgroup; its mode is ``[DEFAULT]default_portgroup_mode`` when missing.

    :raises PortgroupDuplicateName, PortgroupMACAlreadyExists, PortgroupAlreadyExists:
        not unique.
    """
    row = _lower(given)
    if row.get("mode") is None:
        row["mode"] = CONF.default_portgroup_mode
    return _resource.insert(connection, row)


@session.writes_once
def update(
    connection: Connection,
    portgroup: Portgroup | int | str,
    given: Mapping[str, Any],
    *,
    fence: str | None = None,
) -> None:
    """Write columns of a portgroup (1 UPDATE).

    :param portgroup: record, integer id or uuid.
    :param fence: hostname that must hold the portgroup's node.
    :raises PortgroupNotFound, LockLost, PortgroupDuplicateName,
        PortgroupMACAlreadyExists: as named.
    """
    _resource.update(connection, portgroup, _lower(given), fence)


def save(portgroup: Portgroup, *, fence: str | None = None) -> None:
    """Write the columns of the record that changed; no statement when none did."""
    changed = records.changes(portgroup)
    if changed:
        update(portgroup, changed, fence=fence)
        records.mark_clean(portgroup, changed)


@session.writes
def save_with_ports(connection: Connection, portgroup: Portgroup, *, fence: str | None) -> None:
    """Write the changed columns, and the physical network to all member ports as well.

    Both or neither: members must not disagree (2 UPDATEs in a transaction).

    :raises PortgroupNotFound, LockLost, PortgroupDuplicateName,
        PortgroupMACAlreadyExists: as named; nothing is written.
    """
    # Named even when it is as stored: this statement is what checks the fence.
    changed = {
        **records.changes(portgroup),
        "physical_network": portgroup.physical_network,
    }
    _resource.update(connection, portgroup, _lower(changed), fence)
    network = values.for_update(models.Port, {"physical_network": portgroup.physical_network})
    members = _ports.c.portgroup_id == portgroup.id
    connection.execute(sa.update(_ports).where(members).values(network))


@session.writes
def destroy(
    connection: Connection, portgroup: Portgroup | int | str, fence: str | None = None
) -> None:
    """Delete a portgroup.

    :raises PortgroupNotEmpty: ports are members of it.
    :raises PortgroupNotFound, LockLost: as named.
    """
    where = _resource.where(portgroup)
    members = sa.select(_ports.c.id).where(
        _ports.c.portgroup_id.in_(sa.select(_portgroups.c.id).where(where))
    )
    if connection.execute(members.limit(1)).first() is not None:
        raise errors.PortgroupNotEmpty(portgroup=getattr(portgroup, "uuid", portgroup))
    _resource.delete(connection, portgroup, fence)
