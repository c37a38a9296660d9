"""The IPMI driver against BMC processes, over a network with faults."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyghmi.ipmi import sdr

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.ipmi import bmc as operations
from ironic_rs.drivers.ipmi import power as power_module
from ironic_rs.drivers.ipmi import turns
from ironic_rs.drivers.ipmi.management import IPMIManagement
from ironic_rs.drivers.ipmi.power import IPMIPower
from ironic_rs.drivers.ipmi.vendor import IPMIVendor
from tests.harness.ipmi import (
    KG,
    PASSWORD,
    USER,
    Fate,
    Network,
    PyBmc,
    ipmi_sim,
    lossy,
    need_ipmitool,
    perfect,
)
from tests.harness.servers import HOST, missing
from tests.unit.drivers import kit
from tests.unit.drivers.conftest import config  # noqa: F401

ON, OFF = states.POWER_ON, states.POWER_OFF
STATUS, CONTROL, SET_OPTION = "0.1", "0.2", "0.8"


class Flows(kit.Flows):
    """The conductor's part, on the real BMC."""

    def wait_for_power_state(self, state: str, timeout: int | None = None) -> str:
        super().wait_for_power_state(state, timeout)
        end = time.monotonic() + (timeout or 30)
        while self._task.driver.power.get_power_state(self._task) != state:
            if time.monotonic() > end:
                raise errors.PowerStateFailure(pstate=state)
            time.sleep(0.05)
        return state

    def set_boot_device(self, device: str, persistent: bool = False) -> None:
        super().set_boot_device(device, persistent)
        self._task.driver.management.set_boot_device(self._task, device, persistent)


def task_on(port: int, **columns: Any) -> kit.Task:
    info = {"ipmi_address": HOST, "ipmi_port": port}
    info |= {"ipmi_username": USER, "ipmi_password": PASSWORD}
    info |= columns.pop("driver_info", {})
    task = kit.Task(
        kit.node(driver="ipmi", driver_info=info, **columns),
        power=IPMIPower(),
        management=IPMIManagement(),
        vendor=IPMIVendor(),
    )
    task.flows = Flows(task)
    return task


