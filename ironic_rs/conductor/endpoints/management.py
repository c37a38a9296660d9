"""RPC: boot device, indicators, NMI, virtual media.

Read-only calls take the shared lock (W29).

Source: specification conductor.md section 1.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ironic_rs.conductor import failures, history
from ironic_rs.conductor.endpoints.base import Endpoint
from ironic_rs.conductor.flows import virtual_media
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import ManagementInterface
from ironic_rs.rpc.registry import rpc_method

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.rpc.context import RequestContext


class ManagementEndpoint(Endpoint):
    """Calls that go straight to the management interface."""

    @rpc_method("set_boot_device", since="1.17")
    def set_boot_device(
        self, context: RequestContext, node_id: str, device: str, persistent: bool = False
    ) -> None:
        """Set the boot device, once unless ``persistent``."""
        with self.acquire(context, node_id, purpose="setting boot device") as task:
            # As it is asked for: what driver_info forces is for the flows.
            task.driver.management.validate(task)
            task.driver.management.set_boot_device(task, device=device, persistent=persistent)

    @rpc_method("get_boot_device", since="1.17")
    def get_boot_device(self, context: RequestContext, node_id: str) -> dict[str, Any]:
        """Return {boot_device: name or null, persistent: bool or null}."""
        with self.acquire(context, node_id, shared=True, purpose="getting boot device") as task:
            task.driver.management.validate(task)
            return task.driver.management.get_boot_device(task)

    @rpc_method("get_supported_boot_devices", since="1.17")
    def get_supported_boot_devices(self, context: RequestContext, node_id: str) -> list[str]:
        """Return the boot devices that can be set."""
        with self.acquire(
            context, node_id, shared=True, purpose="getting supported boot devices"
        ) as task:
            return list(task.driver.management.get_supported_boot_devices(task))

    @rpc_method("inject_nmi", since="1.40")
    def inject_nmi(self, context: RequestContext, node_id: str) -> None:
        """Send a non-maskable interrupt."""
        with self.acquire(context, node_id, purpose="inject nmi") as task:
            task.driver.management.validate(task)
            task.driver.management.inject_nmi(task)

    @rpc_method("set_indicator_state", since="1.50")
    def set_indicator_state(
        self, context: RequestContext, node_id: str, component: str, indicator: str, state: str
    ) -> None:
        """Set an indicator to on, off, blinking or unknown."""
        with self.acquire(context, node_id, purpose="setting indicator state") as task:
            task.driver.management.validate(task)
            task.driver.management.set_indicator_state(task, component, indicator, state)

    @rpc_method("get_indicator_state", since="1.50")
    def get_indicator_state(
        self, context: RequestContext, node_id: str, component: str, indicator: str
    ) -> str:
        """Return the state of an indicator."""
        with self.acquire(
            context, node_id, shared=True, purpose="getting indicators states"
        ) as task:
            task.driver.management.validate(task)
            return task.driver.management.get_indicator_state(task, component, indicator)

    @rpc_method("get_supported_indicators", since="1.50")
    def get_supported_indicators(
        self, context: RequestContext, node_id: str, component: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return component -> indicator -> {readonly, states}."""
        with self.acquire(
            context, node_id, shared=True, purpose="getting supported indicators"
        ) as task:
            task.driver.management.validate(task)
            return task.driver.management.get_supported_indicators(task, component)

    @rpc_method("get_virtual_media", since="1.61")
    def get_virtual_media(self, context: RequestContext, node_id: str) -> Sequence[dict[str, Any]]:
        """Return the virtual media devices and what is in them."""
        with self.acquire(
            context, node_id, shared=True, purpose="get virtual media devices"
        ) as task:
            task.driver.management.validate(task)
            return task.driver.management.get_virtual_media(task)

    @rpc_method("attach_virtual_media", since="1.59")
    def attach_virtual_media(
        self,
        context: RequestContext,
        node_id: str,
        device_type: str,
        image_url: str,
        image_download_source: str = virtual_media.LOCAL,
    ) -> None:
        """Start to insert an image.

        :param device_type: ``cdrom``, ``disk`` or ``floppy``.
        :param image_download_source: who fetches it: the conductor (``local``) or the
            BMC (``http``).
        :raises InvalidParameterValue, UnsupportedDriverExtension, TemporaryFailure:
            refused.
        """
        with self.acquire(context, node_id, purpose="attaching virtual media") as task:
            _check_media(task, "attach_virtual_media", [device_type])
            virtual_media.check_source(image_url, image_download_source)
            _start(task, virtual_media.attach, device_type, image_url, image_download_source)

    @rpc_method("detach_virtual_media", since="1.59")
    def detach_virtual_media(
        self, context: RequestContext, node_id: str, device_types: Sequence[str] | None = None
    ) -> None:
        """Start to eject what is in devices of these types, of all types when None.

        :raises InvalidParameterValue, UnsupportedDriverExtension, TemporaryFailure:
            refused.
        """
        with self.acquire(context, node_id, purpose="detaching virtual media") as task:
            _check_media(task, "detach_virtual_media", device_types or ())
            _start(task, virtual_media.detach, device_types)


def _start(task: Task, worker: Callable[..., None], *args: Any) -> None:
    history.forget_error(task.node)
    task.save()
    task.set_spawn_error_hook(failures.work_refused, task)
    task.spawn_after(worker, task, *args)


def _check_media(task: Task, method: str, device_types: Sequence[str]) -> None:
    """Refuse what would only fail in the background.

    :raises InvalidParameterValue: unknown device type, bad driver_info.
    :raises UnsupportedDriverExtension: the driver has no virtual media.
    :raises TemporaryFailure: the BMC is known not to answer.
    """
    node, management = task.node, task.driver.management
    unknown = [name for name in device_types if name not in virtual_media.DEVICE_TYPES]
    if unknown:
        raise errors.InvalidParameterValue(
            f"Unknown virtual media device type '{unknown[0]}'; accepted: "
            f"{', '.join(virtual_media.DEVICE_TYPES)}."
        )
    found = getattr(management, method)
    if getattr(found, "__func__", None) is getattr(ManagementInterface, method):
        raise errors.UnsupportedDriverExtension(driver=node.driver, extension=method)
    management.validate(task)
    if node.maintenance and node.fault == states.FAULT_POWER:
        raise errors.TemporaryFailure(
            f"The BMC of node {node.uuid} does not answer (fault {node.fault}). Please retry."
        )
