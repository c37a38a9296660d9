"""Inspection by the agent: how it is started, what is done with the data, how it ends."""

from __future__ import annotations

import base64
import socket
from typing import Any

import pytest

from ironic_rs.db import models
from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.inspect import AgentInspect
from ironic_rs.drivers.fake.machine import FakeManagement
from ironic_rs.inspection import addresses
from ironic_rs.inspection.hooks import ports as port_hook
from tests.unit.drivers import kit
from tests.unit.drivers.agent.doubles import Boot, Network

MACS = ["52:54:00:00:00:01", "52:54:00:00:00:02"]
UNSUPPORTED = errors.UnsupportedDriverExtension(driver="x", extension="validate_inspection")
INVENTORY: dict[str, Any] = {"cpu": {"architecture": "x86_64"}, "interfaces": [{"name": "eth0"}]}


class Management(FakeManagement):
    """Knows MAC addresses, or an error."""

    def __init__(self, macs: Any) -> None:
        super().__init__()
        self.macs = macs

    def get_mac_addresses(self, task: Any) -> list[str]:
        if isinstance(self.macs, Exception):
            raise self.macs
        return list(self.macs)


@pytest.fixture(autouse=True)
def options(config, tmp_path):
    config("service_catalog", endpoint_override="http://api.example:6385")
    # Only what needs no database.
    config("inspector", hooks="ramdisk-error,architecture")
    config("agent", deploy_logs_local_path=str(tmp_path / "logs"))


@pytest.fixture
def created(monkeypatch) -> list[str]:
    """Addresses for which ports are created; no database is there."""
    made: list[str] = []
    monkeypatch.setattr(port_hook, "create", lambda _node, address: made.append(address))
    return made


def task_of(state=states.INSPECTING, macs: Any = (), **values: Any) -> kit.Task:
    calls: list[str] = []
    row: dict[str, Any] = {"provision_state": state, "power_state": states.POWER_ON}
    task = kit.Task(
        kit.node(**row | values),
        inspect=AgentInspect(),
        boot=Boot(calls),
        network=Network(calls),
        management=Management(macs),
    )
    record = task.flows._call

    def in_order(*call: Any) -> None:
        calls.append(call[1] if call[0] == "power" else call[0])
        record(*call)

    task.flows._call = in_order  # type: ignore[method-assign]
    return task


def managed(**values: Any) -> kit.Task:
    return task_of(driver_internal_info={"inspector_manage_boot": True}, **values)


# Start


def test_a_managed_inspection_boots_the_ramdisk_in_the_inspection_network(created):
    task = task_of(driver_info={"redfish_address": "https://192.0.2.7:8443"})
    assert task.driver.inspect.inspect_hardware(task) == states.INSPECTWAIT
    assert task.driver.boot.calls == [
        "power off",
        "add_inspection_network",
        "prepare_ramdisk",
        "power on",
    ]
    assert task.driver.boot.params == {
        "ipa-inspection-callback-url": "http://api.example:6385/v1/continue_inspection"
    }
    assert task.node.driver_internal_info == {
        "inspector_manage_boot": True,
        "lookup_bmc_addresses": ["192.0.2.7"],
    }


def test_parameters_follow_the_options(config, created):
    config("service_catalog", endpoint_override="http://api.example/baremetal/v1/")
    config("inspector", extra_kernel_params='quiet ipa-inspection-benchmarks="a b"')
    config("inspector", force_dhcp=True)
    task = task_of(driver_info={"fast_track": "true"})
    task.driver.inspect.inspect_hardware(task)
    assert task.driver.boot.params == {
        "quiet": None,
        "ipa-inspection-benchmarks": "a b",
        "ipa-inspection-callback-url": "http://api.example/baremetal/v1/continue_inspection",
        "ipa-collect-lldp": "1",
        "ipa-api-url": "http://api.example/baremetal/v1",
    }


def test_a_machine_that_must_stay_on_is_rebooted_by_the_flow(created):
    # power_off_and_on of the flow does so; nothing else may power it off.
    task = task_of(disable_power_off=True)
    task.driver.inspect.inspect_hardware(task)
    assert task.driver.boot.calls.count("power off") == 1


