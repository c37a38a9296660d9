"""Schedules periodic tasks: jittered, never twice at a time, in the worker pool.

What runs, when it last ran and how late it is can always be told: at start, on
SIGHUP, and by a warning for each task that is late (field case 111).

Source: specification conductor.md sections 4, 7 and 17 (W35, W39).
"""

from __future__ import annotations

import heapq
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ironic_rs.conductor.periodics.framework import Periodic
from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor

LOG = logging.getLogger(__name__)

#: First run: after a random part of the interval, so that conductors started
#: together do not work in phase; later runs a little early, never late.
_FIRST = (0.25, 1.0)
_LATER = (0.9, 1.0)
#: Longest wait (s) for a first run: what runs once a day has to run as well in a
#: conductor that is started anew each night.
_FIRST_WITHIN = 3600.0
#: A task that found no worker comes again after so many seconds.
_REFUSED = (0.9, 1.1)
#: Longest pause of the scheduling thread in seconds: it shows that it lives, and
#: looks for tasks that are late.
_TICK = 5.0


@dataclass
class Record:
    """How one task is doing; times in seconds of the monotonic clock.

    :ivar due: when it is to run next; None while it is switched off.
    :ivar running: whether it runs now.
    :ivar begun: start of the last run (or of this one); None before the first.
    :ivar took: length of the last run that ended.
    :ivar late_by: how long after its time the last run began.
    :ivar failures: runs that raised, since the start of the conductor.
    """

    task: Periodic
    waits_since: float
    due: float | None = None
    running: bool = False
    begun: float | None = None
    took: float | None = None
    late_by: float = 0.0
    runs: int = 0
    failures: int = 0
    told: bool = False

    def describe(self, now: float) -> str:
        """Return one line for the log."""
        if self.due is None:
            return f"{self.task.name} is off"
        parts = [f"{self.task.name} every {self.task.interval(CONF):g} s"]
        if self.begun is None:
            parts.append("no run yet")
        else:
            state = "runs since" if self.running else "last run"
            parts.append(f"{state} {now - self.begun:.1f} s{'' if self.running else ' ago'}")
            if self.took is not None:
                parts.append(f"took {self.took:.2f} s")
            parts.append(f"late by {self.late_by:.1f} s")
        parts.append(f"{self.runs} runs, {self.failures} failed")
        if not self.running:
            parts.append(f"next in {max(0.0, self.due - now):.0f} s")
        return ", ".join(parts)


def _timed(name: str) -> str:
    """Return the name of the metric of a task; those of drivers have a class already."""
    return name if "." in name else f"ConductorManager.{name}"


