"""Vendor methods, UEFI HTTP boot and iDRACs of simulated machines, through the API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(300)

EVENTS = "https://127.0.0.1:9/events"


class Room:
    """A service in one process, and the machines that it drives."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox) -> None:
        self.cluster, self.sandbox = cluster, sandbox
        self._free = sandbox.machines()

    def enroll(self, **more: Any) -> tuple[str, str]:
        """Bring the next machine to manageable: (node uuid, machine name)."""
        machine = self._free.pop(0)
        node = self.sandbox.enroll(self.cluster, machine, **more)
        self.cluster.manage(node["uuid"])
        return node["uuid"], machine["name"]

    def call(
        self, uuid: str, http_method: str, method: str, status: int = 200, **arguments: Any
    ) -> Any:
        path = f"/v1/nodes/{uuid}/vendor_passthru?method={method}"
        answer = self.cluster.send(http_method, path, arguments, status)
        return answer.json() if answer.content else None


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("room")
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(running(Sandbox(folder, 5, "--raid=immediate:4")))
        sandbox.start()
        options = sandbox.options()
        options["DEFAULT"] = {
            "enabled_hardware_types": "redfish,idrac",
            "enabled_bios_interfaces": "redfish,idrac-redfish,no-bios",
            "enabled_vendor_interfaces": "redfish,idrac-redfish,no-vendor",
            "enabled_boot_interfaces": (
                "redfish-virtual-media,redfish-https,idrac-redfish-virtual-media"
            ),
            "enabled_inspect_interfaces": "redfish,idrac-redfish,no-inspect",
            "enabled_management_interfaces": "redfish,idrac-redfish",
            "enabled_power_interfaces": "redfish,idrac-redfish",
            "enabled_raid_interfaces": "idrac-redfish,no-raid",
        }
        options["conductor"]["verify_step_priority_override"] = "management.clear_job_queue:5"
        options["redfish"] = {
            "firmware_update_status_interval": 1,
            "raid_config_status_interval": 1,
        }
        cluster = stack.enter_context(
            running(Cluster(folder, f"sqlite:///{folder}/ironic.sqlite", "fake://", options))
        )
        cluster.migrate()
        cluster.start_all_in_one()
        yield Room(cluster, sandbox)


def test_subscriptions_are_made_listed_shown_and_deleted(room: Room) -> None:
    uuid, _name = room.enroll()
    methods = room.cluster.get(f"/v1/nodes/{uuid}/vendor_passthru/methods")
    assert methods.keys() == {
        "create_subscription",
        "delete_subscription",
        "eject_vmedia",
        "get_all_subscriptions",
        "get_subscription",
    }
    made = room.call(uuid, "POST", "create_subscription", Destination=EVENTS, Context="rack 1")
    assert made == {
        "Id": "1",
        "Context": "rack 1",
        "Protocol": "Redfish",
        "Destination": EVENTS,
        "EventTypes": ["Alert"],
    }
    assert room.call(uuid, "GET", "get_subscription", id="1") == made
    (member,) = room.call(uuid, "GET", "get_all_subscriptions")["Members"]
    assert member["@odata.id"].endswith("/Subscriptions/1")
    room.call(uuid, "DELETE", "delete_subscription", id="1")
    assert room.call(uuid, "GET", "get_all_subscriptions")["Members"] == []
    room.call(uuid, "DELETE", "delete_subscription", 404, id="1")
    room.call(uuid, "GET", "get_subscription", 404, id="1")


def test_what_the_bmc_or_the_service_refuses_says_why(room: Room) -> None:
    uuid, _name = room.enroll()
    told = room.call(uuid, "POST", "create_subscription", 400, Context="rack 1")
    assert "needs a Destination" in str(told)
    told = room.call(
        uuid, "POST", "create_subscription", 400, Destination=EVENTS, EventTypes=["Moon"]
    )
    assert "no events of type Moon; it has StatusChange" in str(told)
    told = room.call(uuid, "POST", "create_subscription", 500, Destination="http://127.0.0.1/e")
    assert "Destination has to be an https URI" in str(told)
    assert room.cluster.node(uuid)["reservation"] is None


