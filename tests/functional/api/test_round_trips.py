"""SQL round trips of what happens all the time, in the API and the conductor together.

The targets of design section 7; SQLite commits each single statement, so these are upper
bounds of what a database server is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import nodes, session
from ironic_rs.db.models import Node
from ironic_rs.domain import states, steps
from ironic_rs.domain.steps import StepKind
from ironic_rs.drivers.agent.heartbeat import HeartbeatMixin
from ironic_rs.drivers.fake.provisioning import FakeDeploy
from tests.functional.api.harness import Client
from tests.unit.drivers.agent_server import AgentServer

WAIT = 60
TOKEN = "t" * 43


@pytest.mark.parametrize("target", ["power off", "power on", "rebooting", "soft power off"])
def test_a_power_action_takes_fifteen_round_trips_at_most(
    api: Client, conductor: Conductor, target: str
) -> None:
    node = nodes.create(
        {"driver": "fake-hardware", "provision_state": states.ACTIVE, "power_state": "power on"}
    )
    path = f"/v1/nodes/{node.uuid}/states/power"
    # The API knows the ring then.
    assert api.put(path, {"target": "power on"}).status == 202
    assert conductor.tasks.book.wait_empty(WAIT)
    with session.count_statements() as seen:
        assert api.put(path, {"target": target}).status == 202
        assert conductor.tasks.book.wait_empty(WAIT)
    assert seen.round_trips <= 15, seen.statements
    stored = nodes.get(node.id)
    assert stored.reservation is None
    assert stored.target_power_state is None


class _AgentDeploy(HeartbeatMixin, FakeDeploy):
    """Takes heartbeats as the deploy interfaces of the agent do."""


@pytest.fixture
def agent(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> Iterator[AgentServer]:
    """An agent that can be called; the nodes of the conductor take its heartbeats."""
    CONF.set_override("require_tls", False, group="agent")
    deploy = conductor.drivers.enabled("deploy")["fake"]
    monkeypatch.setattr(type(deploy), "heartbeat", _AgentDeploy.heartbeat)
    for name in ("_in_maintenance", "_dispatch", "_act"):
        monkeypatch.setattr(type(deploy), name, getattr(_AgentDeploy, name), raising=False)
    with AgentServer().running() as server:
        yield server


def waiting(kind: StepKind) -> Node:
    """Store a node whose agent runs a step."""
    return nodes.create(
        {
            "driver": "fake-hardware",
            "provision_state": kind.wait,
            "target_provision_state": states.STATES[kind.wait].target,
            kind.field: {"interface": "deploy", "step": "erase_devices"},
            "driver_internal_info": {"agent_secret_token": TOKEN, kind.cached_key: {}},
        }
    )


@pytest.mark.parametrize("name", sorted(steps.KINDS))
def test_a_heartbeat_during_a_step_takes_ten_round_trips_on_the_kept_connection(
    api: Client, conductor: Conductor, agent: AgentServer, name: str
) -> None:
    kind = steps.KINDS[name]
    agent.did(f"execute_{name}_step", "RUNNING")
    node = waiting(kind)
    beat = {"callback_url": agent.url, "agent_version": "13", "agent_token": TOKEN}

    def send() -> None:
        assert api.post(f"/v1/heartbeat/{node.uuid}", beat).status == 202
        assert conductor.tasks.book.wait_empty(WAIT)

    send()
    for _ in range(3):
        with session.count_statements() as seen:
            send()
        assert seen.round_trips <= 10, seen.statements
    assert [method for method, *_ in agent.requests] == ["GET"] * 4
    assert agent.connections == 1
    stored = nodes.get(node.id)
    assert (stored.provision_state, stored.reservation) == (kind.wait, None)
