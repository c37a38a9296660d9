"""Allocations: find a node for a request, whoever began and whatever died.

The record says which conductor looks for the node (``conductor_affinity``), the book
of that conductor which thread does.  Every write is conditional on the allocation
still being this conductor's to settle and on the lock of the node, so one that was
taken over is never given a second node, and no node a second instance.

Source: specification conductor.md section 13, defect W45.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor.history import truncate_error
from ironic_rs.conductor.outage import outlast
from ironic_rs.conf import CONF
from ironic_rs.db import allocations as db_allocations
from ironic_rs.db import conductors as db_conductors
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, states

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.db import models
    from ironic_rs.db.listing import Row
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

#: What happened to a node, not to the allocation: another node may do.
_NODE_IS_OUT = (
    errors.InvalidState,
    errors.NodeAssociated,
    errors.NodeNotFound,
)


def start(conductor: Conductor, context: RequestContext, allocation: models.Allocation) -> None:
    """Let a worker look for a node.

    :raises NoFreeConductorWorker: there is none; the allocation is not changed.
    """
    token = object()
    if not conductor.allocating.claim(allocation.uuid, token):
        # The periodic task saw the new row first.
        return
    try:
        conductor.workers.submit(_work, conductor, context, allocation, token)
    except errors.NoFreeConductorWorker:
        conductor.allocating.drop(allocation.uuid, token)
        raise


def _work(
    conductor: Conductor, context: RequestContext, allocation: models.Allocation, token: object
) -> None:
    context.update_store()
    try:
        settle(conductor, context, allocation)
    finally:
        conductor.allocating.drop(allocation.uuid, token)


def resume(conductor: Conductor, context: RequestContext, allocation: models.Allocation) -> None:
    """Go on with an allocation that nobody works on; take it over if it is another's."""
    token = object()
    if not conductor.allocating.claim(allocation.uuid, token):
        return
    try:
        before, own = allocation.conductor_affinity, conductor.conductor_id
        if before != own:
            if not db_allocations.take_over(allocation.id, before, own):
                return
            allocation.conductor_affinity = own
            LOG.warning(
                "Allocation %s is taken over: its conductor (%s) is not alive",
                allocation.uuid,
                "unknown" if before is None else f"id {before}",
            )
        settle(conductor, context, allocation)
    finally:
        conductor.allocating.drop(allocation.uuid, token)


def settle(conductor: Conductor, context: RequestContext, allocation: models.Allocation) -> None:
    """Give the allocation a node, or record why it gets none; never raises.

    It stays ``allocating`` only when this conductor cannot work at the moment; then
    the next pass over unattended allocations comes back to it.
    """
    try:
        _allocate(conductor, context, allocation)
    except errors.AllocationNotFound:
        LOG.info("Allocation %s was deleted while a node was looked for", allocation.uuid)
    except errors.AllocationLost as exc:
        LOG.warning("%s", exc)
    except (errors.ServiceUnavailable, errors.TemporaryFailure) as exc:
        LOG.warning("Allocation %s has to wait: %s", allocation.uuid, exc)
    except errors.IronicError as exc:
        LOG.error("Allocation %s failed: %s", allocation.uuid, exc)
        _record_failure(allocation, str(exc))
    except Exception as exc:
        LOG.exception("Allocation %s failed unexpectedly", allocation.uuid)
        _record_failure(allocation, f"Unexpected error: {type(exc).__name__}: {exc}")


def _record_failure(allocation: models.Allocation, text: str) -> None:
    try:
        outlast(lambda: db_allocations.fail(allocation, truncate_error(text)))
    except Exception:
        # It is still allocating: the next pass over such ones comes back to it.
        LOG.exception("The failure of allocation %s could not be recorded", allocation.uuid)


