"""RPC: creation, change, validation and deletion of nodes, and their traits.

Source: specification conductor.md sections 1.3, 10.13 and 10.14.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import uuidutils

from ironic_rs.conductor.endpoints import node_rules
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.endpoints.deployment import check_instance_traits
from ironic_rs.conductor.flows import image_type
from ironic_rs.conductor.steps import plan
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.db import traits as _traits
from ironic_rs.domain import errors, states
from ironic_rs.drivers import leftovers
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

#: Interfaces that ``validate`` reports on.
_VALIDATED = tuple(kind for kind in INTERFACE_TYPES if kind != "vendor")


class NodesEndpoint(Endpoint):
    """Nodes as records."""

    @rpc_method("create_node", since="1.36")
    def create_node(self, context: RequestContext, node: Mapping[str, Any]) -> dict[str, str]:
        """Insert a node; interfaces not given get their defaults.

        :param node: columns of the new record.
        :returns: {"uuid": ...}
        :raises DriverNotFound, InvalidParameterValue, NodeAlreadyExists, DuplicateName,
            InstanceAssociated: refused.
        """
        values = {"uuid": uuidutils.generate_uuid(), **node}
        if values.get("parent_node"):
            node_rules.check_parent(values["uuid"], values["parent_node"])
        record = models.Node(**{"instance_info": {}, **values})
        self.conductor.drivers.check_and_update_node_interfaces(record)
        for kind in INTERFACE_TYPES:
            field = f"{kind}_interface"
            values[field] = getattr(record, field)
        created = nodes.create(values)
        LOG.info("Node %s was created with driver %s", created.uuid, created.driver)
        return {"uuid": str(created.uuid)}

    @rpc_method("update_node", since="1.1")
    def update_node(
        self,
        context: RequestContext,
        node_id: str,
        patch: Sequence[Mapping[str, Any]],
        reset_interfaces: bool = False,
    ) -> None:
        """Apply a JSON patch to the record as it is under the lock (W11).

        :param patch: operations on column names.
        :param reset_interfaces: with a new driver: interfaces that the patch does not
            name return to their defaults.
        :raises PatchError, InvalidParameterValue, InvalidState, NodeAssociated,
            DriverNotFound, DuplicateName, InstanceAssociated: refused, nothing saved.
        """
        with self.acquire(context, node_id, purpose="node update", load_driver=False) as task:
            node = task.node
            parent = node.parent_node
            node_rules.apply(node, patch, self.conductor.drivers, reset_interfaces=reset_interfaces)
            if node.parent_node not in (None, parent):
                self._claim_parent(task, parent)
            task.save()

    def _claim_parent(self, task: Task, previous: str | None) -> None:
        """Store a new parent ahead of the other changes, and look once more.

        Of two changes at the same time, each under the lock of its own node, neither
        sees the other one before it is stored.

        :raises InvalidParameterValue: together they are a loop; nothing is changed.
        """
        node, host = task.node, self.conductor.host
        wanted = str(node.parent_node)
        nodes.update(node, {"parent_node": wanted}, fence=host)
        try:
            node_rules.check_parent(str(node.uuid), wanted)
        except errors.InvalidParameterValue:
            nodes.update(node, {"parent_node": previous}, fence=host)
            raise

    @rpc_method("destroy_node", since="1.9")
    def destroy_node(self, context: RequestContext, node_id: str) -> None:
        """Delete a node and all that hangs on it.

        :raises NodeAssociated, NodeProtected, InvalidState: refused.
        """
        with self.acquire(context, node_id, purpose="node deletion", load_driver=False) as task:
            node = task.node
            _refuse_deletion(node)
            if node.console_enabled:
                task.load_driver()
                try:
                    with self.conductor.news.console(task, "console_set"):
                        task.driver.console.stop_console(task)
                except errors.LockLost:
                    raise
                except Exception as exc:
                    LOG.error("Node %s: its console was not stopped: %s", node.uuid, exc)
            ports = task.ports
            task.check_lock()
            nodes.destroy(node.id, fence=self.conductor.host)
            task.ports = ports
            leftovers.remove(task)
            task.forget()
            LOG.info("Node %s was deleted", node.uuid)

    @rpc_method("validate_driver_interfaces", since="1.5")
    def validate_driver_interfaces(
        self, context: RequestContext, node_id: str
    ) -> dict[str, dict[str, Any]]:
        """Return interface type -> {result: bool, reason?: text}."""
        with self.acquire(
            context, node_id, shared=True, purpose="driver interface validation"
        ) as task:
            # Only in memory: the task is shared.
            image_type.infer(task.node)
            return {kind: _validated(task, kind) for kind in _VALIDATED}

    @rpc_method("add_node_traits", since="1.44")
    def add_node_traits(
        self,
        context: RequestContext,
        node_id: str,
        traits: Sequence[str],
        replace: bool = False,
    ) -> None:
        """Add traits, or replace all of them.

        :raises InvalidParameterValue: more than 50.
        """
        with self.acquire(context, node_id, purpose="add node traits", load_driver=False) as task:
            change = _traits.set_traits if replace else _traits.add_traits
            task.check_lock()
            change(task.node.id, traits, fence=self.conductor.host)

    @rpc_method("remove_node_traits", since="1.44")
    def remove_node_traits(
        self, context: RequestContext, node_id: str, traits: Sequence[str] | None
    ) -> None:
        """Remove the named traits, or all.

        :raises NodeTraitNotFound: one is not there.
        """
        with self.acquire(
            context, node_id, purpose="remove node traits", load_driver=False
        ) as task:
            task.check_lock()
            host = self.conductor.host
            if traits is None:
                _traits.set_traits(task.node.id, [], fence=host)
                return
            for trait in traits:
                _traits.remove_traits(task.node.id, trait, fence=host)


def _refuse_deletion(node: models.Node) -> None:
    maintenance = node.maintenance
    if node.instance_uuid is not None and not maintenance:
        raise errors.NodeAssociated(node=node.uuid, instance=node.instance_uuid)
    if node.protected:
        raise errors.NodeProtected(node=node.uuid)
    allowed = set(states.DELETE_ALLOWED)
    if CONF.conductor.allow_deleting_available_nodes:
        allowed.add(states.AVAILABLE)
    if node.provision_state not in allowed and not maintenance:
        raise errors.InvalidState(
            f"Can not delete node {node.uuid} while it is in state '{node.provision_state}'; "
            f"possible in: {', '.join(sorted(allowed))}, or in maintenance."
        )
    children = nodes.child_uuids(str(node.uuid))
    if children:
        raise errors.InvalidState(
            f"Can not delete node {node.uuid}: it is the parent of {', '.join(children)}; "
            "delete these or clear their parent_node first."
        )


def _validated(task: Task, kind: str) -> dict[str, Any]:
    try:
        getattr(task.driver, kind).validate(task)
        if kind == "deploy":
            check_instance_traits(task.node)
            plan.check_deploy_steps(
                task,
                task.node.driver_internal_info.get("user_deploy_steps"),
                skip_missing=True,
            )
    except errors.Invalid as exc:
        return {"result": False, "reason": str(exc)}
    except Exception as exc:
        LOG.exception("Node %s: unexpected error in validation of %s", task.node.uuid, kind)
        return {"result": False, "reason": f"Unexpected error, {type(exc).__name__}: {exc}"}
    return {"result": True}