@pytest.mark.parametrize("missing", ["boot", "network"])
def test_an_unmanaged_boot_is_refused_or_left_to_the_network(config, created, missing, monkeypatch):
    task = task_of()
    if missing == "boot":
        task.driver.boot.refusals["validate_inspection"] = UNSUPPORTED
    else:

        def refuse(_self: Any, _task: Any) -> None:
            raise UNSUPPORTED

        monkeypatch.setattr(Network, "validate_inspection", refuse)
    task.ports = [models.Port(address=MACS[0])]
    with pytest.raises(errors.UnsupportedDriverExtension):
        task.driver.inspect.validate(task)
    with pytest.raises(errors.HardwareInspectionFailure, match="unable to start inspection"):
        task.driver.inspect.inspect_hardware(task)

    config("inspector", require_managed_boot=False)
    task.driver.inspect.validate(task)
    assert task.driver.inspect.inspect_hardware(task) == states.INSPECTWAIT
    assert task.driver.boot.calls == ["power off", "set_boot_device", "power on"]
    assert ("set_boot_device", "pxe", False) in task.flows.calls
    assert task.node.driver_internal_info["inspector_manage_boot"] is False


def test_a_node_without_ports_is_only_judged_when_the_bmc_was_asked(config):
    task = task_of(states.MANAGEABLE, macs=MACS)
    task.driver.boot.refusals["validate_inspection"] = UNSUPPORTED
    task.driver.inspect.validate(task)
    config("inspector", pre_create_ports=False)
    with pytest.raises(errors.UnsupportedDriverExtension):
        task.driver.inspect.validate(task)
    config("inspector", pre_create_ports=True)
    task.driver.management = FakeManagement()  # knows no MAC addresses
    with pytest.raises(errors.UnsupportedDriverExtension):
        task.driver.inspect.validate(task)


@pytest.mark.parametrize(
    ("macs", "expected"),
    [
        ([MACS[0].upper(), MACS[1], MACS[1], "", "50:06:01:60:3b:de:00:01", "junk"], [MACS[1]]),
        ([], []),
        (errors.RedfishError(error="down"), []),
        (UNSUPPORTED, []),
    ],
)
def test_ports_are_created_for_what_the_bmc_knows(created, macs, expected):
    task = task_of(macs=macs)
    task.ports = [models.Port(address=MACS[0])]
    assert task.driver.inspect.inspect_hardware(task) == states.INSPECTWAIT
    assert created == expected


def test_no_ports_are_created_where_that_is_switched_off(config, created):
    config("inspector", pre_create_ports=False)
    task = task_of(macs=MACS)
    task.driver.inspect.inspect_hardware(task)
    assert created == []


def test_what_goes_wrong_at_the_start_is_told(created):
    task = task_of()
    task.driver.boot.refusals["prepare_ramdisk"] = errors.ImageDownloadFailed(
        image_href="http://x", reason="404"
    )
    with pytest.raises(errors.HardwareInspectionFailure, match=r"unable to start inspection.*404"):
        task.driver.inspect.inspect_hardware(task)
    assert "power on" not in task.driver.boot.calls


# Addresses


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({}, []),
        ({"redfish_address": "https://[2001:db8::1]:8443/redfish"}, ["2001:db8::1"]),
        ({"redfish_address": "[2001:db8::1]"}, ["2001:db8::1"]),
        ({"redfish_address": "[2001:db8::1]:8443/"}, ["2001:db8::1"]),
        ({"redfish_address": "2001:DB8:0::1"}, ["2001:db8::1"]),
        ({"ipmi_address": "[2001:db8::1]"}, ["2001:db8::1"]),
        ({"redfish_address": "192.0.2.1:8443/root"}, ["192.0.2.1"]),
        ({"ipmi_address": "192.0.2.1", "x_address": "192.0.2.2"}, ["192.0.2.1", "192.0.2.2"]),
        ({"ipmi_address": "192.0.2.1", "ipmi_bridging": "single"}, []),
        ({"ipmi_address": "192.0.2.1", "ipmi_bridging": "no"}, ["192.0.2.1"]),
        ({"redfish_address": "http://127.0.0.1:8000", "a_address": None, "b_address": 5}, []),
        ({"redfish_address": "http://[half"}, []),
        ({"redfish_system_id": "192.0.2.1"}, []),
    ],
)
def test_addresses_of_the_bmc_are_what_the_lookup_needs(info, expected):
    assert addresses.of_bmc(kit.node(driver_info=info)) == expected


