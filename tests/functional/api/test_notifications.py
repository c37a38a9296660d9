"""Notifications about requests: which, when, with what (rest-api.md section 14)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest

from ironic_rs.api import app
from ironic_rs.api.routes import ROUTES
from ironic_rs.conductor.service import Conductor
from ironic_rs.db import nodes, session
from ironic_rs.rpc.context import admin_context
from ironic_rs.telemetry.notifications import Emitter
from tests.functional.api.harness import Client

CHASSIS = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
VOLUME = "33333333-3333-4333-8333-333333333333"
RULE = "22222222-2222-4222-8222-222222222222"
ADD: list[dict[str, Any]] = [{"op": "add", "path": "/extra/a", "value": 1}]


class Sent:
    """What was sent since the last look."""

    def __init__(self, emitter: Emitter) -> None:
        self._emitter = emitter
        self.messages: list[tuple[str, str, dict[str, Any]]] = []

    def look(self) -> list[tuple[str, str, dict[str, Any]]]:
        assert self._emitter.flush(30)
        found, self.messages[:] = list(self.messages), []
        return found

    def types(self) -> list[str]:
        return [event_type.removeprefix("baremetal.") for event_type, _, _ in self.look()]


@pytest.fixture
def sent(
    conf: Any, services: Any, conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Sent]:
    made = Sent(services.emitter)

    def notify(
        self: Any, ctxt: Any, event_type: str, payload: Any, priority: str, *_: Any, **__: Any
    ) -> None:
        made.messages.append((event_type, priority, json.loads(json.dumps(payload))))

    monkeypatch.setattr(oslo_messaging.Notifier, "_notify", notify)
    conf.set_override("notification_level", "info")
    conf.set_override("driver", ["noop"], group="oslo_messaging_notifications")
    yield made
    conf.clear_override("driver", group="oslo_messaging_notifications")


@pytest.fixture
def client(sent: Sent, services: Any) -> Client:
    return Client(app.build(services))


def test_the_life_of_a_node(client: Client, sent: Sent) -> None:
    info = {"redfish_password": "canary", "redfish_address": "a"}
    node = {"driver": "fake-hardware", "name": "n1", "driver_info": info}
    uuid = client.post("/v1/nodes", node).body["uuid"]
    start, end = sent.look()
    assert (start[0], start[1]) == ("baremetal.node.create.start", "INFO")
    assert (end[0], end[1]) == ("baremetal.node.create.end", "INFO")
    assert start[2]["ironic_object.name"] == "NodeCRUDPayload"
    assert start[2]["ironic_object.data"]["name"] == "n1"
    values = end[2]["ironic_object.data"]
    assert (values["uuid"], values["provision_state"]) == (uuid, "enroll")
    assert values["driver_info"] == {"redfish_password": "******", "redfish_address": "a"}
    assert values["power_interface"] == "fake"
    assert values["created_at"].endswith("Z")

    assert client.patch("/v1/nodes/n1", ADD).status == 200
    start, end = sent.look()
    assert (start[0], end[0]) == ("baremetal.node.update.start", "baremetal.node.update.end")
    assert (start[2]["ironic_object.data"]["extra"], end[2]["ironic_object.data"]["extra"]) == (
        {},
        {"a": 1},
    )

    assert client.put("/v1/nodes/n1/traits", {"traits": ["CUSTOM_A"]}).status == 204
    start, end = sent.look()
    assert (start[0], end[0]) == ("baremetal.node.update.start", "baremetal.node.update.end")
    assert end[2]["ironic_object.data"]["traits"] == ["CUSTOM_A"]

    assert client.put("/v1/nodes/n1/maintenance", {"reason": "r"}).status == 202
    start, end = sent.look()
    assert [start[0], end[0]] == [
        f"baremetal.node.maintenance_set.{status}" for status in ("start", "end")
    ]
    assert end[2]["ironic_object.name"] == "NodePayload"
    assert end[2]["ironic_object.data"]["maintenance_reason"] == "r"
    assert "driver_info" not in end[2]["ironic_object.data"]

    assert client.delete("/v1/nodes/n1").status == 204
    start, end = sent.look()
    assert [start[0], end[0]] == ["baremetal.node.delete.start", "baremetal.node.delete.end"]
    assert end[2]["ironic_object.data"]["uuid"] == uuid


Setup = Callable[[Client], Any]


def _node(client: Client) -> str:
    client.post("/v1/nodes", {"driver": "fake-hardware", "name": "n1"})
    node = nodes.get_by_ident("n1")
    nodes.update(node, {"power_state": "power off"}, fence=None)
    return str(node.uuid)


STEP = {"interface": "deploy", "step": "s", "args": {}}
RULE_PATCH = [{"op": "add", "path": "/description", "value": "x"}]
#: Subject, collection, body without the node, patch, whether it belongs to a node.
OBJECTS: tuple[tuple[str, str, dict[str, Any], list[dict[str, Any]], bool], ...] = (
    ("port", "ports", {"address": "52:54:00:00:00:01"}, ADD, True),
    ("portgroup", "portgroups", {"name": "pg1"}, ADD, True),
    ("chassis", "chassis", {"uuid": CHASSIS}, ADD, False),
    ("volumeconnector", "volume/connectors", {"type": "iqn", "connector_id": "x"}, ADD, True),
    (
        "volumetarget",
        "volume/targets",
        {"volume_type": "iscsi", "boot_index": 0, "volume_id": "v"},
        ADD,
        True,
    ),
    (
        "deploytemplate",
        "deploy_templates",
        {"name": "CUSTOM_T", "steps": [{**STEP, "priority": 1}]},
        ADD,
        False,
    ),
    ("runbook", "runbooks", {"name": "rb", "steps": [{**STEP, "order": 1}]}, ADD, False),
    (
        "inspectionrule",
        "inspection_rules",
        {"uuid": RULE, "actions": [{"op": "fail", "args": {"msg": "x"}}]},
        RULE_PATCH,
        False,
    ),
)


@pytest.mark.parametrize(("subject", "path", "body", "patch", "below"), OBJECTS)
def test_the_life_of_other_objects(
    client: Client,
    sent: Sent,
    subject: str,
    path: str,
    body: dict[str, Any],
    patch: list[dict[str, Any]],
    below: bool,
) -> None:
    more = {"node_uuid": _node(client)} if below else {}
    sent.look()
    created = client.post(f"/v1/{path}", {**body, **more})
    assert created.status == 201, created.body
    uuid = created.body["uuid"]
    start, end = sent.look()
    assert [start[0], end[0]] == [f"baremetal.{subject}.create.{s}" for s in ("start", "end")]
    assert end[2]["ironic_object.data"]["uuid"] == uuid
    if below:
        assert end[2]["ironic_object.data"]["node_uuid"] == more["node_uuid"]
    assert client.patch(f"/v1/{path}/{uuid}", patch).status == 200
    assert sent.types() == [f"{subject}.update.start", f"{subject}.update.end"]
    assert client.delete(f"/v1/{path}/{uuid}").status == 204
    assert sent.types() == [f"{subject}.delete.start", f"{subject}.delete.end"]


def test_the_life_of_an_allocation(client: Client, sent: Sent) -> None:
    created = client.post("/v1/allocations", {"name": "a1", "resource_class": "x"})
    assert created.status == 201
    assert sent.types() == ["allocation.create.start", "allocation.create.end"]
    assert client.patch("/v1/allocations/a1", ADD).status == 200
    assert sent.types() == ["allocation.update.start", "allocation.update.end"]
    assert client.delete("/v1/allocations/a1").status == 204
    assert sent.types() == ["allocation.delete.start", "allocation.delete.end"]


def test_an_operation_that_fails_is_told_as_an_error(
    client: Client, sent: Sent, conductor: Conductor
) -> None:
    uuid = _node(client)
    sent.look()
    with conductor.tasks.acquire(admin_context(), uuid, purpose="test"):
        assert client.patch("/v1/nodes/n1", ADD).status == 409
    start, error = sent.look()
    assert start[0] == "baremetal.node.update.start"
    assert (error[0], error[1]) == ("baremetal.node.update.error", "ERROR")
    assert error[2]["ironic_object.data"]["uuid"] == uuid


def test_a_request_that_is_refused_before_it_begins_is_not_told(client: Client, sent: Sent) -> None:
    _node(client)
    sent.look()
    assert client.post("/v1/nodes", {"driver": 5}).status == 400
    assert client.patch("/v1/nodes/nosuch", ADD).status == 404
    assert client.delete(f"/v1/chassis/{CHASSIS}").status == 404
    assert client.patch("/v1/nodes/n1", [{"op": "x"}]).status == 400
    assert sent.types() == []


def test_what_nobody_wants_costs_nothing(client: Client, sent: Sent, conf: Any) -> None:
    _node(client)
    sent.look()
    with session.count_statements() as told:
        assert client.patch("/v1/nodes/n1", ADD).status == 200
    assert len(sent.look()) == 2
    conf.set_override("notification_level", None)
    other = [{"op": "add", "path": "/extra/b", "value": 1}]
    with session.count_statements() as silent:
        assert client.patch("/v1/nodes/n1", other).status == 200
    assert sent.types() == []
    # One read before, one after.
    assert told.count == silent.count + 2


def test_errors_alone_can_be_asked_for(
    client: Client, sent: Sent, conf: Any, conductor: Conductor
) -> None:
    uuid = _node(client)
    sent.look()
    conf.set_override("notification_level", "error")
    assert client.patch("/v1/nodes/n1", ADD).status == 200
    with conductor.tasks.acquire(admin_context(), uuid, purpose="test"):
        assert client.patch("/v1/nodes/n1", ADD).status == 409
    assert sent.types() == ["node.update.error"]


def test_trouble_with_a_notification_is_no_trouble_of_the_request(
    client: Client, sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    _node(client)

    def broken(*_: Any) -> None:
        raise RuntimeError("no payload")

    monkeypatch.setattr("ironic_rs.telemetry.payloads.Payload.make", broken)
    assert client.patch("/v1/nodes/n1", ADD).status == 200


def test_every_change_of_an_object_is_told() -> None:
    """As in the specification: creations, changes and deletions of these objects."""
    silent = {"runbooks/{runbook}/traits", "states", "management", "vifs", "vmedia", "vendor"}
    for route in ROUTES:
        if route.method not in ("PATCH", "DELETE") or "refuse" in route.handler.__name__:
            continue
        if any(part in route.path for part in silent):
            assert route.event is None, route.path
        else:
            assert route.event is not None, route.path
