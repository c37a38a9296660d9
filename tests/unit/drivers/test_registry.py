"""The registry of hardware types and interfaces."""

from __future__ import annotations

from typing import ClassVar

import pytest
from oslo_config import cfg

from ironic_rs.conf import CONF, default, drivers
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers import base
from ironic_rs.drivers.fake.machine import FakePower
from ironic_rs.drivers.hardware.base import HardwareType
from ironic_rs.drivers.registry import DriverRegistry

ALL_FAKE = {
    f"enabled_{name}_interfaces": ["fake"]
    for name in base.INTERFACE_TYPES
    if name not in ("network", "bios")
} | {"enabled_network_interfaces": ["noop"], "default_storage_interface": "fake"}


@pytest.fixture
def conf() -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    default.register(conf)
    drivers.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    return conf


def loaded(conf: cfg.ConfigOpts, **options: object) -> DriverRegistry:
    for name, value in options.items():
        conf.set_override(name, value)
    registry = DriverRegistry(conf)
    registry.load()
    return registry


def node(**values: object) -> models.Node:
    fields = {f"{name}_interface": None for name in base.INTERFACE_TYPES}
    fields |= {"driver": "fake-hardware", "uuid": "n1", "instance_info": {}} | values
    return models.Node(**fields)


def test_built_in_defaults_offer_only_what_is_installed(conf):
    registry = loaded(conf)
    assert list(registry.hardware_types) == ["ipmi", "redfish"]
    assert list(registry.enabled("boot")) == ["ipxe", "pxe", "redfish-virtual-media"]
    assert "cinder" not in registry.enabled("storage")
    assert list(registry.enabled("console")) == ["no-console"]


def test_a_hardware_type_alone_starts_with_built_in_interface_lists(conf):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"])
    assert registry.default_interface("fake-hardware", "boot") == "ipxe"
    assert registry.default_interface("fake-hardware", "power") == "fake"
    registry.registration_rows()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("enabled_hardware_types", ["fake-hardware", "warp-drive"]),
        ("enabled_boot_interfaces", ["fake", "warp-boot"]),
    ],
)
def test_operator_naming_something_not_installed_is_an_error(conf, option, value):
    with pytest.raises(errors.DriverNotFoundInEntrypoint, match="warp"):
        loaded(conf, **{"enabled_hardware_types": ["fake-hardware"], option: value})


def test_no_hardware_types_is_an_error(conf):
    with pytest.raises(errors.NoDriversLoaded):
        loaded(conf, enabled_hardware_types=[])


def test_empty_and_repeated_names_collapse(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware", "", "fake-hardware"],
        enabled_inspect_interfaces=["no-inspect", "fake", "no-inspect"],
    )
    assert list(registry.hardware_types) == ["fake-hardware"]
    assert list(registry.enabled("inspect")) == ["no-inspect", "fake"]


def test_a_plugin_that_cannot_be_built_is_a_load_error(conf, monkeypatch):
    def broken(_self: object) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(FakePower, "__init__", broken)
    with pytest.raises(errors.DriverLoadError, match=r"fake.*no luck"):
        loaded(conf, enabled_hardware_types=["fake-hardware"])


def test_get_interface_names_the_choices_when_not_enabled(conf):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"])
    with pytest.raises(errors.InterfaceNotFoundInEntrypoint, match="Valid interfaces are fake"):
        registry.get_interface("fake-hardware", "power", "redfish")


def test_fake_hardware_accepts_any_enabled_interface(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware"],
        enabled_management_interfaces=["fake", "noop"],
    )
    assert registry.get_interface("fake-hardware", "management", "noop")


def test_other_hardware_types_refuse_what_does_not_fit(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware", "redfish"],
        enabled_inspect_interfaces=["fake", "no-inspect"],
    )
    with pytest.raises(errors.IncompatibleInterface):
        registry.get_interface("redfish", "inspect", "fake")
    assert registry.get_interface("redfish", "inspect", "no-inspect")


def test_a_subclass_of_a_supported_class_does_not_fit(conf, monkeypatch):
    class PluginHardware(HardwareType):
        interfaces: ClassVar = {"power": (base.PowerInterface,)}

    registry = loaded(conf, enabled_hardware_types=["fake-hardware"])
    monkeypatch.setitem(registry._hardware, "plugin", PluginHardware())
    with pytest.raises(errors.IncompatibleInterface):
        registry.get_interface("plugin", "power", "fake")
    monkeypatch.setattr(PluginHardware, "interfaces", {"power": (FakePower,)})
    assert registry.get_interface("plugin", "power", "fake")
    assert registry.default_interface("plugin", "power") == "fake"


def test_unknown_hardware_type_is_not_found(conf):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"])
    with pytest.raises(errors.DriverNotFound):
        registry.build(node(driver="ipmi"))
    with pytest.raises(errors.DriverNotFound):
        registry.properties("ipmi")


