"""Outlasting a database that is away for a moment (a restart, a fail-over)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ironic_rs.domain import errors

LOG = logging.getLogger(__name__)

#: Seconds for which a write outlasts a database that is away.
OUTAGE_SECONDS = 30.0
_LONGEST_PAUSE = 2.0

T = TypeVar("T")


def outlast(write: Callable[[], T], check: Callable[[], None] = lambda: None) -> T:
    """Repeat an idempotent write while the database is away, up to 30 seconds.

    :param check: called before each repetition; raises to give up.
    :raises Exception: what ``write`` raised last.
    """
    deadline = time.monotonic() + OUTAGE_SECONDS
    pause = 0.1
    while True:
        try:
            return write()
        except (errors.ServiceUnavailable, errors.TemporaryFailure) as exc:
            if time.monotonic() + pause > deadline:
                raise
            LOG.warning("Writing again in %.1f s: %s", pause, exc)
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
        check()
