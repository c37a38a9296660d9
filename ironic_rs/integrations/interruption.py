"""Work that takes long, and can be told to stop in the middle: a transfer, a conversion.

What does such work asks :func:`check` between two pieces, and names with :func:`stoppable`
what ends a piece that blocks.  Who tells it to stop is up to the :class:`Watch` of the flow
that the work is part of; outside of such a flow nothing stops it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Protocol


class Watch(Protocol):
    """Knows whether one piece of work is still wanted."""

    def check(self) -> None:
        """Return when the work may go on.

        :raises WorkAborted: somebody has asked for its end.
        :raises LockLost: the work must not go on.
        """

    def stoppable(self, stop: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """Have ``stop`` called, by another thread, when the work in the block is to end."""


_watch: contextvars.ContextVar[Watch | None] = contextvars.ContextVar("watch", default=None)


@contextlib.contextmanager
def by(watch: Watch | None) -> Iterator[None]:
    """Let a watch decide about the work that this thread does in the block; None: nobody."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


def check() -> None:
    """Return when the work of this thread may go on.

    :raises WorkAborted: somebody has asked for its end.
    :raises LockLost: the work must not go on.
    """
    watch = _watch.get()
    if watch is not None:
        watch.check()


@contextlib.contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[None]:
    """Have ``stop`` called, by another thread, when the work in the block is to end.

    It makes the block fail, or end early; in either case the block's own error gives way
    to that of :func:`check`.
    """
    watch = _watch.get()
    if watch is None:
        yield
        return
    with watch.stoppable(stop):
        try:
            watch.check()
            yield
        except Exception:
            watch.check()
            raise
        watch.check()
