"""Inspection: out-of-band, waiting for a ramdisk, abort."""

from __future__ import annotations

import re

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import inspection_rules, inventory, ports, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.inspect import AgentInspect

TOKEN = {"agent_secret_token": "t", "agent_url": "https://x", "agent_verify_ca": "/x"}


def inspect(world, node):
    world.call("inspect_hardware", node)
    return world.read(node)


def test_an_inspection_that_ends_at_once_leads_to_manageable(world):
    stored = inspect(world, world.node(driver_internal_info=dict(TOKEN)))
    assert stored.provision_state == states.MANAGEABLE
    assert stored.inspection_finished_at is not None
    assert stored.driver_internal_info == {}


def test_the_old_token_is_gone_before_the_ramdisk_boots(world):
    node = world.node(driver_internal_info=dict(TOKEN))
    seen = []

    def start(task):
        seen.append(world.read(node).driver_internal_info)
        return states.INSPECTWAIT

    world.driver.inspect.inspect_hardware = start
    assert inspect(world, node).provision_state == states.INSPECTWAIT
    assert seen == [{}]


@pytest.mark.parametrize(
    "result", [errors.HardwareInspectionFailure(error="no"), OSError("no"), "odd", None]
)
def test_a_failed_inspection_is_recorded_once_and_cleaned_up(world, result):
    def start(task):
        if isinstance(result, Exception):
            raise result
        return result

    removed = []
    world.driver.inspect.inspect_hardware = start
    world.driver.network.remove_inspection_network = removed.append
    node = world.node()
    stored = inspect(world, node)
    assert stored.provision_state == states.INSPECTFAIL
    assert stored.last_error.startswith("Failed to inspect node")
    assert [kind for kind, _ in world.events(node)] == ["introspection"]
    assert len(removed) == 1
    assert stored.reservation is None


def test_w32_an_unsupported_inspection_fails_instead_of_sticking(world):
    def start(task):
        raise errors.UnsupportedDriverExtension(driver="d", extension="inspect")

    world.driver.inspect.inspect_hardware = start
    assert inspect(world, world.node()).provision_state == states.INSPECTFAIL


def test_w32_an_inspection_failed_by_its_driver_is_not_failed_twice(world):
    def start(task):
        task.event("fail")
        raise errors.HardwareInspectionFailure(error="told already")

    world.driver.inspect.inspect_hardware = start
    stored = inspect(world, world.node())
    assert stored.provision_state == states.INSPECTFAIL
    assert "told already" in stored.last_error


def test_a_failing_clean_up_is_appended_to_the_first_error(world):
    def start(task):
        raise errors.HardwareInspectionFailure(error="first")

    def abort(task):
        raise errors.NetworkError("second")

    world.driver.inspect.inspect_hardware = start
    world.driver.inspect.abort = abort
    text = inspect(world, world.node()).last_error
    assert text.index("first") < text.index("second")


@pytest.mark.parametrize("interface", ["power", "inspect"])
def test_a_node_that_can_not_be_inspected_is_refused_and_unchanged(world, interface):
    def refuse(task):
        raise errors.MissingParameterValue("no address")

    getattr(world.driver, interface).validate = refuse
    node = world.node()
    with pytest.raises(errors.MissingParameterValue):
        world.call("inspect_hardware", node)
    assert world.read(node).provision_state == states.MANAGEABLE


def test_a_wrong_state_is_refused(world):
    with pytest.raises(errors.InvalidStateRequested):
        world.call("inspect_hardware", world.node(states.ACTIVE))


# What the ramdisk posts.


def test_posted_data_ends_a_waiting_inspection(world):
    got = []
    world.driver.inspect.continue_inspection = lambda task, inv, data: got.append((inv, data))
    node = world.node(states.INSPECTWAIT)
    world.call("continue_inspection", node, inventory={"cpu": 1}, plugin_data={"a": 2})
    stored = world.read(node)
    assert stored.provision_state == states.MANAGEABLE
    assert got == [({"cpu": 1}, {"a": 2})]
    assert stored.driver_internal_info["agent_last_heartbeat"]


def test_more_data_may_come(world):
    world.driver.inspect.continue_inspection = lambda *args: states.INSPECTWAIT
    node = world.node(states.INSPECTWAIT)
    world.call("continue_inspection", node, inventory={})
    assert world.read(node).provision_state == states.INSPECTWAIT


