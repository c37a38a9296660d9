"""Network interface ``neutron``: machines move between networks.

The Networking service configures the switch ports; the instance of one tenant never
sees the network of another, nor those of the service.

Source: specification drivers.md section 13.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.decorators import service_step
from ironic_rs.drivers.network import binding, service_networks, smart_nic, vifs
from ironic_rs.drivers.network.managed import ManagedNetwork

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class NeutronNetwork(ManagedNetwork):
    """Networks of the service while it works on a machine, else those of the instance."""

    configures_switches: ClassVar[bool] = True

    def validate(self, task: Task) -> None:
        """Check that the cleaning and the provisioning network exist.

        :raises MissingParameterValue, InvalidParameterValue: one does not, or the
            machine may not be switched off between two networks.
        :raises NetworkError: the Networking service does not tell.
        """
        node = task.node
        if node.disable_power_off and not CONF.neutron.allow_disabling_power_off:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid} has disable_power_off, but network interface neutron moves a "
                "machine between networks while it is off. [neutron]allow_disabling_power_off "
                "accepts that its old system sees the next network."
            )
        service_networks.resolve(task, "cleaning")
        service_networks.resolve(task, "provisioning")

    def validate_rescue(self, task: Task) -> None:
        """Check that the rescuing network exists.

        :raises MissingParameterValue, InvalidParameterValue, NetworkError: see
            :meth:`validate`.
        """
        service_networks.resolve(task, "rescuing")

    def need_power_on(self, task: Task) -> bool:
        return any(port.is_smartnic for port in task.ports)

    def add_provisioning_network(self, task: Task) -> None:
        self._add(task, "provisioning")

    def remove_provisioning_network(self, task: Task) -> None:
        self._remove(task, "provisioning")

    def add_cleaning_network(self, task: Task) -> dict[str, str]:
        return self._add(task, "cleaning")

    def remove_cleaning_network(self, task: Task) -> None:
        self._remove(task, "cleaning")

    def add_inspection_network(self, task: Task) -> dict[str, str]:
        return self._add(task, "inspection")

    def remove_inspection_network(self, task: Task) -> None:
        self._remove(task, "inspection")

    def add_rescuing_network(self, task: Task) -> dict[str, str]:
        return self._add(task, "rescuing")

    def remove_rescuing_network(self, task: Task) -> None:
        self._remove(task, "rescuing")

    def add_servicing_network(self, task: Task) -> dict[str, str]:
        return self._add(task, "servicing")

    def remove_servicing_network(self, task: Task) -> None:
        self._remove(task, "servicing")

    @staticmethod
    def _add(task: Task, kind: str) -> dict[str, str]:
        with smart_nic.powered(task):
            return service_networks.add(task, kind, service_networks.security_groups(kind))

    @staticmethod
    def _remove(task: Task, kind: str) -> None:
        with smart_nic.powered(task):
            service_networks.remove(task, kind)

    def configure_tenant_networks(self, task: Task) -> None:
        """Plug in every VIF of the instance.

        :raises NetworkError: one could not be plugged in, or there is none.
        """
        self._require_vif(task)
        with smart_nic.powered(task):
            for thing, vif in vifs.attached(task):
                binding.plug(task, thing, vif)

    def unconfigure_tenant_networks(self, task: Task) -> None:
        """Unplug every VIF of the instance; they stay attached.

        :raises NetworkError: one could not be unplugged.
        """
        with smart_nic.powered(task):
            for port in task.ports:
                if port.is_smartnic and vifs.tenant(port):
                    binding.wait_for_agent(binding.host_of(task, port))
            self._unbind_all(task)

    @service_step(priority=0, requires_ramdisk=False)
    def reattach_networking(self, task: Task) -> None:
        """Unplug the VIFs of the instance and plug them in again."""
        self.unconfigure_tenant_networks(task)
        self.configure_tenant_networks(task)
