"""BIOS settings, firmware and RAID of simulated machines, through the API and periodics."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(300)

COUNTER = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {"settings": [{"name": "SandboxCounter", "value": "7"}]},
}


class Room:
    """A service in one process, and the machines that it drives."""

    def __init__(self, cluster: Cluster, sandbox: Sandbox, options: dict[str, Any]) -> None:
        self.cluster, self.sandbox, self.options = cluster, sandbox, options
        self._free = sandbox.machines()

    def enroll(self) -> tuple[str, str]:
        """Bring the next machine to manageable: (node uuid, machine name)."""
        machine = self._free.pop(0)
        node = self.sandbox.enroll(self.cluster, machine)
        self.cluster.manage(node["uuid"])
        return node["uuid"], machine["name"]

    def clean(self, uuid: str, *steps: dict[str, Any], ramdisk: bool = False) -> dict[str, Any]:
        """Run clean steps, in a ramdisk when asked for; returns the node at their end."""
        in_band = [{"interface": "deploy", "step": "erase_devices_metadata"}] if ramdisk else []
        self.cluster.provision(uuid, "clean", clean_steps=[*steps, *in_band])
        return self.cluster.wait_state(uuid, "manageable", "clean failed")

    def raid(self, uuid: str, *disks: dict[str, Any], expect: int = 204) -> str:
        """Set the target RAID configuration; returns the answer."""
        target = {"logical_disks": list(disks)}
        return str(self.cluster.send("PUT", f"/v1/nodes/{uuid}/states/raid", target, expect).text)

    def counts(self, name: str, what: str) -> int:
        """How often something of this name, or beginning with it, has happened to a machine."""
        counts = self.sandbox.get(f"/machines/{name}/counters")["counts"]
        return sum(number for key, number in counts.items() if f"{key}.".startswith(f"{what}."))

    def versions(self, uuid: str) -> dict[str, str]:
        """Component -> version, as the node has them."""
        rows = self.cluster.get(f"/v1/nodes/{uuid}/firmware")["firmware"]
        return {row["component"]: row["current_version"] for row in rows}

    def image(self, name: str, content: bytes) -> dict[str, str]:
        """Put a firmware image on the conductor's host: its url and checksum."""
        path = self.cluster.folder / "images" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return {"url": f"file://{path}", "checksum": hashlib.sha256(content).hexdigest()}

    def published(self, uuid: str) -> list[Path]:
        """Firmware images that the conductor shows to the BMC of a node."""
        return list((self.cluster.folder / "httpboot" / "firmware").glob(f"{uuid}/*/*"))

    def setting(self, uuid: str, name: str) -> dict[str, Any]:
        return dict(self.cluster.get(f"/v1/nodes/{uuid}/bios/{name}")[name])


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("room")
    with contextlib.ExitStack() as stack:
        # Controllers RAID.1, which does all at once, RAID.2 and RAID.3.
        controllers = ("--raid=immediate:4", "--raid=on-reset:4", "--raid=no-volumes:2")
        sandbox = stack.enter_context(running(Sandbox(folder, 25, *controllers)))
        sandbox.start()
        options = sandbox.options()
        options["DEFAULT"] = {"enabled_bios_interfaces": "redfish,no-bios"}
        options["DEFAULT"]["enabled_firmware_interfaces"] = "redfish,no-firmware"
        options["DEFAULT"]["enabled_raid_interfaces"] = "redfish,no-raid"
        options["redfish"] = {
            "raid_config_status_interval": 1,
            "raid_config_fail_interval": 1,
            "firmware_update_status_interval": 1,
            "firmware_update_fail_interval": 1,
            "firmware_update_nic_starting_wait": 0,
            "firmware_update_bmc_timeout": 3,
            "firmware_update_bmc_version_check_interval": 0,
        }
        options["conductor"]["file_url_allowed_paths"] = folder
        cluster = stack.enter_context(
            running(Cluster(folder, f"sqlite:///{folder}/ironic.sqlite", "fake://", options))
        )
        cluster.migrate()
        cluster.start_all_in_one()
        yield Room(cluster, sandbox, options)


@pytest.mark.parametrize("ramdisk", [False, True])
def test_bios_settings_are_applied_and_reset(room: Room, ramdisk: bool) -> None:
    uuid, _name = room.enroll()
    assert room.setting(uuid, "SandboxCounter")["value"] == "0"
    shown = room.cluster.get(f"/v1/nodes/{uuid}/bios", detail="true")["bios"]
    assert {row["name"]: row["upper_bound"] for row in shown}["SandboxCounter"] == 4294967295

    node = room.clean(uuid, COUNTER, ramdisk=ramdisk)
    assert node["provision_state"] == "manageable", node["last_error"]
    assert room.setting(uuid, "SandboxCounter")["value"] == "7"

    node = room.clean(uuid, {"interface": "bios", "step": "factory_reset"}, ramdisk=ramdisk)
    assert node["provision_state"] == "manageable", node["last_error"]
    assert room.setting(uuid, "SandboxCounter")["value"] == "0"


