"""The revision of a record: a text that changes with everything that the API shows of it.

The API puts it into entity tags (RFC 9110 section 8.8.3), and whoever writes a record
under a condition compares it where the write is made: under the node's lock, or in the
transaction.

Secrets count as their mask, since anybody could try passwords against an entity tag;
``updated_at`` tells that one of them has changed.  Taking and giving back a lock changes
neither (:func:`ironic_rs.db.nodes.reserve`).
"""

from __future__ import annotations

import datetime
import functools
import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ironic_rs.db import jsontext, models, records
from ironic_rs.db.base import Base
from ironic_rs.db.types import JsonDict, JsonList
from ironic_rs.domain import errors, secrets

RecordT = TypeVar("RecordT", bound=Base)

#: What says who works on a record, not what it is.
_NOT_COUNTED = frozenset({"reservation", "conductor_affinity", "version"})
_DIGEST_BYTES = 12

_MASKS: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("nodes", "driver_info"): secrets.mask_driver_info,
    ("nodes", "instance_info"): secrets.mask_instance_info,
}


@functools.cache
def columns(model: type[Base]) -> tuple[str, ...]:
    """Columns that the revision of a row is made from, besides what is attached to it."""
    return tuple(c.name for c in model.__table__.columns if c.name not in _NOT_COUNTED)


@functools.cache
def _masks(model: type[Base]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple(
        (c.name, _MASKS.get((model.__tablename__, c.name), secrets.mask))
        for c in model.__table__.columns
        if isinstance(c.type, JsonDict | JsonList) and c.name not in _NOT_COUNTED
    )


def of(model: type[Base], values: Mapping[Any, Any], **attached: Iterable[Any]) -> str:
    """Return the revision of a row as hexadecimal digits.

    :param values: has all of :func:`columns`, be it in their stored form.
    :param attached: lists that belong to the record and are in other tables: ``traits``,
        ``steps``; their order does not count.
    """
    counted: dict[str, Any] = {name: _plain(values[name]) for name in columns(model)}
    # What a rule does is shown to nobody once it is sensitive.
    unseen = ("actions", "conditions") if counted.get("sensitive") else ()
    for name, hide in _masks(model):
        value = None if name in unseen else counted[name]
        if isinstance(value, str):
            value = jsontext.loads(value)
        counted[name] = hide(value) if value else None
    for name, items in attached.items():
        counted[name] = sorted(jsontext.canonical(secrets.mask(item)) for item in items)
    text = jsontext.canonical(counted).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def _plain(value: Any) -> Any:
    if not isinstance(value, datetime.datetime):
        return value
    return value.replace(tzinfo=datetime.UTC).isoformat()


def of_record(record: Base) -> str:
    """Return the revision of a record that is as it was read."""
    attached = {n: getattr(record, n) for n, make in record.attached if make is list}
    return of(type(record), records.as_dict(record), **attached)


def require(record: Base, if_match: Iterable[str] | None) -> None:
    """Refuse a write whose condition does not hold.

    :param record: as read under the lock, or in the transaction, that the write is made in.
    :param if_match: revisions that the caller accepts; None accepts any.
    :raises PreconditionFailed: the record has none of them.
    """
    if if_match is None or of_record(record) in if_match:
        return
    kind = _NAMES.get(type(record), type(record).__name__.lower())
    raise errors.PreconditionFailed(resource=kind, ident=getattr(record, "uuid", None))


def guarded(
    make: Callable[[RecordT], Mapping[str, Any]], if_match: Iterable[str] | None
) -> Callable[[RecordT], Mapping[str, Any]]:
    """Return a change of a record (``db.resource.Change``) that needs one of the revisions.

    :param if_match: as for :func:`require`, which the change may raise the error of.
    """

    def checked(record: RecordT) -> Mapping[str, Any]:
        require(record, if_match)
        return make(record)

    return checked


_NAMES: Mapping[type[Base], str] = {
    models.DeployTemplate: "deploy template",
    models.InspectionRule: "inspection rule",
    models.VolumeConnector: "volume connector",
    models.VolumeTarget: "volume target",
}
