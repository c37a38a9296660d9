"""What may be written: fields of creations and patches, by the tables, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ironic_rs.api import openapi
from ironic_rs.api.documents import New, Patch
from ironic_rs.api.microversions import MAXIMUM, text
from ironic_rs.api.router import Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.domain.fields import Field
from ironic_rs.domain.fields.kinds import Array, Boolean, Integer, Mac, Object, Uuid
from tests.functional.api import population
from tests.functional.api.harness import Client

DESCRIBED = openapi.described(ROUTES, MAXIMUM)
CREATING = [r for r in DESCRIBED if isinstance(r.body, New)]
PATCHING = [r for r in DESCRIBED if isinstance(r.body, Patch)]
NEW_UUID = "3be26c0b-03f2-4d2e-ae87-c02d7f33c123"
STEP = {"interface": "deploy", "step": "s", "args": {}}

#: The least that makes one.
LEAST: Mapping[str, Mapping[str, Any]] = {
    "node": {"driver": "fake-hardware"},
    "port": {"address": "52:54:00:00:00:02", "node_uuid": population.UUID},
    "portgroup": {"node_uuid": population.UUID},
    "chassis": {},
    "volume connector": {
        "node_uuid": population.UUID,
        "type": "wwpn",
        "connector_id": "c2",
    },
    "volume target": {
        "node_uuid": population.UUID,
        "volume_type": "iscsi",
        "volume_id": "v2",
        "boot_index": 1,
    },
    "allocation": {"resource_class": "rc"},
    "deploy template": {"name": "CUSTOM_T", "steps": [{**STEP, "priority": 1}]},
    "runbook": {"name": "CUSTOM_T", "steps": [{**STEP, "order": 1}]},
    "inspection rule": {"actions": [{"op": "fail", "args": {"msg": "no"}}]},
}
#: Good values where the kind does not say one, by resource and field, or by field.
GOOD: Mapping[Any, Any] = {
    "uuid": NEW_UUID,
    "driver": "fake-hardware",
    "network_interface": "noop",
    "storage_interface": "noop",
    "boot_mode": "uefi",
    "conductor_group": "",
    "parent_node": population.OTHER,
    "network_data": {"links": [], "networks": [], "services": []},
    "chassis_uuid": population.UUID,
    "node_uuid": population.UUID,
    "portgroup_uuid": population.UUID,
    "instance_uuid": NEW_UUID,
    "address": "52:54:00:00:00:03",
    "local_link_connection": {"port_id": "1", "switch_id": "52:54:00:00:00:04"},
    "mode": "802.3ad",
    "phase": "main",
    "candidate_nodes": [population.UUID],
    "traits": ["CUSTOM_B"],
    ("port", "is_smartnic"): False,
    ("port", "node_ident"): "n1",
    ("allocation", "node"): population.CHILD,
    ("deploy template", "name"): "CUSTOM_U",
    ("deploy template", "steps"): [{**STEP, "priority": 2}],
    ("runbook", "name"): "CUSTOM_U",
    ("runbook", "steps"): [{**STEP, "order": 2}],
    ("inspection rule", "actions"): [{"op": "log", "args": {"msg": "no"}}],
    ("inspection rule", "conditions"): [{"op": "is-true", "args": {"value": "x"}}],
}
#: Taken before their version (rest-api.md section 15, wart 19): others rely on it.
UNGATED_NEW = {("portgroup", "physical_network"), ("portgroup", "category")}
UNGATED_PATCH = UNGATED_NEW | {
    ("port", name)
    for name in (
        "name",
        "description",
        "vendor",
        "category",
        "available_for_dynamic_portgroup",
    )
}
#: Answered 400, not 406, before their version.
UNKNOWN_BEFORE = {("allocation", "node"), ("runbook", "description")}
#: Patches of fields that are there but can not be patched change nothing (section 11.10).
IGNORING = {"inspection rule"}
#: Without Keystone these belong to nobody.
NOT_SET = {("node", "owner"), ("runbook", "owner")}
#: Patches that need another state of the node, and with which code they are refused.
NOT_NOW: Mapping[tuple[str, str], str] = {
    ("node", "protected"): "invalid_state",
    ("node", "protected_reason"): "invalid_parameter_value",
    ("node", "retired_reason"): "invalid_parameter_value",
}


def good(resource: str, row: Field) -> Any:
    """Return a value that the field takes."""
    for key in ((resource, row.name), row.name):
        if key in GOOD:
            return GOOD[key]
    if row.name.endswith("_interface"):
        return "fake"
    kinds: Mapping[type, Any] = {
        Boolean: True,
        Object: {"a": 1},
        Integer: 5,
        Mac: "52:54:00:00:00:05",
        Uuid: NEW_UUID,
        Array: [],
    }
    for kind, value in kinds.items():
        if isinstance(row.kind, kind):
            return value
    return "abc"


def cases(routes: list[Route], letter: str) -> list[Any]:
    return [
        pytest.param(route, row, id=f"{route.method} {route.path} {row.name}")
        for route in routes
        for row in route.body.table.rows  # type: ignore[union-attr]
        if letter in row.use
    ]


@pytest.fixture(autouse=True)
def populated(shared_api: Client) -> Client:
    population.populate()
    return shared_api


def least(resource: str, row: Field) -> dict[str, Any]:
    body = dict(LEAST[resource])
    if (resource, row.name) == ("port", "node_ident"):
        del body["node_uuid"]
    if (resource, row.name) == ("allocation", "node"):
        body = {}
    body[row.name] = good(resource, row)
    if row.name == "retired_reason":
        body["retired"] = True
    return body


@pytest.mark.parametrize(("route", "row"), cases(CREATING, "C"))
def test_a_field_can_be_set_on_creation_from_its_version_on(
    route: Route, row: Field, populated: Client
) -> None:
    resource = route.body.table.resource  # type: ignore[union-attr]
    body = least(resource, row)
    since = max(route.since, row.since)
    answer = populated.at(text(since)).post(route.path, body)
    if (resource, row.name) in NOT_SET:
        assert answer.fault["errorcode"] == "invalid_parameter_value"
        return
    assert answer.status == 201, answer.body
    if row.detailed and row.name not in ("uuid", "actions", "conditions", "steps"):
        assert answer.body[row.name] == body[row.name]
    if since == route.since:
        return
    population.populate()
    before = populated.at(text(since - 1)).post(route.path, body)
    if (resource, row.name) in UNGATED_NEW:
        assert before.status == 201
    else:
        assert before.status == (400 if (resource, row.name) in UNKNOWN_BEFORE else 406)
        assert row.name in before.text


@pytest.mark.parametrize("route", CREATING, ids=lambda r: r.path)
def test_nothing_else_can_be_set_on_creation(route: Route, populated: Client) -> None:
    table = route.body.table  # type: ignore[union-attr]
    for name in [f.name for f in table.rows if not f.creatable] + ["bogus", "id"]:
        answer = populated.post(route.path, {**LEAST[table.resource], name: "x"})
        assert answer.status == 400, name
        assert name in answer.text


@pytest.mark.parametrize("route", CREATING, ids=lambda r: r.path)
def test_what_is_required_is_named(route: Route, populated: Client) -> None:
    table = route.body.table  # type: ignore[union-attr]
    for row in table.rows:
        if row.required:
            body = {k: v for k, v in LEAST[table.resource].items() if k != row.name}
            for missing in (body, {**body, row.name: None}):
                answer = populated.post(route.path, missing)
                assert (answer.status, row.name in answer.text) == (400, True), answer.body


def patched(client: Client, route: Route, minor: int, *ops: dict[str, Any]) -> Any:
    return client.at(text(minor)).patch(population.path(route.path), list(ops))


@pytest.mark.parametrize(("route", "row"), cases(PATCHING, "P"))
def test_a_field_can_be_patched_from_its_version_on(
    route: Route, row: Field, populated: Client
) -> None:
    resource = route.body.table.resource  # type: ignore[union-attr]
    op = {"op": "replace", "path": f"/{row.name}", "value": good(resource, row)}
    since = max(route.since, row.since)
    answer = patched(populated, route, since, op)
    code = NOT_NOW.get((resource, row.name))
    if code is not None:
        assert answer.fault["errorcode"] == code, answer.body
    else:
        assert answer.status == 200, answer.body
        if row.detailed and row.name not in ("actions", "conditions", "steps"):
            assert answer.body[row.name] == op["value"]
    if since == route.since:
        return
    population.populate()
    before = patched(populated, route, since - 1, op)
    if (resource, row.name) in UNGATED_PATCH:
        assert before.status == 200, before.body
    else:
        assert before.status == (400 if (resource, row.name) in UNKNOWN_BEFORE else 406)
        assert row.name in before.text


@pytest.mark.parametrize("route", PATCHING, ids=lambda r: r.path)
def test_nothing_else_can_be_patched(route: Route, populated: Client) -> None:
    table = route.body.table  # type: ignore[union-attr]
    names = ["bogus"]
    if table.resource not in IGNORING:
        names += ["id", *(f.name for f in table.rows if not f.patchable)]
    for name in names:
        for op in (
            {"op": "add", "path": f"/{name}", "value": "x"},
            {"op": "remove", "path": f"/{name}"},
            {"op": "add", "path": f"/{name}/x", "value": "x"},
        ):
            answer = patched(populated, route, MAXIMUM, op)
            assert answer.status == 400, (op, answer.body)
            assert name in answer.text


@pytest.mark.parametrize("route", PATCHING, ids=lambda r: r.path)
def test_an_empty_patch_changes_nothing(route: Route, populated: Client) -> None:
    path = population.path(route.path)
    before = populated.get(path).body
    answer = populated.patch(path, [])
    assert answer.status == 200
    changing = {"updated_at", "reservation"}
    assert {k: v for k, v in answer.body.items() if k not in changing} == {
        k: v for k, v in before.items() if k not in changing
    }
