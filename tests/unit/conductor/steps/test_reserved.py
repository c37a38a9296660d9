"""Reserved steps, and steps on child nodes."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from tests.unit.conductor import flowkit
from tests.unit.conductor.steps.test_engine import DONE, FLOWS, run, running


@pytest.fixture(params=sorted(FLOWS))
def flow(request):
    return FLOWS[request.param]


@pytest.fixture
def slept(monkeypatch):
    seconds = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


def test_w02_reserved_power_steps_run_in_their_order(world, flow):
    done = []
    world.driver.power.set_power_state = lambda task, state, timeout=None: done.append(state)
    world.driver.power.reboot = lambda task, timeout=None: done.append("reboot")
    world.kit.results["raid.a"] = lambda task: done.append("raid.a")
    node = running(world, flow, "power_off", "raid.a", "power_on", "reboot")
    world.driver.power.get_power_state = lambda task: task.node.power_state
    stored = run(world, flow, node)
    assert done == [states.POWER_OFF, "raid.a", states.POWER_ON, "reboot"]
    assert stored.provision_state == DONE[flow.kind.name]


def test_after_a_reserved_reboot_the_flow_waits_for_the_new_agent(world, flow):
    node = running(world, flow, "reboot", "raid.inband", agent_url="https://old")
    world.kit.results["raid.inband"] = errors.AgentConnectionFailed(reason="booting")
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.wait
    assert stored.driver_internal_info[flow.kind.skip_flag] is False


def test_hold_ends_the_worker_and_nothing_else(world, flow):
    node = running(world, flow, "hold", "raid.a")
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.hold
    assert world.kit.ran == []
    assert stored.reservation is None


def test_w03_wait_with_seconds_goes_on_with_the_next_step(world, flow, slept):
    node = running(world, flow, "raid.a")
    internal = dict(node.driver_internal_info)
    internal[flow.kind.steps_key] = [
        *flowkit.steps("wait", args={"seconds": 7}),
        *flowkit.steps("raid.a"),
    ]
    node = world.node(flow.kind.running, driver_internal_info=internal)
    stored = run(world, flow, node)
    assert slept == [7]
    assert world.kit.ran == ["raid.a"]
    assert stored.provision_state == DONE[flow.kind.name]


def test_w03_wait_never_sleeps_longer_than_the_limit(world, flow, slept):
    CONF.set_override("max_conductor_wait_step_seconds", 20, group="conductor")
    internal = {flow.kind.steps_key: flowkit.steps("wait", args={"seconds": 3600})}
    node = world.node(flow.kind.running, driver_internal_info=internal)
    run(world, flow, node)
    assert slept == [20]
    assert (flow.kind.wait, "INFO") in world.events(node)


def test_wait_without_seconds_waits_for_the_next_heartbeat(world, flow):
    node = running(world, flow, "wait", "raid.a")
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.wait
    assert world.kit.ran == []
    with world.task(node) as task:
        task.flows.resume(flow.kind.name)
    assert world.kit.ran == ["raid.a"]


@pytest.mark.parametrize("step", ["hold", "wait"])
def test_w05_pauses_keep_the_target_of_manual_cleaning(world, step):
    clean = FLOWS["clean"]
    node = world.node(
        states.CLEANING,
        target_provision_state=states.MANAGEABLE,
        driver_internal_info={"clean_steps": flowkit.steps(step, "raid.a")},
    )
    stored = run(world, clean, node)
    assert stored.target_provision_state == states.MANAGEABLE
    if step == "hold":
        world.call("do_provisioning_action", node, action="unhold")
    else:
        with world.task(node) as task:
            task.flows.resume("clean")
    assert world.read(node).provision_state == states.MANAGEABLE


def test_w05_a_timed_wait_keeps_the_target_of_manual_cleaning(world, slept):
    node = world.node(
        states.CLEANING,
        target_provision_state=states.MANAGEABLE,
        driver_internal_info={"clean_steps": flowkit.steps("wait", args={"seconds": 1})},
    )
    assert run(world, FLOWS["clean"], node).provision_state == states.MANAGEABLE


# Steps on child nodes.


def with_children(world, flow, step, count=2):
    plan = flowkit.steps(step, execute_on_child_nodes=True)
    parent = world.node(
        flow.kind.running, driver_internal_info={flow.kind.steps_key: plan}, name="parent"
    )
    children = [
        world.node(states.ACTIVE, parent_node=parent.uuid, name=f"child-{n}") for n in range(count)
    ]
    return parent, children


def test_a_step_runs_on_each_child_and_not_on_the_parent(world, flow):
    parent, children = with_children(world, flow, "raid.a")
    stored = run(world, flow, parent)
    assert world.kit.ran_on == [(child.uuid, "raid.a") for child in children]
    assert stored.provision_state == DONE[flow.kind.name]
    assert all(world.read(child).reservation is None for child in children)


def test_children_can_be_limited_by_uuid(world, flow):
    parent, children = with_children(world, flow, "raid.a", count=3)
    internal = dict(parent.driver_internal_info)
    internal[flow.kind.steps_key][0]["limit_child_node_execution"] = [children[1].uuid]
    parent = world.node(flow.kind.running, driver_internal_info=internal)
    for child in children:
        world.call(
            "update_node",
            child,
            patch=[{"op": "replace", "path": "/parent_node", "value": parent.uuid}],
        )
    run(world, flow, parent)
    assert world.kit.ran_on == [(children[1].uuid, "raid.a")]


def test_reserved_power_steps_run_on_children(world, flow):
    parent, children = with_children(world, flow, "power_off", count=1)
    run(world, flow, parent)
    assert world.read(children[0]).power_state == states.POWER_OFF
    assert world.read(parent).power_state == states.POWER_ON


def test_a_pause_can_not_run_on_children(world, flow):
    parent, _ = with_children(world, flow, "hold")
    stored = run(world, flow, parent)
    assert stored.provision_state == flow.kind.failed
    assert "can not be executed on child nodes" in stored.last_error


def test_a_busy_child_fails_the_parent_s_step(world, flow):
    parent, children = with_children(world, flow, "raid.a", count=1)
    with world.task(children[0]):
        stored = run(world, flow, parent)
    assert stored.provision_state == flow.kind.failed
    assert "is locked" in stored.last_error


def test_a_child_that_goes_on_by_itself_needs_permission(world, flow):
    wait = states.CLEANWAIT if flow.kind is not steps.SERVICE else states.SERVICEWAIT
    parent, _ = with_children(world, flow, "raid.a")
    world.kit.results["raid.a"] = wait
    stored = run(world, flow, parent)
    assert stored.provision_state == flow.kind.failed
    assert "permit_child_node_step_async_result" in stored.last_error


def test_with_permission_the_parent_goes_on(world, flow):
    CONF.set_override("permit_child_node_step_async_result", True, group="conductor")
    parent, _ = with_children(world, flow, "raid.a")
    world.kit.results["raid.a"] = states.CLEANWAIT
    assert run(world, flow, parent).provision_state == DONE[flow.kind.name]
