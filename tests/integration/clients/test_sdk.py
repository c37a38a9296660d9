"""openstacksdk, unmodified: ``connection.baremetal`` and what Nova's driver does with it."""

from __future__ import annotations

from typing import Any

import openstack
import pytest
from openstack import exceptions
from openstack.connection import Connection

from tests.harness.cluster import Cluster

pytestmark = [
    pytest.mark.timeout(300),
    # The library warns of its own plans.
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.OpenStackDeprecationWarning"),
]

CHASSIS = "a0000000-0000-4000-8000-000000000001"
INSTANCE = "c0000000-0000-4000-8000-000000000001"
VIF = "d0000000-0000-4000-8000-000000000001"
NOWHERE = "f0000000-0000-4000-8000-000000000001"
MAC = "52:54:00:aa:bb:01"
MAC2 = "52:54:00:aa:bb:02"


def create(sdk: Any, name: str, **attributes: Any) -> Any:
    return sdk.create_node(driver="fake-hardware", name=name, **attributes)


def test_both_ways_of_naming_the_service(cluster: Cluster) -> None:
    cluster.create(name="n1")
    for options in (
        {"auth": {"endpoint": cluster.url}},
        {"baremetal_endpoint_override": cluster.url},
        {"baremetal_endpoint_override": f"{cluster.url}/v1"},
    ):
        connection = openstack.connect(
            auth_type="none", load_yaml_config=False, load_envvars=False, **options
        )
        assert [node.name for node in connection.baremetal.nodes()] == ["n1"]


def test_the_version_is_negotiated(connection: Connection, sdk: Any) -> None:
    data = sdk.get_endpoint_data()
    assert (data.min_microversion, data.max_microversion) == ((1, 1), (1, 115))
    node = create(sdk, "n1")
    assert node.microversion == "1.109"
    assert sdk.get_node(node.id).health is None


def test_drivers_and_conductors(sdk: Any) -> None:
    assert sorted(driver.name for driver in sdk.drivers()) == ["fake-hardware", "redfish"]
    [detailed] = [driver for driver in sdk.drivers(details=True) if driver.name != "redfish"]
    driver = sdk.get_driver("fake-hardware")
    assert driver.hosts == ["all-in-one"]
    for interface in ("boot", "deploy", "management", "power"):
        assert driver[f"default_{interface}_interface"] == "fake"
        assert "fake" in detailed[f"enabled_{interface}_interfaces"]
    assert sdk.list_driver_vendor_passthru("fake-hardware") == {}
    with pytest.raises(exceptions.NotFoundException):
        sdk.get_driver("nope")
    [conductor] = sdk.conductors(detail=True)
    assert sorted(conductor.drivers) == ["fake-hardware", "redfish"]
    assert sdk.get_conductor("all-in-one").alive is True


def test_chassis(sdk: Any) -> None:
    chassis = sdk.create_chassis(id=CHASSIS, description="rack", extra={"row": 7})
    assert sdk.find_chassis(CHASSIS).description == "rack"
    assert sdk.update_chassis(chassis, extra={"row": 8}).extra == {"row": 8}
    patch = [{"op": "replace", "path": "/description", "value": "door"}]
    assert sdk.patch_chassis(chassis, patch).description == "door"
    assert [found.id for found in sdk.chassis(details=True)] == [CHASSIS]
    node = create(sdk, "n1", chassis_id=CHASSIS)
    assert sdk.get_node(node.id).chassis_id == CHASSIS
    with pytest.raises(exceptions.BadRequestException):
        sdk.delete_chassis(chassis)
    sdk.delete_node(node)
    sdk.delete_chassis(chassis)
    with pytest.raises(exceptions.NotFoundException):
        sdk.get_chassis(CHASSIS)
    assert sdk.delete_chassis(CHASSIS) is None


