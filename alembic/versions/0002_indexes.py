"""Indexes that upstream's schema lacks and that hot queries need.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa

from alembic import op

revision = "0002"
down_revision = "0001"

INDEXES = {
    "allocations": [("node_id",), ("state", "conductor_affinity")],
    "node_history": [("node_id", "created_at")],
    "nodes": [
        ("provision_state", "provision_updated_at"),
        ("conductor_affinity",),
        ("allocation_id",),
        ("chassis_id",),
    ],
    "portgroups": [("node_id",)],
    "ports": [("node_id",), ("portgroup_id",)],
    "volume_connectors": [("node_id",)],
    "volume_targets": [("node_id",)],
}


def upgrade() -> None:
    for table, indexes in INDEXES.items():
        present = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}
        for columns in indexes:
            name = f"ix_{table}_{'_'.join(columns)}"
            if name not in present:
                op.create_index(name, table, list(columns))
