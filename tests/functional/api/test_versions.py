"""What a microversion has: operations, fields, choices and sort keys, by the tables.

Each boundary of the tables is asked for on both sides of it, so that a row which is
wrong, or which nothing looks at, fails here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from ironic_rs.api import openapi
from ironic_rs.api.documents import Chosen, Listing, Whole
from ironic_rs.api.microversions import MAXIMUM, V, text
from ironic_rs.api.router import Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.domain.fields import Table
from tests.functional.api import population
from tests.functional.api.harness import Answer, Client

DESCRIBED = openapi.described(ROUTES, MAXIMUM)
#: Good bodies of operations that came with a version.
BODIES: Mapping[tuple[str, str], Any] = {
    ("PUT", "/v1/nodes/{node}/states/raid"): {
        "logical_disks": [{"raid_level": "1", "size_gb": 10}]
    },
    ("PUT", "/v1/nodes/{node}/states/boot_mode"): {"target": "uefi"},
    ("PUT", "/v1/nodes/{node}/states/secure_boot"): {"target": True},
    ("PUT", "/v1/nodes/{node}/traits"): {"traits": ["CUSTOM_B"]},
    ("POST", "/v1/nodes/{node}/vifs"): {"id": "vif-2"},
    ("POST", "/v1/nodes/{node}/vmedia"): {
        "device_type": "cdrom",
        "image_url": "https://images.example/i.iso",
    },
    ("POST", "/v1/portgroups"): {"node_uuid": population.UUID},
    ("PATCH", "/v1/portgroups/{portgroup}"): [],
    ("POST", "/v1/volume/connectors"): {
        "node_uuid": population.UUID,
        "type": "wwpn",
        "connector_id": "c2",
    },
    ("PATCH", "/v1/volume/connectors/{connector}"): [],
    ("POST", "/v1/volume/targets"): {
        "node_uuid": population.UUID,
        "volume_type": "iscsi",
        "volume_id": "v2",
        "boot_index": 1,
    },
    ("PATCH", "/v1/volume/targets/{target}"): [],
    ("POST", "/v1/allocations"): {"resource_class": "rc"},
    ("PATCH", "/v1/allocations/{allocation}"): [],
    ("POST", "/v1/deploy_templates"): {
        "name": "CUSTOM_T",
        "steps": [{"interface": "deploy", "step": "s", "args": {}, "priority": 1}],
    },
    ("PATCH", "/v1/deploy_templates/{template}"): [],
    ("POST", "/v1/runbooks"): {
        "name": "CUSTOM_T",
        "steps": [{"interface": "deploy", "step": "s", "order": 1}],
    },
    ("PATCH", "/v1/runbooks/{runbook}"): [],
    ("PUT", "/v1/runbooks/{runbook}/traits"): {"traits": ["CUSTOM_B"]},
    ("POST", "/v1/inspection_rules"): {"actions": [{"op": "fail", "args": {"msg": "no"}}]},
    ("PATCH", "/v1/inspection_rules/{rule}"): [],
    ("POST", "/v1/events"): {
        "events": [
            {
                "event": "network.bind_port",
                "port_id": population.UUID,
                "mac_address": population.MAC,
                "status": "ACTIVE",
            }
        ]
    },
    ("POST", "/v1/heartbeat/{node}"): {"callback_url": "https://agent", "agent_token": "x"},
    ("POST", "/v1/heartbeat"): {
        "node_ident": population.UUID,
        "callback_url": "https://agent",
        "agent_token": "x",
    },
    ("POST", "/v1/continue_inspection"): {"inventory": {"interfaces": [{"mac_address": "x"}]}},
}
#: Operations that answer an error even so, with its machine-readable code: the fake
#: hardware has no such thing, or nothing is there that could be asked about.
REFUSED: Mapping[tuple[str, str], str] = {
    ("PUT", "/v1/nodes/{node}/management/inject_nmi"): "unsupported_driver_extension",
    ("DELETE", "/v1/portgroups/{portgroup}"): "portgroup_not_empty",
    ("GET", "/v1/lookup"): "incomplete_lookup",
    ("POST", "/v1/heartbeat/{node}"): "invalid_parameter_value",
    ("POST", "/v1/heartbeat"): "invalid_parameter_value",
    ("POST", "/v1/continue_inspection"): "invalid_parameter_value",
}


def call(client: Client, route: Route, minor: int) -> Answer:
    body = BODIES.get((route.method, route.path))
    return client.at(text(minor)).request(route.method, population.path(route.path), body)


def newer(answer: Answer) -> bool:
    """Tell whether the answer says that the version is too old."""
    return answer.status >= 400 and "needs API version" in answer.text


def ids(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(autouse=True)
def populated(shared_api: Client) -> Client:
    population.populate()
    return shared_api


@pytest.mark.parametrize("route", [r for r in DESCRIBED if r.since > 1], ids=ids)
def test_an_operation_begins_with_its_version(route: Route, populated: Client) -> None:
    before = call(populated, route, route.since - 1)
    assert before.status == route.below, before.body
    if route.below == 405:
        assert before.fault["title"] == "Method Not Allowed"
    else:
        assert newer(before)
        assert text(route.since) in before.text
    answer = call(populated, route, route.since)
    code = REFUSED.get((route.method, route.path))
    if code is None:
        assert answer.status == route.success, answer.body
    else:
        assert (answer.fault["errorcode"], newer(answer)) == (code, False), answer.body


def shown_by(route: Route, body: Any) -> list[dict[str, Any]]:
    """Return the documents of the table in an answer."""
    answer = route.answer
    if isinstance(answer, Listing):
        documents = body[answer.table.collection]
        assert documents, "nothing is there that could be looked at"
        return list(documents)
    return [body]


def boundaries(table: Table, first: int) -> list[int]:
    """Return the versions on both sides of each change of a table, from a first one on."""
    changes = {f.since for f in table.rows}
    sides = {minor for since in changes for minor in (since - 1, since)}
    return sorted(minor for minor in sides | {first, MAXIMUM} if minor >= first)


SHOWING = [
    r for r in DESCRIBED if r.method == "GET" and isinstance(r.answer, Whole | Chosen | Listing)
]


def expected(route: Route, minor: int) -> set[str]:
    answer = route.answer
    assert isinstance(answer, Whole | Chosen | Listing)
    short = isinstance(answer, Listing) and not answer.whole
    return {
        f.name
        for f in answer.table.rows
        if f.since <= minor and (f.listed if short else f.detailed)
    }


@pytest.mark.parametrize("route", SHOWING, ids=ids)
def test_a_field_is_shown_from_its_version_on_and_hidden_before(
    route: Route, populated: Client
) -> None:
    assert isinstance(route.answer, Whole | Chosen | Listing)
    for minor in boundaries(route.answer.table, route.since):
        answer = populated.at(text(minor)).get(population.path(route.path))
        assert answer.status == 200, answer.body
        for document in shown_by(route, answer.body):
            assert set(document) == expected(route, minor), text(minor)


def choosing() -> Iterable[Any]:
    for route in SHOWING:
        for arg in route.args:
            if arg.name == "fields":
                names = arg.schema(MAXIMUM)["items"].get("enum")
                yield pytest.param(route, arg, names, id=ids(route))


#: Fields that may be named before their version, without effect (rest-api.md 11.1).
LEFT_OUT = {("port", "internal_info")}


@pytest.mark.parametrize(("route", "arg", "names"), list(choosing()))
def test_a_field_can_be_chosen_from_its_version_on(
    route: Route, arg: Any, names: list[str] | None, populated: Client
) -> None:
    table = route.answer.table  # type: ignore[union-attr]
    always = {n for n in ("links", *_ALWAYS.get(table.resource, ())) if n in table.by_name}
    first = max(route.since, arg.since)
    path = population.path(route.path)
    for name in names or table.choices():
        since = max(first, table.by_name[name].since)
        answer = populated.at(text(since)).get(f"{path}?fields={name}")
        assert answer.status == 200, (name, answer.body)
        for document in shown_by(route, answer.body):
            assert set(document) == {name, *always}
        if since == first:
            continue
        before = populated.at(text(since - 1)).get(f"{path}?fields={name}")
        if (table.resource, name) in LEFT_OUT:
            assert before.status == 200
        else:
            assert before.status == (400 if table.resource == "firmware component" else 406), name
    assert populated.get(f"{path}?fields=bogus").status == 400
    if arg.since > route.since:
        assert populated.at(text(arg.since - 1)).get(f"{path}?fields=uuid").status == arg.below


#: What comes with any choice.
_ALWAYS = {"BIOS setting": ("created_at", "updated_at")}


@pytest.mark.parametrize(
    "route", [r for r in SHOWING if "sort_key" in {a.name for a in r.args}], ids=ids
)
def test_lists_are_sorted_by_a_field_from_its_version_on(route: Route, populated: Client) -> None:
    assert isinstance(route.answer, Listing)
    table, path = route.answer.table, population.path(route.path)
    for name in table.sort_keys():
        since = table.by_name[name].since if name != "id" else 1
        at = max(since, route.since)
        answer = populated.at(text(at)).get(f"{path}?sort_key={name}")
        assert answer.status == 200, (name, answer.body)
        if since > route.since:
            before = populated.at(text(since - 1)).get(f"{path}?sort_key={name}")
            assert before.status == 406, name
    for name in set(table.by_name) - set(table.sort_keys()):
        refused = populated.get(f"{path}?sort_key={name}")
        assert refused.status == 400, name
        assert name in refused.text


@pytest.mark.parametrize(
    ("route", "arg"),
    [
        pytest.param(r, a, id=f"{ids(r)} {a.name}")
        for r in DESCRIBED
        for a in r.args
        if a.since > r.since
    ],
)
def test_an_argument_begins_with_its_version(route: Route, arg: Any, populated: Client) -> None:
    value = _GOOD_ARGUMENTS.get(arg.name, "x")
    body = None
    path = population.path(route.path)
    if route.body == "args":
        body = {**(BODIES.get((route.method, route.path)) or {}), arg.name: value}
    else:
        path += f"?{arg.name}={value}"
        body = BODIES.get((route.method, route.path))
        if route.method == "PATCH":
            body = [{"op": "add", "path": "/driver", "value": "fake-hardware"}]
    before = populated.at(text(arg.since - 1)).request(route.method, path, body)
    assert before.status == arg.below, before.body
    assert newer(before)
    answer = populated.at(text(arg.since)).request(route.method, path, body)
    assert not newer(answer), answer.body


_GOOD_ARGUMENTS: Mapping[str, Any] = {
    "provision_state": "available",
    "fault": "power%20failure",
    "parent_node": population.UUID,
    "portgroup": population.UUID,
    "node_uuid": population.UUID,
    "include_children": "true",
    "sharded": "true",
    "detail": "true",
    "reset_interfaces": "true",
    "fields": "links",
    "type": "dynamic",
    "agent_status": "start",
}


def test_states_are_translated_for_old_versions(populated: Client) -> None:
    path = f"/v1/nodes/{population.UUID}/states"
    assert populated.at(text(V.MANAGEABLE)).get(path).body["provision_state"] == "manageable"
