"""In which states a heartbeat is recorded, acted on, or ignored.

The sets are the specification's (conductor.md sections 2.3 and 8.3), not the product's.
"""

from __future__ import annotations

import pytest

from ironic_rs.domain import states
from ironic_rs.drivers.agent.custom import CustomAgentDeploy
from tests.unit.drivers import kit

RECORD_ONLY = {
    "cleaning",
    "clean hold",
    "deploying",
    "deploy hold",
    "rescuing",
    "servicing",
    "service hold",
}
ACTED_ON = {"wait call-back", "clean wait", "rescue wait", "service wait"}
ALLOWED = RECORD_ONLY | ACTED_ON
WITH_FAST_TRACK = ALLOWED | {"manageable", "available", "enroll"}
SERVICING = {"servicing", "service wait", "service hold", "service failed"}


def beat(agent, state, **values):
    node = kit.node(provision_state=state, power_state=states.POWER_ON, **values)
    task = kit.Task(node, shared=True, deploy=CustomAgentDeploy())
    task.driver.deploy.heartbeat(task, agent.url, "13.0")
    return task


def is_recorded(task):
    return task.node.driver_internal_info.get("agent_version") == "13.0"


@pytest.mark.parametrize("state", states.STATES)
def test_a_heartbeat_counts_where_an_agent_is_waited_for(agent, state):
    task = beat(agent, state)
    assert is_recorded(task) == (state in ALLOWED)
    if state not in ACTED_ON:
        assert agent.requests == []
        assert task.flows.calls == []


@pytest.mark.parametrize("state", states.STATES)
@pytest.mark.parametrize("by", ["option", "node"])
def test_with_fast_track_it_counts_wherever_the_agent_may_be_of_use(agent, config, state, by):
    if by == "option":
        config("deploy", fast_track=True)
    info = {"fast_track": "true"} if by == "node" else {}
    task = beat(agent, state, driver_info=info)
    assert is_recorded(task) == (state in WITH_FAST_TRACK or state not in SERVICING)


@pytest.mark.parametrize("state", states.STATES)
def test_after_an_error_fast_track_is_off_but_for_nodes_at_rest(agent, state):
    task = beat(agent, state, driver_info={"fast_track": True}, last_error="broken")
    assert is_recorded(task) == (state in WITH_FAST_TRACK)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("state", sorted(ALLOWED))
def test_in_maintenance_a_waiting_flow_is_left_alone_or_aborted(agent, config, state, allowed):
    config("conductor", allow_provisioning_in_maintenance=allowed)
    task = beat(agent, state, maintenance=True)
    assert is_recorded(task)
    assert agent.requests == []
    aborted = [call for call in task.flows.calls if call[0] == "fail"]
    assert len(aborted) == (1 if state in ACTED_ON and not allowed else 0)
    for call in aborted:
        assert "maintenance" in call[2]
        assert call[3] is False, "no logs of the ramdisk"
