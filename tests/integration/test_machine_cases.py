"""Cases of operators on simulated machines: K03/21, K03/25, K05/40, K05/42, K05/43 and K12/86.

One process with SQLite, and BMCs and agents that speak over the network and fail on
demand (field-cases.md).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(600)

RESET = "^POST .*ComputerSystem.Reset$"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running(Sandbox(tmp_path_factory.mktemp("sandbox"), 3)) as fleet:
        fleet.start()
        yield fleet


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("service")
    options = sandbox.options()
    options["DEFAULT"] = {
        "enabled_boot_interfaces": "redfish-virtual-media,ipxe",
        "enabled_deploy_interfaces": "direct,ramdisk",
        "enabled_hardware_types": "redfish",
    }
    options["pxe"] = {"tftp_root": folder / "tftpboot"}
    options["conductor"] |= {
        "sync_power_state_interval": 1,
        "power_failure_recovery_interval": 1,
        "automated_clean": False,
        "clean_callback_timeout": 12,
    }
    options["redfish"] = {
        "power_on_conflict_retry_attempts": 2,
        "power_on_conflict_retry_interval": 1,
        "connection_attempts": 1,
        "connection_retry_interval": 1,
    }
    database = f"sqlite:///{folder}/ironic.sqlite"
    with running(Cluster(folder, database, "fake://", options)) as made:
        made.migrate()
        shutil.copy(folder / "ironic.sqlite", folder / "empty.sqlite")
        made.start_all_in_one()
        yield made


@pytest.fixture
def machine(cluster: Cluster, sandbox: Sandbox) -> Iterator[dict[str, Any]]:
    """The first machine, healthy and not enrolled, before and after."""
    found = sandbox.machines()[0]
    yield found
    sandbox.heal()
    for node in cluster.get("/v1/nodes")["nodes"]:
        path = f"/v1/nodes/{node['uuid']}"
        wait_until(lambda p=path: cluster.get(p)["reservation"] is None, "the lock is free")
        cluster.send("PUT", f"{path}/maintenance", expect=202)
        cluster.send("DELETE", path, expect=204)


def requests_of(sandbox: Sandbox, machine: dict[str, Any]) -> dict[str, int]:
    """What the machine's BMC was asked to change, so far."""
    paths = sandbox.get(f"/machines/{machine['name']}/counters")["bmc_paths"]
    return {path: n for path, n in paths.items() if path.startswith(("POST", "PATCH"))}


def adopted(cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]) -> str:
    """A machine in use."""
    uuid = str(sandbox.enroll(cluster, machine)["uuid"])
    cluster.manage(uuid)
    cluster.provision(uuid, "adopt")
    cluster.wait_state(uuid, "active")
    return uuid


def power(cluster: Cluster, uuid: str, target: str) -> dict[str, Any]:
    cluster.send("PUT", f"/v1/nodes/{uuid}/states/power", {"target": target}, expect=202)

    def over() -> dict[str, Any] | None:
        node = cluster.node(uuid)
        return node if (node["target_power_state"], node["reservation"]) == (None, None) else None

    found = wait_until(over, f"{target} is over")
    assert isinstance(found, dict)
    return found


# K05/40: power-on refused just after power-off


def test_40_refusals_after_power_off_are_retried(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    uuid = adopted(cluster, sandbox, machine)
    power(cluster, uuid, "power off")
    refusal = {
        "bmc_status": 409,
        "bmc_message_id": "ActionParameterValueConflict",
        "bmc_only": RESET,
    }
    sandbox.faults(machine["name"], **refusal, bmc_times=2)
    node = power(cluster, uuid, "power on")
    assert (node["power_state"], node["last_error"]) == ("power on", None)

    power(cluster, uuid, "power off")
    sandbox.faults(machine["name"], **refusal, bmc_times=None)
    # Power sync, which runs each second here, leaves it alone until it has been looked at.
    cluster.send("PUT", f"/v1/nodes/{uuid}/maintenance", {"reason": "a look"}, 202)
    node = power(cluster, uuid, "power on")
    assert "ActionParameterValueConflict" in node["last_error"], "the BMC is quoted"
    assert node["power_state"] == "power off"
    cluster.send("DELETE", f"/v1/nodes/{uuid}/maintenance", None, 202)

    # K05/43: the text goes when the state is as it should be; the history keeps it.
    sandbox.heal()
    wait_until(lambda: cluster.node(uuid)["last_error"] is None, "the error is cleared")
    events = cluster.get(f"/v1/nodes/{uuid}/history", detail=True)["history"]
    assert any("ActionParameterValueConflict" in event["event"] for event in events)


@pytest.mark.parametrize("status", [400, 409])
def test_40_a_refusal_in_the_wanted_state_is_success(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any], status: int
) -> None:
    uuid = adopted(cluster, sandbox, machine)
    power(cluster, uuid, "power on")
    sandbox.faults(machine["name"], bmc_status=status, bmc_only=RESET)
    node = power(cluster, uuid, "power on")
    assert (node["power_state"], node["last_error"]) == ("power on", None)


