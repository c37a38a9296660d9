"""Which task of this process holds which node: the in-process half of the lock.

``nodes.reservation`` names a host, not a thread.  The book adds the generation:
a task that lost its lock is told so even when a newer task of the same host
holds the node now.  It also lines up the threads of this process that want one
node, so they do not race in SQL.

Source: specification conductor.md sections 3 and 17 (W10).
"""

from __future__ import annotations

import threading
from collections import deque


class _Waiter:
    def __init__(self, token: object) -> None:
        self.token = token
        self.granted = threading.Event()


class LockBook:
    """Holders by node uuid.  A token is any object; tasks use themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._empty = threading.Condition(self._lock)
        self._holders: dict[str, object] = {}
        self._waiters: dict[str, deque[_Waiter]] = {}

    def claim(self, uuid: str, token: object, timeout: float = 0.0) -> bool:
        """Get the turn for a node, first come first served.

        :param timeout: seconds to wait for the holder to let go.
        :returns: False when somebody of this process still holds the node.
        """
        with self._lock:
            if uuid not in self._holders:
                self._holders[uuid] = token
                return True
            if timeout <= 0:
                return False
            waiter = _Waiter(token)
            self._waiters.setdefault(uuid, deque()).append(waiter)
        if waiter.granted.wait(timeout):
            return True
        with self._lock:
            if waiter.granted.is_set():
                return True
            waiters = self._waiters[uuid]
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[uuid]
            return False

    def hold(self, uuid: str, token: object) -> object | None:
        """Make ``token`` the holder whatever the book says: the database decided.

        :returns: the holder that lost the node by that, or None.
        """
        with self._lock:
            previous = self._holders.get(uuid)
            self._holders[uuid] = token
            return None if previous is token else previous

    def drop(self, uuid: str, token: object) -> None:
        """Let go and pass the turn on; nothing when ``token`` is not the holder."""
        with self._lock:
            if self._holders.get(uuid) is not token:
                return
            waiters = self._waiters.get(uuid)
            if waiters:
                waiter = waiters.popleft()
                if not waiters:
                    del self._waiters[uuid]
                self._holders[uuid] = waiter.token
                waiter.granted.set()
                return
            del self._holders[uuid]
            if not self._holders:
                self._empty.notify_all()

    def holder(self, uuid: str) -> object | None:
        """Return the present holder, or who is taking the node."""
        return self._holders.get(uuid)

    def is_holder(self, uuid: str, token: object) -> bool:
        """Tell whether ``token`` is the present holder."""
        return self._holders.get(uuid) is token

    def is_held(self, uuid: str) -> bool:
        """Tell whether anybody of this process holds or is taking the node."""
        return uuid in self._holders

    def __len__(self) -> int:
        return len(self._holders)

    def wait_empty(self, timeout: float | None = None) -> bool:
        """Wait until nothing is held.

        :param timeout: seconds, None = for ever.
        :returns: False when something is still held.
        """
        with self._lock:
            return self._empty.wait_for(lambda: not self._holders, timeout)
