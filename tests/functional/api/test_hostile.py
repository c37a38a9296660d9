"""Hostile requests: nothing that a client can send is answered with a 5xx (case K01).

Huge numbers, NULs, lone surrogates, deep nesting, pieces of SQL, templates and shells
come in paths, queries, headers and bodies of every operation, in all microversions.
IRONIC_RS_EXAMPLES is the number of requests an operation (in long runs 500 and more).
"""

from __future__ import annotations

import json
import os
from urllib.parse import quote

import hypothesis
import pytest
import webob
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from ironic_rs.api.documents import Chosen, Listing, New, Patch, Whole
from ironic_rs.api.microversions import HEADER, MAXIMUM, text
from ironic_rs.api.router import ANY_METHOD, Route
from ironic_rs.api.routes import ROUTES
from tests.functional.api import population
from tests.functional.api.harness import Client

EXAMPLES = int(os.environ.get("IRONIC_RS_EXAMPLES", "8"))
BOUNDED = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
#: Bytes of paths and query strings, percent-encoded where they must be.
BYTES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xc0\xaf",
    b"../../etc/passwd",
    b"%2e%2e/",
    b"a/b//c",
    b"\r\nX-Injected: 1",
    b"-1",
    b"0",
    b"9" * 40,
    b"1e400",
    b"x" * 5000,
    b"' OR 1=1 --",
    b"'; DROP TABLE nodes; --",
    b"%' ESCAPE '",
    b"{{7*7}}${7*7}<%= 7*7 %>",
    b"${jndi:ldap://x/a}",
    b"{0.__class__}%s%n%x",
    b"$(id)`id`|id",
    "節😀\u202e".encode(),
    b"[]",
    b"null",
    b"*",
    b".",
    b"..",
    b"~",
    population.UUID.upper().encode(),
    population.UUID.replace("-", "").encode(),
    b"urn:uuid:" + population.UUID.encode(),
    b"{" + population.UUID.encode() + b"}",
)
#: Texts in JSON, as they are written there.
TEXTS = (
    '""',
    '"\\u0000"',
    '"\\ud800"',
    '"\\udfff\\ud800"',
    '"\\u202e\\u200b"',
    '"节点 😀"',
    json.dumps("x" * 70000),
    json.dumps("' OR 1=1 --"),
    json.dumps("'; DROP TABLE nodes; --"),
    json.dumps("{{7*7}} ${7*7} <%= 7*7 %> {% raw %}"),
    json.dumps("{0.__class__.__mro__} %s %(a)s %n"),
    json.dumps("$(id) `id` | id"),
    json.dumps("file:///etc/passwd"),
    json.dumps("http://[::1"),
    json.dumps("http://user:pw@host:99999/\n"),
    json.dumps("\r\nX: 1"),
    json.dumps(population.UUID),
    json.dumps("fake-hardware"),
    json.dumps("fake"),
)
NUMBERS = (
    "0",
    "-0",
    "-1",
    "1.5",
    "1e308",
    "1e400",
    "-1e400",
    "5E-324",
    "NaN",
    "Infinity",
    str(2**31),
    str(2**63),
    str(2**64 - 1),
    str(2**64),
    str(-(2**63) - 1),
    "9" * 400,
    "9" * 5000,
)
DEEP = (
    "[" * 23 + "]" * 23,
    "[" * 26 + "]" * 26,
    "[" * 2000 + "]" * 2000,
    '{"a":' * 23 + "1" + "}" * 23,
    '{"a":' * 30 + "1" + "}" * 30,
    '{"a":[' * 1000 + "]}" * 1000,
    "[" * 100_000,
)
WORDS = ("true", "false", "null", "[]", "{}", "[null]", '[""]', "[{}]", "[[1]]")
KEYS = ('""', '"\\u0000"', '"\\ud800"', '"__proto__"', '"__class__"', '"a.b"', '"~1"', '"x"')
#: Headers that something on the way reads.
HEADERS = (
    HEADER,
    "OpenStack-API-Version",
    "Accept",
    "Accept-Language",
    "Content-Type",
    "Content-Length",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "Range",
    "Host",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "X-OpenStack-Request-Id",
    "X-Auth-Token",
    "X-User",
    "X-Project-Id",
    "X-Roles",
    "Authorization",
    "Cookie",
    "Origin",
    "Expect",
    "Transfer-Encoding",
)
VALUES = (
    "",
    " ",
    ",",
    "*",
    "*/*;q=x",
    "application/json;charset=utf-7",
    "text/html",
    "1.1",
    "1.-1",
    "1." + "9" * 400,
    "9" * 400 + ".1",
    "٣.٤",
    "baremetal",
    "baremetal 1.1, baremetal 1.2",
    "latest",
    "-1",
    "9" * 40,
    '"',
    'W/"',
    '"x", *',
    "bytes=0-",
    "Basic !!!",
    "Basic Og==",
    "x" * 9000,
    "\xff\xfe",
    "%00",
    "{{7*7}}",
    "req-' OR 1=1",
    "http://[::1",
    "a\tb",
    "chunked",
)
SCALARS = st.sampled_from((*TEXTS, *NUMBERS, *WORDS))
#: JSON texts, hostile at the leaves and in the keys.
VALUES_OF_KEYS = st.recursive(
    SCALARS | st.sampled_from(DEEP),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=2).map(
            lambda items: "{" + ",".join(f"{k}:{v}" for k, v in items.items()) + "}"
        ),
    ),
    max_leaves=4,
)


