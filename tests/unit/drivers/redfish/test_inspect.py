"""Out-of-band inspection of a scripted BMC."""

from __future__ import annotations

import pytest

from ironic_rs.db import inspection_rules, nodes, ports
from ironic_rs.db import inventory as db_inventory
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish.inspect import RedfishInspect
from tests.harness.bmc import SYSTEM, Answer, collection, error, link
from tests.harness.database import database, empty_schema  # noqa: F401

GIB = 1024**3


@pytest.fixture
def task(make_task, bmc, database):  # noqa: F811
    task = make_task(bmc)
    record = nodes.create(
        {
            "driver": "redfish",
            "provision_state": states.INSPECTING,
            "driver_info": task.node.driver_info,
        }
    )
    task.node = nodes.reserve(record.id, "conductor-1")
    return task


@pytest.fixture
def inspect(config, database):  # noqa: F811
    return RedfishInspect()


@pytest.fixture
def storage(bmc):
    """Give the system one storage with two drives; return a setter of sizes."""
    path = f"{SYSTEM}/Storage/1"
    bmc.system["Storage"] = link(f"{SYSTEM}/Storage")
    bmc.tree[f"{SYSTEM}/Storage"] = collection(path)
    drives = [f"{path}/Drives/{n}" for n in (1, 2)]
    bmc.tree[path] = {
        "Id": "1",
        "Name": "controller",
        "Drives": [link(drive) for drive in drives],
        "StorageControllers": [
            {
                "MemberId": "0",
                "Name": "raid",
                "SpeedGbps": 12,
                "SupportedRAIDTypes": ["RAID0", "RAID1"],
                "SupportedControllerProtocols": ["PCIe"],
                "Status": {"Health": "OK", "State": "Enabled"},
            }
        ],
    }
    for number, drive in enumerate(drives, 1):
        bmc.tree[drive] = {
            "Id": str(number),
            "Name": f"disk {number}",
            "CapacityBytes": number * 500 * GIB,
            "MediaType": "SSD",
            "SerialNumber": f"SN{number}",
            "Manufacturer": "Contoso",
            "Model": "D1",
            "Protocol": "NVMe",
            "Status": {"Health": "OK"},
        }

    def volumes(*sizes):
        paths = [f"{path}/Volumes/{n}" for n, _size in enumerate(sizes)]
        bmc.tree[path]["Volumes"] = link(f"{path}/Volumes")
        bmc.tree[f"{path}/Volumes"] = collection(*paths)
        for number, size in enumerate(sizes):
            bmc.tree[paths[number]] = {"Id": str(number), "CapacityBytes": size}

    return volumes


def run(task, inspect):
    assert inspect.inspect_hardware(task) == states.MANAGEABLE
    return db_inventory.get(task.node.id)


def test_properties_ports_and_inventory(task, inspect, storage):
    found = run(task, inspect)
    assert task.node.properties == {
        "memory_mb": 65536,
        "cpus": 64,
        "cpu_arch": "x86_64",
        "local_gb": 499,
        "capabilities": "boot_mode:uefi",
    }
    assert task.saves == 1
    assert sorted(port.address for port in ports.of_node(task.node.id)) == [
        "aa:bb:cc:00:00:01",
        "aa:bb:cc:00:00:02",
    ]
    inventory = found.inventory_data
    assert inventory["memory"] == {"physical_mb": 65536}
    assert inventory["cpu"] == {
        "count": 64,
        "model_name": "Fast",
        "frequency": 3700,
        "architecture": "x86_64",
    }
    assert inventory["interfaces"][0] == {
        "mac_address": "aa:bb:cc:00:00:01",
        "name": "NIC1",
        "speed_mbps": 25000,
    }
    assert inventory["disks"][0] == {
        "name": "disk 1",
        "size": 500 * GIB,
        "vendor": "Contoso",
        "model": "D1",
        "serial": "SN1",
        "rotational": False,
    }
    controller = inventory["storage_controllers"][0]
    assert controller["storage_controllers"][0]["raid_types"] == ["RAID0", "RAID1"]
    assert controller["drives"][1]["protocol"] == "NVMe"
    assert controller["drives"][1]["status"] == {"health": "OK", "state": None}
    assert inventory["system_vendor"]["serial_number"] == "S1"
    assert inventory["boot"] == {"current_boot_mode": "uefi"}
    assert set(found.plugin_data) == {"all_interfaces", "valid_interfaces", "macs"}


