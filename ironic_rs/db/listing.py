"""Lists of rows: wanted columns only, filtered, sorted and cut into pages.

NULL sorts before every value on all three databases, and a page never loses or
repeats a row because of it (upstream does, data-model.md section 4.3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from oslo_utils import strutils, uuidutils
from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    RowMapping,
    Select,
    String,
    Text,
    and_,
    literal,
    or_,
    select,
    type_coerce,
)

from ironic_rs.db import session
from ironic_rs.db.base import Base, table
from ironic_rs.db.types import Exactly, JsonDict, JsonList, UtcDateTime, is_text
from ironic_rs.domain import errors

Filter = Callable[[Any], ColumnElement[bool]]

#: Clients may ask for any set of fields.
_KEPT_SELECTS = 256

Row = RowMapping
"""A row as other rooms see it: values by column name."""


@dataclasses.dataclass(frozen=True)
class Listing:
    """How records of one kind are listed.

    :param missing: makes the NotFound error of an identity.
    :param derived: names that are no columns, with their SQL.
    :param filters: condition of each filter name, from its value.
    :param marker: column that names the last row of the page before.
    """

    model: type[Base]
    missing: Callable[[Any], errors.IronicError]
    derived: Mapping[str, ColumnElement[Any]] = dataclasses.field(default_factory=dict)
    filters: Mapping[str, Filter] = dataclasses.field(default_factory=dict)
    marker: str = "uuid"
    _selects: dict[tuple[tuple[str, ...], frozenset[str]], Select[tuple[Any, ...]]] = (
        dataclasses.field(default_factory=dict, repr=False, compare=False)
    )

    def column(self, name: str) -> ColumnElement[Any] | None:
        """SQL of a column or derived name; None for an unknown one."""
        found: ColumnElement[Any] | None = table(self.model).c.get(name)
        return self.derived.get(name) if found is None else found

    def where(self, filters: Mapping[str, Any] | None) -> list[ColumnElement[bool]]:
        """Conditions of the filters.

        :raises ValueError: no such filter (programming error).
        """
        conditions = []
        for name, value in (filters or {}).items():
            make = self.filters.get(name)
            if make is None:
                raise ValueError(f"{self.model.__tablename__} have no filter {name!r}")
            conditions.append(make(value))
        return conditions

    def select(
        self,
        columns: Iterable[str],
        filters: Mapping[str, Any] | None = None,
        *,
        limit: int | None = None,
        marker: str | None = None,
        sort_key: str = "id",
        sort_dir: str = "asc",
        stored: Collection[str] = (),
    ) -> Sequence[RowMapping]:
        """One page of rows, in a session of its own (1 statement, 2 with a marker).

        :param columns: names of columns and derived ones.
        :param filters: name to value; all must hold (data-model.md section 4.3).
        :param limit: most rows to return; None for all.
        :param marker: identity of the last row of the page before.
        :param stored: columns to return as they are stored: JSON as text (or None),
            times as naive datetimes in UTC.
        :raises NotFound: the resource's own, when the marker does not exist.
        :raises InvalidParameterValue: unknown sort key or direction.
        :raises ValueError: unknown column or filter (programming error).
        """
        where = self.where(filters)
        # Whoever is limited to a project must not learn where rows of others stand.
        project = (filters or {}).get("project")
        seen = self.where({"project": project}) if project is not None else []

        @session.reads
        def read(connection: Connection) -> Sequence[RowMapping]:
            return self.page(
                connection,
                columns,
                where,
                limit=limit,
                marker=marker,
                sort_key=sort_key,
                sort_dir=sort_dir,
                marker_where=seen,
                stored=stored,
            )

        return read()

    def page(
        self,
        connection: Connection,
        columns: Iterable[str],
        where: Sequence[ColumnElement[bool]] = (),
        *,
        limit: int | None = None,
        marker: str | None = None,
        sort_key: str = "id",
        sort_dir: str = "asc",
        marker_where: Sequence[ColumnElement[bool]] = (),
        stored: Collection[str] = (),
    ) -> Sequence[RowMapping]:
        """:meth:`select` inside a session that is open already.

        :param marker_where: what the row of the marker must be besides being there.
        """
        rows = table(self.model)
        statement = self._selecting(tuple(columns), stored).where(*where)

        if sort_dir not in ("asc", "desc"):
            raise errors.InvalidParameterValue(
                err=f"Invalid sort direction: {sort_dir}. Acceptable values are 'asc' or 'desc'."
            )
        ascending = sort_dir == "asc"
        key = self._sort_column(sort_key)
        if marker is not None:
            last = self._row(connection, key, marker, marker_where)
            statement = statement.where(self._after(key, last, ascending))
        for column in (key, rows.c.id):
            order = column.asc() if ascending else column.desc()
            if column is not rows.c.id and connection.dialect.name == "postgresql":
                order = order.nulls_first() if ascending else order.nulls_last()
            statement = statement.order_by(order)
            if key is rows.c.id:
                break
        if limit is not None:
            statement = statement.limit(limit)
        return connection.execute(statement).mappings().all()

    def _selecting(
        self, columns: tuple[str, ...], stored: Collection[str]
    ) -> Select[tuple[Any, ...]]:
        # Kept: to put sixty columns together takes longer than to read them.
        key = columns, frozenset(stored)
        known = self._selects.get(key)
        if known is not None:
            return known
        wanted = []
        for name in columns:
            column = self.column(name)
            if column is None:
                raise ValueError(f"{self.model.__tablename__} have no column {name!r}")
            wanted.append((_as_stored(column) if name in stored else column).label(name))
        if len(self._selects) >= _KEPT_SELECTS:
            self._selects.clear()
        made = self._selects[key] = select(*wanted).select_from(table(self.model))
        return made

    def _sort_column(self, name: str) -> ColumnElement[Any]:
        column = self.column(name)
        if column is None:
            raise errors.InvalidParameterValue(
                err=f'The sort_key value "{name}" is an invalid field for sorting'
            )
        if isinstance(column.type, JsonDict | JsonList):
            # Compared as stored: decoding and encoding may give another text.
            return type_coerce(column, Text())
        return column

    def _row(
        self,
        connection: Connection,
        key: ColumnElement[Any],
        marker: str,
        where: Sequence[ColumnElement[bool]],
    ) -> tuple[Any, int]:
        rows = table(self.model)
        found = connection.execute(
            select(key.label("sort_value"), rows.c.id).where(rows.c[self.marker] == marker, *where)
        ).one_or_none()
        if found is None:
            raise self.missing(marker)
        value, last_id = found
        return value, last_id

    def _after(
        self, key: ColumnElement[Any], last: tuple[Any, int], ascending: bool
    ) -> ColumnElement[bool]:
        rows = table(self.model)
        value, last_id = last
        beyond = rows.c.id > last_id if ascending else rows.c.id < last_id
        if key is rows.c.id:
            return beyond
        if value is None:
            same = and_(key.is_(None), beyond)
            return or_(key.is_not(None), same) if ascending else same
        known = literal(value, key.type)
        same = and_(key == known, beyond)
        return or_(key > known, same) if ascending else or_(key < known, key.is_(None), same)


def _as_stored(column: ColumnElement[Any]) -> ColumnElement[Any]:
    if isinstance(column.type, JsonDict | JsonList):
        return type_coerce(column, Text())
    if isinstance(column.type, UtcDateTime):
        return type_coerce(column, DateTime())
    return column


def identity(model: type[Base], ident: int | str) -> ColumnElement[bool]:
    """Condition that selects a record by its integer id or its uuid.

    :raises InvalidIdentity: neither of them.
    """
    columns = table(model).c
    if isinstance(ident, int):
        return columns.id == ident
    if strutils.is_int_like(ident):
        return columns.id == int(ident)
    if uuidutils.is_uuid_like(ident):
        return columns.uuid == str(ident)
    raise errors.InvalidIdentity(identity=ident)


def equals(column: ColumnElement[Any]) -> Filter:
    """Filter ``column = value``; text is compared exactly."""
    if not _is_short_text(column):
        return lambda value: column == value if value is not None else column.is_(None)
    return lambda value: is_text(column, value) if value is not None else column.is_(None)


def is_in(column: ColumnElement[Any]) -> Filter:
    """Filter ``column IN values``; text is compared exactly."""
    if not _is_short_text(column):
        return lambda values: column.in_(list(values))

    def make(values: Iterable[str]) -> ColumnElement[bool]:
        wanted = list(values)
        return Exactly(column, lambda one: one.in_(wanted))

    return make


def _is_short_text(column: ColumnElement[Any]) -> bool:
    return isinstance(column.type, String) and not isinstance(column.type, Text)


def is_set(column: ColumnElement[Any]) -> Filter:
    """Filter ``column IS [NOT] NULL`` for true and false."""
    return lambda wanted: column.is_not(None) if wanted else column.is_(None)


def contains(column: ColumnElement[Any]) -> Filter:
    """Filter ``column LIKE %text%``; ``%`` and ``_`` of the text are wildcards, as ever."""
    return lambda text: column.like(f"%{text}%")
