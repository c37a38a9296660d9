"""Rescue and unrescue."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states


def rescue(world, node, password="s3cret"):
    world.call("do_node_rescue", node, rescue_password=password)
    return world.read(node)


def test_a_rescue_that_waits_keeps_only_what_the_agent_needs(world):
    world.driver.rescue.rescue = lambda task: states.RESCUEWAIT
    node = world.node(states.ACTIVE, driver_internal_info={"agent_secret_token": "old"})
    stored = rescue(world, node)
    assert stored.provision_state == states.RESCUEWAIT
    assert stored.instance_info["hashed_rescue_password"].startswith("$5$")
    assert "agent_secret_token" not in stored.driver_internal_info

    networks = []
    world.driver.network.configure_tenant_networks = networks.append
    with world.task(node) as task:
        task.flows.resume("rescue")
    assert world.read(node).provision_state == states.RESCUE
    assert len(networks) == 1


def test_a_rescue_that_can_not_be_finished_fails(world):
    def fail(task):
        raise OSError("stuck")

    world.driver.network.configure_tenant_networks = fail
    node = world.node(states.RESCUEWAIT)
    with world.task(node) as task:
        task.flows.resume("rescue")
    stored = world.read(node)
    assert stored.provision_state == states.RESCUEFAIL
    assert "stuck" in stored.last_error


@pytest.mark.parametrize("result", [errors.NetworkError("no"), "odd"])
def test_a_failed_rescue_forgets_the_password(world, result):
    def start(task):
        if isinstance(result, Exception):
            raise result
        return result

    world.driver.rescue.rescue = start
    stored = rescue(world, world.node(states.ACTIVE))
    assert stored.provision_state == states.RESCUEFAIL
    assert stored.instance_info == {}
    assert "rescue" in stored.last_error


def test_w12_a_rescue_without_a_worker_is_undone(world):
    world.workers.full = True
    node = world.node(states.ACTIVE)
    with pytest.raises(errors.NoFreeConductorWorker):
        rescue(world, node)
    stored = world.read(node)
    assert stored.provision_state == states.ACTIVE
    assert stored.target_provision_state is None
    assert stored.instance_info == {}


def test_a_node_that_can_not_be_rescued_is_refused(world):
    def refuse(task):
        raise errors.MissingParameterValue("no rescue ramdisk")

    world.driver.rescue.validate = refuse
    node = world.node(states.ACTIVE)
    with pytest.raises(errors.InstanceRescueFailure, match="no rescue ramdisk"):
        rescue(world, node)
    stored = world.read(node)
    assert stored.provision_state == states.ACTIVE
    assert stored.instance_info == {}


def test_unrescue_returns_to_the_instance(world):
    node = world.node(states.RESCUE, driver_internal_info={"agent_url": "https://x"})
    world.call("do_node_unrescue", node)
    stored = world.read(node)
    assert stored.provision_state == states.ACTIVE
    assert stored.driver_internal_info == {}


def test_a_failed_unrescue_can_be_tried_again(world):
    def fail(task):
        raise errors.NetworkError("no")

    world.driver.rescue.unrescue = fail
    node = world.node(states.RESCUE)
    world.call("do_node_unrescue", node)
    assert world.read(node).provision_state == states.UNRESCUEFAIL
    del world.driver.rescue.unrescue
    world.call("do_node_unrescue", node)
    assert world.read(node).provision_state == states.ACTIVE


@pytest.mark.parametrize("method", ["do_node_rescue", "do_node_unrescue"])
def test_maintenance_refuses(world, method):
    args = {"rescue_password": "x"} if method == "do_node_rescue" else {}
    with pytest.raises(errors.NodeInMaintenance):
        world.call(method, world.node(states.RESCUE, maintenance=True), **args)


SECRETS = {"rescue_password": "s3cret", "hashed_rescue_password": "$5$x", "kept": 1}


def test_the_password_is_forgotten_when_the_rescue_is_over_whatever_the_driver_does(world):
    stored = rescue(world, world.node(states.ACTIVE))
    assert stored.provision_state == states.RESCUE
    assert stored.instance_info == {}

    waiting = world.node(states.RESCUEWAIT, instance_info=dict(SECRETS))
    with world.task(waiting) as task:
        task.flows.resume("rescue")
    assert world.read(waiting).instance_info == {"kept": 1}


@pytest.mark.parametrize("broken", ["power", "rescue"])
def test_the_password_and_the_ramdisk_s_leftovers_go_also_when_the_other_part_fails(world, broken):
    def fail(*args, **kwargs):
        raise errors.PowerStateFailure("the BMC does not answer")

    cleaned = []
    world.driver.rescue.clean_up = cleaned.append
    if broken == "power":
        world.driver.power.set_power_state = fail
    else:
        world.driver.rescue.clean_up = fail
    node = world.node(states.RESCUEWAIT, instance_info=dict(SECRETS))
    with world.task(node) as task:
        task.flows.fail("rescue", "no agent")
    stored = world.read(node)
    assert stored.provision_state == states.RESCUEFAIL
    assert stored.last_error.startswith("no agent. Afterwards: ")
    assert "the BMC does not answer" in stored.last_error
    assert stored.instance_info == {"kept": 1}
    assert len(cleaned) == (1 if broken == "power" else 0)


def test_an_aborted_rescue_says_so(world):
    node = world.node(states.RESCUEWAIT, instance_info=dict(SECRETS))
    world.call("do_provisioning_action", node, action="abort")
    stored = world.read(node)
    assert stored.provision_state == states.RESCUEFAIL
    assert "aborted on request" in stored.last_error
    assert stored.instance_info == {"kept": 1}
