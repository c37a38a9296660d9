"""Take-over of nodes that came to this conductor with their instance.

Source: specification conductor.md sections 7, 10.12 and 17 (W40).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ironic_rs.conductor import recovery
from ironic_rs.conductor.flows import console, takeover
from ironic_rs.conductor.periodics.framework import for_each, my_rows
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

#: States of a node with an instance in which nobody works on it.
TAKEN_OVER = frozenset(
    {states.ACTIVE, states.RESCUE, states.SERVICEWAIT, states.SERVICEHOLD, states.SERVICEFAIL}
)


def sync_local_state(conductor: Conductor) -> None:
    """Take over the nodes whose instance another conductor looked after."""
    rows = my_rows(
        conductor,
        (),
        {
            "reserved": False,
            "maintenance": False,
            "provision_state_in": TAKEN_OVER,
            "conductor_affinity_not": conductor.conductor_id,
        },
    )

    def one(row: Row) -> None:
        try:
            with conductor.tasks.acquire(
                admin_context(), row["uuid"], purpose="node take over", retry=False
            ) as task:
                _take_over(task)
        except (errors.NodeLocked, errors.NodeNotFound) as exc:
            LOG.debug("Take-over: %s", exc)
        except errors.LockLost as exc:
            LOG.error("LockLost: take-over of node %s: %s", row["uuid"], exc)
        except errors.IronicError as exc:
            LOG.error("Take-over of node %s failed: %s", row["uuid"], exc)

    conductor.metrics.gauge("ConductorManager.SyncLocalStateNodeCount", len(rows))
    for_each(conductor, rows, one)


def _take_over(task: Task) -> None:
    node, own = task.node, task.conductor.conductor_id
    if node.maintenance or node.conductor_affinity == own or node.provision_state not in TAKEN_OVER:
        return
    try:
        if node.provision_state == states.ACTIVE:
            takeover.do_takeover(task)
            return
        # The drivers know how to prepare the instance of an active node only; the
        # others just get their console and their new conductor.
        console.restart(task, "takeover")
        node.conductor_affinity = own
        task.save()
    except errors.LockLost:
        raise
    except Exception as exc:
        LOG.exception("Take-over of node %s failed", node.uuid)
        recovery.worker_failed(task, "take-over", exc)
