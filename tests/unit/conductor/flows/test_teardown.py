"""Undeploy, and the automated cleaning after it."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import allocations, nodes
from ironic_rs.domain import errors, states

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"


def tear_down(world, node):
    world.call("do_node_tear_down", node)
    return world.read(node)


def deployed(world, state=states.ACTIVE, **values):
    row = {
        "instance_uuid": UUID,
        "instance_name": "web",
        "instance_info": {"image_source": "x", "configdrive": "y"},
        "driver_internal_info": {
            "agent_url": "https://x",
            "root_uuid_or_disk_id": "1",
            "is_whole_disk_image": True,
            "keep": 1,
        },
    }
    return world.node(state, **(row | values))


def test_undeploy_forgets_the_instance_and_cleans(world):
    world.kit.offer("clean", "raid.a", 10)
    stored = tear_down(world, deployed(world))
    assert stored.provision_state == states.AVAILABLE
    assert stored.instance_uuid is None
    assert stored.instance_name is None
    assert stored.instance_info == {}
    assert stored.driver_internal_info == {"keep": 1, "deploy_steps": None, "clean_steps": None}
    assert world.kit.ran == ["raid.a"]
    assert stored.last_error is None


def test_a_retired_node_ends_manageable(world):
    assert tear_down(world, deployed(world, retired=True)).provision_state == states.MANAGEABLE
    CONF.set_override("automated_clean", False, group="conductor")
    node = deployed(world, retired=True, instance_uuid=None)
    assert tear_down(world, node).provision_state == states.MANAGEABLE


def test_vifs_are_detached_and_a_missing_one_does_not_matter(world):
    asked = []

    def detach(task, vif):
        asked.append(vif)
        raise errors.VifNotAttached(vif=vif, node="n")

    world.driver.network.vif_list = lambda task: [{"id": "a"}, {"id": "b"}]
    world.driver.network.vif_detach = detach
    assert tear_down(world, deployed(world)).provision_state == states.AVAILABLE
    assert asked == ["a", "b"]


@pytest.mark.parametrize("part", ["tear_down", "clean_up", "vif"])
def test_w18_a_failed_tear_down_forgets_nothing_and_fails_once(world, part):
    def fail(*args):
        raise OSError("stuck")

    if part == "vif":
        world.driver.network.vif_list = fail
    else:
        setattr(world.driver.deploy, part, fail)
    node = deployed(world)
    stored = tear_down(world, node)
    assert stored.provision_state == states.ERROR
    assert stored.instance_uuid == UUID
    assert stored.instance_info == {"image_source": "x", "configdrive": "y"}
    assert "stuck" in stored.last_error
    assert world.events(node) == [("unprovision", "ERROR")]


def test_w18_the_allocation_goes_only_with_the_instance(world):
    node = deployed(world, instance_uuid=None)
    allocation = allocations.create(
        {"uuid": UUID, "state": "active", "resource_class": "r", "node_id": node.id}
    )
    nodes.update(node, {"allocation_id": allocation.id, "instance_uuid": UUID}, fence=None)

    def fail(task):
        raise OSError("stuck")

    world.driver.deploy.tear_down = fail
    tear_down(world, node)
    assert allocations.get(allocation.id).state == "active"
    del world.driver.deploy.tear_down
    stored = tear_down(world, node)
    assert stored.allocation_id is None
    with pytest.raises(errors.AllocationNotFound):
        allocations.get(allocation.id)


def test_w18_a_missing_runbook_fails_the_cleaning_not_the_tear_down(world):
    CONF.set_override("automated_cleaning_step_source", "runbook", group="conductor")
    stored = tear_down(world, deployed(world))
    assert stored.provision_state == states.CLEANFAIL
    assert stored.instance_uuid is None
    assert "runbook" in stored.last_error


def test_an_automatic_lessee_goes_with_the_instance(world):
    info = {"automatic_lessee": True}
    assert tear_down(world, deployed(world, lessee="p", driver_internal_info=info)).lessee is None
    node = deployed(world, lessee="p", driver_internal_info={}, instance_uuid=None)
    assert tear_down(world, node).lessee == "p"


@pytest.mark.parametrize("state", sorted(states.RESCUE_CLEANUP_ON_TEARDOWN))
def test_a_rescued_node_is_cleaned_up_first(world, state):
    called = []
    world.driver.rescue.clean_up = called.append
    tear_down(world, deployed(world, state))
    assert len(called) == 1


def test_a_running_console_is_stopped_and_stays_wanted(world):
    stopped = []
    world.driver.console.stop_console = stopped.append
    stored = tear_down(world, deployed(world, console_enabled=True))
    assert len(stopped) == 1
    assert stored.console_enabled is True


def test_servicing_leftovers_go_with_the_instance(world):
    node = deployed(
        world,
        states.SERVICEWAIT,
        service_step={"step": "x"},
        driver_internal_info={"service_steps": [{"step": "x"}], "service_step_index": 0},
    )
    stored = tear_down(world, node)
    assert stored.service_step == {}
    assert "service_step_index" not in stored.driver_internal_info


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"protected": True}, errors.NodeProtected),
        ({"state": states.AVAILABLE}, errors.InvalidStateRequested),
    ],
)
def test_a_refused_tear_down_leaves_the_node_as_it_was(world, values, error):
    node = deployed(world, **values)
    with pytest.raises(error):
        tear_down(world, node)
    stored = world.read(node)
    assert stored.provision_state == node.provision_state
    assert stored.driver_internal_info == node.driver_internal_info


def test_bad_power_credentials_refuse_the_tear_down(world):
    def refuse(task):
        raise errors.InvalidParameterValue("no address")

    world.driver.power.validate = refuse
    with pytest.raises(errors.InstanceDeployFailure, match="no address"):
        tear_down(world, deployed(world))


def test_no_more_tear_downs_than_allowed(world):
    CONF.set_override("max_concurrent_clean", 1, group="conductor")
    world.node(states.DELETING)
    with pytest.raises(errors.ConcurrentActionLimit):
        tear_down(world, deployed(world))


@pytest.mark.parametrize(
    ("state", "field"),
    [(states.DEPLOYWAIT, "deploy_step"), (states.SERVICEWAIT, "service_step")],
)
def test_the_flow_that_waited_is_over_even_if_the_tear_down_fails(world, state, field):
    def fail(task):
        raise errors.NetworkError("no")

    world.driver.deploy.tear_down = fail
    kind = field.partition("_")[0]
    info = {f"{kind}_steps": [], f"{kind}_step_index": 0, f"skip_current_{kind}_step": False}
    step = {"interface": "raid", "step": "a"}
    node = deployed(world, state, driver_internal_info=info, **{field: step})
    stored = tear_down(world, node)
    assert stored.provision_state == states.ERROR
    assert getattr(stored, field) == {}
    assert set(stored.driver_internal_info) == {f"{kind}_steps"}
    assert stored.instance_uuid == UUID


def test_the_password_of_a_rescue_goes_even_if_the_tear_down_fails(world):
    def fail(task):
        raise errors.NetworkError("no")

    world.driver.rescue.clean_up = fail
    node = deployed(world, states.RESCUEWAIT, instance_info={"hashed_rescue_password": "x", "a": 1})
    stored = tear_down(world, node)
    assert stored.provision_state == states.ERROR
    assert stored.instance_info == {"a": 1}