class Scheduler:
    """Runs periodic tasks until stopped.

    :param spread: random factor in a range; replaced in tests.
    :param clock: seconds; replaced in tests.
    """

    def __init__(
        self,
        conductor: Conductor,
        tasks: Sequence[Periodic],
        spread: Callable[[float, float], float] = random.uniform,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conductor = conductor
        self._spread = spread
        self._clock = clock
        self._changed = threading.Condition()
        self._records = [Record(task, clock()) for task in tasks]
        self._due: list[tuple[float, int]] = []
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._pulse = clock()

    @property
    def names(self) -> list[str]:
        """Names of the tasks, those that are switched off included."""
        return [record.task.name for record in self._records]

    @property
    def records(self) -> Sequence[Record]:
        """How the tasks are doing; only to be read."""
        return tuple(self._records)

    @property
    def started(self) -> bool:
        """True once scheduling has begun."""
        return self._thread is not None

    @property
    def silence(self) -> float:
        """Seconds since the scheduling thread last came round."""
        return self._clock() - self._pulse

    def start(self) -> None:
        """Start scheduling, and tell what runs how often."""
        self._schedule()
        on = [r for r in self._records if r.due is not None]
        off = [r.task.name for r in self._records if r.due is None]
        LOG.info(
            "Periodic tasks: %s",
            ", ".join(f"{r.task.name} every {r.task.interval(CONF):g} s" for r in on) or "none",
        )
        if off:
            LOG.info("Periodic tasks that the configuration switches off: %s", ", ".join(off))
        self._thread = threading.Thread(target=self._loop, name="periodics", daemon=True)
        self._thread.start()

    def reload(self) -> None:
        """Take over options that were changed, and tell how each task is doing."""
        self._schedule()
        now = self._clock()
        for record in self._records:
            LOG.info("Periodic task %s", record.describe(now))

    def _schedule(self) -> None:
        """Plan the first run of the tasks that are on and not planned yet."""
        with self._changed:
            now = self._clock()
            for number, record in enumerate(self._records):
                interval = record.task.interval(CONF)
                if record.due is None and interval > 0:
                    record.waits_since = now
                    record.due = now + min(interval, _FIRST_WITHIN) * self._spread(*_FIRST)
                    heapq.heappush(self._due, (record.due, number))
            self._changed.notify_all()

    def stop(self) -> None:
        """Start no more runs; running ones go on (they look at ``stopping``)."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the runs that still go on; False when the time is over."""
        with self._changed:
            return self._changed.wait_for(
                lambda: not any(r.running for r in self._records), timeout
            )

    def _loop(self) -> None:
        while True:
            with self._changed:
                now = self._pulse = self._clock()
                if self._stopped:
                    return
                self._warn_of_late(now)
                pause = min(self._due[0][0] - now, _TICK) if self._due else _TICK
                if pause > 0:
                    self._changed.wait(pause)
                    continue
                _, number = heapq.heappop(self._due)
                record = self._records[number]
                record.running = True
            self._launch(number, record)

    def _warn_of_late(self, now: float) -> None:
        """Warn once of each task that has missed a whole run."""
        for record in self._records:
            if record.due is None or record.told:
                continue
            waits = now - record.waits_since
            interval = record.task.interval(CONF)
            if interval <= 0 or waits <= 2 * interval + _TICK:
                continue
            record.told = True
            LOG.warning(
                "Periodic task %s is late: its interval is %g s, and %s",
                record.task.name,
                interval,
                f"its last run goes on since {waits:.0f} s"
                if record.running
                else f"no worker was free for it for {now - record.due:.0f} s",
            )

    def _launch(self, number: int, record: Record) -> None:
        try:
            self._conductor.workers.submit(self._run, number, record, reserved_ok=False)
        except errors.NoFreeConductorWorker:
            LOG.info("No free worker for the periodic task %s, coming again", record.task.name)
            with self._changed:
                record.running = False
                again = self._clock() + self._spread(*_REFUSED)
                heapq.heappush(self._due, (again, number))

    def _run(self, number: int, record: Record) -> None:
        task = record.task
        started = self._clock()
        with self._changed:
            record.begun = record.waits_since = started
            record.told = False
            if record.due is not None:
                record.late_by = max(0.0, started - record.due)
        self._conductor.metrics.gauge(
            "ConductorManager.PeriodicLateSeconds", record.late_by, task=task.name
        )
        # Log lines of one run share a request id.
        admin_context().update_store()
        failed = True
        try:
            if not self._conductor.fence.tripped:
                with self._conductor.metrics.timer(_timed(task.name)):
                    task.run(self._conductor)
            failed = False
        except errors.IronicError as exc:
            LOG.error("Periodic task %s failed: %s", task.name, exc)
        except Exception:
            LOG.exception("Periodic task %s failed", task.name)
        finally:
            self._ended(number, record, started, failed)

    def _ended(self, number: int, record: Record, started: float, failed: bool) -> None:
        now = self._clock()
        interval = record.task.interval(CONF)
        with self._changed:
            record.running = False
            record.took = now - started
            record.runs += 1
            record.failures += failed
            if interval > 0:
                # From start to start, but never two runs at a time.
                record.due = max(started + max(interval, 1.0) * self._spread(*_LATER), now)
                heapq.heappush(self._due, (record.due, number))
            else:
                # Switched off by a reload.
                record.due = None
            self._changed.notify_all()
        if interval > 0 and record.took > 3 * max(interval, 1.0):
            LOG.warning(
                "Periodic task %s took %.0f s, its interval is %.0f s",
                record.task.name,
                record.took,
                interval,
            )