def test_bios_settings_that_a_boot_refuses_fail_with_the_words_of_the_bmc(room: Room) -> None:
    uuid, name = room.enroll()
    room.sandbox.faults(name, bios_complaint="the licence is missing")
    node = room.clean(uuid, COUNTER)
    assert node["provision_state"] == "clean failed"
    assert "SandboxCounter. The BMC says: the licence is missing" in node["last_error"]
    assert "redfish_bios_state" not in node["driver_internal_info"]


def firmware(*updates: tuple[str, str]) -> dict[str, Any]:
    """A step that updates components from images."""
    settings = [
        {"component": component, "url": f"http://127.0.0.1/{image}", "wait": 1}
        for component, image in updates
    ]
    return {"interface": "firmware", "step": "update", "args": {"settings": settings}}


def test_firmware_of_all_parts_is_updated(room: Room) -> None:
    uuid, name = room.enroll()

    card = next(part for part in room.versions(uuid) if part.startswith("nic:"))
    assert set(room.versions(uuid).values()) == {"1.0.0"}
    step = firmware(("bmc", "bmc-2.0.bin"), ("bios", "bios-3.0.bin"), (card, "nic-4.0.bin"))
    node = room.clean(uuid, step, ramdisk=True)
    assert node["provision_state"] == "manageable", node["last_error"]
    assert room.versions(uuid) == {"bmc": "2.0", "bios": "3.0", card: "4.0"}
    assert not [key for key in node["driver_internal_info"] if "fw_" in key]
    paths = room.sandbox.get(f"/machines/{name}/counters")["bmc_paths"]
    assert sum(n for path, n in paths.items() if path.endswith("SimpleUpdate")) == 3


def test_a_firmware_update_that_fails_says_what_the_bmc_says(room: Room) -> None:
    uuid, name = room.enroll()
    room.sandbox.faults(name, update_complaint="the signature is wrong")
    node = room.clean(uuid, firmware(("bios", "bios-2.0.bin")))
    assert node["provision_state"] == "clean failed"
    assert "the signature is wrong" in node["last_error"]
    assert "redfish_fw_updates" not in node["driver_internal_info"]


def images(*updates: dict[str, str]) -> dict[str, Any]:
    """A step that updates firmware of any kind from images."""
    args = {"firmware_images": list(updates)}
    return {"interface": "management", "step": "update_firmware", "args": args}


def test_images_of_the_conductors_host_reach_the_bmc(room: Room) -> None:
    uuid, name = room.enroll()
    first, second = room.image("bios-2.0.bin", b"bios"), room.image("bmc-3.0.bin", b"bmc")
    boots = room.counts(name, "machine.boots")
    node = room.clean(uuid, images(first, second))
    assert node["provision_state"] == "manageable", node["last_error"]
    assert (room.versions(uuid)["bios"], room.versions(uuid)["bmc"]) == ("2.0", "3.0")
    updates = room.sandbox.get(f"/machines/{name}")["firmware"]["updates"]
    assert [update["sha256"] for update in updates] == [first["checksum"], second["checksum"]]
    # One for the ramdisk that the step asks for, one with each image.
    assert room.counts(name, "machine.boots") == boots + 3
    assert room.published(uuid) == []
    assert not [key for key in node["driver_internal_info"] if "firmware" in key]


def test_a_damaged_image_stops_the_step_before_anything_is_changed(room: Room) -> None:
    uuid, name = room.enroll()
    good, bad = room.image("bios-2.0.bin", b"bios"), room.image("bmc-3.0.bin", b"bmc")
    node = room.clean(uuid, images(good, {**bad, "checksum": good["checksum"]}))
    assert node["provision_state"] == "clean failed"
    assert f"not {good['checksum']}" in node["last_error"]
    assert room.sandbox.get(f"/machines/{name}")["firmware"]["updates"] == []
    assert room.published(uuid) == []


#: Component, states that its task shows from look to look, and what is said when it fails.
LIVES = (
    ("bios", "New Starting Running Completed", None),
    ("bios", "gone", None),
    ("bios", "lost", "the version is still 1.0.0"),
    ("bios", "Running Interrupted", "task state Interrupted"),
    ("nic", "New Pending Running Completed", None),
    ("bmc", "Running gone", None),
    ("bmc", "Running lost", "the version is still 1.0.0"),
)


