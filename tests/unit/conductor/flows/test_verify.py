"""Verification: from enroll to manageable."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states


def manage(world, node):
    world.call("do_provisioning_action", node, action="manage")
    return world.read(node)


def test_a_node_with_working_power_credentials_becomes_manageable(world):
    node = world.node(states.ENROLL, power_state=None)
    world.driver.power.get_power_state = lambda task: states.POWER_OFF
    stored = manage(world, node)
    assert stored.provision_state == states.MANAGEABLE
    assert stored.target_provision_state is None
    assert stored.power_state == states.POWER_OFF
    assert stored.reservation is None
    assert stored.last_error is None


def test_what_the_machine_tells_is_remembered(world):
    world.driver.management.detect_vendor = lambda task: "acme"
    world.driver.management.get_boot_mode = lambda task: "uefi"
    world.driver.management.get_secure_boot_state = lambda task: True
    stored = manage(world, world.node(states.ENROLL))
    assert stored.properties["vendor"] == "acme"
    assert (stored.boot_mode, stored.secure_boot) == ("uefi", True)


def test_a_machine_that_tells_nothing_is_verified_all_the_same(world):
    def broken(task):
        raise OSError("no")

    world.driver.management.get_boot_mode = broken
    world.driver.bios.cache_bios_settings = broken
    assert manage(world, world.node(states.ENROLL)).provision_state == states.MANAGEABLE


@pytest.mark.parametrize("answer", [errors.RedfishError(error="refused"), states.POWER_ERROR])
def test_bad_power_credentials_send_the_node_back_to_enroll(world, answer):
    def read(task):
        if isinstance(answer, Exception):
            raise answer
        return answer

    world.driver.power.get_power_state = read
    node = world.node(states.ENROLL)
    stored = manage(world, node)
    assert stored.provision_state == states.ENROLL
    assert stored.target_provision_state is None
    assert "Failed to verify node" in stored.last_error
    assert world.events(node) == [("verify", "ERROR")]


def test_w47_verify_steps_never_run_without_working_credentials(world):
    world.kit.offer("verify", "management.reset_bmc", 10)
    world.driver.power.validate = _refuse
    assert manage(world, world.node(states.ENROLL)).provision_state == states.ENROLL
    assert world.kit.ran == []


def test_w47_verification_stops_at_the_first_failed_step(world):
    world.kit.offer("verify", "management.first", 20)
    world.kit.offer("verify", "management.second", 10)
    world.kit.results["management.first"] = ValueError("broken")
    stored = manage(world, world.node(states.ENROLL))
    assert world.kit.ran == ["management.first"]
    assert stored.provision_state == states.ENROLL
    assert "management.first" in stored.last_error
    assert "ValueError: broken" in stored.last_error


def test_verify_steps_run_by_priority(world):
    world.kit.offer("verify", "management.low", 1)
    world.kit.offer("verify", "management.high", 9)
    manage(world, world.node(states.ENROLL))
    assert world.kit.ran == ["management.high", "management.low"]


def _refuse(task):
    raise errors.InvalidParameterValue("no credentials")