def test_operators_default_wins_over_the_order_of_the_hardware_type(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware"],
        enabled_inspect_interfaces=["fake", "no-inspect"],
        default_inspect_interface="no-inspect",
    )
    assert registry.default_interface("fake-hardware", "inspect") == "no-inspect"


def test_operators_default_that_does_not_fit_leaves_no_default(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware", "redfish"],
        enabled_inspect_interfaces=["fake", "no-inspect"],
        default_inspect_interface="fake",
    )
    with pytest.raises(errors.NoValidDefaultForInterface, match="of node n1"):
        registry.default_interface("redfish", "inspect", node())


def test_operators_default_must_be_enabled(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware"],
        default_inspect_interface="agent",
    )
    with pytest.raises(errors.InterfaceNotFoundInEntrypoint):
        registry.default_interface("fake-hardware", "inspect")


def test_build_fills_in_defaults_once(conf):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"], **ALL_FAKE)
    record = node()
    driver = registry.build(record)
    assert record.power_interface == "fake"
    assert record.network_interface == "noop"
    assert isinstance(driver.power, FakePower)
    assert registry.check_and_update_node_interfaces(record) is False
    assert {name: getattr(driver, name) for name in base.INTERFACE_TYPES} == driver.interfaces()


def test_build_gives_each_task_its_own_driver_over_shared_interfaces(conf):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"], **ALL_FAKE)
    first, second = registry.build(node()), registry.build(node())
    assert first is not second
    assert first.power is second.power


def test_instance_info_overrides_the_interface_of_the_node(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware"],
        enabled_deploy_interfaces=["fake", "noop"],
    )
    record = node(deploy_interface="fake")
    record.instance_info = {"deploy_interface": "noop"}
    driver = registry.build(record)
    assert driver.deploy is registry.enabled("deploy")["noop"]
    assert record.deploy_interface == "fake"


@pytest.mark.parametrize("where", ["field", "override"])
def test_bad_interfaces_of_a_node_are_refused(conf, where):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"])
    record = node()
    if where == "field":
        record.deploy_interface = "warp"
    else:
        record.instance_info = {"deploy_interface": "warp"}
    with pytest.raises(errors.InterfaceNotFoundInEntrypoint):
        registry.check_and_update_node_interfaces(record)


def test_registration_rows_mark_one_default_per_type(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["fake-hardware"],
        enabled_inspect_interfaces=["fake", "no-inspect"],
    )
    rows = registry.registration_rows()
    for hardware_type in registry.hardware_types:
        for interface_type in base.INTERFACE_TYPES:
            mine = [
                row
                for row in rows
                if (row["hardware_type"], row["interface_type"]) == (hardware_type, interface_type)
            ]
            assert sum(row["default"] for row in mine) == 1


def test_properties_are_those_of_the_default_interfaces(conf):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"], **ALL_FAKE)
    assert set(registry.properties("fake-hardware")) == {"B1", "B2"}
    assert set(registry.build(node()).get_properties()) == {"B1", "B2"}


def test_the_real_configuration_object_is_accepted():
    assert DriverRegistry(CONF)


@pytest.mark.parametrize("value", [[], {}, 5, ""])
def test_an_override_that_is_no_name_is_refused(conf, value):
    registry = loaded(conf, enabled_hardware_types=["fake-hardware"])
    record = node()
    record.instance_info = {"deploy_interface": value}
    with pytest.raises(errors.InterfaceNotFoundInEntrypoint):
        registry.build(record)


@pytest.mark.parametrize("hardware_type", ["ipmi", "redfish", "manual-management", "fake-hardware"])
def test_machines_of_every_kind_can_boot_over_the_network(conf, hardware_type):
    names = ["http", "http-ipxe", "ipxe", "pxe"]
    registry = loaded(conf, enabled_hardware_types=[hardware_type], enabled_boot_interfaces=names)
    assert registry.enabled_supported_interfaces(hardware_type)["boot"] == names
    assert registry.default_interface(hardware_type, "boot") in names
    assert "deploy_kernel" in registry.properties(hardware_type)


def test_machines_with_ipmi_have_their_interfaces(conf):
    registry = loaded(
        conf,
        enabled_hardware_types=["ipmi"],
        enabled_console_interfaces=["ipmitool-socat", "no-console"],
    )
    for kind in ("power", "management", "vendor"):
        assert registry.default_interface("ipmi", kind) == "ipmitool"
    assert registry.default_interface("ipmi", "console") == "ipmitool-socat"
    found = registry.properties("ipmi")
    assert {"ipmi_address", "ipmi_terminal_port", "deploy_ramdisk"} <= set(found)
    vendor = registry.enabled("vendor")["ipmitool"]
    assert {step["step"] for step in vendor.clean_steps} == {"send_raw"}
    assert {name: route.route.metadata() for name, route in vendor.vendor_routes.items()} == {
        name: {
            "http_methods": ["POST"],
            "async": True,
            "attach": False,
            "require_exclusive_lock": True,
            "description": vendor.vendor_routes[name].route.description,
        }
        for name in ("send_raw", "bmc_reset")
    }
