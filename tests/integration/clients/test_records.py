"""The unmodified ``baremetal`` program: records of nodes, ports, chassis, drivers, conductors."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.harness.client import Baremetal
from tests.harness.cluster import BIN, Cluster

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),
]

CHASSIS = "a0000000-0000-4000-8000-000000000001"
NODE = "b0000000-0000-4000-8000-000000000001"
INSTANCE = "c0000000-0000-4000-8000-000000000001"
VIF = "d0000000-0000-4000-8000-000000000001"
NOWHERE = "f0000000-0000-4000-8000-000000000001"
MAC = "52:54:00:aa:bb:01"
MAC2 = "52:54:00:aa:bb:02"

INTERFACES = {
    "bios": "fake",
    "boot": "fake",
    "console": "fake",
    "deploy": "fake",
    "firmware": "fake",
    "inspect": "fake",
    "management": "fake",
    "network": "noop",
    "power": "fake",
    "raid": "fake",
    "rescue": "fake",
    "storage": "noop",
    "vendor": "fake",
}


# The program as its users start it


def test_the_program_tells_success_and_failure_by_its_exit_status(cluster: Cluster) -> None:
    assert cluster.baremetal("node", "create", "--driver", "fake-hardware", "--name", "n1")
    listed = cluster.baremetal("node", "list", "-f", "json")
    assert [node["name"] for node in listed] == ["n1"]
    command = [BIN / "baremetal", "--os-auth-type", "none", "--os-endpoint", cluster.url]
    done = subprocess.run(
        [*command, "node", "show", "absent"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "Node absent could not be found. (HTTP 404)" in done.stderr


def test_the_program_waits_for_states(cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cluster.create(name=name)
    said = cluster.baremetal("node", "manage", "--wait", "60", "n1", "n2")
    assert said.startswith("Waiting for provision state manageable on node(s) n1, n2")
    assert {cluster.node(name)["provision_state"] for name in ("n1", "n2")} == {"manageable"}


@pytest.mark.parametrize("version", ["1.1", "1.31", "1.94", "latest"])
def test_the_client_chooses_its_version(cli: Baremetal, cluster: Cluster, version: str) -> None:
    node = cluster.create(name="n1")
    shown = cli.json(f"--os-baremetal-api-version {version} node show {node['uuid']}")
    assert shown["uuid"] == node["uuid"]
    assert ("health" in shown) == (version == "latest")


def test_the_client_is_refused_what_its_version_does_not_know(cli: Baremetal) -> None:
    cli.create("n1")
    old = "--os-baremetal-api-version 1.31"
    assert "(HTTP 405)" in cli.refused(f"{old} node trait add n1 CUSTOM_A")
    assert "version 1.31 is not supported" in cli.refused(f"{old} node list --owner me")


# Drivers, conductors, chassis


def test_drivers(cli: Baremetal) -> None:
    assert cli.json("driver list") == [
        {"name": "fake-hardware", "hosts": "all-in-one"},
        {"name": "redfish", "hosts": "all-in-one"},
    ]
    assert cli.json("driver list --type classic") == []
    assert cli.values("driver list --fields type name") == [
        "dynamic fake-hardware",
        "dynamic redfish",
    ]
    detailed = {driver["name"]: driver for driver in cli.json("driver list --long")}
    fake = cli.json("driver show fake-hardware")
    assert fake == detailed["fake-hardware"]
    for interface, default in INTERFACES.items():
        assert fake[f"default_{interface}_interface"] == default
        assert default in fake[f"enabled_{interface}_interfaces"].split(", ")
    assert cli.json("driver show redfish --fields name type") == {
        "name": "redfish",
        "type": "dynamic",
    }
    assert "nope" in cli.refused("driver show nope")


def test_driver_properties_and_methods(cli: Baremetal) -> None:
    properties = {row["property"] for row in cli.json("driver property list redfish")}
    assert {"redfish_address", "redfish_system_id", "deploy_kernel"} <= properties
    assert "(HTTP 404)" in cli.refused("driver property list nope")
    raid = {row["property"] for row in cli.json("driver raid property list fake-hardware")}
    assert {"raid_level", "size_gb"} <= raid
    assert cli.json("driver passthru list fake-hardware") == []
    assert "(HTTP 400)" in cli.refused("driver passthru call fake-hardware nope")


def test_conductors(cli: Baremetal) -> None:
    assert cli.json("conductor list") == [
        {"hostname": "all-in-one", "conductor_group": "", "alive": True}
    ]
    shown = cli.json("conductor show all-in-one")
    assert sorted(shown["drivers"]) == ["fake-hardware", "redfish"]
    [listed] = cli.json("conductor list --long --sort hostname:desc --limit 1")
    assert set(listed) == set(shown)
    assert cli.values("conductor list --fields alive hostname") == ["True all-in-one"]
    assert "(HTTP 404)" in cli.refused("conductor show nope")


def test_chassis(cli: Baremetal) -> None:
    made = cli.json(f"chassis create --uuid {CHASSIS} --description rack --extra row=7 --extra a=b")
    assert (made["uuid"], made["description"]) == (CHASSIS, "rack")
    assert made["extra"] == {"row": 7, "a": "b"}
    assert cli.json("chassis list") == [{"uuid": CHASSIS, "description": "rack"}]
    [listed] = cli.json("chassis list --long --limit 1 --sort description:asc")
    assert listed == cli.json(f"chassis show {CHASSIS}")
    cli(f"chassis set {CHASSIS} --description door --extra c=d")
    cli(f"chassis unset {CHASSIS} --extra row --extra a")
    shown = cli.json(f"chassis show {CHASSIS} --fields description extra")
    assert shown == {"description": "door", "extra": {"c": "d"}}
    cli(f"chassis unset {CHASSIS} --description")
    assert cli.json(f"chassis show {CHASSIS}")["description"] is None

    cli.create("n1", f"--chassis-uuid {CHASSIS}")
    cli.create("n2")
    assert cli.values(f"node list --chassis {CHASSIS} -c name") == ["n1"]
    assert "(HTTP 400)" in cli.refused(f"chassis delete {CHASSIS}")
    cli("node unset n1 --chassis-uuid")
    assert "Deleted chassis" in cli(f"chassis delete {CHASSIS}")
    assert "(HTTP 404)" in cli.refused(f"chassis show {CHASSIS}")


def test_resources_of_a_file(cli: Baremetal, tmp_path: Path) -> None:
    port = {"address": MAC, "extra": {"of": "file"}}
    node = {"driver": "fake-hardware", "name": "n1", "ports": [port]}
    file = tmp_path / "resources.json"
    file.write_text(json.dumps({"chassis": [{"description": "filed", "nodes": [node]}]}))
    cli(f"create {file}")
    [chassis] = cli.json("chassis list")
    assert chassis["description"] == "filed"
    assert cli.state("n1", "chassis_uuid") == [chassis["uuid"]]
    assert cli.values("port list --node n1 -c address") == [MAC]


# Nodes: records


def test_node_create_with_every_option(cli: Baremetal, cluster: Cluster) -> None:
    cli(f"chassis create --uuid {CHASSIS}")
    cli.create("parent")
    made = cli.create(
        "n1",
        f"--uuid {NODE} --chassis-uuid {CHASSIS} --resource-class gold --description 'A node' "
        "--driver-info user=me --driver-info password=hidden --property cpus=4 "
        "--property capabilities=boot_mode:uefi --extra k=v --no-automated-clean --lessee you "
        "--shard s1 --parent-node parent --disable-power-off --instance-name web "
        """--network-data '{"links": [], "networks": [], "services": []}' """
        + " ".join(f"--{name}-interface {value}" for name, value in INTERFACES.items()),
    )
    wanted = {
        "uuid": NODE,
        "name": "n1",
        "chassis_uuid": CHASSIS,
        "resource_class": "gold",
        "description": "A node",
        "driver_info": {"user": "me", "password": "******"},
        "properties": {"cpus": 4, "capabilities": "boot_mode:uefi"},
        "extra": {"k": "v"},
        "automated_clean": False,
        "lessee": "you",
        "shard": "s1",
        "parent_node": cluster.node("parent")["uuid"],
        "disable_power_off": True,
        "instance_name": "web",
        "network_data": {"links": [], "networks": [], "services": []},
        "conductor_group": "",
        "provision_state": "enroll",
        "power_state": None,
        "maintenance": False,
        **{f"{name}_interface": value for name, value in INTERFACES.items()},
    }
    assert {key: made[key] for key in wanted} == wanted
    shown = cli.json("node show n1")
    assert shown == made == cli.json(f"node show {NODE}")
    assert shown["conductor"] == "all-in-one"
    assert NODE in cli("node children list parent")


def test_node_create_refusals(cli: Baremetal) -> None:
    cli.create("n1")
    assert "(HTTP 409)" in cli.refused("node create --driver fake-hardware --name n1")
    assert "(HTTP 400)" in cli.refused("node create --driver fake-hardware --name maintenance")
    assert "(HTTP 400)" in cli.refused("node create --driver fake-hardware --owner someone")
    refused = cli.refused("node create --driver redfish --power-interface fake")
    assert "power interface" in refused
    assert "(HTTP 400)" in refused
    assert "supports driver nope for conductor group ''" in cli.refused("node create --driver nope")
    refused = cli.refused("node create --driver fake-hardware --conductor-group far")
    assert "supports driver fake-hardware for conductor group 'far'" in refused


def test_node_delete_goes_on_after_a_failure(cli: Baremetal) -> None:
    for name in ("n1", "n2"):
        cli.create(name)
    status, out, err = cli.run("node delete n1 absent n2")
    assert status == 1
    assert out.splitlines() == ["Deleted node n1", "Deleted node n2"]
    assert "Failed to delete node absent" in err
    assert cli.json("node list") == []


FILTERS = {
    "": {"n1", "n2", "n3"},
    "--include-children": {"n1", "n2", "n3", "child"},
    "--parent-node {n1}": {"child"},
    "--maintenance": {"n2"},
    "--no-maintenance": {"n1", "n3"},
    "--retired": {"n3"},
    "--no-retired": {"n1", "n2"},
    "--fault 'clean failure'": set(),
    "--associated": {"n1"},
    "--unassociated": {"n2", "n3"},
    "--provision-state enroll": {"n1", "n3"},
    "--provision-state manageable": {"n2"},
    "--driver redfish": {"n3"},
    "--resource-class gold": {"n1", "n2"},
    "--conductor-group ''": {"n1", "n2", "n3"},
    "--conductor all-in-one": {"n1", "n2", "n3"},
    "--conductor other": set(),
    "--owner me": {"n1"},
    "--lessee you": {"n2"},
    "--description-contains eedl": {"n1"},
    "--instance-name web": {"n2"},
    "--sharded": {"n1", "n2"},
    "--unsharded": {"n3"},
    "--shards s1 s2": {"n1", "n2"},
    "--resource-class gold --driver fake-hardware --no-maintenance --owner me": {"n1"},
}


def test_node_list_filters(cli: Baremetal, cluster: Cluster) -> None:
    n1 = cli.create("n1", "--resource-class gold --shard s1 --description 'a needle'")["uuid"]
    cli.create("n2", "--resource-class gold --shard s2 --lessee you --instance-name web")
    cli.create("child", f"--parent-node {n1}")
    cli("node create --driver redfish --name n3")
    cli(f"node set n1 --owner me --instance-uuid {INSTANCE}")
    cluster.manage("n2")
    cli("node maintenance set n2")
    cli("node set n3 --retired --retired-reason old")

    found = {
        options: set(cli.values(f"node list -c name {options.format(n1=n1)}"))
        for options in FILTERS
    }

    assert found == FILTERS
    assert "bogus" in cli.refused("node list --provision-state bogus")
    assert "bogus" in cli.refused("node list --fault bogus")
    assert cli.values(f"node show --instance {INSTANCE} -c name") == ["n1"]


def test_node_list_forms(cli: Baremetal) -> None:
    node = cli.create("n1", "--extra k=v")
    short = ["uuid", "name", "instance_uuid", "power_state", "provision_state", "maintenance"]
    assert cli.json("node list") == [{name: node[name] for name in short}]
    [long] = cli.json("node list --long")
    assert long == {name: node[name] for name in long}
    assert len(long) > 60
    fields = "name extra traits conductor chassis_uuid allocation_uuid driver_info"
    assert cli.json(f"node list --fields {fields}") == [
        {name: node[name] for name in fields.split()}
    ]


def test_node_list_paging(cli: Baremetal, page: int) -> None:
    names = [f"n{number}" for number in range(2 * page + 1)]
    uuids = {name: cli.create(name, "--resource-class gold")["uuid"] for name in names}

    assert cli.values("node list -c name") == names[:page]
    assert cli.values("node list --limit 2 -c name") == names[:2]
    assert cli.values(f"node list --limit 2 --marker {uuids['n1']} -c name") == names[2:4]
    assert cli.values("node list --limit 0 -c name") == names
    assert cli.values(f"node list --limit {page + 1} -c name") == names[: page + 1]
    assert cli.values("node list --limit 0 --sort name:desc -c name") == names[::-1]
    cli.create("other")
    assert cli.values("node list --limit 0 --resource-class gold --long -c name") == names
    assert cli.values("node list --limit 0 --resource-class gold --fields name") == names
    assert "(HTTP 404)" in cli.refused(f"node list --marker {NOWHERE}")


def test_node_set_and_unset(cli: Baremetal) -> None:
    cli(f"chassis create --uuid {CHASSIS}")
    before = cli.create("n1")
    parent = cli.create("parent")
    cli("node set parent --owner me")  # or it could not be the parent of a node of this owner
    values = {
        "instance_uuid": INSTANCE,
        "instance_name": "web",
        "chassis_uuid": CHASSIS,
        "resource_class": "gold",
        "owner": "me",
        "lessee": "you",
        "description": "text of words",
        "shard": "s1",
        "retired_reason": "old",
        "parent_node": parent["uuid"],
    }
    options = " ".join(f"--{name.replace('_', '-')} '{value}'" for name, value in values.items())
    cli(
        f"node set n1 {options} --retired --no-automated-clean --property cpus=4 --extra k=v "
        "--driver-info password=p --instance-info image_source=http://host/image "
        """--instance-info 'capabilities={"a": "b"}' --disable-power-off """
        """--network-data '{"links": [], "networks": [], "services": []}' """
        """--target-raid-config '{"logical_disks": [{"size_gb": "MAX", "raid_level": "1"}]}'"""
    )
    after = cli.json("node show n1")
    assert {name: after[name] for name in values} == values
    assert after["retired"] is True
    assert after["automated_clean"] is False
    assert after["disable_power_off"] is True
    assert (after["properties"], after["extra"]) == ({"cpus": 4}, {"k": "v"})
    assert after["driver_info"] == {"password": "******"}
    assert after["instance_info"] == {
        "image_source": "http://host/image",
        "capabilities": {"a": "b"},
    }
    assert after["network_data"]["links"] == []
    assert after["target_raid_config"]["logical_disks"][0]["raid_level"] == "1"

    names = " ".join(f"--{name.replace('_', '-')}" for name in values if name != "retired_reason")
    cli(
        f"node unset n1 {names} --retired --automated-clean --property cpus --extra k "
        "--driver-info password --instance-info image_source --instance-info capabilities "
        "--network-data --target-raid-config"
    )
    cli("node set n1 --enable-power-off")
    cleared = cli.json("node show n1")
    changed = {name for name in before if cleared[name] != before[name]}
    assert changed == {"updated_at", "retired"}
    assert cleared["retired"] is None


def test_node_interfaces_are_set_and_reset(cli: Baremetal) -> None:
    cli.create("n1", "--console-interface no-console --raid-interface no-raid")
    cli("node set n1 --bios-interface no-bios --reset-console-interface")
    fields = ("bios_interface", "console_interface", "raid_interface", "boot_interface")
    assert cli.state("n1", *fields) == ["no-bios", "fake", "no-raid", "fake"]
    cli("node unset n1 --bios-interface --raid-interface")
    assert cli.state("n1", *fields) == ["fake", "fake", "fake", "fake"]

    assert "(HTTP 400)" in cli.refused("node set n1 --driver redfish")
    assert "(HTTP 400)" in cli.refused("node set n1 --boot-interface absent")
    assert "can only be specified with --driver" in cli.refused("node set n1 --reset-interfaces")
    cli("node set n1 --driver redfish --reset-interfaces --inspect-interface no-inspect")
    shown = cli.state("n1", "driver", "boot_interface", "inspect_interface")
    assert shown == ["redfish", "redfish-virtual-media", "no-inspect"]


def test_changes_that_conflict_are_refused(cli: Baremetal, cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cli.create(name)
    assert "(HTTP 409)" in cli.refused("node set n1 --name n2")
    cli("node set n1 --name renamed")
    assert cli.state("renamed", "name") == ["renamed"]
    assert "(HTTP 409)" in cli.refused("node set n2 --protected")
    cluster.provide("n2")
    assert "(HTTP 409)" in cli.refused("node set n2 --retired")
    cli(f"node set n2 --instance-uuid {INSTANCE}")
    assert "(HTTP 409)" in cli.refused(f"node set n2 --instance-uuid {NOWHERE}")
    assert "(HTTP 409)" in cli.refused(f"node set renamed --instance-uuid {INSTANCE}")
    assert "(HTTP 409)" in cli.refused("node delete n2")


def test_node_maintenance(cli: Baremetal) -> None:
    cli.create("n1")
    cli.create("n2")
    cli("node maintenance set n1 n2 --reason 'new fan'")
    assert cli.state("n2", "maintenance", "maintenance_reason") == [True, "new fan"]
    cli("node maintenance unset n1 n2")
    assert cli.state("n2", "maintenance", "maintenance_reason") == [False, None]


def test_node_traits(cli: Baremetal) -> None:
    cli.create("n1")
    cli("node trait add n1 CUSTOM_A CUSTOM_B HW_CPU_X86_VMX")
    cli("node add trait n1 CUSTOM_C")
    traits = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C", "HW_CPU_X86_VMX"]
    assert sorted(cli.values("node trait list n1")) == traits
    assert sorted(cli.json("node show n1")["traits"]) == traits
    cli("node trait remove n1 CUSTOM_A CUSTOM_C")
    assert sorted(cli.values("node trait list n1")) == ["CUSTOM_B", "HW_CPU_X86_VMX"]
    assert "(HTTP 404)" in cli.refused("node trait remove n1 CUSTOM_A")
    assert "Invalid trait 'lower'" in cli.refused("node trait add n1 lower")
    cli("node remove trait n1 --all")
    assert cli.json("node trait list n1") == []


def test_nodes_that_are_not_there(cli: Baremetal) -> None:
    for command in (
        "show absent",
        f"show {NOWHERE}",
        f"show --instance {NOWHERE}",
        "set absent --extra a=b",
        "unset absent --extra a",
        "delete absent",
        "validate absent",
        "manage absent",
        "power on absent",
        "maintenance set absent",
        "trait list absent",
        "history list absent",
        "vif list absent",
        "boot device show absent",
        "console show absent",
    ):
        assert "(HTTP 404)" in cli.refused(f"node {command}"), command


# Ports


def test_ports(cli: Baremetal) -> None:
    node = cli.create("n1")["uuid"]
    other = cli.create("n2")["uuid"]
    made = cli.json(
        f"port create {MAC.upper()} --node {node} --name p1 --extra k=v --pxe-enabled false "
        "--physical-network net1 --local-link-connection switch_id=aa:bb:cc:dd:ee:ff "
        "--local-link-connection port_id=Ethernet1/1 --description uplink --vendor acme "
        "--category fast"
    )
    wanted = {
        "address": MAC,
        "node_uuid": node,
        "name": "p1",
        "extra": {"k": "v"},
        "pxe_enabled": False,
        "physical_network": "net1",
        "local_link_connection": {"switch_id": "aa:bb:cc:dd:ee:ff", "port_id": "Ethernet1/1"},
        "vendor": "acme",
        "category": "fast",
        "is_smartnic": False,
        "portgroup_uuid": None,
    }
    assert {name: made[name] for name in wanted} == wanted
    shown = cli.json("port show p1")
    assert shown.items() >= {**wanted, "description": "uplink", "uuid": made["uuid"]}.items()
    short = cli.json(f"port show --address {MAC} --fields uuid address")
    assert short == {"uuid": made["uuid"], "address": MAC}

    second = cli.json(f"port create {MAC2} --node {other}")
    assert second["pxe_enabled"] is True
    both = [{"uuid": p["uuid"], "address": p["address"]} for p in (made, second)]
    assert cli.json("port list") == both
    assert cli.json("port list --node n1") == cli.json(f"port list --node {node}") == both[:1]
    assert cli.json(f"port list --address {MAC2}") == both[1:]
    assert cli.values("port list --sort address:desc -c address") == [MAC2, MAC]
    assert cli.values(f"port list --limit 1 --marker {made['uuid']} -c address") == [MAC2]
    assert cli.json("port list --node n1 --fields name extra") == [
        {"name": "p1", "extra": {"k": "v"}}
    ]
    [long] = cli.json("port list --node n1 --long")
    assert (long["uuid"], long["physical_network"]) == (made["uuid"], "net1")


def test_port_set_and_unset(cli: Baremetal) -> None:
    cli.create("n1")
    node = cli.create("n2")["uuid"]
    uuid = cli.json(f"port create {MAC} --node {node}")["uuid"]
    before = cli.json(f"port show {uuid}")
    cli(
        f"port set {uuid} --name p1 --address {MAC2} --extra k=v --extra list=[1] --pxe-disabled "
        "--physical-network net1 --local-link-connection switch_id=aa:bb:cc:dd:ee:ff "
        "--local-link-connection port_id=eth1 --description text --vendor acme --category fast "
        "--is-smartnic --local-link-connection hostname=h"
    )
    after = cli.json("port show p1")
    assert (after["address"], after["extra"]) == (MAC2, {"k": "v", "list": [1]})
    assert after["pxe_enabled"] is False
    assert after["is_smartnic"] is True
    assert after["local_link_connection"]["hostname"] == "h"
    for name, value in {
        "physical_network": "net1",
        "description": "text",
        "vendor": "acme",
    }.items():
        assert after[name] == value
    cli(f"port set p1 --address {MAC} --pxe-enabled")
    cli(
        "port unset p1 --extra k --extra list --physical-network --is-smartnic --description "
        "--vendor --category --name"
    )
    cleared = cli.json(f"port show {uuid}")
    changed = {name for name in before if cleared[name] != before[name]}
    assert changed == {"updated_at", "local_link_connection"}


def test_port_refusals(cli: Baremetal, cluster: Cluster) -> None:
    node = cli.create("n1")["uuid"]
    uuid = cli.json(f"port create {MAC} --node {node} --name p1")["uuid"]
    assert "(HTTP 409)" in cli.refused(f"port create {MAC} --node {node}")
    assert "(HTTP 409)" in cli.refused(f"port create {MAC2} --node {node} --name p1")
    assert "(HTTP 400)" in cli.refused(f"port create {MAC2} --node {NOWHERE}")
    assert "(HTTP 400)" in cli.refused(f"port create nonsense --node {node}")
    assert "(HTTP 400)" in cli.refused(f"port create {MAC2} --node {node} --port-group {NOWHERE}")
    assert "(HTTP 404)" in cli.refused("port list --node absent")
    assert "(HTTP 404)" in cli.refused(f"port show {NOWHERE}")
    assert "(HTTP 404)" in cli.refused("port set absent --extra a=b")
    cluster.provide("n1")
    assert "(HTTP 409)" in cli.refused("port set p1 --pxe-disabled")
    cli("port set p1 --extra k=v")
    assert "Deleted port" in cli(f"port delete {uuid}")
    assert "(HTTP 404)" in cli.refused(f"port delete {uuid}")
    assert "(HTTP 400)" in cli.refused("port delete p1")
    assert cli.json("port list --node n1") == []


def test_port_groups(cli: Baremetal) -> None:
    node = cli.create("n1")["uuid"]
    group = cli.json(
        f"port group create --node {node} --name g1 --address {MAC2} --mode 802.3ad "
        "--property miimon=100 --support-standalone-ports --extra k=v"
    )
    assert (group["name"], group["mode"], group["address"]) == ("g1", "802.3ad", MAC2)
    assert (group["properties"], group["standalone_ports_supported"]) == ({"miimon": 100}, True)
    cli(f"port create {MAC} --node {node} --port-group {group['uuid']}")
    assert cli.values(f"port list --port-group {group['uuid']} -c address") == [MAC]
    assert cli.values("port group list --node n1 -c name") == ["g1"]
    cli("port group set g1 --name g2 --mode active-backup --unsupport-standalone-ports")
    cli("port group unset g2 --extra k --property miimon --address")
    shown = cli.json("port group show g2")
    assert (shown["mode"], shown["standalone_ports_supported"]) == ("active-backup", False)
    assert (shown["extra"], shown["properties"], shown["address"]) == ({}, {}, None)
    assert "(HTTP 400)" in cli.refused("port group delete g2")
    [port] = cli.values("port list --node n1 -c uuid")
    cli(f"port delete {port}")
    assert "Deleted port group" in cli("port group delete g2")


def test_node_vifs(cli: Baremetal) -> None:
    cli.create("n1")
    port = cli.json(f"port create {MAC} --node {cli.json('node show n1')['uuid']}")
    cli(f"node vif attach n1 {VIF} --port-uuid {port['uuid']} --vif-info k=v")
    assert cli.json("node vif list n1") == []  # the noop network keeps none
    cli(f"node vif detach n1 {VIF}")
    refused = cli.refused(f"node vif attach n1 {VIF} --port-uuid {VIF} --portgroup-uuid {VIF}")
    assert "(HTTP 400)" in refused