def test_two_runs_give_equal_inventories(task, inspect, storage):
    first = run(task, inspect).inventory_data
    assert run(task, inspect).inventory_data == first
    assert len(ports.of_node(task.node.id)) == 2


@pytest.mark.parametrize(
    "case",
    [
        ((), (), 499),
        ((100 * GIB, 200 * GIB), (), 99),
        ((2 * GIB, 200 * GIB), (), 199),
        ((), (50 * GIB,), 49),
        ((100 * GIB,), (300 * GIB, None), 99),
    ],
)
def test_local_gb_is_one_less_than_the_smallest_usable_disk(bmc, task, inspect, storage, case):
    volumes, simple, expected = case
    if volumes:
        storage(*volumes)
    if simple:
        path = f"{SYSTEM}/SimpleStorage/1"
        bmc.system["SimpleStorage"] = link(f"{SYSTEM}/SimpleStorage")
        bmc.tree[f"{SYSTEM}/SimpleStorage"] = collection(path)
        devices = [{"Name": "d", "CapacityBytes": size} for size in simple]
        bmc.tree[path] = {"Id": "1", "Devices": devices}
    run(task, inspect)
    assert task.node.properties["local_gb"] == expected


GAPS = ["Storage", "EthernetInterfaces", "Status", "Links", "SecureBoot", "Boot", "SerialNumber"]


@pytest.mark.parametrize(
    "gap_and_kind", [(gap, kind) for gap in GAPS for kind in ("absent", "null")], ids="-".join
)
def test_a_gap_leaves_its_part_unset(bmc, task, inspect, storage, gap_and_kind):
    gap, kind = gap_and_kind
    if kind == "absent":
        del bmc.system[gap]
    else:
        bmc.system[gap] = None
    if gap == "EthernetInterfaces":
        inspect._hooks = [pair for pair in inspect._hooks if pair[0] == "architecture"]
    found = run(task, inspect).inventory_data
    assert task.node.properties["memory_mb"] == 65536
    assert found["cpu"]["architecture"] == "x86_64"


@pytest.mark.parametrize(
    "case",
    [
        ("Storage$", Answer(500, error("bug"))),
        ("Drives/1$", Answer(404, error("gone"))),
        ("Drives/2$", Answer(200, {"Id": "2", "CapacityBytes": None})),
        ("Storage/1$", Answer(200, {"Id": "1", "StorageControllers": None, "Drives": []})),
        ("Processors/2$", Answer(200, {"Id": "2", "ProcessorType": "Quantum"})),
    ],
    ids=str,
)
def test_broken_parts_are_left_out(bmc, task, inspect, storage, case):
    path, broken = case
    bmc.script("GET", path, broken)
    run(task, inspect)
    assert task.node.properties["cpu_arch"] == "x86_64"


def test_essential_gaps_are_a_failure_that_names_them(bmc, task, inspect):
    del bmc.system["MemorySummary"]
    with pytest.raises(errors.HardwareInspectionFailure, match="memory_mb; set them"):
        inspect.inspect_hardware(task)
    assert task.saves == 0
    task.node.properties["memory_mb"] = 4096
    run(task, inspect)
    assert task.node.properties["memory_mb"] == 4096
    assert task.node.properties["local_gb"] == 0


def test_a_bmc_that_does_not_answer_is_no_gap(bmc, task, inspect):
    bmc.script("GET", "Processors$", Answer(close=True))
    with pytest.raises(errors.RedfishConnectionError):
        inspect.inspect_hardware(task)


