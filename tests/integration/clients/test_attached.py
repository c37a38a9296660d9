"""The unmodified clients: allocations, volumes, portgroups' networks, virtual media."""

from __future__ import annotations

from typing import Any

import pytest
from openstack import exceptions

from tests.harness.client import Baremetal
from tests.harness.cluster import Cluster, Sandbox
from tests.harness.servers import wait_until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),
]

UUID = "e0000000-0000-4000-8000-000000000001"
NOWHERE = "f0000000-0000-4000-8000-000000000001"


def free(cli: Baremetal, cluster: Cluster, name: str, options: str = "") -> str:
    """Make a node that can be allocated; return its uuid."""
    uuid: str = cli.create(name, f"--resource-class gold {options}")["uuid"]
    cli(f"node power off {name}")
    wait_until(lambda: cluster.node(name)["power_state"] == "power off", "it is off")
    cluster.provide(name)
    return uuid


def test_allocation_commands(cli: Baremetal, cluster: Cluster) -> None:
    uuids = {name: free(cli, cluster, name) for name in ("n1", "n2")}
    cli("node add trait n2 CUSTOM_FAST")

    made = cli.json(
        f"allocation create --resource-class gold --name web --uuid {UUID} --trait CUSTOM_FAST "
        "--candidate-node n1 --candidate-node n2 --extra k=v --wait 60"
    )
    assert (made["uuid"], made["state"], made["node_uuid"]) == (UUID, "active", uuids["n2"])
    assert made["candidate_nodes"] == [uuids["n1"], uuids["n2"]]
    assert (made["traits"], made["extra"]) == (["CUSTOM_FAST"], {"k": "v"})
    assert cli.json("allocation show web") == made == cli.json(f"allocation show {UUID}")
    assert cli.json("allocation show web --fields name state") == {"name": "web", "state": "active"}
    shown = cli.json("node show n2 --fields allocation_uuid instance_uuid instance_info")
    assert shown["allocation_uuid"] == shown["instance_uuid"] == UUID
    assert shown["instance_info"] == {"traits": ["CUSTOM_FAST"]}

    cli("allocation set web --name shop --extra a=b")
    cli("allocation unset shop --extra k")
    changed = cli.json("allocation show shop")
    assert changed["extra"] == {"a": "b"}
    cli("allocation unset shop --name")
    assert cli.json(f"allocation show {UUID}")["name"] is None

    cli(f"allocation delete {UUID}")
    assert cli.json("node show n2 --fields instance_uuid")["instance_uuid"] is None
    assert "(HTTP 404)" in cli.refused(f"allocation show {UUID}")


def test_allocation_lists(cli: Baremetal, cluster: Cluster, page: int) -> None:
    node = free(cli, cluster, "n1")
    cli("allocation create --resource-class gold --name a --owner me")
    names = ["a", *(f"b{number}" for number in range(page + 1))]
    for name in names[1:]:
        cli(f"allocation create --resource-class silver --name {name}")
    try:
        wait_until(
            lambda: cli.values("allocation list --state allocating -c name") == [],
            "all are settled",
        )
        for options, expected in {
            "--node n1": [],
            f"--node {node}": [],
            "--resource-class gold": ["a"],
            "--owner me": ["a"],
            "--state active": [],
        }.items():
            assert cli.values(f"allocation list {options} -c name") == expected
        assert cli.values("allocation list --limit 0 -c name") == names
        assert cli.values("allocation list --limit 0 --sort name:desc -c name") == names[::-1]
        assert cli.values("allocation list --limit 0 --state error --fields name") == names
        [long] = cli.json("allocation list --resource-class gold --long")
        assert "belong to project me" in long["last_error"]
        assert "(HTTP 400)" in cli.refused("allocation list --node nobody")
    finally:
        cli(f"allocation delete {' '.join(names)}")
    assert cli.json("allocation list") == []


