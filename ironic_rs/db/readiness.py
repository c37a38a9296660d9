"""What a database looks like before an upgrade; it may be of another release.

So nothing here takes a table or a column for granted.  Source: specification
operations.md section 2 (upgrade checks).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from ironic_rs.db import models, session
from ironic_rs.db.base import Base, table
from ironic_rs.domain import errors

#: Columns of nodes that the services look nodes up by.
_LOOKED_UP_BY = (
    "reservation",
    "driver",
    "provision_state",
    "conductor_group",
    "resource_class",
    "owner",
    "lessee",
)

_nodes = table(models.Node)
_DRIVER_COLUMNS = (
    "driver",
    *(column.name for column in _nodes.c if column.name.endswith("_interface")),
)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """A driver, and one of its interfaces or nothing, as nodes have them."""

    driver: str | None
    field: str = "driver"
    """Column: ``driver`` or ``<type>_interface``."""
    value: str | None = None
    """Content of that column."""


def _node_columns(connection: Connection, *wanted: str) -> list[str]:
    """Those of the wanted columns of nodes that are there.

    :raises DatabaseVersionTooOld: there is no table of nodes.
    """
    inspector = sa.inspect(connection)
    if not inspector.has_table(_nodes.name):
        raise errors.DatabaseVersionTooOld()
    present = {column["name"] for column in inspector.get_columns(_nodes.name)}
    return [name for name in wanted if name in present]


@session.reads
def unindexed(connection: Connection) -> list[str]:
    """Columns that nodes are looked up by and that no index begins with.

    :raises DatabaseVersionTooOld: there is no table of nodes.
    """
    present = _node_columns(connection, *_LOOKED_UP_BY)
    indexes = sa.inspect(connection).get_indexes(_nodes.name)
    indexed = {index["column_names"][0] for index in indexes}
    return [name for name in present if name not in indexed]


@session.reads
def badly_encoded(connection: Connection) -> list[str]:
    """Tables of MySQL and MariaDB that are not utf8mb4 or not InnoDB; else nothing."""
    if connection.dialect.name not in ("mysql", "mariadb"):
        return []
    tables = sa.table(
        "tables",
        sa.column("table_name"),
        sa.column("table_schema"),
        sa.column("table_collation"),
        sa.column("engine"),
        schema="information_schema",
    )
    query = sa.select(tables.c.table_name).where(
        tables.c.table_schema == sa.func.database(),
        tables.c.table_name.in_(sorted(Base.metadata.tables)),
        sa.or_(
            tables.c.table_collation.not_like("utf8mb4%"),
            sa.func.lower(tables.c.engine) != "innodb",
        ),
    )
    return sorted(connection.execute(query).scalars())


@session.reads
def drivers_in_use(connection: Connection) -> list[dict[str, str | None]]:
    """The distinct drivers with their interfaces: {column of nodes: content}.

    :raises DatabaseVersionTooOld: there is no table of nodes.
    """
    columns = _node_columns(connection, *_DRIVER_COLUMNS)
    query = sa.select(*(_nodes.c[name] for name in columns)).distinct()
    return [dict(row) for row in connection.execute(query).mappings()]


@session.reads
def nodes_with(
    connection: Connection, choices: Sequence[Chosen], most: int
) -> dict[Chosen, tuple[int, list[str]]]:
    """How many nodes have each of ``choices``, and the first ``most`` UUIDs by age.

    Two statements for each of the choices, of which there are few.
    """
    found = {}
    for choice in choices:
        where = [_nodes.c.driver == choice.driver]
        if choice.field != "driver":
            where.append(_nodes.c[choice.field] == choice.value)
        count = sa.select(sa.func.count()).select_from(_nodes).where(*where)
        first = sa.select(_nodes.c.uuid).where(*where).order_by(_nodes.c.id).limit(most)
        found[choice] = (
            connection.execute(count).scalar_one(),
            list(connection.execute(first).scalars()),
        )
    return found


@session.reads
def children_of_other_owners(connection: Connection) -> list[str]:
    """UUIDs of nodes whose owner is not that of their parent.

    :raises DatabaseVersionTooOld: there is no table of nodes.
    """
    if len(_node_columns(connection, "parent_node", "owner")) < 2:
        return []
    parents = _nodes.alias()
    query = (
        sa.select(_nodes.c.uuid)
        .join(parents, parents.c.uuid == _nodes.c.parent_node)
        .where(_nodes.c.owner.is_distinct_from(parents.c.owner))
        .order_by(_nodes.c.id)
    )
    return list(connection.execute(query).scalars())
