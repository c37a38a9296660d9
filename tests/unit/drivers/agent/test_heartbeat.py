"""Heartbeats and in-band steps: what an agent reports, and what is set going."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers.agent import inband
from ironic_rs.drivers.agent.custom import CustomAgentDeploy
from tests.unit.drivers import kit
from tests.unit.drivers.agent_server import AgentServer

KINDS = [pytest.param(kind, id=kind.name) for kind in steps.KINDS.values()]
STEP = {"interface": "deploy", "step": "erase_devices", "priority": 10}
LISTED = {
    "hardware_manager_version": {"generic": "1"},
    **{f"{kind}_steps": {"Generic": [STEP]} for kind in steps.KINDS},
}


def offer_steps(agent: AgentServer) -> None:
    for kind in steps.KINDS:
        agent.answers[f"{kind}.get_{kind}_steps"] = lambda _: {
            "status": "SUCCEEDED",
            "result": LISTED,
        }


def task_of(agent: AgentServer, kind: steps.StepKind, **values: object) -> kit.Task:
    """A task on a node that waits for its agent, in the middle of a step."""
    internal = {"agent_url": agent.url, kind.cached_key: {"deploy": [STEP]}}
    internal |= values.pop("internal", {})
    row = {
        "provision_state": kind.wait,
        "power_state": states.POWER_ON,
        kind.field: dict(STEP),
        "driver_internal_info": internal,
    }
    return kit.Task(kit.node(**row | values), shared=True, deploy=CustomAgentDeploy())


def beat(task: kit.Task, agent: AgentServer, **details: str) -> None:
    task.driver.deploy.heartbeat(task, agent.url, "13.0", **details)


def test_what_the_agent_says_of_itself_is_recorded_in_one_write(agent):
    task = task_of(agent, steps.CLEAN)
    task.node.provision_state = states.CLEANING
    beat(task, agent, agent_verify_ca="/x.crt", agent_status="start", agent_status_message="hi")
    info = task.node.driver_internal_info
    assert info["agent_url"] == agent.url
    assert info["agent_version"] == "13.0"
    assert info["agent_verify_ca"] == "/x.crt"
    assert info["agent_status"] == "start"
    assert info["agent_status_message"] == "hi"
    assert "." in info["agent_last_heartbeat"]
    assert task.released["touch"] is False
    assert task.saves == 1
    assert agent.requests == []


@pytest.mark.parametrize(
    "state", sorted(states.HEARTBEAT_RECORD_ONLY - {"enroll", "manageable", "available"})
)
def test_record_only_states_ask_the_agent_nothing(agent, state):
    task = task_of(agent, steps.CLEAN, provision_state=state)
    beat(task, agent)
    assert task.released is not None
    assert agent.requests == []
    assert task.flows.calls == []


@pytest.mark.parametrize("state", [states.ACTIVE, states.INSPECTWAIT, states.AVAILABLE])
def test_a_state_that_waits_for_nothing_ignores_heartbeats(agent, state):
    task = task_of(agent, steps.CLEAN, provision_state=state)
    beat(task, agent)
    assert task.saves == 0
    assert "agent_version" not in task.node.driver_internal_info


@pytest.mark.parametrize("state", [states.MANAGEABLE, states.INSPECTWAIT])
def test_fast_track_records_heartbeats_between_flows(agent, state):
    task = task_of(agent, steps.CLEAN, provision_state=state, driver_info={"fast_track": "yes"})
    beat(task, agent)
    assert "agent_version" in task.node.driver_internal_info


def test_a_locked_node_drops_the_heartbeat(agent):
    task = task_of(agent, steps.CLEAN)
    task.locked_by = "somebody"
    beat(task, agent)
    assert task.saves == 0
    assert agent.requests == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "command",
    [
        {"name": "execute_{kind}_step", "status": "RUNNING"},
        {
            "name": "execute_{kind}_step",
            "result": {"{kind}_step": {"interface": "deploy", "step": "another"}},
        },
        {"name": "execute_{kind}_step", "result": None},
        {"name": "install_bootloader"},
    ],
    ids=["running", "other step", "no result", "other command"],
)
def test_an_agent_that_is_not_done_is_waited_for(agent, kind, command):
    agent.did("execute_x")
    result = command.get("result")
    if result:
        result = {key.format(kind=kind.name): value for key, value in result.items()}
    agent.did(command["name"].format(kind=kind.name), command.get("status", "SUCCEEDED"), result)
    task = task_of(agent, kind)
    beat(task, agent)
    assert task.flows.calls == []
    assert task.released == {"touch": True, "changes": task.released["changes"]}
    assert set(task.released["changes"]) == {"driver_internal_info"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_is_done_lets_the_flow_go_on(agent, kind):
    agent.did(f"execute_{kind.name}_step", result={f"{kind.name}_step": STEP})
    task = task_of(agent, kind)
    beat(task, agent)
    assert task.flows.calls == [("resume", kind.name)]
    assert task.released is None


@pytest.mark.parametrize("kind", KINDS)
def test_the_newest_of_two_equal_commands_decides(agent, kind):
    agent.did(f"execute_{kind.name}_step", "FAILED", error={"message": "connection"})
    agent.did(f"execute_{kind.name}_step", result={f"{kind.name}_step": STEP})
    task = task_of(agent, kind)
    beat(task, agent)
    assert task.flows.calls == [("resume", kind.name)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_step_goes_to_the_handler_of_its_own_kind(agent, kind):
    agent.did(f"execute_{kind.name}_step", "FAILED", error={"details": "disk on fire"})
    task = task_of(agent, kind)
    beat(task, agent)
    ((what, name, message, logs),) = task.flows.calls
    assert (what, name, logs) == ("fail", kind.name, True)
    for part in (kind.name.capitalize(), "deploy.erase_devices", kit.UUID, "disk on fire"):
        assert part in message


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_status_is_a_failure(agent, kind):
    agent.did(f"execute_{kind.name}_step", "PONDERING")
    task = task_of(agent, kind)
    beat(task, agent)
    assert task.flows.calls[0][:2] == ("fail", kind.name)
    assert "PONDERING" in task.flows.calls[0][2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_boot_goes_on_and_forgets_the_reboot(agent, kind):
    agent.did(f"get_{kind.name}_steps")
    task = task_of(
        agent, kind, internal={kind.reboot_flag: True, "agent_step_sent": "deploy.erase_devices"}
    )
    beat(task, agent)
    assert task.flows.calls == [("resume", kind.name)]
    assert kind.reboot_flag not in task.node.driver_internal_info


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_restarted_under_a_step_fails_it(agent, kind):
    task = task_of(agent, kind, internal={"agent_step_sent": "deploy.erase_devices"})
    beat(task, agent)
    assert task.flows.calls[0][:2] == ("fail", kind.name)
    assert "restarted" in task.flows.calls[0][2]


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_asks_for_a_reboot_gets_one(agent, kind, config):
    config("service_catalog", endpoint_override="http://api/")
    agent.did(f"execute_{kind.name}_step", result={f"{kind.name}_step": STEP})
    task = task_of(agent, kind)
    setattr(task.node, kind.field, {**STEP, "reboot_requested": True})
    beat(task, agent)
    assert task.flows.calls == [("power", states.REBOOT)]
    assert task.node.driver_internal_info[kind.reboot_flag] is True


@pytest.mark.parametrize("kind", KINDS)
def test_a_reboot_that_fails_is_a_failed_step(agent, kind, config):
    config("service_catalog", endpoint_override="http://api/")
    agent.did(f"execute_{kind.name}_step", result={f"{kind.name}_step": STEP})
    task = task_of(agent, kind)
    setattr(task.node, kind.field, {**STEP, "reboot_requested": True})
    task.flows.errors["power"] = errors.PowerStateFailure(pstate="rebooting")
    beat(task, agent)
    assert task.flows.calls[-1][:2] == ("fail", kind.name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", ["VERSION_MISMATCH", "CLEAN_VERSION_MISMATCH"])
def test_changed_hardware_managers_are_listed_again_by_kind(agent, kind, status):
    offer_steps(agent)
    agent.did(f"execute_{kind.name}_step", status)
    task = task_of(agent, kind, target_provision_state=states.AVAILABLE)
    beat(task, agent)
    assert agent.posted() == [f"{kind.name}.get_{kind.name}_steps"]
    rebuilt = [("set_steps", "clean", True)] if kind is steps.CLEAN else []
    assert task.flows.calls == [*rebuilt, ("resume", kind.name)]
    if kind is not steps.CLEAN:
        assert task.node.driver_internal_info[kind.skip_flag] is False


def test_changed_hardware_managers_run_a_manual_step_again(agent):
    offer_steps(agent)
    agent.did("execute_clean_step", "VERSION_MISMATCH")
    task = task_of(agent, steps.CLEAN, target_provision_state=states.MANAGEABLE)
    beat(task, agent)
    assert task.flows.calls == [("resume", "clean")]
    assert task.node.driver_internal_info["skip_current_clean_step"] is False


def test_a_cleaning_that_is_to_be_aborted_does_not_start_over(agent):
    offer_steps(agent)
    agent.did("execute_clean_step", "VERSION_MISMATCH")
    task = task_of(agent, steps.CLEAN, target_provision_state=states.AVAILABLE)
    task.node.clean_step = {**STEP, "abort_after": True}
    beat(task, agent)
    assert task.flows.calls == [("resume", "clean")]
    assert task.node.clean_step["abort_after"] is True


@pytest.mark.parametrize("kind", [steps.CLEAN, steps.SERVICE], ids=lambda kind: kind.name)
def test_the_first_heartbeat_lists_the_steps_and_starts(agent, kind):
    offer_steps(agent)
    task = task_of(agent, kind)
    setattr(task.node, kind.field, {})
    del task.node.driver_internal_info[kind.cached_key]
    beat(task, agent)
    assert task.flows.calls == [("start", kind.name)]
    (cached,) = task.node.driver_internal_info[kind.cached_key]["deploy"]
    assert cached["step"] == "erase_devices"
    assert cached["abortable"] is False
    assert cached.get("requires_ramdisk") is (True if kind is steps.CLEAN else None)
    assert task.node.driver_internal_info["hardware_manager_version"] == {"generic": "1"}


def test_an_in_band_step_of_a_deployment_can_be_broken_off_as_others(agent):
    offer_steps(agent)
    task = task_of(agent, steps.DEPLOY)
    del task.node.driver_internal_info["agent_cached_deploy_steps"]
    beat(task, agent)
    (cached,) = task.node.driver_internal_info["agent_cached_deploy_steps"]["deploy"]
    assert cached["abortable"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_a_busy_agent_is_asked_for_its_steps_later(agent, kind):
    agent.raw = [(409, b'{"faultstring": "busy"}')]
    task = task_of(agent, kind)
    setattr(task.node, kind.field, {})
    del task.node.driver_internal_info[kind.cached_key]
    beat(task, agent)
    assert task.flows.calls == []
    assert task.released["touch"] is False


def test_deployment_lists_the_steps_once(agent):
    offer_steps(agent)
    task = task_of(agent, steps.DEPLOY)
    del task.node.driver_internal_info["agent_cached_deploy_steps"]
    beat(task, agent)
    assert task.flows.calls == [("resume", "deploy")]
    assert agent.posted() == ["deploy.get_deploy_steps"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_polled_step_is_not_the_agents_business(agent, kind):
    task = task_of(agent, kind, internal={kind.polling_flag: True})
    beat(task, agent)
    assert agent.requests == []
    assert task.released["touch"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_that_can_not_be_reached_fails_the_flow(agent, kind, config):
    config("agent", max_command_attempts=1)
    agent.drop = 1
    task = task_of(agent, kind)
    beat(task, agent)
    ((what, name, message, _logs),) = task.flows.calls
    assert (what, name) == ("fail", kind.name)
    assert kind.label in message


@pytest.mark.parametrize("kind", KINDS)
def test_maintenance_stops_the_flow_only_when_configured(agent, kind, config):
    task = task_of(agent, kind, maintenance=True)
    beat(task, agent)
    assert task.released is not None
    assert task.flows.calls == []
    config("conductor", allow_provisioning_in_maintenance=False)
    task = task_of(agent, kind, maintenance=True)
    beat(task, agent)
    assert task.flows.calls[0][:2] == ("fail", kind.name)
    assert "maintenance" in task.flows.calls[0][2]
    assert agent.requests == []


@pytest.mark.parametrize(
    ("result", "match"),
    [
        ({"clean_steps": {}}, "hardware_manager_version"),
        ({"hardware_manager_version": {}}, "clean_steps"),
        (None, "no reason"),
        ({"clean_steps": [], "hardware_manager_version": {}}, "not grouped"),
        ({"clean_steps": {"M": [{"step": "x"}]}, "hardware_manager_version": {}}, "interface"),
    ],
)
def test_a_list_of_steps_that_lacks_something_is_refused(agent, result, match):
    agent.answers["clean.get_clean_steps"] = lambda _: {"status": "SUCCEEDED", "result": result}
    task = task_of(agent, steps.CLEAN)
    with pytest.raises(errors.NodeCleaningFailure, match=match):
        inband.refresh(task, steps.CLEAN)


def test_an_old_ramdisk_without_service_steps_offers_none(agent):
    agent.raw = [(404, b'{"faultstring": "no such command"}')]
    task = task_of(agent, steps.SERVICE)
    assert inband.refresh(task, steps.SERVICE)
    assert task.node.driver_internal_info["agent_cached_service_steps"] == {}


def test_priorities_of_in_band_steps_can_be_configured(agent, config):
    config("deploy", erase_devices_priority=0)
    task = task_of(agent, steps.CLEAN)
    (step,) = inband.cached(task, steps.CLEAN, "deploy")
    assert step["priority"] == 0
    assert task.node.driver_internal_info[steps.CLEAN.cached_key]["deploy"][0]["priority"] == 10


@pytest.mark.parametrize("kind", [steps.DEPLOY, steps.SERVICE])
def test_priorities_of_cleaning_do_not_erase_disks_in_other_flows(agent, config, kind):
    config("deploy", erase_devices_priority=70)
    task = task_of(agent, kind)
    (step,) = inband.cached(task, kind, "deploy")
    assert step["priority"] == 10


@pytest.mark.parametrize("kind", KINDS)
def test_in_band_steps_are_offered_and_sent_to_the_agent(agent, kind):
    task = task_of(agent, kind)
    deploy = task.driver.deploy
    offered = getattr(deploy, f"get_{kind.name}_steps")(task)
    assert "erase_devices" in [step["step"] for step in offered]
    assert getattr(deploy, f"execute_{kind.name}_step")(task, STEP) == kind.wait
    assert agent.params(f"{kind.name}.execute_{kind.name}_step")["step"] == STEP
    assert task.node.driver_internal_info["agent_step_sent"] == "deploy.erase_devices"


def test_a_deploy_step_that_nobody_knows_fails(agent):
    task = task_of(agent, steps.DEPLOY)
    del task.node.driver_internal_info["agent_cached_deploy_steps"]
    with pytest.raises(errors.InstanceDeployFailure, match=r"deploy\.erase_devices"):
        task.driver.deploy.execute_deploy_step(task, STEP)
