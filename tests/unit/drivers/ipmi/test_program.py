"""The program ipmitool: how it is run, and what is made of what it says."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.ipmi import program, turns
from ironic_rs.drivers.ipmi.driver_info import parse
from ironic_rs.drivers.ipmi.management import IPMIManagement
from ironic_rs.drivers.ipmi.power import IPMIPower
from ironic_rs.drivers.ipmi.vendor import IPMIVendor
from tests.harness.ipmitool import FakeProgram
from tests.unit.drivers import kit

INFO = {"ipmi_address": "192.0.2.7", "ipmi_username": "admin", "ipmi_password": "the secret"}


@pytest.fixture
def fake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Callable[..., None]
) -> FakeProgram:
    monkeypatch.setenv("PATH", str(tmp_path))
    config("ipmi", use_ipmitool="always", min_command_interval=0, command_retry_timeout=20)
    monkeypatch.setattr("ironic_rs.drivers.ipmi.bmc._pause_after_failure", lambda: 0.0)
    found = FakeProgram(tmp_path)
    found.write("print(' 01 00 00 00')")
    return found


def make(**info: Any) -> kit.Task:
    return kit.Task(
        kit.node(driver_info=INFO | info, properties={"vendor": "acme"}),
        power=IPMIPower(),
        management=IPMIManagement(),
        vendor=IPMIVendor(),
    )


def state(**info: Any) -> str | None:
    task = make(**info)
    found: str | None = task.driver.power.get_power_state(task)
    return found


def test_the_command_line(fake):
    assert state() == states.POWER_ON
    (run,) = fake.runs
    assert run["args"] == [
        *("-I", "lanplus", "-H", "192.0.2.7", "-L", "ADMINISTRATOR", "-U", "admin"),
        *("-R", "1", "-N", "1", "-f", run["file"], "raw", "0x00", "0x01"),
    ]
    assert (run["password"], run["mode"], run["env"]) == ("the secret", 0o600, None)
    assert not Path(run["file"]).exists()


def test_all_of_driver_info_is_on_the_command_line(fake, config):
    config("ipmi", debug=True)
    bridging = {
        "ipmi_bridging": "dual",
        "ipmi_local_address": "0x20",
        "ipmi_transit_channel": 0,
        "ipmi_transit_address": "0x82",
        "ipmi_target_channel": 7,
        "ipmi_target_address": "0x72",
    }
    state(
        ipmi_port=6230,
        ipmi_priv_level="OPERATOR",
        ipmi_cipher_suite=8,
        ipmi_hex_kg_key="0a0b",
        **bridging,
    )
    args = " ".join(fake.runs[0]["args"])
    assert " -L OPERATOR -p 6230 -U admin -y 0a0b -C 8 -vvv " in args
    assert " -m 0x20 -B 0 -T 0x82 -b 7 -t 0x72 " in args


def test_version_1_5_is_another_interface(fake):
    state(ipmi_protocol_version="1.5")
    assert fake.runs[0]["args"][:2] == ["-I", "lan"]


def test_no_password_and_no_user(fake):
    task = kit.Task(
        kit.node(driver_info={"ipmi_address": "192.0.2.7"}, properties={"vendor": "acme"}),
        power=IPMIPower(),
    )
    task.driver.power.get_power_state(task)
    (run,) = fake.runs
    assert run["password"] == "\0"
    assert "-U" not in run["args"]


def test_the_password_may_be_in_the_environment(fake, config):
    config("ipmi", store_cred_in_env=True)
    state()
    (run,) = fake.runs
    assert run["env"] == "the secret"
    assert "-E" in run["args"]
    assert "-f" not in run["args"]


def test_the_password_is_in_no_log_and_no_error(fake, caplog):
    caplog.set_level("DEBUG")
    fake.write("sys.exit('Invalid command')")
    with pytest.raises(errors.IPMIFailure) as caught:
        state()
    assert "the secret" not in caplog.text + str(caught.value)


@pytest.mark.parametrize(
    ("timeout", "interval", "expected"),
    [
        (60, 5, ["-R", "7", "-N", "5"]),
        (3, 5, ["-R", "1", "-N", "5"]),
        (10, 0, ["-R", "4", "-N", "1"]),
    ],
)
def test_repetitions_may_be_left_to_the_program(fake, config, timeout, interval, expected):
    config(
        "ipmi",
        use_ipmitool_retries=True,
        command_retry_timeout=timeout,
        min_command_interval=interval,
    )
    assert program._timing() == expected


def test_what_is_on_is_switched_off(fake):
    fake.write("print(' 00' if args[-2:] == ['0x00', '0x01'] else '')")
    task = make()
    task.driver.power.set_power_state(task, states.POWER_OFF)
    assert fake.runs[0]["args"][-4:] == ["raw", "0x00", "0x02", "0x00"]


def test_a_completion_code_is_understood(fake):
    fake.write(
        "sys.exit(0) if args[-2:] != ['0x04'] and args[-1] == '0x01' and print(' 01') is None "
        "else sys.exit('Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x2 "
        "rsp=0xd5): Command not supported in present state')"
    )
    task = make()
    # The machine is on already.
    fake.write(
        "if args[-3:] == ['0x00', '0x02', '0x01']:\n"
        "    sys.exit('Unable to send RAW command (cmd=0x2 rsp=0xd5): not supported now')\n"
        "print(' 01')"
    )
    task.driver.power.set_power_state(task, states.POWER_ON)


def test_what_is_no_bytes_is_told(fake):
    fake.write("print('Chassis Power is on')")
    with pytest.raises(errors.IPMIFailure, match="printed 'Chassis Power is on'"):
        state()


@pytest.mark.parametrize(
    "text",
    [
        "Error in open session response message : no matching cipher suite",
        "Unsupported cipher suite ID : 17",
        "Error in open session response message : invalid role",
        "RMCP+ status: No cipher suite match with proposed security algorithms",
        "Error in open session response message : invalid role\n" + "more is said\n" * 9,
    ],
)
def test_the_next_cipher_suite_is_tried_and_remembered(fake, config, text):
    config("ipmi", cipher_suite_versions=["1", "3", "8", "17"])
    fake.write(
        "suite = args[args.index('-C') + 1]\n"
        f"if suite in ('17', '8'): sys.exit({text!r})\n"
        "print(' 01')"
    )
    assert state() == states.POWER_ON
    assert state() == states.POWER_ON
    used = [run["args"][run["args"].index("-C") + 1] for run in fake.runs]
    assert used == ["17", "8", "3", "3"]


def test_a_failure_of_another_kind_settles_the_cipher_suite(fake, config):
    config("ipmi", cipher_suite_versions=["3", "17"], command_retry_timeout=1)
    fake.write("sys.exit('Invalid user name')")
    with pytest.raises(errors.IPMIFailure, match="Invalid user name"):
        state()
    assert [run["args"][run["args"].index("-C") + 1] for run in fake.runs] == ["17"]


@pytest.mark.parametrize("info", [{}, {"ipmi_cipher_suite": 17}])
def test_when_all_suites_are_refused_the_last_error_is_told(fake, config, info):
    config("ipmi", cipher_suite_versions=["3", "17"], use_ipmitool_retries=True)
    fake.write("sys.exit('no matching cipher suite for ' + args[args.index('-C') + 1])")
    last = info.get("ipmi_cipher_suite", 3)
    with pytest.raises(errors.IPMIFailure, match=f"no matching cipher suite for {last}"):
        state(**info)
    assert len(fake.runs) == (1 if info else 2)


def test_a_refusal_is_told_whatever_is_said_after_it(fake, config):
    config("ipmi", debug=True)
    said = "Error in open session response message : invalid role\n" + "more is said\n" * 9
    fake.write(f"sys.exit({said!r})")
    with pytest.raises(errors.IPMIFailure, match="invalid role"):
        state(ipmi_cipher_suite=17)


def test_failures_are_repeated_until_the_time_is_up(fake, config, tmp_path):
    fake.write(
        f"if len(open({str(tmp_path / 'runs')!r}).readlines()) < 3: sys.exit('no luck')\n"
        "print(' 01')"
    )
    assert state() == states.POWER_ON
    assert len(fake.runs) == 3


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("RAKP 2 HMAC is invalid", False),
        ("Unable to send RAW command (rsp=0xc1): Invalid command", False),
        ("something else", False),
        ("Error: insufficient resources for session", True),
        ("Node busy", True),
        ("Get Device ID command failed: Timeout", True),
        ("BMC initialization in progress", True),
    ],
)
def test_what_is_repeated_when_the_program_does_so_itself(fake, config, text, again, tmp_path):
    config("ipmi", use_ipmitool_retries=True)
    runs = str(tmp_path / "runs")
    fake.write(f"if len(open({runs!r}).readlines()) < 2: sys.exit({text!r})\nprint(' 01')")
    if again:
        assert state() == states.POWER_ON
    else:
        with pytest.raises(errors.IPMIFailure):
            state()
    assert len(fake.runs) == (2 if again else 1)


def test_a_program_that_hangs_is_ended(fake, config):
    config("ipmi", command_retry_timeout=1)
    fake.write("import time; time.sleep(600)")
    with pytest.raises(errors.IPMIFailure, match="ipmitool did not end in"):
        state()


def test_a_program_that_is_not_executable_is_told(fake):
    fake.path.chmod(0o644)
    with pytest.raises(errors.InvalidParameterValue, match="not installed on this conductor"):
        state()


def test_a_program_of_another_machine_is_told(fake, config):
    config("ipmi", command_retry_timeout=1)
    fake.path.write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 100)
    with pytest.raises(errors.IPMIFailure, match="ipmitool cannot be run: Exec format error"):
        state()


def test_a_missing_program_is_told(fake):
    fake.path.unlink()
    task = make()
    for check in (task.driver.power, task.driver.management, task.driver.vendor):
        with pytest.raises(errors.InvalidParameterValue, match="not installed"):
            check.validate(task)


def test_sensors_of_the_program(fake):
    listing = (
        "Sensor ID              : Temp (0x1)\n"
        " Entity ID             : 3.1 (Processor)\n"
        " Sensor Type (Analog)  : Temperature\n"
        " Sensor Reading        : -58 (+/- 1) degrees C\n"
        " Status                : ok\n"
        " Odd line: with: colons\n"
        "\n"
        "Sensor ID              : Drive 0 (0x80)\n"
        " Sensor Type (Discrete): Drive Slot / Bay (0x0d)\n"
        " States Asserted       : Drive Slot\n"
        "\n"
        "Sensor ID              : Fan (0x30)\n"
        " Sensor Type (Threshold)  : Fan (0x04)\n"
        " Sensor Reading        : No Reading\n"
    )
    fake.write(f"print({listing!r})")
    task = make()
    assert task.driver.management.get_sensors_data(task) == {
        "Temperature": {
            "Temp (0x1)": {
                "Sensor ID": "Temp (0x1)",
                "Entity ID": "3.1 (Processor)",
                "Sensor Type (Analog)": "Temperature",
                "Sensor Reading": "-58 (+/- 1) degrees C",
                "Status": "ok",
            }
        },
        "Fan": {
            "Fan (0x30)": {
                "Sensor ID": "Fan (0x30)",
                "Sensor Type (Threshold)": "Fan (0x04)",
                "Sensor Reading": "No Reading",
            }
        },
    }
    assert fake.runs[0]["args"][-2:] == ["-v", "sdr"]


@pytest.mark.parametrize(
    "listing",
    ["nonsense", "Sensor ID : a\nSensor Reading : 1\n"],
)
def test_a_listing_that_makes_no_sense_is_told(fake, listing):
    fake.write(f"print({listing!r})")
    task = make()
    with pytest.raises(errors.FailedToParseSensorData):
        task.driver.management.get_sensors_data(task)


def test_an_empty_listing_has_no_sensors(fake):
    fake.write("")
    task = make()
    assert task.driver.management.get_sensors_data(task) == {}


@pytest.mark.parametrize(
    ("raw", "error", "text"),
    [
        (None, errors.MissingParameterValue, "raw_bytes"),
        ("", errors.MissingParameterValue, "raw_bytes"),
        ("0x00", errors.InvalidParameterValue, "network function, command"),
        ("0x00 0x100", errors.InvalidParameterValue, "'0x100'"),
        ("0x00 -1", errors.InvalidParameterValue, "'-1'"),
        ("0x00 zz", errors.InvalidParameterValue, "'zz'"),
        ("; reboot", errors.InvalidParameterValue, "';'"),
        ([0, 1], errors.InvalidParameterValue, "expected text"),
    ],
)
def test_raw_bytes_that_are_none_are_refused(fake, raw, error, text):
    task = make()
    with pytest.raises(error, match=text):
        task.driver.vendor.validate(task, method="send_raw", raw_bytes=raw)
    with pytest.raises(error, match=text):
        task.driver.vendor.send_raw(task, raw_bytes=raw)
    assert fake.runs == []


def test_a_warm_that_is_no_boolean_is_refused(fake):
    task = make()
    with pytest.raises(errors.InvalidParameterValue, match="warm is 'perhaps'"):
        task.driver.vendor.validate(task, method="bmc_reset", warm="perhaps")
    task.driver.vendor.validate(task, method="bmc_reset")
    task.driver.vendor.validate(task)


def test_operations_on_one_bmc_keep_their_distance(fake, config, monkeypatch):
    config("ipmi", min_command_interval=5)
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr(turns, "time", clock)
    state()
    state()
    state(ipmi_address="192.0.2.8")
    state(ipmi_port=624)
    assert len(slept) == 1
    assert 4 < slept[0] <= 5


def test_several_requests_of_one_operation_keep_their_distance(fake, config, monkeypatch):
    config("ipmi", min_command_interval=5)
    slept: list[float] = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=slept.append)
    monkeypatch.setattr(turns, "time", clock)
    task = make()
    task.driver.management.set_boot_device(task, "pxe")
    assert [run["args"][-1] for run in fake.runs] == ["0x08", "0x00"]
    assert len(slept) == 1


def test_a_bmc_that_others_hold_is_told_of_in_time(fake, config):
    config("ipmi", command_retry_timeout=1)
    held = turns.known(parse(make().node))
    with held.lock, pytest.raises(errors.IPMIFailure, match="busy with other requests"):
        state()
    assert state() == states.POWER_ON
