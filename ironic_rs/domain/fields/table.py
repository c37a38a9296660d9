"""The field table: one row says everything about one field of one resource.

The REST layer takes from it what a body may contain, what lists and single
documents show at which microversion, and what may be patched; the conductor
takes from it the check of values under the lock; the documentation is generated
from it.

Source: specification data/api-fields.json, rest-api.md sections 5.3, 8, 11.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ironic_rs.domain import errors
from ironic_rs.domain.fields.kinds import BadValue, Kind, Links, NewUuid, Schema, Uuid

_SHOWN_VALUE_LENGTH = 80
_ANY = 10**6


@dataclass(frozen=True)
class Field:
    """One field of a resource.

    :param name: name in the REST API.
    :param kind: type of the value.
    :param since: minor part of the first microversion that has the field.
    :param use: letters, each present or not: ``L`` in the short list, ``D`` in the
        detailed document, ``P`` patchable, ``C`` accepted on creation, ``R``
        required on creation (and never removable), ``S`` selectable by ``fields``
        of a single resource where that is narrower than the document (nodes).
    :param nullable: null is stored as null.
    :param empty: what is stored when the value is null or removed and the field is
        not nullable.
    :param column: database column with the value; None when it is computed.
    :param sortable: usable as ``sort_key``.
    :param hidden: shown as null where it is secret.
    """

    name: str
    kind: Kind
    since: int = 1
    use: str = "D"
    nullable: bool = True
    empty: Any = None
    column: str | None = ""
    sortable: bool = True
    hidden: bool = False

    def __post_init__(self) -> None:
        if self.column == "":
            object.__setattr__(self, "column", self.name)

    @property
    def listed(self) -> bool:
        return "L" in self.use

    @property
    def detailed(self) -> bool:
        return "D" in self.use

    @property
    def patchable(self) -> bool:
        return "P" in self.use

    @property
    def creatable(self) -> bool:
        return "C" in self.use

    @property
    def required(self) -> bool:
        return "R" in self.use

    @property
    def selectable(self) -> bool:
        return "S" in self.use

    @property
    def accepted(self) -> str:
        """What a client may send, for error texts."""
        return f"{self.kind.accepted}, or null" if not self.required else self.kind.accepted

    @property
    def schema(self) -> Schema:
        """JSON schema of what a client may send."""
        return self.kind.schema if self.required else or_null(self.kind.schema)

    @property
    def shown(self) -> Schema:
        """JSON schema of what is answered."""
        present = self.required or not self.nullable or isinstance(self.kind, Links | NewUuid)
        return self.kind.shown if present and not self.hidden else or_null(self.kind.shown)

    def null(self) -> Any:
        """Return what is stored for null (a fresh object each time)."""
        if self.nullable:
            return None
        return type(self.empty)(self.empty) if isinstance(self.empty, dict | list) else self.empty

    def convert(self, value: Any, resource: str) -> Any:
        """Return the value to store for a value that a client sent.

        :raises InvalidParameterValue: the text names field, value and what is accepted.
        """
        if value is None:
            if self.required:
                raise errors.InvalidParameterValue(
                    f"Field '{self.name}' of the {resource} can not be null; "
                    f"accepted: {self.accepted}."
                )
            return self.null()
        try:
            return self.kind.convert(value)
        except BadValue as exc:
            problem = f"Invalid value {show(value)} of field '{self.name}' of the {resource}"
            if isinstance(self.kind, Uuid):  # in the words that clients look for
                problem = f"Expected UUID for {self.name} of the {resource}, got {show(value)}"
            elif exc.problem:
                problem += f": {exc.problem}"
            raise errors.InvalidParameterValue(
                f"{problem}; accepted: {exc}{'' if self.required else ', or null'}."
            ) from None


@dataclass(frozen=True)
class Table:
    """All fields of one resource.

    :param resource: name of the resource in texts, e.g. ``node``.
    :param collection: key and path segment of the collection, e.g. ``nodes``.
    :param rows: the fields in the order of the document.
    """

    resource: str
    collection: str
    rows: tuple[Field, ...]
    by_name: Mapping[str, Field] = field(init=False, repr=False)
    by_column: Mapping[str, Field] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {f.name: f for f in self.rows})
        object.__setattr__(self, "by_column", {f.column: f for f in self.rows if f.column})

    def names(self, flag: str) -> tuple[str, ...]:
        """Return the names of the fields whose ``use`` has the letter."""
        return tuple(f.name for f in self.rows if flag in f.use)

    def visible(self, minor: int) -> frozenset[str]:
        """Return the names that exist at microversion 1.``minor``."""
        return frozenset(f.name for f in self.rows if f.since <= minor)

    def choices(self, minor: int = _ANY) -> list[str]:
        """Return what the argument ``fields`` may name at microversion 1.``minor``."""
        narrow = any(f.selectable for f in self.rows)
        return [
            f.name
            for f in self.rows
            if (f.selectable if narrow else f.listed or f.detailed) and f.since <= minor
        ]

    def sort_keys(self, minor: int = _ANY) -> list[str]:
        """Return what lists can be sorted by at microversion 1.``minor``."""
        return [
            "id",
            *(f.name for f in self.rows if f.column and f.sortable and f.since <= minor),
        ]

    def create_schema(self, minor: int) -> Schema:
        """Return the JSON schema of a creation body at microversion 1.``minor``."""
        rows = [f for f in self.rows if f.creatable and f.since <= minor]
        return _object(rows, [f.name for f in rows if f.required], "schema")

    def shown_schema(self, minor: int, *, whole: bool) -> Schema:
        """Return the JSON schema of an answered document at microversion 1.``minor``.

        :param whole: with all fields; else the short form, or what a client chose.
        """
        rows = [f for f in self.rows if (f.listed or f.detailed) and f.since <= minor]
        # They come along with any choice.
        always = [f.name for f in rows if f.name == "links"]
        required = [f.name for f in rows if f.detailed] if whole else always
        return _object(rows, required, "shown")

    def check_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Convert values by column name, as they come from a patched record.

        Columns without a field (``chassis_id``) pass unchanged.

        :raises InvalidParameterValue: a value is not of the kind of its field.
        """
        checked = {}
        for column, value in values.items():
            row = self.by_column.get(column)
            checked[column] = row.convert(value, self.resource) if row else value
        return checked

    def check_create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Check a creation body: keys, required ones, and all values.

        :returns: the converted values by API name, only the given ones.
        :raises InvalidParameterValue: unknown key, bad value.
        :raises MissingParameterValue: a required key is missing.
        """
        allowed = [f.name for f in self.rows if f.creatable]
        unknown = sorted(set(body).difference(allowed))
        if unknown:
            raise errors.InvalidParameterValue(
                f"Unexpected field(s) in the {self.resource}: {show_names(unknown)}; "
                f"accepted: {', '.join(allowed)}."
            )
        missing = [
            f"{f.name} ({f.accepted})" for f in self.rows if f.required and body.get(f.name) is None
        ]
        if missing:
            raise errors.MissingParameterValue(
                f"Mandatory field(s) of the {self.resource} missing: {', '.join(missing)}."
            )
        return {
            name: self.by_name[name].convert(value, self.resource) for name, value in body.items()
        }


def or_null(schema: Schema) -> Schema:
    """Return the JSON schema that takes null besides."""
    if not schema:
        return schema
    if "type" not in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    nullable = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        nullable["enum"] = [*schema["enum"], None]
    return nullable


def _object(rows: list[Field], required: list[str], side: str) -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {f.name: getattr(f, side) for f in rows},
        "additionalProperties": False,
    }
    if required:
        schema["required"] = required
    return schema


def show(value: Any) -> str:
    """Return a short printable form of a value for error texts."""
    text = ascii(value)
    if len(text) > _SHOWN_VALUE_LENGTH:
        text = f"{text[:_SHOWN_VALUE_LENGTH]}..."
    return text


def show_names(unknown: Iterable[Any]) -> str:
    """Return a list of names that a client sent, shortened, for error texts."""
    shown = [show(n).strip("'") for n in list(unknown)[:10]]
    return ", ".join(shown)
