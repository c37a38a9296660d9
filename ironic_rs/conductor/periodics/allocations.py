"""Allocations that nobody works on.

Those of dead and of unknown conductors are taken over; those of this conductor that
no thread works on (it was started anew, or the database was away) go on.

Source: specification conductor.md section 13, data/periodics.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.conductor.flows import allocation as flow
from ironic_rs.conductor.periodics.framework import for_each
from ironic_rs.db import allocations
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor


def check_orphan_allocations(conductor: Conductor) -> None:
    """Go on with every allocation that no live conductor works on."""
    for_each(
        conductor,
        allocations.unattended(conductor.conductor_id),
        lambda allocation: flow.resume(conductor, admin_context(), allocation),
    )
