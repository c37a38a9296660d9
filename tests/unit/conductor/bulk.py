"""Many nodes at once."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from ironic_rs.db import models, session


def insert_nodes(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Insert nodes by one statement; return their uuids."""
    full = [{"uuid": str(uuid.uuid4()), **row} for row in rows]
    with session.writer() as connection:
        connection.execute(sa.insert(models.Node), full)
    return [row["uuid"] for row in full]
