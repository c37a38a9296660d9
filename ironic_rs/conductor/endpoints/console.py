"""RPC: consoles.

Source: specification conductor.md section 1.3, defect W41.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ironic_rs.conductor import failures, history
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.flows import console
from ironic_rs.domain import errors
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.rpc.context import RequestContext


class ConsoleEndpoint(Endpoint):
    """Serial and graphical consoles."""

    @rpc_method("get_console_information", since="1.11")
    def get_console_information(self, context: RequestContext, node_id: str) -> dict[str, Any]:
        """Return {type, url}.

        :raises NodeConsoleNotEnabled: it is off.
        """
        with self.acquire(
            context, node_id, shared=True, purpose="getting console information"
        ) as task:
            if not task.node.console_enabled:
                raise errors.NodeConsoleNotEnabled(node=task.node.uuid)
            task.driver.console.validate(task)
            return task.driver.console.get_console(task)

    @rpc_method("set_console_mode", since="1.11")
    def set_console_mode(self, context: RequestContext, node_id: str, enabled: bool) -> None:
        """Start switching the console; nothing happens when it is as asked."""
        with self.acquire(context, node_id, shared=True, purpose="setting console mode") as task:
            task.driver.console.validate(task)
            if bool(task.node.console_enabled) == enabled:
                return
            task.upgrade_lock()
            # A fresh record: somebody may have switched it meanwhile (W41).
            if bool(task.node.console_enabled) == enabled:
                return
            history.forget_error(task.node)
            task.save()
            task.set_spawn_error_hook(failures.work_refused, task)
            task.spawn_after(console.set_console_mode, task, enabled)