# K05/42: automatic maintenance and its end


@pytest.mark.parametrize("how", ["bmc_drop", "credentials"])
def test_42_a_lost_bmc_is_a_fault_until_it_is_back(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any], how: str
) -> None:
    uuid = adopted(cluster, sandbox, machine)
    path = "/driver_info/redfish_password"
    secret = machine["bmc"]["password"]

    def rotate(value: str) -> None:
        change = [{"op": "replace", "path": path, "value": value}]
        wait_until(
            lambda: cluster.send("PATCH", f"/v1/nodes/{uuid}", change).status_code == 200,
            "the node is changed",
        )

    if how == "credentials":
        rotate("of yesterday")
    else:
        sandbox.faults(machine["name"], bmc_drop=True)
    wait_until(lambda: cluster.node(uuid)["fault"] == "power failure", "the fault is seen")
    lost = cluster.node(uuid)
    assert (lost["maintenance"], lost["provision_state"]) == (True, "active")
    assert lost["maintenance_reason"]
    if how == "credentials":
        rotate(secret)
    sandbox.heal()
    wait_until(lambda: not cluster.node(uuid)["maintenance"], "the node is well again")
    well = cluster.node(uuid)
    assert (well["fault"], well["maintenance_reason"], well["last_error"]) == (None, None, None)
    assert well["power_state"] in ("power on", "power off")


# K03/21: kill during a power operation


