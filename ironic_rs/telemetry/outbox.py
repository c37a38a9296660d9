"""A bounded queue and one thread: what is put into it is sent, and nobody waits for that.

The thread sends in order and waits for a receiver that is away.  When the queue is full,
things are dropped, and the log tells how many.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

LOG = logging.getLogger(__name__)

#: Things that wait; more are dropped.
CAPACITY = 1000
#: Seconds between two lines of the log about dropped things.
_QUIET = 60.0

Item = TypeVar("Item")


class Outbox(Generic[Item]):
    """Sends things from a thread of its own, which starts with the first of them.

    :param what: what the things are called in logs, in the plural.
    :param send: sends one; its errors are logged.
    :param name: how the log names one of them.
    """

    def __init__(
        self,
        what: str,
        send: Callable[[Item], None],
        name: Callable[[Item], str],
        capacity: int = CAPACITY,
    ) -> None:
        self._what = what
        self._send = send
        self._name = name
        self._capacity = capacity
        self._lock = threading.Lock()
        self._queue: queue.Queue[Item] = queue.Queue(capacity)
        self._pid: int | None = None
        self._dropped = 0
        self._told_at = 0.0

    def put(self, item: Item) -> None:
        """Hand something to the thread; never waits and never fails."""
        try:
            self._start()
            self._queue.put_nowait(item)
        except queue.Full:
            self._drop(item)
        except Exception:
            LOG.exception("Of the %s is lost: %s", self._what, self._name(item))

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent, at most ``timeout`` seconds.

        :returns: False when something still waits.
        """
        deadline = time.monotonic() + timeout
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._queue.all_tasks_done.wait(left)
        return True

    def _drop(self, item: Item) -> None:
        with self._lock:
            self._dropped += 1
            now = time.monotonic()
            if self._told_at and now - self._told_at < _QUIET:
                return
            self._told_at, number = now, self._dropped
            self._dropped = 0
        LOG.warning(
            "%d %s are lost, %s the last of them: %d wait for their receiver already",
            number,
            self._what,
            self._name(item),
            self._capacity,
        )

    def _start(self) -> None:
        """Start the thread of this process: a fork has none, nor its parent's queue."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._queue = queue.Queue(self._capacity)
            threading.Thread(
                target=self._work, args=(self._queue,), name=self._what, daemon=True
            ).start()
            self._pid = os.getpid()

    def _work(self, items: queue.Queue[Item]) -> None:
        while True:
            item = items.get()
            try:
                self._send(item)
            except Exception as exc:
                LOG.warning(
                    "One of the %s, %s could not be sent: %s", self._what, self._name(item), exc
                )
            finally:
                items.task_done()
