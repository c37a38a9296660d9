"""Unfinished files: in a directory of their own, which goes with whoever makes them.

A killed process takes its locks along, so a directory that nobody has locked belongs to
nobody.  The lock of the place above keeps a directory from being taken for such a one
between its making and its locking.

Source: specification drivers.md section 12.5.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from oslo_log import log

LOG = log.getLogger(__name__)

SUFFIX = ".part"


@contextlib.contextmanager
def _locked(directory: Path, how: int) -> Iterator[bool]:
    """Lock a directory for the block; False where the file system has no such locks.

    :raises BlockingIOError: somebody else has locked it, and ``how`` says not to wait.
    """
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, how)
            locked = True
        except BlockingIOError:
            raise
        except OSError:
            locked = False
        yield locked
    finally:
        os.close(handle)


@contextlib.contextmanager
def opened(place: Path) -> Iterator[Path]:
    """Yield a new directory below ``place``; it goes at the end, with all that is in it.

    :raises OSError: it cannot be made.
    """
    directory = place / f"{uuid.uuid4().hex}{SUFFIX}"
    with contextlib.ExitStack() as held:
        with _locked(place, fcntl.LOCK_SH):
            directory.mkdir()
            held.callback(shutil.rmtree, directory, ignore_errors=True)
            held.enter_context(_locked(directory, fcntl.LOCK_EX))
        yield directory


def sweep(place: Path) -> int:
    """Remove what processes left that are gone; return how many directories went.

    :raises OSError: the place cannot be read.
    """
    if not place.is_dir():
        return 0
    gone = 0
    with _locked(place, fcntl.LOCK_EX) as locked:
        for path in place.glob(f"*{SUFFIX}") if locked else ():
            with contextlib.suppress(OSError), _locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB) as free:
                if free:
                    LOG.info("Removing unfinished files of an earlier process: %s", path)
                    shutil.rmtree(path, ignore_errors=True)
                    gone += 1
    return gone
