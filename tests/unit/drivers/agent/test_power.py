"""Power by the agent: alive is on, and a reboot is all it can do."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.power import AgentPower
from tests.unit.drivers import kit
from tests.unit.drivers.agent_server import AgentServer

REBOOT = "standby.run_image"


def task_of(agent: AgentServer | None = None, *, alive: bool = True, **values: Any) -> kit.Task:
    info: dict[str, Any] = {"agent_secret_token": "secret"}
    if agent:
        info["agent_url"] = agent.url
    else:
        info["agent_url"] = "http://127.0.0.1:1"
    if alive:
        info["agent_last_heartbeat"] = kit.now()
    row = {"driver_info": {"fast_track": True}, "driver_internal_info": info}
    return kit.Task(kit.node(**row | values), power=AgentPower())


def test_a_machine_is_on_while_its_agent_is_heard_of():
    task = task_of()
    task.driver.power.validate(task)
    assert task.driver.power.get_power_state(task) == states.POWER_ON
    silent = task_of(alive=False)
    assert silent.driver.power.get_power_state(silent) is None
    with pytest.raises(errors.InvalidParameterValue, match="was not heard of"):
        silent.driver.power.validate(silent)


def test_it_needs_fast_track():
    task = task_of(driver_info={})
    with pytest.raises(errors.InvalidParameterValue, match="needs fast track"):
        task.driver.power.validate(task)


def test_it_offers_reboots_and_forces_no_state():
    task = task_of()
    power = task.driver.power
    assert power.get_supported_power_states(task) == [states.REBOOT, states.SOFT_REBOOT]
    assert power.supports_power_sync(task) is False
    assert power.uses_agent is True
    for state in (states.POWER_OFF, states.POWER_ON, states.SOFT_POWER_OFF):
        with pytest.raises(errors.PowerStateFailure, match=state):
            power.set_power_state(task, state)


@pytest.mark.parametrize("pregenerated", [True, False])
@pytest.mark.parametrize("request_", [states.REBOOT, states.SOFT_REBOOT])
def test_the_old_agent_is_forgotten_once_it_is_gone(agent, pregenerated, request_):
    agent.answers[REBOOT] = lambda _: gone()

    def gone() -> dict[str, Any]:
        # The next request finds an agent that has just been started.
        agent.raw = [(200, b'{"commands": []}')]
        return {"status": "RUNNING"}

    task = task_of(agent)
    task.node.driver_internal_info["agent_secret_token_pregenerated"] = pregenerated
    task.driver.power.set_power_state(task, request_)
    info = task.node.driver_internal_info
    assert agent.posted() == [REBOOT]
    assert "agent_url" not in info
    assert ("agent_secret_token" in info) is pregenerated


@pytest.mark.parametrize("answer", [None, 401])
def test_an_agent_that_does_not_answer_any_more_is_gone(agent, config, answer):
    config("agent", max_command_attempts=1)

    def gone(_params: Any) -> dict[str, Any]:
        if answer is None:
            agent.drop = 1
        else:
            agent.raw = [(answer, b'{"faultstring": "token"}')]
        return {"status": "RUNNING"}

    agent.answers[REBOOT] = gone
    # It answers the command itself.
    task = task_of(agent)
    task.driver.power.reboot(task)
    assert "agent_url" not in task.node.driver_internal_info


def test_an_agent_that_does_not_reboot_is_a_failure(agent):
    task = task_of(agent)
    with pytest.raises(errors.PowerStateFailure, match="has not rebooted"):
        task.driver.power.reboot(task, timeout=0)
    assert task.node.driver_internal_info["agent_url"] == agent.url


@pytest.mark.parametrize("status", [409, 500])
def test_an_agent_that_refuses_is_a_failure(agent, status):
    agent.raw = [(status, b'{"faultstring": "not now"}')]
    task = task_of(agent)
    with pytest.raises(errors.PowerStateFailure, match="not now"):
        task.driver.power.reboot(task)


def test_an_agent_that_is_unreachable_is_a_failure():
    task = task_of()
    with pytest.raises(errors.PowerStateFailure, match="did not take"):
        task.driver.power.reboot(task)