@pytest.fixture(autouse=True)
def options(config: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    config("ipmi", min_command_interval=0, command_retry_timeout=20)
    monkeypatch.setattr(power_module, "RESET_SETTLE", 0)
    turns._bmcs.clear()
    # Lists of sensors, which the library keeps by model.
    sdr.shared_sdrs.clear()


@pytest.fixture(scope="module")
def processes() -> Iterator[PyBmc]:
    bmc = PyBmc()
    yield bmc
    bmc.close()


@pytest.fixture
def bmc(processes: PyBmc) -> PyBmc:
    processes.set(
        power=False,
        slow=0.0,
        deaf=False,
        codes={},
        mute={},
        vendor=674,
        refuses_sha256=False,
        flags=[0, 0, 0, 0, 0],
    )
    processes.events.clear()
    return processes


@pytest.fixture
def network(bmc: PyBmc) -> Iterator[Callable[..., Network]]:
    """Return a maker of networks before the BMC."""
    made: list[Network] = []

    def make(fate: Callable[[str, int, bytes], Fate]) -> Network:
        made.append(Network(bmc.port, fate))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def task(bmc: PyBmc) -> kit.Task:
    return task_on(bmc.port)


# Power


def test_power_is_switched_and_confirmed(bmc, task):
    power = task.driver.power
    bmc.set(slow=0.3)
    assert power.get_power_state(task) == OFF
    power.set_power_state(task, ON)
    assert power.get_power_state(task) == ON
    power.set_power_state(task, OFF)
    assert power.get_power_state(task) == OFF
    assert bmc.asked(CONTROL) == ["01", "00"]
    assert ("wait_for_power_state", ON, None) in task.flows.calls


def test_a_request_for_the_present_state_succeeds(bmc, task):
    bmc.set(power=True)
    task.driver.power.set_power_state(task, ON)
    assert bmc.asked(CONTROL) == ["01"]


def test_a_refusal_in_another_state_is_a_failure(bmc, task):
    bmc.set(codes={CONTROL: [0xD5, 1]})
    with pytest.raises(errors.IPMIFailure, match=r"setting power state 'power on'.*0xd5"):
        task.driver.power.set_power_state(task, ON)


def test_a_soft_power_off_waits_as_long_as_configured(bmc, task):
    bmc.set(power=True)
    task.driver.power.set_power_state(task, states.SOFT_POWER_OFF)
    assert bmc.asked(CONTROL) == ["05"]
    soft = CONF.conductor.soft_power_off_timeout
    assert ("wait_for_power_state", OFF, soft) in task.flows.calls
    bmc.set(power=True)
    task.driver.power.set_power_state(task, states.SOFT_POWER_OFF, timeout=7)
    assert ("wait_for_power_state", OFF, 7) in task.flows.calls


def test_a_soft_power_off_that_is_ignored_fails(bmc, task):
    bmc.set(power=True, deaf=True)
    with pytest.raises(errors.PowerStateFailure):
        task.driver.power.set_power_state(task, states.SOFT_POWER_OFF, timeout=1)


def test_a_soft_reboot_is_soft_off_and_on(bmc, task):
    bmc.set(power=True)
    task.driver.power.set_power_state(task, states.SOFT_REBOOT)
    assert bmc.asked(CONTROL) == ["05", "01"]


def test_a_soft_reboot_without_power_off_is_refused(bmc):
    task = task_on(bmc.port, disable_power_off=True)
    with pytest.raises(errors.UnsupportedHardwareFeature, match="soft reboot"):
        task.driver.power.set_power_state(task, states.SOFT_REBOOT)
    assert bmc.asked(CONTROL) == []


@pytest.mark.parametrize("state", [states.REBOOT, "sideways"])
def test_other_states_are_refused(bmc, task, state):
    with pytest.raises(errors.InvalidParameterValue, match=state):
        task.driver.power.set_power_state(task, state)


@pytest.mark.parametrize(
    ("on", "no_off", "expected"),
    [
        (True, False, ["00", "01"]),
        (False, False, ["01"]),
        (True, True, ["03"]),
        (False, True, ["01"]),
    ],
)
def test_reboots(bmc, on, no_off, expected):
    bmc.set(power=on)
    task = task_on(bmc.port, disable_power_off=no_off)
    task.driver.power.reboot(task)
    assert bmc.asked(CONTROL) == expected
    assert task.driver.power.get_power_state(task) == ON


def test_power_needs_the_exclusive_lock(bmc, task):
    task.shared = True
    for change in (
        lambda: task.driver.power.set_power_state(task, ON),
        lambda: task.driver.power.reboot(task),
        lambda: task.driver.management.set_boot_device(task, "pxe"),
        lambda: task.driver.management.inject_nmi(task),
        lambda: task.driver.vendor.send_raw(task, raw_bytes="0 1"),
        lambda: task.driver.vendor.bmc_reset(task, "POST"),
    ):
        with pytest.raises(errors.ExclusiveLockRequired):
            change()
    assert bmc.events == []


# Boot device


@pytest.mark.parametrize(
    ("mode", "persistent", "device", "vendor", "expected"),
    [
        ("uefi", True, "pxe", None, "05e004000000"),
        ("uefi", False, "pxe", None, "05a004000000"),
        ("uefi", False, "disk", None, "05a008000000"),
        ("uefi", False, "disk", "Supermicro", "05a024000000"),
        ("bios", False, "disk", "supermicro", "058008000000"),
        ("bios", True, "disk", None, "05c008000000"),
        ("bios", False, "cdrom", None, "058014000000"),
        ("bios", False, "bios", None, "058018000000"),
        ("uefi", True, "safe", None, "05e00c000000"),
    ],
)
def test_boot_devices_are_set(bmc, mode, persistent, device, vendor, expected):
    task = task_on(bmc.port, properties={"capabilities": f"boot_mode:{mode}", "vendor": vendor})
    management = task.driver.management
    management.set_boot_device(task, device, persistent)
    assert bmc.asked(SET_OPTION) == ["0308", expected]
    assert management.get_boot_device(task) == {"boot_device": device, "persistent": persistent}


def test_an_unknown_boot_device_is_refused(bmc, task):
    with pytest.raises(errors.InvalidParameterValue, match=r"'uefihttp'; known are pxe"):
        task.driver.management.set_boot_device(task, "uefihttp")
    assert bmc.events == []


def test_the_timeout_of_boot_flags_is_left_alone_when_asked(bmc, config):  # noqa: F811
    task = task_on(bmc.port, driver_info={"ipmi_disable_boot_timeout": "false"})
    task.driver.management.set_boot_device(task, "pxe")
    config("ipmi", disable_boot_timeout=False)
    other = task_on(bmc.port)
    other.driver.management.set_boot_device(other, "pxe")
    assert [data[:2] for data in bmc.asked(SET_OPTION)] == ["05", "05"]


def test_a_bmc_without_that_timeout_gets_its_boot_device(bmc, task):
    bmc.set(codes={SET_OPTION: [0x80, 1]})
    task.driver.management.set_boot_device(task, "pxe")
    assert bmc.asked(SET_OPTION)[-1].startswith("05")


def test_a_bmc_that_refuses_the_device_is_a_failure(bmc):
    task = task_on(bmc.port, driver_info={"ipmi_disable_boot_timeout": False})
    bmc.set(codes={SET_OPTION: [0xCC, 1]})
    with pytest.raises(errors.IPMIFailure, match=r"setting boot device 'pxe'.*0xcc"):
        task.driver.management.set_boot_device(task, "pxe")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([0x00, 0x04, 0, 0, 0], {"boot_device": None, "persistent": False}),
        ([0x80, 0x00, 0, 0, 0], {"boot_device": None, "persistent": False}),
        ([0xC0, 0x04, 0, 0, 0], {"boot_device": "pxe", "persistent": True}),
        ([0x80, 0x3C, 0, 0, 0], {"boot_device": None, "persistent": False}),
        ([0xE0, 0x24, 0, 0, 0], {"boot_device": "disk", "persistent": True}),
        ([], {"boot_device": None, "persistent": False}),
    ],
    ids=str,
)
def test_boot_devices_are_read(bmc, task, flags, expected):
    bmc.set(flags=flags)
    assert task.driver.management.get_boot_device(task) == expected


