"""Arguments of requests: path, query and (where it is no document) body keys.

A route names its arguments; they share one namespace, so ``PUT states/power``
takes ``target`` from the body or from the query.

Source: specification rest-api.md sections 2.1, 5.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ironic_rs.api import microversions
from ironic_rs.domain import errors, names
from ironic_rs.domain.fields import BadValue, Kind, show, show_names
from ironic_rs.domain.fields.kinds import (
    Boolean,
    Ident,
    Integer,
    Mac,
    Object,
    Schema,
    String,
    Uuid,
)


@dataclass(frozen=True)
class StringList(Kind):
    """Comma separated text, a repeated argument, or a JSON list.

    Items are stripped and de-duplicated, empty ones dropped.

    :param fold: items are lower-cased.
    """

    label: str = "list of strings"
    fold: bool = False

    @property
    def schema(self) -> Schema:
        return {"type": "array", "items": {"type": "string"}}

    @property
    def accepted(self) -> str:
        return "a comma separated list of strings"

    def convert(self, value: Any) -> list[str]:
        parts = value if isinstance(value, list) else [value]
        items: dict[str, None] = {}
        for part in parts:
            for item in String(maximum=None).convert(part).split(","):
                text = item.strip()
                if text:
                    items[text.lower() if self.fold else text] = None
        return list(items)


@dataclass(frozen=True)
class Items(Kind):
    """A JSON list, checked by the handler."""

    label: str = "array"

    @property
    def accepted(self) -> str:
        return "a JSON list"

    @property
    def schema(self) -> Schema:
        return {"type": "array"}

    def convert(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.refuse()
        return value


@dataclass(frozen=True)
class HostName(Kind):
    """Name of a conductor: a host, perhaps with a port."""

    label: str = "host:port"

    @property
    def accepted(self) -> str:
        return "a host name or address, with a port or without"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "pattern": r"^[\w.:\[\]%-]{1,255}$"}

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[\w.:\[\]%-]{1,255}", value):
            raise self.refuse()
        return value


BOOLEAN = Boolean()
IDENT = Ident()
ITEMS = Items()
MAC = Mac()
NAMES = StringList(fold=True)
OBJECT = Object()
LIST = StringList()
TEXT = String(maximum=None)
UUID = Uuid()
ANY = Kind()


def check_name(name: Any, resource: str) -> None:
    """Refuse what can not be the name of a resource; None is no name.

    :raises InvalidParameterValue: the text says what would be accepted.
    """
    if name is not None and not (isinstance(name, str) and names.is_valid_name(name)):
        raise errors.InvalidParameterValue(
            f"Cannot name a{'n' * (resource[0] in 'aeiou')} {resource} {show(name)}: invalid name; "
            "accepted: 1 to 255 of the characters A-Z a-z 0-9 - . _ ~, no UUID."
        )


@dataclass(frozen=True)
class Arg:
    """One argument.

    :param since: first minor version that takes it.
    :param below: status before that version.
    :param late: first minor version that takes it, where the handler checks that
        itself because the order of the checks is part of the interface.
    :param form: JSON schema at a minor version, where the handler checks more than
        the kind does.
    """

    name: str
    kind: Kind = TEXT
    required: bool = False
    since: int = 1
    below: int = 406
    default: Any = None
    late: int = 1
    form: Callable[[int], Schema] | None = None

    @property
    def first(self) -> int:
        """First minor version that takes it."""
        return max(self.since, self.late)

    def schema(self, minor: int) -> Schema:
        """Return the JSON schema of the value at microversion 1.``minor``."""
        schema = dict(self.form(minor) if self.form is not None else self.kind.schema)
        if self.default is not None:
            schema["default"] = self.default
        return schema


PAGE: tuple[Arg, ...] = (
    Arg("limit", Integer(minimum=1, maximum=10**18)),
    Arg("marker", UUID),
    Arg("sort_key", String(), default="id"),
    Arg("sort_dir", String(choices=("asc", "desc")), default="asc"),
)
FIELDS = Arg("fields", NAMES, since=microversions.V.FIELDS)
DETAIL = Arg("detail", BOOLEAN, since=microversions.V.DETAIL, below=400)


def parse(
    specs: Sequence[Arg], given: Iterable[tuple[str, Any]] | Mapping[str, Any], minor: int
) -> dict[str, Any]:
    """Check and convert arguments.

    :param given: what the client sent, by name.
    :param minor: minor version of the request.
    :returns: all arguments of ``specs`` by name; absent and null ones have the
        default.
    :raises InvalidParameterValue: unknown name, bad value (400).
    :raises MissingParameterValue: a required one is missing (400).
    :raises NotAcceptable: given, but newer than the version (406), or the error of
        ``Arg.below``.
    """
    sent = dict(given)
    known = {spec.name for spec in specs}
    unknown = [name for name in sent if name not in known]
    if unknown:
        accepted = ", ".join(spec.name for spec in specs if spec.since <= minor) or "none"
        raise errors.InvalidParameterValue(
            f"Unknown argument(s): {show_names(unknown)}; accepted here: {accepted}."
        )
    values: dict[str, Any] = {}
    for spec in specs:
        value = sent.get(spec.name)
        if spec.name in sent and minor < spec.since and value is not None:
            raise too_new(f"Argument '{spec.name}'", spec.since, minor, spec.below)
        if value is None:
            if spec.required:
                raise errors.MissingParameterValue(
                    f"Mandatory argument missing: {spec.name} ({spec.kind.accepted})."
                )
            values[spec.name] = spec.default
            continue
        try:
            values[spec.name] = spec.kind.convert(value)
        except BadValue as exc:
            raise errors.InvalidParameterValue(
                f"Invalid value {show(value)} of argument '{spec.name}'; accepted: {exc}."
            ) from None
    return values


_TOO_NEW = {400: errors.InvalidParameterValue, 404: errors.NotFound, 406: errors.NotAcceptable}


def too_new(what: str, since: int, minor: int, status: int = 406) -> errors.IronicError:
    """Return the error about something newer than the version of the request."""
    return _TOO_NEW[status](
        f"{what} needs API version {microversions.text(since)} or newer; "
        f"the request uses {microversions.text(minor)}."
    )
