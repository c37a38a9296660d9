"""Network interface ``flat``: all machines are in one network for good.

The VIFs of an instance are bound for their addresses; cleaning and inspection have a
network of their own name, which may be the same one.

Source: specification drivers.md section 13.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.drivers.network import service_networks
from ironic_rs.drivers.network.managed import ManagedNetwork

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class FlatNetwork(ManagedNetwork):
    """VIFs are bound while something runs on the machine that uses their addresses."""

    def validate(self, task: Task) -> None:
        """Check that the cleaning network exists.

        :raises MissingParameterValue, InvalidParameterValue: it does not.
        :raises NetworkError: the Networking service does not tell.
        """
        service_networks.resolve(task, "cleaning")

    def add_provisioning_network(self, task: Task) -> None:
        # Without a VIF the deployment would fail at its very end.
        self._require_vif(task)
        self._bind_all(task)

    def remove_provisioning_network(self, task: Task) -> None:
        self._unbind_all(task)

    def add_cleaning_network(self, task: Task) -> dict[str, str]:
        return service_networks.add(task, "cleaning")

    def remove_cleaning_network(self, task: Task) -> None:
        service_networks.remove(task, "cleaning")

    def add_inspection_network(self, task: Task) -> dict[str, str]:
        return service_networks.add(task, "inspection")

    def remove_inspection_network(self, task: Task) -> None:
        service_networks.remove(task, "inspection")

    def add_rescuing_network(self, task: Task) -> dict[str, str]:
        return self._bind_all(task)

    def remove_rescuing_network(self, task: Task) -> None:
        self._unbind_all(task)

    def add_servicing_network(self, task: Task) -> dict[str, str]:
        return self._bind_all(task)

    def remove_servicing_network(self, task: Task) -> None:
        self._unbind_all(task)

    def configure_tenant_networks(self, task: Task) -> None:
        self._require_vif(task)
        self._bind_all(task)

    def unconfigure_tenant_networks(self, task: Task) -> None:
        self._unbind_all(task)
