"""Types of field values: what is accepted, and what is stored.

A kind converts one JSON value to the value of the record, or says what it would
have accepted.  Null is the field's business (:class:`~.table.Field`), not the
kind's.

Its JSON schemas describe the form that clients should send and the one that they
get; some kinds accept more (booleans and integers as strings, other spellings of
UUIDs), which the API description says once for all.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ironic_rs.domain import names

#: A JSON schema, draft 2020-12.
Schema = dict[str, Any]

#: Where the schemas of the API description find the document of a link.
LINK: Schema = {"$ref": "#/components/schemas/Link"}


class BadValue(ValueError):
    """A value is not of the kind; the text says what would be accepted.

    :param problem: what is wrong with it, where that helps: "it is too long".
    """

    def __init__(self, accepted: str, problem: str = "") -> None:
        super().__init__(accepted)
        self.problem = problem


@dataclass(frozen=True)
class Kind:
    """Base of all kinds.

    :param label: JSON type in documentation, e.g. ``string``.
    """

    label: str = "any"

    @property
    def accepted(self) -> str:
        """What a client may send, for error texts: "a string of ..."."""
        return "any JSON value"

    @property
    def schema(self) -> Schema:
        """JSON schema of what a client may send."""
        return {}

    @property
    def shown(self) -> Schema:
        """JSON schema of what is answered; drivers and others may have stored it."""
        return self.schema

    def convert(self, value: Any) -> Any:
        """Return the value to store.

        :raises BadValue: not of this kind.
        """
        return value

    def refuse(self, problem: str = "") -> BadValue:
        return BadValue(self.accepted, problem)


@dataclass(frozen=True)
class String(Kind):
    """Text without NUL characters; lengths in characters."""

    label: str = "string"
    minimum: int = 0
    maximum: int | None = 255
    lower: bool = False
    choices: Sequence[str] | None = None
    pattern: str | None = None
    pattern_text: str = ""

    @property
    def accepted(self) -> str:
        if self.choices is not None:
            return "one of " + ", ".join(self.choices)
        text = "a string"
        if self.minimum and self.maximum:
            text += f" of {self.minimum} to {self.maximum} characters"
        elif self.maximum:
            text += f" of at most {self.maximum} characters"
        elif self.minimum:
            text += f" of at least {self.minimum} characters"
        if self.pattern_text:
            text += f", {self.pattern_text}"
        return text

    @property
    def schema(self) -> Schema:
        schema: Schema = {"type": "string"}
        if self.choices is not None:
            schema["enum"] = list(self.choices)
            return schema
        if self.minimum:
            schema["minLength"] = self.minimum
        if self.maximum is not None:
            schema["maxLength"] = self.maximum
        if self.pattern is not None:
            schema["pattern"] = f"^(?:{self.pattern})$"
        return schema

    @property
    def shown(self) -> Schema:
        return {"type": "string"}

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not names.is_storable(value):
            raise self.refuse()
        value = value.lower() if self.lower else value
        if len(value) < self.minimum:
            raise self.refuse("it is too short")
        if self.maximum is not None and len(value) > self.maximum:
            raise self.refuse("it is too long")
        if self.choices is not None and value not in self.choices:
            raise self.refuse()
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Uuid(Kind):
    """A UUID in any usual spelling, stored as sent.

    Upper-case and undashed spellings pass, as upstream; look-ups compare exactly.
    """

    label: str = "uuid"

    @property
    def accepted(self) -> str:
        return "a UUID such as 1be26c0b-03f2-4d2e-ae87-c02d7f33c123"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "format": "uuid"}

    @property
    def shown(self) -> Schema:
        return {"type": "string"}

    def convert(self, value: Any) -> str:
        if not isinstance(value, str) or not names.is_uuid_like(value):
            raise self.refuse()
        return value


@dataclass(frozen=True)
class NewUuid(Uuid):
    """A UUID that becomes the identity of a record: stored in canonical form."""

    @property
    def shown(self) -> Schema:
        return {"type": "string", "format": "uuid"}

    def convert(self, value: Any) -> str:
        return str(uuid.UUID(super().convert(value)))


@dataclass(frozen=True)
class Ident(Kind):
    """UUID or name of another resource."""

    label: str = "uuid or name"

    @property
    def accepted(self) -> str:
        return "a UUID or a name of the characters A-Z a-z 0-9 - . _ ~"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,255}$"}

    @property
    def shown(self) -> Schema:
        return {"type": "string"}

    def convert(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self.refuse()
        if not names.is_uuid_like(value) and not names.is_logical_name(value):
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Mac(Kind):
    """An Ethernet address, stored in lower case with colons."""

    label: str = "mac"

    @property
    def accepted(self) -> str:
        return "a MAC address such as 52:54:00:cf:2d:31"

    @property
    def schema(self) -> Schema:
        pair = "[0-9A-Fa-f]{2}"
        return {"type": "string", "pattern": f"^{pair}((:{pair}){{5}}|(-{pair}){{5}})$"}

    @property
    def shown(self) -> Schema:
        return {"type": "string", "pattern": "^[0-9a-f]{2}(:[0-9a-f]{2}){5}$"}

    def convert(self, value: Any) -> str:
        mac = names.normalize_mac(value) if isinstance(value, str) else None
        if mac is None:
            raise self.refuse()
        return mac


_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})


@dataclass(frozen=True)
class Boolean(Kind):
    """JSON boolean, or (unless ``strict``) one of the usual words for it."""

    label: str = "boolean"
    strict: bool = False

    @property
    def accepted(self) -> str:
        if self.strict:
            return "true or false"
        return "true or false (or a string: 1, t, true, on, y, yes, 0, f, false, off, n, no)"

    @property
    def schema(self) -> Schema:
        return {"type": "boolean"}

    def convert(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and not self.strict:
            word = value.strip().lower()
            if word in _TRUE:
                return True
            if word in _FALSE:
                return False
        raise self.refuse()


@dataclass(frozen=True)
class Integer(Kind):
    """A whole number that fits the column; digit strings pass, as upstream."""

    label: str = "integer"
    minimum: int = -(2**31)
    maximum: int = 2**31 - 1

    @property
    def accepted(self) -> str:
        return f"an integer from {self.minimum} to {self.maximum}"

    @property
    def schema(self) -> Schema:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}

    @property
    def shown(self) -> Schema:
        return {"type": "integer"}

    def convert(self, value: Any) -> int:
        if isinstance(value, str) and len(value) <= 20:
            try:
                value = int(value)
            except ValueError:
                raise self.refuse() from None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.refuse()
        if not self.minimum <= value <= self.maximum:
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Object(Kind):
    """A JSON object."""

    label: str = "object"

    @property
    def accepted(self) -> str:
        return "a JSON object"

    @property
    def schema(self) -> Schema:
        return {"type": "object"}

    def convert(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse()
        return value


@dataclass(frozen=True)
class Array(Kind):
    """A JSON array of values of one kind."""

    label: str = "array"
    of: Kind = Kind()
    minimum: int = 0

    @property
    def accepted(self) -> str:
        text = f"a list of which each item is {self.of.accepted}"
        return f"{text} (at least {self.minimum})" if self.minimum else text

    @property
    def schema(self) -> Schema:
        schema: Schema = {"type": "array", "items": self.of.schema}
        if self.minimum:
            schema["minItems"] = self.minimum
        return schema

    @property
    def shown(self) -> Schema:
        return {"type": "array", "items": self.of.shown}

    def convert(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.refuse()
        if len(value) < self.minimum:
            raise self.refuse("it is too short")
        return [self.of.convert(item) for item in value]


@dataclass(frozen=True)
class DateTime(Kind):
    """A time in UTC; only ever returned."""

    label: str = "datetime"

    @property
    def schema(self) -> Schema:
        return {"type": "string", "format": "date-time"}


@dataclass(frozen=True)
class Links(Kind):
    """Links to the resource or to a sub-resource; only ever returned.

    :param nested: the list of links is the only item of another list.
    """

    label: str = "links"
    nested: bool = False

    @property
    def schema(self) -> Schema:
        links: Schema = {"type": "array", "items": LINK}
        return {"type": "array", "items": links} if self.nested else links
