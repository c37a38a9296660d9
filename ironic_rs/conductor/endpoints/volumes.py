"""RPC: volume connectors and targets.

Source: specification conductor.md section 1.3, rest-api.md section 11.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor.endpoints.base import Endpoint, patched
from ironic_rs.db import models, volumes
from ironic_rs.domain import errors, fields, states
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

Patch = Sequence[Mapping[str, Any]]


class VolumesEndpoint(Endpoint):
    """Volume connectors and targets of a node."""

    @rpc_method("update_volume_connector", since="1.35")
    def update_volume_connector(
        self, context: RequestContext, node_id: str, connector_id: str, patch: Patch
    ) -> None:
        """Apply a JSON patch to a connector, under the lock of its node.

        :raises InvalidStateRequested: the node is not powered off.
        :raises VolumeConnectorNotFound, VolumeConnectorTypeAndIdAlreadyExists,
            InvalidParameterValue: refused, nothing saved.
        """
        with self.acquire(
            context,
            node_id,
            purpose="volume connector update",
            load_driver=False,
            condition_on_node=False,
        ) as task:
            record = volumes.get_connector(connector_id)
            if record.node_id != task.node.id:
                raise errors.VolumeConnectorNotFound(connector=connector_id)
            self.require_match(context, record)
            _require_off(task.node, "volume connector update")
            changed = patched(record, patch, fields.VOLUME_CONNECTOR)
            task.check_lock()
            volumes.update_connector(record, changed, fence=self.conductor.host)
            LOG.info("Node %s: volume connector %s was changed", task.node.uuid, connector_id)

    @rpc_method("destroy_volume_connector", since="1.35")
    def destroy_volume_connector(
        self, context: RequestContext, node_id: str, connector_id: str
    ) -> None:
        """Delete a connector.

        :raises InvalidStateRequested: the node may be using it.
        :raises VolumeConnectorNotFound: as named.
        """
        with self.acquire(
            context,
            node_id,
            purpose="volume connector deletion",
            load_driver=False,
            condition_on_node=False,
        ) as task:
            record = volumes.get_connector(connector_id)
            if record.node_id != task.node.id:
                raise errors.VolumeConnectorNotFound(connector=connector_id)
            self.require_match(context, record)
            _require_unused(task.node, "volume connector deletion")
            task.check_lock()
            volumes.destroy_connector(record, fence=self.conductor.host)
            LOG.info("Node %s: volume connector %s was deleted", task.node.uuid, connector_id)

    @rpc_method("update_volume_target", since="1.37")
    def update_volume_target(
        self, context: RequestContext, node_id: str, target_id: str, patch: Patch
    ) -> None:
        """Apply a JSON patch to a target, under the lock of its node.

        :raises InvalidStateRequested: the node is not powered off.
        :raises VolumeTargetNotFound, VolumeTargetBootIndexAlreadyExists,
            InvalidParameterValue: refused, nothing saved.
        """
        with self.acquire(
            context,
            node_id,
            purpose="volume target update",
            load_driver=False,
            condition_on_node=False,
        ) as task:
            record = volumes.get_target(target_id)
            if record.node_id != task.node.id:
                raise errors.VolumeTargetNotFound(target=target_id)
            self.require_match(context, record)
            _require_off(task.node, "volume target update")
            changed = patched(record, patch, fields.VOLUME_TARGET)
            task.check_lock()
            volumes.update_target(record, changed, fence=self.conductor.host)
            LOG.info("Node %s: volume target %s was changed", task.node.uuid, target_id)

    @rpc_method("destroy_volume_target", since="1.37")
    def destroy_volume_target(self, context: RequestContext, node_id: str, target_id: str) -> None:
        """Delete a target.

        :raises InvalidStateRequested: the node may be using it.
        :raises VolumeTargetNotFound: as named.
        """
        with self.acquire(
            context,
            node_id,
            purpose="volume target deletion",
            load_driver=False,
            condition_on_node=False,
        ) as task:
            record = volumes.get_target(target_id)
            if record.node_id != task.node.id:
                raise errors.VolumeTargetNotFound(target=target_id)
            self.require_match(context, record)
            _require_unused(task.node, "volume target deletion")
            task.check_lock()
            volumes.destroy_target(record, fence=self.conductor.host)
            LOG.info("Node %s: volume target %s was deleted", task.node.uuid, target_id)


def _require_off(node: models.Node, action: str) -> None:
    if node.power_state != states.POWER_OFF:
        raise errors.InvalidStateRequested(
            action=action, node=node.uuid, state=str(node.power_state)
        )


def _require_unused(node: models.Node, action: str) -> None:
    if node.provision_state not in states.DELETE_ALLOWED:
        _require_off(node, action)
