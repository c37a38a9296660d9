"""When a conductor asks a machine what it remembers of it: settings and firmware."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states
from tests.unit.conductor import flowkit


@pytest.fixture
def asked(world):
    """What was asked for, and the state of the node then."""
    seen = []
    world.driver.bios.cache_bios_settings = lambda task: seen.append(
        ("bios", task.node.provision_state)
    )
    world.driver.firmware.cache_firmware_components = lambda task: seen.append(
        ("firmware", task.node.provision_state)
    )
    return seen


def twice(state):
    return [("bios", state), ("firmware", state)]


def test_verification_asks_at_its_end(world, asked):
    world.call("do_provisioning_action", world.node(states.ENROLL), action="manage")
    assert asked == twice(states.VERIFYING)


def test_a_failed_verification_does_not_ask(world, asked):
    def fail(task):
        raise errors.InvalidParameterValue("no address")

    world.driver.power.validate = fail
    world.call("do_provisioning_action", world.node(states.ENROLL), action="manage")
    assert asked == []


def test_cleaning_asks_before_and_after_its_steps(world, asked):
    world.kit.offer("clean", "bios.a")
    world.kit.results["bios.a"] = lambda task: asked.append("step")
    world.call("do_node_clean", world.node(), clean_steps=flowkit.steps("bios.a"))
    assert asked == [*twice(states.CLEANING), "step", *twice(states.CLEANING)]


def test_servicing_asks_before_and_after_its_steps(world, asked):
    world.kit.offer("service", "bios.a", requires_ramdisk=False)
    world.kit.results["bios.a"] = lambda task: asked.append("step")
    node = world.node(states.ACTIVE)
    world.call("do_node_service", node, service_steps=flowkit.steps("bios.a"))
    assert asked == [*twice(states.SERVICING), "step", *twice(states.SERVICING)]


def test_inspection_asks_for_the_firmware_only(world, asked):
    world.driver.inspect.continue_inspection = lambda task, inventory, plugin_data: None
    world.call("continue_inspection", world.node(states.INSPECTWAIT), inventory={})
    assert asked == [("firmware", states.INSPECTING)]


@pytest.mark.parametrize("exc", [errors.RedfishError(error="no"), RuntimeError("a defect")])
def test_a_machine_that_does_not_tell_fails_no_cleaning(world, exc):
    def fail(task):
        raise exc

    world.driver.bios.cache_bios_settings = fail
    world.driver.firmware.cache_firmware_components = fail
    world.kit.offer("clean", "bios.a")
    node = world.node()
    world.call("do_node_clean", node, clean_steps=flowkit.steps("bios.a"))
    stored = world.read(node)
    assert (stored.provision_state, stored.last_error) == (states.MANAGEABLE, None)
