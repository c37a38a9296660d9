"""Conductors: registration, heartbeat, liveness by the database's clock, ring input.

Specification data-model.md section 4.5; conductor.md sections 5, 6 and W43.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, RowMapping, Select

from ironic_rs.conf import CONF
from ironic_rs.db import integrity, models, records, session, values
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals
from ironic_rs.db.types import seconds_ago, utcnow
from ironic_rs.domain import errors

Conductor = models.Conductor

_conductors = table(Conductor)
_interfaces = table(models.ConductorHardwareInterface)
_nodes = table(models.Node)


def _fresh() -> ColumnElement[bool]:
    """Heartbeat within ``[conductor]heartbeat_timeout``; always so when that is 0 or less."""
    timeout = CONF.conductor.heartbeat_timeout
    if timeout <= 0:
        return sa.true()
    return _conductors.c.updated_at >= seconds_ago(timeout)


def _alive() -> ColumnElement[bool]:
    return sa.and_(_conductors.c.online.is_(True), _fresh())


def _listing() -> Listing:
    return Listing(
        Conductor,
        missing=lambda ident: errors.ConductorNotFound(conductor=ident),
        derived={"alive": sa.case((_alive(), sa.true()), else_=sa.false())},
        filters={
            "hostname": equals(_conductors.c.hostname),
            "conductor_group": equals(_conductors.c.conductor_group),
            "online": _conductors.c.online.is_,
        },
        marker="hostname",
    )


def _one(connection: Connection, hostname: str) -> Conductor | None:
    query = sa.select(_conductors).where(_conductors.c.hostname == hostname)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else records.build(Conductor, row)


@session.reads
def get(connection: Connection, hostname: str) -> Conductor:
    """Conductor by its registered name.

    :raises ConductorNotFound: not registered.
    """
    found = _one(connection, hostname)
    if found is None:
        raise errors.ConductorNotFound(conductor=hostname)
    return found


def select(
    columns: Iterable[str], filters: Mapping[str, Any] | None = None, **page: Any
) -> Sequence[RowMapping]:
    """Rows of these columns and of ``alive``; the marker is a hostname.

    Parameters and errors as of :meth:`Listing.select`.
    """
    return _listing().select(columns, filters, **page)


@session.writes
def register(
    connection: Connection,
    hostname: str,
    drivers: Sequence[str],
    conductor_group: str = "",
    update_existing: bool = False,
) -> Conductor:
    """Insert or refresh the row of a conductor: online, heartbeat now.

    :param drivers: enabled hardware types.
    :raises ConductorAlreadyRegistered: registered and online, and not
        ``update_existing``.
    """
    row = values.checked(
        Conductor,
        {
            "hostname": hostname,
            "drivers": list(drivers),
            "conductor_group": conductor_group.lower(),
            "online": True,
        },
    )
    row |= {"version": Conductor.object_version, "updated_at": utcnow()}
    present = connection.execute(
        sa.select(_conductors.c.id, _conductors.c.online)
        .where(_conductors.c.hostname == hostname)
        .with_for_update()
    ).one_or_none()
    with integrity.translated(Conductor, row):
        if present is None:
            connection.execute(sa.insert(_conductors).values(row))
        elif present.online and not update_existing:
            raise errors.ConductorAlreadyRegistered(conductor=hostname)
        else:
            connection.execute(
                sa.update(_conductors).where(_conductors.c.id == present.id).values(row)
            )
    registered = _one(connection, hostname)
    assert registered is not None
    return registered


@session.writes_once
def touch(connection: Connection, hostname: str, online: bool = True) -> bool:
    """Heartbeat (1 UPDATE); False when the row is gone and must be registered anew (W50)."""
    statement = sa.update(_conductors).where(_conductors.c.hostname == hostname)
    written = connection.execute(statement.values(updated_at=utcnow(), online=online))
    return written.rowcount == 1


@session.writes
def unregister(connection: Connection, hostname: str) -> None:
    """Take the conductor out of the rings: interfaces deleted, online = false.

    :raises ConductorNotFound: not registered, or not online.
    """
    statement = sa.update(_conductors).where(
        _conductors.c.hostname == hostname, _conductors.c.online.is_(True)
    )
    if connection.execute(statement.values(online=False)).rowcount == 0:
        raise errors.ConductorNotFound(conductor=hostname)
    mine = sa.select(_conductors.c.id).where(_conductors.c.hostname == hostname)
    connection.execute(
        sa.delete(_interfaces).where(_interfaces.c.conductor_id == mine.scalar_subquery())
    )


@session.writes
def set_interfaces(
    connection: Connection, conductor_id: int, rows: Iterable[Mapping[str, Any]]
) -> None:
    """Replace the interfaces that a conductor offers.

    :param rows: mappings with hardware_type, interface_type, interface_name, default.
    :raises ConductorHardwareInterfacesAlreadyRegistered: a row is given twice.
    """
    new = [
        values.for_insert(models.ConductorHardwareInterface, {**row, "conductor_id": conductor_id})
        for row in rows
    ]
    connection.execute(sa.delete(_interfaces).where(_interfaces.c.conductor_id == conductor_id))
    if new:
        with integrity.translated(models.ConductorHardwareInterface, {"row": conductor_id}):
            connection.execute(sa.insert(_interfaces), new)


@session.reads
def ring_members(connection: Connection) -> list[tuple[str, str, str]]:
    """(conductor group, hardware type, hostname) of every live conductor (1 statement)."""
    rows = connection.execute(
        sa.select(
            _conductors.c.conductor_group, _interfaces.c.hardware_type, _conductors.c.hostname
        )
        .distinct()
        .select_from(_interfaces.join(_conductors, _conductors.c.id == _interfaces.c.conductor_id))
        .where(_alive())
    )
    return [(group, hardware_type, hostname) for group, hardware_type, hostname in rows]


@session.reads
def interfaces(
    connection: Connection, hardware_types: Iterable[str] | None = None
) -> Sequence[RowMapping]:
    """Interfaces that live conductors offer: hostname, conductor_group, hardware_type,
    interface_type, interface_name, default."""
    where = [_alive()]
    if hardware_types is not None:
        where.append(_interfaces.c.hardware_type.in_(list(hardware_types)))
    return (
        connection.execute(
            sa.select(
                _conductors.c.hostname,
                _conductors.c.conductor_group,
                _interfaces.c.hardware_type,
                _interfaces.c.interface_type,
                _interfaces.c.interface_name,
                _interfaces.c.default,
            )
            .select_from(
                _interfaces.join(_conductors, _conductors.c.id == _interfaces.c.conductor_id)
            )
            .where(*where)
            .order_by(_interfaces.c.id)
        )
        .mappings()
        .all()
    )


@session.reads
def online_hosts(connection: Connection) -> list[str]:
    """Names of the conductors that are online and whose heartbeat is fresh."""
    rows = connection.execute(sa.select(_conductors.c.hostname).where(_alive()))
    return [row.hostname for row in rows]


@session.reads
def offline_hosts(connection: Connection) -> list[str]:
    """Names of the conductors whose heartbeat is stale, whatever ``online`` says."""
    rows = connection.execute(sa.select(_conductors.c.hostname).where(sa.not_(_fresh())))
    return [row.hostname for row in rows]


def fresh_ids() -> Select[tuple[int]]:
    """Query for the ids of the conductors whose heartbeat is fresh, for other queries."""
    return sa.select(_conductors.c.id).where(_fresh())


@session.reads
def stale(connection: Connection, seconds: int, limit: int) -> list[tuple[str, int]]:
    """(name, nodes that it holds) of conductors without a heartbeat for so many seconds.

    At most ``limit``, those that hold nothing first, then the longest silent ones.
    """
    held = (
        sa.select(sa.func.count(_nodes.c.id))
        .where(_nodes.c.reservation == _conductors.c.hostname)
        .scalar_subquery()
        .label("held")
    )
    rows = connection.execute(
        sa.select(_conductors.c.hostname, held)
        .where(_conductors.c.updated_at < seconds_ago(seconds))
        .order_by(held, _conductors.c.updated_at)
        .limit(limit)
    )
    return [(row.hostname, row.held) for row in rows]


@session.writes
def destroy(connection: Connection, hostname: str, seconds: int) -> bool:
    """Delete a conductor that is gone: its affinities and its rows, in one transaction.

    :param seconds: how long there must have been no heartbeat.
    :returns: False when it is back, holds a node, or is deleted already.
    """
    found = connection.execute(
        sa.select(_conductors.c.id)
        .where(_conductors.c.hostname == hostname, _conductors.c.updated_at < seconds_ago(seconds))
        .with_for_update()
    ).one_or_none()
    if found is None:
        return False
    held = sa.select(_nodes.c.id).where(_nodes.c.reservation == hostname).limit(1)
    if connection.execute(held).first() is not None:
        return False
    connection.execute(
        sa.update(_nodes)
        .where(_nodes.c.conductor_affinity == found.id)
        .values(conductor_affinity=None, updated_at=_nodes.c.updated_at)
    )
    connection.execute(sa.delete(_interfaces).where(_interfaces.c.conductor_id == found.id))
    connection.execute(sa.delete(_conductors).where(_conductors.c.id == found.id))
    return True
