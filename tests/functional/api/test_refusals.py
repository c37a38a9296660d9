"""Refusals say what was wrong: the name, the value, and what would be accepted.

Made from the route table and the field tables, so that new arguments and fields are covered.
"""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.api.routes import ROUTES
from ironic_rs.domain import fields
from ironic_rs.domain.fields import show
from tests.functional.api.harness import Answer, Client
from tests.functional.api.test_malformed import BAD_VALUES, DOCUMENTS, KEYS, _methods, _paths

#: Beginnings of texts that speak of what follows from several values, or that clients know.
OF_SEVERAL = (
    "Agent token is required",
    "At least one of 'addresses' and 'node_uuid'",
    "Cannot create a node for the project",
    "Cannot create a runbook for the project",
    "Could not find the following interface",
    "Exactly one of node_uuid",
    "Invalid event",
    "Invalid network_data, at",
    "Invalid trait",
    "Mandatory",
    "Node -1 could not be found",
    "Node n1 could not be found",
    "Node 1be26c0b-03f2-4d2e-ae87-c02d7f33c123 could not be found",
    "No valid host was found",
    "A smart NIC port",
    "Boot device",
    "RAID configuration is not valid at",
    "The inventory",
    "The request body must be",
    "The resource_class of an allocation is mandatory",
    "The vendor method is missing",
    "Unexpected field(s)",
    "Unknown argument(s)",
    "Unknown key",
)
ARGUMENTS = [route for route in ROUTES if route.args]


def complete(answer: Answer, name: str, value: Any) -> bool:
    """Tell whether a refusal of a value says all."""
    if answer.status != 400 or "faultstring" not in answer.fault:
        return True
    text = answer.text
    shown = show(value)[:40].strip("'")
    return (name in text and shown in text and "accepted" in text) or text.startswith(OF_SEVERAL)


@pytest.mark.parametrize("route", ARGUMENTS, ids=lambda r: f"{r.method} {r.path}")
def test_refused_arguments_are_named_with_value_and_what_is_accepted(
    route: Any, shared_api: Client
) -> None:
    method, path = _methods(route)[0], _paths(route)[0]
    for arg in route.args:
        for bad in ("-1", "x" * 300, "a b/", "null!"):
            answer = shared_api.request(method, f"{path}?{arg.name}={bad}")
            assert complete(answer, arg.name, bad), (arg.name, bad, answer.text)
        if route.body == "args":
            for value in BAD_VALUES:
                answer = shared_api.request(method, path, {arg.name: value})
                assert complete(answer, arg.name, value), (arg.name, value, answer.text)


@pytest.mark.parametrize(("method", "path", "document"), DOCUMENTS)
def test_refused_fields_are_named_with_value_and_what_is_accepted(
    method: str, path: str, document: dict[str, Any], shared_api: Client
) -> None:
    names = set(document)
    if path in KEYS:
        names |= set(fields.TABLES[KEYS[path]].by_name)
    for name in sorted(names):
        for value in BAD_VALUES:
            answer = shared_api.request(method, path, {**document, name: value})
            assert complete(answer, name, value), (name, value, answer.text)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/v1/nodes?limit=0", ("limit", "0", "accepted")),
        ("/v1/nodes?sort_dir=up", ("sort_dir", "'up'", "one of asc, desc")),
        ("/v1/nodes?sort_key=bogus", ("sort_key", "'bogus'", "accepted: id, uuid")),
        ("/v1/nodes?fields=uuid,bogus", ("fields", "bogus", "accepted: ")),
        ("/v1/nodes?bogus=1", ("bogus", "accepted here: chassis_uuid")),
        ("/v1/nodes?provision_state=x", ("provision_state", "'x'", "one of ")),
    ],
)
def test_refusals_of_lists(shared_api: Client, path: str, values: tuple[str, ...]) -> None:
    answer = shared_api.get(path)
    assert answer.status == 400
    for value in values:
        assert value in answer.text, answer.text


@pytest.mark.parametrize(
    ("method", "path", "status", "texts"),
    [
        ("GET", "/v1/nosuch", 404, ("nothing at /v1/nosuch", "allocations, chassis, conductors")),
        ("GET", "/nosuch/%0Aabc", 404, ("/nosuch/\\nabc",)),
        ("GET", "/v1/nodes/n1/bogus", 404, ("nothing at /v1/nodes/n1/bogus", "bios, children")),
        ("GET", "/v1/nodes/n1/states/power/x", 404, ("nothing at",)),
        ("GET", "/v1/nodes/vifs", 404, ("'vifs' is a part of nodes", "/v1/nodes/NODE/vifs")),
        ("PUT", "/v1/nodes", 405, ("PUT is not possible at /v1/nodes", "accepted: GET, POST")),
        ("DELETE", "/v1", 405, ("DELETE is not possible at /v1", "accepted: GET")),
        ("PUT", "/v1/nodes/n1/states/x", 405, ("boot_mode, console, power",)),
        ("GET", "/v1/nodes/a b", 400, ("Expected UUID or name for node: a b",)),
    ],
)
def test_the_router_says_what_there_is_in_its_own_form(
    shared_api: Client, method: str, path: str, status: int, texts: tuple[str, ...]
) -> None:
    answer = shared_api.request(method, path)
    assert answer.status == status
    inner = answer.fault
    assert set(inner) == {"code", "title", "description", "errorcode"}
    assert inner["code"] == status
    for text in texts:
        assert text in inner["description"], inner


def test_an_operation_of_a_newer_version_says_which(shared_api: Client) -> None:
    answer = shared_api.at("1.91").post("/v1/runbooks", {})
    assert (answer.status, answer.fault["errorcode"]) == (405, "method_not_allowed")
    assert "needs API version 1.92 or newer; the request uses 1.91" in answer.text
