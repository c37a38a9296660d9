"""Memory that the C library keeps for itself.

glibc gives threads arenas of their own (up to eight for each CPU) and hardly ever
returns them: a service with dozens of threads holds the largest answer that each of
them ever made.  Two are enough where one thread computes at a time.

Source: mallopt(3).
"""

from __future__ import annotations

import contextlib
import ctypes
import os

_M_ARENA_MAX = -8
_ARENAS = 2


def share_arenas() -> None:
    """Let the threads of this process share two arenas; call it before any is started.

    Does nothing with another C library, or when the environment says how many
    (``MALLOC_ARENA_MAX``).
    """
    if "MALLOC_ARENA_MAX" in os.environ:
        return
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)
