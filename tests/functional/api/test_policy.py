"""Every operation asks policy, by the rules of its row (rest-api.md section 13.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ironic_rs.api import app, policy
from ironic_rs.api.call import Call, Services
from ironic_rs.api.router import Route
from ironic_rs.api.routes import ROUTES
from ironic_rs.db import allocations, nodes
from ironic_rs.domain import errors
from ironic_rs.rpc.context import RequestContext
from tests.functional.api.harness import Client

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
MAC = "52:54:00:00:00:01"
SEES_NODES = "baremetal:node:get"
#: What an answer shows of a node is asked besides: one set of rules for all answers.
SHOWN = {
    "baremetal:node:get:filter_threshold",
    policy.SHOW_DRIVER_SECRETS,
    policy.SHOW_INSTANCE_SECRETS,
}
STEP = "baremetal:step:execute:"
DEPLOY_STEP = {"interface": "deploy", "step": "x", "args": {}, "priority": 1}
RUNBOOK_STEP = {"interface": "deploy", "step": "x", "order": 1}
RULE = {"actions": [{"op": "fail", "args": {"msg": "x"}}]}
EVENT = {"event": "network.bind_port", "port_id": UUID, "mac_address": MAC, "status": "ACTIVE"}

#: A good body of each operation that needs one.
BODIES: Mapping[tuple[str, str], Any] = {
    ("POST", "/v1/heartbeat"): {
        "node_ident": UUID,
        "callback_url": "http://192.0.2.1:9999",
        "agent_token": "t",
    },
    ("POST", "/v1/nodes"): {"driver": "fake-hardware"},
    ("PATCH", "/v1/nodes/{node}"): [{"op": "add", "path": "/extra/a", "value": 1}],
    ("PUT", "/v1/nodes/{node}/states/power"): {"target": "power on"},
    ("PUT", "/v1/nodes/{node}/states/provision"): {"target": "manage"},
    ("PUT", "/v1/nodes/{node}/states/boot_mode"): {"target": "uefi"},
    ("PUT", "/v1/nodes/{node}/states/secure_boot"): {"target": True},
    ("PUT", "/v1/nodes/{node}/states/console"): {"enabled": True},
    ("PUT", "/v1/nodes/{node}/management/boot_device"): {"boot_device": "pxe"},
    ("PUT", "/v1/nodes/{node}/management/indicators/{indicator}"): {"state": "on"},
    ("PUT", "/v1/nodes/{node}/traits"): {"traits": []},
    ("POST", "/v1/nodes/{node}/vifs"): {"id": "vif"},
    ("POST", "/v1/ports"): {"address": "52:54:00:00:00:02", "node_uuid": UUID},
    ("PATCH", "/v1/ports/{port}"): [],
    ("POST", "/v1/portgroups"): {"node_uuid": UUID},
    ("PATCH", "/v1/portgroups/{portgroup}"): [],
    ("PATCH", "/v1/chassis/{chassis}"): [],
    ("POST", "/v1/nodes/{node}/vmedia"): {"device_type": "cdrom", "image_url": "http://a/b"},
    ("POST", "/v1/volume/connectors"): {
        "node_uuid": UUID,
        "type": "iqn",
        "connector_id": "another",
    },
    ("PATCH", "/v1/volume/connectors/{connector}"): [],
    ("POST", "/v1/volume/targets"): {
        "node_uuid": UUID,
        "volume_type": "iscsi",
        "boot_index": 1,
        "volume_id": "v",
    },
    ("PATCH", "/v1/volume/targets/{target}"): [],
    ("POST", "/v1/allocations"): {"resource_class": "gold"},
    ("PATCH", "/v1/allocations/{allocation}"): [],
    ("POST", "/v1/deploy_templates"): {"name": "CUSTOM_B", "steps": [DEPLOY_STEP]},
    ("PATCH", "/v1/deploy_templates/{template}"): [],
    ("POST", "/v1/inspection_rules"): RULE,
    ("PATCH", "/v1/inspection_rules/{rule}"): [],
    ("POST", "/v1/events"): {"events": [EVENT]},
    ("POST", "/v1/runbooks"): {"name": "CUSTOM_B", "steps": [RUNBOOK_STEP]},
    ("PATCH", "/v1/runbooks/{runbook}"): [],
    ("PUT", "/v1/runbooks/{runbook}/traits"): {"traits": []},
}
#: Parts of the path that exist, or that are checked before anything is looked up.
PARTS: Mapping[str, str] = {
    "node": UUID,
    "port": UUID,
    "portgroup": UUID,
    "chassis": UUID,
    "connector": UUID,
    "target": UUID,
    "allocation": UUID,
    "device_types": "cdrom",
    "template": UUID,
    "runbook": UUID,
    "rule": UUID,
    "trait": "CUSTOM_A",
    "indicator": "led@system",
    "uuid": UUID,
    "driver": "fake-hardware",
    "hostname": "cond-a",
    "setting": "s",
    "vif": "v",
    "method": "second_method",
    "ident": "x",
}


class Rules:
    """An enforcer that allows what it is told and remembers what it was asked."""

    def __init__(self) -> None:
        self.allowed: set[str] = set()
        self.everything = True
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def allows(self, context: RequestContext, rule: str, target: Mapping[str, Any]) -> bool:
        self.asked.append((rule, target))
        return self.everything or rule in self.allowed


def fill(client: Client) -> Client:
    """Create one of each thing that paths name."""
    node = {"driver": "fake-hardware", "uuid": UUID, "name": "n1"}
    assert client.post("/v1/nodes", node).status == 201
    port = {"address": MAC, "node_uuid": UUID, "uuid": UUID}
    assert client.post("/v1/ports", port).status == 201
    assert client.post("/v1/portgroups", {"node_uuid": UUID, "uuid": UUID}).status == 201
    assert client.post("/v1/chassis", {"uuid": UUID}).status == 201
    assert client.post("/v1/inspection_rules", {**RULE, "uuid": UUID}).status == 201
    connector = {"node_uuid": UUID, "uuid": UUID, "type": "iqn", "connector_id": "a"}
    assert client.post("/v1/volume/connectors", connector).status == 201
    target = {"volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}
    target |= {"node_uuid": UUID, "uuid": UUID}
    assert client.post("/v1/volume/targets", target).status == 201
    # The node is off, as far as is known, and in use by the allocation.
    created = nodes.get(UUID)
    nodes.update(created, {"power_state": "power off"}, fence=None)
    allocations.create_bound({"uuid": UUID, "name": "a1"}, created.id)
    for path, step in (("deploy_templates", DEPLOY_STEP), ("runbooks", RUNBOOK_STEP)):
        body = {"uuid": UUID, "name": "CUSTOM_A", "steps": [step]}
        assert client.post(f"/v1/{path}", body).status == 201
    return client


@pytest.fixture
def rules(services: Services) -> Rules:
    services.enforcer = Rules()
    return services.enforcer


@pytest.fixture
def guarded(rules: Rules, services: Services, conductor: Any) -> Client:
    """An API whose policy a test decides."""
    client = fill(Client(app.build(services)))
    rules.everything = False
    rules.asked.clear()
    return client


@pytest.fixture(scope="module")
def refusing(shared_services: Services) -> tuple[Client, Rules]:
    """The same for all tests whose requests are refused."""
    rules = shared_services.enforcer = Rules()
    client = fill(Client(app.build(shared_services)))
    rules.everything = False
    return client, rules


def call(client: Client, route: Route) -> Any:
    path = route.path.format(**PARTS)
    if route.path == "/v1/nodes/validate":
        path += f"?node={UUID}"
    if any(arg.name == "method" for arg in route.args):
        path += "?method=second_method"
    return client.request(route.method, path, BODIES.get((route.method, route.path)))


def enforced() -> list[Any]:
    """All routes but the public ones and those that refuse everybody."""
    return [
        pytest.param(r, id=f"{r.method} {r.path}")
        for r in ROUTES
        if not r.public and r.handler.__name__ != "refuse_below_node"
    ]


@pytest.mark.parametrize("route", enforced())
def test_whoever_may_nothing_gets_403(route: Route, refusing: tuple[Client, Rules]) -> None:
    guarded, rules = refusing
    rules.allowed = {SEES_NODES}
    answer = call(guarded, route)
    if route.handler.__name__ == "show_node":
        # To see the node is all that it needs.
        assert answer.status == 200
        return
    if "baremetal:allocation:get" in route.policy and "{allocation}" in route.path:
        # Without that rule there is no such allocation.
        assert answer.status == 404, answer.body
        assert answer.fault["errorcode"] == "allocation_not_found"
        return
    assert answer.status == 403, answer.body
    assert answer.fault["errorcode"] == "http_forbidden"


@pytest.mark.parametrize("route", [p for p in enforced() if "{node}" in p.values[0].path])
def test_whoever_may_not_see_the_node_gets_404(
    route: Route, refusing: tuple[Client, Rules]
) -> None:
    guarded, rules = refusing
    rules.allowed = {rule for r in ROUTES for rule in r.policy} - {SEES_NODES}
    answer = call(guarded, route)
    if route.handler.__name__ == "show_node_volume":
        # Links only: the node is not looked at.
        assert answer.status == 200
        return
    if route.path.endswith("/allocation"):
        # As for a node that does not exist.
        assert answer.status == 400, answer.body
        return
    assert answer.status == 404, answer.body
    assert answer.fault["errorcode"] == "node_not_found"


@pytest.mark.parametrize("route", enforced())
def test_only_the_rules_of_the_row_are_asked(route: Route, guarded: Client, rules: Rules) -> None:
    rules.everything = True
    call(guarded, route)
    asked = {rule for rule, _ in rules.asked if not rule.startswith(STEP)}
    asked -= SHOWN | {SEES_NODES}
    if route.handler.__name__ == "update_node":
        assert asked == {"baremetal:node:update_extra"}
    else:
        assert asked <= set(route.policy)
        assert asked or not route.policy


def test_rules_get_owner_and_lessee(guarded: Client, rules: Rules) -> None:
    rules.everything = True
    patch = [{"op": "add", "path": f"/{name}", "value": name} for name in ("owner", "lessee")]
    assert guarded.patch("/v1/nodes/n1", patch).status == 200
    assert {rule for rule, _ in rules.asked} - SHOWN == {
        SEES_NODES,
        "baremetal:node:update:owner",
        "baremetal:node:update:lessee",
    }
    rules.asked.clear()
    guarded.get("/v1/nodes/n1/states")
    assert rules.asked == [
        (rule, {"node.owner": "owner", "node.lessee": "lessee"})
        for rule in (SEES_NODES, "baremetal:node:get_states")
    ]


@pytest.mark.parametrize(
    ("op", "rule"),
    [
        ({"op": "add", "path": "/instance_info/a", "value": 1}, "update_instance_info"),
        ({"op": "remove", "path": "/instance_name"}, "update_instance_info"),
        ({"op": "add", "path": "/driver_info/a", "value": 1}, "update:driver_info"),
        ({"op": "add", "path": "/retired_reason", "value": "x"}, "update:retired"),
        ({"op": "add", "path": "/power_interface", "value": "fake"}, "update:driver_interfaces"),
        ({"op": "add", "path": "/automated_clean", "value": False}, "disable_cleaning"),
        ({"op": "add", "path": "/automated_clean", "value": True}, "update"),
        ({"op": "add", "path": "/description", "value": "x"}, "update"),
        (None, "update"),
    ],
)
def test_rules_of_a_patch_by_path(
    op: dict[str, Any] | None, rule: str, guarded: Client, rules: Rules
) -> None:
    rules.allowed = {SEES_NODES}
    assert guarded.patch("/v1/nodes/n1", [op] if op else []).status == 403
    assert rules.asked[-1][0] == f"baremetal:node:{rule}"


def test_rules_of_steps(guarded: Client, rules: Rules) -> None:
    rules.allowed = {SEES_NODES, "baremetal:node:set_provision_state"}
    body = {"target": "clean", "clean_steps": [{"interface": "raid", "step": "x"}]}
    assert guarded.put("/v1/nodes/n1/states/provision", body).status == 403
    rules.allowed.add("baremetal:node:set_provision_state:clean_steps")
    answer = guarded.put("/v1/nodes/n1/states/provision", body)
    assert answer.status == 403
    assert "baremetal:step:execute:raid.x" in answer.text


def context_of(project: str | None) -> RequestContext:
    return RequestContext(project_id=project, overwrite=False)


def list_call(services: Services, project: str | None) -> Call:
    route = next(r for r in ROUTES if (r.method, r.path) == ("GET", "/v1/nodes"))
    return Call(
        services=services,
        route=route,
        path={},
        query={},
        body={},
        minor=115,
        context=context_of(project),
        base="",
    )


def test_a_list_is_limited_to_the_project_unless_all_may_be_listed(
    services: Services, rules: Rules
) -> None:
    rules.everything = False
    with pytest.raises(errors.HTTPForbidden):
        list_call(services, "p1").project_filter()
    rules.allowed = {"baremetal:node:list"}
    assert list_call(services, "p1").project_filter() == "p1"
    with pytest.raises(errors.HTTPForbidden):
        list_call(services, None).project_filter()
    rules.allowed = {"baremetal:node:list_all"}
    assert list_call(services, "p1").project_filter() is None


def test_a_rule_is_asked_once_for_each_target(services: Services, rules: Rules) -> None:
    call = list_call(services, "p1")
    for owner in ("a", "a", "b"):
        assert call.allows("rule", {"node.owner": owner})
    assert len(rules.asked) == 2


def test_without_policy_everything_but_secrets_is_allowed() -> None:
    context = context_of(None)
    assert policy.Permissive().allows(context, "baremetal:node:create", {})
    assert not policy.Permissive().allows(context, policy.SHOW_DRIVER_SECRETS, {})
    assert not policy.Permissive().allows(context, policy.SHOW_INSTANCE_SECRETS, {})


def test_no_project_is_not_the_owner_of_what_has_no_owner() -> None:
    assert "project_id" not in context_of(None).to_policy_values()
    assert context_of("p1").to_policy_values()["project_id"] == "p1"
