"""The heartbeat of a conductor: liveness for others, the self-fence for itself.

It has a thread of its own, so that no load of workers can starve it, and it goes
on until the very end of a graceful stop, so that nobody takes the locks of
workers that still run (W07).

Source: specification conductor.md sections 6.2 and 17 (W07, W42, W43, W50).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ironic_rs.conductor.fence import SelfFence
from ironic_rs.conf import CONF
from ironic_rs.db import conductors as db_conductors

LOG = logging.getLogger(__name__)

#: Seconds between two tries while the database refuses the heartbeat.
_RETRY_SECONDS = 1.0


class KeepAlive:
    """Writes the heartbeat of ``host`` every ``[conductor]heartbeat_interval``.

    :param online: what to record: false once the conductor leaves the ring.
    :param register: registers the conductor anew when its row is gone (W50).
    """

    def __init__(
        self,
        host: str,
        fence: SelfFence,
        online: Callable[[], bool],
        register: Callable[[], None],
    ) -> None:
        self._host = host
        self._fence = fence
        self._online = online
        self._register = register
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread; the first heartbeat comes after one interval."""
        self._thread = threading.Thread(target=self._run, name="keep-alive", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        pause: float = CONF.conductor.heartbeat_interval
        while not self._stop.wait(pause):
            ok = self.beat()
            interval: float = CONF.conductor.heartbeat_interval
            pause = interval if ok else min(interval, _RETRY_SECONDS)

    def beat(self) -> bool:
        """Write one heartbeat; false when that failed (logged)."""
        started = self._fence.now()
        was_tripped = self._fence.tripped
        try:
            online = self._online()
            if not db_conductors.touch(self._host, online=online) and online:
                LOG.warning("Conductor %s is not registered any more, registering", self._host)
                self._register()
        except Exception as exc:
            LOG.warning("Conductor %s could not record its heartbeat: %s", self._host, exc)
            if self._fence.tripped and not was_tripped:
                LOG.error("LockLost: conductor %s: %s", self._host, self._fence.reason())
            return False
        if self._fence.tripped:
            LOG.warning(
                "Conductor %s is back after %.0f s without a heartbeat; others may have taken "
                "its locks, each is looked up before it is used again",
                self._host,
                self._fence.silence,
            )
        self._fence.beat(started)
        return True
