"""What piles up and has to go: cached images, old history, conductors that are gone.

Source: specification conductor.md sections 7 and 14; field case 23.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.db import conductors as db_conductors
from ironic_rs.db import history as db_history
from ironic_rs.images import cache

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor

LOG = logging.getLogger(__name__)

#: Most nodes whose history is looked at by one statement.
_NODES = 1000


def clean_up_caches(conductor: Conductor) -> None:
    """Remove cached images that are too old, or too many."""
    clear_unfinished_images()
    for name, images in cache.all_caches().items():
        if conductor.stopping.is_set():
            return
        try:
            images.clean_up()
        except OSError as exc:
            # The others are none the worse for it.
            LOG.error("The cache of %s could not be cleaned up: %s", name, exc)


def clear_unfinished_images() -> None:
    """Remove what killed processes left of images that they fetched or converted."""
    try:
        cache.sweep()
    except OSError as exc:
        LOG.error("Unfinished images of an earlier process could not be removed: %s", exc)


def purge_history(conductor: Conductor) -> None:
    """Remove the oldest history of the nodes of this conductor, batch by batch.

    Two statements and one more for each further batch; nodes whose history fits cost
    nothing.  Whose node it is the ring says, not the affinity: a node that was never
    deployed has none.
    """
    group = CONF.conductor
    keep, days = group.node_history_max_entries, group.node_history_minimum_days
    batch = group.node_history_cleanup_batch_count
    if keep <= 0 or batch <= 0:
        return
    overfull = db_history.overfull(keep=keep, days=days)
    mine = conductor.ring.owned(conductor.host, overfull)
    removed = 0
    while mine and not conductor.stopping.is_set() and not conductor.fence.tripped:
        number = 0
        now: list[int] = []
        while mine and number < batch and len(now) < _NODES:
            row = mine.pop()
            number += row["excess"]
            now.append(row["node_id"])
        removed += db_history.delete_oldest(now, keep=keep, days=days)
    if removed:
        LOG.info("%d old entries of the history of nodes are removed", removed)


def remove_stale_conductors(conductor: Conductor) -> None:
    """Remove conductors from the list that have been gone for long.

    One that still holds a node stays: whoever takes the node over has to know that
    its lock is that of a dead conductor.
    """
    group = CONF.conductor
    dead_after, gone_after = group.heartbeat_timeout, group.conductor_cleanup_timeout
    if dead_after <= 0 or gone_after < 3 * dead_after:
        LOG.warning(
            "Conductors that are gone are not removed: [conductor]conductor_cleanup_timeout "
            "(%d) must be at least 3 times heartbeat_timeout (%d), and that above 0",
            gone_after,
            dead_after,
        )
        return
    # By name: two conductors that look at the same time each remove a row once.
    for host, locks in db_conductors.stale(gone_after, group.conductor_cleanup_batch_size):
        if conductor.stopping.is_set():
            return
        if host == conductor.host:
            continue
        if locks:
            LOG.warning(
                "Conductor %s is gone and stays in the list while it holds %d nodes: no live "
                "conductor serves their hardware type and conductor group",
                host,
                locks,
            )
        elif db_conductors.destroy(host, gone_after):
            LOG.info(
                "Conductor %s is removed: there was no sign of life for %d s", host, gone_after
            )
