"""How long a caller waits for a machine, where that is less than the options allow.

Power sync asks all machines: those that answer at once must not wait until each dead
one has had all its time (field case 39).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Thread(threading.local):
    seconds: float | None = None


_thread = _Thread()


@contextmanager
def at_most(seconds: float | None) -> Iterator[None]:
    """Have operations that begin in this block and thread fail after so many seconds.

    :param seconds: None: as the options say.
    """
    before, _thread.seconds = _thread.seconds, seconds
    try:
        yield
    finally:
        _thread.seconds = before


def short() -> bool:
    """Tell whether the caller waits less than the options allow."""
    return _thread.seconds is not None


def limit(seconds: float) -> float:
    """Return the seconds that an operation may take, which the options give ``seconds``."""
    return seconds if _thread.seconds is None else min(seconds, _thread.seconds)