def test_data_that_can_not_be_processed_fails_the_inspection(world):
    def process(*args):
        raise errors.HardwareInspectionFailure(error="two nodes with one MAC")

    world.driver.inspect.continue_inspection = process
    node = world.node(states.INSPECTWAIT)
    world.call("continue_inspection", node, inventory={})
    stored = world.read(node)
    assert stored.provision_state == states.INSPECTFAIL
    assert "two nodes with one MAC" in stored.last_error


def test_rules_are_applied_to_posted_data_before_it_is_stored(world):
    put = {"op": "set-attribute", "args": ["extra/cpus", "{inventory[cpu][count]}"]}
    mark = {"op": "set-plugin-data", "args": ["seen", True]}
    inspection_rules.create({"actions": [put, mark]})

    def process(task, inventory, plugin_data):
        plugin_data["hooks"] = "were here"

    world.driver.inspect.continue_inspection = process
    node = world.node(states.INSPECTWAIT)
    world.call(
        "continue_inspection", node, inventory={"cpu": {"count": 4}}, plugin_data={"logs": 1}
    )
    stored = world.read(node)
    assert (stored.provision_state, stored.extra) == (states.MANAGEABLE, {"cpus": "4"})
    kept = inventory.get(stored.id)
    assert kept.inventory_data == {"cpu": {"count": 4}}
    assert kept.plugin_data == {"hooks": "were here", "seen": True}


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        ([{"op": "fail", "args": ["too few CPUs"]}], "too few CPUs"),
        ([{"op": "del-attribute", "args": ["extra/none"]}], "Failed to apply rule"),
        ([{"op": "set-attribute", "args": ["name", "taken"]}], "taken"),
        ([{"op": "api-call", "args": ["http://127.0.0.1:1/"]}], r"127\.0\.0\.1:1"),
        ([{"odd": 1}], "KeyError"),
    ],
)
def test_a_rule_that_fails_fails_the_inspection(world, actions, text):
    world.node(name="taken")
    actions = [
        {**a, "args": [*a["args"], None, None, 5, 0]} if "api" in a.get("op", "") else a
        for a in actions
    ]
    inspection_rules.create({"actions": actions})
    world.driver.inspect.continue_inspection = lambda *args: None
    node = world.node(states.INSPECTWAIT)
    world.call("continue_inspection", node, inventory={})
    stored = world.read(node)
    assert stored.provision_state == states.INSPECTFAIL
    assert re.search(text, stored.last_error)
    assert stored.reservation is None
    with pytest.raises(errors.NodeInventoryNotFound):
        inventory.get(stored.id)


@pytest.mark.parametrize("state", [states.MANAGEABLE, states.ENROLL, states.INSPECTING])
def test_data_for_a_node_that_waits_for_none_is_not_found(world, state):
    with pytest.raises(errors.NotFound):
        world.call("continue_inspection", world.node(state), inventory={})


def test_a_discovered_node_gets_its_data_and_stays_enrolled(world):
    CONF.set_override("enabled", True, group="auto_discovery")
    rule = {"op": "set-attribute", "args": ["name", "found-{inventory[serial]}"]}
    inspection_rules.create({"actions": [rule]})
    world.driver.inspect.continue_inspection = lambda *args: None
    node = world.node(states.ENROLL)
    world.call("continue_inspection", node, inventory={"serial": "s1"})
    stored = world.read(node)
    assert (stored.provision_state, stored.name) == (states.ENROLL, "found-s1")
    assert inventory.get(stored.id).inventory_data == {"serial": "s1"}


# Abort.


def test_abort_stops_a_waiting_inspection(world):
    world.driver.inspect.abort = lambda task: None
    node = world.node(states.INSPECTWAIT, driver_internal_info=dict(TOKEN))
    world.call("do_provisioning_action", node, action="abort")
    stored = world.read(node)
    assert stored.provision_state == states.INSPECTFAIL
    assert "aborted by request" in stored.last_error
    assert "agent_secret_token" not in stored.driver_internal_info


def test_an_abort_that_the_driver_does_not_know_is_refused(world):
    node = world.node(states.INSPECTWAIT)
    with pytest.raises(errors.UnsupportedDriverExtension):
        world.call("do_provisioning_action", node, action="abort")
    assert world.read(node).provision_state == states.INSPECTWAIT


def test_a_failing_abort_is_recorded_and_told(world):
    def abort(task):
        raise errors.NetworkError("no")

    world.driver.inspect.abort = abort
    node = world.node(states.INSPECTWAIT)
    with pytest.raises(errors.NetworkError):
        world.call("do_provisioning_action", node, action="abort")
    stored = world.read(node)
    assert stored.provision_state == states.INSPECTWAIT
    assert "Failed to abort" in stored.last_error


