"""RPC: VIFs of a node.

Source: specification conductor.md section 1.3, defect W31.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.domain import errors
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.rpc.context import RequestContext

LOG = log.getLogger(__name__)


def _record(task: Task, what: str, vif: str, exc: Exception) -> None:
    LOG.error("Node %s: could not %s VIF %s: %s", task.node.uuid, what, vif, exc)
    task.history(f"Failed to {what} VIF {vif}: {exc}", str(task.node.provision_state))
    task.save()


class NetworkEndpoint(Endpoint):
    """Attaching and detaching VIFs."""

    @rpc_method("vif_list", since="1.38")
    def vif_list(self, context: RequestContext, node_id: str) -> list[dict[str, Any]]:
        """Return [{id: vif}]."""
        with self.acquire(context, node_id, shared=True, purpose="list vifs") as task:
            task.driver.network.validate(task)
            return list(task.driver.network.vif_list(task))

    @rpc_method("vif_attach", since="1.38")
    def vif_attach(self, context: RequestContext, node_id: str, vif_info: dict[str, Any]) -> None:
        """Attach a VIF; a failure is recorded and saved (W31).

        :raises VifAlreadyAttached, VifInvalidForAttach, NoFreePhysicalPorts,
            NetworkError, PortgroupPhysnetInconsistent: not attached.
        """
        with self.acquire(context, node_id, purpose="attach vif") as task:
            task.driver.network.validate(task)
            try:
                task.driver.network.vif_attach(task, vif_info)
            except errors.LockLost:
                raise
            except Exception as exc:
                _record(task, "attach", str(vif_info.get("id")), exc)
                raise

    @rpc_method("vif_detach", since="1.38")
    def vif_detach(self, context: RequestContext, node_id: str, vif_id: str) -> None:
        """Detach a VIF; a failure is recorded and saved (W31).

        :raises VifNotAttached, NetworkError: not detached.
        """
        with self.acquire(context, node_id, purpose="detach vif") as task:
            task.driver.network.validate(task)
            try:
                task.driver.network.vif_detach(task, vif_id)
            except errors.LockLost:
                raise
            except Exception as exc:
                _record(task, "detach", vif_id, exc)
                raise
