"""Schedules periodic tasks: jittered, never twice at a time, in the worker pool.

Source: specification conductor.md sections 4, 7 and 17 (W35, W38, W39);
data/periodics.json.
"""

from __future__ import annotations

import heapq
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_context import context as oslo_context

from ironic_rs.conf import CONF
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

#: Columns that every scan over nodes needs: identity, and the key of the ring.
BASE_COLUMNS = ("id", "uuid", "driver", "conductor_group")

#: First run: after a random part of the interval, so that conductors started
#: together do not work in phase; later runs a little early, never late.
_FIRST = (0.25, 1.0)
_LATER = (0.9, 1.0)
#: A task that found no worker comes again after so many seconds.
_REFUSED = (0.9, 1.1)

Interval = Callable[[cfg.ConfigOpts], float]


@dataclass(frozen=True)
class Periodic:
    """A task of the conductor: ``run(conductor)`` every ``interval(CONF)`` seconds.

    :param interval: zero or less switches the task off; read before each run.
    """

    name: str
    interval: Interval
    run: Callable[[Conductor], None]


def periodic(interval: Interval) -> Callable[[Callable[[Conductor], None]], Periodic]:
    """Make a function ``fn(conductor)`` a periodic task of its own name."""

    def make(run: Callable[[Conductor], None]) -> Periodic:
        return Periodic(run.__name__, interval, run)

    return make


@dataclass(frozen=True)
class NodeScan:
    """Which nodes a task works on, and how.

    :param purpose: lock purpose, shown in logs.
    :param columns: columns that ``predicate`` looks at, besides the base ones.
    :param filters: node filters (data-model.md section 4.3).
    :param predicate: gets the selected row; false skips the node.
    :param limit: most nodes that count per run, None for all.
    :param shared: take the node with a shared lock.
    :param workers: nodes that are worked on at a time.
    :param load_driver: false when the function needs no driver.
    """

    purpose: str
    columns: Sequence[str] = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    predicate: Callable[[Row], bool] | None = None
    limit: int | None = None
    shared: bool = True
    workers: int | None = None
    load_driver: bool = True
    sort_key: str = "id"


def node_periodic(
    purpose: str,
    interval: Interval,
    *,
    columns: Sequence[str] = (),
    filters: Mapping[str, Any] | None = None,
    predicate: Callable[[Row], bool] | None = None,
    limit: int | None = None,
    shared: bool = True,
) -> Callable[[Callable[[Task], None]], Periodic]:
    """Make a function ``fn(task)`` a periodic over the nodes of this conductor."""
    scan = NodeScan(
        purpose=purpose,
        columns=columns,
        filters=dict(filters or {}),
        predicate=predicate,
        limit=limit,
        shared=shared,
    )

    def make(visit: Callable[[Task], None]) -> Periodic:
        return Periodic(
            visit.__name__, interval, lambda conductor: visit_nodes(conductor, scan, visit)
        )

    return make


def my_rows(
    conductor: Conductor,
    columns: Sequence[str],
    filters: Mapping[str, Any],
    sort_key: str = "id",
) -> list[Row]:
    """Rows of the nodes that this conductor owns: one query, then the cached ring."""
    wanted = dict.fromkeys((*BASE_COLUMNS, *columns))
    rows = db_nodes.select(list(wanted), filters, sort_key=sort_key)
    return [row for row in rows if is_mine(conductor, row)]


def is_mine(conductor: Conductor, row: Row) -> bool:
    """Tell whether this conductor owns the node of a row with the base columns."""
    return conductor.ring.is_mine(
        conductor.host, row["driver"], row["conductor_group"], row["uuid"]
    )


class StopScan(Exception):
    """Raised by the function of a scan: no further node in this run."""


def visit_nodes(conductor: Conductor, scan: NodeScan, visit: Callable[[Task], object]) -> None:
    """Take a task on each node of a scan and call ``visit(task)``.

    Nodes are visited in parallel within bounds.  A node that is locked, gone, or
    fails ends only its own turn.  A node for which ``visit`` returns False does
    not count against the limit.
    """
    rows = my_rows(conductor, scan.columns, scan.filters, scan.sort_key)
    if scan.predicate is not None:
        rows = [row for row in rows if scan.predicate(row)]
    left = _Budget(scan.limit)
    ended = threading.Event()

    def one(row: Row) -> None:
        if not left.take():
            return
        counted = False
        try:
            with conductor.tasks.acquire(
                admin_context(),
                row["uuid"],
                shared=scan.shared,
                purpose=scan.purpose,
                load_driver=scan.load_driver,
                retry=False,
            ) as task:
                task.allow_reserved_pool = False
                counted = visit(task) is not False
        except (errors.NodeLocked, errors.NodeNotFound) as exc:
            LOG.debug("%s: %s", scan.purpose, exc)
        except (StopScan, errors.NoFreeConductorWorker) as exc:
            LOG.info("%s: no further nodes in this run: %s", scan.purpose, exc)
            ended.set()
        except errors.IronicError as exc:
            LOG.error("%s: node %s: %s", scan.purpose, row["uuid"], exc)
        finally:
            if not counted:
                left.give_back()

    for_each(
        conductor,
        rows,
        one,
        workers=scan.workers,
        stop=lambda: ended.is_set() or left.spent,
    )


