"""The unmodified ``baremetal`` program: what it makes machines do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.client import Baremetal
from tests.harness.cluster import Cluster, Sandbox
from tests.harness.servers import wait_until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),
]

INTERFACES = {
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
}
NOWHERE = "f0000000-0000-4000-8000-000000000001"


def wait_power(cluster: Cluster, name: str, wanted: str) -> None:
    def there() -> bool:
        node = cluster.node(name)
        return node["power_state"] == wanted and node["reservation"] is None

    wait_until(there, f"{name} is in {wanted}")


def test_node_validate(cli: Baremetal) -> None:
    cli.create("n1")
    rows = {row["Interface"]: row["Result"] for row in cli.json("node validate n1")}
    assert set(rows.values()) == {True}
    assert set(rows) == INTERFACES - {"vendor"}
    cli("node create --driver redfish --name n2")
    rows = {row["Interface"]: row for row in cli.json("node validate n2")}
    assert rows["power"]["Result"] is False
    assert "redfish_address" in rows["power"]["Reason"]
    assert rows["network"] == {"Interface": "network", "Result": True, "Reason": ""}
    assert rows["bios"]["Result"] is False
    assert "bios" in rows["bios"]["Reason"]


def test_the_life_of_a_node(cli: Baremetal, cluster: Cluster) -> None:
    cli.create("n1")

    def act(command: str, wanted: str) -> None:
        cli(command)
        assert cluster.wait_state("n1", wanted)["last_error"] is None

    act("node manage n1", "manageable")
    act("node inspect n1", "manageable")
    assert cli.state("n1", "inspection_finished_at") != [None]
    settings = [{"name": "turbo", "value": "on"}]
    step = {"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}
    act(f"node clean n1 --clean-steps '{json.dumps([step])}'", "manageable")
    assert cli.values("node bios setting list n1") == ["turbo on"]
    assert cli.json("node bios setting show n1 turbo")["value"] == "on"
    assert "(HTTP 404)" in cli.refused("node bios setting show n1 other")
    act("node provide n1", "available")

    step = {"interface": "deploy", "step": "power_on", "args": {}, "priority": 50}
    steps = json.dumps([step])
    drive = {"meta_data": {"name": "n1"}, "user_data": {"a": "b"}, "vendor_data": {}}
    act(
        f"node deploy n1 --config-drive '{json.dumps(drive)}' --deploy-steps '{steps}'",
        "active",
    )
    assert cli.state("n1", "instance_info") == [{"configdrive": "******"}]
    cli("node set n1 --protected --protected-reason precious")
    assert "(HTTP 403)" in cli.refused("node undeploy n1")
    assert "(HTTP 403)" in cli.refused("node rebuild n1")
    cli("node unset n1 --protected")
    assert cli.state("n1", "protected", "protected_reason") == [False, None]
    act("node rebuild n1", "active")
    act("node rescue n1 --rescue-password secret", "rescue")
    act("node unrescue n1", "active")
    step = {"interface": "vendor", "step": "log_passthrough"}
    act(f"node service n1 --service-steps '{json.dumps([step])}'", "active")
    act("node undeploy n1", "available")
    act("node manage n1", "manageable")
    act("node adopt n1", "active")


def test_holds_end_by_unhold_or_abort(cli: Baremetal, cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cli.create(name)
        cluster.manage(name)
    steps = json.dumps(
        [
            {"interface": "deploy", "step": "hold"},
            {"interface": "bios", "step": "factory_reset"},
        ]
    )
    cli(f"node clean n1 n2 --clean-steps '{steps}'")
    for name in ("n1", "n2"):
        cluster.wait_state(name, "clean hold")
    assert "(HTTP 409)" in cli.refused("node set n1 --driver redfish")
    assert "(HTTP 400)" in cli.refused("node provide n1")
    cli("node abort n2")
    assert "abort" in cluster.wait_state("n2", "clean failed")["last_error"].lower()
    cli("node unhold n1")
    cluster.wait_state("n1", "manageable")


def test_verbs_that_the_state_does_not_allow(cli: Baremetal) -> None:
    cli.create("n1")
    for command in (
        "provide n1",
        "inspect n1",
        "deploy n1",
        "undeploy n1",
        "rebuild n1",
        "abort n1",
        "adopt n1",
        "unhold n1",
        "unrescue n1",
        "rescue n1 --rescue-password x",
        """clean n1 --clean-steps '[{"interface": "deploy", "step": "erase_devices"}]'""",
    ):
        assert "(HTTP 400)" in cli.refused(f"node {command}"), command
    assert cli.state("n1") == "enroll"


# History, hardware


def test_node_history(cli: Baremetal, cluster: Cluster) -> None:
    cli.create("n1")
    assert cli.json("node history list n1") == []
    cluster.provide("n1")
    cli("node boot mode set n1 uefi")  # the fake machine has no boot mode

    def failures() -> list[dict[str, Any]]:
        return [row for row in cli.json("node history list n1 --long") if row["severity"] != "INFO"]

    wait_until(failures, "the failure is recorded")
    [failure] = failures()
    assert failure["conductor"] == "all-in-one"
    assert failure["state"] == "available"
    assert failure["event"] == cli.state("n1", "last_error")[0]
    short = cli.json("node history list n1")
    assert [row["severity"] for row in short] == ["INFO", "INFO", "ERROR"]
    assert set(short[-1]) == {"uuid", "created_at", "severity", "event"}
    shown = cli.json(f"node history get n1 {failure['uuid']}")
    assert {name: shown[name] for name in failure} == failure
    assert "(HTTP 404)" in cli.refused(f"node history get n1 {NOWHERE}")


def test_power_of_fake_nodes(cli: Baremetal, cluster: Cluster) -> None:
    for name in ("n1", "n2"):
        cli.create(name)
    for command, wanted in {
        "power on n1 n2": "power on",
        "reboot n1 n2": "power on",
        "reboot n1 n2 --soft --power-timeout 5": "power on",
        "power off n1 n2 --soft --power-timeout 5": "power off",
        "power off n1 n2": "power off",
    }.items():
        cli(f"node {command}")
        for name in ("n1", "n2"):
            wait_power(cluster, name, wanted)
    cli("node set n1 --disable-power-off")
    assert "(HTTP 409)" in cli.refused("node power off n1")


def test_console_of_a_fake_node(cli: Baremetal, cluster: Cluster) -> None:
    cli.create("n1")
    assert cli.json("node console show n1")["console_enabled"] is False
    cli("node console enable n1")
    wait_until(lambda: cluster.node("n1")["console_enabled"], "the console is on")
    assert cli.json("node console show n1")["console_enabled"] is True
    cli("node console disable n1")
    wait_until(lambda: not cluster.node("n1")["console_enabled"], "the console is off")
    cli("node set n1 --console-interface no-console")
    assert "(HTTP 400)" in cli.refused("node console enable n1")


def test_vendor_methods_of_a_fake_node(cli: Baremetal, cluster: Cluster) -> None:
    cli.create("n1")
    methods = {row["Name"]: row for row in cli.json("node passthru list n1")}
    assert methods["second_method"]["Async"] is True
    assert methods["third_method_sync"]["Async"] is False
    assert methods["third_method_sync"]["Supported HTTP methods"] == "POST"
    cli("node passthru call n1 second_method --arg bar=kazoo")
    cluster.wait_state("n1", "enroll")
    assert "'bar'" in cli.refused("node passthru call n1 second_method --arg foo=kazoo")
    assert "third_method_sync" in cli.refused("node passthru call n1 nope")
    assert "(HTTP 400)" in cli.refused(
        "node passthru call n1 third_method_sync --arg bar=meow --http-method DELETE"
    )
    cli("node set n1 --vendor-interface no-vendor")
    assert "(HTTP 400)" in cli.refused("node passthru list n1")


def test_management_of_a_fake_node(cli: Baremetal) -> None:
    cli.create("n1")
    assert cli.json("node boot device show n1") == {"boot_device": "pxe", "persistent": False}
    assert cli.json("node boot device show n1 --supported") == {"supported_boot_devices": "pxe"}
    cli("node boot device set n1 pxe --persistent")
    assert "(HTTP 400)" in cli.refused("node boot device set n1 cdrom")
    assert "(HTTP 400)" in cli.refused("node inject nmi n1")
    assert cli.json("node firmware list n1") == []
    assert "(HTTP 404)" in cli.refused("node inventory save n1")


def test_a_redfish_machine(
    cli: Baremetal, cluster: Cluster, sandbox: Sandbox, tmp_path: Path
) -> None:
    [machine] = sandbox.machines()
    body = sandbox.node(machine)
    info = " ".join(f"--driver-info {key}={value}" for key, value in body["driver_info"].items())
    cli(f"node create --driver redfish --name r1 {info}")
    assert all(row["Result"] for row in cli.json("node validate r1") if row["Interface"] == "power")
    cli("node manage r1")
    assert cluster.wait_state("r1", "manageable")["power_state"] == "power off"

    for command, wanted in {"on": "power on", "off --power-timeout 30": "power off"}.items():
        cli(f"node power {command} r1")
        wait_power(cluster, "r1", wanted)
        [now] = sandbox.machines()
        assert now["power"].lower() == wanted.removeprefix("power ")

    supported = cli.json("node boot device show r1 --supported")["supported_boot_devices"]
    assert {"pxe", "disk", "cdrom"} <= set(supported.split(", "))
    cli("node boot device set r1 cdrom --persistent")
    assert cli.json("node boot device show r1") == {"boot_device": "cdrom", "persistent": True}
    cli("node boot mode set r1 uefi")
    wait_until(lambda: cluster.node("r1")["boot_mode"] == "uefi", "the boot mode is known")

    cli("node inspect r1")
    inspected = cluster.wait_state("r1", "manageable")
    assert inspected["last_error"] is None
    assert {"cpus", "memory_mb", "cpu_arch"} <= set(inspected["properties"])
    file = tmp_path / "inventory.json"
    cli(f"node inventory save r1 --file {file}")
    assert set(json.loads(file.read_text())) == {"inventory", "plugin_data"}
    found = {mac.lower() for mac in cli.values("port list --node r1 -c address")}
    assert found == {mac.lower() for mac in machine["macs"]}
