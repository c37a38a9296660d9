"""Which requests to a BMC may be made again within a step, counted at the BMC."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish.power import RedfishPower
from ironic_rs.integrations.healing import Partner
from tests.harness.bmc import RESET, Answer, error
from tests.unit.drivers.healer import healed

power = RedfishPower()
SYSTEM = "Systems/1$"


@pytest.fixture(autouse=True)
def one_try(config):
    """No retries of the client itself: those within an operation are another matter."""
    config("redfish", connection_attempts=1, operation_timeout=1)


def well(bmc):
    """End what is wrong with the BMC."""
    return bmc._rules.clear


@pytest.fixture
def task(bmc, make_task):
    made = make_task(bmc)
    power.get_power_state(made)
    bmc.forget()
    return made


@pytest.mark.parametrize("answer", [Answer(503, error("busy")), Answer(429, error("slow down"))])
def test_a_busy_bmc_is_asked_again(bmc, task, answer):
    bmc.script("GET", SYSTEM, answer)
    with healed(1, well(bmc)) as healer:
        assert power.get_power_state(task) == states.POWER_OFF
    ((partner, what, text),) = healer.asked
    assert (partner, what.partition(" ")[0]) == (Partner.BMC, "GET")
    assert str(answer.status) in text


@pytest.mark.parametrize("status", [429, 503])
def test_a_power_action_that_was_refused_is_carried_out_once(bmc, task, status):
    bmc.script("POST", RESET, Answer(status, error("busy")))
    with healed(1, well(bmc)):
        power.set_power_state(task, states.POWER_ON)
    assert len(bmc.asked("POST", RESET)) == 2
    assert bmc.system["PowerState"] == "On"


def test_a_connection_that_breaks_while_reading(bmc, task):
    bmc.script("GET", SYSTEM, Answer(close=True))
    with healed(1, well(bmc)):
        assert power.get_power_state(task) == states.POWER_OFF


def test_a_power_action_that_may_have_arrived_is_not_sent_again(bmc, task):
    bmc.script("POST", RESET, Answer(close=True))
    with healed(5) as healer, pytest.raises(errors.RedfishConnectionError):
        power.set_power_state(task, states.POWER_ON)
    assert healer.asked == []
    assert len(bmc.asked("POST", RESET)) == 1


def test_a_bmc_that_can_not_be_reached_is_tried_a_bounded_number_of_times(bmc, make_task):
    bmc.close()
    task = make_task(bmc)
    with healed(2) as healer, pytest.raises(errors.RedfishConnectionError):
        power.set_power_state(task, states.POWER_ON)
    assert healer.left == 0
    assert bmc.requests == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500, 501])
def test_what_does_not_pass_fails_at_once(bmc, task, status):
    bmc.script("POST", RESET, Answer(status, error("never")))
    with healed(5) as healer, pytest.raises(errors.IronicError):
        power.set_power_state(task, states.POWER_ON)
    assert healer.asked == []


def test_retries_are_bounded(bmc, task):
    bmc.script("GET", SYSTEM, Answer(503, error("busy")))
    with healed(3) as healer, pytest.raises(errors.RedfishError, match="503"):
        power.get_power_state(task)
    assert len(healer.asked) == 4
    assert len(bmc.asked("GET", SYSTEM)) == 4


def test_outside_of_a_step_nothing_is_made_again(bmc, task):
    bmc.script("GET", SYSTEM, Answer(503, error("busy")))
    with pytest.raises(errors.RedfishError, match="503"):
        power.get_power_state(task)
    assert len(bmc.asked("GET", SYSTEM)) == 1
