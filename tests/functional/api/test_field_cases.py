"""Cases of operators about input and about requests that run at once (K01, K02).

What other files have whole classes of (lists, names, patches, health, versions) is not here.
"""

from __future__ import annotations

import gc
import uuid
from collections import Counter
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from ironic_rs.api.routes import ROUTES
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import bios, firmware, history, inventory, models, nodes, session
from ironic_rs.db.base import table
from ironic_rs.rpc.context import admin_context
from tests.functional.api.harness import Answer, Client
from tests.functional.api.test_concurrency import at_once

NODE = "/v1/nodes/n1"
STEP = {"interface": "deploy", "step": "s", "args": {}}


def enrol(api: Client, name: str = "n1") -> str:
    created = api.post("/v1/nodes", {"driver": "fake-hardware", "name": name})
    assert created.status == 201, created.body
    return str(created.body["uuid"])


# K01, 9: lists as repeated arguments


@pytest.mark.parametrize(
    "query",
    [
        "fields=uuid&fields=name",
        "fields=uuid,name",
        "fields=uuid,,name,",
        "fields=uuid,name&fields=UUID",
    ],
)
def test_both_spellings_of_a_list_of_fields_are_joined(api: Client, query: str) -> None:
    enrol(api)
    for path in ("/v1/nodes", NODE):
        body = api.get(f"{path}?{query}").body
        shown = body["nodes"][0] if "nodes" in body else body
        assert set(shown) == {"uuid", "name", "links"}


def test_lookup_takes_both_spellings_of_addresses(api: Client) -> None:
    node = enrol(api)
    port = {"address": "52:54:00:00:00:01", "node_uuid": node}
    assert api.post("/v1/ports", port).status == 201
    nodes.update(nodes.get(node), {"provision_state": "deploying"}, fence=None)
    other, known = "52:54:00:00:00:99", "52:54:00:00:00:01"
    for query in (
        f"addresses={other},{known}",
        f"addresses={other}&addresses={known}",
        f"addresses=,{known.upper()},",
    ):
        answer = api.get(f"/v1/lookup?{query}")
        assert (answer.status, answer.body["node"]["uuid"]) == (200, node), query


def test_five_hundred_fields_are_a_client_error_and_no_burden(api: Client) -> None:
    names = ",".join(f"f{n}" for n in range(500))
    answer = api.get(f"/v1/nodes?fields={names}")
    assert answer.status == 400
    assert len(answer.text) < 3000
    assert api.get("/v1/nodes?fields=" + ",".join(["uuid"] * 500)).status == 200


# K01, 10: deep or huge JSON


def test_refused_bodies_leave_no_memory_behind(api: Client) -> None:
    bodies = (b"[" * 100_000, b'{"a":' * 500 + b"1" + b"}" * 500, b"x" * (1024 * 1024 + 1))

    def send() -> None:
        for body in bodies:
            assert api.post("/v1/nodes", raw=body).status in (400, 413)

    send()
    gc.collect()
    before = psutil.Process().memory_info().rss
    for _ in range(30):
        send()
    gc.collect()
    # Thirty times more would be 30 MiB of the last of them alone.
    assert psutil.Process().memory_info().rss - before < 16 * 1024 * 1024
    assert api.get("/v1/nodes").status == 200


@pytest.mark.parametrize(
    ("method", "path", "option"),
    [
        ("POST", "/v1/nodes", "max_json_body_size"),
        ("PUT", f"{NODE}/states/provision", "max_json_body_size_provision"),
        ("PUT", f"{NODE}/states/provision/", "max_json_body_size_provision"),
        ("PUT", "/nodes/n1/states/provision", "max_json_body_size_provision"),
        ("POST", "/v1/continue_inspection", "max_json_body_size_inspection"),
    ],
)
def test_each_limit_counts_for_its_paths(api: Client, method: str, path: str, option: str) -> None:
    for name in ("max_json_body_size", "max_json_body_size_provision"):
        CONF.set_override(name, 8, group="api")
    CONF.set_override("max_json_body_size_inspection", 8, group="api")
    CONF.set_override(option, 16, group="api")
    ten, twenty = (b'"' + b"x" * kib * 1024 + b'"' for kib in (10, 20))
    assert api.request(method, path, raw=ten).status == 400
    refused = api.request(method, path, raw=twenty)
    assert refused.status == 413
    assert "16 KiB" in refused.body["faultstring"]


