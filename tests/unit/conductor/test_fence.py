"""The self-fence trips before others take the locks."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.fence import SelfFence
from ironic_rs.domain import errors


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fence(clock: Clock) -> SelfFence:
    return SelfFence(lambda: 60, clock)


def test_not_tripped_before_the_first_heartbeat(fence: SelfFence, clock: Clock) -> None:
    clock.now += 1000
    assert not fence.tripped
    fence.check("h", "n")


def test_counts_from_the_beginning_of_the_last_heartbeat(fence: SelfFence, clock: Clock) -> None:
    started = fence.now()
    clock.now += 30  # the heartbeat took half a minute to be written
    fence.beat(started)
    clock.now += 29.9
    assert not fence.tripped
    clock.now += 0.1
    assert fence.tripped
    with pytest.raises(errors.LockLost, match="heartbeat could not be recorded for 60 s"):
        fence.check("h", "n")
    with pytest.raises(errors.TemporaryFailure, match="starts no new work"):
        fence.check_new_work("h")


def test_a_new_heartbeat_arms_again_and_begins_a_new_epoch(fence: SelfFence, clock: Clock) -> None:
    fence.beat(fence.now())
    for _ in range(10):
        clock.now += 10
        fence.beat(fence.now())
    assert fence.epoch == 0
    clock.now += 61
    assert fence.tripped
    fence.beat(fence.now())
    assert not fence.tripped
    assert fence.epoch == 1


def test_a_heartbeat_that_took_too_long_itself_begins_a_new_epoch(
    fence: SelfFence, clock: Clock
) -> None:
    fence.beat(fence.now())
    clock.now += 30
    started = fence.now()
    clock.now += 30
    fence.beat(started)
    assert fence.epoch == 1


def test_never_trips_when_nobody_judges_heartbeats(clock: Clock) -> None:
    fence = SelfFence(lambda: 0, clock)
    fence.beat(fence.now())
    clock.now += 10_000
    assert not fence.tripped


def test_runs_while_the_process_is_stopped() -> None:
    fence = SelfFence(lambda: 60)
    fence.beat(fence.now() - 61)
    assert fence.tripped