def test_21_a_kill_during_a_power_operation_leaves_nothing_pending(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    uuid = adopted(cluster, sandbox, machine)
    power(cluster, uuid, "power off")
    # The BMC answers 204, and nothing ever switches.
    sandbox.faults(machine["name"], power_stuck=True)
    cluster.send("PUT", f"/v1/nodes/{uuid}/states/power", {"target": "power on"}, expect=202)
    wait_until(
        lambda: (
            any("Reset" in path for path in requests_of(sandbox, machine))
            and cluster.node(uuid)["reservation"] is not None
        ),
        "the BMC was asked",
    )
    cluster.processes["all-in-one"].kill()
    cluster.start_all_in_one()
    wait_until(lambda: cluster.node(uuid)["reservation"] is None, "the lock is free", 60)
    node = cluster.node(uuid)
    assert node["target_power_state"] is None
    events = cluster.get(f"/v1/nodes/{uuid}/history", detail=True)["history"]
    told = [node["last_error"] or "", *(event["event"] for event in events)]
    assert any("abort" in text and "restart" in text for text in told), told
    change = [{"op": "add", "path": "/extra/a", "value": 1}]
    wait_until(
        lambda: cluster.send("PATCH", f"/v1/nodes/{uuid}", change).status_code == 200,
        "the node can be changed",
    )


# K03/25: adoption with no database


def described(cluster: Cluster, uuid: str) -> dict[str, Any]:
    """The node and its ports without the times."""
    node = cluster.node(uuid)
    ports = cluster.get("/v1/ports/detail", node=uuid)["ports"]
    mine = [*node.items(), *(item for port in ports for item in port.items())]
    return {
        f"{place} {key}": value
        for place, (key, value) in enumerate(mine)
        if not key.endswith("_at") and key not in ("driver_internal_info",)
    }


def body_of(sandbox: Sandbox, machine: dict[str, Any], uuid: str) -> dict[str, Any]:
    return {**sandbox.node(machine), "uuid": uuid, "properties": {"cpu_arch": "x86_64"}}


def create(cluster: Cluster, machine: dict[str, Any], body: dict[str, Any], *ports: str) -> str:
    uuid = str(body["uuid"])
    cluster.send("POST", "/v1/nodes", body, 201)
    for number, mac in enumerate(ports):
        port = {
            "node_uuid": uuid,
            "address": mac,
            "uuid": f"{number:08d}{uuid[8:]}",
        }
        cluster.send("POST", "/v1/ports", port, 201)
    cluster.manage(uuid)
    return uuid


UUID = "25252525-0000-4000-8000-000000000001"


def test_25_a_machine_is_adopted_again_after_the_database_is_gone(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    body = body_of(sandbox, machine, UUID)
    seen = []
    before = requests_of(sandbox, machine)
    shown = sandbox.get(f"/machines/{machine['name']}")
    for life in range(2):
        if life:
            # The database of a pod without a disk: gone with a kill, and made anew.
            cluster.processes["all-in-one"].kill()
            for file in cluster.folder.glob("ironic.sqlite*"):
                file.unlink()
            shutil.copy(cluster.folder / "empty.sqlite", cluster.folder / "ironic.sqlite")
            cluster.start_all_in_one()
        create(cluster, machine, body, *machine["macs"])
        cluster.provision(UUID, "adopt")
        cluster.wait_state(UUID, "active")
        wait_until(
            lambda: None not in (cluster.node(UUID)["boot_mode"], cluster.node(UUID)["health"]),
            "the BMC was read",
        )
        seen.append(described(cluster, UUID))
    assert seen[0] == seen[1]
    changes = {
        path: number - before.get(path, 0)
        for path, number in requests_of(sandbox, machine).items()
        if "Sessions" not in path
    }
    assert not any(changes.values()), "nothing touched the machine"
    again = sandbox.get(f"/machines/{machine['name']}")
    for key in ("power", "power_state", "disk"):
        assert again.get(key) == shown.get(key)


def test_25_adoption_ends_with_the_bmc_down(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    create(cluster, machine, body_of(sandbox, machine, UUID), *machine["macs"])
    sandbox.faults(machine["name"], bmc_drop=True)
    cluster.provision(UUID, "adopt")
    node = cluster.wait_state(UUID, "active", "adopt failed")
    sandbox.heal()
    if node["provision_state"] == "adopt failed":
        assert node["last_error"]
        cluster.provision(UUID, "adopt")
    cluster.wait_state(UUID, "active")


def adopt(cluster: Cluster) -> dict[str, Any]:
    cluster.provision(UUID, "adopt")
    return cluster.wait_state(UUID, "active", "adopt failed")


def test_25_what_the_boot_interface_misses_is_named_until_it_is_there(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    body = body_of(sandbox, machine, UUID)
    # An instance that is booted from the network needs its ports and images for that.
    body |= {"boot_interface": "ipxe", "deploy_interface": "ramdisk", "instance_info": {}}
    create(cluster, machine, body)
    before = requests_of(sandbox, machine)
    node = adopt(cluster)
    assert node["provision_state"] == "adopt failed"
    assert "it has no ports" in node["last_error"]
    assert UUID in node["last_error"]

    port = {"node_uuid": UUID, "address": machine["macs"][0], "pxe_enabled": False}
    made = cluster.send("POST", "/v1/ports", port, 201).json()["uuid"]
    node = adopt(cluster)
    assert node["provision_state"] == "adopt failed"
    assert "none of its ports has pxe_enabled" in node["last_error"]

    cluster.manage(UUID)
    change = [{"op": "replace", "path": "/pxe_enabled", "value": True}]
    cluster.send("PATCH", f"/v1/ports/{made}", change, 200)
    node = adopt(cluster)
    assert node["provision_state"] == "adopt failed", "its image is missing"
    assert "kernel" in node["last_error"]

    images = {name: f"file://{sandbox.files}/{name}" for name in ("kernel", "ramdisk")}
    change = [{"op": "add", "path": f"/instance_info/{k}", "value": v} for k, v in images.items()]
    cluster.send("PATCH", f"/v1/nodes/{UUID}", change, 200)
    node = adopt(cluster)
    assert (node["provision_state"], node["last_error"]) == ("active", None)
    after = requests_of(sandbox, machine)
    resets = {path for path in after if "Reset" in path and after[path] != before.get(path, 0)}
    assert not resets, "the power was not touched"


def test_25_a_machine_that_boots_from_its_disk_needs_no_port(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    create(cluster, machine, body_of(sandbox, machine, UUID) | {"boot_interface": "ipxe"})
    assert adopt(cluster)["provision_state"] == "active"
    port = {"node_uuid": UUID, "address": machine["macs"][0]}
    cluster.send("POST", "/v1/ports", port, 201)
    assert len(cluster.get("/v1/ports", node=UUID)["ports"]) == 1


# K12/86: mixed steps, and an agent that restarts


def test_86_steps_of_the_bmc_and_of_the_agent_in_turn(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    uuid = str(sandbox.enroll(cluster, machine)["uuid"])
    cluster.manage(uuid)
    before = requests_of(sandbox, machine)
    in_band = {"interface": "deploy", "step": "erase_devices_metadata"}
    plan = [
        in_band,
        {"interface": "power", "step": "reboot"},
        in_band,
        {"interface": "management", "step": "clear_secure_boot_keys"},
        in_band,
    ]
    cluster.provision(uuid, "clean", clean_steps=plan)
    node = cluster.wait_state(uuid, "manageable", "clean failed")
    assert node["provision_state"] == "manageable", node["last_error"]
    assert node["driver_internal_info"].get("cleaning_polling") is None
    after = requests_of(sandbox, machine)
    resets = {path: after[path] - before.get(path, 0) for path in after if "Reset" in path}
    assert sum(n for path, n in resets.items() if "ComputerSystem" in path) <= 6, resets


def test_86_an_agent_that_restarts_in_a_step_does_not_hang_the_flow(
    cluster: Cluster, sandbox: Sandbox, machine: dict[str, Any]
) -> None:
    uuid = str(sandbox.enroll(cluster, machine)["uuid"])
    cluster.manage(uuid)
    sandbox.faults(machine["name"], agent_restart_at="erase_devices_metadata")
    plan = [{"interface": "deploy", "step": "erase_devices_metadata"}]
    cluster.provision(uuid, "clean", clean_steps=plan)
    node = cluster.wait_state(uuid, "manageable", "clean failed")
    # As the real one it comes back with another certificate, which is refused.
    assert node["provision_state"] == "clean failed"
    assert "imeout" in node["last_error"]
