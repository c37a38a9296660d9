"""Adoption, and take-over from another conductor."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.flows import takeover
from ironic_rs.domain import errors, states


def adopt(world, node):
    world.call("do_provisioning_action", node, action="adopt")
    return world.read(node)


@pytest.mark.parametrize("state", [states.MANAGEABLE, states.ADOPTFAIL])
def test_an_adopted_node_is_active_and_ours(world, state):
    calls = []
    world.driver.deploy.prepare = lambda task: calls.append("prepare")
    world.driver.deploy.take_over = lambda task: calls.append("take over")
    stored = adopt(world, world.node(state, instance_info={"image_source": "http://h/i"}))
    assert stored.provision_state == states.ACTIVE
    assert stored.conductor_affinity == world.conductor_id
    assert calls == ["prepare", "take over"]


def test_a_failed_adoption_names_what_is_missing_and_can_be_tried_again(world):
    def prepare(task):
        raise errors.MissingParameterValue("kernel is missing")

    world.driver.deploy.prepare = prepare
    node = world.node()
    stored = adopt(world, node)
    assert stored.provision_state == states.ADOPTFAIL
    assert "kernel is missing" in stored.last_error
    assert stored.power_state is None
    del world.driver.deploy.prepare
    assert adopt(world, node).provision_state == states.ACTIVE


def test_boot_is_checked_when_the_instance_does_not_boot_from_disk(world, monkeypatch):
    def validate(task):
        raise errors.MissingParameterValue("boot_iso is missing")

    world.driver.boot.validate = validate
    assert adopt(world, world.node()).provision_state == states.ACTIVE
    monkeypatch.setattr("ironic_rs.domain.capabilities.boot_option", lambda node: "ramdisk")
    stored = adopt(world, world.node())
    assert stored.provision_state == states.ADOPTFAIL
    assert "boot_iso is missing" in stored.last_error


def test_a_console_is_part_of_a_take_over_and_never_breaks_it(world):
    def start(task):
        raise OSError("no")

    world.driver.console.start_console = start
    node = world.node(states.ACTIVE, console_enabled=True)
    with world.task(node) as task:
        takeover.do_takeover(task)
    stored = world.read(node)
    assert stored.console_enabled is False
    assert stored.conductor_affinity == world.conductor_id
    assert ("takeover", "ERROR") in world.events(node)