@pytest.mark.parametrize("fast_track", [True, False])
def test_the_agent_is_forgotten_at_the_end_unless_the_next_flow_uses_it(world, fast_track):
    world.driver.inspect.continue_inspection = lambda *args: None
    node = world.node(
        states.INSPECTWAIT,
        driver_internal_info={**TOKEN, "agent_secret_token_pregenerated": True},
        driver_info={"fast_track": fast_track},
    )
    world.call("continue_inspection", node, inventory={"interfaces": []}, plugin_data={})
    stored = world.read(node)
    assert stored.provision_state == states.MANAGEABLE
    assert ("agent_secret_token" in stored.driver_internal_info) is fast_track


@pytest.mark.parametrize("nics", [1, 3])
def test_inspection_data_cost_nine_statements_and_two_a_port(world, nics):
    world.kit.interfaces["inspect"] = AgentInspect()
    world.kit.interfaces["inspect"].kit = world.kit
    node = world.node(states.INSPECTWAIT)
    data = {
        "interfaces": [
            {"name": f"eth{n}", "mac_address": f"52:54:00:00:00:0{n}"} for n in range(nics)
        ],
        "cpu": {"architecture": "x86_64"},
    }
    with session.count_statements() as seen:
        world.call("continue_inspection", node, inventory=data, plugin_data={})
    assert seen.count == 9 + 2 * nics, seen.statements
    stored = world.read(node)
    assert stored.provision_state == states.MANAGEABLE
    assert stored.properties["cpu_arch"] == "x86_64"
    assert inventory.get(stored.id).inventory_data == data


# K09, 70: strange values in an inventory

GOOD = {
    "interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}],
    "cpu": {"architecture": "x86_64", "count": 4},
    "memory": {"physical_mb": 1024},
    "disks": [{"name": "/dev/sda", "size": 10**10}],
    "boot": {"current_boot_mode": "uefi", "pxe_interface": None},
    "system_vendor": {"serial_number": "1"},
    "hostname": "h",
    "bmc_address": "192.0.2.1",
}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cpu": {"architecture": "x86_64", "count": "abc"}}, None),
        ({"cpu": {"architecture": None}}, "architecture"),
        ({"cpu": None}, "architecture"),
        ({"cpu": "fast"}, "architecture"),
        ({"memory": None}, None),
        ({"disks": None}, None),
        ({"disks": []}, None),
        ({"disks": [{"name": "/dev/sda", "size": 0}]}, None),
        ({"hostname": "h" * 300}, None),
        ({"system_vendor": {"serial_number": 0}}, None),
        ({"boot": None}, None),
        ({"boot": {"pxe_interface": 5}}, None),
        ({"bmc_address": None}, None),
        ({"interfaces": [{"name": "eth0", "mac_address": "50:06:01:60:3b:de:00:01"}]}, "MAC"),
        ({"interfaces": [{"mac_address": "52:54:00:00:00:01"}]}, "name"),
    ],
    ids=str,
)
def test_a_strange_inventory_ends_well_or_with_the_name_of_the_field(world, change, field):
    world.kit.interfaces["inspect"] = AgentInspect()
    world.kit.interfaces["inspect"].kit = world.kit
    node = world.node(states.INSPECTWAIT)
    world.call("continue_inspection", node, inventory={**GOOD, **change}, plugin_data={})
    stored = world.read(node)
    if field is None:
        assert stored.provision_state == states.MANAGEABLE, stored.last_error
    else:
        assert stored.provision_state == states.INSPECTFAIL
        assert field in stored.last_error
        assert "Error:" not in stored.last_error


@pytest.mark.parametrize("error", [None, "no disks"])
def test_a_discovered_machine_keeps_its_state_and_its_power(world, error):
    CONF.set_override("enabled", True, group="auto_discovery")
    world.kit.interfaces["inspect"] = AgentInspect()
    world.kit.interfaces["inspect"].kit = world.kit
    switched = []
    world.driver.power.set_power_state = lambda *args, **kwargs: switched.append(args)
    node = world.node(states.ENROLL)
    data = {"error": error}
    world.call("continue_inspection", node, inventory=dict(GOOD), plugin_data=data)
    stored = world.read(node)
    assert stored.provision_state == states.ENROLL
    assert switched == []
    assert stored.reservation is None
    if error:
        assert error in stored.last_error
    else:
        assert stored.properties["cpu_arch"] == "x86_64"
        assert [port.address for port in ports.of_node(stored.id)] == ["52:54:00:00:00:01"]
        assert inventory.get(stored.id).inventory_data == GOOD
