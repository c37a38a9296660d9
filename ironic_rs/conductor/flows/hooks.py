"""What drivers may ask of the flows: the Flows protocol on one task."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conductor import failures
from ironic_rs.conductor.flows import boot, clean, deploy, power, rescue, service
from ironic_rs.conductor.steps import events, plan
from ironic_rs.domain import errors, steps

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

_CONTINUE = {
    "clean": clean.continue_node_clean,
    "deploy": deploy.continue_node_deploy,
    "service": service.continue_node_service,
}
_BEGIN = {"clean": clean.begin, "service": service.begin}


class TaskFlows:
    """Implements :class:`ironic_rs.drivers.contract.Flows` for one task."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def power(self, new_state: str, timeout: int | None = None) -> None:
        """Run one power action and record it."""
        power.node_power_action(self._task, new_state, timeout)

    def power_off_and_on(self) -> AbstractContextManager[None]:
        """Power off, run the body, power on again."""
        return power.power_off_and_on(self._task)

    def wait_for_power_state(self, state: str, timeout: int | None = None) -> str:
        """Poll the BMC until it reports ``state``."""
        return power.wait_for_power_state(self._task, state, timeout)

    def set_boot_device(self, device: str, persistent: bool = False) -> None:
        """Set the boot device."""
        boot.set_boot_device(self._task, device, persistent)

    def set_boot_mode(self, mode: str) -> None:
        """Set the boot mode if the driver can."""
        boot.set_boot_mode(self._task, mode)

    def set_steps(self, kind: str, *, reset_current: bool = False) -> None:
        """Compute the plan of a kind again, in-band steps included, and save it."""
        task = self._task
        info = task.node.driver_internal_info
        if kind == steps.CLEAN.name:
            plan.set_cleaning_steps(
                task,
                use_existing_steps=bool(info.get("declarative_cleaning")),
                reset_current=reset_current,
            )
        elif kind == steps.SERVICE.name:
            plan.set_service_steps(task, reset_current=reset_current)
        else:
            plan.set_deployment_steps(task, reset_current=reset_current)
            task.node.driver_internal_info["steps_validated"] = True
        task.save()

    def resume(self, kind: str) -> None:
        """Fire ``resume`` and run on until the flow waits, ends or fails."""
        task = self._task
        if kind == "rescue":
            rescue.continue_node_rescue(task)
            return
        _resume(task, kind)
        _CONTINUE[kind](task)

    def start(self, kind: str) -> None:
        """First heartbeat of a fresh ramdisk: resume, build the plan, run it."""
        task = self._task
        _resume(task, kind)
        try:
            _BEGIN[kind](task)
        except errors.LockLost:
            raise
        except Exception as exc:
            data = steps.KINDS[kind]
            LOG.exception("Node %s: %s could not start", task.node.uuid, data.label)
            failures.step_error_handler(
                task,
                data,
                f"Failed to make the plan for {data.label} of node {task.node.uuid}: "
                f"{errors.reason(exc)}",
            )

    def fail(self, kind: str, message: str, *, collect_logs: bool = False) -> None:
        """Error handler of the kind."""
        task = self._task
        if kind == steps.DEPLOY.name:
            failures.set_failed_state(task, message, logs=collect_logs)
            return
        if collect_logs:
            failures.collect_logs(task)
        if kind == "rescue":
            failures.rescuing_error_handler(task, message)
        else:
            failures.step_error_handler(task, steps.KINDS[kind], message)

    def touch(self) -> None:
        """Move provision_updated_at."""
        self._task.touch()


def _resume(task: Task, kind: str) -> None:
    data = steps.KINDS[kind]
    if task.node.provision_state == data.running:
        LOG.warning("Node %s is %s already", task.node.uuid, data.running)
        return
    events.fire(task, data, "resume")