def test_a_forced_boot_device_is_set_before_each_power_on(bmc):
    task = task_on(bmc.port, driver_info={"ipmi_force_boot_device": True})
    info = task.node.driver_internal_info
    management, power = task.driver.management, task.driver.power
    management.set_boot_device(task, "disk", persistent=True)
    assert info == {"persistent_boot_device": "disk"}
    # Never set persistently: that is what such BMCs get wrong.
    assert bmc.asked(SET_OPTION)[-1] == "05a008000000"
    bmc.events.clear()
    power.set_power_state(task, ON)
    assert bmc.asked(SET_OPTION)[-1] == "05a008000000"
    assert management.get_boot_device(task) == {"boot_device": "disk", "persistent": True}

    management.set_boot_device(task, "pxe", persistent=False)
    assert info["is_next_boot_persistent"] is False
    assert management.get_boot_device(task)["boot_device"] == "pxe"
    power.set_power_state(task, OFF)
    bmc.events.clear()
    power.set_power_state(task, ON)
    # The exception holds once.
    assert bmc.asked(SET_OPTION) == []
    assert "is_next_boot_persistent" not in info
    power.reboot(task)
    assert bmc.asked(SET_OPTION)[-1] == "05a008000000"


# Other requests


def test_an_nmi_is_sent(bmc, task):
    bmc.set(power=True)
    task.driver.management.inject_nmi(task)
    assert bmc.asked(CONTROL) == ["04"]


@pytest.mark.parametrize(
    ("number", "name"),
    [(674, "dell"), (47488, "supermicro"), (19046, "lenovo"), (47196, "hpe"), (999999, None)],
)
def test_the_vendor_is_known_by_its_number(bmc, task, number, name):
    bmc.set(vendor=number)
    assert task.driver.management.detect_vendor(task) == name


