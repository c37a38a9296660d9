"""Artificial delays of the fake interfaces."""

from __future__ import annotations

import random
import time

from ironic_rs.conf import CONF


def pause(interface: str) -> None:
    """Sleep as ``[fake]<interface>_delay`` says.

    The option is ``N`` (seconds) or ``A,B``: a random time between A and B that
    is more often near A.
    """
    low, _, high = CONF.fake[f"{interface}_delay"].partition(",")
    shortest = float(low)
    longest = float(high) if high else shortest
    if longest > 0:
        time.sleep(random.triangular(shortest, longest, shortest))
