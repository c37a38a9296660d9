"""Scheduling: jittered, never twice at a time, and what it tells."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from ironic_rs.conductor.periodics.framework import (
    Every,
    Periodic,
)
from ironic_rs.conductor.periodics.scheduler import Scheduler
from ironic_rs.conductor.service import Conductor
from ironic_rs.db import models

MakeNode = Callable[..., models.Node]


def at_once(low: float, high: float) -> float:
    """No spread, and first runs at once."""
    return 0.0


class Runs:
    """Counts the runs of a task."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.gate: threading.Event | None = None

    def __call__(self, conductor: Conductor) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.begun.release()
        if self.gate is not None:
            self.gate.wait(100)
        with self.lock:
            self.now -= 1
        self.done.release()


def test_tasks_run_again_and_again_and_never_twice_at_a_time(conductor: Conductor) -> None:
    runs, other = Runs(), Runs()
    scheduler = Scheduler(
        conductor,
        [Periodic("a", lambda conf: 1, runs), Periodic("b", lambda conf: 1, other)],
        spread=at_once,
    )
    scheduler.start()
    assert scheduler.started
    for _ in range(4):
        assert runs.done.acquire(timeout=30)
        assert other.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert runs.most == other.most == 1


def test_a_run_that_takes_longer_than_its_interval_is_not_overtaken(conductor: Conductor) -> None:
    runs, other = Runs(), Runs()
    runs.gate = threading.Event()
    scheduler = Scheduler(
        conductor,
        [Periodic("slow", lambda conf: 1, runs), Periodic("b", lambda conf: 1, other)],
        spread=at_once,
    )
    scheduler.start()
    assert runs.begun.acquire(timeout=60)
    for _ in range(3):
        assert other.done.acquire(timeout=30)
    assert runs.now == 1
    runs.gate.set()
    assert runs.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert runs.most == 1


def test_interval_of_zero_switches_a_task_off(conductor: Conductor) -> None:
    off, on = Runs(), Runs()
    scheduler = Scheduler(
        conductor,
        [Periodic("off", lambda conf: 0, off), Periodic("on", lambda conf: 1, on)],
        spread=at_once,
    )
    scheduler.start()
    assert on.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert not off.done.acquire(timeout=0)


def test_failure_of_a_run_is_logged_and_it_comes_again(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    again = threading.Semaphore(0)

    def fail(conductor: Conductor) -> None:
        again.release()
        raise ValueError("bad luck")

    scheduler = Scheduler(conductor, [Periodic("fails", lambda conf: 1, fail)], spread=at_once)
    scheduler.start()
    assert again.acquire(timeout=30)
    assert again.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert "Periodic task fails failed" in caplog.text


def test_task_without_a_free_worker_comes_again_soon(conductor: Conductor) -> None:
    runs = Runs()
    gate = threading.Event()
    for _ in range(conductor.workers.normal.size):
        conductor.workers.normal.submit(gate.wait, 60)
    tried = threading.Event()
    spreads: list[tuple[float, float]] = []

    def spread(low: float, high: float) -> float:
        spreads.append((low, high))
        if (low, high) == (0.9, 1.1):
            tried.set()
        return 0.0

    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 3600, runs)], spread=spread)
    scheduler.start()
    assert tried.wait(30)
    gate.set()
    assert runs.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)


def test_first_run_and_period_are_spread_and_never_late(conductor: Conductor) -> None:
    spreads: list[tuple[float, float]] = []
    ran = Runs()

    def spread(low: float, high: float) -> float:
        spreads.append((low, high))
        return 0.0

    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 1, ran)], spread=spread)
    scheduler.start()
    assert ran.done.acquire(timeout=30)
    assert ran.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    first, *later = spreads
    assert first[0] < first[1] == 1.0
    assert later[0][0] < later[0][1] == 1.0


def test_nothing_runs_while_the_conductor_is_fenced(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs()
    asked = threading.Semaphore(0)

    class Fence:
        @property
        def tripped(self) -> bool:
            asked.release()
            return True

    monkeypatch.setattr(conductor, "fence", Fence())
    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 1, runs)], spread=at_once)
    scheduler.start()
    assert asked.acquire(timeout=30)
    assert asked.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert not runs.done.acquire(timeout=0)


def test_stop_waits_for_nothing_and_wait_for_the_running_ones(conductor: Conductor) -> None:
    runs = Runs()
    runs.gate = threading.Event()
    entered = threading.Event()

    def run(conductor: Conductor) -> None:
        entered.set()
        runs(conductor)

    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 1, run)], spread=at_once)
    scheduler.start()
    assert entered.wait(30)
    scheduler.stop()
    assert not scheduler.wait(0)
    runs.gate.set()
    assert scheduler.wait(30)


# What it tells


