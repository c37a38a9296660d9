"""BIOS settings and firmware of simulated machines, through the API and periodic tasks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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

    def setting(self, uuid: str, name: str) -> dict[str, Any]:
        return dict(self.cluster.get(f"/v1/nodes/{uuid}/bios/{name}")[name])


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("room")
    with contextlib.ExitStack() as stack:
        sandbox = stack.enter_context(running(Sandbox(folder, 6)))
        sandbox.start()
        options = sandbox.options()
        options["DEFAULT"] = {"enabled_bios_interfaces": "redfish,no-bios"}
        options["DEFAULT"]["enabled_firmware_interfaces"] = "redfish,no-firmware"
        options["redfish"] = {
            "firmware_update_status_interval": 1,
            "firmware_update_nic_starting_wait": 0,
        }
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

    def versions() -> dict[str, str]:
        rows = room.cluster.get(f"/v1/nodes/{uuid}/firmware")["firmware"]
        return {row["component"]: row["current_version"] for row in rows}

    card = next(part for part in versions() if part.startswith("nic:"))
    assert set(versions().values()) == {"1.0.0"}
    step = firmware(("bmc", "bmc-2.0.bin"), ("bios", "bios-3.0.bin"), (card, "nic-4.0.bin"))
    node = room.clean(uuid, step, ramdisk=True)
    assert node["provision_state"] == "manageable", node["last_error"]
    assert versions() == {"bmc": "2.0", "bios": "3.0", card: "4.0"}
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


def test_bios_settings_survive_the_death_of_the_conductor(room: Room) -> None:
    cluster = room.cluster
    room.options["redfish"]["firmware_update_status_interval"] = 0
    cluster.processes["all-in-one"].kill()
    cluster.start_all_in_one()
    uuid, _name = room.enroll()
    cluster.provision(uuid, "clean", clean_steps=[COUNTER])
    cluster.wait_state(uuid, "clean wait", "clean failed")
    wait_until(lambda: cluster.node(uuid)["reservation"] is None, "the lock is free")
    cluster.processes["all-in-one"].kill()

    room.options["redfish"]["firmware_update_status_interval"] = 1
    cluster.start_all_in_one()
    node = cluster.wait_state(uuid, "manageable", "clean failed")
    assert node["provision_state"] == "manageable", node["last_error"]
    assert room.setting(uuid, "SandboxCounter")["value"] == "7"
