"""Whether the agent outlives a flow, for the next one to use it (fast track)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.domain import errors
from ironic_rs.drivers import fast_track

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task


def keep_agent(task: Task) -> bool:
    """Tell whether token and address of the agent survive the end of a flow."""
    try:
        return fast_track.able(task)
    except errors.InvalidParameterValue:
        return False