class _Budget:
    """How many nodes may still be worked on in a run."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self._lock = threading.Lock()

    @property
    def spent(self) -> bool:
        return self._left == 0

    def take(self) -> bool:
        with self._lock:
            if self._left is None:
                return True
            if self._left <= 0:
                return False
            self._left -= 1
            return True

    def give_back(self) -> None:
        with self._lock:
            if self._left is not None:
                self._left += 1


def for_each(
    conductor: Conductor,
    items: Iterable[Any],
    fn: Callable[[Any], object],
    *,
    workers: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    patience: float | None = None,
) -> list[Future[None]]:
    """Call ``fn`` for the items, within bounds, until the conductor stops or is fenced.

    :param patience: do not wait longer for the last items, as ``WorkerPools.each``.
    :returns: the workers that still have an item, none without ``patience``.
    """
    context = oslo_context.get_current() or admin_context()

    def ends() -> bool:
        return conductor.stopping.is_set() or conductor.fence.tripped or stop()

    def one(item: Any) -> None:
        # The thread may have served somebody's request before.
        context.update_store()
        fn(item)

    count = workers or CONF.conductor.periodic_max_workers
    return conductor.workers.each(items, one, count, stop=ends, patience=patience)


def _timed(name: str) -> str:
    """Return the name of the metric of a task; those of drivers have a class already."""
    return name if "." in name else f"ConductorManager.{name}"


class Scheduler:
    """Runs periodic tasks until stopped.

    :param spread: random factor in a range; replaced in tests.
    """

    def __init__(
        self,
        conductor: Conductor,
        tasks: Sequence[Periodic],
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._conductor = conductor
        self._tasks = list(tasks)
        self._spread = spread
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Periodic]] = []
        self._running: set[str] = set()
        self._stopped = False
        self._thread: threading.Thread | None = None
        self._pulse = time.monotonic()

    @property
    def names(self) -> list[str]:
        """Names of the scheduled tasks."""
        return [task.name for task in self._tasks]

    @property
    def started(self) -> bool:
        """True once scheduling has begun."""
        return self._thread is not None

    @property
    def silence(self) -> float:
        """Seconds since the scheduling thread last came round."""
        return time.monotonic() - self._pulse

    def start(self) -> None:
        """Start scheduling."""
        for number, task in enumerate(self._tasks):
            interval = task.interval(CONF)
            if interval > 0:
                delay = interval * self._spread(*_FIRST)
                heapq.heappush(self._due, (time.monotonic() + delay, number, task))
        self._thread = threading.Thread(target=self._loop, name="periodics", daemon=True)
        self._thread.start()

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
            return self._changed.wait_for(lambda: not self._running, timeout)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._pulse = time.monotonic()
                if self._stopped:
                    return
                now = time.monotonic()
                pause = min(self._due[0][0] - now, 1.0) if self._due else 1.0
                if pause > 0:
                    self._changed.wait(pause)
                    continue
                _, number, task = heapq.heappop(self._due)
                self._running.add(task.name)
            self._launch(number, task)

    def _launch(self, number: int, task: Periodic) -> None:
        started = time.monotonic()
        try:
            self._conductor.workers.submit(self._run, number, task, started, reserved_ok=False)
        except errors.NoFreeConductorWorker:
            LOG.info("No free worker for the periodic task %s, coming again", task.name)
            self._again(number, task, time.monotonic() + self._spread(*_REFUSED))

    def _run(self, number: int, task: Periodic, started: float) -> None:
        interval = max(task.interval(CONF), 1.0)
        # Log lines of one run share a request id.
        admin_context().update_store()
        try:
            if not self._conductor.fence.tripped:
                with self._conductor.metrics.timer(_timed(task.name)):
                    task.run(self._conductor)
        except errors.IronicError as exc:
            LOG.error("Periodic task %s failed: %s", task.name, exc)
        except Exception:
            LOG.exception("Periodic task %s failed", task.name)
        finally:
            took = time.monotonic() - started
            if took > 3 * interval:
                LOG.warning(
                    "Periodic task %s took %.0f s, its interval is %.0f s",
                    task.name,
                    took,
                    interval,
                )
            # From start to start, but never two runs at a time.
            due = max(started + interval * self._spread(*_LATER), time.monotonic())
            self._again(number, task, due)

    def _again(self, number: int, task: Periodic, due: float) -> None:
        with self._changed:
            self._running.discard(task.name)
            heapq.heappush(self._due, (due, number, task))
            self._changed.notify_all()