def test_the_vendor_is_asked_for_once_along_with_the_power_state(bmc, task):
    for _cycle in range(3):
        task.driver.power.get_power_state(task)
        assert task.driver.management.detect_vendor(task) == "dell"
    assert len(bmc.asked("6.1")) == 1


def test_a_bmc_that_does_not_tell_its_maker_tells_the_power_state(bmc, task):
    bmc.set(codes={"6.1": [0xC1, 9]})
    assert task.driver.power.get_power_state(task) == OFF
    assert task.driver.management.detect_vendor(task) is None
    assert len(bmc.asked("6.1")) == 1


@pytest.mark.parametrize("trouble", ["silence", "nonsense"])
def test_a_power_state_counts_whatever_the_bmc_tells_of_its_maker(bmc, task, config, trouble):  # noqa: F811
    config("ipmi", command_retry_timeout=2)
    if trouble == "silence":
        bmc.set(power=True, mute={"6.1": 10**6})
    else:
        bmc.set(power=True, vendor=None)
    assert task.driver.power.get_power_state(task) == ON
    bmc.set(mute={}, vendor=674)
    # Silence may pass; nonsense is not asked for again with each power state.
    expected = "dell" if trouble == "silence" else None
    assert task.driver.management.detect_vendor(task) == expected


def test_raw_bytes_are_sent(bmc, task, caplog):
    caplog.set_level("INFO")
    task.driver.vendor.send_raw(task, http_method="POST", raw_bytes="0x2c 65 0x04 0x00")
    assert bmc.asked("44.65") == ["0400"]
    assert "00 04" in caplog.text


def test_refused_raw_bytes_are_a_failure(bmc, task):
    with pytest.raises(errors.IPMIFailure, match=r"sending raw bytes 0x2e 0x01.*0xc1"):
        task.driver.vendor.send_raw(task, raw_bytes="0x2e 0x01")


@pytest.mark.parametrize(
    ("warm", "request_name"),
    [(True, "6.3"), ("true", "6.3"), (False, "6.2"), ("no", "6.2")],
)
def test_the_bmc_is_reset(bmc, task, warm, request_name):
    task.driver.vendor.bmc_reset(task, "POST", warm=warm)
    assert bmc.asked(request_name) == [""]


def test_a_bmc_that_dies_of_its_reset_is_asked_once(bmc, task, monkeypatch):
    monkeypatch.setattr("ironic_rs.drivers.ipmi.session.ONCE_PATIENCE", 1.5)
    bmc.set(mute={"6.2": 100})
    task.driver.vendor.bmc_reset(task, "POST", warm=False)
    assert bmc.asked("6.2") == [""]


def test_sensors_are_read(bmc, task):
    found = task.driver.management.get_sensors_data(task)
    assert found["Temperature"]["Inlet Temp (0x1)"] == {
        "Sensor ID": "Inlet Temp (0x1)",
        "Entity ID": "55.1 (Air inlet)",
        "Sensor Type (Threshold)": "Temperature (0x01)",
        "Sensor Reading": "42 (+/- 0.5) degrees C",
        "Status": "ok",
    }
    fan = found["Fan"]["Fan1A (0x2)"]
    assert fan["Sensor Reading"] == "3600 (+/- 37.5) RPM"
    assert fan["Status"] == "Upper Non-Critical"
    supply = found["Power"]["PS1 Status (0x3)"]
    assert supply["Sensor Type (Discrete)"] == "Power Supply (0x08)"
    assert supply["Sensor Reading"] == "0h"
    assert supply["States Asserted"] == "Present"


def test_one_unreadable_sensor_does_not_hide_the_others(bmc, task):
    bmc.set(codes={"4.45": [0xCB, 1]})
    found = task.driver.management.get_sensors_data(task)
    assert set(found) == {"Fan", "Power"}


def test_sensors_that_cannot_be_listed_are_a_failure(bmc, task):
    bmc.set(codes={"10.32": [0xC1, 9]})
    with pytest.raises(errors.FailedToGetSensorData, match=r"reading the sensors.*0xc1"):
        task.driver.management.get_sensors_data(task)


