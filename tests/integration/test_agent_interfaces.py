"""What the ramdisk does besides deployment: inspection, RAID, rescue; on simulated machines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import requests

from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.ramdisk_api import make_iso
from tests.harness.servers import free_port, wait_until

AGENT_INTERFACES = {
    "inspect_interface": "agent",
    "raid_interface": "agent",
    "rescue_interface": "agent",
}
VOLUMES = [
    {"size_gb": 100, "raid_level": "1", "is_root_volume": True},
    {"size_gb": "MAX", "raid_level": "5"},
]


class Room:
    """A service in one process, and the machines that it drives."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox) -> None:
        self.cluster, self.sandbox = cluster, sandbox
        self._free = sandbox.machines()

    def take(self) -> dict[str, Any]:
        """Return the next machine."""
        return self._free.pop(0)

    def boot_by_hand(self, machine: Mapping[str, Any], iso: str) -> None:
        """Switch a machine on that boots from an ISO, as somebody before it would."""
        bmc = machine["bmc"]
        system = f"{bmc['address']}{bmc['system_id']}"
        with requests.Session() as session:
            session.auth = (bmc["username"], bmc["password"])

            def ask(method: str, path: str, body: dict[str, Any]) -> None:
                answer = session.request(method, system + path, json=body, timeout=30)
                assert answer.ok, answer.text

            ask("POST", "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", {"Image": iso})
            once = {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Cd"}
            ask("PATCH", "", {"Boot": once})
            ask("POST", "/Actions/ComputerSystem.Reset", {"ResetType": "On"})

    def enroll(self, **more: Any) -> tuple[str, str]:
        """Enroll the next machine and bring it to manageable: (node uuid, machine name)."""
        machine = self.take()
        node = self.sandbox.enroll(self.cluster, machine, **AGENT_INTERFACES, **more)
        self.cluster.manage(node["uuid"])
        return node["uuid"], machine["name"]

    def machine(self, name: str) -> dict[str, Any]:
        return dict(self.sandbox.get(f"/machines/{name}"))

    def wait(self, uuid: str, state: str, failed: str) -> dict[str, Any]:
        """Wait for a state; fails at once with the reason when it will not come."""
        node = self.cluster.wait_state(uuid, state, failed)
        assert node["provision_state"] == state, node["last_error"]
        return node

    def inspect(self, uuid: str) -> dict[str, Any]:
        """Inspect with success."""
        self.cluster.provision(uuid, "inspect")
        return self.wait(uuid, "manageable", "inspect failed")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("room")
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(running(Sandbox(folder, 11)))
        sandbox.start()
        options = sandbox.options()
        options["conductor"]["rescue_kernel"] = options["conductor"]["deploy_kernel"]
        options["conductor"]["rescue_ramdisk"] = options["conductor"]["deploy_ramdisk"]
        options["DEFAULT"] = {
            "enabled_power_interfaces": "redfish,agent,fake",
            "enabled_management_interfaces": "redfish,noop,fake",
            "enabled_deploy_interfaces": "autodetect,direct,ramdisk,fake",
            "enabled_inspect_interfaces": "agent,redfish,fake,no-inspect",
            "enabled_raid_interfaces": "agent,no-raid,fake",
            "enabled_rescue_interfaces": "agent,no-rescue,fake",
        }
        options["agent"]["deploy_logs_local_path"] = folder / "logs"
        cluster = stack.enter_context(
            running(Cluster(folder, f"sqlite:///{folder}/ironic.sqlite", "fake://", options))
        )
        cluster.migrate()
        cluster.start_all_in_one()
        yield Room(cluster, sandbox)


@pytest.mark.timeout(300)
def test_a_machine_is_inspected_by_its_ramdisk(room: Room) -> None:
    uuid, name = room.enroll()
    machine = room.machine(name)
    # Without them the BMC tells by which network card the ramdisk will be known.
    for port in room.cluster.get("/v1/ports", node=uuid)["ports"]:
        room.cluster.send("DELETE", f"/v1/ports/{port['uuid']}", expect=204)

    node = room.inspect(uuid)

    stored = room.cluster.get(f"/v1/nodes/{uuid}/inventory")
    assert stored["inventory"]["hostname"] == name
    assert [nic["mac_address"] for nic in stored["inventory"]["interfaces"]] == machine["macs"]
    assert stored["plugin_data"]["root_disk"]["name"] == "/dev/sda"
    assert "logs" not in stored["plugin_data"]
    ports = room.cluster.get("/v1/ports", node=uuid)["ports"]
    assert sorted(port["address"] for port in ports) == sorted(machine["macs"])
    assert node["properties"]["cpu_arch"] == "x86_64"
    assert node["power_state"] == "power off"
    assert node["last_error"] is None
    assert "agent_secret_token" not in node["driver_internal_info"]
    assert room.machine(name)["power"] == "Off"
    assert not room.machine(name)["media"]["Cd"]["inserted"]


@pytest.mark.timeout(300)
def test_an_inspection_that_fails_in_the_ramdisk_says_why_and_ends_it(room: Room) -> None:
    uuid, name = room.enroll()
    room.sandbox.faults(name, agent_inspection_error="disk controller on fire")

    room.cluster.provision(uuid, "inspect")
    node = room.cluster.wait_state(uuid, "inspect failed")

    assert "disk controller on fire" in node["last_error"]
    assert room.machine(name)["power"] == "Off"
    logs = list((room.cluster.folder / "logs").glob(f"{uuid}_{name}_inspect_*.tar.gz"))
    assert len(logs) == 1
    room.sandbox.faults(name, agent_inspection_error="")
    assert room.inspect(uuid)["last_error"] is None


@pytest.mark.timeout(300)
def test_an_inspection_is_aborted(room: Room) -> None:
    uuid, name = room.enroll()
    room.sandbox.faults(name, agent_silent=True)
    room.cluster.provision(uuid, "inspect")
    room.cluster.wait_state(uuid, "inspect wait")

    room.cluster.provision(uuid, "abort")

    node = room.cluster.wait_state(uuid, "inspect failed")
    assert "abort" in node["last_error"]
    assert room.machine(name)["power"] == "Off"


@pytest.mark.timeout(300)
def test_with_fast_track_cleaning_goes_on_with_the_ramdisk_of_the_inspection(room: Room) -> None:
    uuid, name = room.enroll()
    cluster = room.cluster
    patch = [{"op": "add", "path": "/driver_info/fast_track", "value": True}]
    cluster.send("PATCH", f"/v1/nodes/{uuid}", patch, 200)

    room.inspect(uuid)
    wait_until(
        lambda: cluster.node(uuid)["driver_internal_info"].get("agent_url"), "its agent calls", 60
    )
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")

    counters = room.sandbox.get(f"/machines/{name}/counters")["counts"]
    assert counters["agent.boots"] == 1
    assert counters["agent.step.deploy.erase_devices_metadata"] == 1
    assert room.machine(name)["power"] == "On"


@pytest.mark.timeout(300)
def test_volumes_are_created_and_deleted_by_clean_steps(room: Room) -> None:
    uuid, name = room.enroll()
    cluster = room.cluster
    cluster.send("PUT", f"/v1/nodes/{uuid}/states/raid", {"logical_disks": VOLUMES}, 204)
    create = {
        "interface": "raid",
        "step": "create_configuration",
        "args": {"create_nonroot_volumes": False},
    }

    cluster.provision(uuid, "clean", clean_steps=[create])
    node = room.wait(uuid, "manageable", "clean failed")

    assert [disk["raid_level"] for disk in room.machine(name)["volumes"]] == ["1"]
    assert [disk["raid_level"] for disk in node["raid_config"]["logical_disks"]] == ["1"]
    assert node["raid_config"]["last_updated"]
    assert node["properties"]["local_gb"] == 100
    assert "raid_level:1" in node["properties"]["capabilities"]

    cluster.provision(
        uuid, "clean", clean_steps=[{"interface": "raid", "step": "delete_configuration"}]
    )
    node = room.wait(uuid, "manageable", "clean failed")
    assert node["raid_config"] == {}
    assert room.machine(name)["volumes"] == []


@pytest.mark.timeout(300)
def test_an_instance_that_is_an_iso_boots_without_the_agent(room: Room) -> None:
    uuid, name = room.enroll(deploy_interface="autodetect", automated_clean=False)
    cluster = room.cluster
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")
    make_iso(room.sandbox.files / "own.iso", {"root": "/dev/ram0"})
    boot_iso = room.sandbox.image_url.replace("demo.img", "own.iso")
    info = {"boot_iso": boot_iso, "ironic_ramdisk_deploy": True}
    patch = [{"op": "replace", "path": "/instance_info", "value": info}]
    cluster.send("PATCH", f"/v1/nodes/{uuid}", patch, 200)

    cluster.provision(uuid, "active", configdrive={"meta_data": {"hostname": "diskless"}})
    assert room.wait(uuid, "active", "deploy failed")["deploy_interface"] == "ramdisk"

    wait_until(lambda: room.machine(name)["software"] == "instance", "the ISO runs", 60)
    machine = room.machine(name)
    assert machine["agent"] is None
    assert machine["media"]["Removable"]["inserted"]
    assert "agent.boots" not in room.sandbox.get(f"/machines/{name}/counters")

    cluster.provision(uuid, "deleted")
    assert room.wait(uuid, "available", "error")["deploy_interface"] == "autodetect"
    assert room.machine(name)["power"] == "Off"
    assert not any(medium["inserted"] for medium in room.machine(name)["media"].values())


@pytest.mark.timeout(300)
def test_a_config_drive_that_can_not_be_fetched_fails_the_deployment(room: Room) -> None:
    uuid, name = room.enroll(automated_clean=False, deploy_interface="direct")
    cluster = room.cluster
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")
    nowhere = f"http://user:secret@127.0.0.1:{free_port()}/drive"

    cluster.provision(uuid, "active", configdrive=nowhere)
    node = cluster.wait_state(uuid, "deploy failed", "active")

    assert node["provision_state"] == "deploy failed"
    assert "deploy.write_image" in node["last_error"]
    assert "onfig drive" in node["last_error"]
    assert "secret" not in node["last_error"]
    assert node["instance_info"]["configdrive"] == "******"
    # What the ramdisk can tell of it is kept, and it does not run on.
    assert list((cluster.folder / "logs").glob(f"{uuid}_{name}_*.tar.gz"))
    assert room.machine(name)["power"] == "Off"

    cluster.provision(uuid, "active", configdrive={"user_data": "#!/bin/sh"})
    assert room.wait(uuid, "active", "deploy failed")["last_error"] is None
    assert room.machine(name)["configdrive"]["size"] > 0


@pytest.mark.timeout(300)
def test_a_machine_that_must_stay_on_is_deployed_by_a_ramdisk_that_is_locked_down(
    room: Room,
) -> None:
    uuid, name = room.enroll(
        automated_clean=False, deploy_interface="direct", disable_power_off=True
    )
    cluster = room.cluster
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")

    # A ramdisk that is busy is asked again at its next heartbeats.
    room.sandbox.faults(name, agent_status=409, agent_times=3)
    cluster.provision(uuid, "active")
    room.wait(uuid, "active", "deploy failed")
    wait_until(lambda: room.machine(name)["software"] == "instance", "the instance runs", 60)
    counts = room.sandbox.get(f"/machines/{name}/counters")["counts"]
    assert {key for key in counts if key.startswith("bmc.reset")} == {
        "bmc.reset.On",
        "bmc.reset.ForceRestart",
    }


@pytest.mark.timeout(300)
def test_a_partition_image_is_deployed_onto_volumes_made_before(room: Room) -> None:
    uuid, name = room.enroll(automated_clean=False)
    cluster = room.cluster
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")
    info = {"image_type": "partition", "root_gb": 2, "swap_mb": 64}
    info = {**room.sandbox.instance_info(), **info}
    patch = [{"op": "replace", "path": "/instance_info", "value": info}]
    cluster.send("PATCH", f"/v1/nodes/{uuid}", patch, 200)

    apply = {
        "interface": "raid",
        "step": "apply_configuration",
        "args": {"raid_config": {"logical_disks": VOLUMES}},
        "priority": 90,
    }
    cluster.provision(uuid, "active", deploy_steps=[apply])
    node = room.wait(uuid, "active", "deploy failed")

    wait_until(lambda: room.machine(name)["software"] == "instance", "the instance runs", 60)
    assert len(room.machine(name)["volumes"]) == 2
    assert [disk["raid_level"] for disk in node["raid_config"]["logical_disks"]] == ["1", "5"]
    sizes = {"root_mb": 2048, "swap_mb": 64, "ephemeral_mb": 0}
    assert node["driver_internal_info"]["instance"] == sizes
    assert node["driver_internal_info"]["is_whole_disk_image"] is False

    delete = {"interface": "raid", "step": "delete_configuration"}
    cluster.provision(uuid, "service", service_steps=[delete])
    node = room.wait(uuid, "active", "service failed")
    assert node["raid_config"] == {}
    assert room.machine(name)["volumes"] == []


@pytest.mark.timeout(300)
def test_a_machine_without_a_bmc_is_rebooted_by_its_ramdisk(room: Room) -> None:
    cluster, machine = room.cluster, room.take()
    body = {
        "driver": "fake-hardware",
        "power_interface": "agent",
        "management_interface": "noop",
        "deploy_interface": "direct",
        "driver_info": {"fast_track": True},
        "instance_info": room.sandbox.instance_info(),
    }
    uuid = cluster.send("POST", "/v1/nodes", body, 201).json()["uuid"]
    cluster.send("POST", "/v1/ports", {"node_uuid": uuid, "address": machine["macs"][0]}, 201)
    cluster.provision(uuid, "manage")
    node = cluster.wait_state(uuid, "enroll")
    assert "was not heard of" in node["last_error"]

    # Somebody switches it on, with the ramdisk on a medium.
    make_iso(room.sandbox.files / "ramdisk.iso", {"ipa-api-url": cluster.url})
    room.boot_by_hand(machine, room.sandbox.image_url.replace("demo.img", "ramdisk.iso"))
    wait_until(
        lambda: cluster.node(uuid)["driver_internal_info"].get("agent_url"), "its agent calls", 60
    )
    cluster.manage(uuid)
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")
    cluster.provision(uuid, "active")
    room.wait(uuid, "active", "deploy failed")

    name = machine["name"]
    wait_until(lambda: room.machine(name)["software"] == "instance", "the instance runs", 60)
    counters = room.sandbox.get(f"/machines/{name}/counters")["counts"]
    assert counters["agent.boots"] == 1
    assert counters["machine.boots"] == 2
    assert [name for name in counters if name.startswith("bmc.reset")] == ["bmc.reset.On"]


@pytest.mark.timeout(300)
def test_an_instance_is_rescued_and_comes_back(room: Room) -> None:
    uuid, name = room.enroll(deploy_interface="autodetect")
    cluster = room.cluster
    cluster.provision(uuid, "provide")
    room.wait(uuid, "available", "clean failed")
    cluster.provision(uuid, "active")
    assert room.wait(uuid, "active", "deploy failed")["deploy_interface"] == "direct"

    cluster.provision(uuid, "rescue", rescue_password="open sesame")
    node = room.wait(uuid, "rescue", "rescue failed")

    machine = room.machine(name)
    assert machine["power"] == "On"
    assert machine["agent"]["state"] == "rescued"
    assert "rescue_password" not in node["instance_info"]

    cluster.provision(uuid, "unrescue")
    room.wait(uuid, "active", "unrescue failed")
    wait_until(lambda: room.machine(name)["software"] == "instance", "the instance runs again", 60)

    # A rescue ramdisk that never calls: given up, and the instance is still there.
    room.sandbox.faults(name, agent_silent=True)
    cluster.provision(uuid, "rescue", rescue_password="open sesame")
    cluster.wait_state(uuid, "rescue wait")
    cluster.provision(uuid, "abort")
    node = cluster.wait_state(uuid, "rescue failed")
    assert "rescue_password" not in node["instance_info"]
    assert not room.machine(name)["media"]["Cd"]["inserted"]
    cluster.provision(uuid, "unrescue")
    room.wait(uuid, "active", "unrescue failed")
    wait_until(lambda: room.machine(name)["software"] == "instance", "the instance runs again", 60)
