"""The unmodified ``baremetal`` program: templates, runbooks, rules, shards, parts of nodes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.harness.client import Baremetal
from tests.harness.cluster import Cluster, Sandbox

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:Support for InfluxDB"),
]

UUID = "a0000000-0000-4000-8000-000000000001"
NOWHERE = "f0000000-0000-4000-8000-000000000001"
DEPLOY_STEPS = [
    {"interface": "bios", "step": "apply_configuration", "args": {"settings": []}, "priority": 150}
]
STEPS = [
    {"interface": "power", "step": "power_on", "args": {}, "order": 1},
    {"interface": "vendor", "step": "log_passthrough", "args": {"password": "canary"}, "order": 2},
]
ACTIONS = [{"op": "set-attribute", "args": {"path": "/extra/by", "value": "{node.driver}"}}]
CONDITIONS = [{"op": "!is-empty", "args": {"value": "{inventory[cpu][count]}"}}]


def text(value: object) -> str:
    """A JSON value as an argument of a command line."""
    return f"'{json.dumps(value)}'"


def test_deploy_templates(cli: Baremetal, tmp_path: Path) -> None:
    file = tmp_path / "steps.json"
    file.write_text(json.dumps(DEPLOY_STEPS))
    made = cli.json(
        f"deploy template create CUSTOM_A --uuid {UUID} --steps {file} --extra a=1 --extra b=c"
    )
    assert (made["name"], made["uuid"], made["steps"]) == ("CUSTOM_A", UUID, DEPLOY_STEPS)
    assert made["extra"] == {"a": 1, "b": "c"}
    assert cli.json("deploy template list") == [{"uuid": UUID, "name": "CUSTOM_A"}]
    [long] = cli.json("deploy template list --long --limit 1 --sort name:desc")
    assert long == cli.json("deploy template show CUSTOM_A")
    assert cli.json(f"deploy template show {UUID} --fields name steps") == {
        "name": "CUSTOM_A",
        "steps": DEPLOY_STEPS,
    }
    steps = [{**DEPLOY_STEPS[0], "priority": 0}]
    cli(f"deploy template set CUSTOM_A --name CUSTOM_B --steps {text(steps)} --extra d=e")
    cli("deploy template unset CUSTOM_B --extra a --extra b")
    shown = cli.json("deploy template show CUSTOM_B")
    assert (shown["steps"], shown["extra"]) == (steps, {"d": "e"})
    assert "(HTTP 404)" in cli.refused("deploy template show CUSTOM_A")
    assert "(HTTP 400)" in cli.refused(f"deploy template create lower --steps {text(steps)}")
    assert "(HTTP 409)" in cli.refused(f"deploy template create CUSTOM_B --steps {text(steps)}")
    assert "(HTTP 400)" in cli.refused("deploy template create CUSTOM_C --steps '[{}]'")
    assert "Deleted deploy template CUSTOM_B" in cli("deploy template delete CUSTOM_B")
    assert "(HTTP 404)" in cli.refused("deploy template delete CUSTOM_B")


def test_a_deploy_template_is_used_by_the_trait_of_an_instance(
    cli: Baremetal, cluster: Cluster
) -> None:
    cli(f"deploy template create CUSTOM_A --steps {text(DEPLOY_STEPS)}")
    cli.create("n1")
    cluster.provide("n1")
    cli("node trait add n1 CUSTOM_A")
    cli("""node set n1 --instance-info 'traits=["CUSTOM_A"]'""")
    cli("node deploy n1 --wait 60")
    assert cli.state("n1") == "active"


def test_runbooks(cli: Baremetal) -> None:
    made = cli.json(
        f"runbook create --name rb --uuid {UUID} --description text --steps {text(STEPS)} "
        "--extra a=1 --disable-ramdisk"
    )
    assert (made["name"], made["uuid"], made["description"]) == ("rb", UUID, "text")
    assert (made["disable_ramdisk"], made["public"], made["owner"]) == (True, False, None)
    assert made["steps"][1]["args"] == {"password": "******"}
    assert cli.json("runbook list") == [{"uuid": UUID, "name": "rb"}]
    [long] = cli.json("runbook list --long --limit 1 --sort name:asc")
    shown = cli.json("runbook show rb")
    assert shown.items() >= long.items()
    assert set(cli.json(f"runbook show {UUID} --fields name traits")) == {"name", "traits"}

    cli("runbook trait add rb CUSTOM_A CUSTOM_B")
    assert cli.values("runbook trait list rb") == ["CUSTOM_A", "CUSTOM_B"]
    cli("runbook trait remove rb CUSTOM_A")
    assert cli.values("runbook trait list rb") == ["CUSTOM_B"]
    cli("runbook trait remove rb --all")
    assert cli.values("runbook trait list rb") == []
    assert "Invalid trait 'lower'" in cli.refused("runbook trait add rb lower")

    cli(f"runbook set rb --name rc --owner me --extra b=2 --steps {text(STEPS[:1])}")
    shown = cli.json("runbook show rc")
    assert (shown["owner"], shown["extra"], len(shown["steps"])) == ("me", {"a": 1, "b": 2}, 1)
    cli("runbook set rc --public true --disable-ramdisk false --description other")
    shown = cli.json("runbook show rc")
    assert (shown["owner"], shown["public"], shown["disable_ramdisk"]) == (None, True, False)
    cli("runbook unset rc --public --description --extra a --extra b")
    shown = cli.json("runbook show rc")
    assert (shown["public"], shown["description"], shown["extra"]) == (False, None, {})

    assert "(HTTP 409)" in cli.refused(f"runbook create --name rc --steps {text(STEPS)}")
    assert "(HTTP 400)" in cli.refused(f"runbook create --name 'a b' --steps {text(STEPS)}")
    assert "(HTTP 400)" in cli.refused("runbook create --name rd --steps '[{}]'")
    assert "(HTTP 404)" in cli.refused("runbook show rb")
    assert "rc" in cli("runbook delete rc")
    assert "(HTTP 404)" in cli.refused("runbook delete rc")


def test_a_runbook_cleans_and_services(cli: Baremetal, cluster: Cluster) -> None:
    steps = [{**step, "args": {}} for step in STEPS]
    cli(f"runbook create --name rb --steps {text(steps)}")
    cli.create("n1")
    cluster.manage("n1")
    assert "has no traits" in cli.refused("node clean n1 --runbook rb")
    cli("runbook trait add rb CUSTOM_A")
    assert "not approved for node" in cli.refused("node clean n1 --runbook rb")
    cli("node trait add n1 CUSTOM_A")
    cli("node clean n1 --runbook rb --wait 60")
    assert cli.state("n1", "provision_state", "last_error") == ["manageable", None]
    cli("node provide n1 --wait 60")
    cli("node deploy n1 --wait 60")
    cli("node service n1 --runbook rb --wait 60")
    assert cli.state("n1", "provision_state", "last_error") == ["active", None]


def test_inspection_rules(cli: Baremetal, tmp_path: Path) -> None:
    file = tmp_path / "actions.json"
    file.write_text(json.dumps(ACTIONS))
    made = cli.json(
        f"inspection rule create --uuid {UUID} --description text --priority 5 --phase main "
        f"--conditions {text(CONDITIONS)} --actions {file}"
    )
    assert (made["uuid"], made["priority"], made["phase"]) == (UUID, 5, "main")
    assert (made["conditions"], made["actions"]) == (CONDITIONS, ACTIONS)
    [short] = cli.json("inspection rule list")
    assert short == {name: made[name] for name in short}
    [long] = cli.json("inspection rule list --long --limit 1 --sort priority:desc")
    shown = cli.json(f"inspection rule show {UUID}")
    assert shown.items() >= long.items()
    assert cli.json(f"inspection rule show {UUID} --fields priority") == {"priority": 5}

    log = [{"op": "log", "args": {"msg": "x"}}]
    cli(f"inspection rule set {UUID} --description other --priority 7 --actions {text(log)}")
    shown = cli.json(f"inspection rule show {UUID}")
    assert (shown["description"], shown["priority"], shown["actions"]) == ("other", 7, log)
    cli(f"inspection rule unset {UUID} --description --priority --phase")
    shown = cli.json(f"inspection rule show {UUID}")
    assert (shown["description"], shown["priority"], shown["phase"]) == (None, 0, "main")

    secret = cli.json(f"inspection rule create --sensitive true --actions {text(ACTIONS)}")
    assert (secret["sensitive"], secret["actions"], secret["conditions"]) == (True, None, None)
    refused = cli.refused("""inspection rule create --actions '[{"op": "fail", "args": {}}]'""")
    assert "lacks the argument(s) msg" in refused
    assert "(HTTP 400)" in refused
    assert "(HTTP 404)" in cli.refused(f"inspection rule show {NOWHERE}")
    cli(f"inspection rule delete {UUID}")
    assert "(HTTP 404)" in cli.refused(f"inspection rule delete {UUID}")


def test_shards(cli: Baremetal) -> None:
    assert cli.json("shard list") == []
    for name, shard in (("n1", "--shard Shard-1"), ("n2", ""), ("n3", "")):
        cli.create(name, shard)
    listed = {row["name"]: row["count"] for row in cli.json("shard list")}
    assert listed == {"None": 2, "Shard-1": 1}
    assert cli.values("node list --shards Shard-1 x -c name") == ["n1"]


def test_parts_of_nodes(cli: Baremetal, cluster: Cluster, tmp_path: Path) -> None:
    node = cli.create("n1")["uuid"]
    cli.create("n2", f"--parent-node {node}")
    assert len(cli.values("node children list n1")) == 1
    cluster.manage("n1")
    step = [{"interface": "vendor", "step": "unheard_of"}]
    assert "unheard_of" in cli.refused(f"node clean n1 --clean-steps {text(step)} --wait 60")
    [entry] = cli.json("node history list n1")
    [long] = cli.json("node history list n1 --long")
    shown = cli.json(f"node history get n1 {entry['uuid']}")
    assert shown["event"] == long["event"]
    assert "unheard_of" in shown["event"]
    assert "(HTTP 404)" in cli.refused(f"node history get n2 {entry['uuid']}")

    cli("node maintenance unset n1")
    cli("node manage n1 --wait 60")
    settings = [{"name": "virtualization", "value": "on"}]
    step = [{"interface": "bios", "step": "apply_configuration", "args": {"settings": settings}}]
    cli(f"node clean n1 --clean-steps {text(step)} --wait 60")
    [listed] = cli.json("node bios setting list n1")
    assert listed.items() >= settings[0].items()
    [listed] = cli.json("node bios setting list n1 --long")
    assert "read_only" in {key.lower().replace(" ", "_") for key in listed}
    shown = cli.json("node bios setting show n1 virtualization")
    assert shown.items() >= settings[0].items()
    assert "(HTTP 404)" in cli.refused("node bios setting show n1 nothing")
    assert cli.json("node firmware list n1") == []
    assert "(HTTP 404)" in cli.refused(f"node inventory save n1 --file {tmp_path / 'none'}")


def test_rules_work_on_an_inspected_machine(
    cli: Baremetal, cluster: Cluster, sandbox: Sandbox
) -> None:
    [machine] = sandbox.machines()
    body = {**sandbox.node(machine), "name": "n1"}
    cluster.send("POST", "/v1/nodes", body, expect=201)
    cluster.manage("n1")
    actions = [
        {"op": "set-attribute", "args": ["/extra/arch", "{inventory[cpu][architecture]}"]},
        {"op": "set-capability", "args": ["rack", "{item}"], "loop": ["r7"]},
        {"op": "add-trait", "args": ["CUSTOM_SEEN"]},
        {"op": "set-plugin-data", "args": ["seen.by", "rule"]},
    ]
    many = [{"op": "is-empty", "args": {"value": "{inventory[no][such][key]}"}}]
    cli(f"inspection rule create --conditions {text(many)} --actions {text(actions)}")
    cli("node inspect n1 --wait 60")
    node = cluster.node("n1")
    assert (node["provision_state"], node["last_error"]) == ("manageable", None)
    assert node["extra"]["arch"] == node["properties"]["cpu_arch"]
    assert "rack:r7" in node["properties"]["capabilities"]
    assert node["traits"] == ["CUSTOM_SEEN"]
    data = cluster.get("/v1/nodes/n1/inventory")
    assert data["plugin_data"]["seen"] == {"by": "rule"}

    fail = [{"op": "fail", "args": {"msg": "{inventory[cpu][count]} CPUs are too few"}}]
    rule = cli.json(f"inspection rule create --priority 9 --actions {text(fail)}")["uuid"]
    refused = cli.refused("node inspect n1 --wait 60")
    assert "CPUs are too few" in refused
    assert cli.state("n1", "provision_state", "reservation") == ["inspect failed", None]
    cli(f"inspection rule delete {rule}")
    cli("node inspect n1 --wait 60")
    assert cli.state("n1") == "manageable"