class Clock:
    """Time as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture, level: str, text: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelname == level and text in record.getMessage()
    ]


def test_the_start_tells_what_runs_how_often_and_what_does_not(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    scheduler = Scheduler(
        conductor,
        [
            Periodic("_a", Every("conductor", "sync_power_state_interval"), Runs()),
            Periodic("_b", lambda conf: 0, Runs()),
        ],
    )
    scheduler.start()
    scheduler.stop()
    assert lines(caplog, "INFO", "Periodic tasks") == [
        "Periodic tasks: _a every 120 s",
        "Periodic tasks that the configuration switches off: _b",
    ]


def test_each_task_can_be_asked_how_it_is_doing(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock, ran, broken = Clock(), Runs(), threading.Semaphore(0)

    def run(conductor: Conductor) -> None:
        clock.now += 3
        ran(conductor)

    def fail(conductor: Conductor) -> None:
        broken.release()
        raise ValueError

    scheduler = Scheduler(
        conductor,
        [
            Periodic("_ok", lambda conf: 60, run),
            Periodic("_bad", lambda conf: 9000, fail),
            Periodic("_off", lambda conf: 0, Runs()),
        ],
        spread=lambda low, high: high,
        clock=clock,
    )
    scheduler.start()
    scheduler.reload()
    assert lines(caplog, "INFO", "Periodic task _") == [
        "Periodic task _ok every 60 s, no run yet, 0 runs, 0 failed, next in 60 s",
        "Periodic task _bad every 9000 s, no run yet, 0 runs, 0 failed, next in 3600 s",
        "Periodic task _off is off",
    ]
    caplog.clear()
    clock.now += 9000
    scheduler.reload()  # wakes it up
    assert ran.done.acquire(timeout=30)
    assert broken.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    ok, bad, off = scheduler.records
    assert (ok.runs, ok.failures, ok.running, ok.took) == (1, 0, False, 3.0)
    assert (bad.runs, bad.failures) == (1, 1)
    assert 8940 <= ok.late_by <= 8943
    assert "last run 3.0 s ago, took 3.00 s, late by 8940.0 s, 1 runs" in ok.describe(
        (ok.begun or 0) + 3
    ).replace("8943", "8940")
    assert "1 runs, 1 failed" in bad.describe(clock.now)
    assert off.due is None


def test_a_run_that_does_not_end_is_warned_of_once_while_it_runs(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    clock, runs = Clock(), Runs()
    runs.gate = threading.Event()
    scheduler = Scheduler(
        conductor, [Periodic("_slow", lambda conf: 60, runs)], spread=at_once, clock=clock
    )
    scheduler.start()
    assert runs.begun.acquire(timeout=30)
    clock.now += 120
    scheduler._warn_of_late(clock.now)
    assert not lines(caplog, "WARNING", "_slow")
    clock.now += 30
    for _ in range(3):
        scheduler._warn_of_late(clock.now)
    (text,) = lines(caplog, "WARNING", "_slow")
    assert "is late" in text
    assert "goes on since 150 s" in text
    assert "runs since 150.0 s" in scheduler.records[0].describe(clock.now)
    runs.gate.set()
    scheduler.stop()
    assert scheduler.wait(30)


def test_a_task_that_finds_no_worker_for_long_is_warned_of(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    clock, gate, tried = Clock(), threading.Event(), threading.Event()
    for _ in range(conductor.workers.normal.size):
        conductor.workers.normal.submit(gate.wait, 60)

    def spread(low: float, high: float) -> float:
        if (low, high) == (0.9, 1.1):
            tried.set()
            return 3600.0
        return 0.0

    scheduler = Scheduler(
        conductor, [Periodic("_a", lambda conf: 60, Runs())], spread=spread, clock=clock
    )
    scheduler.start()
    try:
        assert tried.wait(30)
        clock.now += 200
        scheduler._warn_of_late(clock.now)
        (text,) = lines(caplog, "WARNING", "_a is late")
        assert "no worker was free for it for 200 s" in text
    finally:
        gate.set()
        scheduler.stop()


def test_a_task_that_a_reload_switches_on_runs(conductor: Conductor) -> None:
    runs, keep = Runs(), {"interval": 0}
    scheduler = Scheduler(
        conductor, [Periodic("_a", lambda conf: keep["interval"], runs)], spread=at_once
    )
    scheduler.start()
    assert scheduler.records[0].due is None
    keep["interval"] = 3600
    scheduler.reload()
    assert runs.done.acquire(timeout=30)
    keep["interval"] = 0
    scheduler.stop()
    assert scheduler.wait(30)


def test_conductors_started_together_do_not_work_in_phase(conductor: Conductor) -> None:
    """W39: with the spread of the product."""
    due = set()
    for _ in range(20):
        scheduler = Scheduler(conductor, [Periodic("_a", lambda conf: 60, Runs())])
        scheduler._schedule()
        wait = (scheduler.records[0].due or 0) - scheduler.records[0].waits_since
        assert 0 < wait <= 60
        due.add(round(wait, 3))
    assert len(due) > 10


def test_what_runs_once_a_day_runs_in_the_first_hour_as_well(conductor: Conductor) -> None:
    scheduler = Scheduler(
        conductor,
        [Periodic("_a", lambda conf: 86400, Runs()), Periodic("_b", lambda conf: 60, Runs())],
        spread=lambda low, high: high,
        clock=Clock(),
    )
    scheduler._schedule()
    assert [record.due for record in scheduler.records] == [1000 + 3600, 1000 + 60]
