"""What bodies and answers look like, as JSON schema of one microversion.

Each row of the route table names its documents with these: of a field table, or a
small schema beside the handler.  The API description is made from them, and the
tests hold every answer against it.

Source: specification rest-api.md sections 5.3, 6, 8 to 12.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ironic_rs.api.microversions import V
from ironic_rs.domain.fields import Table
from ironic_rs.domain.fields.kinds import LINK, Schema
from ironic_rs.domain.fields.table import or_null

TEXT: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
ANYTHING: Schema = {}
LINKS: Schema = {"type": "array", "items": LINK}
IDENT: Schema = {"type": "string", "pattern": "^[A-Za-z0-9._~-]{1,255}$"}
UUID: Schema = {"type": "string", "format": "uuid"}
TRAIT: Schema = {"type": "string", "pattern": "^[A-Z0-9_]{1,255}$"}
SEGMENT: Schema = {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}

#: Arguments of paths: what they look like, and what they name.
PATH_ARGUMENTS: Mapping[str, tuple[Schema, str]] = {
    "node": (IDENT, "UUID or (from 1.5) name of the node"),
    "port": (IDENT, "UUID of the port, or its name where the port is not deleted"),
    "portgroup": (IDENT, "UUID or name of the portgroup"),
    "allocation": (IDENT, "UUID or name of the allocation"),
    "chassis": (UUID, "UUID of the chassis"),
    "connector": (UUID, "UUID of the volume connector"),
    "target": (UUID, "UUID of the volume target"),
    "device_types": (SEGMENT, "cdrom, disk, floppy, separated by commas"),
    "driver": (SEGMENT, "name of the hardware type"),
    "hostname": (SEGMENT, "name of the conductor"),
    "indicator": (
        {"type": "string", "pattern": "^[^/]+@[^/@]+$"},
        "indicator and component: led@system",
    ),
    "method": (SEGMENT, "name of the vendor method"),
    "setting": (IDENT, "name of the BIOS setting"),
    "trait": (TRAIT, "name of the trait"),
    "template": (IDENT, "UUID or name of the deploy template"),
    "rule": (UUID, "UUID of the inspection rule"),
    "runbook": (IDENT, "UUID or name of the runbook"),
    "uuid": (UUID, "UUID of the entry"),
    "vif": (SEGMENT, "UUID or name of the VIF"),
}


@runtime_checkable
class Document(Protocol):
    """A body or an answer."""

    @property
    def text(self) -> str:
        """What it is, in words, for the reference: ``a node``."""

    def schema(self, minor: int) -> Schema:
        """Return its JSON schema at microversion 1.``minor``."""


@dataclass(frozen=True)
class Shape:
    """A document that is no resource.

    :param form: its schema, or a function of the minor version that returns it.
    :param raw: it may as well be bytes that are no JSON.
    """

    text: str
    form: Schema | Callable[[int], Schema]
    raw: bool = False

    def schema(self, minor: int) -> Schema:
        return self.form(minor) if callable(self.form) else self.form


@dataclass(frozen=True)
class Whole:
    """A resource with all fields of the version."""

    table: Table

    @property
    def text(self) -> str:
        return f"{self.table.resource} with all fields"

    def schema(self, minor: int) -> Schema:
        return reference(component(self.table))


@dataclass(frozen=True)
class Chosen:
    """A resource with all fields, or with those of the argument ``fields``."""

    table: Table

    @property
    def text(self) -> str:
        return f"{self.table.resource}, with the chosen fields"

    def schema(self, minor: int) -> Schema:
        return reference(f"{component(self.table)}Part")


@dataclass(frozen=True)
class Listing:
    """A list of resources, perhaps with a link to the next page.

    :param whole: with all fields; else the short form, or what was asked for.
    :param paged: there may be a next page.
    """

    table: Table
    whole: bool = False
    paged: bool = True

    @property
    def text(self) -> str:
        return f"list of {self.table.resource} documents{', with all fields' * self.whole}"

    def schema(self, minor: int) -> Schema:
        item = Whole(self.table) if self.whole else Chosen(self.table)
        key = self.table.collection
        schema = record({key: {"type": "array", "items": item.schema(minor)}})
        if self.paged:
            schema["properties"]["next"] = {"type": "string", "format": "uri"}
        return schema


@dataclass(frozen=True)
class New:
    """The body that creates a resource.

    :param adjust: changes the schema of the field table for what the handler checks
        besides; gets the schema and the minor version.
    """

    table: Table
    adjust: Callable[[Schema, int], None] | None = None

    @property
    def text(self) -> str:
        return f"a new {self.table.resource}"

    def schema(self, minor: int) -> Schema:
        schema = self.table.create_schema(minor)
        if self.adjust is not None:
            self.adjust(schema, minor)
        return schema


@dataclass(frozen=True)
class Patch:
    """A JSON patch of a resource.

    :param any_pointer: below a field every path of RFC 6901 is accepted.
    """

    table: Table
    any_pointer: bool = False

    @property
    def text(self) -> str:
        return f"JSON patch of the {self.table.resource}"

    def schema(self, minor: int) -> Schema:
        roots = [f.name for f in self.table.rows if f.patchable and f.since <= minor]
        token = "([\\w-]|~[01])+" if minor >= V.PATCH_ESCAPES else "[\\w-]+"
        if self.any_pointer:
            token = "([^/~]|~[01])*"
        path = {"type": "string", "pattern": f"^/({'|'.join(roots)})(/{token})*$"}
        add = record({"op": {"enum": ["add", "replace"]}, "path": path, "value": ANYTHING})
        remove = record({"op": {"const": "remove"}, "path": path}, value=ANYTHING)
        return {"type": "array", "items": {"oneOf": [add, remove]}}


@dataclass(frozen=True)
class Refused:
    """No document: the operation is there to be refused, and is not described."""

    text: str = ""

    def schema(self, minor: int) -> Schema:
        return {}


#: The body is an object of the route's arguments.
ARGUMENTS = "args"


def reference(name: str) -> Schema:
    """Return the reference to a schema among the components of the description."""
    return {"$ref": f"#/components/schemas/{name}"}


def component(table: Table) -> str:
    """Return the name of a table's schema: ``VolumeConnector``."""
    return "".join(word[0].upper() + word[1:] for word in table.resource.split())


def record(required: Mapping[str, Schema], /, **optional: Schema) -> Schema:
    """Return the schema of an object with exactly these keys."""
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def listing(key: str, item: Schema) -> Schema:
    """Return the schema of an object whose only key is a list."""
    return record({key: {"type": "array", "items": item}})


def mapping(value: Schema) -> Schema:
    """Return the schema of an object with any keys."""
    return {"type": "object", "additionalProperties": value}


def one_of(values: Sequence[Any]) -> Schema:
    """Return the schema of one of some texts."""
    return {"type": "string", "enum": list(values)}


__all__ = [
    "ANYTHING",
    "ARGUMENTS",
    "BOOLEAN",
    "IDENT",
    "LINK",
    "LINKS",
    "OBJECT",
    "PATH_ARGUMENTS",
    "SEGMENT",
    "TEXT",
    "TRAIT",
    "UUID",
    "Chosen",
    "Document",
    "Listing",
    "New",
    "Patch",
    "Refused",
    "Schema",
    "Shape",
    "Whole",
    "component",
    "listing",
    "mapping",
    "one_of",
    "or_null",
    "record",
    "reference",
]