def test_node_records(sdk: Any) -> None:
    node = create(
        sdk,
        "n1",
        resource_class="gold",
        driver_info={"user": "me", "password": "hidden"},
        properties={"cpus": 4},
        extra={"k": "v"},
        description="text",
        network_data={"links": [], "networks": [], "services": []},
    )
    assert node.provision_state == "enroll"
    assert node.driver_info == {"user": "me", "password": "******"}
    assert sdk.find_node("n1").id == node.id == sdk.get_node("n1").id
    assert sdk.find_node("absent") is None
    assert sdk.get_node("n1", fields=["name", "driver"]).driver == "fake-hardware"

    changed = sdk.update_node(node, extra={"k": "w", "l": [1]}, is_maintenance=True, owner="me")
    assert (changed.extra, changed.is_maintenance, changed.owner) == (
        {"k": "w", "l": [1]},
        True,
        "me",
    )
    # A patch of the difference: what another client wrote meanwhile stays.
    sdk.patch_node("n1", [{"op": "add", "path": "/extra/other", "value": 1}])
    sdk.update_node(changed, extra={"k": "w", "l": [1], "m": None})
    assert sdk.get_node("n1").extra == {"k": "w", "l": [1], "m": None, "other": 1}
    patched = sdk.patch_node(
        "n1",
        [
            {"op": "remove", "path": "/extra"},
            {"op": "replace", "path": "/driver", "value": "redfish"},
        ],
        reset_interfaces=True,
    )
    assert (patched.extra, patched.driver, patched.power_interface) == ({}, "redfish", "redfish")

    with pytest.raises(exceptions.BadRequestException, match="nope"):
        sdk.create_node(driver="nope")
    with pytest.raises(exceptions.BadRequestException):
        sdk.patch_node("n1", [{"op": "replace", "path": "/uuid", "value": NOWHERE}])
    sdk.delete_node(node)
    with pytest.raises(exceptions.NotFoundException):
        sdk.get_node(node.id)
    with pytest.raises(exceptions.NotFoundException):
        sdk.delete_node(node, ignore_missing=False)


def test_node_lists(sdk: Any, page: int) -> None:
    names = [f"n{number}" for number in range(2 * page + 1)]
    nodes = {name: create(sdk, name, resource_class="gold") for name in names}
    create(sdk, "other")

    assert [node.name for node in sdk.nodes()] == [*names, "other"]
    assert [node.name for node in sdk.nodes(details=True, resource_class="gold")] == names
    assert [n.name for n in sdk.nodes(limit=2, resource_class="gold", paginated=True)] == names
    assert [n.name for n in sdk.nodes(limit=2, paginated=False)] == names[:2]
    marked = sdk.nodes(marker=nodes["n1"].id, limit=2, paginated=False)
    assert [node.name for node in marked] == names[2:4]
    assert [node.driver for node in sdk.nodes(fields=["driver"])] == ["fake-hardware"] * 10
    sdk.update_node(nodes["n3"], instance_id=INSTANCE)
    sdk.set_node_maintenance("n4", "fan")
    for filters, wanted in (
        ({"instance_id": INSTANCE}, ["n3"]),
        ({"instance_id": NOWHERE}, []),
        ({"associated": True}, ["n3"]),
        ({"is_maintenance": True}, ["n4"]),
        ({"provision_state": "active"}, []),
        ({"driver": "redfish"}, []),
        ({"conductor_group": "", "resource_class": "gold"}, names),
    ):
        assert [node.name for node in sdk.nodes(**filters)] == wanted, filters


def test_node_life(sdk: Any) -> None:
    node = create(sdk, "n1")
    other = create(sdk, "n2")
    for target, wanted in (("manage", "manageable"), ("inspect", "manageable")):
        for found in (node, other):
            sdk.set_node_provision_state(found, target)
        done = sdk.wait_for_nodes_provision_state([node, other], wanted, timeout=60)
        assert {found.provision_state for found in done} == {wanted}
    step = {"interface": "vendor", "step": "log_passthrough"}
    node = sdk.set_node_provision_state(node, "clean", clean_steps=[step], wait=True, timeout=60)
    assert (node.provision_state, node.last_error) == ("manageable", None)
    node = sdk.set_node_provision_state(node, "provide", wait=True, timeout=60)
    drive = {"meta_data": {"name": "n1"}, "user_data": "#!/bin/sh"}
    node = sdk.set_node_provision_state(node, "active", config_drive=drive, wait=True, timeout=60)
    assert node.provision_state == "active"
    assert node.instance_info["configdrive"] == "******"
    with pytest.raises(exceptions.BadRequestException):
        sdk.set_node_provision_state(node, "provide")
    node = sdk.set_node_provision_state(node, "deleted", wait=True, timeout=60)
    assert (node.provision_state, node.instance_info) == ("available", {})


