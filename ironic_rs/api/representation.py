"""From rows to documents, by the field table.

A view is made once for a resource, a set of fields and a microversion, and kept;
rendering a row is then one dict from the row's values plus the few fields that are
computed, masked or translated.

Source: specification rest-api.md sections 1 (null rendering), 5.3, 7, 8.2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ironic_rs.api.call import Call, Reply
from ironic_rs.db import jsontext, records, revision
from ironic_rs.db.base import Base
from ironic_rs.domain import errors
from ironic_rs.domain.fields import Table, show_names
from ironic_rs.domain.fields.kinds import Array, DateTime, Object

#: Makes what is shown from the stored text of a JSON column and a minor version.
FromText = Callable[[str | None, int], Any]
#: A row of a query, by column name.
Row = Mapping[Any, Any]


@dataclass(frozen=True)
class Computed:
    """A field that is no column.

    :param columns: what has to be selected for it.
    :param make: returns the value for a row.
    """

    columns: tuple[str, ...]
    make: Callable[[Row, Call], Any]


@dataclass(frozen=True, eq=False)
class Resource:
    """How one resource is shown.

    :param table: its fields.
    :param computed: fields that are made from other columns.
    :param shown: fields whose stored value is not what is shown (masked, or named
        otherwise in old versions); gets the value and the minor version.
    :param texts: the same for JSON columns that can often be shown without parsing:
        gets their stored text (None for NULL) and the minor version.
    :param left_out: fields that ``fields=`` may name before their version, without
        effect.
    :param model: its records, where the revision of a record guards writes.
    """

    table: Table
    computed: Mapping[str, Computed] = field(default_factory=dict)
    shown: Mapping[str, Callable[[Any, int], Any]] = field(default_factory=dict)
    texts: Mapping[str, FromText] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    model: type[Base] | None = None

    def names(self, flag: str, minor: int) -> tuple[str, ...]:
        """Return the fields with a letter of ``use`` that exist at this version."""
        return tuple(f.name for f in self.table.rows if flag in f.use and f.since <= minor)

    def choose(self, asked: Sequence[str], minor: int) -> tuple[str, ...]:
        """Return the fields for ``fields=``; ``links`` always comes along.

        :raises InvalidParameterValue: an unknown name.
        :raises NotAcceptable: a name newer than the version.
        """
        known = {name: self.table.by_name[name] for name in self.table.choices()}
        unknown = [n for n in asked if n not in known and n != "links"]
        if unknown:
            raise errors.InvalidParameterValue(
                f"Field(s) {show_names(unknown)} can not be selected (argument 'fields'); "
                f"accepted: {', '.join(sorted(self.table.choices(minor)))}."
            )
        newer = [n for n in asked if n in known and known[n].since > minor]
        chosen = [n for n in asked if n != "links" and n not in newer]
        newer = [n for n in newer if n not in self.left_out]
        if newer:
            raise errors.NotAcceptable(
                f"Field(s) {', '.join(newer)} need a newer API version "
                f"({', '.join(f'1.{known[n].since}' for n in newer)}); "
                f"the request uses 1.{minor}."
            )
        if "links" in self.table.by_name:
            chosen.append("links")
        return tuple(chosen)

    def view(self, fields: tuple[str, ...], minor: int) -> View:
        """Return the view of these fields at this version."""
        return _view(self, fields, minor)

    def short(self, minor: int) -> View:
        """Return the view of the short list."""
        return _view(self, self.names("L", minor), minor)

    def detail(self, minor: int) -> View:
        """Return the view of the whole document."""
        return _view(self, self.names("D", minor), minor)

    def single(self, call: Call) -> View:
        """Return the view of one resource: the whole document, or what ``fields=`` asks for.

        :raises InvalidParameterValue, NotAcceptable: as :meth:`choose`.
        """
        asked = call.args["fields"]
        if asked is None:
            return self.detail(call.minor)
        return self.view(self.choose(asked, call.minor), call.minor)

    def single_columns(self, view: View) -> tuple[str, ...]:
        """Return the columns to read for :meth:`reply_row`; the view's own come first."""
        assert self.model is not None
        return (*view.columns, *revision.columns(self.model))

    def reply_row(self, call: Call, view: View, row: Row, location: str | None = None) -> Reply:
        """Return the answer that shows one row that has :meth:`single_columns`."""
        assert self.model is not None
        return Reply(
            view.render(row, call), location=location, revision=revision.of(self.model, row)
        )

    def reply(self, call: Call, view: View, record: Base, location: str | None = None) -> Reply:
        """Return the answer that shows one record, as it was read."""
        values = records.as_dict(record)
        document = view.render({n: values[n] for n in view.columns}, call)
        return Reply(document, location=location, revision=revision.of_record(record))


def _object(text: str | None, minor: int) -> Any:
    return jsontext.fragment(text)


def _array(text: str | None, minor: int) -> Any:
    return jsontext.fragment(text, b"[]")


class View:
    """Renders rows of one resource with one set of fields.

    JSON that is shown as it is stored is not parsed: it goes into the answer as text.

    :ivar fields: names in the documents.
    :ivar columns: columns that the rows must have, in this order.
    :ivar stored: those of them which are wanted in their stored form, see
        :meth:`ironic_rs.db.listing.Listing.select`.
    """

    def __init__(self, resource: Resource, fields: tuple[str, ...], minor: int) -> None:
        self.fields = fields
        by_name = resource.table.by_name
        self._plain = tuple(
            n for n in fields if by_name[n].column is not None and n not in resource.computed
        )
        self._computed = [(n, resource.computed[n]) for n in fields if n in resource.computed]
        self._shown = [(n, resource.shown[n]) for n in self._plain if n in resource.shown]
        self._texts: list[tuple[str, FromText]] = []
        times = []
        for name in self._plain:
            kind = by_name[name].kind
            if name in resource.texts:
                self._texts.append((name, resource.texts[name]))
            elif name in resource.shown:
                continue
            elif isinstance(kind, Object | Array):
                self._texts.append((name, _array if isinstance(kind, Array) else _object))
            elif isinstance(kind, DateTime):
                times.append(name)
        self.stored = frozenset((*(name for name, _ in self._texts), *times))
        self._minor = minor
        needed = dict.fromkeys(by_name[n].column or n for n in self._plain)
        for _, computed in self._computed:
            needed.update(dict.fromkeys(computed.columns))
        self.columns = tuple(needed)

    def render(self, row: Row, call: Call) -> dict[str, Any]:
        """Return the document of one row that has exactly ``columns``, in order."""
        document = dict(zip(self._plain, row.values(), strict=False))
        for name, from_text in self._texts:
            value = document[name]
            if value is not None and not isinstance(value, str):
                value = jsontext.dumps(value)
            document[name] = from_text(value, self._minor)
        for name, show in self._shown:
            document[name] = show(document[name], self._minor)
        for name, computed in self._computed:
            document[name] = computed.make(row, call)
        return document


@functools.lru_cache(maxsize=1024)
def _view(resource: Resource, fields: tuple[str, ...], minor: int) -> View:
    return View(resource, fields, minor)


def link_fields(path: Callable[[Row], str], columns: tuple[str, ...] = ("uuid",)) -> Computed:
    """Return the computed field ``links`` of a resource whose path is made from a row."""
    return Computed(columns, lambda row, call: call.links(path(row)))
