"""Firmware components of nodes, as last read from the hardware."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from ironic_rs.db import integrity, models, records, session, values
from ironic_rs.db.base import table
from ironic_rs.db.resource import node_name
from ironic_rs.domain import errors

FirmwareComponent = models.FirmwareComponent

_firmware = table(FirmwareComponent)

_DESCRIBING = ("vendor", "model", "serial_number")


class Changes(NamedTuple):
    """Names of the components that a :func:`sync` wrote, and of those it left."""

    created: list[str]
    updated: list[str]
    unchanged: list[str]


def _all(connection: Connection, node_id: int) -> list[FirmwareComponent]:
    query = sa.select(_firmware).where(_firmware.c.node_id == node_id).order_by(_firmware.c.id)
    return [records.build(FirmwareComponent, row) for row in connection.execute(query).mappings()]


@session.reads
def of_node(connection: Connection, node_id: int) -> list[FirmwareComponent]:
    """Components of a node, in order of creation."""
    return _all(connection, node_id)


@session.reads
def get(connection: Connection, node_id: int, component: str) -> FirmwareComponent:
    """One component of a node.

    :raises FirmwareComponentNotFound: it has none of that name.
    """
    query = sa.select(_firmware).where(
        _firmware.c.node_id == node_id, _firmware.c.component == component
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        raise errors.FirmwareComponentNotFound(node=node_name(connection, node_id), name=component)
    return records.build(FirmwareComponent, row)


@session.writes
def create(connection: Connection, given: Mapping[str, Any]) -> None:
    """Store a component.

    :raises FirmwareComponentAlreadyExists: the node has one of that name.
    """
    row = values.for_insert(FirmwareComponent, given)
    with integrity.translated(FirmwareComponent, row):
        connection.execute(sa.insert(_firmware).values(row))


def _update(connection: Connection, node_id: int, component: str, given: Mapping[str, Any]) -> bool:
    statement = sa.update(_firmware).where(
        _firmware.c.node_id == node_id, _firmware.c.component == component
    )
    row = values.for_update(FirmwareComponent, given)
    return connection.execute(statement.values(row)).rowcount == 1


@session.writes_once
def update(connection: Connection, node_id: int, component: str, given: Mapping[str, Any]) -> None:
    """Write columns of a component (1 UPDATE).

    :raises FirmwareComponentNotFound: the node has none of that name.
    """
    if not _update(connection, node_id, component, given):
        raise errors.FirmwareComponentNotFound(node=node_name(connection, node_id), name=component)


def _differs(stored: FirmwareComponent, read: Mapping[str, Any]) -> bool:
    """Whether the hardware reports something else than the record (data-model.md 4.4)."""
    current = read.get("current_version")
    if current != stored.current_version:
        return True
    if stored.last_version_flashed and current != stored.last_version_flashed:
        return True
    return any(name in read and read[name] != getattr(stored, name) for name in _DESCRIBING)


@session.writes
def sync(connection: Connection, node_id: int, components: Iterable[Mapping[str, Any]]) -> Changes:
    """Store what was read from the hardware; components not read are left alone.

    A version that changed becomes ``last_version_flashed`` too, once the component
    is known.

    :param components: mappings of columns: component, current_version and, maybe,
        vendor, model, serial_number.
    """
    present = {found.component: found for found in _all(connection, node_id)}
    changes = Changes([], [], [])
    for read in components:
        name = read["component"]
        stored = present.get(name)
        if stored is None:
            first = read.get("initial_version") or read.get("current_version") or ""
            row = values.for_insert(
                FirmwareComponent, {**read, "node_id": node_id, "initial_version": first}
            )
            with integrity.translated(FirmwareComponent, row):
                connection.execute(sa.insert(_firmware).values(row))
            changes.created.append(name)
        elif _differs(stored, read):
            given = {key: read[key] for key in _DESCRIBING if key in read}
            current = read.get("current_version")
            if current not in (stored.current_version, None) or stored.last_version_flashed:
                given |= {"current_version": current, "last_version_flashed": current}
            _update(connection, node_id, name, given)
            changes.updated.append(name)
        else:
            changes.unchanged.append(name)
    return changes
