"""Heartbeats of the real agent interfaces, from the RPC method to the flow."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import session
from ironic_rs.domain import states, steps
from ironic_rs.drivers.agent.heartbeat import HeartbeatMixin
from ironic_rs.drivers.agent.rescue import AgentRescue
from tests.unit.conductor import flowkit
from tests.unit.drivers.agent_server import AgentServer

TOKEN = "x" * 43
BEAT = {"callback_url": "https://10.0.0.5", "agent_version": "13", "agent_token": TOKEN}


@pytest.fixture(autouse=True)
def agent(world):
    scripted = type(world.kit.interfaces["deploy"])
    world.kit.interfaces["deploy"] = type("AgentDeploy", (HeartbeatMixin, scripted), {})()
    world.kit.interfaces["deploy"].kit = world.kit


@pytest.mark.parametrize("state", [states.CLEANING, states.DEPLOYING, states.DEPLOYHOLD])
def test_a_heartbeat_that_changes_nothing_costs_three_statements_here(world, state):
    # And one in the API process, which looks the node up: four in all.
    node = world.node(state, driver_internal_info={"agent_secret_token": TOKEN})
    with session.count_statements() as seen:
        world.call("heartbeat", node, **BEAT)
    assert seen.count == 3, seen.statements
    stored = world.read(node)
    assert stored.driver_internal_info["agent_url"] == "https://10.0.0.5"
    assert stored.reservation is None
    assert stored.provision_state == state


@pytest.mark.parametrize("name", sorted(steps.KINDS))
def test_a_heartbeat_during_a_running_step_costs_the_same(world, name):
    kind = steps.KINDS[name]
    CONF.set_override("require_tls", False, group="agent")
    with AgentServer().running() as server:
        server.did(f"execute_{name}_step", "RUNNING")
        node = world.node(
            kind.wait,
            **{kind.field: flowkit.steps("deploy.erase_devices")[0]},
            driver_internal_info={"agent_secret_token": TOKEN, kind.cached_key: {}},
        )
        before = world.read(node).provision_updated_at
        with session.count_statements() as seen:
            world.call("heartbeat", node, **BEAT | {"callback_url": server.url})
    assert seen.count == 3, seen.statements
    stored = world.read(node)
    assert stored.reservation is None
    assert stored.provision_state == kind.wait
    assert stored.provision_updated_at != before


@pytest.mark.parametrize("name", sorted(steps.KINDS))
def test_a_reserved_wait_step_ends_with_the_next_heartbeat(world, name):
    kind = steps.KINDS[name]
    wait = {"interface": "deploy", "step": "wait"}
    node = world.node(
        kind.wait,
        **{kind.field: wait},
        driver_internal_info={
            "agent_secret_token": TOKEN,
            kind.steps_key: [wait, *flowkit.steps("raid.a")],
            kind.index_key: 0,
            kind.cached_key: {},
            "steps_validated": True,
        },
    )
    world.call("heartbeat", node, **BEAT)
    assert world.kit.ran == ["raid.a"]
    assert world.read(node).provision_state in (states.AVAILABLE, states.ACTIVE)


def test_the_heartbeat_that_ends_a_rescue_costs_five_statements_here(world):
    CONF.set_override("require_tls", False, group="agent")
    world.kit.interfaces["rescue"] = AgentRescue()
    world.kit.interfaces["rescue"].kit = world.kit
    with AgentServer().running() as server:
        node = world.node(
            states.RESCUEWAIT,
            driver_internal_info={"agent_secret_token": TOKEN},
            instance_info={"rescue_password": "x", "hashed_rescue_password": "$5$x"},
        )
        with session.count_statements() as seen:
            world.call("heartbeat", node, **BEAT | {"callback_url": server.url})
    assert seen.count == 5, seen.statements
    stored = world.read(node)
    assert stored.provision_state == states.RESCUE
    assert stored.instance_info == {}
    assert server.posted() == ["rescue.finalize_rescue"]