def test_the_life_of_its_task_decides_about_an_update(room: Room) -> None:
    nodes = []
    for part, states, _said in LIVES:
        uuid, name = room.enroll()
        room.sandbox.faults(name, update_states=states)
        component = next(known for known in room.versions(uuid) if known.startswith(part))
        nodes.append((uuid, component))
        step = firmware((component, f"{part}-2.0.bin"))
        room.cluster.provision(uuid, "clean", clean_steps=[step])
    for (uuid, component), (_part, states, said) in zip(nodes, LIVES, strict=True):
        node = room.cluster.wait_state(uuid, "manageable", "clean failed")
        if said is None:
            assert node["provision_state"] == "manageable", (states, node["last_error"])
            assert room.versions(uuid)[component] == "2.0", states
        else:
            assert node["provision_state"] == "clean failed", states
            assert said in node["last_error"], states


def test_firmware_is_updated_in_service(room: Room) -> None:
    uuid, name = room.enroll()
    room.cluster.provision(uuid, "provide")
    room.cluster.wait_state(uuid, "available")
    room.cluster.provision(uuid, "active")
    room.cluster.wait_state(uuid, "active", "deploy failed")
    first, second = room.image("bios-2.0.bin", b"bios"), room.image("bios-3.0.bin", b"newer")

    # Without ramdisk: the instance boots again, with new firmware.
    boots = room.counts(name, "machine.boots")
    entry = {"component": "bios", "url": first["url"]}
    step = {"interface": "firmware", "step": "update", "args": {"settings": [entry]}}
    room.cluster.provision(uuid, "service", service_steps=[step], disable_ramdisk=True)
    node = room.cluster.wait_state(uuid, "active", "service failed")
    assert node["provision_state"] == "active", node["last_error"]
    assert room.versions(uuid)["bios"] == "2.0"
    assert room.counts(name, "machine.boots") == boots + 1

    room.sandbox.faults(name, update_complaint="the signature is wrong")
    room.cluster.provision(uuid, "service", service_steps=[images(second)])
    node = room.cluster.wait_state(uuid, "active", "service failed")
    assert node["provision_state"] == "service failed"
    assert "the signature is wrong" in node["last_error"]
    assert room.published(uuid) == []


SYSTEM = {
    "raid_level": "1",
    "size_gb": 50,
    "volume_name": "system",
    "controller": "RAID.2",
    "is_root_volume": True,
}
DATA = {
    "raid_level": "5",
    "size_gb": "MAX",
    "volume_name": "data",
    "controller": "RAID.1",
    "physical_disks": ["Disk.0", "Disk.1", "Disk.3"],
}
CREATE = {"interface": "raid", "step": "create_configuration"}
DELETE = {"interface": "raid", "step": "delete_configuration"}


