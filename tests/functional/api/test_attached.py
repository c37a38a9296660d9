"""What is attached to nodes: volumes, portgroups, virtual media; for whom, and how changed."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.api.call import Services
from ironic_rs.conductor.service import Conductor
from ironic_rs.db import nodes, portgroups, ports, session, volumes
from ironic_rs.drivers.base import ManagementInterface
from ironic_rs.rpc.context import admin_context
from tests.functional.api.harness import Answer, Client
from tests.functional.api.test_allocations import Guarded, guarded, keystone, machine

__all__ = ["guarded", "keystone"]

MAC = "52:54:00:00:00:0"
NETWORKS = "/physical_network"


@pytest.fixture
def node(conf: Any) -> Any:
    return machine("n1", owner="p1")


# Volumes


def target(node: Any, **values: Any) -> Any:
    row = {
        "node_id": node.id,
        "volume_type": "iscsi",
        "boot_index": 0,
        "volume_id": "v",
        "properties": {"target_lun": 1, "auth_password": "canary"},
    }
    return volumes.create_target(row | values)


@pytest.mark.parametrize(
    ("caller", "properties"),
    [
        ("system-reader", {"target_lun": 1, "auth_password": "******"}),
        ("admin", {"target_lun": 1, "auth_password": "******"}),
        ("member", None),
        ("reader", None),
    ],
)
def test_properties_of_targets_are_for_those_who_may_view_them(
    node: Any, guarded: Guarded, caller: str, properties: Any
) -> None:
    uuid = target(node).uuid
    found = [
        guarded(caller, "GET", f"/v1/volume/targets/{uuid}").body,
        guarded(caller, "GET", "/v1/volume/targets?detail=true").body["targets"][0],
        guarded(caller, "GET", "/v1/nodes/n1/volume/targets?fields=properties").body["targets"][0],
    ]
    if caller == "member":
        patch = [{"op": "add", "path": "/extra/a", "value": 1}]
        found.append(guarded(caller, "PATCH", f"/v1/volume/targets/{uuid}", patch).body)
    for document in found:
        if properties is None:
            assert list(document["properties"]) == ["redacted_contents"]
        else:
            assert document["properties"] == properties
        assert "canary" not in str(document)


def test_a_new_target_is_shown_to_its_maker(node: Any, guarded: Guarded) -> None:
    nodes.update(node, {"lessee": "p1"}, fence=None)
    body = {
        "node_uuid": node.uuid,
        "volume_type": "iscsi",
        "boot_index": 1,
        "volume_id": "v",
        "properties": {"target_lun": 1},
    }
    made = guarded("admin", "POST", "/v1/volume/targets", body)
    assert (made.status, made.body["properties"]) == (201, {"target_lun": 1})
    assert guarded("member", "POST", "/v1/volume/targets", body).status == 403


def test_volumes_are_as_visible_as_their_nodes(node: Any, guarded: Guarded) -> None:
    own = target(node)
    foreign = target(machine("n2", owner="p2"))
    for caller, expected in (
        ("system-reader", [own.uuid, foreign.uuid]),
        ("reader", [own.uuid]),
        ("stranger", [foreign.uuid]),
    ):
        rows = guarded(caller, "GET", "/v1/volume/targets").body["targets"]
        assert [row["uuid"] for row in rows] == expected
    path = f"/v1/volume/targets/{foreign.uuid}"
    for method in ("GET", "DELETE"):
        assert guarded("member", method, path).status == 404
    assert guarded("member", "GET", "/v1/volume/targets?node=n2").status == 404
    assert guarded("member", "GET", "/v1/nodes/n2/volume/targets").status == 404
    move = [{"op": "replace", "path": "/node_uuid", "value": machine("n3").uuid}]
    refused = guarded("system-member", "PATCH", f"/v1/volume/targets/{own.uuid}", move)
    assert refused.status == 400
    assert guarded("reader", "GET", "/v1/volume").status == 403


# Portgroups


@pytest.fixture
def bond(api: Client, node: Any) -> Any:
    """A portgroup with two ports."""
    nodes.update(node, {"provision_state": "manageable"}, fence=None)
    group = portgroups.create({"node_id": node.id, "name": "bond", "physical_network": "net"})
    for number in range(2):
        ports.create(
            {
                "node_id": node.id,
                "portgroup_id": group.id,
                "address": f"{MAC}{number}",
                "physical_network": "net",
            }
        )
    return group


def networks(bond: Any) -> set[str | None]:
    """The physical networks of a portgroup and its ports."""
    found = {port.physical_network for port in ports.of_portgroup(bond.id)}
    return found | {portgroups.get(bond.id).physical_network}


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "op",
    [
        {"op": "replace", "path": NETWORKS, "value": "lan"},
        {"op": "add", "path": NETWORKS, "value": "lan"},
        {"op": "remove", "path": NETWORKS},
    ],
    ids=lambda op: op["op"],
)
def test_the_ports_go_along_to_another_network_at_any_place_of_a_patch(
    api: Client, bond: Any, place: int, op: dict[str, Any]
) -> None:
    patch = [
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "replace", "path": "/category", "value": "fast"},
    ]
    patch.insert(place, op)
    answer = api.patch("/v1/portgroups/bond", patch)
    assert answer.status == 200, answer.body
    assert answer.body["physical_network"] == op.get("value")
    assert (answer.body["extra"], answer.body["category"]) == ({"a": 1}, "fast")
    assert networks(bond) == {op.get("value")}


def test_a_refused_patch_moves_no_port(api: Client, bond: Any) -> None:
    for refused in (
        {"op": "replace", "path": "/node_uuid", "value": machine("n2", owner="p1").uuid},
        {"op": "remove", "path": "/extra/nothing"},
    ):
        patch = [{"op": "replace", "path": NETWORKS, "value": "lan"}, refused]
        assert api.patch("/v1/portgroups/bond", patch).status == 400
        assert networks(bond) == {"net"}


def test_the_network_costs_no_statement_for_each_port(api: Client, bond: Any) -> None:
    patch = [{"op": "replace", "path": NETWORKS, "value": "lan"}]
    counts = []
    for number in range(2, 8):
        with session.count_statements() as counted:
            patch[0]["value"] = f"lan{number}"
            assert api.patch("/v1/portgroups/bond", patch).status == 200
        counts.append(counted.count)
        ports.create(
            {
                "node_id": bond.node_id,
                "portgroup_id": bond.id,
                "address": f"{MAC}{number}",
                "physical_network": f"lan{number}",
            }
        )
    # The first one also asked for the conductors.
    assert len(set(counts[1:])) == 1


# Virtual media


class Slot:
    """Virtual media of the fake machines."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def devices(self, task: Any) -> list[dict[str, Any]]:
        return [{"media_types": ["CD"], "inserted": bool(self.calls), "image": None}]

    def attach(self, task: Any, device_type: str, image_url: str) -> None:
        self.calls.append((device_type, image_url))

    def detach(self, task: Any, device_types: Any = None) -> None:
        self.calls.append(device_types)