def test_names_count_with_their_addresses(monkeypatch):
    def resolve(host: str, *_arguments: Any, **_options: Any) -> list[Any]:
        if host != "bmc.example":
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", ("192.0.2.9", 0)), (0, 0, 0, "", ("fe80::1%eth0", 0, 0, 2))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    info = {"redfish_address": "https://bmc.example", "other_address": "unknown.example"}
    assert addresses.of_bmc(kit.node(driver_info=info)) == [
        "192.0.2.9",
        "bmc.example",
        "fe80::1",
    ]


# Data


def logs_of(tmp_path: Any) -> list[bytes]:
    return [path.read_bytes() for path in sorted((tmp_path / "logs").glob("*_inspect_*"))]


def test_hooks_run_and_the_ramdisk_ends():
    task = managed()
    assert task.driver.inspect.continue_inspection(task, INVENTORY, {}) is None
    assert task.node.properties["cpu_arch"] == "x86_64"
    assert task.driver.boot.calls == ["clean_up_ramdisk", "remove_inspection_network", "power off"]
    assert task.node.driver_internal_info == {}


@pytest.mark.parametrize(
    ("values", "power_off", "expected"),
    [
        ({}, False, []),
        ({"disable_power_off": True}, True, ["rebooting"]),
    ],
)
def test_the_end_leaves_the_power_as_it_is_wanted(config, values, power_off, expected):
    config("inspector", power_off=power_off)
    task = managed(**values)
    task.driver.inspect.continue_inspection(task, INVENTORY, {})
    assert task.driver.boot.calls[2:] == ([states.REBOOT] if expected else [])


def test_with_fast_track_the_ramdisk_stays_on():
    task = managed(driver_info={"fast_track": True})
    task.node.driver_internal_info["agent_last_heartbeat"] = kit.now()
    task.driver.inspect.continue_inspection(task, INVENTORY, {})
    assert "power off" not in task.driver.boot.calls


def test_an_unmanaged_machine_is_not_switched_at_the_end():
    task = task_of()
    task.driver.inspect.continue_inspection(task, INVENTORY, {})
    assert task.driver.boot.calls == []


@pytest.mark.parametrize("collect", ["never", "on_failure", "always"])
@pytest.mark.parametrize("error", [None, "no disks"])
def test_logs_are_kept_as_configured(config, tmp_path, collect, error):
    config("agent", deploy_logs_collect=collect)
    task = managed()
    data = {"error": error, "logs": base64.b64encode(b"packed").decode()}
    if error:
        with pytest.raises(
            errors.HardwareInspectionFailure, match=r"hooks: ramdisk-error.*no disks"
        ):
            task.driver.inspect.continue_inspection(task, INVENTORY, data)
    else:
        task.driver.inspect.continue_inspection(task, INVENTORY, data)
    kept = collect == "always" or (collect == "on_failure" and error)
    assert logs_of(tmp_path) == ([b"packed"] if kept else [])


@pytest.mark.parametrize("logs", [None, "%%%", 5, ["x"]])
def test_logs_that_are_none_do_not_hide_the_failure(logs, tmp_path):
    task = managed()
    with pytest.raises(errors.HardwareInspectionFailure, match="no disks"):
        task.driver.inspect.continue_inspection(
            task, INVENTORY, {"error": "no disks", "logs": logs}
        )
    assert logs_of(tmp_path) == []


# Failure and abort


def test_abort_ends_the_ramdisk_and_powers_off():
    task = managed()
    task.node.driver_internal_info["lookup_bmc_addresses"] = ["192.0.2.1"]
    task.driver.inspect.abort(task)
    assert task.driver.boot.calls == ["clean_up_ramdisk", "remove_inspection_network", "power off"]
    assert task.node.driver_internal_info == {}
    # Once more, as after a failure of the clean-up: only the power is asked for.
    task.driver.inspect.abort(task)
    assert task.driver.boot.calls[3:] == ["power off"]


def test_a_discovered_machine_is_not_switched_off():
    task = task_of(states.ENROLL)
    task.driver.inspect.abort(task)
    assert task.driver.boot.calls == []


def test_all_of_the_clean_up_is_tried_and_told():
    task = managed()
    task.driver.boot.refusals["clean_up_ramdisk"] = errors.RedfishError(error="stuck drive")
    task.driver.network.refusals["remove_inspection_network"] = errors.NetworkError("no switch")
    with pytest.raises(errors.HardwareInspectionFailure, match=r"stuck drive.*no switch"):
        task.driver.inspect.abort(task)
    assert task.driver.boot.calls[-1] == "power off"
