"""Calls to the outside that are made again when they met a fault which may pass.

The client of a service knows which of its calls may be made again: those that were refused
before they had an effect (an answer "busy", a connection that was never made), and those that
may have their effect twice.  For such a call it asks :func:`again`.  Whether, how often and
after which pause is up to the :class:`Healer` of the work that the call is part of; outside of
such work nothing is made again.  It is always the one call that is repeated, never the work.
"""

from __future__ import annotations

import contextlib
import contextvars
import enum
from collections.abc import Iterator
from typing import Protocol


class Partner(enum.Enum):
    """Whom a call is made to."""

    BMC = "bmc"
    AGENT = "agent"
    IMAGES = "image"


class Healer(Protocol):
    """Decides about the calls of one piece of work."""

    def again(self, partner: Partner, what: str, error: str) -> bool:
        """Pause, and tell whether to make a call again.

        :param what: what the call was to do, without secrets.
        :param error: what it met.
        :raises LockLost: the work must not go on.
        """


_healer: contextvars.ContextVar[Healer | None] = contextvars.ContextVar("healer", default=None)


@contextlib.contextmanager
def by(healer: Healer | None) -> Iterator[None]:
    """Let a healer decide about the calls that this thread makes in the block; None: nobody."""
    token = _healer.set(healer)
    try:
        yield
    finally:
        _healer.reset(token)


def again(partner: Partner, what: str, error: object) -> bool:
    """Pause, and tell whether to make a call again; False at once outside of such work.

    :param what: what the call was to do, without secrets.
    :param error: what it met.
    :raises LockLost: the work must not go on.
    """
    healer = _healer.get()
    return False if healer is None else healer.again(partner, what, str(error))
