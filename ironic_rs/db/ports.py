"""Ports of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_utils import netutils, uuidutils
from sqlalchemy import Connection

from ironic_rs.db import models, records, session
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, contains, equals, is_in
from ironic_rs.db.resource import Resource, node_filters, node_uuid_of
from ironic_rs.db.types import is_text
from ironic_rs.domain import errors

Port = models.Port

_ports = table(Port)
_portgroups = table(models.Portgroup)
_PORTGROUP_UUID = (
    sa.select(_portgroups.c.uuid).where(_portgroups.c.id == _ports.c.portgroup_id).scalar_subquery()
)

LISTING = Listing(
    Port,
    missing=lambda ident: errors.PortNotFound(port=ident),
    derived={"node_uuid": node_uuid_of(Port), "portgroup_uuid": _PORTGROUP_UUID},
    filters={
        **node_filters(Port),
        "uuid": equals(_ports.c.uuid),
        "name": equals(_ports.c.name),
        "address": lambda address: _ports.c.address == address.lower(),
        "address_in": lambda found: _ports.c.address.in_([a.lower() for a in found]),
        "portgroup_id": equals(_ports.c.portgroup_id),
        "portgroup_uuid": lambda uuid: _ports.c.portgroup_id.in_(
            sa.select(_portgroups.c.id).where(_portgroups.c.uuid == uuid)
        ),
        "uuid_in": is_in(_ports.c.uuid),
        "physical_network": equals(_ports.c.physical_network),
        "description_contains": contains(_ports.c.description),
    },
)
select = LISTING.select
_resource = Resource(Port, LISTING, attached=("node_uuid",))


@session.reads
def get(connection: Connection, ident: int | str) -> Port:
    """Port by its integer id or uuid.

    :raises InvalidIdentity: neither of them.
    :raises PortNotFound: no such port.
    """
    return _resource.one(connection, _resource.where(ident), ident)


@session.reads
def get_by_ident(connection: Connection, ident: str) -> Port:
    """Port by uuid, MAC address or name.

    :raises PortNotFound: no such port.
    """
    if uuidutils.is_uuid_like(ident):
        where = _ports.c.uuid == ident
    elif netutils.is_valid_mac(ident):
        where = _ports.c.address == ident.lower()
    else:
        where = is_text(_ports.c.name, ident)
    return _resource.one(connection, where, ident)


@session.reads
def get_by_address(connection: Connection, address: str) -> Port:
    """Port by MAC address.

    :raises PortNotFound: no such port.
    """
    return _resource.one(connection, _ports.c.address == address.lower(), address)


@session.reads
def of_node(connection: Connection, node_id: int) -> list[Port]:
    """Ports of a node, in order of creation."""
    return _resource.all(connection, _ports.c.node_id == node_id)


@session.reads
def of_portgroup(connection: Connection, portgroup_id: int) -> list[Port]:
    """Member ports of a portgroup, in order of creation."""
    return _resource.all(connection, _ports.c.portgroup_id == portgroup_id)


def _lower(given: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(given)
    if row.get("address"):
        row["address"] = row["address"].lower()
    return row


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> Port:
    """Store a port.

    :raises MACAlreadyExists, PortDuplicateName, PortAlreadyExists: not unique.
    """
    return _resource.insert(connection, _lower(given))


@session.writes_once
def update(
    connection: Connection,
    port: Port | int | str,
    given: Mapping[str, Any],
    *,
    fence: str | None = None,
) -> None:
    """Write columns of a port (1 UPDATE).

    :param port: record, integer id or uuid.
    :param fence: hostname that must hold the port's node.
    :raises PortNotFound, LockLost, MACAlreadyExists, PortDuplicateName: as named.
    """
    _resource.update(connection, port, _lower(given), fence)


def save(port: Port, *, fence: str | None = None) -> None:
    """Write the columns of the record that changed; no statement when none did."""
    changed = records.changes(port)
    if changed:
        update(port, changed, fence=fence)
        records.mark_clean(port, changed)


@session.writes
def destroy(connection: Connection, port: Port | int | str, fence: str | None = None) -> None:
    """Delete a port.

    :raises PortNotFound, LockLost: as named.
    """
    _resource.delete(connection, port, fence)
