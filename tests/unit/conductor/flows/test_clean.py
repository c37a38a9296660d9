"""Cleaning: automated, manual, by runbook."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import runbooks, traits
from ironic_rs.domain import errors, states
from tests.unit.conductor import flowkit


def provide(world, node):
    world.call("do_provisioning_action", node, action="provide")
    return world.read(node)


def clean(world, node, steps, **kwargs):
    world.call("do_node_clean", node, clean_steps=steps, **kwargs)
    return world.read(node)


@pytest.fixture
def done(world):
    """Record what cleaning does with the ramdisk."""
    calls = []
    deploy = world.driver.deploy
    deploy.prepare_cleaning = lambda task: calls.append("prepare")
    deploy.tear_down_cleaning = lambda task: calls.append("tear down")
    return calls


def test_automated_cleaning_ends_available(world, done):
    world.kit.offer("clean", "raid.a", 10)
    node = world.node(driver_internal_info={"agent_secret_token": "old"})
    stored = provide(world, node)
    assert stored.provision_state == states.AVAILABLE
    assert stored.target_provision_state is None
    assert done == ["prepare", "tear down"]
    assert world.kit.ran == ["raid.a"]
    assert stored.clean_step == {}
    assert stored.driver_internal_info == {"clean_steps": None}
    assert world.events(node) == [
        ("automated_cleaning_start", "INFO"),
        ("automated_cleaning_end", "INFO"),
    ]


@pytest.mark.parametrize("node_says", [False, None])
def test_automated_cleaning_can_be_switched_off(world, done, node_says):
    CONF.set_override("automated_clean", node_says is False, group="conductor")
    stored = provide(world, world.node(automated_clean=node_says))
    assert stored.provision_state == states.AVAILABLE
    assert done == []


def test_a_retired_node_is_not_provided(world):
    with pytest.raises(errors.NodeIsRetired):
        provide(world, world.node(retired=True))


def test_maintenance_refuses_providing_only_when_configured(world, done):
    node = world.node(maintenance=True)
    assert provide(world, node).provision_state == states.AVAILABLE
    CONF.set_override("allow_provisioning_in_maintenance", False, group="conductor")
    with pytest.raises(errors.NodeInMaintenance):
        provide(world, world.node(maintenance=True))


def test_the_ramdisk_makes_cleaning_wait_and_its_first_heartbeat_starts_the_plan(world):
    world.driver.deploy.prepare_cleaning = lambda task: states.CLEANWAIT
    node = world.node()
    stored = provide(world, node)
    assert stored.provision_state == states.CLEANWAIT
    assert stored.target_provision_state == states.AVAILABLE
    world.kit.offer("clean", "deploy.erase", 10)
    with world.task(node) as task:
        task.flows.start("clean")
    assert world.kit.ran == ["deploy.erase"]
    assert world.read(node).provision_state == states.AVAILABLE


def test_a_plan_that_can_not_be_made_fails_the_cleaning(world):
    world.driver.deploy.prepare_cleaning = lambda task: states.CLEANWAIT
    node = world.node()
    clean(world, node, flowkit.steps("raid.unknown"))
    with world.task(node) as task:
        task.flows.start("clean")
    stored = world.read(node)
    assert stored.provision_state == states.CLEANFAIL
    assert stored.target_provision_state == states.MANAGEABLE
    assert "raid.unknown" in stored.last_error


def test_manual_cleaning_ends_manageable_after_each_kind_of_event(world, done):
    world.kit.offer("clean", "raid.a", 10)
    world.kit.offer("clean", "raid.b", 0)
    world.kit.results["raid.b"] = states.CLEANWAIT
    node = world.node()
    stored = clean(world, node, flowkit.steps("raid.b", "raid.a"))
    assert stored.provision_state == states.CLEANWAIT
    assert stored.target_provision_state == states.MANAGEABLE
    world.call("continue_node_clean", node)
    stored = world.read(node)
    assert stored.provision_state == states.MANAGEABLE
    assert world.kit.ran == ["raid.b", "raid.a"]
    assert ("manual_cleaning_end", "INFO") in world.events(node)


def test_out_of_band_steps_do_without_the_ramdisk(world, done):
    world.kit.offer("clean", "bios.reset", requires_ramdisk=False)
    stored = clean(world, world.node(), flowkit.steps("bios.reset", "reboot"))
    assert stored.provision_state == states.MANAGEABLE
    assert done == []


def test_the_ramdisk_can_be_disabled(world, done):
    world.kit.offer("clean", "bios.reset", requires_ramdisk=False)
    stored = clean(world, world.node(), flowkit.steps("bios.reset"), disable_ramdisk=True)
    assert stored.provision_state == states.MANAGEABLE
    assert done == []


def test_a_step_that_needs_the_disabled_ramdisk_fails_the_cleaning(world, done):
    world.kit.offer("clean", "deploy.erase")
    stored = clean(world, world.node(), flowkit.steps("deploy.erase"), disable_ramdisk=True)
    assert stored.provision_state == states.CLEANFAIL
    assert "needs a ramdisk" in stored.last_error
    assert world.kit.ran == []


def test_a_failure_without_a_ramdisk_leaves_none_to_tear_down(world, done):
    world.kit.offer("clean", "bios.reset", requires_ramdisk=False)
    world.kit.results["bios.reset"] = errors.NetworkError("no")
    stored = clean(world, world.node(), flowkit.steps("bios.reset"), disable_ramdisk=True)
    assert stored.provision_state == states.CLEANFAIL
    assert done == []


def test_an_abort_without_a_ramdisk_leaves_none_to_tear_down(world, done):
    world.kit.offer("clean", "bios.reset", requires_ramdisk=False)
    node = world.node()
    clean(world, node, flowkit.steps("hold", "bios.reset"), disable_ramdisk=True)
    world.call("do_provisioning_action", node, action="abort")
    assert world.read(node).provision_state == states.CLEANFAIL
    assert done == []


def test_a_failed_step_puts_the_node_into_maintenance(world, done):
    world.kit.offer("clean", "raid.a", 10)
    world.kit.results["raid.a"] = errors.NetworkError("no")
    node = world.node(driver_internal_info={"agent_secret_token": "old"})
    stored = provide(world, node)
    assert stored.provision_state == states.CLEANFAIL
    assert stored.target_provision_state == states.AVAILABLE
    assert stored.maintenance is True
    assert stored.fault == states.FAULT_CLEAN
    assert "raid.a" in stored.maintenance_reason
    assert stored.last_error.startswith(stored.maintenance_reason)
    assert "agent_secret_token" not in stored.driver_internal_info
    assert done == ["prepare", "tear down"]


def test_the_operator_s_maintenance_and_reason_are_never_touched(world, done):
    world.kit.offer("clean", "raid.a", 10)
    world.kit.results["raid.a"] = errors.NetworkError("no")
    node = world.node(maintenance=True, maintenance_reason="moving racks")
    stored = provide(world, node)
    assert stored.maintenance_reason == "moving racks"
    assert stored.fault is None


def test_a_failure_before_any_step_sets_no_maintenance(world):
    def refuse(task):
        raise errors.MissingParameterValue("no network")

    world.driver.network.validate = refuse
    stored = provide(world, world.node())
    assert stored.provision_state == states.CLEANFAIL
    assert stored.maintenance is False
    assert "no network" in stored.last_error


def test_a_failing_tear_down_is_appended_to_the_first_error(world):
    def tear_down(task):
        raise errors.NetworkError("second")

    world.kit.offer("clean", "raid.a", 10)
    world.kit.results["raid.a"] = errors.NetworkError("first")
    world.driver.deploy.tear_down_cleaning = tear_down
    text = provide(world, world.node()).last_error
    assert text.index("first") < text.index("second")


def test_a_failing_tear_down_at_the_end_fails_the_cleaning(world):
    def tear_down(task):
        raise OSError("no")

    world.driver.deploy.tear_down_cleaning = tear_down
    stored = provide(world, world.node())
    assert stored.provision_state == states.CLEANFAIL
    assert "tear down" in stored.last_error


def test_no_agent_yet_means_wait(world):
    def prepare(task):
        raise errors.AgentConnectionFailed(reason="no")

    world.driver.deploy.prepare_cleaning = prepare
    assert provide(world, world.node()).provision_state == states.CLEANWAIT


def test_the_machine_can_be_switched_off_after_a_failure(world, done):
    CONF.set_override("poweroff_in_cleanfail", True, group="conductor")
    world.kit.offer("clean", "raid.a", 10)
    world.kit.results["raid.a"] = errors.NetworkError("first")
    stored = provide(world, world.node())
    assert stored.power_state == states.POWER_OFF
    assert "first" in stored.last_error


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"state": states.AVAILABLE}, errors.InvalidStateRequested),
        ({"maintenance": True}, errors.NodeInMaintenance),
    ],
)
def test_manual_cleaning_is_refused_and_the_node_unchanged(world, values, error):
    node = world.node(**values)
    with pytest.raises(error):
        clean(world, node, flowkit.steps("raid.a"))
    assert world.read(node).provision_state == node.provision_state
    assert world.read(node).reservation is None


def test_a_disallowed_step_is_refused(world):
    node = world.node()
    with pytest.raises(errors.StepNotAllowed):
        clean(world, node, flowkit.steps("vendor.send_raw"))
    assert world.read(node).provision_state == states.MANAGEABLE


def test_no_more_cleanings_than_allowed(world):
    CONF.set_override("max_concurrent_clean", 1, group="conductor")
    world.node(states.CLEANWAIT)
    with pytest.raises(errors.ConcurrentActionLimit):
        clean(world, world.node(), flowkit.steps("raid.a"))


# Runbooks.


@pytest.fixture
def runbook(world, done):
    CONF.set_override("automated_cleaning_step_source", "runbook", group="conductor")
    CONF.set_override("automated_cleaning_runbook", "CUSTOM_CLEAN", group="conductor")
    world.kit.offer("clean", "raid.a", 0)
    world.kit.offer("clean", "raid.b", 99)
    return runbooks.create(
        {
            "name": "CUSTOM_CLEAN",
            "traits": ["CUSTOM_X"],
            "disable_ramdisk": False,
            "steps": [
                {"interface": "raid", "step": "b", "args": {}, "order": 2},
                {"interface": "raid", "step": "a", "args": {}, "order": 1},
            ],
        }
    )


def test_automated_cleaning_by_runbook_runs_its_steps_in_order(world, runbook):
    node = world.node()
    traits.set_traits(node.id, ["CUSTOM_X"])
    stored = provide(world, node)
    assert world.kit.ran == ["raid.a", "raid.b"]
    assert stored.provision_state == states.AVAILABLE


def test_a_runbook_must_share_a_trait_with_the_node(world, runbook):
    node = world.node()
    with pytest.raises(errors.NodeCleaningFailure, match="no trait in common"):
        provide(world, node)
    assert world.read(node).provision_state == states.MANAGEABLE


def test_the_node_may_name_its_runbook_when_that_is_allowed(world, runbook):
    CONF.set_override("automated_cleaning_runbook_validate_traits", False, group="conductor")
    node = world.node(driver_info={"cleaning_runbook": "missing"})
    assert provide(world, node).provision_state == states.AVAILABLE
    CONF.set_override("automated_cleaning_runbook_from_node", True, group="conductor")
    with pytest.raises(errors.NodeCleaningFailure, match="'missing' does not exist"):
        provide(world, world.node(driver_info={"cleaning_runbook": "missing"}))


def test_without_any_runbook_hybrid_falls_back_to_the_drivers_steps(world, runbook):
    CONF.set_override("automated_cleaning_runbook", None, group="conductor")
    with pytest.raises(errors.NodeCleaningFailure):
        provide(world, world.node())
    CONF.set_override("automated_cleaning_step_source", "hybrid", group="conductor")
    provide(world, world.node())
    assert world.kit.ran == ["raid.b"]
