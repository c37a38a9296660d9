"""Records as plain objects: made from rows, compared with what was loaded.

A record remembers the column values it was loaded with, JSON columns by value, so
that a save can name just the columns that changed (also by change in place).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from sqlalchemy import RowMapping
from sqlalchemy.orm.attributes import instance_state
from sqlalchemy.orm.base import LoaderCallableStatus
from sqlalchemy.orm.instrumentation import manager_of_class
from sqlalchemy.orm.state import InstanceState

from ironic_rs.db import jsontext
from ironic_rs.db.base import Base, table
from ironic_rs.db.types import JsonDict, JsonList

RecordT = TypeVar("RecordT", bound=Base)

_SNAPSHOT = "_loaded"


@functools.cache
def _columns(model: type[Base]) -> tuple[str, ...]:
    return tuple(table(model).c.keys())


@functools.cache
def _json_columns(model: type[Base]) -> frozenset[str]:
    return frozenset(c.name for c in table(model).c if isinstance(c.type, JsonDict | JsonList))


def _frozen(value: Any) -> str:
    return jsontext.canonical(value) if value else ""


def build(model: type[RecordT], row: Mapping[str, Any] | RowMapping, **attached: Any) -> RecordT:
    """Make a clean record of ``model`` from a row that has all its columns.

    :param row: column name to value; names that are no columns are left out.
    :param attached: attributes that are no columns (``traits``, ``node_uuid``).
    """
    record: RecordT = manager_of_class(model).new_instance()
    values = record.__dict__
    for column in _columns(model):
        values[column] = row[column]
    for name, make in model.attached:
        values[name] = attached[name] if name in attached else make()
    mark_clean(record)
    return record


def build_view(
    model: type[RecordT],
    row: Mapping[str, Any] | RowMapping,
    load: Callable[[RecordT, Sequence[str]], Mapping[Any, Any]],
) -> RecordT:
    """Make a record that is only to be read, from a row that has some of its columns.

    The others are there as well: the first use of one of them loads all.  What nobody
    uses is neither sent by the database nor decoded, and nothing is kept to compare
    later values with.

    :param row: column name to value, with what ``load`` needs.
    :param load: ``load(record, columns)`` returns the columns that are missing.
    """
    record: RecordT = manager_of_class(model).new_instance()
    values = record.__dict__
    values.update(row)
    for name, make in model.attached:
        values[name] = make()
    instance_state(record).callables = _loaders(model, load)
    return record


@functools.cache
def _loaders(
    model: type[Base], load: Callable[[Any, Sequence[str]], Mapping[Any, Any]]
) -> dict[str, Callable[..., LoaderCallableStatus]]:
    """Return what SQLAlchemy calls for an attribute without a value, by its name."""

    def rest(state: InstanceState[Any], passive: object) -> LoaderCallableStatus:
        record = state.obj()
        missing = [name for name in _columns(model) if name not in record.__dict__]
        record.__dict__.update(load(record, missing))
        return LoaderCallableStatus.ATTR_WAS_SET

    return dict.fromkeys(_columns(model), rest)


def mark_clean(record: Base, names: Iterable[str] | None = None) -> None:
    """Take the present values as the stored ones (of ``names``, or of all columns)."""
    model = type(record)
    json_names = _json_columns(model)
    values = record.__dict__
    loaded: dict[str, Any] = values.setdefault(_SNAPSHOT, {})
    for name in _columns(model) if names is None else names:
        value = values.get(name)
        loaded[name] = _frozen(value) if name in json_names else value


def changes(record: Base) -> dict[str, Any]:
    """Columns whose value differs from the stored one; all of a record never stored."""
    model = type(record)
    values = record.__dict__
    loaded = values.get(_SNAPSHOT)
    columns = _columns(model)
    if loaded is None:
        return {name: values.get(name) for name in columns}
    json_names = _json_columns(model)
    changed = {}
    for name in columns:
        value = values.get(name)
        current = _frozen(value) if name in json_names else value
        before = loaded[name]
        # 1 and True are equal in Python and different in a JSON body.
        if current != before or type(current) is not type(before):
            changed[name] = value
    return changed


def snapshot(record: Base) -> dict[str, Any]:
    """Return what is stored now, for :func:`put_back`."""
    return dict(record.__dict__[_SNAPSHOT])


def put_back(record: Base, before: Mapping[str, Any], *, keep: Iterable[str] = ()) -> None:
    """Give the attributes the values that were stored at an earlier time.

    :param before: what :func:`snapshot` returned then.
    :param keep: columns that stay as they are now.
    """
    json_names = _json_columns(type(record))
    for name in before.keys() - set(keep):
        value = getattr(record, name)
        if name not in json_names:
            setattr(record, name, before[name])
        elif _frozen(value) != before[name]:
            setattr(record, name, jsontext.loads(before[name]) if before[name] else type(value)())


def original(record: Base, name: str) -> Any:
    """Stored value of a column that is not JSON, whatever the attribute is now."""
    loaded = record.__dict__.get(_SNAPSHOT)
    return None if loaded is None else loaded[name]


def apply(record: Base, values: Mapping[str, Any]) -> None:
    """Set attributes to values that the database already has."""
    for name, value in values.items():
        setattr(record, name, value)
    mark_clean(record, values)


def as_dict(record: Base) -> dict[str, Any]:
    """Columns and attached attributes; JSON values are the record's own objects."""
    values = record.__dict__
    names = [*_columns(type(record)), *(name for name, _ in record.attached)]
    return {name: values.get(name) for name in names}


def clone(record: RecordT) -> RecordT:
    """An independent copy: later changes of one are not seen in the other."""
    model = type(record)
    copied = {
        name: jsontext.loads(jsontext.dumps(value)) if isinstance(value, dict | list) else value
        for name, value in as_dict(record).items()
    }
    twin: RecordT = manager_of_class(model).new_instance()
    twin.__dict__.update(copied)
    if _SNAPSHOT in record.__dict__:
        twin.__dict__[_SNAPSHOT] = dict(record.__dict__[_SNAPSHOT])
    return twin
