"""What gophercloud (v2, ``baremetal/v1``) sends and reads: Metal3's baremetal-operator.

Requests have gophercloud's headers, queries and bodies; answers are decoded as strictly
as Go does it: a field has the type of the Go structure, or is null, or is missing.

Source: specification auxiliary.md section 17, the public interface of gophercloud.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import bios, firmware, inventory, nodes
from tests.functional.api.harness import Answer, Client

NAME = "metal3~worker-0"
MAC = "52:54:00:aa:bb:01"
INSTANCE = "11111111-2222-4333-8444-555555555555"

#: The versions that the operator knows, least first.
VERSIONS = ("1.89", "1.93", "1.95", "1.109", "1.110")


def go_time(value: Any) -> bool:
    """Tell whether ``time.Time`` takes it: RFC 3339, with a zone."""
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


def go(kind: type) -> Callable[[Any], bool]:
    """Tell whether a Go value of this kind takes it."""
    return lambda value: isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


STRING, BOOL, INT, MAP, LIST = go(str), go(bool), go(int), go(dict), go(list)

#: The structure that a node is decoded into.
NODE = {
    "automated_clean": BOOL,
    "bios_interface": STRING,
    "boot_interface": STRING,
    "chassis_uuid": STRING,
    "clean_step": MAP,
    "conductor": STRING,
    "conductor_group": STRING,
    "console_enabled": BOOL,
    "console_interface": STRING,
    "created_at": go_time,
    "deploy_interface": STRING,
    "deploy_step": MAP,
    "description": STRING,
    "disable_power_off": BOOL,
    "driver": STRING,
    "driver_info": MAP,
    "driver_internal_info": MAP,
    "extra": MAP,
    "fault": STRING,
    "firmware_interface": STRING,
    "inspect_interface": STRING,
    "inspection_finished_at": go_time,
    "inspection_started_at": go_time,
    "instance_info": MAP,
    "instance_uuid": STRING,
    "last_error": STRING,
    "maintenance": BOOL,
    "maintenance_reason": STRING,
    "management_interface": STRING,
    "name": STRING,
    "network_data": MAP,
    "network_interface": STRING,
    "owner": STRING,
    "ports": LIST,
    "portgroups": LIST,
    "power_interface": STRING,
    "power_state": STRING,
    "properties": MAP,
    "protected": BOOL,
    "protected_reason": STRING,
    "provision_state": STRING,
    "provision_updated_at": go_time,
    "raid_config": MAP,
    "raid_interface": STRING,
    "rescue_interface": STRING,
    "reservation": STRING,
    "resource_class": STRING,
    "retired": BOOL,
    "retired_reason": STRING,
    "states": LIST,
    "storage_interface": STRING,
    "target_power_state": STRING,
    "target_provision_state": STRING,
    "target_raid_config": MAP,
    "traits": LIST,
    "updated_at": go_time,
    "uuid": STRING,
    "vendor_interface": STRING,
}
PORT = {
    "address": STRING,
    "created_at": go_time,
    "extra": MAP,
    "internal_info": MAP,
    "is_smartnic": BOOL,
    "links": LIST,
    "local_link_connection": MAP,
    "node_uuid": STRING,
    "physical_network": STRING,
    "portgroup_uuid": STRING,
    "pxe_enabled": BOOL,
    "updated_at": go_time,
    "uuid": STRING,
}
SETTING = {
    "allowable_values": LIST,
    "attribute_type": STRING,
    "lower_bound": INT,
    "max_length": INT,
    "min_length": INT,
    "name": STRING,
    "read_only": BOOL,
    "reset_required": BOOL,
    "unique": BOOL,
    "upper_bound": INT,
    "value": STRING,
}
COMPONENT = {
    "component": STRING,
    "created_at": go_time,
    "current_version": STRING,
    "initial_version": STRING,
    "last_version_flashed": STRING,
    "updated_at": go_time,
}


def decode(document: Mapping[str, Any], structure: Mapping[str, Callable[[Any], bool]]) -> None:
    """Decode as ``json.Unmarshal``: null leaves the zero value, unknown keys are ignored."""
    wrong = {
        key: document[key]
        for key, fits in structure.items()
        if document.get(key) is not None and not fits(document[key])
    }
    assert wrong == {}


class Gophercloud:
    """A service client with its microversion; checks the status as gophercloud does."""

    def __init__(self, api: Client, version: str) -> None:
        self.client = Client(
            api.app,
            version,
            {
                "OpenStack-API-Version": f"baremetal {version}",
                "Accept": "application/json",
                "User-Agent": "gophercloud/v2.9.0",
            },
        )

    def send(self, method: str, path: str, *ok: int, body: Any = None) -> Answer:
        answer = self.client.request(method, path, body)
        assert answer.status in ok, f"{method} {path}: {answer.status} {answer.raw!r}"
        return answer

    # Nodes, by the names of the Go functions

    def create(self, **options: Any) -> dict[str, Any]:
        node: dict[str, Any] = self.send("POST", "/v1/nodes", 201, body=options).body
        decode(node, NODE)
        return node

    def get(self, ident: str) -> dict[str, Any]:
        node: dict[str, Any] = self.send("GET", f"/v1/nodes/{ident}", 200).body
        decode(node, NODE)
        return node

    def update(self, ident: str, *operations: tuple[str, str, Any]) -> dict[str, Any]:
        patch = [
            {"op": op, "path": path} if op == "remove" else {"op": op, "path": path, "value": value}
            for op, path, value in operations
        ]
        node: dict[str, Any] = self.send("PATCH", f"/v1/nodes/{ident}", 200, body=patch).body
        decode(node, NODE)
        return node

    def change_provision_state(self, ident: str, target: str, **options: Any) -> None:
        body = {"target": target, **options}
        self.send("PUT", f"/v1/nodes/{ident}/states/provision", 202, body=body)

    def change_power_state(self, ident: str, target: str, **options: Any) -> None:
        body = {"target": target, **options}
        self.send("PUT", f"/v1/nodes/{ident}/states/power", 202, body=body)

    def pages(self, path: str, key: str) -> list[list[dict[str, Any]]]:
        """All pages: the next one is the URL of ``next``, as it is."""
        found = []
        while path:
            body = self.send("GET", path, 200).body
            found.append(body[key])
            url = urlsplit(body.get("next") or "")
            path = f"{url.path}?{url.query}" if url.path else ""
        return found


class Operator(Gophercloud):
    """The client, beside a conductor whose work it waits for by polling."""

    def __init__(self, api: Client, version: str, conductor: Conductor) -> None:
        super().__init__(api, version)
        self.conductor = conductor

    def host(self, **options: Any) -> dict[str, Any]:
        """A host as the operator registers it."""
        return self.create(
            driver="fake-hardware",
            boot_interface="fake",
            inspect_interface="fake",
            management_interface="fake",
            power_interface="fake",
            raid_interface="no-raid",
            vendor_interface="no-vendor",
            firmware_interface="fake",
            bios_interface="fake",
            deploy_interface="fake",
            name=NAME,
            driver_info={"deploy_kernel": "file:///k", "redfish_password": "secret"},
            properties={"capabilities": "boot_mode:uefi", "cpu_arch": "x86_64"},
            **options,
        )

    def reach(self, ident: str, target: str, wanted: str, **options: Any) -> dict[str, Any]:
        """Change the provision state, and look until it is there."""
        self.change_provision_state(ident, target, **options)
        for _ in range(10_000):
            node = self.get(ident)
            if node["provision_state"] == wanted and node["reservation"] is None:
                return node
        raise AssertionError(f"{target}: {node['provision_state']}, {node['last_error']}")

    def settle(self, ident: str, field: str, wanted: Any) -> dict[str, Any]:
        for _ in range(10_000):
            node = self.get(ident)
            if node[field] == wanted and node["reservation"] is None:
                return node
        raise AssertionError(f"{field} is {node[field]}")


@pytest.fixture(params=VERSIONS)
def operator(api: Client, conductor: Conductor, request: pytest.FixtureRequest) -> Operator:
    """A client for each version that the operator may choose."""
    return Operator(api, request.param, conductor)


@pytest.fixture
def newest(api: Client, conductor: Conductor) -> Operator:
    return Operator(api, VERSIONS[-1], conductor)


def test_the_version_is_chosen_from_the_root(api: Client) -> None:
    [version] = Gophercloud(api, "1.1").send("GET", "/", 200).body["versions"]
    minor = int(version["version"].removeprefix("1."))
    assert (version["id"], version["min_version"], version["status"]) == ("v1", "1.1", "CURRENT")
    assert minor >= int(VERSIONS[-1].removeprefix("1."))
    [link] = version["links"]
    assert link["href"].rstrip("/").endswith("/v1")


def test_the_service_is_ready_when_it_has_drivers(operator: Operator) -> None:
    body = operator.send("GET", "/v1/drivers?detail=false", 200).body
    assert [driver["name"] for driver in body["drivers"]] == ["fake-hardware"]
    driver = operator.send("GET", "/v1/drivers/fake-hardware", 200).body
    kinds = ("boot", "deploy", "inspect", "management", "power", "raid", "vendor", "firmware")
    for kind in kinds:
        assert "fake" in driver[f"enabled_{kind}_interfaces"]
        assert isinstance(driver[f"default_{kind}_interface"], str)
    properties = operator.send("GET", "/v1/drivers/fake-hardware/properties", 200).body
    assert all(isinstance(text, str) for text in properties.values())
    path = "/v1/drivers/fake-hardware/raid/logical_disk_properties"
    assert "raid_level" in operator.send("GET", path, 200).body


def test_a_host_is_registered_and_found(operator: Operator) -> None:
    node = operator.host()
    assert node["provision_state"] == "enroll"
    assert node["driver_info"] == {"deploy_kernel": "file:///k", "redfish_password": "******"}
    for ident in (node["uuid"], NAME):
        assert operator.get(ident)["uuid"] == node["uuid"]
    query = "/v1/nodes?fields=uuid%2Cname%2Cprovision_state%2Cboot_interface"
    [[row]] = operator.pages(query, "nodes")
    assert {key: row[key] for key in ("uuid", "name", "provision_state", "boot_interface")} == {
        "uuid": node["uuid"],
        "name": NAME,
        "provision_state": "enroll",
        "boot_interface": "fake",
    }
    operator.send("GET", "/v1/nodes/metal3~other", 404)
    operator.send("POST", "/v1/nodes", 409, body={"driver": "fake-hardware", "name": NAME})
    operator.send("DELETE", f"/v1/nodes/{node['uuid']}", 202, 204)
    operator.send("GET", f"/v1/nodes/{node['uuid']}", 404)


def test_lists_come_in_pages(operator: Operator) -> None:
    made = [operator.create(driver="fake-hardware")["uuid"] for _ in range(5)]
    for path in ("/v1/nodes/detail", "/v1/nodes"):
        pages = operator.pages(f"{path}?limit=2&sort_dir=asc&sort_key=uuid", "nodes")
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [row["uuid"] for page in pages for row in page] == sorted(made)
        for row in pages[0]:
            decode(row, NODE)
    [rows] = operator.pages("/v1/nodes/detail?provision_state=enroll&driver=fake-hardware", "nodes")
    assert len(rows) == 5
    assert operator.pages("/v1/nodes?associated=true", "nodes") == [[]]
    assert operator.pages("/v1/nodes?maintenance=true&owner=me", "nodes") == [[]]


def test_a_node_is_updated_by_operations(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    changed = operator.update(
        ident,
        ("add", "/instance_uuid", INSTANCE),
        ("add", "/automated_clean", False),
        ("add", "/instance_info/image_source", "http://images/one.qcow2"),
        ("add", "/instance_info/image_os_hash_algo", "sha256"),
        ("add", "/instance_info/image_os_hash_value", "a" * 64),
        ("add", "/instance_info/image_disk_format", "qcow2"),
        ("add", "/instance_info/capabilities", {"boot_mode": "uefi"}),
        ("add", "/properties/root_device", {"hctl": "0:0:0:0", "rotational": "s== true"}),
        ("replace", "/properties/cpu_arch", "aarch64"),
        ("add", "/driver_info/force_persistent_boot_device", "Default"),
        ("add", "/network_data", {"links": [], "networks": [], "services": []}),
    )
    assert changed["instance_uuid"] == INSTANCE
    assert changed["automated_clean"] is False
    assert changed["properties"]["root_device"] == {"hctl": "0:0:0:0", "rotational": "s== true"}
    # Again, as each round of the operator's loop may do.
    assert operator.update(ident, ("add", "/instance_uuid", INSTANCE))["instance_uuid"] == INSTANCE
    changed = operator.update(
        ident,
        ("remove", "/instance_info/image_source", None),
        ("remove", "/driver_info/deploy_kernel", None),
        ("remove", "/instance_uuid", None),
        ("replace", "/name", "metal3~renamed"),
    )
    assert "image_source" not in changed["instance_info"]
    assert changed["driver_info"]["redfish_password"] == "******"
    assert (changed["name"], changed["instance_uuid"]) == ("metal3~renamed", None)
    wrong = [{"op": "remove", "path": "/driver_info/deploy_kernel"}]
    operator.send("PATCH", f"/v1/nodes/{ident}", 400, body=wrong)


def test_what_the_version_brings(operator: Operator) -> None:
    minor = int(operator.client.version.removeprefix("1."))
    body = {"driver": "fake-hardware", "disable_power_off": True}
    if minor < 95:
        operator.send("POST", "/v1/nodes", 406, body=body)
        body = {"driver": "fake-hardware"}
    node = operator.send("POST", "/v1/nodes", 201, body=body).body
    assert node.get("disable_power_off") == (True if minor >= 95 else None)
    assert ("health" in node) == (minor >= 109)


def test_the_life_of_a_host(newest: Operator) -> None:
    ident = newest.host(automated_clean=False)["uuid"]
    newest.update(ident, ("replace", "/vendor_interface", "fake"))
    checked = newest.send("GET", f"/v1/nodes/{ident}/validate", 200).body
    for kind in ("boot", "deploy", "inspect", "management", "network", "power", "raid", "storage"):
        decode(checked[kind], {"result": BOOL, "reason": STRING})
    assert checked["power"]["result"] is True
    newest.reach(ident, "manage", "manageable")
    inspected = newest.reach(ident, "inspect", "manageable")
    assert go_time(inspected["inspection_finished_at"])
    settings = [{"name": "turbo", "value": "on"}]
    step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}
    newest.reach(ident, "clean", "manageable", clean_steps=[step])
    newest.reach(ident, "provide", "available")
    newest.update(
        ident,
        ("add", "/instance_uuid", INSTANCE),
        ("add", "/instance_info/image_source", "http://images/one.qcow2"),
        ("add", "/instance_info/image_checksum", "d41d8cd98f00b204e9800998ecf8427e"),
    )
    drive = {
        "user_data": "#cloud-config\n",
        "meta_data": {"name": "worker-0", "uuid": INSTANCE},
        "network_data": {"links": [], "networks": [], "services": []},
    }
    node = newest.reach(ident, "active", "active", configdrive=drive)
    assert node["instance_info"]["configdrive"] == "******"
    newest.reach(ident, "rebuild", "active")
    step = {"interface": "vendor", "step": "log_passthrough", "args": {}}
    newest.reach(ident, "service", "active", service_steps=[step])
    node = newest.reach(ident, "deleted", "available")
    assert (node["instance_uuid"], node["instance_info"]) == (None, {})
    newest.reach(ident, "manage", "manageable")
    newest.reach(ident, "adopt", "active")
    body = {"target": "provide"}
    newest.send("PUT", f"/v1/nodes/{ident}/states/provision", 400, body=body)


def test_power(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    for target, options, wanted in (
        ("power on", {}, "power on"),
        ("soft power off", {"timeout": 30}, "power off"),
        ("rebooting", {}, "power on"),
        ("soft rebooting", {"timeout": 30}, "power on"),
        ("power off", {}, "power off"),
    ):
        operator.change_power_state(ident, target, **options)
        assert operator.settle(ident, "power_state", wanted)["target_power_state"] is None
    operator.send("PUT", f"/v1/nodes/{ident}/states/power", 400, body={"target": "power up"})


def test_maintenance(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    operator.send("PUT", f"/v1/nodes/{ident}/maintenance", 202, body={"reason": "fan"})
    node = operator.get(ident)
    assert (node["maintenance"], node["maintenance_reason"]) == (True, "fan")
    operator.send("DELETE", f"/v1/nodes/{ident}/maintenance", 202)
    assert operator.get(ident)["maintenance"] is False


def test_management(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    path = f"/v1/nodes/{ident}/management"
    body = {"boot_device": "pxe", "persistent": False}
    operator.send("PUT", f"{path}/boot_device", 204, body=body)
    shown = operator.send("GET", f"{path}/boot_device", 200).body
    assert shown == {"boot_device": "pxe", "persistent": False}
    shown = operator.send("GET", f"{path}/boot_device/supported", 200).body
    assert shown == {"supported_boot_devices": ["pxe"]}
    operator.send("PUT", f"{path}/boot_device", 400, body={"boot_device": "floppy"})
    operator.send("PUT", f"{path}/inject_nmi", 400, body={})  # not with fake hardware


def test_traits(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    path = f"/v1/nodes/{ident}/traits"
    operator.send("PUT", path, 204, body={"traits": ["CUSTOM_A", "HW_CPU_X86_VMX"]})
    operator.send("PUT", f"{path}/CUSTOM_B", 204)
    operator.send("DELETE", f"{path}/CUSTOM_A", 204)
    assert sorted(operator.send("GET", path, 200).body["traits"]) == ["CUSTOM_B", "HW_CPU_X86_VMX"]
    assert sorted(operator.get(ident)["traits"]) == ["CUSTOM_B", "HW_CPU_X86_VMX"]


def test_raid(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    path = f"/v1/nodes/{ident}/states/raid"
    disk = {"size_gb": 100, "raid_level": "1", "is_root_volume": True, "controller": "software"}
    operator.send("PUT", path, 404, body={"logical_disks": [disk]})  # no-raid
    operator.update(ident, ("replace", "/raid_interface", "fake"))
    operator.send("PUT", path, 204, body={"logical_disks": [disk]})
    assert operator.get(ident)["target_raid_config"]["logical_disks"] == [disk]


def test_bios_settings(operator: Operator) -> None:
    node = operator.host()
    row = nodes.get(node["uuid"])
    setting = {
        "name": "ProcTurboMode",
        "value": "Enabled",
        "attribute_type": "Enumeration",
        "allowable_values": ["Enabled", "Disabled"],
        "read_only": False,
        "reset_required": True,
        "unique": False,
    }
    bios.create(row.id, [setting, {"name": "Speed", "value": "5", "lower_bound": 1}])
    path = f"/v1/nodes/{node['uuid']}/bios"
    for query in ("?detail=true", "?fields=name%2Cvalue%2Callowable_values", ""):
        found = operator.send("GET", path + query, 200).body["bios"]
        for row in found:
            decode(row, SETTING)
        assert {row["name"]: row["value"] for row in found} == {
            "ProcTurboMode": "Enabled",
            "Speed": "5",
        }
    [turbo, _] = operator.send("GET", f"{path}?detail=true", 200).body["bios"]
    assert {key: turbo[key] for key in setting} == setting
    shown = operator.send("GET", f"{path}/ProcTurboMode", 200).body
    assert shown["ProcTurboMode"]["value"] == "Enabled"
    operator.send("GET", f"{path}/Other", 404)


def test_firmware_components(operator: Operator) -> None:
    node = operator.host()
    values = {"component": "bmc", "initial_version": "1", "current_version": "2"}
    firmware.create({"node_id": nodes.get(node["uuid"]).id, **values})
    body = operator.send("GET", f"/v1/nodes/{node['uuid']}/firmware", 200).body
    [component] = body["firmware"]
    decode(component, COMPONENT)
    assert {key: component[key] for key in values} == values
    assert go_time(component["created_at"])


def test_inventory_and_introspection_data(operator: Operator) -> None:
    node = operator.host()
    path = f"/v1/nodes/{node['uuid']}/inventory"
    operator.send("GET", path, 404)
    found = {
        "bmc_address": "192.0.2.1",
        "boot": {"current_boot_mode": "uefi", "pxe_interface": MAC},
        "cpu": {"architecture": "x86_64", "count": 4, "flags": ["vmx"], "frequency": "2100.0"},
        "disks": [{"name": "/dev/sda", "size": 10**12, "rotational": False, "wwn": "0x1"}],
        "hostname": "worker-0",
        "interfaces": [{"name": "eth0", "mac_address": MAC, "has_carrier": True, "lldp": []}],
        "memory": {"physical_mb": 8192, "total": 8589934592},
        "system_vendor": {"manufacturer": "m", "product_name": "p", "serial_number": "s"},
    }
    plugins = {"root_disk": found["disks"][0], "all_interfaces": {"eth0": {"pxe_enabled": True}}}
    inventory.store(nodes.get(node["uuid"]).id, found, plugins)
    shown = operator.send("GET", path, 200).body
    assert shown == {"inventory": found, "plugin_data": plugins}


def test_ports(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    options = {"node_uuid": ident, "address": MAC, "pxe_enabled": True}
    port = operator.send("POST", "/v1/ports", 201, body=options).body
    decode(port, PORT)
    operator.send("POST", "/v1/ports", 409, body=options)
    for path in (
        f"/v1/ports?node_uuid={ident}&fields=node_uuid%2Caddress",
        f"/v1/ports/detail?node_uuid={ident}",
        f"/v1/ports/detail?address={MAC.replace(':', '%3A')}",
        f"/v1/ports?node={ident}",
    ):
        [[row]] = operator.pages(path, "ports")
        decode(row, PORT)
        assert row["address"] == MAC
    patch = [{"op": "replace", "path": "/pxe_enabled", "value": False}]
    path = f"/v1/ports/{port['uuid']}"
    assert operator.send("PATCH", path, 200, body=patch).body["pxe_enabled"] is False
    decode(operator.send("GET", path, 200).body, PORT)
    operator.send("DELETE", path, 202, 204)
    operator.send("GET", path, 404)


def test_vendor_methods(operator: Operator) -> None:
    ident = operator.host()["uuid"]
    path = f"/v1/nodes/{ident}/vendor_passthru"
    operator.update(ident, ("replace", "/vendor_interface", "fake"))
    methods = operator.send("GET", f"{path}/methods", 200).body
    assert methods["third_method_sync"]["http_methods"] == ["POST"]
    body = {"bar": "meow"}
    assert operator.send("POST", f"{path}?method=third_method_sync", 200, body=body).body is True
    # Subscriptions are for Redfish.
    operator.send("POST", f"{path}?method=create_subscription", 400, body={"Destination": "x"})


def test_conductors(operator: Operator) -> None:
    [row] = operator.send("GET", "/v1/conductors", 200).body["conductors"]
    assert (row["hostname"], row["alive"]) == (CONF.host, True)
    shown = operator.send("GET", f"/v1/conductors/{CONF.host}", 200).body
    decode(shown, {"created_at": go_time, "updated_at": go_time, "drivers": LIST})


def test_errors_can_be_told_apart(operator: Operator) -> None:
    """The operator looks at the status alone: 404 register again, 409 try again."""
    ident = operator.host()["uuid"]
    operator.send("GET", f"/v1/nodes/{INSTANCE}", 404)
    operator.send("DELETE", f"/v1/nodes/{INSTANCE}", 404)
    other = operator.create(driver="fake-hardware")["uuid"]
    operator.update(ident, ("add", "/instance_uuid", INSTANCE))
    taken = [{"op": "add", "path": "/instance_uuid", "value": INSTANCE}]
    operator.send("PATCH", f"/v1/nodes/{other}", 409, body=taken)
    wrong = [{"op": "add", "path": "/deploy_interface", "value": "nope"}]
    answer = operator.send("PATCH", f"/v1/nodes/{ident}", 400, body=wrong)
    assert "nope" in answer.text