def test_the_depth_is_configurable(api: Client) -> None:
    CONF.set_override("max_json_body_depth", 40, group="api")
    deep = b'{"driver": "fake-hardware", "extra": {"a":' + b"[" * 37 + b"]" * 37 + b"}}"
    assert api.post("/v1/nodes", raw=deep).status == 201
    assert api.post("/v1/nodes", raw=deep.replace(b"[", b"[[").replace(b"]", b"]]")).status == 400


# K02, 15: instance_uuid is a lock


def claim(api: Client, value: str | None, path: str = NODE) -> Answer:
    op = {"op": "remove", "path": "/instance_uuid"}
    if value is not None:
        op = {"op": "add", "path": "/instance_uuid", "value": value}
    return api.patch(path, [op])


def test_an_instance_is_claimed_once_and_given_back(api: Client) -> None:
    enrol(api)
    enrol(api, "n2")
    mine, other = str(uuid.uuid4()), str(uuid.uuid4())
    assert claim(api, mine).status == 200
    assert claim(api, mine).status == 200
    lost = claim(api, other)
    assert (lost.status, lost.fault["errorcode"]) == (409, "node_associated")
    assert "Retry-After" not in lost.headers
    used = claim(api, mine, "/v1/nodes/n2")
    assert (used.status, used.fault["errorcode"]) == (409, "instance_associated")
    assert mine in used.text
    assert claim(api, None).status == 200
    assert claim(api, other).status == 200


def test_of_twenty_claims_one_wins(api: Client) -> None:
    enrol(api)
    answers = at_once(20, lambda _: claim(api, str(uuid.uuid4())))
    assert Counter(a.status for a in answers) == {200: 1, 409: 19}
    codes = {a.fault["errorcode"] for a in answers if a.status == 409}
    assert codes <= {"node_locked", "node_associated"}


def test_one_instance_is_on_one_node(api: Client) -> None:
    for number in range(8):
        enrol(api, f"n{number}")
    value = str(uuid.uuid4())
    answers = at_once(8, lambda place: claim(api, value, f"/v1/nodes/n{place}"))
    assert Counter(a.status for a in answers) == {200: 1, 409: 7}
    assert {a.fault["errorcode"] for a in answers if a.status == 409} == {"instance_associated"}


# K02, 17: delete answered 409, then 404

OWNED = (
    models.Port,
    models.Portgroup,
    models.NodeTrait,
    models.VolumeConnector,
    models.VolumeTarget,
    models.BIOSSetting,
    models.NodeHistory,
    models.NodeInventory,
    models.FirmwareComponent,
)


