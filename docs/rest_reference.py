"""The page of the REST API: operations, arguments, bodies, answers, policy and fields.

Made from the route table and the field tables, as the description that the service
itself serves is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ironic_rs.api import openapi
from ironic_rs.api.args import Arg
from ironic_rs.api.documents import ARGUMENTS, PATH_ARGUMENTS, Chosen, Listing, New, Patch, Whole
from ironic_rs.api.microversions import MAXIMUM, text
from ironic_rs.api.router import ANY_METHOD, Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.domain.fields import TABLES, Field, Kind, Table
from ironic_rs.domain.fields.kinds import Boolean, Uuid

INTRODUCTION = """\
What the service accepts and answers, in all microversions from 1.1 to 1.{highest}. A running
service serves the same, for one microversion, as an
[OpenAPI 3.1 description](api.md#beyond-the-compatible-answer) at `/v1/openapi.json`. "Since" is the
first microversion that has a thing. Policy names have the prefix `baremetal:`; operations on what
belongs to a node ask `node:get` first, and answer 404 where that refuses.

Every operation answers 400 to what is malformed, 406 to a version that is not offered, 413 to a
body that is too large and 500 when a driver or the service fails. The other errors are named with
it: 401 no credentials, 403 refused by policy, 404 no such thing or not visible, 409 locked or in a
state that does not allow it, 503 no conductor is online or none has a free worker. Errors have a
stable code for programs in the header `X-OpenStack-Ironic-Error-Code`, and, where a later try makes
sense, the header `Retry-After`.
"""
#: Arguments of most lists, told once.
PAGING = ("limit", "marker", "sort_key", "sort_dir", "fields", "detail")
PAGING_TEXT = """\
Lists take `limit` (at most `[api]max_limit`), `marker` (what the page begins after: a UUID, of
conductors the host name), `sort_key`, `sort_dir` (`asc` or `desc`), and, where the operation names
them, `fields` (since 1.8, a comma separated list) and `detail` (since 1.43, true or false). The
answer has `next`, the URL of the next page, where there is one.
"""


def page() -> str:
    """Return the whole page."""
    rows = openapi.described(ROUTES, MAXIMUM)
    lines = ["# REST API", "", INTRODUCTION.format(highest=MAXIMUM), PAGING_TEXT]
    for group in dict.fromkeys(openapi.tag(route) for route in rows):
        lines += [f"## {_title(group)}", ""]
        of_group = [route for route in rows if openapi.tag(route) == group]
        for _, same in itertools.groupby(sorted(of_group, key=_place), key=_place):
            lines += [*_operation(list(same)), ""]
    lines += ["## Documents", ""]
    for table in TABLES.values():
        lines += [*_document(table), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _place(route: Route) -> tuple[str, int, str]:
    """Vendor methods are one operation under five HTTP methods."""
    order = ("GET", "POST", "PUT", "PATCH", "DELETE").index(_methods(route))
    passed_on = 202 in route.also
    return (route.path, 0 if passed_on else order, "" if passed_on else route.method)


def _methods(route: Route) -> str:
    return "GET" if route.method == ANY_METHOD else route.method


def _title(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _operation(same: Sequence[Route]) -> Iterator[str]:
    route = same[0]
    methods = ", ".join("any method" if r.method == ANY_METHOD else r.method for r in same)
    yield f"### {methods} {route.path}"
    yield ""
    yield f"{openapi.summary(route)}. {_since(route)}{_policy(route)}"
    yield ""
    success = "/".join(str(s) for s in (route.success, *(s for s in route.also if s < 400)))
    answer = "no body" if route.answer is None else _link(route.answer)
    errors = ", ".join(str(s) for s in openapi.statuses(route) if s not in openapi.COMMON)
    yield f"* Answers {success}: {answer}.{f' Errors: {errors}.' if errors else ''}"
    if route.body == ARGUMENTS:
        yield "* Body: an object of the arguments below, which may come in the query instead."
    elif route.body is not None and not isinstance(route.body, str):
        yield f"* Body: {_link(route.body)}."
    names = re.findall(r"{(\w+)}", route.path)
    for name in names:
        yield f"* `{name}`: {PATH_ARGUMENTS[name][1]}."
    paged = [a.name for a in route.args if a.name in PAGING]
    own = [a for a in route.args if a.name not in PAGING]
    if {"fields", "detail"} & set(paged):
        named = " and ".join(f"`{n}`" for n in ("fields", "detail") if n in paged)
        yield f"* Takes {named}{' besides the arguments of lists' if 'limit' in paged else ''}."
    elif paged:
        yield "* Takes the arguments of lists, but not `fields` and `detail`."
    if own:
        yield ""
        yield from _table(
            ("Argument", "Since", "Accepted"),
            (
                (
                    f"`{a.name}`{' (required)' * a.required}",
                    text(max(a.first, route.since)),
                    _accepted(a),
                )
                for a in own
            ),
        )


def _argument(arg: Arg, route: Route) -> tuple[str, str, str]:
    since = text(max(arg.first, route.since))
    return f"`{arg.name}`{' (required)' * arg.required}", since, _accepted(arg)


def _since(route: Route) -> str:
    if route.since == 1:
        return "Since 1.1."
    even = f" (and in {', '.join(map(text, route.even_at))})" if route.even_at else ""
    return f"Since {text(route.since)}{even}; {route.below} before."


def _policy(route: Route) -> str:
    if route.public:
        return " No authentication."
    words = f" Policy: {_rules(route.policy)}." if route.policy else ""
    if route.sometimes:
        words += f" By what the body says: {_rules(route.sometimes)}."
    return words


def _rules(names: Iterable[str]) -> str:
    return ", ".join(f"`{name.removeprefix('baremetal:')}`" for name in names)


def _link(document: Any) -> str:
    if isinstance(document, Whole | Chosen | Listing | New | Patch):
        return f"[{document.text}](#{_anchor(document.table)})"
    return str(document.text)


def _anchor(table: Table) -> str:
    return table.resource.lower().replace(" ", "-")


def _accepted(arg: Arg) -> str:
    if arg.form is None:
        return _words(arg.kind)
    schema = arg.form(MAXIMUM)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    return _shape(schema)


def _words(kind: Kind) -> str:
    """Return what a kind accepts, without the example and the other spellings."""
    if isinstance(kind, Boolean):
        return "true or false"
    return "a UUID" if isinstance(kind, Uuid) else kind.accepted


def _shape(schema: dict[str, Any]) -> str:
    if schema.get("type") == "array":
        item = schema.get("items", {})
        keys = [
            f"`{key}`{' (required)' * (key in item.get('required', ()))}"
            for key in item.get("properties", {})
        ]
        return f"a list of objects with {', '.join(keys)}" if keys else "a list"
    if schema.get("description"):
        return str(schema["description"]).rstrip(".")
    parts = [_shape(part) for part in schema.get("anyOf", ())]
    keys = [f"`{key}`" for key in schema.get("properties", {})]
    return " or ".join(parts) if parts else f"an object with {', '.join(keys)}"


def _document(table: Table) -> Iterator[str]:
    yield f"### {table.resource}"
    yield ""
    written = any(f.creatable or f.patchable for f in table.rows)
    heads = ["Field", "Since", "Answered", "In the short list"]
    if written:
        heads += ["When created", "Patched", "Accepted"]
    yield from _table(heads, (_field(f, written) for f in table.rows))


def _field(row: Field, written: bool) -> list[str]:
    shown = row.listed or row.detailed
    cells = [
        f"`{row.name}`",
        text(row.since),
        _type(row.shown) if shown else "never",
        "yes" if row.listed else "",
    ]
    if written:
        created = "required" if row.required else "yes" if row.creatable else ""
        takes = _words(row.kind) if row.creatable or row.patchable else ""
        cells += [created, "yes" if row.patchable else "", takes]
    return cells


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return "link"
    kinds = schema.get("type", "any")
    if isinstance(kinds, list):
        inner = _type({**schema, "type": kinds[0]})
        return f"{inner} or null"
    if kinds == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("format", kinds))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|" + "---|" * len(heads)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