def _allocate(conductor: Conductor, context: RequestContext, allocation: models.Allocation) -> None:
    """Take the first node that is free.

    :raises AllocationFailed: there is none.
    :raises TemporaryFailure: there may be one after dead conductors' locks are gone, or
        when there is more time.
    """
    left = candidates(allocation)
    for attempt in range(max(1, CONF.conductor.node_locked_retry_attempts)):
        if attempt and conductor.stopping.wait(CONF.conductor.node_locked_retry_interval):
            raise errors.TemporaryFailure("this conductor is stopping")
        locked = []
        for row in left:
            try:
                _take(conductor, context, allocation, row["uuid"])
                return
            except (errors.NodeLocked, errors.LockLost):
                locked.append(row)
            except _NODE_IS_OUT as exc:
                LOG.debug("Allocation %s: %s", allocation.uuid, exc)
        left = locked
        if not left:
            break
    if left:
        _wait_for_the_dead(left)
    raise errors.AllocationFailed(
        uuid=allocation.uuid,
        error=f"{len(left)} suitable nodes are locked, all others were taken"
        if left
        else "all suitable nodes were taken",
    )


def _wait_for_the_dead(locked: Sequence[Row]) -> None:
    """Locks of dead conductors are released soon: no reason to give up.

    :raises TemporaryFailure: there are such locks.
    """
    dead = db_conductors.offline_hosts()
    filters = {"id_in": [row["id"] for row in locked], "reserved_by_any_of": dead}
    if dead and db_nodes.select(["id"], filters, limit=1):
        raise errors.TemporaryFailure("suitable nodes are locked by a conductor that is not alive")


def candidates(allocation: models.Allocation) -> list[Row]:
    """Return the nodes that an allocation may get (id, uuid, name), in order of preference.

    A node with the name of the allocation comes first, the others in random order.

    :raises AllocationFailed: there is none.
    """
    filters: dict[str, Any] = {
        "resource_class": allocation.resource_class,
        "provision_state": states.AVAILABLE,
        "associated": False,
        "with_power_state": True,
        "maintenance": False,
        "include_children": False,
    }
    if allocation.candidate_nodes:
        filters["uuid_in"] = allocation.candidate_nodes
    if allocation.owner:
        filters["project"] = allocation.owner
    with_traits = {"all_traits": allocation.traits} if allocation.traits else {}
    rows = list(db_nodes.select(["id", "uuid", "name"], {**filters, **with_traits}))
    if not rows:
        matching = with_traits and db_nodes.select(["id"], filters)
        raise errors.AllocationFailed(
            uuid=allocation.uuid, error=_nothing_found(allocation, len(matching or ()))
        )
    random.shuffle(rows)
    if allocation.name:
        rows.sort(key=lambda row: row["name"] != allocation.name)
    return rows


def _nothing_found(allocation: models.Allocation, without_traits: int) -> str:
    text = f"no available nodes match the resource class {allocation.resource_class}"
    if allocation.candidate_nodes:
        text += f" and are among the {len(allocation.candidate_nodes)} candidate nodes"
    if allocation.owner:
        text += f" and belong to project {allocation.owner}"
    if without_traits:
        text = (
            f"none of the {without_traits} nodes that match the resource class "
            f"{allocation.resource_class} and the other conditions has all of the traits "
            f"{', '.join(allocation.traits)}"
        )
    return text


def _take(
    conductor: Conductor, context: RequestContext, allocation: models.Allocation, uuid: str
) -> None:
    with conductor.tasks.acquire(
        context, uuid, purpose="allocating", retry=False, load_driver=False
    ) as task:
        node = task.node
        if not _is_free(node, allocation) or mismatch(node, allocation):
            raise errors.InvalidState(f"Node {node.uuid} is not suitable any more.")
        task.check_lock()
        outlast(
            lambda: db_allocations.bind(allocation, node.id, fence=conductor.host),
            task.check_lock,
        )
        LOG.info("Node %s is allocated to %s", node.uuid, allocation.uuid)


def _is_free(node: models.Node, allocation: models.Allocation) -> bool:
    return (
        node.provision_state == states.AVAILABLE
        and node.instance_uuid is None
        and not node.maintenance
        and (not allocation.owner or allocation.owner in (node.owner, node.lessee))
    )


def mismatch(node: models.Node, allocation: models.Allocation) -> str | None:
    """Return why a node is not what an allocation asks for, or None."""
    if allocation.resource_class and node.resource_class != allocation.resource_class:
        return (
            f"its resource class is {node.resource_class}, {allocation.resource_class} is asked for"
        )
    missing = sorted(set(allocation.traits or ()) - set(node.traits))
    if missing:
        return f"it does not have the traits {', '.join(missing)}"
    if allocation.candidate_nodes and node.uuid not in allocation.candidate_nodes:
        return "it is not one of the candidate nodes"
    return None
