"""Network interface ``noop``: the network is somebody else's business.

Source: specification drivers.md section 13.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ironic_rs.drivers import base

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class NoopNetwork(base.NetworkInterface):
    """Machines stay connected to whatever they are connected to."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def port_changed(self, task: Task, port: Any) -> None:
        pass

    def portgroup_changed(self, task: Task, portgroup: Any) -> None:
        pass

    def vif_attach(self, task: Task, vif_info: Mapping[str, Any]) -> None:
        pass

    def vif_detach(self, task: Task, vif_id: str) -> None:
        pass

    def vif_list(self, task: Task) -> list[dict[str, Any]]:
        return []

    def get_current_vif(self, task: Task, p_obj: Any) -> str | None:
        return None

    def add_provisioning_network(self, task: Task) -> None:
        pass

    def remove_provisioning_network(self, task: Task) -> None:
        pass

    def add_cleaning_network(self, task: Task) -> dict[str, str]:
        return {}

    def remove_cleaning_network(self, task: Task) -> None:
        pass

    def add_rescuing_network(self, task: Task) -> dict[str, str]:
        return {}

    def remove_rescuing_network(self, task: Task) -> None:
        pass

    def add_inspection_network(self, task: Task) -> dict[str, str]:
        return {}

    def remove_inspection_network(self, task: Task) -> None:
        pass

    def add_servicing_network(self, task: Task) -> dict[str, str]:
        return {}

    def remove_servicing_network(self, task: Task) -> None:
        pass

    def configure_tenant_networks(self, task: Task) -> None:
        pass

    def unconfigure_tenant_networks(self, task: Task) -> None:
        pass

    def validate_inspection(self, task: Task) -> None:
        pass
