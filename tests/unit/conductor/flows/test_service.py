"""Servicing of active nodes."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from tests.unit.conductor import flowkit


def service(world, node, *names, **kwargs):
    world.call("do_node_service", node, service_steps=flowkit.steps(*names), **kwargs)
    return world.read(node)


@pytest.fixture
def done(world):
    calls = []
    deploy = world.driver.deploy
    deploy.prepare_service = lambda task: calls.append("prepare")
    deploy.tear_down_service = lambda task: calls.append("tear down")
    return calls


@pytest.mark.parametrize("state", [states.ACTIVE, states.SERVICEFAIL, states.SERVICEHOLD])
def test_steps_run_in_the_user_s_order_and_end_active(world, done, state):
    world.kit.offer("service", "raid.a", 1)
    world.kit.offer("service", "network.b", 99)
    stored = service(world, world.node(state), "raid.a", "network.b")
    assert world.kit.ran == ["raid.a", "network.b"]
    assert stored.provision_state == states.ACTIVE
    assert stored.target_provision_state is None
    assert stored.service_step == {}
    assert done == ["prepare", "tear down"]
    assert stored.driver_internal_info == {"service_steps": None}


def test_w22_a_known_step_that_needs_the_ramdisk_boots_it(world, done):
    world.kit.offer("service", "raid.a", requires_ramdisk=True)
    service(world, world.node(states.ACTIVE), "raid.a")
    assert done == ["prepare", "tear down"]


def test_out_of_band_steps_leave_the_instance_running(world, done):
    world.kit.offer("service", "bios.a", requires_ramdisk=False)
    stored = service(world, world.node(states.ACTIVE), "bios.a", "reboot")
    assert stored.provision_state == states.ACTIVE
    assert done == []


def test_unknown_steps_are_asked_of_the_agent(world):
    world.driver.deploy.prepare_service = lambda task: states.SERVICEWAIT
    node = world.node(states.ACTIVE)
    assert service(world, node, "raid.inband").provision_state == states.SERVICEWAIT
    world.kit.offer("service", "raid.inband")
    with world.task(node) as task:
        task.flows.start("service")
    assert world.kit.ran == ["raid.inband"]
    assert world.read(node).provision_state == states.ACTIVE


def test_steps_that_nobody_knows_fail_the_servicing(world, done):
    stored = service(world, world.node(states.ACTIVE), "raid.unknown")
    assert stored.provision_state == states.SERVICEFAIL
    assert "raid.unknown" in stored.last_error
    assert stored.target_provision_state == states.ACTIVE


def test_w49_an_unknown_step_without_ramdisk_fails_instead_of_sticking(world, done):
    stored = service(world, world.node(states.ACTIVE), "raid.unknown", disable_ramdisk=True)
    assert stored.provision_state == states.SERVICEFAIL
    assert "raid.unknown" in stored.last_error
    assert stored.reservation is None
    assert done == []


def test_w17_a_failed_step_is_handled_as_servicing(world, done):
    cleaned = []
    world.driver.deploy.clean_up = cleaned.append
    world.kit.offer("service", "raid.a")
    world.kit.results["raid.a"] = errors.NetworkError("no")
    stored = service(world, world.node(states.ACTIVE), "raid.a")
    assert stored.provision_state == states.SERVICEFAIL
    assert (stored.maintenance, stored.fault) == (True, states.FAULT_SERVICE)
    assert stored.service_step == {}
    assert cleaned == []
    assert done == ["prepare", "tear down"]


def test_a_failure_without_a_ramdisk_leaves_the_instance_alone(world, done):
    world.kit.offer("service", "bios.a", requires_ramdisk=False)
    world.kit.results["bios.a"] = errors.NetworkError("no")
    stored = service(world, world.node(states.ACTIVE), "bios.a")
    assert stored.provision_state == states.SERVICEFAIL
    assert stored.power_state == states.POWER_ON
    assert done == []


def test_w17_an_in_band_failure_is_handled_as_servicing(world, done):
    cleaned = []
    world.driver.deploy.clean_up = cleaned.append
    node = world.node(states.SERVICEWAIT, service_step={"interface": "raid", "step": "a"})
    with world.task(node) as task:
        task.flows.fail("service", "agent: disk gone")
    stored = world.read(node)
    assert stored.provision_state == states.SERVICEFAIL
    assert stored.fault == states.FAULT_SERVICE
    assert stored.last_error.startswith("agent: disk gone. Next: ")
    assert cleaned == []


@pytest.mark.parametrize("steps_", [["hold"], ["wait"]])
@pytest.mark.parametrize("state", [states.ACTIVE, states.SERVICEFAIL])
def test_reserved_steps_reach_their_state_from_a_failed_servicing_too(world, steps_, state):
    stored = service(world, world.node(state), *steps_)
    expected = {"hold": states.SERVICEHOLD, "wait": states.SERVICEWAIT}[steps_[0]]
    assert stored.provision_state == expected


def test_w20_continuing_a_servicing_that_runs_is_refused(world):
    node = world.node(states.SERVICING)
    with pytest.raises(errors.InvalidStateRequested):
        world.call("continue_node_service", node)
    assert world.read(node).provision_state == states.SERVICING


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"state": states.AVAILABLE}, errors.InvalidStateRequested),
        ({"state": states.ACTIVE, "maintenance": True}, errors.NodeInMaintenance),
    ],
)
def test_a_refused_servicing_leaves_the_node_as_it_was(world, values, error):
    node = world.node(**values)
    with pytest.raises(error):
        service(world, node, "raid.a")
    assert world.read(node).provision_state == node.provision_state


def test_no_agent_yet_means_wait(world):
    def prepare(task):
        raise errors.AgentConnectionFailed(reason="no")

    world.kit.offer("service", "raid.a")
    world.driver.deploy.prepare_service = prepare
    assert service(world, world.node(states.ACTIVE), "raid.a").provision_state == (
        states.SERVICEWAIT
    )


def test_the_machine_can_be_switched_off_after_a_failure(world, done):
    CONF.set_override("poweroff_in_servicefail", True, group="conductor")
    world.kit.offer("service", "raid.a")
    world.kit.results["raid.a"] = errors.NetworkError("no")
    stored = service(world, world.node(states.ACTIVE), "raid.a")
    assert stored.power_state == states.POWER_OFF


def test_w21_a_new_plan_is_one_of_its_own_kind(world):
    world.kit.offer("service", "raid.a")
    world.kit.offer("clean", "raid.wrong", 10)
    node = world.node(
        states.SERVICEWAIT,
        service_step={"interface": "raid", "step": "a"},
        driver_internal_info={
            "service_steps": flowkit.steps("raid.a"),
            "service_step_index": 0,
        },
    )
    with world.task(node) as task:
        task.flows.set_steps("service", reset_current=True)
    stored = world.read(node)
    assert [steps.step_id(s) for s in stored.driver_internal_info["service_steps"]] == ["raid.a"]
    assert "clean_steps" not in stored.driver_internal_info
    assert stored.service_step == {}
