"""Answers that never end keep no worker longer than the deadline, and fill no memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import transport
from ironic_rs.drivers.redfish.power import RedfishPower
from tests.harness.bmc import Answer

power = RedfishPower()

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def gone() -> Iterator[threading.Event]:
    """Set when the test is over, for BMCs that never end by themselves."""
    event = threading.Event()
    yield event
    event.set()


def drip(gone: threading.Event, begin: bytes, part: bytes) -> Iterator[bytes]:
    """A little now and then, more often than any read time-out."""
    yield begin
    while not gone.wait(0.05):
        yield part


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (HEAD + b"Content-Length: 1000000\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD + b"X-Long: ", b"x"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["body", "chunks", "head", "continue"],
)
def test_an_answer_that_drips_ends_at_the_deadline(bmc, task, config, gone, begin, part):
    power.get_power_state(task)
    config("redfish", operation_timeout=1, read_timeout=30, connection_attempts=5)
    bmc.script("GET", "Systems/1$", lambda _request: Answer(raw=drip(gone, begin, part)), times=1)
    with pytest.raises(errors.RedfishConnectionError, match="timed out") as raised:
        power.get_power_state(task)
    assert task.node.uuid in str(raised.value)
    assert bmc.address in str(raised.value)
    config("redfish", operation_timeout=60)
    assert power.get_power_state(task) == states.POWER_OFF


def test_an_answer_without_end_is_cut_off_and_not_asked_for_again(bmc, task, monkeypatch):
    monkeypatch.setattr(transport, "LONGEST_ANSWER", 1024**2)
    power.get_power_state(task)
    bmc.forget()
    flood = itertools.chain([HEAD + b"\r\n"], itertools.repeat(b" " * 65536))
    bmc.script("GET", "Systems/1$", Answer(raw=flood), times=1)
    with pytest.raises(errors.RedfishError, match="longer than 1 MiB"):
        power.get_power_state(task)
    assert len(bmc.asked("GET", "Systems/1$")) == 1
    assert power.get_power_state(task) == states.POWER_OFF


def test_a_slow_answer_that_ends_in_time_is_taken(bmc, task, config):
    config("redfish", operation_timeout=30, read_timeout=30)
    body = b'{"PowerState": "On"}'
    parts = [HEAD + b"Content-Length: %d\r\n\r\n" % len(body), body[:5], body[5:]]
    bmc.script("GET", "Systems/1$", Answer(raw=parts))
    assert power.get_power_state(task) == states.POWER_ON


def test_a_connection_that_is_broken_off_while_reading_is_opened_again(bmc, task, clock):
    power.get_power_state(task)
    bmc.script("GET", "Systems/1$", Answer(reset=True), times=1)
    assert power.get_power_state(task) == states.POWER_OFF
    assert clock.slept == [0.0]
