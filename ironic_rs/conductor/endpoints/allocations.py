"""RPC: allocations.

Source: specification conductor.md sections 1.3 and 13, defects W30 and W45;
rest-api.md section 15, wart 20.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import uuidutils

from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.flows import allocation as flow
from ironic_rs.db import allocations, models
from ironic_rs.domain import errors, states
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

#: What the answer to a creation consists of, besides ``node_uuid``.
_ANSWERED = (
    "uuid",
    "name",
    "extra",
    "candidate_nodes",
    "resource_class",
    "traits",
    "state",
    "last_error",
    "owner",
)


class AllocationsEndpoint(Endpoint):
    """Creation and deletion of allocations."""

    @rpc_method("create_allocation", since="1.48")
    def create_allocation(
        self,
        context: RequestContext,
        allocation: Mapping[str, Any],
        node_id: str | None = None,
    ) -> dict[str, Any]:
        """Store an allocation; a worker looks for its node.

        :param allocation: columns of the new record.
        :param node_id: the node that it is for and that is in use already: then it is
            active at once.
        :returns: the fields of the record as stored, with ``node_uuid``; times in ISO
            8601.
        :raises AllocationDuplicateName, AllocationAlreadyExists, NodeAssociated,
            InstanceAssociated, InvalidParameterValue, NodeLocked: refused, nothing is
            stored.
        :raises NoFreeConductorWorker: nothing is stored (W45).
        """
        values = {**allocation, "conductor_affinity": self.conductor.conductor_id}
        if node_id is not None:
            return self._backfill(context, values, node_id)
        record = allocations.create(values)
        # The worker goes on with the record from here.
        answer = _answer(record, None)
        try:
            flow.start(self.conductor, context, record)
        except errors.NoFreeConductorWorker:
            with contextlib.suppress(errors.AllocationNotFound):
                allocations.destroy(record.id, bound=False)
            raise
        return answer

    def _backfill(
        self, context: RequestContext, values: dict[str, Any], node_id: str
    ) -> dict[str, Any]:
        with self.acquire(
            context, node_id, purpose="allocation backfilling", load_driver=False
        ) as task:
            node = task.node
            if not values.get("uuid"):
                values["uuid"] = node.instance_uuid or uuidutils.generate_uuid()
            values["resource_class"] = values.get("resource_class") or node.resource_class
            if node.instance_uuid and node.instance_uuid != values["uuid"]:
                raise errors.NodeAssociated(node=node.uuid, instance=node.instance_uuid)
            reason = _not_in_use(node) or flow.mismatch(node, models.Allocation(**values))
            if reason:
                raise errors.InvalidParameterValue(
                    f"Node {node.uuid} can not be the node of the allocation: {reason}."
                )
            task.check_lock()
            record = allocations.create_bound(values, node.id, fence=self.conductor.host)
            LOG.info("Node %s, in use already, got allocation %s", node.uuid, record.uuid)
            return _answer(record, str(node.uuid))

    @rpc_method("destroy_allocation", since="1.48")
    def destroy_allocation(self, context: RequestContext, allocation_id: str) -> None:
        """Delete an allocation and free its node.

        :raises InvalidState: the node is in use or on its way.
        :raises NodeLocked: the node is busy.
        :raises PreconditionFailed: it is not as the caller thinks.
        """
        condition = context.take_condition()
        while True:
            record = allocations.get(allocation_id)
            if record.node_id is None:
                if allocations.destroy(record.id, bound=False, if_match=condition):
                    break
            elif self._destroy_bound(context, record, record.node_id, condition):
                break
        LOG.info("Allocation %s was deleted", record.uuid)

    def _destroy_bound(
        self,
        context: RequestContext,
        record: models.Allocation,
        node_id: int,
        condition: Sequence[str] | None,
    ) -> bool:
        """Delete an allocation under the lock of its node; False when it changed."""
        try:
            task = self.acquire(context, node_id, purpose="allocation deletion", load_driver=False)
        except errors.NodeNotFound:
            # Its node is gone; as a rule it went with it.
            return allocations.destroy(record.id, if_match=condition)
        with task:
            if allocations.get(record.id).node_id != task.node.id:
                return False
            _refuse_release(task.node)
            task.check_lock()
            host = self.conductor.host
            return allocations.destroy(record.id, fence=host, if_match=condition)


def _answer(record: models.Allocation, node_uuid: str | None) -> dict[str, Any]:
    return {
        **{name: getattr(record, name) for name in _ANSWERED},
        "node_uuid": node_uuid,
        "created_at": record.created_at.isoformat() if record.created_at else None,
        "updated_at": None,
    }


def _not_in_use(node: models.Node) -> str | None:
    if node.provision_state != states.ACTIVE:
        return f"it is in provision state '{node.provision_state}', not '{states.ACTIVE}'"
    if node.maintenance:
        return "it is in maintenance"
    return None


def _refuse_release(node: models.Node) -> None:
    if node.maintenance:
        return
    state, target = node.provision_state, node.target_provision_state
    if state == states.ACTIVE or (target and state not in states.UPDATE_ALLOWED):
        raise errors.InvalidState(
            f"Can not delete the allocation of node {node.uuid} while it is in state '{state}'"
            f"{f' on its way to {target!r}' if target else ''}: undeploy it, or put it into "
            "maintenance."
        )
