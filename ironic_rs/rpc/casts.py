"""Casts: accepted at once, run by a few threads, put back while the node is locked.

A cast that continues a flow has to wait for the lock of its node.  Waiting in a
thread would let a few long steps stop all RPC (W26), so a cast that finds the
node locked, or no free worker, goes back into the queue and comes again.

Source: specification conductor.md sections 1.3, 3.3 and 16 (guarantee 5).
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ironic_rs.domain import errors
from ironic_rs.rpc import dispatch
from ironic_rs.rpc.registry import Registry

LOG = logging.getLogger(__name__)

#: Threads that run casts; each only takes a lock and hands it to a worker.
THREADS = 4

_RETRYABLE = (errors.NodeLocked, errors.TemporaryFailure, errors.ServiceUnavailable)


class CastRunner:
    """Runs casts in the order of their due times.

    :param retry_seconds: returns the pause before a refused cast comes again.
    """

    def __init__(self, registry: Registry, retry_seconds: Callable[[], float]) -> None:
        self._registry = registry
        self._retry_seconds = retry_seconds
        self._wake = threading.Condition()
        self._due: list[tuple[float, int, str, Mapping[str, Any], Mapping[str, Any]]] = []
        self._order = itertools.count()
        self._running = 0
        self._closed = False
        self._threads = [
            threading.Thread(target=self._work, name=f"cast-{n}", daemon=True)
            for n in range(THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, method: str, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Accept a cast; nobody hears of its end but the log."""
        self._put(0.0, method, arguments, context)

    def _put(
        self,
        delay: float,
        method: str,
        arguments: Mapping[str, Any],
        context: Mapping[str, Any],
    ) -> None:
        item = (time.monotonic() + delay, next(self._order), method, arguments, context)
        with self._wake:
            heapq.heappush(self._due, item)
            self._wake.notify()

    def _work(self) -> None:
        while True:
            with self._wake:
                item = self._take()
                if item is None:
                    return
                self._running += 1
            _, _, method, arguments, context = item
            try:
                dispatch.run(self._registry, method, arguments, context)
            except _RETRYABLE:
                self._put(self._retry_seconds(), method, arguments, context)
            except Exception:
                # Logged by run(); a cast has no caller.
                LOG.debug("Cast %s is dropped", method)
            finally:
                with self._wake:
                    self._running -= 1
                    self._wake.notify_all()

    def _take(
        self,
    ) -> tuple[float, int, str, Mapping[str, Any], Mapping[str, Any]] | None:
        """Wait for a due cast; None when the runner is closed.  Needs the lock."""
        while not self._closed:
            if not self._due:
                self._wake.wait()
                continue
            pause = self._due[0][0] - time.monotonic()
            if pause <= 0:
                return heapq.heappop(self._due)
            self._wake.wait(pause)
        return None

    def close(self, timeout: float | None = None) -> None:
        """Start no more casts; wait for the running ones.

        Casts that still wait for a lock are dropped: the wait state of their node
        is taken up by the next heartbeat or by its time-out.

        :param timeout: seconds, None = for ever.
        """
        with self._wake:
            self._closed = True
            self._wake.notify_all()
            self._wake.wait_for(lambda: not self._running, timeout)
            if self._due:
                LOG.warning(
                    "%d casts are dropped: %s",
                    len(self._due),
                    ", ".join(f"{item[2]} {item[3].get('node_id')}" for item in self._due),
                )