def test_a_list_of_sensors_that_never_ends_ends_at_the_deadline(bmc, task, config):  # noqa: F811
    # "Can not return that many bytes", for any number of bytes.
    config("ipmi", command_retry_timeout=2)
    bmc.set(codes={"10.35": [0xCA, 10**9]})
    with pytest.raises(errors.FailedToGetSensorData, match="no answer"):
        task.driver.management.get_sensors_data(task)


# Log-in


def test_a_wrong_password_is_told_at_once(bmc):
    task = task_on(bmc.port, driver_info={"ipmi_password": "wrong"})
    with pytest.raises(errors.IPMIFailure, match=r"BMC 127\.0\.0\.1:\d+: Incorrect password"):
        task.driver.power.get_power_state(task)
    # One proposal: the password was not tried again.
    assert bmc.events == [{"proposal": 3}]


def test_a_bmc_that_ignores_an_unknown_user_does_not_hold_us_up(bmc, config):  # noqa: F811
    config("ipmi", command_retry_timeout=3)
    task = task_on(bmc.port, driver_info={"ipmi_username": "nobody"})
    with pytest.raises(errors.IPMIFailure, match="many BMCs ignore unknown users"):
        task.driver.power.get_power_state(task)


def test_the_next_cipher_suite_is_proposed_when_one_is_refused(bmc, task):
    bmc.set(refuses_sha256=True)
    assert task.driver.power.get_power_state(task) == OFF
    assert [event["proposal"] for event in bmc.events if "proposal" in event] == [3, 1]


@pytest.mark.parametrize(
    ("info", "suites"),
    [({"ipmi_cipher_suite": 3}, []), ({}, ["3"]), ({"ipmi_cipher_suite": "3"}, ["17"])],
)
def test_the_wanted_cipher_suite_is_proposed_first(bmc, config, info, suites):  # noqa: F811
    config("ipmi", cipher_suite_versions=suites)
    task = task_on(bmc.port, driver_info=info)
    assert task.driver.power.get_power_state(task) == OFF
    assert [event["proposal"] for event in bmc.events if "proposal" in event] == [1]


@pytest.mark.parametrize("refuses", [True, False])
def test_no_weaker_cipher_suite_is_taken_than_the_wanted_one(bmc, refuses):
    bmc.set(refuses_sha256=refuses)
    task = task_on(bmc.port, driver_info={"ipmi_cipher_suite": 17})
    with pytest.raises(errors.IPMIFailure, match=r"No Cipher suite match|not proposed"):
        task.driver.power.get_power_state(task)


def test_two_key_log_in():
    bmc = PyBmc("--kg")
    try:
        task = task_on(bmc.port, driver_info={"ipmi_hex_kg_key": KG.hex()})
        assert task.driver.power.get_power_state(task) == OFF
        wrong = task_on(bmc.port, driver_info={"ipmi_hex_kg_key": "00"})
        with pytest.raises(errors.IPMIFailure):
            wrong.driver.power.get_power_state(wrong)
    finally:
        bmc.close()


@pytest.mark.parametrize("privilege", ["OPERATOR", "USER"])
def test_a_lower_privilege_is_enough_to_read(bmc, privilege):
    task = task_on(bmc.port, driver_info={"ipmi_priv_level": privilege})
    assert task.driver.power.get_power_state(task) == OFF


def test_each_operation_logs_out(bmc, task, network):
    seen: list[bytes] = []

    def fate(way: str, _number: int, packet: bytes) -> Fate:
        if way == "to":
            seen.append(packet)
        return [0.0]

    port = network(fate).port
    task = task_on(port)
    task.node.properties["vendor"] = "acme"
    for _attempt in range(3):
        task.driver.power.get_power_state(task)
    # Log-in in six packets, status, log-out: nothing more, nothing in the background.
    assert len(seen) == 3 * 7


# Faults


@pytest.mark.parametrize("seed", range(4))
def test_lost_and_repeated_packets_are_made_good(bmc, network, seed):
    task = task_on(network(lossy(0.1, seed)).port)
    task.driver.power.set_power_state(task, ON)
    assert task.driver.power.get_power_state(task) == ON
    task.driver.management.set_boot_device(task, "pxe", persistent=True)
    assert task.driver.management.get_boot_device(task)["boot_device"] == "pxe"


