"""Checks of values on their way into a table: the same answer on every database.

SQLite keeps any length, PostgreSQL refuses NUL and what is too long, MySQL cuts
or refuses by its mode; here each refusal is a 400 that names the column.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Integer, Text

from ironic_rs.db.base import Base
from ironic_rs.domain import errors


def _check(table: str, name: str, kind: Any, value: Any) -> None:
    if isinstance(value, str):
        if "\x00" in value:
            raise errors.InvalidParameterValue(err=f"{name} of {table} must not contain NUL.")
        limit = None if isinstance(kind, Text) else getattr(kind, "length", None)
        if limit is not None and len(value) > limit:
            raise errors.InvalidParameterValue(
                err=f"{name} of {table} is longer than {limit} characters."
            )
    elif isinstance(value, int) and isinstance(kind, Integer):
        bits = 63 if isinstance(kind, BigInteger) else 31
        if not -(1 << bits) <= value < 1 << bits:
            raise errors.InvalidParameterValue(err=f"{name} of {table} is out of range: {value}.")


#: Columns of what this service says itself, perhaps with the words of a machine.
_SAID = frozenset({"last_error", "maintenance_reason", "event"})
#: Not storable on every database: NUL, and halves of surrogate pairs.
_UNPRINTABLE = re.compile("[\x00\ud800-\udfff]")


def printable(text: str) -> str:
    """``text`` with a replacement character for what not every database can store.

    For the words of BMCs and agents: an error that can not be recorded as it is must
    not keep its node from failing.
    """
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def checked(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values to write, after a check of each against its column.

    What the service says itself (:func:`printable`) is not refused for its characters.

    :raises InvalidParameterValue: too long, out of range, NUL inside, or no column.
    :raises TypeError: a JSON column given another type (programming error).
    """
    columns = model.__table__.columns
    table = model.__tablename__
    row = dict(values)
    for name, value in values.items():
        column = columns.get(name)
        if column is None:
            raise errors.InvalidParameterValue(err=f"{table} has no column {name!r}.")
        if name in _SAID and value is not None:
            row[name] = printable(value)
        _check(table, name, column.type, row[name])
    return row


def for_insert(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """``checked`` plus a uuid when the table has one, and the object version."""
    row = checked(model, values)
    for name in ("id", "created_at", "updated_at"):
        row.pop(name, None)
    if "uuid" in model.__table__.columns and row.get("uuid") is None:
        row["uuid"] = str(uuid.uuid4())
    row["version"] = model.object_version
    return row


def for_update(model: type[Base], values: Mapping[str, Any]) -> dict[str, Any]:
    """``checked`` plus the object version; ``uuid`` never changes.

    :raises InvalidParameterValue: the values name ``uuid`` or ``id``.
    """
    row = checked(model, values)
    for name in ("uuid", "id"):
        if name in row and name in model.__table__.columns:
            raise errors.InvalidParameterValue(
                err=f"Cannot overwrite {name} of a record in {model.__tablename__}."
            )
    for name in ("created_at", "updated_at"):
        row.pop(name, None)
    if model.object_version is not None:
        row["version"] = model.object_version
    return row


def cut(text: str | None, limit: int) -> str | None:
    """At most ``limit`` characters of ``text`` (0 or less: all of it)."""
    if text is None or limit <= 0:
        return text
    return text[:limit]


_MIDDLE = "\n... text removed ...\n"


def cut_middle(text: str | None, limit: int = 65535) -> str | None:
    """``text`` within ``limit`` UTF-8 bytes: head and tail stay, the middle goes."""
    if text is None:
        return None
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= limit:
        return text
    half = (limit - len(_MIDDLE)) // 2
    head = encoded[:half].decode("utf-8", "ignore")
    tail = encoded[-half:].decode("utf-8", "ignore")
    return head + _MIDDLE + tail
