"""Rescue by the agent: boot, the heartbeat that finishes it, and the way back."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.custom import CustomAgentDeploy
from ironic_rs.drivers.agent.rescue import AgentRescue
from tests.unit.drivers import kit
from tests.unit.drivers.agent.doubles import Boot, Network
from tests.unit.drivers.agent_server import AgentServer

PASSWORDS = {"rescue_password": "open", "hashed_rescue_password": "$5$hash"}
FINALIZE = "rescue.finalize_rescue"


@pytest.fixture(autouse=True)
def options(config):
    config("service_catalog", endpoint_override="http://api.example:6385")


def task_of(state=states.RESCUING, agent: AgentServer | None = None, **values: Any) -> kit.Task:
    calls: list[str] = []
    row: dict[str, Any] = {
        "provision_state": state,
        "power_state": states.POWER_ON,
        "instance_info": dict(PASSWORDS),
        "driver_internal_info": {"agent_url": agent.url} if agent else {},
    }
    task = kit.Task(
        kit.node(**row | values),
        shared=agent is not None,
        deploy=CustomAgentDeploy(),
        rescue=AgentRescue(),
        boot=Boot(calls),
        network=Network(calls),
    )
    record = task.flows._call

    def in_order(*call: Any) -> None:
        if call[0] == "power":
            calls.append(call[1])
        record(*call)

    task.flows._call = in_order  # type: ignore[method-assign]
    return task


def test_a_rescue_boots_the_ramdisk_between_power_off_and_on():
    task = task_of()
    assert task.driver.rescue.rescue(task) == states.RESCUEWAIT
    assert task.driver.boot.calls == [
        "power off",
        "clean_up_instance",
        "unconfigure_tenant_networks",
        "add_rescuing_network",
        "prepare_ramdisk",
        "power on",
    ]
    assert task.driver.boot.params == {"ipa-api-url": "http://api.example:6385"}
    assert task.node.instance_info == PASSWORDS


def test_a_boot_that_somebody_else_manages_is_left_alone(config):
    config("agent", manage_agent_boot=False)
    task = task_of()
    task.driver.boot.refusals["validate_rescue"] = AssertionError("must not be asked")
    task.driver.rescue.validate(task)
    task.driver.rescue.rescue(task)
    task.driver.rescue.clean_up(task)
    assert "prepare_ramdisk" not in task.driver.boot.calls
    assert "clean_up_ramdisk" not in task.driver.boot.calls


def test_unrescue_brings_the_instance_back_and_forgets_the_password():
    task = task_of(states.UNRESCUING)
    assert task.driver.rescue.unrescue(task) == states.ACTIVE
    assert task.driver.boot.calls == [
        "power off",
        "clean_up_ramdisk",
        "remove_rescuing_network",
        "configure_tenant_networks",
        "prepare_instance",
        "power on",
    ]
    assert task.node.instance_info == {}


@pytest.mark.parametrize(
    ("info", "error"),
    [
        ({}, errors.MissingParameterValue),
        ({"rescue_password": ""}, errors.InvalidParameterValue),
        ({"rescue_password": "  "}, errors.InvalidParameterValue),
    ],
)
def test_a_rescue_needs_a_password(info, error):
    task = task_of(states.ACTIVE, instance_info=info)
    with pytest.raises(error, match="rescue_password"):
        task.driver.rescue.validate(task)


def test_the_boot_interface_must_have_a_rescue_ramdisk():
    task = task_of(states.ACTIVE)
    task.driver.rescue.validate(task)
    task.driver.boot.refusals["validate_rescue"] = errors.MissingParameterValue("rescue_kernel")
    with pytest.raises(errors.MissingParameterValue, match="rescue_kernel"):
        task.driver.rescue.validate(task)


def beat(task: kit.Task, agent: AgentServer) -> None:
    task.driver.deploy.heartbeat(task, agent.url, "13.0")


def test_the_first_heartbeat_hands_over_the_hashed_password(agent):
    task = task_of(states.RESCUEWAIT, agent)
    beat(task, agent)
    assert agent.params(FINALIZE) == {"rescue_password": "$5$hash", "hashed": True}
    assert task.flows.calls == [("resume", "rescue")]


def test_a_busy_agent_is_asked_again_at_the_next_heartbeat(agent):
    agent.raw = [(409, b'{"faultstring": "Agent is busy"}')]
    task = task_of(states.RESCUEWAIT, agent)
    beat(task, agent)
    assert task.flows.calls == []
    assert task.released is not None


def test_a_refusal_of_the_agent_fails_the_rescue_with_its_words(agent):
    agent.answers[FINALIZE] = lambda _: {
        "status": "FAILED",
        "error": {"message": "cannot write /etc/ipa-rescue-config"},
    }
    task = task_of(states.RESCUEWAIT, agent)
    beat(task, agent)
    ((call, flow, text, _),) = task.flows.calls
    assert (call, flow) == ("fail", "rescue")
    assert "ipa-rescue-config" in text


def test_a_plain_password_is_sent_only_where_that_is_allowed(agent, config):
    refuses_hashes = {
        "status": "FAILED",
        "error": {"type": "TypeError", "message": "unexpected argument 'hashed'"},
    }
    agent.answers[FINALIZE] = lambda params: (
        refuses_hashes if params.get("hashed") else {"status": "SUCCEEDED"}
    )
    task = task_of(states.RESCUEWAIT, agent)
    beat(task, agent)
    ((call, _, text, _),) = task.flows.calls
    assert call == "fail"
    assert "require_rescue_password_hashed" in text
    assert agent.posted() == [FINALIZE]

    config("conductor", require_rescue_password_hashed=False)
    task = task_of(states.RESCUEWAIT, agent)
    beat(task, agent)
    assert agent.params(FINALIZE) == {"rescue_password": "open"}
    assert task.flows.calls == [("resume", "rescue")]


def test_what_fails_after_the_flow_went_on_is_not_failed_twice(agent):
    task = task_of(states.RESCUEWAIT, agent)

    def resume(_flow: str) -> None:
        task.node.provision_state = states.RESCUEFAIL
        raise errors.NetworkError("failed already")

    task.flows.resume = resume  # type: ignore[method-assign]
    beat(task, agent)
    assert task.flows.calls == []


@pytest.mark.parametrize("allowed", [True, False])
def test_maintenance_stops_the_rescue_only_where_it_is_meant_to(agent, config, allowed):
    config("conductor", allow_provisioning_in_maintenance=allowed)
    task = task_of(states.RESCUEWAIT, agent, maintenance=True)
    beat(task, agent)
    assert agent.requests == []
    assert [call[0] for call in task.flows.calls] == ([] if allowed else ["fail"])