def test_an_allocation_of_a_node_in_use(cli: Baremetal, cluster: Cluster) -> None:
    free(cli, cluster, "n1")
    assert "(HTTP 400)" in cli.refused("allocation create --node n1")
    cluster.provision("n1", "active")
    cluster.wait_state("n1", "active")
    made = cli.json("allocation create --node n1 --name web")
    assert made["state"] == "active"
    assert "(HTTP 409)" in cli.refused("allocation delete web")
    assert "(HTTP 409)" in cli.refused("allocation create --node n1")
    # The allocation ends with the instance.
    cli("node undeploy n1")
    cluster.wait_state("n1", "available")
    assert cli.json("allocation list") == []
    assert cluster.node("n1")["instance_uuid"] is None


def test_allocations_by_the_sdk(sdk: Any, cli: Baremetal, cluster: Cluster) -> None:
    node = free(cli, cluster, "n1")
    made = sdk.create_allocation(resource_class="gold", name="n1", extra={"k": "v"})
    assert made.state == "allocating"
    made = sdk.wait_for_allocation(made, timeout=60)
    assert (made.state, made.node_id) == ("active", node)
    assert sdk.get_allocation("n1").id == made.id
    assert [found.name for found in sdk.allocations(node="n1")] == ["n1"]
    assert sdk.update_allocation(made, name="web").name == "web"
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert sdk.patch_allocation(made, patch).extra == {"k": "v", "a": 1}
    sdk.delete_allocation(made)
    with pytest.raises(exceptions.NotFoundException):
        sdk.get_allocation("web")

    failing = sdk.create_allocation(resource_class="silver")
    with pytest.raises(exceptions.ResourceFailure, match="silver"):
        sdk.wait_for_allocation(failing, timeout=60)
    assert sdk.wait_for_allocation(failing, timeout=60, ignore_error=True).state == "error"
    sdk.delete_allocation(failing)


def test_volume_connector_commands(cli: Baremetal, cluster: Cluster) -> None:
    node = free(cli, cluster, "n1")
    made = cli.json(
        f"volume connector create --node {node} --type iqn --connector-id iqn.2017-07.org:1 "
        f"--uuid {UUID} --extra k=v"
    )
    assert (made["uuid"], made["node_uuid"], made["type"]) == (UUID, node, "iqn")
    assert cli.json(f"volume connector show {UUID}") == made
    assert cli.json("volume connector list") == [
        {name: made[name] for name in ("uuid", "node_uuid", "type", "connector_id")}
    ]
    [long] = cli.json("volume connector list --long --node n1")
    assert long["extra"] == {"k": "v"}
    assert cli.values("volume connector list --fields type connector_id --sort type:desc") == [
        "iqn iqn.2017-07.org:1"
    ]
    cli(f"volume connector set {UUID} --type wwnn --connector-id 50:01 --extra a=b")
    cli(f"volume connector unset {UUID} --extra k")
    changed = cli.json(f"volume connector show {UUID} --fields type connector_id extra")
    assert changed == {"type": "wwnn", "connector_id": "50:01", "extra": {"a": "b"}}
    refused = cli.refused(f"volume connector create --node {node} --type wwnn --connector-id 50:01")
    assert "(HTTP 409)" in refused
    cli("node power on n1")
    wait_until(lambda: cluster.node("n1")["power_state"] == "power on", "it is on")
    assert "power on" in cli.refused(f"volume connector set {UUID} --extra c=d")
    assert "power on" in cli.refused(f"volume connector delete {UUID}")
    cli("node power off n1")
    wait_until(lambda: cluster.node("n1")["power_state"] == "power off", "it is off")
    cli(f"volume connector delete {UUID}")
    assert "(HTTP 404)" in cli.refused(f"volume connector show {UUID}")