def fill(api: Client, node: str) -> None:
    """Give a node one of everything that belongs to nodes."""
    record = nodes.get(node)
    nodes.update(record, {"power_state": "power off"}, fence=None)
    for path, body in (
        ("ports", {"address": "52:54:00:00:00:01"}),
        ("portgroups", {"name": "pg1"}),
        ("volume/connectors", {"type": "iqn", "connector_id": "x"}),
        ("volume/targets", {"volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}),
    ):
        assert api.post(f"/v1/{path}", {**body, "node_uuid": node}).status == 201
    assert api.put(f"{NODE}/traits", {"traits": ["CUSTOM_A"]}).status == 204
    bios.create(record.id, [{"name": "b", "value": "on"}])
    firmware.create({"node_id": record.id, "component": "bmc", "initial_version": "1"})
    inventory.store(record.id, {"cpu": {}}, {})
    history.create({"uuid": str(uuid.uuid4()), "node_id": record.id, "event": "x"})


# K13, 92: attributes of all types and names


def test_bios_settings_of_any_kind_are_listed(api: Client) -> None:
    node = nodes.get(enrol(api))
    wide = {"attribute_type": "Integer", "lower_bound": -1, "upper_bound": 4294967295}
    names = ["Sys.Prof~1/a", "Sys.Prof~1.json", "with space", "50%", "a#b?c", "Ünïcode"]
    bios.create(node.id, [{"name": "wide", "value": None, **wide}])
    bios.create(node.id, [{"name": name, "value": "x"} for name in names])
    listed = api.get(f"{NODE}/bios?detail=true")
    assert listed.status == 200
    shown = {row["name"]: row for row in listed.body["bios"]}
    assert set(shown) == {"wide", *names}
    assert (shown["wide"]["upper_bound"], shown["wide"]["value"]) == (4294967295, None)
    one = api.get(f"{NODE}/bios/Sys.Prof~1.json")
    assert (one.status, list(one.body)) == (200, ["Sys.Prof~1.json"])


def rows(node_id: int) -> dict[str, int]:
    counted = {}
    with session.reader() as connection:
        for model in OWNED:
            found = table(model)
            query = sa.select(sa.func.count()).where(found.c.node_id == node_id)
            counted[found.name] = connection.execute(query).scalar_one()
    return counted


def test_a_deleted_node_leaves_no_row_behind(api: Client) -> None:
    node = enrol(api)
    fill(api, node)
    number = nodes.get(node).id
    assert set(rows(number).values()) == {1}
    answers = at_once(10, lambda _: api.delete(NODE))
    counted = Counter(a.status for a in answers)
    assert counted[204] == 1
    assert set(counted) <= {204, 404, 409}
    assert set(rows(number).values()) == {0}


def test_a_locked_node_is_not_deleted_and_stays_whole(api: Client, conductor: Conductor) -> None:
    node = enrol(api)
    fill(api, node)
    number = nodes.get(node).id
    with conductor.tasks.acquire(admin_context(), node, purpose="a slow power call"):
        refused = api.delete(NODE)
        assert (refused.status, refused.fault["errorcode"]) == (409, "node_locked")
    assert set(rows(number).values()) == {1}
    assert api.delete(NODE).status == 204


@pytest.mark.parametrize(
    ("collection", "body"),
    [
        ("ports", {"address": "52:54:00:00:00:01"}),
        ("portgroups", {"name": "pg1"}),
        ("volume/connectors", {"type": "iqn", "connector_id": "x"}),
        ("volume/targets", {"volume_type": "iscsi", "boot_index": 0, "volume_id": "v"}),
        ("chassis", {}),
        ("deploy_templates", {"name": "CUSTOM_T", "steps": [{**STEP, "priority": 1}]}),
        ("runbooks", {"name": "rb", "steps": [{**STEP, "order": 1}]}),
        ("inspection_rules", {"actions": [{"op": "fail", "args": {"msg": "x"}}]}),
        ("allocations", {"name": "a1", "resource_class": "x"}),
    ],
)
def test_other_things_are_deleted_once(api: Client, collection: str, body: dict[str, Any]) -> None:
    if collection in ("ports", "portgroups") or collection.startswith("volume"):
        body = {**body, "node_uuid": enrol(api)}
    created = api.post(f"/v1/{collection}", body)
    assert created.status == 201, created.body
    path = f"/v1/{collection}/{created.body['uuid']}"
    if collection.startswith("volume"):
        nodes.update(nodes.get_by_ident("n1"), {"power_state": "power off"}, fence=None)
    counted = Counter(a.status for a in at_once(8, lambda _: api.delete(path)))
    assert counted[204] == 1
    assert set(counted) <= {204, 404, 409}
    assert api.get(path).status == 404


# K02, 18: create races


@pytest.mark.parametrize(
    ("collection", "body", "named"),
    [
        ("nodes", {"driver": "fake-hardware", "name": "same"}, "same"),
        ("portgroups", {"name": "same"}, "same"),
        ("portgroups", {"address": "52:54:00:00:00:07"}, "52:54:00:00:00:07"),
        ("chassis", {"uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"}, "1be26c0b"),
        ("deploy_templates", {"name": "CUSTOM_S", "steps": [{**STEP, "priority": 1}]}, "CUSTOM_S"),
        ("runbooks", {"name": "same", "steps": [{**STEP, "order": 1}]}, "same"),
        ("allocations", {"name": "same", "resource_class": "x"}, "same"),
        ("volume/connectors", {"type": "iqn", "connector_id": "iqn.same"}, "iqn.same"),
    ],
)
def test_of_ten_equal_creations_one_wins_and_the_others_are_told_why(
    api: Client, collection: str, body: dict[str, Any], named: str
) -> None:
    if collection == "portgroups" or collection.startswith("volume"):
        body = {**body, "node_uuid": enrol(api)}
    answers = at_once(10, lambda _: api.post(f"/v1/{collection}", body))
    assert Counter(a.status for a in answers) == {201: 1, 409: 9}, [a.body for a in answers]
    for refused in (a for a in answers if a.status == 409):
        assert named in refused.text
        assert refused.fault["errorcode"].endswith(("already_exists", "duplicate_name"))
        assert "Retry-After" not in refused.headers


def test_the_same_address_in_any_case_on_two_nodes_is_one_port(api: Client) -> None:
    owners = (enrol(api), enrol(api, "n2"))
    spellings = ("52:54:00:AA:bb:01", "52:54:00:aa:BB:01")

    def create(place: int) -> Answer:
        body = {"address": spellings[place % 2], "node_uuid": owners[place // 2 % 2]}
        return api.post("/v1/ports", body)

    answers = at_once(12, create)
    assert Counter(a.status for a in answers) == {201: 1, 409: 11}
    for refused in (a for a in answers if a.status == 409):
        assert refused.fault["errorcode"] == "mac_already_exists"
        assert "52:54:00:aa:bb:01" in refused.text
    (port,) = api.get("/v1/ports/detail").body["ports"]
    assert port["address"] == "52:54:00:aa:bb:01"


# K02, 19: read-only calls take no exclusive lock

#: Reads below a node that need something else than the node itself.
_ELSEWHERE = {"allocation", "inventory", "{setting}", "{uuid}", "{indicator}", "{ident}"}


def test_all_reads_of_a_locked_node_are_answered(api: Client, conductor: Conductor) -> None:
    node = enrol(api)
    inventory.store(nodes.get(node).id, {"cpu": {}}, {})
    asked = 0
    with conductor.tasks.acquire(admin_context(), node, purpose="a power call that never ends"):
        for route in ROUTES:
            last = route.path.rsplit("/", 1)[1]
            if route.method != "GET" or "{node}" not in route.path:
                continue
            if "vendor_passthru" in route.path and last != "methods":
                continue
            if last in _ELSEWHERE - {"inventory"}:
                continue
            answer = api.get(route.path.format(node="n1"))
            assert answer.status == 200 or (
                answer.fault["errorcode"] == "unsupported_driver_extension"
            ), (route.path, answer.body)
            asked += 1
        assert api.get("/v1/nodes?detail=true").status == 200
        assert api.get(f"/v1/nodes/validate?node={node}").status == 200
    assert asked > 20


# K09: a machine that boots faster than its inspection is started


@pytest.mark.parametrize(
    ("state", "locked", "status"),
    [
        ("inspecting", True, 409),
        ("inspecting", False, 404),
        ("manageable", True, 404),
        ("manageable", False, 404),
    ],
)
def test_data_that_come_too_early_are_asked_for_again(
    api: Client, state: str, locked: bool, status: int
) -> None:
    node = enrol(api)
    port = {"address": "52:54:00:00:00:01", "node_uuid": node}
    assert api.post("/v1/ports", port).status == 201
    record = nodes.get(node)
    nodes.update(record, {"provision_state": state}, fence=None)
    if locked:
        nodes.reserve(record.id, "somebody")
    data = {"inventory": {"interfaces": [{"mac_address": "52:54:00:00:00:01"}]}}
    answer = api.post("/v1/continue_inspection", data)
    assert answer.status == status, answer.body
    assert node not in str(answer.body)


# K09, 68: machines that share a MAC address


SHARED, OWN = "52:54:00:00:00:0a", "52:54:00:00:00:0b"
OTHERS, ELSEWHERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def pair(api: Client) -> list[str]:
    """Uuids of two nodes: the first has the port of the shared card, the second its own."""
    found = []
    for name, address in (("first", SHARED), ("second", OWN)):
        found.append(enrol(api, name))
        port = {"address": address, "node_uuid": found[-1]}
        assert api.post("/v1/ports", port).status == 201
    return found


def put_into(uuid: str, state: str, *bmc: str) -> None:
    values = {
        "provision_state": state,
        "driver_internal_info": {"lookup_bmc_addresses": list(bmc)},
    }
    nodes.update(nodes.get(uuid), values, fence=None)


def send_both(api: Client, bmc: str | None = None, query: str = "") -> Answer:
    """Post the inventory of the second machine."""
    inventory = {"interfaces": [{"mac_address": SHARED}, {"mac_address": OWN}], "bmc_address": bmc}
    return api.post(f"/v1/continue_inspection{query}", {"inventory": inventory})


@pytest.mark.parametrize(
    ("first", "bmc", "by_uuid", "found"),
    [
        (("manageable",), None, False, True),
        (("inspect wait", OTHERS), ELSEWHERE, False, True),
        (("inspect wait",), None, True, True),
        (("inspect wait",), None, False, False),
        (("inspect wait", ELSEWHERE), ELSEWHERE, False, False),
    ],
    ids=["by its state", "by its BMC", "by its uuid", "by nothing", "by no BMC of its own"],
)
def test_inspection_data_of_machines_that_share_a_card_are_told_apart(
    api: Client,
    pair: list[str],
    caplog: pytest.LogCaptureFixture,
    first: tuple[str, ...],
    bmc: str | None,
    by_uuid: bool,
    found: bool,
) -> None:
    put_into(pair[0], *first)
    put_into(pair[1], "inspect wait", ELSEWHERE)
    before = nodes.get(pair[0]).updated_at
    answer = send_both(api, bmc, f"?node_uuid={pair[1]}" if by_uuid else "")
    assert nodes.get(pair[0]).updated_at == before
    if found:
        assert answer.status == 202, answer.body
        assert answer.body["node"]["uuid"] == pair[1]
    else:
        assert answer.status == 404
        assert all(uuid in caplog.text and uuid not in str(answer.body) for uuid in pair)
        assert SHARED in caplog.text


def test_a_uuid_and_addresses_that_contradict_each_other_find_nothing(
    api: Client, pair: list[str]
) -> None:
    put_into(pair[0], "inspect wait")
    interfaces = [{"mac_address": OWN}]
    answer = api.post(
        f"/v1/continue_inspection?node_uuid={pair[0]}", {"inventory": {"interfaces": interfaces}}
    )
    assert answer.status == 404


@pytest.mark.parametrize(("first", "status"), [("active", 200), ("deploying", 404)])
def test_a_look_up_by_a_shared_card_finds_the_node_that_waits(
    api: Client, pair: list[str], first: str, status: int
) -> None:
    put_into(pair[0], first)
    put_into(pair[1], "deploying")
    answer = api.get(f"/v1/lookup?addresses={SHARED},{OWN}")
    assert answer.status == status, answer.body
    if status == 200:
        assert answer.body["node"]["uuid"] == pair[1]
