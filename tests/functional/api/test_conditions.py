"""Conditional requests: entity tags, If-None-Match and If-Match (docs/api.md).

What a route needs is in tables here; a route of the API that changes one thing and has no
entry fails the first test.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from ironic_rs.api.routes import ROUTES
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import allocations, bios, history, inventory, nodes, session
from ironic_rs.rpc.context import admin_context
from tests.functional.api.harness import Answer, Client
from tests.functional.api.test_concurrency import at_once
from tests.harness.servers import wait_until

CHASSIS = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
ENTRY = "11111111-1111-4111-8111-111111111111"
VOLUME = "33333333-3333-4333-8333-333333333333"
RULE = "22222222-2222-4222-8222-222222222222"
STALE = '"' + "0" * 24 + "." + "0" * 16 + '"'


def add(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


@dataclass
class Write:
    """A write that succeeds on what :func:`world` has made.

    :param subject: path whose entity tag guards it; default is the path itself.
    """

    method: str
    path: str
    body: Any = None
    subject: str = ""


NODE = "/v1/nodes/n1"
RAID = {"logical_disks": [{"raid_level": "1", "size_gb": 5}]}
WRITES: tuple[Write, ...] = (
    Write("PATCH", NODE, add("/extra/a", 1)),
    Write("DELETE", "/v1/nodes/n2"),
    Write("PUT", f"{NODE}/maintenance", {"reason": "x"}, NODE),
    Write("DELETE", f"{NODE}/maintenance", None, NODE),
    Write("PUT", f"{NODE}/states/power", {"target": "power on"}, NODE),
    Write("PUT", f"{NODE}/states/provision", {"target": "manage"}, NODE),
    Write(
        "PUT", f"{NODE}/states/raid", {"logical_disks": [{"raid_level": "1", "size_gb": 5}]}, NODE
    ),
    Write("PUT", f"{NODE}/states/boot_mode", {"target": "uefi"}, NODE),
    Write("PUT", f"{NODE}/states/secure_boot", {"target": True}, NODE),
    Write("PUT", f"{NODE}/states/console", {"enabled": True}, NODE),
    Write("PUT", f"{NODE}/management/boot_device", {"boot_device": "pxe"}, NODE),
    Write("PUT", f"{NODE}/management/inject_nmi", None, NODE),
    Write("PUT", f"{NODE}/management/indicators/led@system", {"state": "on"}, NODE),
    Write("PUT", f"{NODE}/traits", {"traits": ["CUSTOM_B"]}),
    Write("PUT", f"{NODE}/traits/CUSTOM_B", None, f"{NODE}/traits"),
    Write("DELETE", f"{NODE}/traits"),
    Write("DELETE", f"{NODE}/traits/CUSTOM_A", None, f"{NODE}/traits"),
    Write("POST", f"{NODE}/vifs", {"id": "vif"}, NODE),
    Write("DELETE", f"{NODE}/vifs/vif", None, NODE),
    Write("POST", f"{NODE}/vendor_passthru/second_method", {"bar": "kazoo"}, NODE),
    Write("POST", f"{NODE}/vendor_passthru?method=second_method", {"bar": "kazoo"}, NODE),
    Write("POST", f"{NODE}/vmedia", {"device_type": "cdrom", "image_url": "http://x/y"}, NODE),
    Write("DELETE", f"{NODE}/vmedia", None, NODE),
    Write("DELETE", f"{NODE}/vmedia/cdrom", None, NODE),
    Write("PATCH", "/v1/ports/p1", add("/extra/a", 1)),
    Write("DELETE", "/v1/ports/{p1}", None, "/v1/ports/p1"),
    Write("PATCH", "/v1/portgroups/pg1", add("/extra/a", 1)),
    Write("DELETE", "/v1/portgroups/pg1"),
    Write("PATCH", f"/v1/chassis/{CHASSIS}", add("/extra/a", 1)),
    Write("DELETE", f"/v1/chassis/{CHASSIS}"),
    Write("PATCH", f"/v1/volume/connectors/{VOLUME}", add("/extra/a", 1)),
    Write("DELETE", f"/v1/volume/connectors/{VOLUME}"),
    Write("PATCH", f"/v1/volume/targets/{VOLUME}", add("/extra/a", 1)),
    Write("DELETE", f"/v1/volume/targets/{VOLUME}"),
    Write("PATCH", "/v1/allocations/a1", add("/extra/a", 1)),
    Write("DELETE", "/v1/allocations/a1"),
    Write("DELETE", "/v1/nodes/n2/allocation"),
    Write("PATCH", "/v1/deploy_templates/CUSTOM_T", add("/extra/a", 1)),
    Write("DELETE", "/v1/deploy_templates/CUSTOM_T"),
    Write("PATCH", "/v1/runbooks/rb1", add("/extra/a", 1)),
    Write("DELETE", "/v1/runbooks/rb1"),
    Write("PATCH", f"/v1/inspection_rules/{RULE}", add("/description", "x")),
    Write("DELETE", f"/v1/inspection_rules/{RULE}"),
    Write("PUT", "/v1/runbooks/rb1/traits", {"traits": ["CUSTOM_B"]}),
    Write("PUT", "/v1/runbooks/rb1/traits/CUSTOM_B", None, "/v1/runbooks/rb1/traits"),
    Write("DELETE", "/v1/runbooks/rb1/traits"),
    Write("DELETE", "/v1/runbooks/rb1/traits/CUSTOM_A", None, "/v1/runbooks/rb1/traits"),
)
#: Paths that answer GET with an entity tag.
TAGGED = (
    NODE,
    f"{NODE}?fields=name",
    f"{NODE}/states",
    f"{NODE}/traits",
    f"{NODE}/bios/virtualization",
    f"{NODE}/history/{ENTRY}",
    f"{NODE}/inventory",
    "/v1/ports/p1",
    "/v1/ports/p1?fields=address",
    "/v1/portgroups/pg1",
    f"/v1/chassis/{CHASSIS}",
    f"/v1/volume/connectors/{VOLUME}",
    f"/v1/volume/targets/{VOLUME}",
    "/v1/allocations/a1",
    "/v1/nodes/n2/allocation",
    "/v1/deploy_templates/CUSTOM_T",
    "/v1/deploy_templates/CUSTOM_T?fields=name",
    "/v1/runbooks/rb1",
    "/v1/runbooks/rb1?fields=name",
    "/v1/runbooks/rb1/traits",
    f"/v1/inspection_rules/{RULE}",
    "/v1/openapi.json",
    "/v1/drivers/fake-hardware",
    "/v1/drivers/fake-hardware/properties",
    "/v1/drivers/fake-hardware/raid/logical_disk_properties",
    "/v1/conductors/cond-a",
)


@pytest.fixture
def world(api: Client) -> Client:
    """An API with one of everything that has an entity tag."""
    return filled(api)


@pytest.fixture(scope="module")
def still(shared_api: Client) -> Client:
    """The same, for tests that only read."""
    return filled(shared_api)


def filled(api: Client) -> Client:
    for name in ("n1", "n2"):
        assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": name}).status == 201
    node = api.get(NODE).body["uuid"]
    port = {"node_uuid": node, "address": "52:54:00:00:00:01", "name": "p1"}
    assert api.post("/v1/ports", port).status == 201
    assert api.post("/v1/portgroups", {"node_uuid": node, "name": "pg1"}).status == 201
    assert api.post("/v1/chassis", {"uuid": CHASSIS, "description": "c"}).status == 201
    assert api.put(f"{NODE}/traits", {"traits": ["CUSTOM_A"]}).status == 204
    step = {"interface": "deploy", "step": "s", "args": {}}
    template = {"name": "CUSTOM_T", "steps": [{**step, "priority": 1}]}
    assert api.post("/v1/deploy_templates", template).status == 201
    runbook = {"name": "rb1", "steps": [{**step, "order": 1}]}
    assert api.post("/v1/runbooks", runbook).status == 201
    assert api.put("/v1/runbooks/rb1/traits", {"traits": ["CUSTOM_A"]}).status == 204
    fail = {"op": "fail", "args": {"msg": "x"}}
    assert api.post("/v1/inspection_rules", {"uuid": RULE, "actions": [fail]}).status == 201
    record = nodes.get(node)
    # Volumes are changed while the node is off.
    nodes.update(record, {"power_state": "power off"}, fence=None)
    volume = {"node_uuid": node, "uuid": VOLUME}
    connector = {**volume, "type": "iqn", "connector_id": "iqn.2017-07.org.x:1"}
    assert api.post("/v1/volume/connectors", connector).status == 201
    target = {**volume, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v1"}
    assert api.post("/v1/volume/targets", target).status == 201
    allocations.create({"name": "a1", "resource_class": "x"})
    other = nodes.get_by_ident("n2")
    allocations.create({"name": "a2", "resource_class": "x", "node_id": other.id})
    bios.create(record.id, [{"name": "virtualization", "value": "on"}])
    inventory.store(record.id, {"cpu": {"count": 4}}, {})
    history.create({"uuid": ENTRY, "node_id": record.id, "severity": "ERROR", "event": "x"})
    return api


def etag(api: Client, path: str) -> str:
    answer = api.get(path)
    assert answer.status == 200, answer.body
    return str(answer.headers["ETag"])


def pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{\w+}", "[^/?]+", path))


# What is covered


def test_every_write_to_one_thing_can_be_conditional() -> None:
    missing = [
        f"{route.method} {route.path}"
        for route in ROUTES
        if route.conditional
        and "vendor_passthru" not in route.path
        and not any(
            write.method == route.method and pattern(route.path).fullmatch(write.path.split("?")[0])
            for write in WRITES
        )
    ]
    assert missing == []


#: Single reads that show what a machine or a conductor says at the moment: nothing is stored
#: that an entity tag could stand for.
LIVE = {
    "validate",
    "console",
    "boot_device",
    "supported",
    "indicators",
    "{indicator}",
    "methods",
    "{method}",
    "vendor_passthru",
    "lookup",
    "v1",
    "vmedia",
    "vifs",
}
#: Collections, below a node or at the top.
LISTS = {"nodes", "ports", "portgroups", "chassis", "drivers", "conductors", "detail"} | {
    "deploy_templates",
    "runbooks",
    "inspection_rules",
    "shards",
    "allocations",
    "connectors",
    "targets",
    "volume",
    "bios",
    "firmware",
    "history",
    "children",
}


def test_every_single_thing_has_an_entity_tag() -> None:
    for route in ROUTES:
        if route.method != "GET" or "refuse" in route.handler.__name__:
            continue
        last = route.path.rsplit("/", 1)[1]
        live = last in LIVE or "console" in route.path
        assert route.etag != (live or last in LISTS), route.path
        covered = any(pattern(route.path).fullmatch(path.split("?")[0]) for path in TAGGED)
        assert not route.etag or covered, route.path


# Reading


@pytest.mark.parametrize("path", TAGGED)
def test_an_answer_that_the_client_has_is_not_sent_again(still: Client, path: str) -> None:
    first = still.get(path)
    tag = first.headers["ETag"]
    assert re.fullmatch(r'"[0-9a-f.]{16,}"', tag)
    assert "OpenStack-API-Version" in first.headers["Vary"]
    assert first.headers["Cache-Control"] == "private, no-cache"
    for known in (tag, f'"x", W/"y" , {tag}', f"W/{tag}", "*"):
        again = still.get(path, headers={"If-None-Match": known})
        assert (again.status, again.raw) == (304, b""), known
        assert again.headers["ETag"] == tag
        assert again.headers["X-OpenStack-Ironic-API-Version"] == "1.115"
        assert "Content-Type" not in again.headers
    other = still.get(path, headers={"If-None-Match": '"x"'})
    assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize("path", TAGGED)
def test_reading_under_a_condition(still: Client, path: str) -> None:
    assert still.get(path, headers={"If-Match": etag(still, path)}).status == 200
    assert still.get(path, headers={"If-Match": "*"}).status == 200
    refused = still.get(path, headers={"If-Match": STALE})
    assert (refused.status, refused.fault["errorcode"]) == (412, "precondition_failed")


def test_other_views_of_a_thing_are_other_answers(still: Client) -> None:
    tags = [
        etag(still, NODE),
        etag(still, f"{NODE}?fields=name"),
        etag(still, f"{NODE}?fields=uuid"),
        etag(still.at("1.10"), NODE),
    ]
    assert len(set(tags)) == len(tags)
    # A client that changed its version must not be told to use what it has.
    assert still.get(NODE, headers={"If-None-Match": tags[3]}).status == 200
    # All guard the same node.
    assert len({tag.partition(".")[0] for tag in tags}) == 1


def test_lists_have_no_entity_tag(still: Client) -> None:
    assert "ETag" not in still.get("/v1/nodes").headers
    assert still.get("/v1/nodes", headers={"If-None-Match": "*"}).status == 200


@pytest.mark.parametrize("bad", ["x", '"x', 'x"', '"a" "b"', "W/x", '"a";"b"', "**", "'a'"])
@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
def test_what_is_no_entity_tag_is_refused(still: Client, header: str, bad: str) -> None:
    answer = still.get(NODE, headers={header: bad})
    assert answer.status == 400
    assert header in answer.text
    assert "double quotes" in answer.text


# Writing


def send(api: Client, write: Write, **headers: str) -> Answer:
    path = write.path.replace("{p1}", api.get("/v1/ports/p1").body["uuid"])
    return api.request(write.method, path, write.body, headers=headers)


def prepared(api: Client, write: Write) -> str:
    """Make the write possible; returns the path whose entity tag guards it."""
    if write.path.endswith("/vifs/vif"):
        assert api.post(f"{NODE}/vifs", {"id": "vif"}).status == 204
    return write.subject or write.path


def went_through(answer: Answer) -> bool:
    """Tell whether the driver was asked, be it for what fake hardware can not do."""
    return answer.status < 300 or answer.fault["errorcode"] == "unsupported_driver_extension"


@pytest.mark.parametrize("write", WRITES, ids=lambda w: f"{w.method} {w.path}")
def test_a_write_under_a_condition(world: Client, write: Write) -> None:
    subject = prepared(world, write)
    before = world.get(subject)
    weak = f"W/{before.headers['ETag']}"
    for tags in (STALE, f'"x", {STALE}', weak, '"' + "0" * 24 + '"'):
        refused = send(world, write, **{"If-Match": tags})
        assert (refused.status, refused.fault["errorcode"]) == (412, "precondition_failed"), tags
        assert "read it again" in refused.text
    assert world.get(subject).body == before.body
    given = f"{STALE}, {before.headers['ETag']}"
    assert went_through(send(world, write, **{"If-Match": given}))


@pytest.mark.parametrize("write", WRITES, ids=lambda w: f"{w.method} {w.path}")
def test_any_state_will_do(world: Client, write: Write) -> None:
    prepared(world, write)
    assert went_through(send(world, write, **{"If-Match": "*"}))


@pytest.mark.parametrize("write", WRITES, ids=lambda w: f"{w.method} {w.path}")
def test_what_is_not_there_is_not_found_under_any_condition(lonely: Client, write: Write) -> None:
    path = write.path.replace("{p1}", CHASSIS)
    for tags in ("*", STALE):
        answer = lonely.request(write.method, path, write.body, headers={"If-Match": tags})
        # Of a node that is not there the allocation is a client error, as clients know it.
        missing = 400 if path.endswith("/allocation") else 404
        assert answer.status == missing, answer.body


def test_none_match_is_no_condition_of_a_write(world: Client) -> None:
    answer = world.patch(NODE, add("/extra/a", 1), headers={"If-None-Match": "*"})
    assert answer.status == 400
    assert "If-Match" in answer.text
    assert world.get(NODE).body["extra"] == {}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/nodes", {"driver": "fake-hardware"}),
        ("POST", "/v1/chassis", {}),
        ("POST", "/v1/drivers/fake-hardware/vendor_passthru/x", {}),
        ("PUT", "/v1/drivers/fake-hardware/vendor_passthru/x", {}),
    ],
)
def test_what_has_no_entity_tag_takes_no_condition(
    world: Client, method: str, path: str, body: Any
) -> None:
    answer = world.request(method, path, body, headers={"If-Match": STALE})
    assert (answer.status, answer.fault["errorcode"]) == (412, "precondition_failed")
    assert "no entity tag" in answer.text
    assert len(world.get("/v1/nodes").body["nodes"]) == 2


def test_the_answer_to_a_write_has_the_tag_for_the_next_one(world: Client) -> None:
    created = world.post("/v1/nodes", {"driver": "fake-hardware", "name": "n3"})
    assert created.headers["ETag"] == etag(world, "/v1/nodes/n3")
    tag = created.headers["ETag"]
    for number in range(3):
        path = "/v1/nodes/n3"
        answer = world.patch(path, add("/extra/a", number), headers={"If-Match": tag})
        assert answer.status == 200
        assert answer.headers["ETag"] != tag
        tag = answer.headers["ETag"]
    assert tag == etag(world, "/v1/nodes/n3")


def test_a_tag_of_a_part_guards_the_whole_and_the_other_way_round(world: Client) -> None:
    short = etag(world.at("1.50"), f"{NODE}?fields=uuid")
    assert world.put(f"{NODE}/traits", {"traits": []}, headers={"If-Match": short}).status == 204
    states = etag(world, f"{NODE}/states")
    assert world.patch(NODE, add("/extra/a", 1), headers={"If-Match": states}).status == 200
    # Traits are part of the node.
    traits = etag(world, f"{NODE}/traits")
    assert world.put(f"{NODE}/traits/CUSTOM_C").status == 204
    assert world.patch(NODE, add("/extra/a", 2), headers={"If-Match": traits}).status == 412


def test_a_tag_of_another_thing_does_not_fit(world: Client) -> None:
    other = etag(world, "/v1/nodes/n2")
    assert world.patch(NODE, add("/extra/a", 1), headers={"If-Match": other}).status == 412


def test_the_lock_of_a_node_does_not_change_its_tag(world: Client, conductor: Conductor) -> None:
    uuid = world.get(NODE).body["uuid"]
    before = etag(world, NODE).partition(".")[0]
    with conductor.tasks.acquire(admin_context(), uuid, purpose="test"):
        held = etag(world, NODE)
        assert world.get(NODE).body["reservation"] == "cond-a"
    assert held.partition(".")[0] == before
    assert world.patch(NODE, add("/extra/a", 1), headers={"If-Match": held}).status == 200


def test_a_change_of_nothing_but_a_secret_changes_the_tag_and_can_not_be_guessed(
    world: Client,
) -> None:
    first = world.patch(NODE, add("/driver_info/redfish_password", "one"))
    tag = first.headers["ETag"]
    second = world.patch(NODE, add("/driver_info/redfish_password", "two"))
    assert first.body["driver_info"] == second.body["driver_info"]
    assert world.patch(NODE, add("/extra/a", 1), headers={"If-Match": tag}).status == 412
    # Whoever sees all but the password can not try passwords against the tag.
    node = nodes.get_by_ident("n1")
    row = nodes.select(nodes.REVISION_COLUMNS, {"uuid": node.uuid})[0]
    guessed = {**row, "driver_info": {"redfish_password": "three"}}
    assert nodes.revision_of(guessed) == nodes.revision_of(row)


def test_a_thing_that_was_made_again_is_another_one(world: Client) -> None:
    tag = etag(world, f"/v1/chassis/{CHASSIS}")
    assert world.delete(f"/v1/chassis/{CHASSIS}").status == 204
    assert world.post("/v1/chassis", {"uuid": CHASSIS, "description": "c"}).status == 201
    refused = world.delete(f"/v1/chassis/{CHASSIS}", headers={"If-Match": tag})
    assert refused.status == 412


def test_refusals_that_come_anyway_come_before_the_condition(world: Client) -> None:
    stale = {"If-Match": STALE}
    assert world.patch(NODE, add("/bogus", 1), headers=stale).status == 400
    assert world.put(f"{NODE}/states/provision", {"target": "x"}, headers=stale).status == 400
    assert world.at("1.1").put(f"{NODE}/traits", {"traits": []}, headers=stale).status == 405


# At the same time


@pytest.mark.parametrize(
    "path",
    [
        NODE,
        "/v1/ports/p1",
        "/v1/portgroups/pg1",
        f"/v1/chassis/{CHASSIS}",
        "/v1/deploy_templates/CUSTOM_T",
        "/v1/runbooks/rb1",
        f"/v1/volume/connectors/{VOLUME}",
        f"/v1/volume/targets/{VOLUME}",
        "/v1/allocations/a1",
    ],
)
def test_of_many_writers_with_one_tag_one_wins(world: Client, path: str) -> None:
    tag = etag(world, path)

    def write(place: int) -> Answer:
        return world.patch(path, add(f"/extra/k{place}", place), headers={"If-Match": tag})

    answers = at_once(12, write)
    counted = Counter(a.status for a in answers)
    assert counted[200] == 1
    assert set(counted) <= {200, 409, 412}
    assert len(world.get(path).body["extra"]) == 1


def test_the_condition_is_looked_at_under_the_lock(world: Client, conductor: Conductor) -> None:
    """A change that is made after the API has read the node is seen."""
    node = nodes.get_by_ident("n1")
    tag = etag(world, NODE)
    task = conductor.tasks.acquire(admin_context(), str(node.uuid), purpose="change")
    answers: list[Answer] = []

    def write() -> None:
        answers.append(world.patch(NODE, add("/extra/mine", 1), headers={"If-Match": tag}))

    CONF.set_override("node_locked_retry_attempts", 30, group="conductor")
    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: str(node.uuid) in conductor.tasks.book._waiters, "the write waits")
    task.node.extra["theirs"] = 1
    task.save()
    task.release()
    writer.join(30)
    assert [a.status for a in answers] == [412]
    assert nodes.get(node.id).extra == {"theirs": 1}


# What it costs


@pytest.mark.parametrize(
    ("method", "path", "body", "statements"),
    [
        ("GET", NODE, None, 1),
        ("GET", f"{NODE}?fields=name", None, 1),
        ("GET", f"{NODE}/states", None, 1),
        ("GET", f"{NODE}/traits", None, 1),
        ("GET", "/v1/ports/p1", None, 2),
        ("GET", "/v1/portgroups/pg1", None, 2),
        ("GET", f"/v1/chassis/{CHASSIS}", None, 1),
        ("PATCH", NODE, add("/extra/a", 1), 6),
        ("PUT", f"{NODE}/maintenance", {"reason": "x"}, 5),
        ("PUT", f"{NODE}/traits", {"traits": ["CUSTOM_B"]}, 7),
        ("PUT", f"{NODE}/management/boot_device", {"boot_device": "pxe"}, 4),
        ("PATCH", "/v1/ports/p1", add("/extra/a", 1), 8),
        ("PATCH", "/v1/portgroups/pg1", add("/extra/a", 1), 8),
        ("PATCH", f"/v1/chassis/{CHASSIS}", add("/extra/a", 1), 4),
        ("DELETE", "/v1/ports/{p1}", None, 7),
        ("DELETE", "/v1/portgroups/pg1", None, 8),
        ("DELETE", f"/v1/chassis/{CHASSIS}", None, 2),
        ("DELETE", "/v1/nodes/n2", None, 16),
    ],
)
def test_entity_tags_and_conditions_cost_no_statement(
    world: Client, method: str, path: str, body: Any, statements: int
) -> None:
    """The numbers are those of requests before there were conditions, or lower."""
    path = path.replace("{p1}", world.get("/v1/ports/p1").body["uuid"])
    with session.count_statements() as counted:
        assert world.request(method, path, body).status < 300
    assert counted.count <= statements, counted.statements
    if method in ("GET", "DELETE"):
        return
    tag = etag(world, path.removesuffix("/maintenance").split("/man")[0])
    with session.count_statements() as conditional:
        answer = world.request(method, path, body, headers={"If-Match": tag})
    assert answer.status < 300, answer.body
    assert conditional.count <= statements, conditional.statements