def test_a_boot_mode_that_somebody_chose_stays(task, inspect):
    task.node.properties["capabilities"] = "boot_mode:bios,x:y"
    run(task, inspect)
    assert task.node.properties["capabilities"] == "boot_mode:bios,x:y"


def test_the_service_tag_of_a_dell_machine_is_its_serial_number(bmc, task, inspect):
    bmc.system.update(Manufacturer="Dell Inc.", SKU="TAG1234", SerialNumber="CN0")
    vendor = run(task, inspect).inventory_data["system_vendor"]
    assert vendor["serial_number"] == "TAG1234"


def test_pci_devices_are_written_as_the_ramdisk_does(bmc, task, inspect):
    device = f"{SYSTEM}/PCIeDevices/1"
    bmc.system["PCIeDevices"] = [link(device)]
    bmc.tree[device] = {"Id": "1", "PCIeFunctions": link(f"{device}/PCIeFunctions")}
    bmc.tree[f"{device}/PCIeFunctions"] = collection(f"{device}/PCIeFunctions/0")
    bmc.tree[f"{device}/PCIeFunctions/0"] = {
        "Id": "0",
        "VendorId": "0x10DE",
        "DeviceId": "0x1EB8",
        "ClassCode": "0x030200",
        "RevisionId": "0xA1",
        "SubsystemId": None,
    }
    assert run(task, inspect).inventory_data["pci_devices"] == [
        {
            "class": "030200",
            "product_id": "1eb8",
            "vendor_id": "10de",
            "subsystem_id": None,
            "subsystem_vendor_id": None,
            "revision": "a1",
        }
    ]


def test_what_the_switch_says_is_kept(bmc, task, inspect):
    chassis = "/redfish/v1/Chassis/1"
    adapter = f"{chassis}/NetworkAdapters/1"
    bmc.system["Links"]["Chassis"] = [link(chassis)]
    bmc.tree[chassis] = {
        "Id": "c",
        "Name": "c",
        "ChassisType": "Rack",
        "NetworkAdapters": link(f"{chassis}/NetworkAdapters"),
    }
    bmc.tree[f"{chassis}/NetworkAdapters"] = collection(adapter)
    bmc.tree[adapter] = {"Id": "1", "Ports": link(f"{adapter}/Ports")}
    bmc.tree[f"{adapter}/Ports"] = collection(f"{adapter}/Ports/1", f"{adapter}/Ports/2")
    heard = {"ChassisId": "00:11:22:33:44:55", "PortId": "Eth1/7", "SystemName": "tor1"}
    bmc.tree[f"{adapter}/Ports/1"] = {
        "Id": "NIC.1-1",
        "Name": "p",
        "Ethernet": {"LLDPReceive": heard},
    }
    bmc.tree[f"{adapter}/Ports/2"] = {"Id": "NIC.1-2", "Name": "p"}
    assert run(task, inspect).plugin_data["parsed_lldp"] == {
        "NIC.1-1": {
            "switch_chassis_id": "00:11:22:33:44:55",
            "switch_port_id": "Eth1/7",
            "switch_system_name": "tor1",
        }
    }


def test_the_configuration_is_checked_when_the_interface_is_made(config):
    config("redfish", inspection_hooks="no-such-hook")
    with pytest.raises(errors.ConfigInvalid, match=r"\[redfish\]inspection_hooks.*no-such-hook"):
        RedfishInspect()


def test_rules_see_the_inventory_and_what_they_make_of_it_is_stored(task, inspect, database):  # noqa: F811
    inspection_rules.create(
        {
            "actions": [
                {"op": "set-attribute", "args": ["extra/by", "{inventory[system_vendor]}"]},
                {"op": "set-attribute", "args": ["properties/local_gb", 10]},
                {"op": "set-plugin-data", "args": ["seen", True]},
            ]
        }
    )
    assert inspect.inspect_hardware(task) == states.MANAGEABLE
    node = task.node
    assert "manufacturer" in node.extra["by"]
    assert node.properties["local_gb"] == 10
    assert db_inventory.get(node.id).plugin_data["seen"] is True
