"""Power at a scripted BMC."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states
from tests.harness.bmc import RESET, SYSTEM, Answer, error

CONFLICT = Answer(409, error("conflict", "Base.1.12.ActionParameterValueConflict"))


@pytest.fixture
def power(task):
    return task.driver.power


def resets(bmc):
    return [request.body["ResetType"] for request in bmc.asked("POST", "Reset")]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ("On", states.POWER_ON),
        ("PoweringOn", states.POWER_ON),
        ("Off", states.POWER_OFF),
        ("PoweringOff", states.POWER_OFF),
        ("Paused", None),
        ("Resetting", None),
        ("off", None),
        (None, None),
        (7, None),
        ([], None),
        ({}, None),
    ],
    ids=str,
)
def test_states_that_are_not_of_the_standard_are_unknown(bmc, task, power, shown, expected):
    bmc.system["PowerState"] = shown
    assert power.get_power_state(task) == expected


def test_a_missing_state_is_unknown(bmc, task, power):
    del bmc.system["PowerState"]
    assert power.get_power_state(task) is None


def test_strange_neighbours_do_not_hide_the_power_state(bmc, task, power):
    bmc.system.update(Boot=None, Status="OK", SecureBoot=None, Links=None, Manufacturer=5)
    assert power.get_power_state(task) == states.POWER_OFF


@pytest.mark.parametrize(
    "case",
    [
        (states.POWER_ON, "Off", "On", "On"),
        (states.POWER_OFF, "On", "ForceOff", "Off"),
        (states.SOFT_POWER_OFF, "On", "GracefulShutdown", "Off"),
        (states.SOFT_REBOOT, "On", "GracefulRestart", "On"),
        (states.REBOOT, "On", "ForceRestart", "On"),
    ],
)
def test_requests(bmc, task, power, case):
    request_, before, reset, after = case
    bmc.system["PowerState"] = before
    power.set_power_state(task, request_)
    assert resets(bmc) == [reset]
    assert bmc.system["PowerState"] == after
    assert request_ in power.get_supported_power_states(task)


def test_a_forced_restart_is_given_time_before_its_end_is_looked_for(bmc, task, power, clock):
    bmc.system["PowerState"] = "On"
    power.set_power_state(task, states.REBOOT)
    assert clock.slept == [15]


def test_a_bmc_that_says_yes_and_does_nothing_is_a_failure(bmc, task, power):
    bmc.obeys = False
    with pytest.raises(errors.PowerStateFailure, match="power on"):
        power.set_power_state(task, states.POWER_ON)
    assert resets(bmc) == ["On"]


@pytest.mark.parametrize(
    "case",
    [
        ("On", False, ["ForceOff", "On"]),
        ("On", True, ["ForceRestart"]),
        ("Off", False, ["On"]),
        (None, False, ["On"]),
    ],
)
def test_reboot(bmc, task, power, case):
    before, keep_on, expected = case
    bmc.system["PowerState"] = before
    task.node.disable_power_off = keep_on
    power.reboot(task)
    assert resets(bmc) == expected
    assert bmc.system["PowerState"] == "On"


def test_busy_for_two_requests_is_waited_for(bmc, task, power, clock):
    busy = Answer(503, error("busy"), {"Retry-After": "3"})
    bmc.script("POST", "Reset", busy, times=2)
    power.set_power_state(task, states.POWER_ON)
    assert clock.slept == [3, 3]
    assert bmc.system["PowerState"] == "On"


def test_busy_for_ever_fails_with_code_and_tries(bmc, task, power):
    bmc.script("POST", "Reset", Answer(503, error("busy")))
    with pytest.raises(errors.RedfishError, match=r"power on.*\d tries.*503"):
        power.set_power_state(task, states.POWER_ON)


def test_power_on_refused_just_after_power_off_is_tried_again(bmc, task, power, clock):
    bmc.script("POST", "Reset", CONFLICT, times=2)
    power.set_power_state(task, states.POWER_ON)
    assert clock.slept == [10, 10]
    assert bmc.system["PowerState"] == "On"


def test_power_on_refused_for_ever_quotes_the_bmc(bmc, task, power, clock):
    bmc.script("POST", "Reset", CONFLICT)
    with pytest.raises(errors.RedfishError, match="ActionParameterValueConflict"):
        power.set_power_state(task, states.POWER_ON)
    assert clock.slept == [10] * 6


@pytest.mark.parametrize("status", [400, 409])
def test_refused_because_it_is_so_already_is_success(bmc, task, power, status):
    bmc.system["PowerState"] = "On"
    bmc.script("POST", "Reset", Answer(status, error("no need")))
    power.set_power_state(task, states.POWER_ON)
    bmc.system["PowerState"] = "Off"
    with pytest.raises(errors.RedfishError, match="no need"):
        power.set_power_state(task, states.POWER_ON)


def test_already_there_may_be_known_from_the_text_alone(bmc, task, power):
    refusal = Answer(400, error("The system is already powered off."))

    def refuse(_request):
        bmc.system["PowerState"] = None
        return refusal

    bmc.script("POST", "Reset", refuse)
    bmc.system["PowerState"] = "On"
    power._reset(task, states.POWER_OFF, states.POWER_OFF)
    with pytest.raises(errors.RedfishError):
        power._reset(task, states.POWER_ON, states.POWER_ON)


@pytest.mark.parametrize(("carried_out", "expected"), [(True, "On"), (False, "Off")])
def test_a_lost_answer_to_a_request_is_looked_after(bmc, task, power, carried_out, expected):
    def drop(_request):
        if carried_out:
            bmc.system["PowerState"] = "On"
        return Answer(close=True)

    bmc.script("POST", "Reset", drop)
    if carried_out:
        power.set_power_state(task, states.POWER_ON)
    else:
        with pytest.raises(errors.RedfishConnectionError):
            power.set_power_state(task, states.POWER_ON)
    # A restart must not happen twice because an answer got lost.
    assert resets(bmc) == ["On"]


def test_other_refusals_are_errors_that_name_node_and_address(bmc, task, power):
    bmc.script("POST", "Reset", Answer(403, error("licence")))
    with pytest.raises(errors.RedfishError, match=task.node.uuid) as raised:
        power.set_power_state(task, states.POWER_ON)
    assert bmc.address in str(raised.value)
    assert "licence" in str(raised.value)


def test_what_the_bmc_cannot_do_is_told(bmc, task, power):
    reset = bmc.system["Actions"]["#ComputerSystem.Reset"]
    reset["ResetType@Redfish.AllowableValues"] = ["On", "ForceOff"]
    with pytest.raises(errors.RedfishError, match="GRACEFUL_SHUTDOWN"):
        power.set_power_state(task, states.SOFT_POWER_OFF)


def test_an_unknown_request_is_refused(task, power):
    with pytest.raises(errors.InvalidParameterValue, match="sideways"):
        power.set_power_state(task, "sideways")


def test_changes_need_the_exclusive_lock(task, power):
    task.shared = True
    with pytest.raises(errors.ExclusiveLockRequired):
        power.set_power_state(task, states.POWER_ON)
    with pytest.raises(errors.ExclusiveLockRequired):
        power.reboot(task)


def test_a_boot_device_that_lasts_one_boot_is_set_before_each(bmc, task, power):
    task.node.driver_internal_info["redfish_boot_device"] = "hdd"
    power.set_power_state(task, states.POWER_ON)
    changes = [str(request) for request in bmc.requests if request.method != "GET"]
    assert changes == [f"PATCH {SYSTEM}", f"POST {RESET}"]
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Hdd"
    assert bmc.system["Boot"]["BootSourceOverrideEnabled"] == "Once"


def test_a_boot_device_that_cannot_be_restored_does_not_stop_power_on(bmc, task, power):
    task.node.driver_internal_info["redfish_boot_device"] = "disk"
    bmc.script("PATCH", "Systems/1$", Answer(400, error("no")))
    power.set_power_state(task, states.POWER_ON)
    assert bmc.system["PowerState"] == "On"