def apply(*disks: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    """A step that makes a RAID configuration the target, and creates it."""
    args = {"raid_config": {"logical_disks": list(disks)}, **arguments}
    return {"interface": "raid", "step": "apply_configuration", "args": args}


def volumes(node: dict[str, Any]) -> list[tuple[Any, ...]]:
    """What raid_config shows."""
    disks = node["raid_config"]["logical_disks"]
    return sorted(
        (d["controller"], d["name"], d["raid_level"], d["size_gb"], d.get("is_root_volume"))
        for d in disks
    )


def test_raid_volumes_are_created_and_deleted_on_all_controllers(room: Room) -> None:
    uuid, name = room.enroll()
    room.raid(uuid, DATA, SYSTEM)
    # A step of the ramdisk follows, which was booted anew meanwhile.
    node = room.clean(uuid, CREATE, ramdisk=True)
    assert node["provision_state"] == "manageable", node["last_error"]
    wanted = [("RAID.1", "data", "5", 200, None), ("RAID.2", "system", "1", 50, True)]
    assert volumes(node) == wanted
    assert node["properties"]["local_gb"] == 50
    assert node["properties"]["capabilities"] == "raid_level:1"
    made = room.sandbox.get(f"/machines/{name}")["raid_volumes"]
    assert {volume["name"]: volume["disks"] for volume in made}["data"] == [0, 1, 3]

    # Leftovers on both controllers, and a new target, in one cleaning.
    room.raid(uuid, {"raid_level": "1+0", "size_gb": 150, "disk_type": "ssd"})
    node = room.clean(uuid, DELETE, CREATE)
    assert node["provision_state"] == "manageable", node["last_error"]
    ((_controller, _name, level, size, _root),) = volumes(node)
    assert (level, size) == ("1+0", 150)
    assert room.counts(name, "bmc.raid.delete") == 2
    assert room.counts(name, "bmc.raid.create") == 3


def test_raid_goes_with_deployment_and_service(room: Room) -> None:
    uuid, name = room.enroll()
    room.cluster.provision(uuid, "provide")
    room.cluster.wait_state(uuid, "available")
    both = apply(SYSTEM, DATA, create_nonroot_volumes=True)
    room.cluster.provision(uuid, "active", deploy_steps=[{**both, "priority": 90}])
    node = room.cluster.wait_state(uuid, "active", "deploy failed")
    assert node["provision_state"] == "active", node["last_error"]
    assert [volume[1] for volume in volumes(node)] == ["data", "system"]
    assert node["target_raid_config"]["logical_disks"] == [SYSTEM, DATA]

    again = apply({**SYSTEM, "size_gb": 20}, delete_existing=True)
    room.cluster.provision(uuid, "service", service_steps=[again])
    node = room.cluster.wait_state(uuid, "active", "service failed")
    assert node["provision_state"] == "active", node["last_error"]
    assert volumes(node) == [("RAID.2", "system", "1", 20, True)]
    assert len(room.sandbox.get(f"/machines/{name}")["raid_volumes"]) == 1


def test_raid_jobs_that_fail_say_what_the_bmc_says(room: Room) -> None:
    uuid, name = room.enroll()
    room.raid(uuid, SYSTEM, DATA)
    room.sandbox.faults(name, raid_complaint="the battery is empty")
    node = room.clean(uuid, CREATE)
    assert node["provision_state"] == "clean failed"
    assert "failed: the battery is empty" in node["last_error"]
    wait_until(
        lambda: "raid_configs" not in room.cluster.node(uuid)["driver_internal_info"],
        "what came of the volumes is looked up",
    )
    assert volumes(room.cluster.node(uuid)) == []


@pytest.mark.parametrize(
    ("disks", "said"),
    [
        ([{"raid_level": "5", "size_gb": "MAX"}], "size MAX needs physical_disks"),
        ([SYSTEM, {**SYSTEM, "volume_name": "other"}], "2 root volumes"),
        (
            [
                {**DATA, "share_physical_disks": True},
                {**DATA, "share_physical_disks": True, "volume_name": "more"},
            ],
            "both want all of disk Disk.0",
        ),
        ([{**DATA, "physical_disks": []}], "RAID 5 cannot be made of 0 disks"),
        ([{"raid_level": "0", "size_gb": 1, "number_of_physical_disks": 0}], "minimum of 1"),
        ([{"raid_level": "JBOD", "size_gb": 1}], "RAID level JBOD is not one of"),
    ],
)
def test_raid_targets_that_cannot_be_are_refused(
    room: Room, disks: list[dict[str, Any]], said: str
) -> None:
    machine = room.sandbox.machines()[0]
    node = room.sandbox.enroll(room.cluster, {**machine, "name": None, "macs": []})
    assert said in room.raid(node["uuid"], *disks, expect=400)
    room.cluster.send("DELETE", f"/v1/nodes/{node['uuid']}", expect=204)


def test_a_raid_target_that_does_not_fit_the_machine_says_what_the_machine_has(
    room: Room,
) -> None:
    uuid, name = room.enroll()
    # The last controller has disks, and shows no volumes.
    room.raid(uuid, {**SYSTEM, "controller": "RAID.3"})
    node = room.clean(uuid, CREATE)
    assert node["provision_state"] == "clean failed"
    assert "no RAID controller RAID.3 with disks; there is RAID.1, RAID.2" in node["last_error"]
    assert room.counts(name, "bmc.raid.create") == 0


OPERATIONS = {
    "bios": (COUNTER, 0),
    "firmware": (firmware(("bios", "bios-2.0.bin")), 1),
    "images": (images({"url": "http://127.0.0.1/bios-2.0.bin", "checksum": "0" * 64}), 1),
    "raid": (CREATE, 1),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_survives_the_death_of_the_conductor(room: Room, operation: str) -> None:
    """It dies while the machine is in the self-test that the operation needs."""
    cluster, (step, boots) = room.cluster, OPERATIONS[operation]
    uuid, name = room.enroll()
    room.raid(uuid, SYSTEM)
    # The machine boots the ramdisk first if the step needs one.
    room.sandbox.faults(name, boot_held=boots)
    before = room.counts(name, "machine.boots")
    cluster.provision(uuid, "clean", clean_steps=[step])
    wait_until(
        lambda: room.counts(name, "machine.boots") == before + boots + 1,
        "the machine boots for the operation",
    )
    cluster.wait_state(uuid, "clean wait", "clean failed")
    cluster.processes["all-in-one"].kill()
    room.sandbox.faults(name, boot_held=None)

    cluster.start_all_in_one()
    node = cluster.wait_state(uuid, "manageable", "clean failed")
    assert node["provision_state"] == "manageable", node["last_error"]
    assert room.counts(name, "machine.boots") == before + boots + 1
    if operation == "bios":
        assert room.setting(uuid, "SandboxCounter")["value"] == "7"
    elif operation in ("firmware", "images"):
        assert room.versions(uuid)["bios"] == "2.0"
    else:
        assert volumes(node) == [("RAID.2", "system", "1", 50, True)]
        assert room.counts(name, "bmc.raid.create") == 1
