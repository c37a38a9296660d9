"""Capabilities, boot mode, ramdisk, root device and RAID: what a node asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import bootmode, capabilities, errors, raid, ramdisk, root_device, states


def node(**values: Any) -> Any:
    fields: dict[str, Any] = {
        "uuid": "n1",
        "properties": {},
        "instance_info": {},
        "driver_info": {},
        "driver_internal_info": {},
        "provision_state": states.DEPLOYING,
    }
    made = SimpleNamespace(**fields | values)
    made.get_interface = lambda kind: values.get(f"{kind}_interface")
    return made


@pytest.fixture
def option(monkeypatch: pytest.MonkeyPatch):
    """Override an option of a group."""
    CONF([], default_config_files=[], default_config_dirs=[])
    overridden = []

    def override(group: str, **options: Any) -> None:
        for name, value in options.items():
            CONF.set_override(name, value, group)
            overridden.append((name, group))

    yield override
    for name, group in overridden:
        CONF.clear_override(name, group)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:b,c:d", {"a": "b", "c": "d"}),
        (" a : b ,", {"a": "b"}),
        ("", {}),
        (None, {}),
        ("a:b:c", {"a": "b:c"}),
    ],
)
def test_capabilities_are_pairs(text, expected):
    assert capabilities.parse(text) == expected


@pytest.mark.parametrize("value", ["a", "a:b,c", ":b", {"a": "b"}, 5])
def test_malformed_capabilities_are_refused(value):
    with pytest.raises(errors.InvalidParameterValue):
        capabilities.parse(value)


def test_reading_one_capability_passes_over_malformed_ones():
    assert (
        capabilities.of_node(node(properties={"capabilities": "x,boot_mode:uefi"}), "boot_mode")
        == "uefi"
    )
    assert capabilities.of_node(node(properties={"capabilities": {"a": 1}}), "a") is None


@pytest.mark.parametrize("value", [{"a": "b"}, '{"a": "b"}'])
def test_capabilities_of_the_instance_are_a_dictionary_or_its_text(value):
    assert capabilities.of_instance(node(instance_info={"capabilities": value})) == {"a": "b"}


@pytest.mark.parametrize("value", ["nonsense", "[]", ["a"], 5])
def test_other_capabilities_of_the_instance_are_refused(value):
    with pytest.raises(errors.InvalidParameterValue):
        capabilities.of_instance(node(instance_info={"capabilities": value}))


@pytest.mark.parametrize(
    "values",
    [
        {"properties": {"capabilities": "boot_mode:coreboot"}},
        {"properties": {"capabilities": "secure_boot:maybe"}},
        {"instance_info": {"capabilities": {"disk_label": "apm"}}},
    ],
)
def test_capabilities_with_a_closed_set_of_values_are_checked(values):
    with pytest.raises(errors.InvalidParameterValue, match="expected one of"):
        capabilities.validate(node(**values))


@pytest.mark.parametrize(
    ("deploy", "option"),
    [("direct", "local"), ("ramdisk", "ramdisk"), ("anaconda", "kickstart"), (None, "local")],
)
def test_the_deploy_interface_tells_the_boot_option(deploy, option):
    assert capabilities.boot_option(node(deploy_interface=deploy)) == option


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, None),
        ({"instance_info": {"capabilities": {"secure_boot": "true", "boot_mode": "bios"}}}, "uefi"),
        (
            {"instance_info": {"capabilities": {"boot_mode": "BIOS"}, "deploy_boot_mode": "uefi"}},
            "bios",
        ),
        ({"instance_info": {"deploy_boot_mode": "uefi"}}, "uefi"),
        ({"properties": {"capabilities": "boot_mode:bios"}}, "bios"),
        ({"driver_internal_info": {"deploy_boot_mode": "bios"}}, "bios"),
    ],
)
def test_the_boot_mode_comes_from_the_first_that_says_one(values, expected):
    assert bootmode.requested(node(**values)) == expected


def test_an_instance_can_not_ask_for_another_mode_than_the_node_has():
    with pytest.raises(errors.InvalidParameterValue, match=r"uefi.*bios"):
        bootmode.requested(
            node(
                properties={"capabilities": "boot_mode:bios"},
                instance_info={"capabilities": {"boot_mode": "uefi"}},
            )
        )


def test_the_default_boot_mode_is_configured(option):
    assert bootmode.effective(node()) == "uefi"
    option("deploy", default_boot_mode="bios")
    assert bootmode.effective(node()) == "bios"
    assert bootmode.disk_label(node()) is None


def test_the_disk_label_follows_the_boot_mode_unless_given():
    assert bootmode.disk_label(node()) == "gpt"
    wish = {"capabilities": {"disk_label": "msdos"}}
    assert bootmode.disk_label(node(instance_info=wish)) == "msdos"


@pytest.mark.parametrize(
    ("state", "mode", "needed"),
    [
        (states.DEPLOYING, "deploy", True),
        (states.SERVICEWAIT, "deploy", True),
        (states.RESCUEWAIT, "rescue", True),
        (states.UNRESCUING, "rescue", False),
        (states.ACTIVE, "deploy", False),
    ],
)
def test_the_state_tells_which_ramdisk_is_needed(state, mode, needed):
    assert ramdisk.mode(node(provision_state=state)) == mode
    assert ramdisk.needed(node(provision_state=state)) is needed


def test_kernel_and_ramdisk_come_as_a_pair_from_one_place(option):
    own = {"deploy_kernel": "k", "deploy_ramdisk": "r"}
    assert ramdisk.kernel_and_ramdisk(node()) is None
    option("conductor", deploy_kernel="ck", deploy_ramdisk="cr")
    assert ramdisk.kernel_and_ramdisk(node(driver_info={"deploy_kernel": "k"})) == ("ck", "cr")
    option(
        "conductor",
        deploy_kernel_by_arch={"arm": "ak"},
        deploy_ramdisk_by_arch={"arm": "ar"},
    )
    assert ramdisk.kernel_and_ramdisk(node(properties={"cpu_arch": "arm"})) == ("ak", "ar")
    assert ramdisk.kernel_and_ramdisk(node()) == ("ck", "cr")
    assert ramdisk.kernel_and_ramdisk(node(driver_info=own, properties={"cpu_arch": "arm"})) == (
        "k",
        "r",
    )
    assert ramdisk.kernel_and_ramdisk(node(), ramdisk.RESCUE) is None


def test_half_a_pair_can_be_an_error(option):
    option("conductor", error_on_ramdisk_config_inconsistency=True)
    with pytest.raises(errors.MissingParameterValue, match="kernel without a ramdisk"):
        ramdisk.kernel_and_ramdisk(node(driver_info={"deploy_kernel": "k"}))


def test_isos_and_boot_loaders_are_looked_up(option):
    assert ramdisk.iso(node()) is None
    assert ramdisk.iso(node(driver_info={"redfish_deploy_iso": "old"})) == "old"
    assert ramdisk.iso(node(driver_info={"deploy_iso": "i", "redfish_deploy_iso": "o"})) == "i"
    option("conductor", bootloader="b", bootloader_by_arch={"arm": "a"})
    assert ramdisk.bootloader(node()) == "b"
    assert ramdisk.bootloader(node(properties={"cpu_arch": "arm"})) == "a"
    assert ramdisk.bootloader(node(driver_info={"bootloader": "own"})) == "own"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, "quiet"),
        ({"driver_info": {"kernel_append_params": "debug"}}, "debug"),
        (
            {
                "driver_info": {"kernel_append_params": "debug"},
                "instance_info": {"kernel_append_params": "%default% a=b"},
            },
            "quiet a=b",
        ),
        ({"driver_info": {"kernel_append_params": "a\nb"}}, "ab"),
        ({"driver_info": {"kernel_append_params": ""}}, ""),
    ],
)
def test_kernel_parameters_may_extend_the_default(values, expected):
    assert ramdisk.kernel_parameters(node(**values), "quiet") == expected


def test_malformed_kernel_parameters_are_refused_unless_configured(option):
    bad = node(driver_info={"kernel_append_params": 'a="b'})
    with pytest.raises(errors.InvalidParameterValue, match="kernel_append_params"):
        ramdisk.kernel_parameters(bad, "")
    option("conductor", disable_kernel_parameter_parsing=True)
    assert ramdisk.kernel_parameters(bad, "") == 'a="b'


@pytest.mark.parametrize(
    "hints",
    [
        {"size": 10},
        {"size": ">= 10"},
        {"size": "<or> 10 <or> 20"},
        {"rotational": True},
        {"rotational": "no"},
        {"model": "s== a", "wwn": "0x1", "by_path": "/dev/disk/by-path/x", "hctl": "0:0:0:0"},
    ],
)
def test_root_device_hints_that_the_ramdisk_knows(hints):
    assert root_device.of_node(node(properties={"root_device": hints})) == hints


@pytest.mark.parametrize(
    "hints",
    [
        {"size": 0},
        {"size": "-1"},
        {"size": ">= x"},
        {"rotational": "maybe"},
        {"model": 5},
        {"colour": "red"},
        "sda",
        [1],
    ],
)
def test_root_device_hints_that_it_does_not_know(hints):
    with pytest.raises(errors.InvalidParameterValue, match="Root device hints"):
        root_device.of_node(node(instance_info={"root_device": hints}))


def test_hints_of_the_instance_win():
    both = node(instance_info={"root_device": {"size": 1}}, properties={"root_device": {"size": 2}})
    assert root_device.of_node(both) == {"size": 1}
    assert root_device.of_node(node()) is None


def disk(**values: Any) -> dict[str, Any]:
    return {"logical_disks": [{"raid_level": "1", "size_gb": 10} | values]}


@pytest.mark.parametrize(
    "config",
    [
        disk(),
        disk(size_gb="MAX", raid_level="1+0", is_root_volume=True, disk_type="ssd"),
        disk(controller="c", physical_disks=["a"]),
        disk(controller="c", physical_disks=[{"size": 1}, {"size": 2}]),
    ],
)
def test_raid_configurations_of_the_schema(config):
    raid.validate(config)


@pytest.mark.parametrize(
    "config",
    [
        {},
        [],
        {"logical_disks": []},
        disk() | {"extra": 1},
        disk(raid_level="9"),
        disk(raid_level=1),
        disk(size_gb=-1),
        disk(size_gb="ALL"),
        disk(number_of_physical_disks=0),
        disk(physical_disks=["a"]),
        disk(controller="c", physical_disks=[{"size": 1}]),
        disk(colour="red"),
        {"logical_disks": [{"raid_level": "1", "size_gb": 1, "is_root_volume": True}] * 2},
    ],
)
def test_raid_configurations_that_are_refused(config):
    with pytest.raises(errors.InvalidParameterValue):
        raid.validate(config)


def test_logical_disk_properties_are_described():
    properties = raid.logical_disk_properties()
    assert set(properties) >= {"raid_level", "size_gb", "physical_disks"}
    assert all(properties.values())
