"""RAID by the agent: what is offered, what is sent, and what becomes of the answer."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import errors, raid, states, steps
from ironic_rs.drivers.agent.custom import CustomAgentDeploy
from ironic_rs.drivers.agent.raid import AgentRAID
from tests.unit.drivers import kit
from tests.unit.drivers.agent_server import AgentServer

ROOT = {"size_gb": 100, "raid_level": "1", "is_root_volume": True}
OTHER = {"size_gb": "MAX", "raid_level": "5"}
CREATE = {"interface": "raid", "step": "create_configuration", "priority": 0, "args": {}}
DELETE = {**CREATE, "step": "delete_configuration"}
APPLY = {
    **CREATE,
    "step": "apply_configuration",
    "args": {"raid_config": {"logical_disks": [ROOT]}},
}
VENDOR = {**CREATE, "step": "foreign_import", "priority": 3, "argsinfo": None}
KINDS = [pytest.param(kind, id=kind.name) for kind in steps.KINDS.values()]


def task_of(agent: AgentServer | None, kind: steps.StepKind, step: Any, **values: Any) -> kit.Task:
    internal: dict[str, Any] = {kind.cached_key: {"raid": [CREATE, DELETE, APPLY, VENDOR]}}
    if agent:
        internal["agent_url"] = agent.url
    row = {
        "provision_state": kind.running,
        "driver_internal_info": internal,
        "target_raid_config": {"logical_disks": [ROOT, OTHER]},
        kind.field: step,
    }
    return kit.Task(kit.node(**row | values), deploy=CustomAgentDeploy(), raid=AgentRAID())


def execute(task: kit.Task, kind: steps.StepKind, step: dict[str, Any]) -> str | None:
    run = getattr(task.driver.raid, f"execute_{kind.name}_step")
    return run(task, step)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_ramdisk_told_is_offered_and_nothing_before(kind):
    task = task_of(None, kind, {})
    offer = getattr(task.driver.raid, f"get_{kind.name}_steps")
    assert [step["step"] for step in offer(task)] == [
        "create_configuration",
        "delete_configuration",
        "apply_configuration",
        "foreign_import",
    ]
    del task.node.driver_internal_info[kind.cached_key]
    assert offer(task) == []


@pytest.mark.parametrize("name", ["create_configuration", "delete_configuration"])
def test_options_replace_the_priorities_of_the_ramdisk(config, name):
    config("deploy", **{f"{name}_priority": 42})
    task = task_of(None, steps.CLEAN, {})
    found = {s["step"]: s["priority"] for s in task.driver.raid.get_clean_steps(task)}
    assert found[name] == 42
    assert sorted(found.values()) == [0, 0, 3, 42]


@pytest.mark.parametrize(
    ("args", "sent"),
    [
        ({}, [ROOT, OTHER]),
        ({"create_nonroot_volumes": False}, [ROOT]),
        ({"create_root_volume": False}, [OTHER]),
    ],
)
def test_the_ramdisk_gets_the_volumes_that_are_wanted_and_no_argument(agent, args, sent):
    step = {**CREATE, "args": args}
    task = task_of(agent, steps.CLEAN, step)
    assert execute(task, steps.CLEAN, step) == states.CLEANWAIT
    params = agent.params("clean.execute_clean_step")
    assert params["step"]["args"] == {}
    assert params["node"]["target_raid_config"] == {"logical_disks": sent}
    assert params["node"]["driver_internal_info"]["target_raid_config"] == {"logical_disks": sent}
    assert task.node.target_raid_config == {"logical_disks": [ROOT, OTHER]}


def test_arguments_of_a_hardware_manager_reach_it(agent):
    step = {**CREATE, "args": {"create_root_volume": False, "strip_kib": 64}}
    task = task_of(agent, steps.CLEAN, step)
    execute(task, steps.CLEAN, step)
    assert agent.params("clean.execute_clean_step")["step"]["args"] == {"strip_kib": 64}


@pytest.mark.parametrize(
    ("target", "args", "match"),
    [
        ({}, {}, "no target RAID configuration"),
        ({"logical_disks": [OTHER]}, {"create_nonroot_volumes": False}, "no volumes"),
    ],
)
def test_nothing_to_create_is_an_error(target, args, match):
    step = {**CREATE, "args": args}
    task = task_of(None, steps.CLEAN, step, target_raid_config=target)
    with pytest.raises(errors.MissingParameterValue, match=match):
        execute(task, steps.CLEAN, step)


@pytest.mark.parametrize("kind", [steps.DEPLOY, steps.SERVICE], ids=["deploy", "service"])
def test_a_configuration_is_checked_before_it_is_applied(agent, kind):
    task = task_of(agent, kind, APPLY)
    assert execute(task, kind, APPLY) == kind.wait
    assert agent.params(f"{kind.name}.execute_{kind.name}_step")["step"] == APPLY
    bad = {**APPLY, "args": {"raid_config": {"logical_disks": [{"raid_level": "7"}]}}}
    with pytest.raises(errors.InvalidParameterValue, match="RAID configuration"):
        execute(task_of(None, kind, bad), kind, bad)


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_only_the_ramdisk_knows_is_run_by_it(agent, kind):
    task = task_of(agent, kind, VENDOR)
    assert execute(task, kind, VENDOR) == kind.wait
    assert agent.posted() == [f"{kind.name}.execute_{kind.name}_step"]


def test_volumes_are_created_in_service_too(agent):
    task = task_of(agent, steps.SERVICE, CREATE)
    assert execute(task, steps.SERVICE, CREATE) == states.SERVICEWAIT
    params = agent.params("service.execute_service_step")
    assert params["node"]["target_raid_config"] == {"logical_disks": [ROOT, OTHER]}


# What the ramdisk has done


def finished(agent: AgentServer, kind: steps.StepKind, step: Any, result: Any) -> kit.Task:
    """A heartbeat after the step has succeeded with ``result``."""
    agent.did(
        f"execute_{kind.name}_step",
        result={f"{kind.name}_result": result, f"{kind.name}_step": step},
    )
    task = task_of(
        agent,
        kind,
        step,
        provision_state=kind.wait,
        properties={"capabilities": "boot_mode:uefi,raid_level:5", "root_device": {"wwn": "1"}},
        raid_config={"logical_disks": [OTHER]},
    )
    task.driver.deploy.heartbeat(task, agent.url, "13.0")
    return task


@pytest.mark.parametrize("kind", KINDS)
def test_created_volumes_are_written_to_the_node(agent, kind):
    step = CREATE if kind is steps.CLEAN else APPLY
    made = {"logical_disks": [{**ROOT, "root_device_hint": {"serial": "S1"}}, OTHER]}
    task = finished(agent, kind, step, made)
    node = task.node
    assert node.raid_config.pop("last_updated")
    assert node.raid_config == made
    assert node.properties == {
        "capabilities": "boot_mode:uefi,raid_level:1",
        "local_gb": 100,
        "root_device": {"serial": "S1"},
    }
    assert task.flows.calls == [("resume", kind.name)]


@pytest.mark.parametrize("kind", [steps.CLEAN, steps.SERVICE], ids=["clean", "service"])
def test_deleted_volumes_are_forgotten(agent, kind):
    task = finished(agent, kind, DELETE, None)
    assert task.node.raid_config == {}
    assert "root_device" not in task.node.properties
    assert task.flows.calls == [("resume", kind.name)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("result", [None, {}, "done", {"logical_disks": "many"}])
def test_a_ramdisk_that_does_not_say_what_it_made_fails_the_step(agent, kind, result):
    step = CREATE if kind is steps.CLEAN else APPLY
    task = finished(agent, kind, step, result)
    ((call, flow, text, _),) = task.flows.calls
    assert (call, flow) == ("fail", kind.name)
    assert "which volumes" in text
    assert task.node.raid_config == {"logical_disks": [OTHER]}


def test_a_result_that_can_not_be_written_fails_the_step(agent):
    task = finished(agent, steps.CLEAN, CREATE, {"logical_disks": [{**ROOT, "size_gb": "big"}]})
    ((call, _, text, _),) = task.flows.calls
    assert call == "fail"
    assert "size_gb" in text


def test_a_root_volume_of_all_space_leaves_the_size_alone():
    node = kit.node(properties={"local_gb": 7})
    raid.record(node, {"logical_disks": [{**ROOT, "size_gb": "MAX"}]})
    assert node.properties == {"local_gb": 7, "capabilities": "raid_level:1"}


def test_without_a_root_volume_the_properties_stay():
    node = kit.node(properties={"local_gb": 7})
    raid.record(node, {"logical_disks": [OTHER]})
    assert node.properties == {"local_gb": 7}
    assert node.raid_config["logical_disks"] == [OTHER]
