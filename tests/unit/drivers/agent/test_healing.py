"""Which commands to an agent may be sent again within a step, counted at the agent."""

from __future__ import annotations

import socket

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.agent.client import AgentClient
from ironic_rs.integrations.healing import Partner
from tests.unit.drivers import kit
from tests.unit.drivers.healer import healed


def client_of(url: str) -> AgentClient:
    return AgentClient(kit.node(driver_internal_info={"agent_url": url}))


@pytest.fixture
def nowhere():
    """Return the URL of a port where nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_a_command_that_never_left_is_sent_again(agent, nowhere):
    client = client_of(nowhere)

    def back():
        client._node.driver_internal_info["agent_url"] = agent.url

    with healed(2, back) as healer:
        client.sync()
    assert agent.posted() == ["standby.sync"]
    assert [(partner, what) for partner, what, _ in healer.asked] == [
        (Partner.AGENT, "command standby.sync")
    ]


def test_the_list_of_commands_is_asked_for_again(agent):
    agent.did("sync")
    agent.drop = 100

    def back():
        agent.drop = 0

    with healed(1, back):
        assert [one["command_name"] for one in client_of(agent.url).commands()] == ["sync"]


def test_a_command_that_may_run_is_not_sent_again(agent):
    agent.drop = 100
    with healed(5) as healer, pytest.raises(errors.AgentConnectionFailed):
        client_of(agent.url).reboot()
    assert healer.asked == []


def test_an_agent_that_never_called_is_not_waited_for():
    client = AgentClient(kit.node(driver_internal_info={}))
    with healed(5) as healer, pytest.raises(errors.AgentConnectionFailed):
        client.sync()
    assert healer.asked == []


def test_a_refusal_is_final(agent):
    agent.raw = [(400, b'{"faultstring": "no such command"}')]
    with healed(5) as healer, pytest.raises(errors.AgentAPIError):
        client_of(agent.url).sync()
    assert healer.asked == []


def test_retries_are_bounded(nowhere):
    with healed(2) as healer, pytest.raises(errors.AgentConnectionFailed):
        client_of(nowhere).sync()
    assert len(healer.asked) == 3
