"""Inventory of nodes: what the last inspection found."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from ironic_rs.db import integrity, models, records, session, values
from ironic_rs.db.base import table
from ironic_rs.db.resource import node_name
from ironic_rs.domain import errors

NodeInventory = models.NodeInventory

_inventory = table(NodeInventory)


@session.reads
def get(connection: Connection, node_id: int) -> NodeInventory:
    """The newest inventory of a node.

    :raises NodeInventoryNotFound: never inspected.
    """
    newest = (
        sa.select(_inventory)
        .where(_inventory.c.node_id == node_id)
        .order_by(_inventory.c.id.desc())
        .limit(1)
    )
    row = connection.execute(newest).mappings().one_or_none()
    if row is None:
        raise errors.NodeInventoryNotFound(node=node_name(connection, node_id))
    return records.build(NodeInventory, row)


@session.writes
def store(
    connection: Connection,
    node_id: int,
    inventory_data: dict[str, Any],
    plugin_data: dict[str, Any],
) -> None:
    """Replace the inventory of a node."""
    row = values.for_insert(
        NodeInventory,
        {"node_id": node_id, "inventory_data": inventory_data, "plugin_data": plugin_data},
    )
    connection.execute(sa.delete(_inventory).where(_inventory.c.node_id == node_id))
    with integrity.translated(NodeInventory, row):
        connection.execute(sa.insert(_inventory).values(row))


@session.writes
def destroy(connection: Connection, node_id: int) -> None:
    """Delete the inventory of a node.

    :raises NodeInventoryNotFound: it has none.
    """
    gone = sa.delete(_inventory).where(_inventory.c.node_id == node_id)
    if connection.execute(gone).rowcount == 0:
        raise errors.NodeInventoryNotFound(node=node_name(connection, node_id))