def known_keys(route: Route) -> list[str]:
    """Return keys that bodies of the operation may have."""
    names = {arg.name for arg in route.args} | {"id", "traits", "logical_disks", "inventory"}
    for document in (route.body, route.answer):
        if isinstance(document, New | Patch | Whole | Chosen | Listing):
            names |= set(document.table.by_name)
    return sorted(names)


@st.composite
def bodies(draw: st.DrawFn, route: Route) -> bytes:
    """Return a body: of known keys with hostile values, or nothing of that kind."""
    names = st.sampled_from(known_keys(route))
    if isinstance(route.body, Patch):
        ops = []
        for _ in range(draw(st.integers(0, 3))):
            root = draw(names)
            tail = draw(st.sampled_from(("", "/a", "/-", "/0/b", "/~1", "/~2", "/" * 40, "/é")))
            name = draw(st.sampled_from(('"add"', '"replace"', '"remove"', '"move"', "1", "[]")))
            path = draw(st.just(json.dumps(f"/{root}{tail}")) | SCALARS)
            ops.append(f'{{"op":{name},"path":{path},"value":{draw(VALUES_OF_KEYS)}}}')
        written = f"[{','.join(ops)}]"
    else:
        keys = draw(st.lists(names.map(json.dumps) | st.sampled_from(KEYS), max_size=4))
        written = "{" + ",".join(f"{key}:{draw(VALUES_OF_KEYS)}" for key in keys) + "}"
    raw = written.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 9)):
        return raw
    return draw(
        VALUES_OF_KEYS.map(str.encode)
        | st.binary(max_size=20)
        | st.integers(0, len(raw)).map(lambda end: raw[:end])
    )


def segment(raw: bytes) -> str:
    return quote(raw, safe="/." if raw.startswith(b".") else "/")


@st.composite
def requests(draw: st.DrawFn, route: Route) -> webob.Request:
    """Return a request that is good but for what is hostile in it."""
    hostile = st.sampled_from(BYTES)
    where = draw(st.sets(st.sampled_from(("path", "query", "headers", "body")), min_size=1))
    path = population.path(route.path)
    if "path" in where and "{" in route.path:
        path = "/".join(
            segment(draw(hostile)) or "%20"
            if part.startswith("{") and draw(st.booleans())
            else population.path(part)
            for part in route.path.split("/")
        )
    query = []
    if "query" in where:
        names = [arg.name.encode() for arg in route.args] or [b"x"]
        for name in draw(st.lists(st.sampled_from(names) | hostile, max_size=3)):
            query.append(f"{quote(name)}={quote(draw(hostile))}")
    method = draw(st.sampled_from(("GET", "POST"))) if route.method == ANY_METHOD else route.method
    request = webob.Request.blank(f"{path}?{'&'.join(query)}" if query else path, method=method)
    request.headers[HEADER] = text(draw(st.just(MAXIMUM) | st.integers(1, MAXIMUM)))
    if "body" in where:
        request.body = draw(bodies(route))
        request.content_type = "application/json"
    if "headers" in where:
        for name in draw(st.lists(st.sampled_from(HEADERS), max_size=3, unique=True)):
            value = draw(st.sampled_from(VALUES) | hostile.map(lambda raw: raw.decode("latin-1")))
            request.environ[_key(name)] = value.replace("\r", "").replace("\n", "")
    return request


def _key(header: str) -> str:
    name = header.upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


@pytest.mark.parametrize("route", ROUTES, ids=lambda r: f"{r.method} {r.path}")
def test_nothing_that_a_client_sends_is_an_error_of_the_service(
    route: Route, shared_api: Client
) -> None:
    population.populate()

    @BOUNDED
    @hypothesis.given(request=requests(route))
    def run(request: webob.Request) -> None:
        answer = request.get_response(shared_api.app)
        assert answer.status_int < 500, answer.text

    run()
