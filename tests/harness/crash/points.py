"""The places where a process may die: before and after each write and outbound call.

A point is passed when the process gets to it.  The one that is aimed at ends the
process by SIGKILL, which nothing can catch or tidy up after.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import urllib3.connectionpool
from sqlalchemy import Engine, event

from ironic_rs.db import session

_WRITES = ("INSERT", "UPDATE", "DELETE")
BEFORE, AFTER = "before", "after"


class Points:
    """Counts the points of this process and dies at one of them.

    :param trace: file that gets a line for each point; it outlives the process.
    :param target: number of the point to die at, None to live.
    :param end: signal that the process gets there; SIGSTOP freezes it instead.
    """

    def __init__(
        self, trace: Path, target: int | None, end: signal.Signals = signal.SIGKILL
    ) -> None:
        self._file = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._target = target
        self._end = end
        self._lock = threading.Lock()
        self._passed = 0
        self.armed = False

    def __call__(self, when: str, what: str) -> None:
        """Pass a point."""
        if not self.armed:
            return
        with self._lock:
            os.write(self._file, f"{when} {what}\n".encode())
            self._passed += 1
            if self._passed - 1 == self._target:
                # This very thread gets it: no other may run on meanwhile.
                signal.pthread_kill(threading.get_ident(), self._end)
                if self._end == signal.SIGKILL:
                    time.sleep(3600)

    def around(self, what: str, call: Callable[[], Any]) -> Any:
        """Make a call with a point before and one after it."""
        self(BEFORE, what)
        result = call()
        self(AFTER, what)
        return result


def hook_database(points: Points) -> None:
    """Make each statement that writes a point, and each commit of such ones."""
    engines = session.database()
    for engine in {engines.transactions, engines.autocommit}:
        _hook_engine(points, engine)


def _hook_engine(points: Points, engine: Engine) -> None:
    written = threading.local()

    @event.listens_for(engine, "before_cursor_execute")
    def before(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.lstrip().startswith(_WRITES):
            words = statement.split(None, 3)
            table = words[1] if words[0] == "UPDATE" else words[2]
            points(BEFORE, f"{words[0].lower()} {table}")
            written.last = f"{words[0].lower()} {table}"

    commit = engine.dialect.do_commit

    @functools.wraps(commit)
    def do_commit(connection: Any) -> None:
        last, written.last = getattr(written, "last", None), None
        commit(connection)
        if last is not None:
            points(AFTER, f"commit of {last}")

    engine.dialect.do_commit = do_commit  # type: ignore[method-assign]


def hook_http(points: Points) -> None:
    """Make each HTTP request of requests and urllib3 a pair of points."""
    pool = urllib3.connectionpool.HTTPConnectionPool
    send = pool._make_request

    @functools.wraps(send)
    def make_request(self: Any, conn: Any, method: str, url: str, *args: Any, **more: Any) -> Any:
        path = url.split("?", maxsplit=1)[0]
        return points.around(
            f"{method} {path}", lambda: send(self, conn, method, url, *args, **more)
        )

    pool._make_request = make_request  # type: ignore[method-assign]
