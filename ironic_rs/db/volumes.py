"""Volume connectors (initiators) and volume targets (remote volumes) of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.db.listing import Listing, equals
from ironic_rs.db.resource import Resource, node_filters, node_uuid_of
from ironic_rs.domain import errors

VolumeConnector = models.VolumeConnector
VolumeTarget = models.VolumeTarget

_connector_rows = table(VolumeConnector)
_target_rows = table(VolumeTarget)

CONNECTORS = Listing(
    VolumeConnector,
    missing=lambda ident: errors.VolumeConnectorNotFound(connector=ident),
    derived={"node_uuid": node_uuid_of(VolumeConnector)},
    filters={**node_filters(VolumeConnector), "uuid": equals(_connector_rows.c.uuid)},
)
TARGETS = Listing(
    VolumeTarget,
    missing=lambda ident: errors.VolumeTargetNotFound(target=ident),
    derived={"node_uuid": node_uuid_of(VolumeTarget)},
    filters={
        **node_filters(VolumeTarget),
        "uuid": equals(_target_rows.c.uuid),
        "volume_id": equals(_target_rows.c.volume_id),
    },
)
select_connectors = CONNECTORS.select
select_targets = TARGETS.select
_connectors = Resource(VolumeConnector, CONNECTORS)
_targets = Resource(VolumeTarget, TARGETS)


@session.reads
def get_connector(connection: Connection, ident: int | str) -> VolumeConnector:
    """Connector by its integer id or uuid.

    :raises InvalidIdentity, VolumeConnectorNotFound: as named.
    """
    return _connectors.one(connection, _connectors.where(ident), ident)


@session.reads
def connectors_of_node(connection: Connection, node_id: int) -> list[VolumeConnector]:
    """Connectors of a node, in order of creation."""
    return _connectors.all(connection, _connector_rows.c.node_id == node_id)


@session.writes
def create_connector(connection: Connection, given: Mapping[str, Any]) -> VolumeConnector:
    """Store a connector.

    :raises VolumeConnectorTypeAndIdAlreadyExists, VolumeConnectorAlreadyExists: not unique.
    """
    return _connectors.insert(connection, given)


@session.writes_once
def update_connector(
    connection: Connection,
    connector: VolumeConnector | int | str,
    given: Mapping[str, Any],
    *,
    fence: str | None = None,
) -> None:
    """Write columns of a connector (1 UPDATE).

    :raises VolumeConnectorNotFound, LockLost, VolumeConnectorTypeAndIdAlreadyExists:
        as named.
    """
    _connectors.update(connection, connector, given, fence)


@session.writes
def destroy_connector(
    connection: Connection, connector: VolumeConnector | int | str, fence: str | None = None
) -> None:
    """Delete a connector.

    :raises VolumeConnectorNotFound, LockLost: as named.
    """
    _connectors.delete(connection, connector, fence)


@session.reads
def get_target(connection: Connection, ident: int | str) -> VolumeTarget:
    """Target by its integer id or uuid.

    :raises InvalidIdentity, VolumeTargetNotFound: as named.
    """
    return _targets.one(connection, _targets.where(ident), ident)


@session.reads
def targets_of_node(connection: Connection, node_id: int) -> list[VolumeTarget]:
    """Targets of a node, in order of creation."""
    return _targets.all(connection, _target_rows.c.node_id == node_id)


@session.writes
def create_target(connection: Connection, given: Mapping[str, Any]) -> VolumeTarget:
    """Store a target.

    :raises VolumeTargetBootIndexAlreadyExists, VolumeTargetAlreadyExists: not unique.
    """
    return _targets.insert(connection, given)


@session.writes_once
def update_target(
    connection: Connection,
    target: VolumeTarget | int | str,
    given: Mapping[str, Any],
    *,
    fence: str | None = None,
) -> None:
    """Write columns of a target (1 UPDATE).

    :raises VolumeTargetNotFound, LockLost, VolumeTargetBootIndexAlreadyExists: as named.
    """
    _targets.update(connection, target, given, fence)


@session.writes
def destroy_target(
    connection: Connection, target: VolumeTarget | int | str, fence: str | None = None
) -> None:
    """Delete a target.

    :raises VolumeTargetNotFound, LockLost: as named.
    """
    _targets.delete(connection, target, fence)
