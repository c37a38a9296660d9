"""What the API may ask of conductors about records below nodes, and about allocations.

Source: specification conductor.md sections 1.2 and 1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.rpc.calls import Calls, Json, Patch, field
from ironic_rs.rpc.context import RequestContext


class RecordCalls(Calls):
    """Ports, port groups, volumes of nodes; allocations."""

    # Ports and port groups

    def create_port(self, context: RequestContext, node: Any, port: Mapping[str, Any]) -> Json:
        """Insert a port of ``node``.

        :param port: columns; ``node_id`` is set by the conductor.
        :returns: ``{"uuid": ...}``.
        """
        reply: Json = self._node(context, node, "create_port", "1.41", port=dict(port))
        return reply

    def update_port(self, context: RequestContext, node: Any, port_id: str, patch: Patch) -> None:
        """Apply a JSON patch on column names to a port (uuid) of ``node``."""
        self._node(context, node, "update_port", "1.13", port_id=port_id, patch=list(patch))

    def destroy_port(self, context: RequestContext, node: Any, port_id: str) -> None:
        """Delete a port (uuid) of ``node``."""
        self._node(context, node, "destroy_port", "1.25", port_id=port_id)

    def update_portgroup(
        self, context: RequestContext, node: Any, portgroup_id: str, patch: Patch
    ) -> None:
        """Apply a JSON patch on column names to a port group (uuid) of ``node``."""
        self._node(
            context,
            node,
            "update_portgroup",
            "1.33",
            portgroup_id=portgroup_id,
            patch=list(patch),
        )

    def destroy_portgroup(self, context: RequestContext, node: Any, portgroup_id: str) -> None:
        """Delete a port group (uuid) of ``node``."""
        self._node(context, node, "destroy_portgroup", "1.33", portgroup_id=portgroup_id)

    def update_portgroup_physical_network(
        self,
        context: RequestContext,
        node: Any,
        portgroup_id: str,
        new_physical_network: str | None,
    ) -> None:
        """Give a port group (uuid) of ``node`` and all its ports another network."""
        self._node(
            context,
            node,
            "update_portgroup_physical_network",
            "1.62",
            portgroup_id=portgroup_id,
            new_physical_network=new_physical_network,
        )

    # Volume connectors and targets

    def update_volume_connector(
        self, context: RequestContext, node: Any, connector_id: str, patch: Patch
    ) -> None:
        """Apply a JSON patch on column names to a connector (uuid) of ``node``."""
        self._node(
            context,
            node,
            "update_volume_connector",
            "1.35",
            connector_id=connector_id,
            patch=list(patch),
        )

    def destroy_volume_connector(
        self, context: RequestContext, node: Any, connector_id: str
    ) -> None:
        """Delete a connector (uuid) of ``node``."""
        self._node(context, node, "destroy_volume_connector", "1.35", connector_id=connector_id)

    def update_volume_target(
        self, context: RequestContext, node: Any, target_id: str, patch: Patch
    ) -> None:
        """Apply a JSON patch on column names to a target (uuid) of ``node``."""
        self._node(
            context, node, "update_volume_target", "1.37", target_id=target_id, patch=list(patch)
        )

    def destroy_volume_target(self, context: RequestContext, node: Any, target_id: str) -> None:
        """Delete a target (uuid) of ``node``."""
        self._node(context, node, "destroy_volume_target", "1.37", target_id=target_id)

    # Allocations

    def create_allocation(
        self, context: RequestContext, allocation: Mapping[str, Any], backfill: Any = None
    ) -> Json:
        """Store an allocation and start to look for a node, at any conductor.

        :param allocation: columns.
        :param backfill: the node that has been in use already; its conductor is asked.
        :returns: the fields of the new allocation, by column, with ``node_uuid``.
        """
        arguments: Json = {"allocation": dict(allocation)}
        if backfill is None:
            host = self.any_host()
        else:
            host = self.host_for(backfill)
            arguments["node_id"] = field(backfill, "uuid")
        reply: Json = self._transport.call(
            host, "create_allocation", arguments, context, version="1.48"
        )
        return reply

    def destroy_allocation(self, context: RequestContext, allocation_id: str) -> None:
        """Delete an allocation (uuid) and free its node, at any conductor."""
        self._write(
            self.any_host(), "destroy_allocation", {"allocation_id": allocation_id}, context, "1.48"
        )
