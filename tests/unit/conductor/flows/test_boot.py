"""Boot device, boot mode, secure boot; fast track and image type rules."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.flows.fast_track import keep_agent
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, sha_crypt, states


@pytest.fixture
def device(world):
    seen = []
    world.driver.management.set_boot_device = lambda task, device, persistent=False: seen.append(
        (device, persistent)
    )
    return seen


@pytest.mark.parametrize(
    ("forced", "asked", "result"),
    [
        (None, True, True),
        (None, False, False),
        ("Always", False, True),
        ("Never", True, False),
        ("Default", True, True),
        ("Default", False, False),
        (True, False, True),
        ("true", False, True),
        ("false", False, False),
    ],
)
def test_persistence_can_be_forced_per_node(world, device, forced, asked, result):
    info = {} if forced is None else {"force_persistent_boot_device": forced}
    with world.task(world.node(driver_info=info)) as task:
        task.flows.set_boot_device("pxe", asked)
    assert device == [("pxe", result)]


def test_nothing_is_set_while_a_running_instance_is_adopted(world, device):
    with world.task(world.node(states.ADOPTING)) as task:
        task.flows.set_boot_device("pxe")
        task.flows.set_boot_mode("uefi")
    assert device == []


def test_a_boot_mode_that_the_machine_does_not_know_is_refused(world):
    world.driver.management.get_supported_boot_modes = lambda task: ["bios"]
    with (
        world.task(world.node()) as task,
        pytest.raises(errors.InvalidParameterValue, match="supported: bios"),
    ):
        task.flows.set_boot_mode("uefi")


def test_an_unknown_support_of_boot_modes_is_tried(world):
    seen = []
    world.driver.management.set_boot_mode = lambda task, mode: seen.append(mode)
    with world.task(world.node()) as task:
        task.flows.set_boot_mode("uefi")
    assert seen == ["uefi"]


@pytest.mark.parametrize(
    ("method", "wanted", "interface"),
    [
        ("change_node_boot_mode", "uefi", ("get_boot_mode", "set_boot_mode")),
        (
            "change_node_secure_boot",
            True,
            ("get_secure_boot_state", "set_secure_boot_state"),
        ),
    ],
)
def test_boot_mode_requests(world, method, wanted, interface):
    management = world.driver.management
    getter, setter = interface
    column = method.removeprefix("change_node_")
    written = []

    def write(task, *args, **kwargs):
        written.append([*args, *kwargs.values()])

    setattr(management, setter, write)
    node = world.node()
    world.call(method, node, new_state=wanted)
    assert getattr(world.read(node), column) == wanted
    assert written == [[wanted]]

    setattr(management, getter, lambda task: wanted)
    world.call(method, node, new_state=wanted)
    assert len(written) == 1, "a state that is met is not written"

    def fail(task, *args, **kwargs):
        raise errors.RedfishError(error="BMC says no")

    other = world.node()
    setattr(management, getter, lambda task: None)
    setattr(management, setter, fail)
    world.call(method, other, new_state=wanted)
    stored = world.read(other)
    assert getattr(stored, column) is None
    assert "BMC says no" in stored.last_error


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        ({}, True),
        ({"last_error": "x"}, False),
        ({"state": states.SERVICING}, False),
        ({"driver_internal_info": {"firmware_updates": [1]}}, False),
        ({"driver_info": {"fast_track": "false"}}, False),
        ({"driver_info": {"fast_track": "perhaps"}}, False),
    ],
)
def test_the_agent_is_kept_for_fast_track_only(world, values, kept):
    CONF.set_override("fast_track", True, group="deploy")
    with world.task(world.node(**values)) as task:
        assert keep_agent(task) is kept
    CONF.set_override("fast_track", False, group="deploy")
    with world.task(world.node()) as task:
        assert keep_agent(task) is False


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (
            {"algorithm": "sha256", "salt": "saltstring"},
            "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5",
        ),
        (
            {"algorithm": "sha256", "salt": "saltstringsaltstring", "rounds": 10000},
            "$5$rounds=10000$saltstringsaltst$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
        ),
        (
            {"algorithm": "sha512", "salt": "saltstring"},
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLi"
            "BFdcbYEdFCoEOfaS35inz1",
        ),
    ],
)
def test_sha_crypt_agrees_with_its_specification(args, expected):
    assert sha_crypt.crypt("Hello world!", **args) == expected


def test_sha_crypt_salts_differ():
    assert sha_crypt.crypt("x") != sha_crypt.crypt("x")
