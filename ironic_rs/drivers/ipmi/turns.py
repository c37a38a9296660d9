"""One operation at a time on a BMC, and a pause between two of them.

A BMC is an address and a port: machines behind one controller share its turns.

Source: specification drivers.md section 5.3 (per-address throttle).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from ironic_rs.conf import CONF
from ironic_rs.drivers.ipmi.driver_info import BmcTarget
from ironic_rs.drivers.ipmi.errors import BmcError

#: Seconds after which nothing is known any more of a BMC that was not used.
_FORGET_AFTER = 3600.0


@dataclass
class Bmc:
    """What is known of a BMC.

    :ivar ended: end of the last operation, by ``time.monotonic()``.
    :ivar silent: it sent nothing at all when it was last asked.
    :ivar suites: node -> place in its list of cipher suites that the BMC accepted.
    :ivar manufacturers: node -> number of its manufacturer, as far as it was asked for.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    ended: float = 0.0
    silent: bool = False
    suites: dict[str, int] = field(default_factory=dict)
    manufacturers: dict[str, int] = field(default_factory=dict)


_bmcs: dict[tuple[str, int], Bmc] = {}
_guard = threading.Lock()
_tidied = 0.0


def known(target: BmcTarget) -> Bmc:
    """Return what is known of the BMC of a node."""
    global _tidied
    now = time.monotonic()
    with _guard:
        if now - _tidied > _FORGET_AFTER:
            _tidied = now
            for key, bmc in list(_bmcs.items()):
                if now - bmc.ended > _FORGET_AFTER and not bmc.lock.locked():
                    del _bmcs[key]
        return _bmcs.setdefault((target.address, target.port), Bmc())


def pause(bmc: Bmc) -> None:
    """Wait until the BMC may be asked again."""
    left = bmc.ended + CONF.ipmi.min_command_interval - time.monotonic()
    if left > 0:
        time.sleep(left)


@contextlib.contextmanager
def turn(target: BmcTarget, deadline: float) -> Iterator[Bmc]:
    """Hold the BMC alone.

    :param deadline: by ``time.monotonic()``.
    :raises BmcError: others did not let go of it in time.
    """
    bmc = known(target)
    if not bmc.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise BmcError("it is busy with other requests of this conductor")
    try:
        yield bmc
    finally:
        bmc.ended = time.monotonic()
        bmc.lock.release()
