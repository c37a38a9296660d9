"""RPC: ports and portgroups.

Source: specification conductor.md sections 1.3 and 10.15.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor.endpoints.base import Endpoint, patched
from ironic_rs.db import models, portgroups, ports
from ironic_rs.domain import errors, fields, states
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

_CONNECTIVITY = ("portgroup_id", "pxe_enabled", "local_link_connection", "physical_network")

Record = models.Port | models.Portgroup


def _connectivity_may_change(node: models.Node) -> bool:
    return bool(node.maintenance or node.provision_state in states.UPDATE_PORT_CONNECTIVITY_ALLOWED)


def _allowed_states() -> str:
    return ", ".join(sorted(states.UPDATE_PORT_CONNECTIVITY_ALLOWED))


def _check_physical_network(
    portgroup_id: int, physical_network: str | None, *, without: int | None
) -> tuple[models.Portgroup, bool]:
    """Check the physical network of a portgroup member against the others.

    :param without: id of the port itself.
    :returns: (portgroup, whether it has to adopt the network).
    :raises PortgroupPhysnetInconsistent: the other members disagree already.
    :raises Conflict: the port differs from them.
    """
    group = portgroups.get(portgroup_id)
    others = [port for port in ports.of_portgroup(portgroup_id) if port.id != without]
    networks = {port.physical_network for port in others}
    if len(networks) > 1:
        raise errors.PortgroupPhysnetInconsistent(
            portgroup=group.uuid,
            physical_networks=", ".join(sorted(name or "none" for name in networks)),
        )
    expected = networks.pop() if networks else group.physical_network
    if not others and expected is None and physical_network is not None:
        return group, True
    if expected != physical_network:
        raise errors.Conflict(
            f"A port with physical network {physical_network} can not be a member of portgroup "
            f"{group.uuid}, whose physical network is {expected}."
        )
    return group, False


class PortsEndpoint(Endpoint):
    """Ports and portgroups of a node."""

    @rpc_method("create_port", since="1.41")
    def create_port(
        self, context: RequestContext, node_id: str, port: Mapping[str, Any]
    ) -> dict[str, str]:
        """Insert a port of the node.

        :param port: columns of the new record.
        :returns: {"uuid": ...}
        :raises MACAlreadyExists, Conflict, PortgroupPhysnetInconsistent: refused.
        """
        with self.acquire(
            context, node_id, shared=True, purpose="port create", load_driver=False
        ) as task:
            values = {**port, "node_id": task.node.id}
            group, adopts = None, False
            if values.get("portgroup_id") is not None:
                group, adopts = _check_physical_network(
                    values["portgroup_id"], values.get("physical_network"), without=None
                )
            created = ports.create(values)
            if group is not None and adopts:
                portgroups.update(group, {"physical_network": values["physical_network"]})
            LOG.info("Node %s: port %s was created", task.node.uuid, created.uuid)
            return {"uuid": str(created.uuid)}

    @rpc_method("update_port", since="1.13")
    def update_port(
        self,
        context: RequestContext,
        node_id: str,
        port_id: str,
        patch: Sequence[Mapping[str, Any]],
    ) -> None:
        """Apply a JSON patch to a port, under the lock of its node.

        :raises InvalidState, Conflict, MACAlreadyExists, NetworkError,
            PortgroupPhysnetInconsistent, InvalidParameterValue: refused, nothing saved.
        """
        with self.acquire(context, node_id, purpose="port update", condition_on_node=False) as task:
            node = task.node
            port = ports.get(port_id)
            _require_owner(port, node)
            self.require_match(context, port)
            changed = set(patched(port, patch, fields.PORT))
            if not changed:
                return
            in_use = node.instance_uuid is not None or node.provision_state == states.ACTIVE
            if "address" in changed and in_use and not node.maintenance:
                raise errors.InvalidState(
                    f"Can not change the address of port {port.uuid}: node {node.uuid} is in "
                    f"state '{node.provision_state}' with instance {node.instance_uuid}; put "
                    "it into maintenance first."
                )
            connectivity = sorted(changed.intersection(_CONNECTIVITY))
            if connectivity and not _connectivity_may_change(node):
                raise errors.InvalidState(
                    f"Port {port.uuid} can change {', '.join(connectivity)} while node "
                    f"{node.uuid} is in states {_allowed_states()} or in maintenance, not in "
                    f"'{node.provision_state}'."
                )
            group, adopts = None, False
            if port.portgroup_id is not None and changed & {"portgroup_id", "physical_network"}:
                group, adopts = _check_physical_network(
                    port.portgroup_id, port.physical_network, without=port.id
                )
            task.driver.network.validate(task)
            task.driver.network.port_changed(task, port)
            task.check_lock()
            ports.save(port, fence=self.conductor.host)
            if group is not None and adopts:
                portgroups.update(
                    group,
                    {"physical_network": port.physical_network},
                    fence=self.conductor.host,
                )
            LOG.info("Node %s: port %s was changed", node.uuid, port.uuid)

    @rpc_method("destroy_port", since="1.25")
    def destroy_port(self, context: RequestContext, node_id: str, port_id: str) -> None:
        """Delete a port.

        :raises InvalidState: a VIF is bound to it and the node is not in maintenance.
        """
        with self.acquire(
            context, node_id, purpose="port deletion", condition_on_node=False
        ) as task:
            node = task.node
            port = ports.get(port_id)
            _require_owner(port, node)
            self.require_match(context, port)
            vif = task.driver.network.get_current_vif(task, port)
            if vif and not node.maintenance:
                raise errors.InvalidState(
                    f"Can not delete port {port.uuid} of node {node.uuid}: VIF {vif} is bound to "
                    "it. Detach it, or put the node into maintenance first."
                )
            task.check_lock()
            ports.destroy(port, fence=self.conductor.host)
            LOG.info("Node %s: port %s was deleted", node.uuid, port.uuid)

    @rpc_method("update_portgroup", since="1.33")
    def update_portgroup(
        self,
        context: RequestContext,
        node_id: str,
        portgroup_id: str,
        patch: Sequence[Mapping[str, Any]],
    ) -> None:
        """Apply a JSON patch to a portgroup, under the lock of its node.

        :raises InvalidState, PortgroupNotEmpty, PortgroupDuplicateName,
            PortgroupMACAlreadyExists, NetworkError: refused, nothing saved.
        """
        with self.acquire(
            context, node_id, purpose="portgroup update", condition_on_node=False
        ) as task:
            node = task.node
            group = portgroups.get(portgroup_id)
            _require_owner(group, node)
            self.require_match(context, group)
            changed = patched(group, patch, fields.PORTGROUP)
            if not changed:
                return
            if "node_id" in changed:
                if not _connectivity_may_change(node):
                    raise errors.InvalidState(
                        f"Portgroup {group.uuid} can move to another node in states "
                        f"{_allowed_states()} or in maintenance, not in "
                        f"'{node.provision_state}'."
                    )
                if ports.of_portgroup(group.id):
                    raise errors.PortgroupNotEmpty(portgroup=group.uuid)
            task.driver.network.validate(task)
            task.driver.network.portgroup_changed(task, group)
            task.check_lock()
            save = portgroups.save_with_ports if "physical_network" in changed else portgroups.save
            save(group, fence=self.conductor.host)
            LOG.info("Node %s: portgroup %s was changed", node.uuid, group.uuid)

    @rpc_method("update_portgroup_physical_network", since="1.62")
    def update_portgroup_physical_network(
        self,
        context: RequestContext,
        node_id: str,
        portgroup_id: str,
        new_physical_network: str | None,
    ) -> None:
        """Give a portgroup and all its ports another physical network."""
        with self.acquire(
            context,
            node_id,
            purpose="portgroup physical_network update",
            load_driver=False,
            condition_on_node=False,
        ) as task:
            group = portgroups.get(portgroup_id)
            _require_owner(group, task.node)
            self.require_match(context, group)
            group.physical_network = new_physical_network
            task.check_lock()
            portgroups.save_with_ports(group, fence=self.conductor.host)

    @rpc_method("destroy_portgroup", since="1.33")
    def destroy_portgroup(self, context: RequestContext, node_id: str, portgroup_id: str) -> None:
        """Delete a portgroup.

        :raises PortgroupNotEmpty: ports are members of it.
        """
        with self.acquire(
            context,
            node_id,
            purpose="portgroup deletion",
            load_driver=False,
            condition_on_node=False,
        ) as task:
            group = portgroups.get(portgroup_id)
            _require_owner(group, task.node)
            self.require_match(context, group)
            task.check_lock()
            portgroups.destroy(group, fence=self.conductor.host)
            LOG.info("Node %s: portgroup %s was deleted", task.node.uuid, group.uuid)


def _require_owner(record: Record, node: models.Node) -> None:
    """Make sure that the lock that is held is the one of the record's node.

    :raises PortNotFound, PortgroupNotFound: it moved to another node meanwhile.
    """
    if record.node_id == node.id:
        return
    if isinstance(record, models.Port):
        raise errors.PortNotFound(port=record.uuid)
    raise errors.PortgroupNotFound(portgroup=record.uuid)
