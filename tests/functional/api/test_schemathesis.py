"""Schemathesis over the served description: what is answered is what is described.

Every operation of three versions runs against the application and a conductor with
fake hardware, most of the time on things that exist.  Three requests in four are such
as the description allows, the others break it and must be refused.
IRONIC_RS_EXAMPLES is the number of requests an operation and version (in long runs
200 and more).
"""

from __future__ import annotations

import functools
import os
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode

from ironic_rs.api import openapi
from ironic_rs.api.documents import Patch
from ironic_rs.api.microversions import HEADER, text
from ironic_rs.api.router import ANY_METHOD, Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.domain.fields import INTERFACE_FIELDS
from tests.functional.api import population
from tests.functional.api.harness import Client

EXAMPLES = int(os.environ.get("IRONIC_RS_EXAMPLES", "8"))
VERSIONS = (1, 61, 115)
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
BOUNDED = hypothesis.settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
OPERATIONS = [
    pytest.param(minor, route, id=f"{text(minor)} {route.method} {route.path}")
    for minor in VERSIONS
    for route in openapi.described(ROUTES, minor)
]
#: Values of keys that name something, by key.
KNOWN: dict[str, Any] = {
    "driver": "fake-hardware",
    "name": "new-name",
    "node": population.UUID,
    "node_ident": "n1",
    "node_uuid": population.UUID,
    "chassis_uuid": population.UUID,
    "portgroup_uuid": population.UUID,
    "parent_node": population.CHILD,
    "boot_device": "pxe",
    "traits": [population.TRAIT],
    "runbook": population.UUID,
    **dict.fromkeys(set(INTERFACE_FIELDS) - {"network_interface"}, "fake"),
}


@functools.cache
def described(minor: int) -> Any:
    """Return the description as Schemathesis reads it."""
    document = openapi.describe(ROUTES, minor, openapi.Settings("noauth"))
    return schemathesis.openapi.from_dict(document)


@st.composite
def requests(draw: st.DrawFn, minor: int, route: Route) -> Any:
    """Return a request of an operation, mostly for what is there."""
    verb = "GET" if route.method == ANY_METHOD else route.method
    operation = described(minor)[route.path][verb]
    good = bool(draw(st.integers(0, 3)))
    mode = GenerationMode.POSITIVE if good else GenerationMode.NEGATIVE
    case = draw(operation.as_strategy(generation_mode=mode))
    # Another version is another description.
    case.headers = {**(case.headers or {}), HEADER: text(minor)}
    if draw(st.integers(0, 3)):
        parts = case.path_parameters or {}
        case.path_parameters = {**parts, **{name: population.PARTS[name] for name in parts}}
    if good and draw(st.booleans()):
        case.body = draw(likely(case.body, route, minor))
    return case, good


def likely(body: Any, route: Route, minor: int) -> st.SearchStrategy[Any]:
    """Return the body with values that lead further than chance does."""
    if isinstance(route.body, Patch):
        return st.lists(operations(route.body, minor), max_size=3)
    if isinstance(body, dict):
        return st.just({key: KNOWN.get(key, value) for key, value in body.items()})
    return st.just(body)


@st.composite
def operations(draw: st.DrawFn, document: Patch, minor: int) -> dict[str, Any]:
    """Return an operation of a patch with a value of the kind of its field."""
    rows = [f for f in document.table.rows if f.patchable and f.since <= minor]
    row = draw(st.sampled_from(rows))
    schema = row.schema
    below = schema.get("type") == "object" and draw(st.booleans())
    op = {"op": draw(st.sampled_from(["add", "replace", "remove"])), "path": f"/{row.name}"}
    if below:
        op["path"] += "/a"
    if op["op"] != "remove":
        values = st.integers() if below else from_schema(schema)
        op["value"] = KNOWN.get(row.name, draw(values))
    return op


def from_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of the schema of a field."""
    kinds = schema.get("type", [])
    simple: dict[str, st.SearchStrategy[Any]] = {
        "null": st.none(),
        "boolean": st.booleans(),
        "integer": st.integers(schema.get("minimum", 0), schema.get("maximum", 9)),
        "object": st.dictionaries(st.text("ab", max_size=2), st.integers(), max_size=2),
        "array": st.just([]),
        "string": st.text("abc", max_size=20)
        if schema.get("format") != "uuid"
        else st.uuids().map(str),
    }
    return st.one_of([simple[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds)])


def tolerated(case: Any) -> bool:
    """Tell whether a list of names has empty items, which are dropped."""
    names = (case.query or {}).get("fields", "x")
    return not names or "" in (names if isinstance(names, list) else str(names).split(","))


@pytest.mark.parametrize(("minor", "route"), OPERATIONS)
def test_the_answers_are_those_that_are_described(
    minor: int, route: Route, shared_api: Client
) -> None:
    population.populate()

    @BOUNDED
    @hypothesis.given(request=requests(minor, route))
    def run(request: Any) -> None:
        case, good = request
        response = case.call(base_url="http://localhost", app=shared_api.app)
        refused = [] if good or tolerated(case) else [checks.negative_data_rejection]
        case.validate_response(response, checks=[*CHECKS, *refused])

    run()
