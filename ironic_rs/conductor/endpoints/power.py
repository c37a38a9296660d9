"""RPC: power, boot mode and secure boot.

Source: specification conductor.md section 1.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.conductor import failures, history
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.flows import boot, power
from ironic_rs.domain import errors, states
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from collections.abc import Callable

    from ironic_rs.conductor.task import Task
    from ironic_rs.rpc.context import RequestContext


def _power_worker(task: Task, new_state: str, timeout: int | None) -> None:
    try:
        power.node_power_action(task, new_state, timeout)
    except errors.LockLost:
        raise
    except Exception:
        # Recorded and logged by the action; there is no caller to tell.
        return


class PowerEndpoint(Endpoint):
    """Power actions and boot modes."""

    @rpc_method("change_node_power_state", since="1.39")
    def change_node_power_state(
        self,
        context: RequestContext,
        node_id: str,
        new_state: str,
        timeout: int | None = None,
    ) -> None:
        """Start a power action.

        :param timeout: seconds; None: the default of the request.
        :raises InvalidParameterValue: unsupported request, bad power credentials.
        """
        with self.acquire(context, node_id, purpose="changing node power state") as task:
            task.driver.power.validate(task)
            supported = task.driver.power.get_supported_power_states(task)
            if new_state not in supported:
                raise errors.InvalidParameterValue(
                    f"Power state '{new_state}' is not supported by the power interface of "
                    f"node {task.node.uuid}; supported: {', '.join(supported)}."
                )
            node = task.node
            target = states.POWER_TARGET[new_state]
            if target == states.POWER_OFF and node.disable_power_off:
                raise errors.PowerStateFailure(
                    f"Node {node.uuid} can not be powered off: disable_power_off is set."
                )
            if timeout is None:
                timeout = power.default_timeout(new_state)
            node.target_power_state = target
            history.forget_error(node)
            task.save()
            task.set_spawn_error_hook(failures.work_refused, task)
            task.spawn_after(_power_worker, task, new_state, timeout)

    @rpc_method("change_node_boot_mode", since="1.55")
    def change_node_boot_mode(self, context: RequestContext, node_id: str, new_state: str) -> None:
        """Start a change of the boot mode (``bios`` or ``uefi``)."""
        self._change(context, node_id, "changing node boot mode", boot.change_boot_mode, new_state)

    @rpc_method("change_node_secure_boot", since="1.55")
    def change_node_secure_boot(
        self, context: RequestContext, node_id: str, new_state: bool
    ) -> None:
        """Start turning secure boot on or off."""
        self._change(context, node_id, "changing node secure", boot.change_secure_boot, new_state)

    def _change(
        self,
        context: RequestContext,
        node_id: str,
        purpose: str,
        worker: Callable[..., None],
        wanted: str | bool,
    ) -> None:
        with self.acquire(context, node_id, purpose=purpose) as task:
            task.driver.management.validate(task)
            history.forget_error(task.node)
            task.save()
            task.set_spawn_error_hook(failures.work_refused, task)
            task.spawn_after(worker, task, wanted)
