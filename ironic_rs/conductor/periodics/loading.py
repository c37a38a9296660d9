"""Records of many nodes for shared tasks, a chunk by a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ironic_rs.db import models, records
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors
from ironic_rs.drivers.base import INTERFACE_TYPES

#: Nodes whose records are loaded by one statement.
CHUNK = 1000

#: What is needed to ask a BMC about its machine, and to see whether the answer is news.
#: What else a driver reads of a node is loaded then.
COLUMNS = (
    "id",
    "uuid",
    "name",
    "driver",
    "conductor_group",
    *(f"{kind}_interface" for kind in INTERFACE_TYPES),
    "driver_info",
    "driver_internal_info",
    "instance_info",
    "properties",
    "instance_uuid",
    "provision_state",
    "power_state",
    "target_power_state",
    "maintenance",
    "fault",
    "last_error",
    "health",
    "boot_mode",
    "secure_boot",
    "disable_power_off",
)


def load_nodes(rows: Sequence[Row]) -> Iterator[models.Node]:
    """Load the records of rows (with ``id``), in their order, a chunk at a time.

    The records are for shared tasks that speak to the BMC: they carry no traits and
    are never saved.
    """
    for start in range(0, len(rows), CHUNK):
        ids = [row["id"] for row in rows[start : start + CHUNK]]
        found = {row["id"]: row for row in db_nodes.select(COLUMNS, {"id_in": ids})}
        for node_id in ids:
            # A node may have been deleted since the first query.
            if node_id in found:
                yield records.build_view(models.Node, found.pop(node_id), _rest)


def _rest(node: models.Node, columns: Sequence[str]) -> Row:
    """Load what is missing of a node.

    :raises NodeNotFound: it was deleted meanwhile.
    """
    rows = db_nodes.select(columns, {"id": node.id})
    if not rows:
        raise errors.NodeNotFound(node=node.uuid)
    return rows[0]
