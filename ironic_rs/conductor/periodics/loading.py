"""Records of many nodes for shared tasks, a chunk by a statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ironic_rs.db import models, records
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db.listing import Row

#: Nodes whose records are loaded by one statement.
CHUNK = 1000
_COLUMNS = models.Node.__table__.columns.keys()


def load_nodes(rows: Sequence[Row]) -> Iterator[models.Node]:
    """Load the records of rows (with ``id``), in their order, a chunk at a time.

    The records carry no traits: they are for shared tasks that speak to the BMC.
    """
    for start in range(0, len(rows), CHUNK):
        ids = [row["id"] for row in rows[start : start + CHUNK]]
        found = {row["id"]: row for row in db_nodes.select(_COLUMNS, {"id_in": ids})}
        for node_id in ids:
            # A node may have been deleted since the first query.
            if node_id in found:
                yield records.build(models.Node, found[node_id])
