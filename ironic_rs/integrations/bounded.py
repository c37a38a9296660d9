"""HTTP to machines that are not trusted: their answers end, in time and in length.

The time-out of a socket starts anew with each byte: a BMC or a ramdisk that sends one now
and then would keep a worker for ever.  The pools of connections are lean: a conductor
keeps them for ten thousand machines.

Source: design section 7; field case 39.
"""

from __future__ import annotations

import io
import queue
import socket
import threading
import time
from collections.abc import Callable
from http.client import HTTPResponse
from typing import Any, NamedTuple

import requests.adapters
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from ironic_rs.integrations import http


class _Allowance(NamedTuple):
    end: float
    longest: int
    too_long: Callable[[int], Exception]


class _Threads(threading.local):
    """What the answer to the request under way may take, for each thread."""

    allowance: _Allowance | None = None


_threads = _Threads()


def allow(seconds: float, longest: int, too_long: Callable[[int], Exception]) -> None:
    """Bound the answer to the next request of this thread.

    :param seconds: for all of the answer; then the read times out.
    :param longest: bytes.
    :param too_long: makes what is raised then, of ``longest``.
    """
    _threads.allowance = _Allowance(time.monotonic() + seconds, longest, too_long)


class _Bounded(io.RawIOBase):
    """What arrives at a socket, as long and as much as it is allowed."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, allowance: _Allowance) -> None:
        self._raw = raw
        self._sock = sock
        self._allowance = allowance
        self._left = allowance.longest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._allowance.end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not end in time")
        allowed = self._sock.gettimeout()
        if allowed is None or left < allowed:
            self._sock.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        self._left -= count or 0
        if self._left < 0:
            raise self._allowance.too_long(self._allowance.longest)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        allowance = _threads.allowance
        if allowance is not None:
            raw: io.RawIOBase = self.fp.detach()
            self.fp = io.BufferedReader(_Bounded(raw, sock, allowance))


class _PlainConnection(HTTPConnection):
    response_class = _Response


class _TlsConnection(HTTPSConnection):
    response_class = _Response


class _Stack:
    """The queue of a connection pool that nobody waits for; without three conditions."""

    def __init__(self, maxsize: int) -> None:
        self._size = maxsize
        self._items: list[Any] = []

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        if len(self._items) >= self._size:
            raise queue.Full
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            return self._items.pop()
        except IndexError:
            raise queue.Empty from None

    def qsize(self) -> int:
        return len(self._items)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection
    QueueCls = _Stack  # type: ignore[assignment]


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection
    QueueCls = _Stack  # type: ignore[assignment]


class PlainAdapter(requests.adapters.HTTPAdapter):
    """An adapter of requests whose answers are bounded, see :func:`allow`."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _PlainPool}


class TlsAdapter(http.ContextAdapter):
    """The same, with a given TLS context."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"https": _TlsPool}
