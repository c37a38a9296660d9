"""Ports of this host for consoles.

Source: specification drivers.md section 5.4 (console).
"""

from __future__ import annotations

import ipaddress
import socket
import threading

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

_lock = threading.Lock()
#: Ports given out by this process that nothing listens on yet.
_given: set[int] = set()


def _family() -> socket.AddressFamily:
    version = ipaddress.ip_address(CONF.console.socat_address).version
    return socket.AF_INET6 if version == 6 else socket.AF_INET


def is_free(port: int) -> bool:
    """Tell whether nothing listens on a port of ``[console]socat_address``.

    Who is about to listen there is not disturbed: a socket that is bound, but does not
    listen, refuses nobody who reuses addresses.
    """
    with socket.socket(_family(), socket.SOCK_STREAM) as sock:
        # What a console that has just ended leaves in the kernel does not count.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((CONF.console.socat_address, port))
        except OSError:
            return False
    return True


def allocate() -> int:
    """Return a free port of ``[console]port_range``; give it back by :func:`release`.

    :raises NoFreeIPMITerminalPorts: all are in use.
    """
    with _lock:
        for ports in CONF.console.port_range or ():
            for port in ports:
                if port not in _given and is_free(port):
                    _given.add(port)
                    return port
    raise errors.NoFreeIPMITerminalPorts(host=CONF.host)


def release(port: int | None) -> None:
    """Give a port back; none at all is no error."""
    with _lock:
        _given.discard(port or 0)
