"""What the network interfaces that use the Networking service have in common.

Source: specification drivers.md sections 13.2 and 13.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from oslo_log import log

from ironic_rs.db import models, records
from ironic_rs.db import portgroups as db_portgroups
from ironic_rs.db import ports as db_ports
from ironic_rs.domain import errors, states
from ironic_rs.drivers import base
from ironic_rs.drivers.network import binding, network_data, physical, service_networks, vifs
from ironic_rs.integrations import neutron

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task
    from ironic_rs.drivers.network.vifs import Attachable

LOG = log.getLogger(__name__)

#: States in which a detached VIF may be bound to the machine.
_BOUND_STATES = frozenset({states.ACTIVE, states.DELETING, states.AVAILABLE})


class ManagedNetwork(base.NetworkInterface):
    """VIFs on ports and port groups, and the networks of the service."""

    capabilities: ClassVar[Sequence[str]] = ("metadata",)

    def get_properties(self) -> base.Properties:
        return {
            f"{kind}_network": (
                f"Name or UUID of the network in which the machine is for {kind}. Optional, "
                f"default [neutron]{kind}_network."
            )
            for kind in vifs.KINDS
        }

    def validate_inspection(self, task: Task) -> None:
        """Check that the inspection network exists.

        :raises UnsupportedDriverExtension: none is configured.
        :raises InvalidParameterValue, NetworkError: it can not be used.
        """
        try:
            service_networks.resolve(task, "inspection")
        except errors.MissingParameterValue as exc:
            raise self._unsupported(task, "validate_inspection") from exc

    def get_node_network_data(self, task: Task) -> dict[str, Any]:
        return task.node.network_data or network_data.build(task)

    # VIFs of the instance

    def vif_list(self, task: Task) -> list[dict[str, Any]]:
        return [{"id": vif} for _, vif in vifs.attached(task)]

    def get_current_vif(self, task: Task, p_obj: Attachable) -> str | None:
        return vifs.current(p_obj)

    def vif_attach(self, task: Task, vif_info: Mapping[str, Any]) -> None:
        """Attach a VIF to the free port or port group that fits best, and bind it.

        Nothing is attached after an error.

        :raises VifAlreadyAttached, VifInvalidForAttach, NoFreePhysicalPorts,
            InvalidParameterValue, PortgroupPhysnetInconsistent, NetworkError: as named.
        """
        vif = vif_info["id"]
        found = binding.claim(task, vif)
        networks: frozenset[str] = frozenset()
        if any(port.physical_network for port in task.ports):
            networks = physical.networks_of(task, found)
        thing = vifs.choose(task, vif_info, networks)
        if found.get("binding:host_id"):
            # A bound port does not change its address.
            binding.unbind(vif, reset_address=False)
        try:
            if task.node.provision_state == states.ACTIVE:
                binding.plug(task, thing, vif)
            else:
                binding.bind(task, thing, vif)
            vifs.attach(task, thing, vif)
        except Exception:
            _give_back(vif)
            raise
        LOG.info("Node %s: VIF %s attached to %s", task.node.uuid, vif, thing.uuid)

    def vif_detach(self, task: Task, vif_id: str) -> None:
        """Unbind a VIF and detach it.

        :raises VifNotAttached: it is not attached to this node.
        :raises NetworkError: it is still attached.
        """
        thing = vifs.find(task, vif_id)
        if task.node.provision_state in _BOUND_STATES:
            binding.unbind(vif_id, reset_address=thing.address is not None)
        vifs.detach(task, thing)
        LOG.info("Node %s: VIF %s detached from %s", task.node.uuid, vif_id, thing.uuid)

    # Changes of ports and port groups

    def port_changed(self, task: Task, port: models.Port) -> None:
        """Take a change of a port over to its VIF.

        :raises Conflict: its port group allows no standalone ports.
        :raises NetworkError: the VIF was not changed.
        """
        changed = records.changes(port)
        vif = vifs.current(port)
        if changed.keys() & {"pxe_enabled", "portgroup_id"}:
            _check_standalone(port, vif)
        if vif is None:
            return
        if "address" in changed:
            binding.change_address(vif, str(port.address))
        if "extra" in changed:
            client_id = port.extra.get("client-id")
            if client_id != db_ports.get(str(port.uuid)).extra.get("client-id"):
                neutron.update_port(vif, {"extra_dhcp_opts": binding.dhcp_options(port.extra)})

    def portgroup_changed(self, task: Task, portgroup: models.Portgroup) -> None:
        """Take a change of a port group over to its VIF.

        :raises Conflict: a member does not allow it.
        :raises NetworkError: the VIF was not changed.
        """
        changed = records.changes(portgroup)
        if "standalone_ports_supported" in changed and not portgroup.standalone_ports_supported:
            alone = [
                str(port.uuid)
                for port in vifs.members(task, portgroup)
                if port.pxe_enabled or vifs.tenant(port)
            ]
            if alone:
                raise errors.Conflict(
                    f"Port group {portgroup.uuid} can not stop to support standalone ports while "
                    f"members have pxe_enabled or a VIF: {', '.join(alone)}."
                )
        vif = vifs.current(portgroup)
        if vif is not None and changed.get("address"):
            binding.change_address(vif, str(portgroup.address))

    # Networks of the instance

    @staticmethod
    def _require_vif(task: Task) -> None:
        """Make sure that the instance has a VIF.

        :raises NetworkError: it has none.
        """
        if next(vifs.attached(task), None) is None:
            raise errors.NetworkError(
                f"Node {task.node.uuid} has no VIF on any of its {len(task.ports)} ports and "
                f"{len(task.portgroups)} port groups: attach one, or use network interface noop "
                "for a machine that always stays in one network."
            )

    def _bind_all(self, task: Task) -> dict[str, str]:
        """Bind every VIF of the instance.

        :returns: uuid of a port or port group -> VIF.
        :raises NetworkError: one could not be bound.
        """
        bound = {}
        for thing, vif in vifs.attached(task):
            binding.bind(task, thing, vif)
            bound[str(thing.uuid)] = vif
        return bound

    def _unbind_all(self, task: Task) -> None:
        """Unbind every VIF of the instance; they stay attached.

        :raises NetworkError: one could not be unbound.
        """
        for thing, vif in vifs.attached(task):
            binding.unbind(vif, reset_address=thing.address is not None)


def _check_standalone(port: models.Port, vif: str | None) -> None:
    if port.portgroup_id is None or not (port.pxe_enabled or vif):
        return
    group = db_portgroups.get(port.portgroup_id)
    if not group.standalone_ports_supported:
        raise errors.Conflict(
            f"Port group {group.uuid} does not support standalone ports: port {port.uuid} can not "
            "be a member with pxe_enabled or with a VIF of its own."
        )


def _give_back(vif: str) -> None:
    """Undo the binding of a VIF that was not attached in the end."""
    try:
        binding.unbind(vif, reset_address=False)
    except errors.NetworkError as exc:
        LOG.error("VIF %s may still be bound: %s", vif, exc)
