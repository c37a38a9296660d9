"""Whatever a client sends, the answer is never a 5xx (field case K01).

The requests are made from the route table, so that a new route is covered by being
in it.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from ironic_rs.api.router import ANY_METHOD, Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.db import allocations, nodes
from ironic_rs.domain import fields, inspection_rules
from tests.functional.api.harness import Client

BAD_SEGMENTS = (
    "a b",
    "%00",
    "%ff",
    "..%2f",
    "节点",
    "1be26c0b-03f2-4d2e-ae87-c02d7f33c12",
    "00000000-0000-0000-0000-000000000000",
    "x" * 300,
    "-1",
    "9" * 40,
)
BAD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**63,
    2**64 - 1,
    "",
    " ",
    "\x00",
    "x" * 5000,
    "节点 😀",
    [],
    [None],
    [[]],
    {},
    {"": {}},
    {"a": {"b": [1, None, {}]}},
)
BAD_BODIES: tuple[bytes, ...] = (
    b"{",
    b"nonsense",
    b"[]",
    b"null",
    b'"text"',
    b"5",
    b"true",
    b"[null]",
    b"[1, 2]",
    b"[[]]",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e999}',
    b'{"a": "\\ud800"}',
    b'{"\\ud800": 1}',
    b"\xff\xfe",
    b'{"a": 123456789012345678901234567890}',
    b'{"a": -123456789012345678901234567890}',
    b'[{"op": "add", "path": "/extra/a", "value": 123456789012345678901234567890}]',
    b'{"a": ' + b"9" * 6000 + b"}",
    b"[" * 30 + b"]" * 30,
    b"[" * 100_000,
    b'{"a":' * 26 + b"1" + b"}" * 26,
)

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"

TEMPLATE = {
    "name": "CUSTOM_A",
    "steps": [{"interface": "deploy", "step": "x", "args": {}, "priority": 1}],
}
RUNBOOK = {"name": "CUSTOM_A", "steps": [{"interface": "deploy", "step": "x", "order": 1}]}

RULE = {
    "actions": [{"op": "log", "args": {"msg": "x"}, "loop": [1]}],
    "conditions": [{"op": "is-true", "args": {"value": "x"}, "loop": [1]}],
}
EVENT = {
    "event": "network.bind_port",
    "port_id": UUID,
    "mac_address": "52:54:00:00:00:02",
    "status": "ACTIVE",
}


TARGET = {"volume_type": "iscsi", "boot_index": 0, "volume_id": "v", "uuid": UUID}


def _methods(route: Route) -> tuple[str, ...]:
    return ("GET", "POST") if route.method == ANY_METHOD else (route.method,)


def _paths(route: Route) -> list[str]:
    """The path with a good node and each bad segment in turn."""
    names = re.findall(r"{(\w+)}", route.path)
    good = {
        "node": "n1",
        "chassis": UUID,
        "port": "p1",
        "portgroup": "pg1",
        "uuid": UUID,
        "rule": UUID,
        "template": "CUSTOM_A",
        "runbook": "CUSTOM_A",
        "connector": UUID,
        "target": UUID,
        "allocation": "a1",
    }
    plain = {name: good.get(name, "x") for name in names}
    paths = [route.path.format(**plain)]
    for name in names:
        paths += [route.path.format(**{**plain, name: bad}) for bad in BAD_SEGMENTS]
    return paths


def _ok(answer: Any, what: Any) -> None:
    assert answer.status < 500, (answer.status, answer.body, what)
    if answer.status >= 400 and answer.raw:
        assert isinstance(answer.body, dict), (answer.raw, what)
        assert answer.headers["X-OpenStack-Ironic-Error-Code"], what


def routes() -> list[Any]:
    return [pytest.param(r, id=f"{r.method} {r.path}") for r in ROUTES]


@pytest.fixture(scope="module")
def filled(shared_api: Client) -> Client:
    """An API with one of most things."""
    api = shared_api
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"}).status == 201
    node = api.get("/v1/nodes/n1").body["uuid"]
    group = api.post("/v1/portgroups", {"node_uuid": node, "name": "pg1"})
    assert group.status == 201, group.body
    port = {"node_uuid": node, "address": "52:54:00:00:00:01", "name": "p1"}
    assert api.post("/v1/ports", port).status == 201
    assert api.post("/v1/chassis", {"uuid": UUID}).status == 201
    assert api.post("/v1/deploy_templates", TEMPLATE).status == 201
    assert api.post("/v1/runbooks", RUNBOOK).status == 201
    assert api.post("/v1/inspection_rules", {**RULE, "uuid": UUID}).status == 201
    connector = {"node_uuid": node, "type": "iqn", "connector_id": "x", "uuid": UUID}
    assert api.post("/v1/volume/connectors", connector).status == 201
    assert api.post("/v1/volume/targets", {**TARGET, "node_uuid": node}).status == 201
    created = nodes.get_by_ident("n1")
    nodes.update(created, {"power_state": "power off"}, fence=None)
    allocations.create({"name": "a1", "resource_class": "gold", "state": "error"})
    return api


@pytest.mark.parametrize("route", routes())
def test_bad_paths_and_bodies_are_client_errors(route: Route, filled: Client) -> None:
    for method in _methods(route):
        if method != "DELETE":
            for raw in BAD_BODIES:
                path = _paths(route)[0]
                answer = filled.request(method, path, raw=raw)
                _ok(answer, (method, path, raw[:60]))
                if route.body is None and raw not in (b"[]", b"null"):
                    assert answer.status >= 400, (method, path, raw[:60], answer.body)
        for path in _paths(route)[1:]:
            body = {} if route.body else None
            _ok(filled.request(method, path, body), (method, path))


@pytest.mark.parametrize(
    "route", [r for r in ROUTES if r.args], ids=lambda r: f"{r.method} {r.path}"
)
def test_bad_arguments_are_client_errors(route: Route, filled: Client) -> None:
    method, path = _methods(route)[0], _paths(route)[0]
    for arg in route.args:
        for bad in ("", "%00", "%ff", "-1", "0", "x" * 3000, "9" * 30, "a&{0}=b", "節", "null"):
            query = f"{path}?{arg.name}={bad.format(arg.name)}"
            _ok(filled.request(method, query), query)
        if route.body == "args":
            for value in BAD_VALUES:
                _ok(filled.request(method, path, {arg.name: value}), (path, arg.name, value))
    _ok(filled.request(method, f"{path}?bogus=1"), path)
    assert filled.request(method, f"{path}?bogus=1").status in (400, 403, 404)


DOCUMENTS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "/v1/nodes", {"driver": "fake-hardware"}),
    ("POST", "/v1/ports", {"address": "52:54:00:00:00:02", "node_ident": "n1"}),
    ("POST", "/v1/portgroups", {}),
    ("POST", "/v1/chassis", {}),
    ("POST", "/v1/deploy_templates", {**TEMPLATE, "name": "CUSTOM_B"}),
    ("POST", "/v1/runbooks", {**RUNBOOK, "name": "CUSTOM_B"}),
    ("PUT", "/v1/runbooks/CUSTOM_A/traits", {"traits": []}),
    ("POST", "/v1/inspection_rules", RULE),
    ("POST", "/v1/events", {"events": [EVENT]}),
    (
        "POST",
        "/v1/volume/connectors",
        {"node_uuid": UUID, "type": "iqn", "connector_id": "y"},
    ),
    ("POST", "/v1/volume/targets", {**TARGET, "node_uuid": UUID, "boot_index": 1}),
    ("POST", "/v1/allocations", {"resource_class": "gold"}),
    ("POST", "/v1/nodes/n1/vmedia", {"device_type": "cdrom", "image_url": "http://a/b"}),
    ("POST", "/v1/nodes/n1/vifs", {"id": "x"}),
    ("PUT", "/v1/nodes/n1/traits", {"traits": []}),
    ("PUT", "/v1/nodes/n1/states/raid", {"logical_disks": [{"raid_level": "1", "size_gb": 5}]}),
    ("POST", "/v1/continue_inspection", {"inventory": {"interfaces": [{"mac_address": "x"}]}}),
)
KEYS = {
    "/v1/nodes": "node",
    "/v1/ports": "port",
    "/v1/portgroups": "portgroup",
    "/v1/chassis": "chassis",
    "/v1/deploy_templates": "deploy template",
    "/v1/runbooks": "runbook",
    "/v1/inspection_rules": "inspection rule",
    "/v1/volume/connectors": "volume connector",
    "/v1/volume/targets": "volume target",
    "/v1/allocations": "allocation",
}


@pytest.mark.parametrize(("method", "path", "document"), DOCUMENTS)
def test_bad_values_of_documents_are_client_errors(
    method: str, path: str, document: dict[str, Any], filled: Client
) -> None:
    keys = set(document) | {"bogus", "\x00"}
    if path in KEYS:
        keys |= set(fields.TABLES[KEYS[path]].by_name)
    for key in sorted(keys):
        for value in BAD_VALUES:
            body = {**document, key: value}
            _ok(filled.request(method, path, body), (key, value))


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/v1/nodes/n1", "node"),
        ("/v1/ports/p1", "port"),
        ("/v1/portgroups/pg1", "portgroup"),
        (f"/v1/chassis/{UUID}", "chassis"),
        ("/v1/deploy_templates/CUSTOM_A", "deploy template"),
        ("/v1/runbooks/CUSTOM_A", "runbook"),
        (f"/v1/inspection_rules/{UUID}", "inspection rule"),
        (f"/v1/volume/connectors/{UUID}", "volume connector"),
        (f"/v1/volume/targets/{UUID}", "volume target"),
        ("/v1/allocations/a1", "allocation"),
    ],
)
def test_bad_patches_are_client_errors(path: str, resource: str, filled: Client) -> None:
    collection, name = path.rsplit("/", 1)
    path = f"{collection}/{filled.get(path).body['uuid']}"
    try:
        _patch_badly(filled, path, resource)
    finally:
        if name != UUID:
            restored = filled.patch(path, [{"op": "add", "path": "/name", "value": name}])
            assert restored.status == 200, restored.body


def _patch_badly(filled: Client, path: str, resource: str) -> None:
    for name in sorted(fields.TABLES[resource].by_name):
        patches = [
            {"op": op, "path": f"/{name}{tail}", "value": value}
            for op in ("add", "replace")
            for tail, values in (("", BAD_VALUES), ("/x", BAD_VALUES[:2]), ("/-/0", BAD_VALUES[:1]))
            for value in values
            if op == "add" or tail
        ]
        patches += [{"op": "remove", "path": f"/{name}{tail}"} for tail in ("/x", "")]
        for patch in patches:
            _ok(filled.patch(path, [patch]), patch)


@pytest.mark.parametrize("key", ["op", "args", "loop", "multiple", "bogus"])
@pytest.mark.parametrize("kind", ["actions", "conditions"])
def test_bad_operations_of_rules_are_client_errors(kind: str, key: str, filled: Client) -> None:
    for value in BAD_VALUES:
        body: dict[str, Any] = {**RULE, kind: [{**RULE[kind][0], key: value}]}
        _ok(filled.post("/v1/inspection_rules", body), (kind, key, value))


@pytest.mark.parametrize("op", sorted({*inspection_rules.OPERATORS, *inspection_rules.ACTIONS}))
def test_bad_arguments_of_rules_are_client_errors(op: str, filled: Client) -> None:
    kind = "actions" if op in inspection_rules.ACTIONS else "conditions"
    operations = getattr(inspection_rules, "ACTIONS" if kind == "actions" else "OPERATORS")
    names = [argument.name for argument in operations[op].arguments]
    for name in names:
        for value in BAD_VALUES:
            args = {**dict.fromkeys(names, "extra"), name: value}
            body: dict[str, Any] = {**RULE, kind: [{"op": op, "args": args}]}
            _ok(filled.post("/v1/inspection_rules", body), (op, args))
    for value in BAD_VALUES:
        body = {"events": [{**EVENT, "status": value}, value]}
        _ok(filled.post("/v1/events", body), value)


STEPS: tuple[Any, ...] = (
    [{}],
    [{"interface": "deploy"}],
    [{"step": "power_on"}],
    [],
    "x",
    [5],
    [{"interface": "deploy", "step": "x", "args": []}],
    [{"interface": "deploy", "step": "x", "priority": 5}],
    [{"interface": "x", "step": "x"}],
    [{"interface": [], "step": "x"}],
    [{"interface": "deploy", "step": {}}],
    [{"interface": "deploy", "step": "x", "limit_child_node_execution": ["x"]}],
    [{"interface": "deploy", "step": "x", "execute_on_child_nodes": "x"}],
    [{"interface": "deploy", "step": "x", "order": 2**40}],
    {"interface": "deploy"},
)


@pytest.mark.parametrize("steps", STEPS, ids=repr)
def test_bad_clean_steps_are_client_errors(steps: Any, filled: Client) -> None:
    node = nodes.get_by_ident("n1")
    reset = {"provision_state": "manageable", "maintenance": False, "reservation": None}
    nodes.update(node, reset, fence=None)
    body = {"target": "clean", "clean_steps": steps}
    answer = filled.put("/v1/nodes/n1/states/provision", body)
    assert answer.status == 400, answer.body


def test_large_bodies_are_refused_by_path(api: Client) -> None:
    large = b'{"driver": "' + b"x" * 1024 * 1024 + b'"}'
    answer = api.post("/v1/nodes", raw=large)
    assert (answer.status, answer.body["faultcode"]) == (413, "Client")
    assert "1024 KiB" in answer.body["faultstring"]
    # These two may be larger.
    assert api.put("/v1/nodes/n2/states/provision", raw=large).status == 400
    assert api.post("/v1/continue_inspection", raw=large).status == 400


def test_deep_bodies_are_refused_flat(api: Client) -> None:
    answer = api.post("/v1/nodes", raw=b'{"extra":' + b"[" * 25 + b"]" * 25 + b"}")
    assert answer.status == 400
    assert answer.body["faultcode"] == "Client"
    assert "25 levels" in answer.body["faultstring"]
    shallow = b'{"driver": "fake-hardware", "extra": {"a":' + b"[" * 23 + b"]" * 23 + b"}}"
    assert api.post("/v1/nodes", raw=shallow).status == 201
