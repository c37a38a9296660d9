"""The worker pools: really bounded, really recovering (W06, W35, W51).

A pool of N runs at most N functions at a time and keeps none waiting: a caller
gets an answer now, a worker or :class:`~ironic_rs.domain.errors.NoFreeConductorWorker`.
Threads are created on demand and end after some idle time.

``concurrent.futures`` queues without bound, and futurist's dynamic pool counts
idle threads as busy ones and so refuses for ever after one burst; both are
wrong here.

Source: specification conductor.md section 4.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from operator import length_hint
from typing import Any, TypeVar

from oslo_config import cfg

from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

#: Seconds after which an idle thread ends.
IDLE_SECONDS = 60.0

#: Default of [conductor]sync_power_state_workers where the pool has room for it: ten
#: thousand BMCs that answer in 50 ms take half a minute, and twenty that do not answer
#: leave enough of them.
SYNC_WORKERS = 32

#: Seconds after which a loop over many items looks whether it needs more workers: it
#: does when each of them began with fewer items than this meanwhile.
_GROWTH_SECONDS = 0.02
_BRISK = 10

#: An item that takes longer (s) does not count against the workers of its loop.
HELD_UP_SECONDS = 10.0
_LOOK_SECONDS = 1.0

T = TypeVar("T")
Item = TypeVar("Item")

_Job = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class _Worker:
    """One thread of a pool with a one-place inbox."""

    def __init__(self, pool: BoundedPool, name: str, first: _Job) -> None:
        self.inbox: queue.Queue[_Job | None] = queue.Queue()
        self.inbox.put(first)
        self.thread = threading.Thread(target=pool._work, args=(self,), name=name, daemon=True)


class BoundedPool:
    """At most ``size`` functions at a time, none queued.

    :param name: prefix of the thread names.
    :param size: most functions that run at a time.
    :param idle_seconds: a thread without work ends after this time.
    """

    def __init__(self, name: str, size: int, idle_seconds: float = IDLE_SECONDS) -> None:
        self.name = name
        self.size = size
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._quiet = threading.Condition(self._lock)
        # Last in, first out: what is not needed for the present load stays idle and ends.
        self._idle: list[_Worker] = []
        self._threads = 0
        self._started = 0
        self._busy = 0
        self._closed = ""

    @property
    def busy(self) -> int:
        """Functions that run now."""
        return self._busy

    @property
    def threads(self) -> int:
        """Threads that exist now, idle ones included."""
        return self._threads

    def submit(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
        """Run ``fn`` in a thread of the pool.

        :raises NoFreeConductorWorker: all are busy, or the pool is closed.
        """
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        job: _Job = (future, fn, args, kwargs)
        with self._lock:
            if self._closed:
                raise errors.NoFreeConductorWorker(
                    f"The requested action cannot be started: {self._closed}. Please retry."
                )
            if self._busy >= self.size:
                raise errors.NoFreeConductorWorker()
            if self._idle:
                self._busy += 1
                self._idle.pop().inbox.put(job)
                return future
            worker = _Worker(self, f"{self.name}-{self._started}", job)
            try:
                worker.thread.start()
            except RuntimeError as exc:  # the system refuses another thread
                raise errors.NoFreeConductorWorker() from exc
            self._busy += 1
            self._started += 1
            self._threads += 1
            return future

    def _work(self, worker: _Worker) -> None:
        while True:
            job = self._next(worker)
            if job is None:
                return
            future, fn, args, kwargs = job
            try:
                result = fn(*args, **kwargs)
            except BaseException as exc:
                future.set_exception(exc)
            else:
                future.set_result(result)
            # References would keep the task alive while the thread idles.
            del job, future, fn, args, kwargs
            with self._lock:
                self._busy -= 1
                if not self._busy:
                    self._quiet.notify_all()
                if self._closed:
                    self._threads -= 1
                    return
                self._idle.append(worker)

    def _next(self, worker: _Worker) -> _Job | None:
        """Wait for work; None means that the thread should end."""
        try:
            return worker.inbox.get(timeout=self._idle_seconds)
        except queue.Empty:
            pass
        with self._lock:
            if worker in self._idle:
                self._idle.remove(worker)
                self._threads -= 1
                return None
        # Taken from the idle list just now: its job is in the inbox or about to be.
        return worker.inbox.get()

    def close(self, reason: str = "the worker pool is closed") -> None:
        """Refuse new work, with the reason; idle threads end, running functions go on."""
        with self._lock:
            self._closed = reason
            idle, self._idle = self._idle, []
            self._threads -= len(idle)
        for worker in idle:
            worker.inbox.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs.

        :param timeout: seconds, None = for ever.
        :returns: False when something still runs.
        """
        with self._lock:
            return self._quiet.wait_for(lambda: not self._busy, timeout)


