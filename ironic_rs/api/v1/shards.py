"""Shards: how many nodes are in which.

Source: specification rest-api.md section 11.6.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api.call import Call
from ironic_rs.db import nodes as db_nodes


def list_shards(call: Call) -> dict[str, Any]:
    """GET /v1/shards."""
    call.authorize()
    # Nodes of no shard have always been counted under this text.
    return {
        "shards": [
            {"name": "None" if name is None else name, "count": count}
            for name, count in db_nodes.shard_counts()
        ]
    }
