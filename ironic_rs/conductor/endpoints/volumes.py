"""RPC: volume connectors and targets.

Source: specification conductor.md section 1.3, rest-api.md section 11.5.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from oslo_log import log

from ironic_rs.conductor.endpoints.base import Endpoint, patched
from ironic_rs.db import models, volumes
from ironic_rs.domain import errors, fields, states
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)

Patch = Sequence[Mapping[str, Any]]


class _Kind(NamedTuple):
    """What differs between connectors and targets."""

    name: str
    table: fields.Table
    get: Callable[[str], Any]
    update: Callable[..., None]
    destroy: Callable[..., None]
    not_found: Callable[[str], Exception]


_CONNECTOR = _Kind(
    "volume connector",
    fields.VOLUME_CONNECTOR,
    volumes.get_connector,
    volumes.update_connector,
    volumes.destroy_connector,
    lambda ident: errors.VolumeConnectorNotFound(connector=ident),
)
_TARGET = _Kind(
    "volume target",
    fields.VOLUME_TARGET,
    volumes.get_target,
    volumes.update_target,
    volumes.destroy_target,
    lambda ident: errors.VolumeTargetNotFound(target=ident),
)


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
        self._update(context, _CONNECTOR, node_id, connector_id, patch)

    @rpc_method("destroy_volume_connector", since="1.35")
    def destroy_volume_connector(
        self, context: RequestContext, node_id: str, connector_id: str
    ) -> None:
        """Delete a connector.

        :raises InvalidStateRequested: the node may be using it.
        :raises VolumeConnectorNotFound: as named.
        """
        self._destroy(context, _CONNECTOR, node_id, connector_id)

    @rpc_method("update_volume_target", since="1.37")
    def update_volume_target(
        self, context: RequestContext, node_id: str, target_id: str, patch: Patch
    ) -> None:
        """Apply a JSON patch to a target, under the lock of its node.

        :raises InvalidStateRequested: the node is not powered off.
        :raises VolumeTargetNotFound, VolumeTargetBootIndexAlreadyExists,
            InvalidParameterValue: refused, nothing saved.
        """
        self._update(context, _TARGET, node_id, target_id, patch)

    @rpc_method("destroy_volume_target", since="1.37")
    def destroy_volume_target(self, context: RequestContext, node_id: str, target_id: str) -> None:
        """Delete a target.

        :raises InvalidStateRequested: the node may be using it.
        :raises VolumeTargetNotFound: as named.
        """
        self._destroy(context, _TARGET, node_id, target_id)

    def _update(
        self, context: RequestContext, kind: _Kind, node_id: str, ident: str, patch: Patch
    ) -> None:
        action = f"{kind.name} update"
        with self._locked(context, kind, node_id, ident, action) as (task, record):
            _require_off(task.node, action)
            changed = patched(record, patch, kind.table)
            task.check_lock()
            kind.update(record, changed, fence=self.conductor.host)
            LOG.info("Node %s: %s %s was changed", task.node.uuid, kind.name, ident)

    def _destroy(self, context: RequestContext, kind: _Kind, node_id: str, ident: str) -> None:
        action = f"{kind.name} deletion"
        with self._locked(context, kind, node_id, ident, action) as (task, record):
            _require_unused(task.node, action)
            task.check_lock()
            kind.destroy(record, fence=self.conductor.host)
            LOG.info("Node %s: %s %s was deleted", task.node.uuid, kind.name, ident)

    @contextlib.contextmanager
    def _locked(
        self, context: RequestContext, kind: _Kind, node_id: str, ident: str, purpose: str
    ) -> Iterator[tuple[Task, Any]]:
        """Hold the node's lock; give the task and the record, which is of this node."""
        with self.acquire(
            context, node_id, purpose=purpose, load_driver=False, condition_on_node=False
        ) as task:
            record = kind.get(ident)
            if record.node_id != task.node.id:
                raise kind.not_found(ident)
            self.require_match(context, record)
            yield task, record


def _require_off(node: models.Node, action: str) -> None:
    if node.power_state != states.POWER_OFF:
        raise errors.InvalidStateRequested(
            action=action, node=node.uuid, state=str(node.power_state)
        )


def _require_unused(node: models.Node, action: str) -> None:
    if node.provision_state not in states.DELETE_ALLOWED:
        _require_off(node, action)