def test_a_machine_is_deployed_by_http_boot_and_media_are_ejected(room: Room) -> None:
    uuid, name = room.enroll(
        boot_interface="redfish-https", properties={"capabilities": "boot_mode:uefi"}
    )
    cluster, sandbox = room.cluster, room.sandbox
    cluster.provision(uuid, "provide")
    cluster.wait_state(uuid, "available", "clean failed")
    cluster.provision(uuid, "active")
    node = cluster.wait_state(uuid, "active", "deploy failed")
    assert node["provision_state"] == "active", node["last_error"]
    wait_until(
        lambda: sandbox.get(f"/machines/{name}")["software"] == "instance", "the instance runs"
    )
    counts = sandbox.get(f"/machines/{name}/counters")
    assert not any("VirtualMedia.InsertMedia" in path for path in counts["bmc_paths"])
    assert sandbox.get(f"/machines/{name}")["boot"]["target"] == "Hdd"

    media = {"device_type": "cdrom", "image_url": sandbox.image_url}
    cluster.send("POST", f"/v1/nodes/{uuid}/vmedia", media, 204)
    wait_until(
        lambda: sandbox.get(f"/machines/{name}")["media"]["Cd"]["inserted"], "the CD is inserted"
    )
    wait_until(lambda: cluster.node(uuid)["reservation"] is None, "the lock is free")
    room.call(uuid, "POST", "eject_vmedia", 202, boot_device="cdrom")
    wait_until(
        lambda: not sandbox.get(f"/machines/{name}")["media"]["Cd"]["inserted"],
        "the CD is ejected",
    )


IDRAC = {
    "driver": "idrac",
    "boot_interface": "idrac-redfish-virtual-media",
    "inspect_interface": "idrac-redfish",
}


def count(room: Room, name: str, counter: str) -> int:
    counts: dict[str, int] = room.sandbox.get(f"/machines/{name}/counters")["counts"]
    return counts.get(counter, 0)


def test_an_idrac_is_verified_inspected_deployed_and_cleared(room: Room) -> None:
    uuid, name = room.enroll(**IDRAC)
    cluster, sandbox = room.cluster, room.sandbox
    node = cluster.node(uuid)
    chosen = {kind: node[f"{kind}_interface"] for kind in ("bios", "management", "power", "vendor")}
    assert set(chosen.values()) == {"idrac-redfish"}
    # By the verify step that this site has turned on.
    assert count(room, name, "bmc.jobs_cleared") == 1
    assert cluster.get(f"/v1/nodes/{uuid}/bios")["bios"]

    cluster.provision(uuid, "inspect")
    node = cluster.wait_state(uuid, "manageable", "inspect failed")
    assert node["provision_state"] == "manageable", node["last_error"]
    assert node["properties"]["cpu_arch"] == "x86_64"

    steps = [
        {"interface": "management", "step": "clear_job_queue"},
        {
            "interface": "bios",
            "step": "apply_configuration",
            "args": {"settings": [{"name": "SandboxCounter", "value": "7"}]},
        },
    ]
    cluster.provision(uuid, "clean", clean_steps=steps, disable_ramdisk=True)
    node = cluster.wait_state(uuid, "manageable", "clean failed")
    assert node["provision_state"] == "manageable", node["last_error"]
    assert count(room, name, "bmc.jobs_cleared") == 2
    assert cluster.get(f"/v1/nodes/{uuid}/bios/SandboxCounter")["SandboxCounter"]["value"] == "7"

    cluster.provision(uuid, "provide")
    cluster.wait_state(uuid, "available", "clean failed")
    imported = count(room, name, "bmc.imports")
    assert imported >= 1
    cluster.provision(uuid, "active")
    node = cluster.wait_state(uuid, "active", "deploy failed")
    assert node["provision_state"] == "active", node["last_error"]
    assert count(room, name, "bmc.imports") > imported
    wait_until(
        lambda: sandbox.get(f"/machines/{name}")["software"] == "instance", "the instance runs"
    )


def test_volumes_of_an_idrac_are_made_and_deleted(room: Room) -> None:
    uuid, _name = room.enroll(**IDRAC, raid_interface="idrac-redfish")
    cluster = room.cluster
    target = {"logical_disks": [{"size_gb": 10, "raid_level": "1", "is_root_volume": True}]}
    cluster.send("PUT", f"/v1/nodes/{uuid}/states/raid", target, 204)
    for step, levels in (("create_configuration", ["1"]), ("delete_configuration", [])):
        steps = [{"interface": "raid", "step": step}]
        cluster.provision(uuid, "clean", clean_steps=steps, disable_ramdisk=True)
        node = cluster.wait_state(uuid, "manageable", "clean failed")
        assert node["provision_state"] == "manageable", node["last_error"]
        assert [disk["raid_level"] for disk in node["raid_config"]["logical_disks"]] == levels
