"""Calls that go straight to an interface: management, vendor, VIFs, consoles, RAID."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers import noop

READ_ONLY = [
    ("get_boot_device", {}, {"boot_device": "pxe", "persistent": False}),
    ("get_supported_boot_devices", {}, ["pxe"]),
    ("get_indicator_state", {"component": "system", "indicator": "led"}, "on"),
    (
        "get_supported_indicators",
        {"component": "system"},
        {"system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}}},
    ),
    ("vif_list", {}, []),
]


@pytest.mark.parametrize(("method", "args", "answer"), READ_ONLY)
def test_w29_reading_works_while_the_node_is_locked(world, method, args, answer):
    node = world.node()
    with world.task(node):
        assert world.call(method, node, **args) == answer


def test_w29_virtual_media_are_listed_while_the_node_is_locked(world):
    world.driver.management.get_virtual_media = lambda task: [{"inserted": False}]
    node = world.node()
    with world.task(node):
        assert world.call("get_virtual_media", node) == [{"inserted": False}]


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("set_boot_device", {"device": "pxe"}),
        ("inject_nmi", {}),
        ("set_indicator_state", {"component": "system", "indicator": "led", "state": "off"}),
        ("vif_attach", {"vif_info": {"id": "v"}}),
        ("vif_detach", {"vif_id": "v"}),
        ("set_target_raid_config", {"target_raid_config": {}}),
    ],
)
def test_writing_needs_the_lock(world, method, args):
    node = world.node()
    with world.task(node), pytest.raises(errors.NodeLocked):
        world.call(method, node, **args)


def test_what_the_driver_can_not_do_is_refused(world):
    with pytest.raises(errors.UnsupportedDriverExtension):
        world.call("inject_nmi", world.node())
    with pytest.raises(errors.InvalidParameterValue):
        world.call("set_boot_device", world.node(), device="cdrom")


@pytest.mark.parametrize("method", ["get_boot_device", "inject_nmi", "get_virtual_media"])
def test_the_credentials_are_checked_first(world, method):
    def refuse(task):
        raise errors.MissingParameterValue("no address")

    world.driver.management.validate = refuse
    with pytest.raises(errors.MissingParameterValue):
        world.call(method, world.node())


@pytest.mark.parametrize("asked", [True, False])
def test_the_boot_device_is_set_as_it_is_asked_for(world, asked):
    seen = []
    world.driver.management.set_boot_device = lambda task, **wish: seen.append(wish)
    forced = {"force_persistent_boot_device": "Never" if asked else "Always"}
    world.call("set_boot_device", world.node(driver_info=forced), device="disk", persistent=asked)
    assert seen == [{"device": "disk", "persistent": asked}]


# VIFs.


@pytest.mark.parametrize(
    ("method", "args", "driver_method"),
    [
        ("vif_attach", {"vif_info": {"id": "v1"}}, "vif_attach"),
        ("vif_detach", {"vif_id": "v1"}, "vif_detach"),
    ],
)
def test_w31_a_failure_with_a_vif_is_saved(world, method, args, driver_method):
    def fail(task, vif):
        raise errors.NetworkError("no free port")

    setattr(world.driver.network, driver_method, fail)
    node = world.node()
    with pytest.raises(errors.NetworkError):
        world.call(method, node, **args)
    stored = world.read(node)
    assert "v1" in stored.last_error
    assert "no free port" in stored.last_error
    assert world.events(node) == [(states.MANAGEABLE, "ERROR")]
    assert stored.reservation is None


# Vendor passthru.


def vendor(world, node, method, info, http_method="POST"):
    return world.call(
        "vendor_passthru", node, driver_method=method, http_method=http_method, info=info
    )


def test_a_synchronous_method_answers_itself(world):
    answer = vendor(world, world.node(), "third_method_sync", {"bar": "meow"})
    assert answer == {"return": True, "async": False, "attach": False}


def test_an_asynchronous_method_answers_at_once(world):
    node = world.node()
    answer = vendor(world, node, "second_method", {"bar": "kazoo"}, "post")
    assert answer == {"return": None, "async": True, "attach": False}
    assert world.read(node).reservation is None


@pytest.mark.parametrize(
    ("method", "http_method", "info", "error"),
    [
        ("unknown", "POST", {}, errors.InvalidParameterValue),
        ("second_method", "GET", {"bar": "x"}, errors.InvalidParameterValue),
        ("second_method", "POST", {}, errors.MissingParameterValue),
    ],
)
def test_bad_vendor_calls_are_refused(world, method, http_method, info, error):
    with pytest.raises(error):
        vendor(world, world.node(), method, info, http_method)


def test_methods_take_the_lock_they_ask_for(world):
    node = world.node()
    with world.task(node):
        vendor(world, node, "fourth_method_shared_lock", {"bar": "woof"})
        with pytest.raises(errors.NodeLocked):
            vendor(world, node, "second_method", {"bar": "kazoo"})


def test_methods_are_listed(world):
    methods = world.call("get_node_vendor_passthru_methods", world.node())
    assert methods["third_method_sync"] == {
        "http_methods": ["POST"],
        "async": False,
        "description": "Compare 'bar' with meow and answer.",
        "attach": False,
        "require_exclusive_lock": True,
    }
    assert world.call("get_driver_vendor_passthru_methods", driver_name="fake-hardware") == {}


def test_no_vendor_is_told_as_such(world):
    world.kit.interfaces["vendor"] = noop.NoVendor()
    with pytest.raises(errors.UnsupportedDriverExtension):
        world.call("get_node_vendor_passthru_methods", world.node())
    with pytest.raises(errors.UnsupportedDriverExtension):
        vendor(world, world.node(), "x", {})


def test_a_failed_asynchronous_method_is_recorded(world):
    def fail(task, **kwargs):
        raise errors.VendorPassthruException(reason="broken")

    route = world.driver.vendor.vendor_routes["second_method"]
    world.driver.vendor.vendor_routes["second_method"] = type(route)(route.route, fail)
    node = world.node()
    vendor(world, node, "second_method", {"bar": "kazoo"})
    assert "broken" in world.read(node).last_error


def test_an_unknown_hardware_type_is_not_found(world):
    for method in (
        "get_driver_vendor_passthru_methods",
        "get_driver_properties",
        "get_raid_logical_disk_properties",
    ):
        with pytest.raises(errors.DriverNotFound):
            world.call(method, driver_name="unknown")


# Hardware types and RAID.


def test_properties_of_a_hardware_type(world):
    assert set(world.call("get_driver_properties", driver_name="fake-hardware")) >= {"B1", "B2"}
    disks = world.call("get_raid_logical_disk_properties", driver_name="fake-hardware")
    assert {"raid_level", "size_gb"} <= set(disks)


def test_the_wanted_raid_configuration_is_checked_and_stored(world):
    node = world.node()
    good = {"logical_disks": [{"raid_level": "1", "size_gb": 10}]}
    world.call("set_target_raid_config", node, target_raid_config=good)
    assert world.read(node).target_raid_config == good
    with pytest.raises(errors.InvalidParameterValue):
        world.call("set_target_raid_config", node, target_raid_config={"disks": []})
    world.call("set_target_raid_config", node, target_raid_config={})
    assert world.read(node).target_raid_config == {}


# Consoles.


def test_a_console_is_switched_on_and_off(world):
    calls = []
    world.driver.console.start_console = lambda task: calls.append("start")
    world.driver.console.stop_console = lambda task: calls.append("stop")
    node = world.node()
    world.call("set_console_mode", node, enabled=True)
    assert world.read(node).console_enabled is True
    world.call("set_console_mode", node, enabled=True)
    world.call("set_console_mode", node, enabled=False)
    assert world.read(node).console_enabled is False
    assert calls == ["start", "stop"]


def test_a_console_that_fails_is_recorded(world):
    def fail(task):
        raise OSError("no tty")

    world.driver.console.start_console = fail
    node = world.node()
    world.call("set_console_mode", node, enabled=True)
    stored = world.read(node)
    assert stored.console_enabled is False
    assert "no tty" in stored.last_error


def test_only_an_enabled_console_has_an_address(world):
    world.driver.console.get_console = lambda task: {"type": "socat", "url": "tcp://h"}
    with pytest.raises(errors.NodeConsoleNotEnabled):
        world.call("get_console_information", world.node())
    node = world.node(console_enabled=True)
    assert world.call("get_console_information", node)["type"] == "socat"


def test_w41_a_console_switched_meanwhile_is_seen_under_the_lock(world, monkeypatch):
    from ironic_rs.conductor.task import Task

    node = world.node(console_enabled=False)
    original = Task.upgrade_lock

    def upgrade(task, *args, **kwargs):
        with world.task(node) as other:
            other.node.console_enabled = True
            other.node.extra = {"written": "meanwhile"}
            other.save()
        original(task, *args, **kwargs)

    monkeypatch.setattr(Task, "upgrade_lock", upgrade)
    calls = []
    world.driver.console.start_console = lambda task: calls.append("start")
    world.call("set_console_mode", node, enabled=True)
    assert calls == []
    assert world.read(node).extra == {"written": "meanwhile"}


# Verbs without a flow.


@pytest.mark.parametrize(
    ("state", "result"),
    [
        (states.AVAILABLE, states.MANAGEABLE),
        (states.CLEANFAIL, states.MANAGEABLE),
        (states.INSPECTFAIL, states.MANAGEABLE),
        (states.ADOPTFAIL, states.MANAGEABLE),
    ],
)
def test_manage_is_only_an_event_in_resting_states(world, state, result):
    node = world.node(state)
    world.call("do_provisioning_action", node, action="manage")
    stored = world.read(node)
    assert stored.provision_state == result
    assert stored.target_provision_state is None


@pytest.mark.parametrize("action", ["manage", "provide", "adopt", "nonsense"])
def test_an_illegal_verb_is_refused(world, action):
    node = world.node(states.ACTIVE)
    with pytest.raises(errors.InvalidStateRequested):
        world.call("do_provisioning_action", node, action=action)
    assert world.read(node).provision_state == states.ACTIVE