def test_node_actions(sdk: Any) -> None:
    node = create(sdk, "n1")
    result = sdk.validate_node(node, required=("boot", "deploy", "power"))
    assert result["management"].result is True
    for target, wanted in (("power on", "power on"), ("soft power off", "power off")):
        sdk.set_node_power_state(node, target, wait=True, timeout=60)
        assert sdk.get_node(node.id).power_state == wanted
    sdk.set_node_power_state(node, "rebooting", wait=True, timeout=60)
    assert sdk.wait_for_node_reservation(node, timeout=60).reservation is None

    assert sdk.get_node_boot_device(node) == {"boot_device": "pxe", "persistent": False}
    assert sdk.get_node_supported_boot_devices(node) == {"supported_boot_devices": ["pxe"]}
    sdk.set_node_boot_device(node, "pxe", persistent=True)
    with pytest.raises(exceptions.BadRequestException):
        sdk.set_node_boot_device(node, "cdrom")
    with pytest.raises(exceptions.BadRequestException):
        sdk.inject_nmi_to_node(node)

    assert sdk.set_node_maintenance(node, "fan").maintenance_reason == "fan"
    assert sdk.unset_node_maintenance(node).is_maintenance is False

    sdk.set_node_traits(node, ["CUSTOM_A", "CUSTOM_B"])
    sdk.add_node_trait(node, "HW_CPU_X86_VMX")
    assert sdk.remove_node_trait(node, "CUSTOM_A") is True
    with pytest.raises(exceptions.NotFoundException, match="CUSTOM_A"):
        sdk.remove_node_trait(node, "CUSTOM_A", ignore_missing=False)
    assert sorted(sdk.get_node(node.id).traits) == ["CUSTOM_B", "HW_CPU_X86_VMX"]

    assert "third_method_sync" in sdk.list_node_vendor_passthru(node)
    called = sdk.call_node_vendor_passthru(node, "POST", "third_method_sync", {"bar": "meow"})
    assert called.json() is True
    assert sdk.get_node_console(node) == {"console_enabled": False, "console_info": None}
    assert sdk.list_node_firmware(node) == {"firmware": []}
    with pytest.raises(exceptions.NotFoundException):
        sdk.get_node_inventory(node)


def test_ports_and_port_groups(sdk: Any) -> None:
    node, other = create(sdk, "n1"), create(sdk, "n2")
    group = sdk.create_port_group(node_uuid=node.id, name="g1", address=MAC2, mode="802.3ad")
    port = sdk.create_port(
        node_uuid=node.id, address=MAC, port_group_id=group.id, extra={"k": "v"}, name="p1"
    )
    sdk.create_port(node_uuid=other.id, address=MAC2)
    assert sdk.find_port("p1").id == port.id == sdk.get_port(port.id).id
    assert [found.address for found in sdk.ports()] == [MAC, MAC2]
    assert [found.id for found in sdk.ports(address=MAC)] == [port.id]
    assert [found.node_id for found in sdk.ports(details=True, node="n2")] == [other.id]
    assert [found.id for found in sdk.ports(node_uuid=node.id, fields=["uuid"])] == [port.id]
    assert [found.name for found in sdk.port_groups(node="n1")] == ["g1"]
    assert sdk.update_port(port, is_pxe_enabled=False).is_pxe_enabled is False
    patch = [{"op": "remove", "path": "/extra/k"}]
    assert sdk.patch_port(port, patch).extra == {}
    assert sdk.update_port_group(group, name="g2").name == "g2"
    sdk.delete_port(port)
    sdk.delete_port_group("g2")
    for get, ident in ((sdk.get_port, port.id), (sdk.get_port_group, "g2")):
        with pytest.raises(exceptions.NotFoundException):
            get(ident)
    with pytest.raises(exceptions.BadRequestException):
        sdk.create_port(node_uuid=NOWHERE, address=MAC)


