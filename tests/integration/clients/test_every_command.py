"""Every command of the unmodified ``baremetal`` program, at least once.

The commands are the program's own entry points: one that no line below starts with
fails the test of its name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from tests.harness.client import Baremetal
from tests.harness.cluster import Cluster, Sandbox
from tests.harness.servers import wait_until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),
]

COMMANDS = sorted(
    entry.name.removeprefix("baremetal_").replace("_", " ")
    for entry in metadata.entry_points(group="openstack.baremetal.v1")
)

CHASSIS = "a0000000-0000-4000-8000-000000000001"
NODE = "b0000000-0000-4000-8000-000000000001"
PORT = "c0000000-0000-4000-8000-000000000001"
GROUP = "c0000000-0000-4000-8000-000000000002"
VIF = "d0000000-0000-4000-8000-000000000001"
CONNECTOR = "e0000000-0000-4000-8000-000000000001"
TARGET = "e0000000-0000-4000-8000-000000000002"
RULE = "f0000000-0000-4000-8000-000000000001"

STEP = json.dumps([{"interface": "bios", "step": "factory_reset", "args": {}}])
ORDERED = json.dumps([{"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}])
HOLD = json.dumps([{"interface": "deploy", "step": "hold"}])
PASS_ON = json.dumps([{"interface": "vendor", "step": "log_passthrough"}])
DEPLOY_STEP = json.dumps([{"interface": "deploy", "step": "power_on", "args": {}, "priority": 50}])
ACTIONS = json.dumps([{"op": "set-attribute", "args": {"path": "/extra/rack", "value": "r1"}}])
SETTINGS = json.dumps(
    [
        {
            "interface": "bios",
            "step": "apply_configuration",
            "args": {"settings": [{"name": "turbo", "value": "on"}]},
        }
    ]
)


@dataclass(frozen=True)
class Line:
    """A command line, and what it must do.

    :param shows: text of the output.
    :param refused: text of the error output of a command that must fail.
    :param state: provision state that the node gets.
    """

    command: str
    shows: str = ""
    refused: str = ""
    state: str = ""


CREATE = Line(f"node create --driver fake-hardware --name n1 --uuid {NODE} --shard s1", "enroll")
MANAGE = Line("node manage n1", state="manageable")
PROVIDE = Line("node provide n1", state="available")
DELETE = Line("node delete n1", "Deleted node n1")

LINES = {
    "records of a node": [
        Line(f"chassis create --uuid {CHASSIS} --description rack", CHASSIS),
        CREATE,
        Line("node list --long", NODE),
        Line("shard list", "s1"),
        Line(f"node set n1 --chassis-uuid {CHASSIS} --extra a=b --resource-class gold"),
        Line("node show n1 --fields extra", "{'a': 'b'}"),
        Line("node unset n1 --extra a --chassis-uuid"),
        Line("node create --driver fake-hardware --name child --parent-node n1", NODE),
        Line("node children list n1"),
        Line("node delete child"),
        Line("node trait add n1 CUSTOM_A CUSTOM_B", "Added trait CUSTOM_A"),
        Line("node add trait n1 CUSTOM_C", "Added trait CUSTOM_C"),
        Line("node trait list n1", "CUSTOM_B"),
        Line("node trait remove n1 CUSTOM_A", "Removed trait CUSTOM_A"),
        Line("node remove trait n1 --all"),
        Line("node maintenance set n1 --reason fan"),
        Line("node maintenance unset n1"),
        Line("node validate n1", "management"),
        DELETE,
        Line(f"chassis set {CHASSIS} --extra a=b"),
        Line(f"chassis unset {CHASSIS} --extra a"),
        Line(f"chassis show {CHASSIS}", "rack"),
        Line("chassis list", "rack"),
        Line(f"chassis delete {CHASSIS}", "Deleted chassis"),
        Line("create {file}"),
        Line("node show made", "made"),
        Line("node delete made"),
    ],
    "life": [
        CREATE,
        MANAGE,
        Line("node inspect n1", state="manageable"),
        Line("node adopt n1", state="active"),
        Line("node undeploy n1", state="available"),
        MANAGE,
        Line(f"node clean n1 --clean-steps '{SETTINGS}'", state="manageable"),
        Line("node bios setting list n1", "turbo"),
        Line("node bios setting show n1 turbo", "on"),
        Line(f"node clean n1 --clean-steps '{HOLD}'", state="clean hold"),
        Line("node unhold n1", state="manageable"),
        Line(f"node clean n1 --clean-steps '{HOLD}'", state="clean hold"),
        Line("node abort n1", state="clean failed"),
        MANAGE,
        Line("node maintenance unset n1"),
        PROVIDE,
        Line("node deploy n1", state="active"),
        Line("node rebuild n1", state="active"),
        Line("node rescue n1 --rescue-password secret", state="rescue"),
        Line("node unrescue n1", state="active"),
        Line(f"node service n1 --service-steps '{PASS_ON}'", state="active"),
        Line("node history list n1", "INFO"),
        Line("node history get n1 {event}", "event"),
        Line("node undeploy n1", state="available"),
        DELETE,
    ],
    "machine": [
        CREATE,
        Line("node power on n1"),
        Line("node reboot n1"),
        Line("node power off n1"),
        Line("node boot device set n1 pxe"),
        Line("node boot device show n1", "pxe"),
        Line("node console enable n1"),
        Line("node console show n1", "console_enabled"),
        Line("node console disable n1"),
        Line("node firmware list n1"),
        Line("node passthru list n1", "third_method_sync"),
        Line("node passthru call n1 second_method --arg bar=kazoo"),
        Line("node inject nmi n1", refused="(HTTP 400)"),
        Line("node secure boot on n1"),
        Line("node secure boot off n1"),
        DELETE,
    ],
    "machine with a BMC": [
        Line("node create --driver redfish --name r1 {driver_info}"),
        Line("node manage r1 --wait 60"),
        Line("node boot mode set r1 uefi"),
        Line("node inspect r1 --wait 60"),
        Line("node inventory save r1 --file {inventory}"),
        Line("node delete r1"),
    ],
    "networks": [
        CREATE,
        Line(f"port group create --node {NODE} --uuid {GROUP} --name g1", GROUP),
        Line("port group set g1 --mode 802.3ad --extra a=b"),
        Line("port group show g1", "802.3ad"),
        Line("port group list", "g1"),
        Line("port group unset g1 --extra a"),
        Line(f"port create 52:54:00:aa:bb:01 --node {NODE} --uuid {PORT}", PORT),
        Line(f"port set {PORT} --physical-network net1 --extra a=b"),
        Line(f"port show {PORT}", "net1"),
        Line("port list --node n1", PORT),
        Line(f"port unset {PORT} --extra a"),
        Line(f"node vif attach n1 {VIF}"),
        Line("node vif list n1"),
        Line(f"node vif detach n1 {VIF}"),
        Line(f"port delete {PORT}", "Deleted port"),
        Line("port group delete g1", "Deleted port group"),
        DELETE,
    ],
    "volumes": [
        CREATE,
        Line("node power off n1"),
        Line(
            f"volume connector create --node {NODE} --type iqn --connector-id iqn.2025-01:a "
            f"--uuid {CONNECTOR}",
            CONNECTOR,
        ),
        Line(f"volume connector set {CONNECTOR} --connector-id iqn.2025-01:b --extra a=b"),
        Line(f"volume connector show {CONNECTOR}", "iqn.2025-01:b"),
        Line("volume connector list", CONNECTOR),
        Line(f"volume connector unset {CONNECTOR} --extra a"),
        Line(
            f"volume target create --node {NODE} --type iscsi --boot-index 0 --volume-id v1 "
            f"--uuid {TARGET}",
            TARGET,
        ),
        Line(f"volume target set {TARGET} --volume-id v2 --extra a=b"),
        Line(f"volume target show {TARGET}", "v2"),
        Line("volume target list", TARGET),
        Line(f"volume target unset {TARGET} --extra a"),
        Line(f"volume connector delete {CONNECTOR}", "Deleted volume connector"),
        Line(f"volume target delete {TARGET}", "Deleted volume target"),
        DELETE,
    ],
    "allocations": [
        CREATE,
        MANAGE,
        PROVIDE,
        Line("node power off n1"),
        Line("node set n1 --resource-class gold"),
        Line("allocation create --name a1 --resource-class gold --wait 60", "active"),
        Line("allocation list", "a1"),
        Line("allocation set a1 --extra a=b"),
        Line("allocation show a1", NODE),
        Line("allocation unset a1 --extra a"),
        Line("allocation delete a1", "Deleted allocation a1"),
        DELETE,
    ],
    "templates, runbooks, rules": [
        Line(f"deploy template create CUSTOM_T --steps '{DEPLOY_STEP}'", "CUSTOM_T"),
        Line("deploy template set CUSTOM_T --extra a=b"),
        Line("deploy template show CUSTOM_T", "power_on"),
        Line("deploy template list", "CUSTOM_T"),
        Line("deploy template unset CUSTOM_T --extra a"),
        Line("deploy template delete CUSTOM_T", "Deleted deploy template CUSTOM_T"),
        Line(f"runbook create --name CUSTOM_R --steps '{ORDERED}'", "CUSTOM_R"),
        Line("runbook set CUSTOM_R --extra a=b"),
        Line("runbook show CUSTOM_R", "factory_reset"),
        Line("runbook list", "CUSTOM_R"),
        Line("runbook trait add CUSTOM_R CUSTOM_A", "CUSTOM_A"),
        Line("runbook trait list CUSTOM_R", "CUSTOM_A"),
        Line("runbook trait remove CUSTOM_R CUSTOM_A", "CUSTOM_A"),
        Line("runbook unset CUSTOM_R --extra a"),
        Line("runbook delete CUSTOM_R", "Deleted runbook CUSTOM_R"),
        Line(f"inspection rule create --uuid {RULE} --actions '{ACTIONS}'", RULE),
        Line(f"inspection rule set {RULE} --description text"),
        Line(f"inspection rule show {RULE}", "text"),
        Line("inspection rule list", RULE),
        Line(f"inspection rule unset {RULE} --description"),
        Line(f"inspection rule delete {RULE}", "Deleted"),
    ],
    "service": [
        Line("conductor list", "all-in-one"),
        Line("conductor show all-in-one", "redfish"),
        Line("driver list", "fake-hardware"),
        Line("driver show fake-hardware", "default_power_interface"),
        Line("driver property list redfish", "redfish_address"),
        Line("driver raid property list fake-hardware", "raid_level"),
        Line("driver passthru list fake-hardware"),
        Line("driver passthru call fake-hardware nope", refused="(HTTP 400)"),
    ],
}


def command_of(line: Line) -> str:
    """The longest command that the line starts with."""
    words = f"{line.command} "
    return max((name for name in COMMANDS if words.startswith(f"{name} ")), key=len)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_line_has_the_command(command: str) -> None:
    assert command in {command_of(line) for lines in LINES.values() for line in lines}


@pytest.mark.parametrize("subject", LINES)
def test_the_lines_do_what_they_should(
    cli: Baremetal, cluster: Cluster, sandbox: Sandbox, tmp_path: Path, subject: str
) -> None:
    [machine] = sandbox.machines()
    info = sandbox.node(machine)["driver_info"]
    resources = tmp_path / "resources.json"
    resources.write_text(json.dumps({"nodes": [{"driver": "fake-hardware", "name": "made"}]}))
    known = {
        "{file}": str(resources),
        "{inventory}": str(tmp_path / "inventory.json"),
        "{driver_info}": " ".join(f"--driver-info {key}={info[key]}" for key in info),
    }
    for line in LINES[subject]:
        command = line.command
        if "{event}" in command:
            known["{event}"] = cluster.get("/v1/nodes/n1/history")["history"][0]["uuid"]
        for name, value in known.items():
            command = command.replace(name, value)
        if line.refused:
            assert line.refused in cli.refused(command), command
        else:
            assert line.shows in cli(command), command
        wait_until(lambda: unlocked(cluster), f"the locks are free after {command}")
        if line.state:
            cluster.wait_state("n1", line.state)


def unlocked(cluster: Cluster) -> bool:
    rows = cluster.get("/v1/nodes", fields="reservation", include_children=True)["nodes"]
    return all(row["reservation"] is None for row in rows)