class WorkerPools:
    """The normal pool, and the reserved one for work asked for through the API.

    :ivar sync_workers: how many machines power sync asks at a time.
    :raises IncorrectConfiguration: the normal pool is too small for the periodic work.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        group = conf.conductor
        total = group.workers_pool_size
        reserved = int(total * group.reserved_workers_pool_percentage / 100)
        normal = total - reserved
        others = 2 * group.periodic_max_workers + 2
        room = normal - others - 1
        wanted = group.sync_power_state_workers
        self.sync_workers: int = wanted or min(max(room, 8), SYNC_WORKERS)
        if self.sync_workers > room:
            needed = self.sync_workers + others
            raise errors.IncorrectConfiguration(
                error=(
                    f"[conductor]workers_pool_size = {total} leaves {normal} workers beside the "
                    f"{reserved} reserved ones, but the periodic work needs more than {needed} "
                    "(sync_power_state_workers + 2 * periodic_max_workers + 2)"
                )
            )
        self.normal = BoundedPool("worker", normal)
        self.reserved = BoundedPool("reserved", reserved) if reserved else None

    def submit(
        self, fn: Callable[..., T], *args: Any, reserved_ok: bool = True, **kwargs: Any
    ) -> Future[T]:
        """Run ``fn`` in a worker.

        :param reserved_ok: may use the reserved pool when the normal one is full;
            false for heartbeats and for everything that a periodic starts.
        :raises NoFreeConductorWorker: no worker is free.
        """
        try:
            return self.normal.submit(fn, *args, **kwargs)
        except errors.NoFreeConductorWorker:
            if not reserved_ok or self.reserved is None:
                raise
        return self.reserved.submit(fn, *args, **kwargs)

    def each(
        self,
        items: Iterable[Item],
        fn: Callable[[Item], object],
        workers: int,
        stop: Callable[[], bool] = lambda: False,
        patience: float | None = None,
    ) -> list[Future[None]]:
        """Call ``fn`` for every item, at most ``workers`` at a time (W38).

        Runs in the calling thread when that is enough, else in workers of the normal
        pool (fewer when it is busy).  An error of one item is logged and does not touch
        the others.  Returns when all have ended.  An item that takes long, such as a
        BMC that does not answer, soon does not count any more: another worker goes on
        with the others, in up to half of the pool.

        :param stop: asked before each item; true ends the loop.
        :param patience: keep to ``workers``, of which more and more start as long as
            they wait for machines instead of computing, and no longer wait for them
            when no item is left and so many seconds have passed.
        :returns: the workers that still have an item, none without ``patience``.
        """
        crew = _Crew(self, items, fn, stop)
        most = min(workers, length_hint(items, workers))
        if patience is None:
            if most > 1 and crew.grow(most):
                crew.supervise(most, self.normal.size // 2)
            crew.work()
            return crew.join(None)
        crew.grow(min(most, 1))
        if crew.futures:
            crew.ramp_up(most)
        else:
            crew.work()
        return crew.join(patience)

    def close(self, reason: str = "the worker pools are closed") -> None:
        """Refuse new work in both pools, with the reason."""
        for pool in self._pools():
            pool.close(reason)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing runs in either pool; False when the time is over."""
        end = None if timeout is None else time.monotonic() + timeout
        for pool in self._pools():
            left = None if end is None else max(0.0, end - time.monotonic())
            if not pool.wait(left):
                return False
        return True

    def _pools(self) -> list[BoundedPool]:
        return [self.normal] if self.reserved is None else [self.normal, self.reserved]


class _Crew:
    """The workers of one loop over items.

    :ivar futures: one for each worker; it ends when no item is left.
    """

    def __init__(
        self,
        pools: WorkerPools,
        items: Iterable[Item],
        fn: Callable[[Item], object],
        stop: Callable[[], bool],
    ) -> None:
        self._pools = pools
        self._source: Iterator[Any] = iter(items)
        self._fn: Callable[[Any], object] = fn
        self._stop = stop
        self._guard = threading.Lock()
        self._fetching = False
        self._begun = 0
        self._at_work: dict[int, float] = {}
        self.futures: list[Future[None]] = []

    def work(self) -> None:
        """Take items until there is none left."""
        while not self._stop():
            with self._guard:
                self._fetching = True
                try:
                    item = next(self._source)
                except StopIteration:
                    return
                finally:
                    self._fetching = False
                self._begun += 1
                number = self._begun
                self._at_work[number] = time.monotonic()
            try:
                self._fn(item)
            except errors.IronicError as exc:
                LOG.error("Work on one item of a periodic failed: %s", exc)
            except Exception:
                LOG.exception("Work on one item of a periodic failed")
            finally:
                self._at_work.pop(number, None)

    def grow(self, number: int) -> bool:
        """Have so many workers; false when there are fewer and no further one is free."""
        while len(self.futures) < number:
            try:
                self.futures.append(self._pools.submit(self.work, reserved_ok=False))
            except errors.NoFreeConductorWorker:
                return False
        return True

    def ramp_up(self, most: int) -> None:
        """Start more workers while they wait for machines, until no item is left."""
        room = True
        while True:
            before, was_fetching = self._begun, self._fetching
            tick = _GROWTH_SECONDS if room and len(self.futures) < most else None
            ended, _ = wait(self.futures, timeout=tick, return_when=FIRST_COMPLETED)
            if ended:
                return
            # While the items themselves are fetched, more workers are of no use.
            fetching = was_fetching or self._fetching
            if not fetching and self._begun - before < len(self.futures) * _BRISK:
                room = self.grow(min(2 * len(self.futures), most))

    def supervise(self, number: int, most: int) -> None:
        """Put a worker in the place of each that is held up, until no item is left."""
        while not wait(self.futures, timeout=_LOOK_SECONDS, return_when=FIRST_COMPLETED)[0]:
            long_ago = time.monotonic() - HELD_UP_SECONDS
            held_up = sum(since < long_ago for since in list(self._at_work.values()))
            if held_up:
                self.grow(min(number + held_up, most))

    def join(self, patience: float | None) -> list[Future[None]]:
        """Wait for the workers; return those that have not ended."""
        done, left = wait(self.futures, timeout=patience)
        for future in done:
            future.result()
        return list(left)