def test_a_slow_network_only_takes_longer(bmc, network):
    # Longer than the first pause before a packet is sent again: every answer is late.
    task = task_on(network(lambda *_packet: [0.4]).port)
    assert task.driver.power.get_power_state(task) == OFF


def test_a_bmc_that_falls_silent_after_the_log_in_ends_at_the_deadline(bmc, task, config):  # noqa: F811
    config("ipmi", command_retry_timeout=2)
    bmc.set(mute={STATUS: 10**6})
    with pytest.raises(errors.IPMIFailure, match="no answer to the request"):
        task.driver.power.get_power_state(task)


@pytest.mark.parametrize("last", range(1, 5))
def test_a_half_open_log_in_ends_at_the_deadline(bmc, network, config, last):  # noqa: F811
    config("ipmi", command_retry_timeout=2)
    fate = lambda way, number, _packet: [] if way == "from" and number > last else [0.0]  # noqa: E731
    task = task_on(network(fate).port)
    with pytest.raises(errors.IPMIFailure, match="no answer"):
        task.driver.power.get_power_state(task)


@pytest.mark.parametrize("kept", [4, 5, 8, 14, 16, 20, 30])
def test_garbage_in_place_of_answers_ends_at_the_deadline(bmc, network, config, kept):  # noqa: F811
    config("ipmi", command_retry_timeout=2)
    made = network(perfect)
    made.change = lambda way, packet: packet[:kept] + b"\xff" * 9 if way == "from" else packet
    task = task_on(made.port)
    with pytest.raises(errors.IPMIFailure):
        task.driver.power.get_power_state(task)


def test_a_busy_bmc_is_asked_again(bmc, task):
    bmc.set(codes={STATUS: [0xC0, 2]})
    assert task.driver.power.get_power_state(task) == OFF
    assert len(bmc.asked(STATUS)) == 3


def test_a_bmc_that_stays_busy_is_a_failure_in_the_end(bmc, task, config):  # noqa: F811
    config("ipmi", command_retry_timeout=2)
    bmc.set(codes={STATUS: [0xC0, 10**6]})
    with pytest.raises(errors.IPMIFailure, match="Node Busy"):
        task.driver.power.get_power_state(task)


def test_more_errors_can_be_made_worth_another_try(bmc, task, config):  # noqa: F811
    bmc.set(codes={STATUS: [0xFF, 1]})
    with pytest.raises(errors.IPMIFailure, match="0xff"):
        task.driver.power.get_power_state(task)
    config("ipmi", additional_retryable_ipmi_errors=["Completion code 0xFF"])
    bmc.set(codes={STATUS: [0xFF, 1]})
    assert task.driver.power.get_power_state(task) == OFF


def test_a_dead_bmc_gets_few_packets_when_its_state_is_read(bmc, network, monkeypatch):
    monkeypatch.setattr(operations, "READ_PATIENCE", 3.0)
    monkeypatch.setattr(operations, "SILENT_PATIENCE", 1.0)
    dead = network(lambda *_packet: [])
    task = task_on(dead.port)
    for most in (6, 2):
        dead.seen.clear()
        with pytest.raises(errors.IPMIFailure, match="no answer"):
            task.driver.power.get_power_state(task)
        assert 1 <= len(dead.seen) <= most
    dead.fate = perfect
    assert task.driver.power.get_power_state(task) == OFF


def test_a_machine_is_switched_on_while_its_bmc_comes_back(bmc, network, monkeypatch):
    # Unlike a look at the state, a change waits for a silent BMC.
    monkeypatch.setattr(operations, "READ_PATIENCE", 0.2)
    late = network(lambda _way, number, _packet: [] if number <= 3 else [0.0])
    task = task_on(late.port)
    task.driver.management.set_boot_device(task, "pxe")
    assert len(bmc.asked(SET_OPTION)) == 2


def test_an_unknown_host_name_is_told(config):  # noqa: F811
    config("ipmi", command_retry_timeout=1)
    task = task_on(623, driver_info={"ipmi_address": "no-such-host.invalid"})
    with pytest.raises(errors.IPMIFailure, match="its address is not known"):
        task.driver.power.get_power_state(task)


