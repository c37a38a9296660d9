"""How long a caller waits for a machine, where that is less than the options allow.

Power sync asks all machines: those that answer at once must not wait until each dead
one has had all its time (field case 39).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Allowance:
    """The time that a caller has.

    :ivar shortened: an operation got less than the options give it: what failed may
        only have needed more time.
    """

    def __init__(self, seconds: float | None, comes_back: bool = False) -> None:
        self.seconds = seconds
        self.comes_back = comes_back
        self.shortened = False


class _Thread(threading.local):
    allowance: Allowance | None = None


_thread = _Thread()


@contextmanager
def at_most(seconds: float | None, *, comes_back: bool = False) -> Iterator[Allowance]:
    """Have operations that begin in this block and thread fail after so many seconds.

    Drivers that never make their caller wait for long need not care.

    :param seconds: None: as the options say.
    :param comes_back: the caller asks again soon, failure or not: see :func:`comes_back`.
    """
    before = _thread.allowance
    _thread.allowance = allowance = Allowance(seconds, comes_back)
    try:
        yield allowance
    finally:
        _thread.allowance = before


def limit(seconds: float) -> float:
    """Return the seconds that an operation may take, which the options give ``seconds``."""
    allowance = _thread.allowance
    if allowance is None or allowance.seconds is None or allowance.seconds >= seconds:
        return seconds
    allowance.shortened = True
    return allowance.seconds


def comes_back() -> bool:
    """Tell whether the caller asks again by itself.

    Then a machine that was silent for as long as a connection may take is not tried
    again at once.
    """
    allowance = _thread.allowance
    return allowance is not None and allowance.comes_back