def test_volume_target_commands(cli: Baremetal, cluster: Cluster, page: int) -> None:
    node = free(cli, cluster, "n1")
    made = cli.json(
        f"volume target create --node {node} --type iscsi --boot-index 0 --volume-id v "
        f"--uuid {UUID} --property target_lun=1 --property auth_password=hidden"
    )
    assert made["properties"] == {"target_lun": 1, "auth_password": "******"}
    assert cli.json(f"volume target show {UUID}") == made
    for number in range(1, page + 1):
        cli(
            f"volume target create --node {node} --type iscsi --boot-index {number} "
            f"--volume-id v{number}"
        )
    indexes = [str(number) for number in range(page + 1)]
    assert cli.values("volume target list --limit 0 --node n1 -c 'Boot Index'") == indexes
    assert (
        cli.values("volume target list --limit 0 --sort boot_index:desc --fields boot_index")
        == indexes[::-1]
    )
    cli(f"volume target set {UUID} --property a=b --boot-index 9 --volume-id w")
    cli(f"volume target unset {UUID} --property target_lun")
    changed = cli.json(f"volume target show {UUID} --fields properties boot_index volume_id")
    assert changed == {
        "properties": {"a": "b", "auth_password": "******"},
        "boot_index": 9,
        "volume_id": "w",
    }
    refused = cli.refused(f"volume target set {UUID} --boot-index 1")
    assert "boot index '1'" in refused
    cli(f"volume target delete {UUID}")
    assert "(HTTP 404)" in cli.refused(f"volume target delete {NOWHERE}")


def test_volumes_by_the_sdk(sdk: Any, cli: Baremetal, cluster: Cluster) -> None:
    node = free(cli, cluster, "n1")
    connector = sdk.create_volume_connector(node_id=node, type="iqn", connector_id="x")
    target = sdk.create_volume_target(
        node_id=node, volume_type="iscsi", boot_index=0, volume_id="v", properties={"a": 1}
    )
    assert [found.id for found in sdk.volume_connectors(details=True)] == [connector.id]
    assert [found.properties for found in sdk.volume_targets(details=True)] == [{"a": 1}]
    assert sdk.find_volume_target(target.id).node_id == node
    assert sdk.update_volume_connector(connector, connector_id="y").connector_id == "y"
    assert sdk.update_volume_target(target, boot_index=3).boot_index == 3
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert sdk.patch_volume_target(target, patch).extra == {"a": 1}
    sdk.delete_volume_connector(connector)
    sdk.delete_volume_target(target)
    with pytest.raises(exceptions.NotFoundException):
        sdk.get_volume_target(target.id)


def test_a_portgroup_takes_its_ports_to_another_network(sdk: Any, cli: Baremetal) -> None:
    node = cli.create("n1")["uuid"]
    group = sdk.create_port_group(node_id=node, name="bond")
    port = sdk.create_port(address="52:54:00:aa:bb:01", node_id=node, port_group_id=group.id)
    patch = [
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "add", "path": "/physical_network", "value": "lan"},
    ]
    answer = sdk.patch(f"/portgroups/{group.id}", json=patch, microversion="1.115")
    assert (answer.status_code, answer.json()["physical_network"]) == (200, "lan")
    assert sdk.get_port(port.id).physical_network == "lan"


def test_virtual_media_of_a_redfish_machine(sdk: Any, cluster: Cluster, sandbox: Sandbox) -> None:
    [machine] = sandbox.machines()
    node = sdk.create_node(**{**sandbox.node(machine), "name": "r1"})
    url = "http://images.example/live.iso"

    def images() -> set[str | None]:
        return {
            slot["image"]
            for slot in sdk.get(f"/nodes/{node.id}/vmedia", microversion="1.93").json()
        }

    assert url not in images()
    body = {"device_type": "cdrom", "image_url": url, "image_download_source": "http"}
    answer = sdk.post(f"/nodes/{node.id}/vmedia", json=body, microversion="1.89")
    assert answer.status_code == 204
    wait_until(lambda: cluster.node("r1")["reservation"] is None, "the work is done")
    assert cluster.node("r1")["last_error"] is None
    assert url in images()
    sdk.detach_vmedia_from_node(node, ["cdrom"])
    wait_until(lambda: cluster.node("r1")["reservation"] is None, "the work is done")
    assert url not in images()

    sdk.attach_vmedia_to_node(node, "cdrom", "http://127.0.0.1:9/absent.iso")
    wait_until(lambda: cluster.node("r1")["last_error"] is not None, "the failure is recorded")
    assert "absent.iso" in cluster.node("r1")["last_error"]
