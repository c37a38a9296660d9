"""Messages to systemd (sd_notify): READY, RELOADING, STOPPING, WATCHDOG.

Without ``NOTIFY_SOCKET`` in the environment nothing is sent.
"""

from __future__ import annotations

import contextlib
import os
import socket


def send(state: str) -> bool:
    """Send a message such as ``READY=1``.

    :returns: whether it was sent; a missing or deaf manager is no error.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        # The manager must never be able to block us.
        sock.setblocking(False)
        sock.sendto(state.encode(), address)
        return True
    return False


def watchdog_seconds() -> float | None:
    """Return the period of the watchdog that systemd expects of this process, or None."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    pid = os.environ.get("WATCHDOG_PID")
    if not microseconds.isdigit() or int(microseconds) == 0:
        return None
    if pid and pid != str(os.getpid()):
        return None
    return int(microseconds) / 1e6
