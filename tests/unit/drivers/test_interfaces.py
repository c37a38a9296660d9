"""What each installed interface offers, against the published tables."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers import base
from ironic_rs.drivers.registry import HARDWARE_GROUP, INTERFACE_GROUP
from tests.unit.drivers import kit

#: The steps of all interfaces: one object each.
STEPS = json.loads((Path(__file__).parents[2] / "data" / "driver_steps.json").read_text())

#: All else that interfaces show: one object each.
INTERFACES = {
    (row["interface"], row["name"]): row
    for row in json.loads(
        (Path(__file__).parents[2] / "data" / "driver_interfaces.json").read_text()
    )
}
#: Published, and not built.
ABSENT = {
    ("console", "fake-graphical"),
    ("console", "redfish-graphical"),
    ("deploy", "anaconda"),
    ("deploy", "ansible"),
    ("deploy", "bootc"),
    ("management", "intel-ipmitool"),
    ("network", "ironic-networking"),
    ("storage", "cinder"),
}
#: Networks of a node of its own are offered by name.
_NETWORKS = {
    f"{kind}_network"
    for kind in ("cleaning", "inspection", "provisioning", "rescuing", "servicing")
}
MORE_PROPERTIES = {("network", "flat"): _NETWORKS, ("network", "neutron"): _NETWORKS}
#: Nothing boots from an iSCSI volume through a BMC.
LESS_CAPABILITIES = {
    ("boot", "idrac-redfish-virtual-media"): {"iscsi_volume_boot"},
    ("boot", "redfish-virtual-media"): {"iscsi_volume_boot"},
}
#: Disks are not converted to RAID mode, so no job does that.
LESS_PERIODICS = {("raid", "idrac-redfish"): {"_query_raid_tasks_status"}}


def installed() -> list[Any]:
    return [
        pytest.param(interface_type, entry, id=f"{interface_type}-{entry.name}")
        for interface_type in base.INTERFACE_TYPES
        for entry in metadata.entry_points(group=f"{INTERFACE_GROUP}.{interface_type}")
    ]


@pytest.mark.parametrize(("interface_type", "entry"), installed())
def test_steps_are_the_published_ones(interface_type, entry):
    interface = entry.load()()
    assert interface.interface_type == interface_type
    assert isinstance(interface, base.BaseInterface)
    for kind in ("clean", "deploy", "verify", "service"):
        published = {
            row["step"]: row
            for row in STEPS
            if (row["interface"], row["name"], row["kind"]) == (interface_type, entry.name, kind)
        }
        found = {}
        for step in getattr(interface, f"{kind}_steps"):
            assert step["interface"] == interface_type
            args = {
                name: info.get("required", False)
                for name, info in (step.get("argsinfo") or {}).items()
            }
            found[step["step"]] = {
                key: args if key == "args" else step[key]
                for key in published.get(step["step"], {})
                if key in ("args", *step)
            } | {"interface": interface_type, "name": entry.name, "kind": kind}
        assert found == published


def test_every_published_interface_is_there_or_known_to_be_absent():
    names = {(param.values[0], param.values[1].name) for param in installed()}
    assert INTERFACES.keys() - names == ABSENT
    assert names - INTERFACES.keys() == set()


@pytest.mark.parametrize(("interface_type", "entry"), installed())
def test_properties_and_capabilities_are_the_published_ones(interface_type, entry):
    interface, key = entry.load()(), (interface_type, entry.name)
    published = INTERFACES[key]
    assert interface.supported is published.get("supported", True)
    wanted = set(published["properties"]) | MORE_PROPERTIES.get(key, set())
    assert interface.get_properties().keys() == wanted
    assert all(interface.get_properties().values())
    capable = set(published.get("capabilities", ())) - LESS_CAPABILITIES.get(key, set())
    assert set(getattr(interface, "capabilities", ())) == capable


@pytest.mark.parametrize(
    ("interface_type", "entry"), [p for p in installed() if p.values[0] == "vendor"]
)
def test_vendor_methods_are_the_published_ones(interface_type, entry):
    interface = entry.load()()
    shown = {name: dict(found.route.metadata()) for name, found in interface.vendor_routes.items()}
    for route in shown.values():
        assert route.pop("description")
    assert shown == INTERFACES[interface_type, entry.name].get("vendor_passthru", {})
    assert interface.driver_routes == {}


@pytest.mark.parametrize(("interface_type", "entry"), installed())
def test_periodics_are_the_published_ones_with_their_options(interface_type, entry, config):
    key = (interface_type, entry.name)
    # Without a time-out there is nothing to look for.
    config("pxe", boot_retry_timeout=1200)
    found = {}
    for mark, method in entry.load()().periodics():
        found[method.__name__.lstrip("_")] = mark.interval(CONF)
        for published in INTERFACES[key].get("periodics", ()):
            if published["name"].lstrip("_") == method.__name__.lstrip("_"):
                group, option = published["spacing"].lstrip("[").split("]")
                config(group, **{option: 77})
                assert mark.interval(CONF) == 77
                config(group, **{option: published["spacing_default"]})
    assert found == {
        published["name"].lstrip("_"): published["spacing_default"]
        for published in INTERFACES[key].get("periodics", ())
        if published["name"] not in LESS_PERIODICS.get(key, set())
    }


def test_every_interface_type_has_its_fake_and_its_no_op():
    for interface_type in base.INTERFACE_TYPES:
        names = metadata.entry_points(group=f"{INTERFACE_GROUP}.{interface_type}").names
        if interface_type != "network":
            assert "fake" in names
        if interface_type in ("deploy", "management", "network", "storage"):
            assert "noop" in names
        elif interface_type not in ("boot", "power"):
            assert f"no-{interface_type}" in names
    assert metadata.entry_points(group=HARDWARE_GROUP).names >= {
        "fake-hardware",
        "redfish",
        "manual-management",
    }


@pytest.mark.parametrize(
    "interface_type", ["bios", "console", "firmware", "inspect", "raid", "rescue", "vendor"]
)
def test_no_interfaces_refuse_every_operation(interface_type):
    (entry,) = metadata.entry_points(
        group=f"{INTERFACE_GROUP}.{interface_type}", name=f"no-{interface_type}"
    )
    interface = entry.load()()
    task = kit.Task(kit.node())
    # What only reads ahead, for a cache, has nothing to read and is no error.
    harmless = {"cache_bios_settings": (), "cache_firmware_components": ()}
    for name, args in harmless.items():
        if hasattr(interface, name):
            assert getattr(interface, name)(task, *args) is None
    operations = {
        "apply_configuration": ({},),
        "factory_reset": (),
        "start_console": (),
        "stop_console": (),
        "get_console": (),
        "update": ([],),
        "inspect_hardware": (),
        "abort": (),
        "continue_inspection": ({},),
        "create_configuration": (),
        "delete_configuration": (),
        "validate_raid_config": ({},),
        "rescue": (),
        "unrescue": (),
        "clean_up": (),
        "validate": (),
    }
    for name, args in operations.items():
        if hasattr(interface, name):
            with pytest.raises(errors.UnsupportedDriverExtension, match="fake-hardware"):
                getattr(interface, name)(task, *args)
    for name, args in {"get_logical_disk_properties": (), "driver_validate": ("x",)}.items():
        if hasattr(interface, name):
            with pytest.raises(errors.UnsupportedDriverExtension):
                getattr(interface, name)(*args)


def interfaces() -> Any:
    return kit.Task(kit.node()).driver


def test_fake_power_is_the_record():
    task = kit.Task(kit.node(power_state=states.POWER_OFF))
    power = task.driver.power
    assert power.get_power_state(task) == states.POWER_OFF
    for request, state in states.POWER_TARGET.items():
        power.set_power_state(task, request)
        assert power.get_power_state(task) == state
    power.set_power_state(task, states.POWER_OFF)
    power.reboot(task)
    assert power.get_power_state(task) == states.POWER_ON
    assert len(power.get_supported_power_states(task)) == 5
    with pytest.raises(errors.InvalidParameterValue, match="sideways"):
        power.set_power_state(task, "sideways")


def test_fake_management_boots_from_the_network_only():
    task = kit.Task(kit.node())
    management = task.driver.management
    management.set_boot_device(task, "pxe", persistent=True)
    assert management.get_boot_device(task) == {"boot_device": "pxe", "persistent": False}
    assert management.get_supported_boot_devices(task) == ["pxe"]
    assert management.get_sensors_data(task) == {}
    with pytest.raises(errors.InvalidParameterValue, match="disk"):
        management.set_boot_device(task, "disk")


def test_fake_indicators_are_always_on():
    task = kit.Task(kit.node())
    management = task.driver.management
    assert set(management.get_supported_indicators(task)) == {"chassis", "system"}
    assert management.get_supported_indicators(task, "chassis") == {
        "chassis": {"led-0": {"readonly": True, "states": ["off", "on"]}}
    }
    assert management.get_indicator_state(task, "system", "led") == "on"
    for component, indicator in (("moon", "led"), ("system", "led-0")):
        with pytest.raises(errors.InvalidParameterValue):
            management.get_indicator_state(task, component, indicator)
    with pytest.raises(errors.UnsupportedDriverExtension):
        management.set_indicator_state(task, "system", "led", "off")


def test_fake_virtual_media_are_kept_in_the_record():
    task = kit.Task(kit.node())
    management = task.driver.management
    management.attach_virtual_media(task, "cdrom", "http://host/a.iso")
    management.attach_virtual_media(task, "disk", "http://host/b.img")
    cd, disk, floppy = management.get_virtual_media(task)
    assert cd == {"media_types": ["CD"], "inserted": True, "image": "http://host/a.iso"}
    assert disk == {"media_types": ["USBStick"], "inserted": True, "image": "http://host/b.img"}
    assert floppy == {"media_types": ["Floppy"], "inserted": False, "image": None}
    management.detach_virtual_media(task, ["disk", "floppy"])
    assert [m["inserted"] for m in management.get_virtual_media(task)] == [True, False, False]
    management.detach_virtual_media(task)
    management.detach_virtual_media(task)
    assert not any(media["inserted"] for media in management.get_virtual_media(task))


def test_fake_vendor_methods_compare_their_argument():
    task = kit.Task(kit.node())
    vendor = task.driver.vendor
    routes = {name: found.route.metadata() for name, found in vendor.vendor_routes.items()}
    shape = {
        name: (route["http_methods"], route["async"], route["require_exclusive_lock"])
        for name, route in routes.items()
    }
    assert shape == {
        "second_method": (["POST"], True, True),
        "third_method_sync": (["POST"], False, True),
        "fourth_method_shared_lock": (["POST"], True, False),
        "log_passthrough": (["POST"], True, True),
    }
    assert vendor.driver_routes == {}
    words = {
        "second_method": "kazoo",
        "third_method_sync": "meow",
        "fourth_method_shared_lock": "woof",
    }
    for name, word in words.items():
        func = vendor.vendor_routes[name].func
        assert func(task, http_method="POST", bar=word) is True
        assert func(task, http_method="POST", bar="x") is False
        with pytest.raises(errors.MissingParameterValue, match=name):
            vendor.validate(task, method=name)
        vendor.validate(task, method=name, bar="x")
    vendor.validate(task, method="log_passthrough")
    assert vendor.vendor_routes["log_passthrough"].func(task, http_method="POST", a=1) is None
    step = {"interface": "vendor", "step": "log_passthrough"}
    assert vendor.execute_clean_step(task, step) is None
    assert vendor.execute_service_step(
        task, {"interface": "vendor", "step": "trigger_servicewait"}
    ) == (states.SERVICEWAIT)


def test_fake_provisioning_ends_at_once():
    task = kit.Task(kit.node())
    driver = task.driver
    assert driver.deploy.execute_deploy_step(task, {"step": "deploy"}) is None
    assert driver.deploy.tear_down(task) == "deleted"
    assert driver.inspect.inspect_hardware(task) == states.MANAGEABLE
    assert driver.rescue.rescue(task) == states.RESCUE
    assert driver.rescue.unrescue(task) == states.ACTIVE
    assert driver.storage.should_write_image(task) is True
    assert driver.console.get_console(task) == {}
    assert driver.boot.capabilities == ("ipxe_boot", "pxe_boot")
    driver.deploy.heartbeat(task, "http://x", "1")


def test_fake_interfaces_can_be_slow(config, monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    config("fake", deploy_delay="3", raid_delay="1.5,4")
    task = kit.Task(kit.node())
    task.driver.deploy.deploy(task)
    task.driver.raid.delete_configuration(task)
    task.driver.boot.prepare_ramdisk(task, {})
    assert slept[0] == 3
    assert 1.5 <= slept[1] <= 4
    assert len(slept) == 2


def test_noop_interfaces_accept_everything():
    from ironic_rs.drivers.noop import NoopDeploy, NoopManagement
    from ironic_rs.drivers.storage.noop import NoopStorage

    task = kit.Task(
        kit.node(network_data={"links": []}),
        deploy=NoopDeploy(),
        management=NoopManagement(),
        storage=NoopStorage(),
    )
    driver = task.driver
    assert driver.deploy.deploy(task) is None
    assert driver.deploy.tear_down(task) == "deleted"
    driver.management.set_boot_device(task, "disk", persistent=True)
    assert driver.management.get_boot_device(task) == {"boot_device": "pxe", "persistent": True}
    with pytest.raises(errors.InvalidParameterValue):
        driver.management.set_boot_device(task, "cdrom")
    with pytest.raises(errors.UnsupportedDriverExtension):
        driver.management.get_sensors_data(task)
    assert driver.network.vif_list(task) == []
    assert driver.network.get_current_vif(task, SimpleNamespace()) is None
    assert driver.network.add_cleaning_network(task) == {}
    assert driver.network.get_node_network_data(task) == {"links": []}
    driver.network.validate_inspection(task)
    assert driver.storage.should_write_image(task) is True


def test_what_a_base_class_does_not_know_is_not_supported():
    task = kit.Task(kit.node())
    management, boot = task.driver.management, task.driver.boot
    calls = [
        lambda: base.ManagementInterface.get_boot_mode(management, task),
        lambda: base.ManagementInterface.set_boot_mode(management, task, "uefi"),
        lambda: base.ManagementInterface.get_supported_boot_modes(management, task),
        lambda: base.ManagementInterface.get_secure_boot_state(management, task),
        lambda: base.ManagementInterface.set_secure_boot_state(management, task, True),
        lambda: base.ManagementInterface.inject_nmi(management, task),
        lambda: base.ManagementInterface.detect_vendor(management, task),
        lambda: base.ManagementInterface.get_mac_addresses(management, task),
        lambda: base.ManagementInterface.get_node_health(management, task),
        lambda: base.ManagementInterface.get_virtual_media(management, task),
        lambda: base.ManagementInterface.attach_virtual_media(management, task, "cdrom", "x"),
        lambda: base.ManagementInterface.detach_virtual_media(management, task),
        lambda: boot.validate_rescue(task),
        lambda: boot.validate_inspection(task),
    ]
    for call in calls:
        with pytest.raises(errors.UnsupportedDriverExtension):
            call()
    assert boot.image_publisher_settings is None


def test_a_switched_deploy_interface_is_restored():
    task = kit.Task(
        kit.node(
            deploy_interface="direct",
            driver_internal_info={"original_deploy_interface": "autodetect"},
        )
    )
    task.driver.deploy.restore_interface(task)
    assert task.node.deploy_interface == "autodetect"
    assert "original_deploy_interface" not in task.node.driver_internal_info
    assert task.saves == 1
    task.driver.deploy.restore_interface(task)
    assert task.saves == 1


def test_raid_configurations_are_checked_and_stored():
    task = kit.Task(kit.node())
    raid = task.driver.raid
    wanted = {"logical_disks": [{"raid_level": "1", "size_gb": 10}]}
    assert raid.apply_configuration(task, wanted) is None
    assert task.node.target_raid_config == wanted
    raid.validate(task)
    assert "raid_level" in raid.get_logical_disk_properties()
    task.node.target_raid_config = {"logical_disks": []}
    with pytest.raises(errors.InvalidParameterValue):
        raid.validate(task)


_BOOTS = "ipxe pxe http-ipxe http"
_DEPLOYS = "autodetect direct ansible ramdisk anaconda bootc custom-agent"
_COMMON = {"network": "flat neutron ironic-networking noop", "storage": "noop cinder external"}
#: Hardware type -> interface type -> what fits, best first; other types have their no-op alone.
HARDWARE: dict[str, dict[str, str]] = {
    "fake-hardware": _COMMON
    | {
        "bios": "fake no-bios",
        "boot": f"fake {_BOOTS}",
        "console": "fake no-console fake-graphical",
        "deploy": f"fake {_DEPLOYS}",
        "firmware": "fake no-firmware",
        "inspect": "fake agent no-inspect",
        "management": "fake",
        "power": "fake",
        "raid": "fake no-raid agent",
        "rescue": "fake no-rescue agent",
        "storage": "fake noop cinder external",
        "vendor": "fake no-vendor",
    },
    "ipmi": _COMMON
    | {
        "bios": "no-bios",
        "boot": _BOOTS,
        "console": "ipmitool-socat no-console fake-graphical",
        "deploy": _DEPLOYS,
        "firmware": "no-firmware",
        "inspect": "agent no-inspect",
        "management": "ipmitool noop",
        "power": "ipmitool",
        "raid": "no-raid agent",
        "rescue": "no-rescue agent",
        "vendor": "ipmitool no-vendor",
    },
    "manual-management": _COMMON
    | {
        "bios": "no-bios",
        "boot": _BOOTS,
        "console": "no-console fake-graphical",
        "deploy": f"{_DEPLOYS} noop",
        "firmware": "no-firmware",
        "inspect": "agent no-inspect",
        "management": "noop fake",
        "power": "agent fake",
        "raid": "no-raid agent",
        "rescue": "no-rescue agent",
        "vendor": "no-vendor",
    },
    "redfish": _COMMON
    | {
        "bios": "redfish no-bios",
        "boot": f"{_BOOTS} redfish-virtual-media redfish-https",
        "console": "redfish-graphical ipmitool-socat no-console fake-graphical",
        "deploy": _DEPLOYS,
        "firmware": "redfish no-firmware",
        "inspect": "redfish agent no-inspect",
        "management": "redfish noop",
        "power": "redfish",
        "raid": "redfish no-raid agent",
        "rescue": "no-rescue agent",
        "vendor": "redfish no-vendor",
    },
}
HARDWARE["idrac"] = HARDWARE["redfish"] | {
    "bios": "idrac-redfish redfish no-bios",
    "boot": f"{_BOOTS} idrac-redfish-virtual-media redfish-https",
    "inspect": "idrac-redfish agent no-inspect",
    "management": "idrac-redfish",
    "power": "idrac-redfish redfish",
    "raid": "idrac-redfish no-raid agent",
    "vendor": "idrac-redfish redfish no-vendor",
}


@pytest.mark.parametrize("name", HARDWARE)
def test_the_interfaces_of_a_hardware_type_are_the_published_ones_in_their_order(name):
    (entry,) = metadata.entry_points(group=HARDWARE_GROUP, name=name)
    hardware = entry.load()()
    fits = {kind: " ".join(map(str, hardware.supports(kind))) for kind in base.INTERFACE_TYPES}
    assert fits == HARDWARE[name]
