"""What the query modules of the smaller resources share: one record at a time.

Every function here runs inside the session of its caller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection

from ironic_rs.db import integrity, models, records, revision, values
from ironic_rs.db.base import Base, table
from ironic_rs.db.listing import Listing, identity
from ironic_rs.domain import errors

RecordT = TypeVar("RecordT", bound=Base)
Change = Callable[[RecordT], Mapping[str, Any]]
"""From a record to the columns of it that are to be written."""

_nodes = table(models.Node)


@dataclasses.dataclass(frozen=True)
class Resource(Generic[RecordT]):
    """Reads and writes of one kind of record.

    :param listing: also names the model and its NotFound error.
    :param attached: derived names of the listing that become attributes.
    """

    model: type[RecordT]
    listing: Listing
    attached: tuple[str, ...] = ()

    def all(
        self, connection: Connection, *where: ColumnElement[bool], limit: int | None = None
    ) -> list[RecordT]:
        """Records in order of their creation (1 statement)."""
        rows = table(self.model)
        derived = [self.listing.derived[name].label(name) for name in self.attached]
        query = sa.select(rows, *derived).where(*where).limit(limit)
        query = query.order_by(*rows.primary_key.columns)
        return [
            records.build(self.model, row, **{name: row[name] for name in self.attached})
            for row in connection.execute(query).mappings()
        ]

    def one(self, connection: Connection, where: ColumnElement[bool], ident: Any) -> RecordT:
        """The record, or the resource's NotFound error about ``ident``."""
        found = self.all(connection, where, limit=1)
        if not found:
            raise self.listing.missing(ident)
        return found[0]

    def insert(self, connection: Connection, given: Mapping[str, Any]) -> RecordT:
        """Store a record and read it back."""
        row = values.for_insert(self.model, given)
        rows = table(self.model)
        integrity.refuse_other_case(connection, self.model, row)
        with integrity.translated(self.model, row):
            connection.execute(sa.insert(rows).values(row))
        return self.one(connection, rows.c.uuid == row["uuid"], row["uuid"])

    def update(
        self,
        connection: Connection,
        target: RecordT | int | str,
        given: Mapping[str, Any],
        fence: str | None = None,
    ) -> None:
        """Write columns of one record (1 UPDATE).

        :param target: record, integer id or uuid.
        :param fence: hostname that must hold the node the record belongs to.
        :raises LockLost: it does not.
        """
        if not given:
            return
        row = values.for_update(self.model, given)
        where = self.where(target)
        integrity.refuse_other_case(connection, self.model, row, where)
        statement = sa.update(table(self.model)).where(where, *self._fenced(fence)).values(row)
        known = {"uuid": getattr(target, "uuid", target), **row}
        with integrity.translated(self.model, known):
            if connection.execute(statement).rowcount == 0:
                raise self._not_written(connection, where, target, fence)

    def lock(self, connection: Connection, target: RecordT | int | str) -> int:
        """Take the row until the end of the transaction and return its integer id.

        :raises NotFound: the resource's own.
        """
        query = sa.select(table(self.model).c.id).where(self.where(target)).with_for_update()
        found = connection.execute(query).scalar_one_or_none()
        if found is None:
            raise self.listing.missing(getattr(target, "uuid", target))
        return int(found)

    def touch(self, connection: Connection, record_id: int) -> None:
        """Move ``updated_at``: something changed that belongs to the record."""
        rows = table(self.model)
        connection.execute(sa.update(rows).where(rows.c.id == record_id).values(id=rows.c.id))

    def change(
        self, connection: Connection, target: RecordT | int | str, make: Change[RecordT]
    ) -> RecordT:
        """Change a record by what it is under the lock of its row.

        :param make: gets the record as it is then, returns the columns to write; may
            be called again after a deadlock.
        :returns: the record as stored.
        """
        record_id = self.lock(connection, target)
        where = table(self.model).c.id == record_id
        record = self.one(connection, where, record_id)
        given = make(record)
        if not given:
            return record
        self.update(connection, record_id, given)
        return self.one(connection, where, record_id)

    def require(
        self, connection: Connection, ident: int | str, if_match: Iterable[str] | None
    ) -> None:
        """Look at the condition of a deletion in the same transaction (2 statements with one).

        :raises PreconditionFailed: the record has none of the revisions.
        """
        if if_match is not None:
            where = table(self.model).c.id == self.lock(connection, ident)
            revision.require(self.one(connection, where, ident), if_match)

    def delete(
        self, connection: Connection, target: RecordT | int | str, fence: str | None = None
    ) -> None:
        """Delete one record (1 DELETE); parameters and errors as of :meth:`update`."""
        where = self.where(target)
        statement = sa.delete(table(self.model)).where(where, *self._fenced(fence))
        with integrity.translated(self.model, {}):
            if connection.execute(statement).rowcount == 0:
                raise self._not_written(connection, where, target, fence)

    def where(self, target: RecordT | int | str) -> ColumnElement[bool]:
        """Condition that selects a record, integer id or uuid."""
        if isinstance(target, Base):
            return cast(ColumnElement[bool], table(self.model).c.id == target.__dict__["id"])
        return identity(self.model, target)

    def _fenced(self, fence: str | None) -> list[ColumnElement[bool]]:
        if fence is None:
            return []
        held = sa.select(_nodes.c.id).where(_nodes.c.reservation == fence)
        return [table(self.model).c.node_id.in_(held)]

    def _not_written(
        self,
        connection: Connection,
        where: ColumnElement[bool],
        target: RecordT | int | str,
        fence: str | None,
    ) -> errors.IronicError:
        rows = table(self.model)
        if fence is not None and "node_id" in rows.c:
            found = connection.execute(
                sa.select(_nodes.c.uuid, _nodes.c.reservation)
                .select_from(rows.join(_nodes, _nodes.c.id == rows.c.node_id))
                .where(where)
            ).one_or_none()
            if found is not None:
                return errors.LockLost(
                    host=fence, node=found.uuid, reason=f"it is held by {found.reservation}"
                )
        return self.listing.missing(getattr(target, "uuid", target))


def node_name(connection: Connection, node_id: int) -> str:
    """Uuid of a node for a message; its integer id when it is gone."""
    query = sa.select(_nodes.c.uuid).where(_nodes.c.id == node_id)
    return str(connection.execute(query).scalar() or node_id)


def node_uuid_of(model: type[Base]) -> ColumnElement[str]:
    """SQL of the uuid of the node that a row belongs to."""
    rows = table(model)
    return sa.select(_nodes.c.uuid).where(_nodes.c.id == rows.c.node_id).scalar_subquery()


def node_filters(model: type[Base]) -> dict[str, Any]:
    """Filters of the children of nodes, by what their nodes are."""
    node_id = table(model).c.node_id

    def of_nodes(*where: ColumnElement[bool]) -> ColumnElement[bool]:
        return node_id.in_(sa.select(_nodes.c.id).where(*where))

    return {
        "node_id": lambda value: node_id == value,
        "node_id_in": lambda ids: node_id.in_(list(ids)),
        "node_uuid": lambda uuid: of_nodes(_nodes.c.uuid == uuid),
        "owner": lambda owner: of_nodes(_nodes.c.owner == owner),
        "project": lambda project: of_nodes(
            sa.or_(_nodes.c.owner == project, _nodes.c.lessee == project)
        ),
        "shard_in": lambda shards: of_nodes(_nodes.c.shard.in_(list(shards))),
        "conductor_groups": lambda groups: of_nodes(_nodes.c.conductor_group.in_(list(groups))),
    }
