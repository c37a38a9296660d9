"""Work of this conductor that a user may break off: pauses between calls, transfers of images.

Most work is short, and is waited for.  What is not names how it is ended, and finds out in
time that its end is wanted.

Source: field case 81.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field


@dataclass(eq=False)
class Work:
    """What is done for one node at a time: a step, or the preparation of a flow.

    :ivar state: provision state of the node meanwhile.
    :ivar stops: what ends the parts of it that can be ended now.
    :ivar aborted: its end is wanted.
    """

    state: str | None = None
    stops: list[Callable[[], None]] = field(default_factory=list)
    aborted: bool = False


class Interrupts:
    """The work that runs in one conductor, by node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Work] = {}
        self._pauses: set[threading.Event] = set()
        self._closed = False

    @contextlib.contextmanager
    def work(self, uuid: str, state: str | None = None) -> Iterator[Work]:
        """Begin work on a node, or a part of that which runs; it is over when the block ends.

        :param state: provision state of the node meanwhile.
        """
        with self._lock:
            outer = self._running.get(uuid)
            work = self._running.setdefault(uuid, Work(state))
        try:
            yield work
        finally:
            if outer is None:
                with self._lock:
                    del self._running[uuid]

    @contextlib.contextmanager
    def stoppable(self, work: Work, stop: Callable[[], None]) -> Iterator[None]:
        """Have ``stop`` called, by another thread, when the work in the block is to end."""
        with self._lock:
            work.stops.append(stop)
        try:
            yield
        finally:
            with self._lock:
                work.stops.remove(stop)

    def pause(self, uuid: str, seconds: float) -> bool:
        """Wait; False when an abort has ended the wait."""
        ended = threading.Event()
        with self._lock:
            if self._closed:
                return True
            self._pauses.add(ended)
        try:
            with self.work(uuid) as work, self.stoppable(work, ended.set):
                if not work.aborted:
                    ended.wait(seconds)
                return not work.aborted
        finally:
            with self._lock:
                self._pauses.remove(ended)

    def abort(self, uuid: str, state: str | None = None) -> bool:
        """End the work on a node; False when there is none that can be ended now.

        :param state: only what is done in this provision state.
        """
        with self._lock:
            work = self._running.get(uuid)
            if work is None or not work.stops or state not in (None, work.state):
                return False
            work.aborted = True
            for stop in work.stops:
                stop()
        return True

    def close(self) -> None:
        """End all pauses, and let no new one begin; other work goes on to its end."""
        with self._lock:
            self._closed = True
            for pause in self._pauses:
                pause.set()