@pytest.fixture
def slot(conductor: Conductor, monkeypatch: pytest.MonkeyPatch, node: Any) -> Slot:
    found = Slot()
    management = type(conductor.drivers.build(node).management)
    assert issubclass(management, ManagementInterface)
    for name, method in (
        ("get_virtual_media", found.devices),
        ("attach_virtual_media", found.attach),
        ("detach_virtual_media", found.detach),
    ):
        monkeypatch.setattr(management, name, lambda self, *a, _m=method: _m(*a))
    return found


def sent(api: Client, conductor: Conductor, method: str, path: str, body: Any = None) -> Answer:
    answer = api.request(method, f"/v1/nodes/n1/{path}", body)
    assert conductor.tasks.book.wait_empty(30)
    return answer


def test_media_are_inserted_and_ejected_in_the_background(
    api: Client, conductor: Conductor, slot: Slot
) -> None:
    body = {
        "device_type": "cdrom",
        "image_url": "nfs://server/share/a.iso",
        "image_download_source": "http",
    }
    assert sent(api, conductor, "POST", "vmedia", body).status == 204
    assert sent(api, conductor, "DELETE", "vmedia?device_types=cdrom,disk").status == 204
    assert sent(api, conductor, "DELETE", "vmedia/floppy,cdrom").status == 204
    assert sent(api, conductor, "DELETE", "vmedia", {"device_types": ["disk"]}).status == 204
    assert sent(api, conductor, "DELETE", "vmedia", {"device_types": "disk,cdrom"}).status == 204
    assert sent(api, conductor, "DELETE", "vmedia").status == 204
    assert slot.calls == [
        ("cdrom", "nfs://server/share/a.iso"),
        ["cdrom", "disk"],
        ["floppy", "cdrom"],
        ["disk"],
        ["disk", "cdrom"],
        None,
    ]
    refused = sent(api, conductor, "POST", "vmedia", {**body, "image_download_source": "local"})
    assert refused.status == 400


def test_media_are_read_while_the_node_is_locked(
    api: Client, conductor: Conductor, slot: Slot, node: Any
) -> None:
    with conductor.tasks.acquire(admin_context(), str(node.uuid)):
        answer = api.get("/v1/nodes/n1/vmedia")
        assert (answer.status, answer.body) == (
            200,
            [{"media_types": ["CD"], "inserted": False, "image": None}],
        )
        assert api.delete("/v1/nodes/n1/vmedia").status == 409


@pytest.mark.parametrize(("caller", "status"), [("member", 204), ("reader", 403)])
def test_media_are_changed_by_members(
    keystone: Any, services: Services, conductor: Conductor, slot: Slot, caller: str, status: int
) -> None:
    client = Client(app.build(services), headers={"X-Auth-Token": caller})
    assert client.get("/v1/nodes/n1/vmedia").status == 200
    assert client.delete("/v1/nodes/n1/vmedia").status == status
    assert conductor.tasks.book.wait_empty(30)
