"""The abort verb, in every state that knows it, and unhold."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states, steps
from tests.unit.conductor import flowkit

KINDS = sorted(steps.KINDS)


def in_flow(world, kind, state, **values):
    """Store a node whose flow rests in the middle of step raid.a."""
    step = {"interface": "raid", "step": "a", "abortable": True}
    row = {
        kind.field: step,
        "driver_internal_info": {
            kind.steps_key: flowkit.steps("raid.a", "raid.b"),
            kind.index_key: 0,
            "agent_url": "https://x",
        },
    }
    return world.node(state, **(row | values))


def abort(world, node):
    world.call("do_provisioning_action", node, action="abort")
    return world.read(node)


@pytest.fixture
def torn_down(world):
    calls = []
    deploy = world.driver.deploy
    deploy.tear_down_cleaning = lambda task: calls.append("clean")
    deploy.clean_up = lambda task: calls.append("deploy")
    deploy.tear_down_service = lambda task: calls.append("service")
    return calls


@pytest.mark.parametrize("place", ["wait", "hold"])
@pytest.mark.parametrize("name", ["clean", "deploy"])
def test_an_abortable_step_is_aborted_at_once(world, torn_down, name, place):
    kind = steps.KINDS[name]
    node = in_flow(world, kind, getattr(kind, place))
    stored = abort(world, node)
    assert stored.provision_state == kind.failed
    assert torn_down == [name]
    assert "aborted on request" in stored.last_error
    assert "raid.a" in stored.last_error
    assert getattr(stored, kind.field) == {}
    assert kind.index_key not in stored.driver_internal_info
    assert "agent_url" not in stored.driver_internal_info
    assert stored.maintenance is False


@pytest.mark.parametrize("name", KINDS)
def test_a_step_that_must_not_be_broken_off_is_aborted_after_it(world, torn_down, name):
    kind = steps.KINDS[name]
    step = {"interface": "raid", "step": "a", "abortable": False}
    node = in_flow(world, kind, kind.wait, **{kind.field: step})
    stored = abort(world, node)
    assert stored.provision_state == kind.wait
    assert getattr(stored, kind.field)["abort_after"] is True
    assert abort(world, node).provision_state == kind.wait, "twice is harmless"
    assert torn_down == []

    world.call(f"continue_node_{name}", node)
    stored = world.read(node)
    assert world.kit.ran == []
    assert torn_down == [name]
    assert "aborted on request" in stored.last_error
    assert stored.provision_state == kind.failed, "never success"
    assert getattr(stored, kind.field) == {}


def test_an_abort_after_the_last_step_never_ends_as_success(world, torn_down):
    step = {"interface": "raid", "step": "b", "abort_after": True}
    node = world.node(
        states.CLEANWAIT,
        target_provision_state=states.MANAGEABLE,
        clean_step=step,
        driver_internal_info={"clean_steps": flowkit.steps("raid.b"), "clean_step_index": 0},
    )
    world.call("continue_node_clean", node)
    stored = world.read(node)
    assert stored.provision_state == states.CLEANFAIL
    assert stored.target_provision_state == states.MANAGEABLE


def test_an_aborted_manual_cleaning_keeps_its_target(world, torn_down):
    node = in_flow(world, steps.CLEAN, states.CLEANWAIT, target_provision_state=states.MANAGEABLE)
    assert abort(world, node).target_provision_state == states.MANAGEABLE


def test_w16_abort_of_a_held_deployment_keeps_the_instance(world, torn_down):
    node = in_flow(world, steps.DEPLOY, states.DEPLOYHOLD, instance_info={"image_source": "x"})
    stored = abort(world, node)
    assert stored.provision_state == states.DEPLOYFAIL
    assert stored.instance_info == {"image_source": "x"}
    assert stored.reservation is None


def test_a_held_flow_is_aborted_at_once_whatever_its_step_says(world, torn_down):
    node = in_flow(
        world, steps.CLEAN, states.CLEANHOLD, clean_step={"interface": "x", "step": "hold"}
    )
    assert abort(world, node).provision_state == states.CLEANFAIL


def test_a_clean_up_that_fails_is_recorded(world):
    def fail(task):
        raise OSError("stuck")

    world.driver.deploy.tear_down_cleaning = fail
    stored = abort(world, in_flow(world, steps.CLEAN, states.CLEANWAIT))
    assert stored.provision_state == states.CLEANFAIL
    assert stored.maintenance is True
    assert "aborted on request" in stored.last_error
    assert "stuck" in stored.last_error


def test_w15_a_clean_up_that_fails_after_a_deploy_abort_is_recorded(world):
    def fail(task):
        raise OSError("stuck")

    world.driver.deploy.clean_up = fail
    stored = abort(world, in_flow(world, steps.DEPLOY, states.DEPLOYWAIT))
    assert stored.provision_state == states.DEPLOYFAIL
    assert "stuck" in stored.last_error
    assert stored.reservation is None


@pytest.mark.parametrize("place", ["wait", "hold"])
def test_w19_an_aborted_servicing_is_active_only_when_the_instance_runs(world, place):
    kind = steps.SERVICE
    seen = []

    def tear_down(task):
        seen.append(world.read(task.node).provision_state)

    world.driver.deploy.tear_down_service = tear_down
    node = in_flow(world, kind, getattr(kind, place), power_state=states.POWER_OFF)
    stored = abort(world, node)
    assert seen == [states.SERVICEFAIL]
    assert stored.provision_state == states.ACTIVE
    assert stored.power_state == states.POWER_ON
    assert stored.service_step == {}
    assert stored.target_provision_state is None


def test_w19_an_instance_that_does_not_come_back_is_not_called_active(world):
    def fail(task):
        raise OSError("stuck")

    world.driver.deploy.tear_down_service = fail
    stored = abort(world, in_flow(world, steps.SERVICE, states.SERVICEWAIT))
    assert stored.provision_state == states.SERVICEFAIL
    assert "stuck" in stored.last_error
    assert stored.service_step == {}


def test_the_ramdisk_is_off_before_the_instance_comes_back(world):
    calls = []
    world.driver.power.set_power_state = lambda task, state, timeout=None: calls.append(state)
    world.driver.deploy.tear_down_service = lambda task: calls.append("tear down")
    world.driver.boot.prepare_instance = lambda task: calls.append("instance")
    node = in_flow(
        world,
        steps.SERVICE,
        states.SERVICEWAIT,
        driver_internal_info={"agent_start_attempted": True},
    )
    abort(world, node)
    assert calls == [states.POWER_OFF, "tear down", "instance", states.POWER_ON]


def test_servicing_without_a_ramdisk_leaves_the_instance_alone(world, torn_down):
    node = in_flow(
        world,
        steps.SERVICE,
        states.SERVICEHOLD,
        driver_internal_info={"service_disable_ramdisk": True},
    )
    assert abort(world, node).provision_state == states.ACTIVE
    assert torn_down == []


def test_a_failed_servicing_can_be_left(world, torn_down):
    node = world.node(states.SERVICEFAIL, service_step={"interface": "x", "step": "y"})
    stored = abort(world, node)
    assert stored.provision_state == states.ACTIVE
    assert torn_down == ["service"]


def test_a_failed_servicing_in_maintenance_can_not_be_left(world):
    node = world.node(states.SERVICEFAIL, maintenance=True)
    with pytest.raises(errors.InvalidState, match="maintenance"):
        abort(world, node)
    assert world.read(node).provision_state == states.SERVICEFAIL


def test_an_aborted_rescue_forgets_the_password(world):
    cleaned = []
    world.driver.rescue.clean_up = cleaned.append
    node = world.node(
        states.RESCUEWAIT,
        instance_info={"rescue_password": "x", "hashed_rescue_password": "y"},
        driver_internal_info={"agent_url": "https://x"},
    )
    stored = abort(world, node)
    assert stored.provision_state == states.RESCUEFAIL
    assert stored.instance_info == {}
    assert stored.driver_internal_info == {}
    assert len(cleaned) == 1
    assert world.events(node) == [("rescue", "INFO")]


def test_a_rescue_abort_that_fails_asks_for_an_operator(world):
    def fail(task):
        raise OSError("stuck")

    world.driver.rescue.clean_up = fail
    stored = abort(world, world.node(states.RESCUEWAIT))
    assert stored.provision_state == states.RESCUEFAIL
    assert (stored.maintenance, stored.fault) == (True, states.FAULT_RESCUE_ABORT)
    assert "stuck" in stored.maintenance_reason


ABORTABLE = states.ABORTABLE_BY_VERB


@pytest.mark.parametrize("state", sorted(set(states.STATES) - ABORTABLE))
def test_abort_is_refused_everywhere_else(world, state):
    node = world.node(state)
    with pytest.raises(errors.InvalidStateRequested):
        abort(world, node)
    stored = world.read(node)
    assert stored.provision_state == state
    assert stored.reservation is None


@pytest.mark.parametrize("name", KINDS)
def test_without_a_worker_an_abort_changes_nothing(world, name):
    kind = steps.KINDS[name]
    world.workers.full = True
    node = in_flow(world, kind, kind.wait)
    with pytest.raises(errors.NoFreeConductorWorker):
        abort(world, node)
    stored = world.read(node)
    assert stored.provision_state == kind.wait
    assert stored.target_provision_state == node.target_provision_state


# Unhold.


def held(world, kind, **values):
    internal = {
        kind.steps_key: flowkit.steps("hold", "raid.b"),
        kind.index_key: 0,
    }
    step = {"interface": "deploy", "step": "hold"}
    return world.node(kind.hold, **({kind.field: step, "driver_internal_info": internal} | values))


@pytest.mark.parametrize("name", KINDS)
def test_w04_unhold_goes_on_at_once_for_every_kind(world, name):
    kind = steps.KINDS[name]
    node = held(world, kind)
    world.call("do_provisioning_action", node, action="unhold")
    assert world.kit.ran == ["raid.b"]
    stored = world.read(node)
    assert stored.provision_state in (states.AVAILABLE, states.ACTIVE)
    assert stored.reservation is None


@pytest.mark.parametrize("name", KINDS)
def test_w04_without_a_worker_the_flow_stays_held(world, name):
    kind = steps.KINDS[name]
    world.workers.full = True
    node = held(world, kind)
    with pytest.raises(errors.NoFreeConductorWorker):
        world.call("do_provisioning_action", node, action="unhold")
    stored = world.read(node)
    assert stored.provision_state == kind.hold
    assert stored.target_provision_state == node.target_provision_state
    assert world.kit.ran == []


def test_w05_unhold_keeps_the_target_of_manual_cleaning(world):
    node = held(world, steps.CLEAN, target_provision_state=states.MANAGEABLE)
    world.call("do_provisioning_action", node, action="unhold")
    assert world.read(node).provision_state == states.MANAGEABLE


def test_unhold_is_refused_elsewhere(world):
    with pytest.raises(errors.InvalidStateRequested):
        world.call("do_provisioning_action", world.node(states.CLEANWAIT), action="unhold")
