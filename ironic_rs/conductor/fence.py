"""The self-fence: a conductor that others may hold for dead stops by itself (W42).

Others take the locks of a conductor once its recorded heartbeat is older than
``[conductor]heartbeat_timeout``.  This side counts from the moment *before* the
last successful heartbeat was sent, so it always trips first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ironic_rs.domain import errors


def _clock() -> float:
    # Unlike the monotonic clock this one also runs while the machine sleeps.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SelfFence:
    """Tells whether this conductor may still write to nodes.

    :param timeout: returns ``[conductor]heartbeat_timeout`` in seconds; 0 or less
        means that nobody judges heartbeats, and the fence never trips.
    :param clock: seconds; replaced in tests.
    """

    def __init__(self, timeout: Callable[[], float], clock: Callable[[], float] = _clock) -> None:
        self._timeout = timeout
        self._clock = clock
        self._lock = threading.Lock()
        self._alive_at: float | None = None
        #: Counts the interruptions in which others could take locks: what was
        #: locked in an earlier epoch has to be looked up before it is written to.
        self.epoch = 0

    def now(self) -> float:
        """Time to pass to :meth:`beat`; take it before the heartbeat is written."""
        return self._clock()

    def beat(self, started: float) -> None:
        """A heartbeat whose writing began at ``started`` is in the database."""
        timeout = self._timeout()
        with self._lock:
            if self._alive_at is None:
                self._alive_at = started
                return
            # From the start of the last one to the end of this one: never too short.
            if 0 < timeout <= self._clock() - self._alive_at:
                self.epoch += 1
            self._alive_at = max(self._alive_at, started)

    @property
    def silence(self) -> float:
        """Seconds since the last recorded heartbeat; 0 before the first one."""
        alive_at = self._alive_at
        return 0.0 if alive_at is None else self._clock() - alive_at

    @property
    def tripped(self) -> bool:
        """True when others may take the locks of this conductor."""
        timeout = self._timeout()
        return timeout > 0 and self.silence >= timeout

    def check(self, host: str, node: str) -> None:
        """Refuse to write to a node.

        :raises LockLost: the fence has tripped.
        """
        if self.tripped:
            raise errors.LockLost(host=host, node=node, reason=self.reason())

    def check_new_work(self, host: str) -> None:
        """Refuse to start work.

        :raises TemporaryFailure: the fence has tripped.
        """
        if self.tripped:
            raise errors.TemporaryFailure(
                f"Conductor {host} starts no new work: {self.reason()}. Please retry."
            )

    def reason(self) -> str:
        """Return why the fence has tripped."""
        return (
            f"its heartbeat could not be recorded for {self.silence:.0f} s "
            f"([conductor]heartbeat_timeout is {self._timeout():.0f} s)"
        )