def test_what_nova_does(sdk: Any) -> None:
    """Specification auxiliary.md section 16."""
    fields = [
        "uuid",
        "power_state",
        "target_power_state",
        "provision_state",
        "target_provision_state",
        "last_error",
        "maintenance",
        "properties",
        "instance_uuid",
        "traits",
        "resource_class",
    ]
    node = create(sdk, "n1", resource_class="gold", properties={"cpu_arch": "x86_64"})
    sdk.create_port(node_uuid=node.id, address=MAC)
    sdk.add_node_trait(node.id, "CUSTOM_A")
    for target in ("manage", "provide"):
        sdk.set_node_provision_state(node, target, wait=True, timeout=60)
    [seen] = sdk.nodes(fields=fields, conductor_group="")
    assert (seen.resource_class, seen.provision_state) == ("gold", "available")

    claimed = sdk.update_node(node.id, retry_on_conflict=False, instance_id=INSTANCE)
    assert claimed.instance_id == INSTANCE
    with pytest.raises(exceptions.ConflictException):
        sdk.update_node(node.id, retry_on_conflict=False, instance_id=NOWHERE)
    [mine] = sdk.nodes(fields=fields, instance_id=INSTANCE)
    assert mine.id == node.id
    values = {
        "image_source": "http://images/one",
        "root_gb": "10",
        "display_name": "web",
        "capabilities": '{"boot_mode": "uefi"}',
        "traits": ["CUSTOM_A"],
        "fixed_ips": [],
    }
    patch = [
        {"op": "add", "path": f"/instance_info/{name}", "value": value}
        for name, value in values.items()
    ]
    assert sdk.patch_node(node.id, patch).instance_name == "web"
    checked = sdk.validate_node(node.id, required=None)
    assert all(checked[name].result for name in ("deploy", "power", "storage"))

    assert list(sdk.port_groups(node=node.id, details=True)) == []
    [port] = sdk.ports(node=node.id, details=True)
    assert (port.address, port.internal_info, port.extra) == (MAC, {}, {})
    sdk.attach_vif_to_node(node.id, VIF, retry_on_conflict=False)
    assert sdk.list_node_vifs(node.id) == []  # the noop network keeps none
    sdk.set_node_provision_state(node.id, "active", config_drive="H4sIAAAA", wait=True, timeout=60)
    sdk.set_node_power_state(node.id, "soft rebooting", timeout=30)
    sdk.wait_for_node_reservation(node.id, timeout=60)
    assert sdk.detach_vif_from_node(node.id, VIF) is True
    sdk.set_node_provision_state(node.id, "deleted", wait=True, timeout=60)
    released = sdk.get_node(node.id)
    assert (released.instance_id, released.instance_info) == (None, {})
    assert (released.provision_state, released.resource_class) == ("available", "gold")


def test_machines_of_the_cloud_layer(connection: Connection, cluster: Cluster) -> None:
    machine = connection.register_machine(
        [{"address": MAC}], driver="fake-hardware", name="m1", wait=True, timeout=60
    )
    assert machine.provision_state == "available"
    assert connection.get_machine("m1").id == machine.id
    assert connection.get_machine_by_mac(MAC).id == machine.id
    assert [port.address for port in connection.list_nics_for_machine(machine.id)] == [MAC]
    assert [found.name for found in connection.list_machines()] == ["m1"]
    connection.set_machine_power_on("m1")
    cluster.wait_state("m1", "available")
    connection.set_machine_maintenance_state("m1", True, "fan")
    assert connection.get_machine("m1").maintenance_reason == "fan"
    connection.remove_machine_from_maintenance("m1")
    assert connection.update_machine("m1", description="text")["changes"] == ["/description"]
    connection.validate_machine("m1")
    connection.unregister_machine([{"address": MAC}], machine.id)
    assert connection.get_machine("m1") is None
