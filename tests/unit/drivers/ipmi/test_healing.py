"""Which operations on a BMC over IPMI may be made again within a step."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.ipmi import bmc as operations
from ironic_rs.drivers.ipmi.errors import BmcError
from tests.unit.drivers import kit
from tests.unit.drivers.healer import healed

SILENT = BmcError("no answer", transient=True, silent=True)
BUSY = BmcError("node busy (completion code 0xc0)", transient=True, code=0xC0)
REFUSED = BmcError("insufficient privilege", code=0xD4)


@pytest.fixture
def node():
    return kit.node(driver_info={"ipmi_address": "192.0.2.1", "ipmi_username": "u"})


@pytest.fixture
def fails(monkeypatch):
    """Let the next operations fail with the errors that a test puts into the list."""
    left = []

    def in_time(target, doing, what, reading):
        if left:
            raise left.pop(0)
        return what(None)

    monkeypatch.setattr(operations, "_in_time", in_time)
    return left


def operate(node, *, reading):
    return operations.operate(node, "powering on", lambda link: "done", reading=reading)


@pytest.mark.parametrize("reading", [True, False])
def test_a_bmc_that_sent_nothing_has_done_nothing(node, fails, reading):
    fails += [SILENT, SILENT]
    with healed(2) as healer:
        assert operate(node, reading=reading) == "done"
    assert len(healer.asked) == 2


def test_reads_of_a_busy_bmc_are_made_again(node, fails):
    fails += [BUSY]
    with healed(1):
        assert operate(node, reading=True) == "done"


@pytest.mark.parametrize(("error", "reading"), [(BUSY, False), (REFUSED, True), (REFUSED, False)])
def test_what_may_have_had_an_effect_or_does_not_pass_fails_at_once(node, fails, error, reading):
    fails += [error]
    with healed(5) as healer, pytest.raises(errors.IPMIFailure):
        operate(node, reading=reading)
    assert healer.asked == []


def test_retries_are_bounded(node, fails):
    fails += [SILENT] * 10
    with healed(2) as healer, pytest.raises(errors.IPMIFailure, match="no answer"):
        operate(node, reading=False)
    assert len(healer.asked) == 3
