"""Column types and SQL functions that mean the same on every database."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from sqlalchemy import (
    Boolean,
    ColumnElement,
    DateTime,
    Dialect,
    LargeBinary,
    String,
    Text,
    cast,
    type_coerce,
)
from sqlalchemy.dialects.mysql import LONGTEXT
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

from ironic_rs.db import jsontext


class _Json(TypeDecorator[Any]):
    """JSON in a TEXT column; SQL NULL is read as the empty value and never written.

    :param long: LONGTEXT on MySQL and MariaDB instead of TEXT (64 KiB).
    """

    impl = Text
    cache_ok = True
    python_type_: type
    empty_text: str

    def __init__(self, long: bool = False) -> None:
        super().__init__()
        self.long = long

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return LONGTEXT() if self.long and dialect.name in ("mysql", "mariadb") else Text()

    def process_bind_param(self, value: Any, dialect: Dialect) -> str:
        if value is None:
            return self.empty_text
        if not isinstance(value, self.python_type_):
            raise TypeError(
                f"{type(self).__name__} column takes a {self.python_type_.__name__}, "
                f"not {type(value).__name__}"
            )
        return jsontext.dumps(value)

    def result_processor(
        self, dialect: Dialect, coltype: object
    ) -> Callable[[str | None], dict[str, Any] | list[Any]]:
        # One closure instead of TypeDecorator's chain: this runs for 13 columns
        # of each row of a node list.
        empty, empty_text, loads = self.python_type_, self.empty_text, jsontext.loads

        def process(value: str | None) -> dict[str, Any] | list[Any]:
            if value is None or value == empty_text:
                return empty()
            found = loads(value)
            return empty() if found is None else found

        return process


class JsonDict(_Json):
    """Column that holds a JSON object."""

    cache_ok = True
    python_type_ = dict
    empty_text = "{}"


class JsonList(_Json):
    """Column that holds a JSON array."""

    cache_ok = True
    python_type_ = list
    empty_text = "[]"


class UtcDateTime(TypeDecorator[datetime.datetime]):
    """Aware UTC datetime; stored naive.

    MySQL and MariaDB store whole seconds: the fraction is cut, as their servers
    differ in whether they round.
    """

    impl = DateTime
    cache_ok = True

    def process_bind_param(
        self, value: datetime.datetime | None, dialect: Dialect
    ) -> datetime.datetime | None:
        if value is None:
            return None
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        if dialect.name in ("mysql", "mariadb"):
            value = value.replace(microsecond=0)
        return value

    def process_result_value(
        self, value: datetime.datetime | None, dialect: Dialect
    ) -> datetime.datetime | None:
        return None if value is None else value.replace(tzinfo=datetime.UTC)


class utcnow(FunctionElement[datetime.datetime]):
    """Now, in UTC, by the clock of the database (W43), as :class:`UtcDateTime`."""

    type = UtcDateTime()
    inherit_cache = True


class seconds_ago(FunctionElement[datetime.datetime]):
    """``seconds_ago(n)``: n seconds before :class:`utcnow`."""

    type = UtcDateTime()
    inherit_cache = True


class json_strings(FunctionElement[str]):
    """Aggregate of a string column as the text of a JSON array (NULL for no rows)."""

    type = String()
    inherit_cache = True


# SQLite stores datetimes as text with six digits of fraction; its clock gives three.
_SQLITE_FORMAT = "%Y-%m-%d %H:%M:%f"


@compiles(utcnow, "sqlite")
def _utcnow_sqlite(element: utcnow, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(strftime('{_SQLITE_FORMAT}', 'now') || '000')"


@compiles(utcnow, "mysql")
@compiles(utcnow, "mariadb")
def _utcnow_mysql(element: utcnow, compiler: SQLCompiler, **kw: Any) -> str:
    return "UTC_TIMESTAMP()"


@compiles(utcnow, "postgresql")
def _utcnow_postgresql(element: utcnow, compiler: SQLCompiler, **kw: Any) -> str:
    return "timezone('utc', statement_timestamp())"


@compiles(seconds_ago, "sqlite")
def _ago_sqlite(element: seconds_ago, compiler: SQLCompiler, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"(strftime('{_SQLITE_FORMAT}', 'now', -({seconds}) || ' seconds') || '000')"


@compiles(seconds_ago, "mysql")
@compiles(seconds_ago, "mariadb")
def _ago_mysql(element: seconds_ago, compiler: SQLCompiler, **kw: Any) -> str:
    return f"(UTC_TIMESTAMP() - INTERVAL {compiler.process(element.clauses, **kw)} SECOND)"


@compiles(seconds_ago, "postgresql")
def _ago_postgresql(element: seconds_ago, compiler: SQLCompiler, **kw: Any) -> str:
    seconds = compiler.process(element.clauses, **kw)
    return f"(timezone('utc', statement_timestamp()) - {seconds} * interval '1 second')"


@compiles(json_strings, "sqlite")
def _strings_sqlite(element: json_strings, compiler: SQLCompiler, **kw: Any) -> str:
    return f"json_group_array({compiler.process(element.clauses, **kw)})"


@compiles(json_strings, "mysql")
@compiles(json_strings, "mariadb")
def _strings_mysql(element: json_strings, compiler: SQLCompiler, **kw: Any) -> str:
    return f"JSON_ARRAYAGG({compiler.process(element.clauses, **kw)})"


@compiles(json_strings, "postgresql")
def _strings_postgresql(element: json_strings, compiler: SQLCompiler, **kw: Any) -> str:
    return f"CAST(json_agg({compiler.process(element.clauses, **kw)}) AS TEXT)"


class Exactly(FunctionElement[bool]):
    """A comparison of text that heeds case and trailing blanks on every database.

    The collations of MySQL and MariaDB take ``a`` for ``A`` and for ``a`` with a blank.
    There the bytes are compared as well, of the rows that an index has found.

    :param column: a column of text.
    :param compare: makes the comparison of a column.
    """

    inherit_cache = True
    type = Boolean()

    def __init__(
        self,
        column: ColumnElement[Any],
        compare: Callable[[ColumnElement[Any]], ColumnElement[bool]],
    ) -> None:
        as_bytes: ColumnElement[Any] = type_coerce(cast(column, LargeBinary()), String())
        super().__init__(compare(column), compare(as_bytes))


@compiles(Exactly)
def _exactly(element: Exactly, compiler: SQLCompiler, **kw: Any) -> str:
    plain, _ = element.clauses
    return str(compiler.process(plain, **kw))


@compiles(Exactly, "mysql")
@compiles(Exactly, "mariadb")
def _exactly_by_bytes(element: Exactly, compiler: SQLCompiler, **kw: Any) -> str:
    plain, by_bytes = element.clauses
    return f"({compiler.process(plain, **kw)} AND {compiler.process(by_bytes, **kw)})"


def is_text(column: ColumnElement[Any], value: str) -> ColumnElement[bool]:
    """Return ``column = value``, exactly."""
    return Exactly(column, lambda one: one == value)