def test_ipv6(bmc):
    task = task_on(bmc.port, driver_info={"ipmi_address": "::1"})
    try:
        assert task.driver.power.get_power_state(task) == OFF
    except errors.IPMIFailure as exc:
        if "cannot be reached" in str(exc):
            missing("this host has no IPv6 loopback")
        raise


def test_a_host_name_with_several_addresses(bmc):
    task = task_on(bmc.port, driver_info={"ipmi_address": "localhost"})
    assert task.driver.power.get_power_state(task) == OFF


# An independent implementation of the standard


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    with ipmi_sim(tmp_path_factory.mktemp("ipmi_sim")) as found:
        yield found


@pytest.mark.parametrize(
    ("use_ipmitool", "info"),
    [
        ("never", {}),
        ("always", {"ipmi_cipher_suite": 3}),
        ("auto", {"ipmi_protocol_version": "1.5"}),
    ],
    ids=["built-in", "program", "program-1.5"],
)
def test_a_simulator_by_both_clients(simulator, config, use_ipmitool, info):  # noqa: F811
    port, chassis = simulator
    if use_ipmitool != "never":
        need_ipmitool()
    config("ipmi", use_ipmitool=use_ipmitool)
    (chassis / "power").write_text("0")
    task = task_on(port, driver_info=info)
    power, management = task.driver.power, task.driver.management
    power.validate(task)
    assert power.get_power_state(task) == OFF
    power.set_power_state(task, ON)
    assert (chassis / "power").read_text().strip() == "1"
    management.set_boot_device(task, "pxe")
    assert (chassis / "boot").read_text().strip() == "pxe"
    management.set_boot_device(task, "disk")
    assert (chassis / "boot").read_text().strip() == "default"
    assert management.detect_vendor(task) == "supermicro"
    power.reboot(task)
    assert power.get_power_state(task) == ON
    found = management.get_sensors_data(task)
    assert set(found) == {"Temperature", "Fan", "Power"}
    assert found["Fan"]["Fan1A (0x2)"]["Sensor Type (Threshold)"] == "Fan (0x04)"
    with pytest.raises(errors.IPMIFailure, match=r"(?i)request data length invalid"):
        task.driver.vendor.send_raw(task, raw_bytes="0x2e 0x01")
    config("ipmi", command_retry_timeout=2)
    wrong = task_on(port, driver_info=info | {"ipmi_password": "wrong"})
    with pytest.raises(errors.IPMIFailure):
        wrong.driver.power.get_power_state(wrong)


def test_the_program_tells_of_a_refused_cipher_suite_in_words_that_are_known(bmc, config):  # noqa: F811
    need_ipmitool()
    bmc.set(refuses_sha256=True)
    config("ipmi", use_ipmitool="always", cipher_suite_versions=["3", "17"])
    task = task_on(bmc.port)
    assert task.driver.power.get_power_state(task) == OFF
    assert [event["proposal"] for event in bmc.events if "proposal" in event][:2] == [3, 1]
    config("ipmi", command_retry_timeout=2)
    fixed = task_on(bmc.port, driver_info={"ipmi_cipher_suite": 17})
    with pytest.raises(errors.IPMIFailure, match=r"(?i)cipher suite"):
        fixed.driver.power.get_power_state(fixed)


def test_both_clients_show_the_same_sensors(bmc, config):  # noqa: F811
    need_ipmitool()
    task = task_on(bmc.port, driver_info={"ipmi_cipher_suite": 3})
    built_in = task.driver.management.get_sensors_data(task)
    config("ipmi", use_ipmitool="always")
    program = task.driver.management.get_sensors_data(task)
    for kind, sensors in program.items():
        for name, fields in sensors.items():
            ours = built_in[kind][name]
            for key in ours.keys() & fields.keys() - {"Entity ID", "States Asserted"}:
                assert ours[key].split(" (+/-")[0] == fields[key].split(" (+/-")[0]
            assert ours["Entity ID"].split()[0] == fields["Entity ID"].split()[0]
    assert {k: set(v) for k, v in built_in.items()} == {k: set(v) for k, v in program.items()}
