"""The end of a plan that may have used a ramdisk: cleaning and servicing.

Source: specification conductor.md section 9.5, end of list.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ironic_rs.conductor import failures
from ironic_rs.conductor.flows import cache
from ironic_rs.conductor.steps import record
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, steps
from ironic_rs.domain.steps import StepKind

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task


def collect_logs(kind: StepKind, task: Task) -> None:
    """Fetch the logs of the ramdisk after a failed step, if there is one."""
    if not steps.without_ramdisk(task.node, kind):
        failures.collect_logs(task)


def leave_ramdisk(
    task: Task,
    kind: StepKind,
    *,
    wipe: Callable[[], None],
    tear_down: Callable[[Task], object],
    fail: Callable[..., None],
) -> bool:
    """Everything after the last step but the event.

    :param wipe: forgets the plan in driver_internal_info, see the wipe helpers of
        :mod:`ironic_rs.domain.steps`.
    :param tear_down: stops the ramdisk; only called when one was used.
    :param fail: error handler of the kind, called with ``tear_down=False``.
    :returns: False when the tear-down failed: the flow has ended by ``fail``.
    """
    without_ramdisk = steps.without_ramdisk(task.node, kind)
    record.step_flow(task, kind, record.COMPLETED)
    if not without_ramdisk and CONF.agent.deploy_logs_collect == "always":
        failures.collect_logs(task)
    setattr(task.node, kind.field, {})
    wipe()
    if not without_ramdisk:
        try:
            tear_down(task)
        except errors.LockLost:
            raise
        except Exception as exc:
            fail(
                task,
                f"Failed to tear down {kind.label} of node {task.node.uuid}: {errors.reason(exc)}",
                tear_down=False,
            )
            return False
    cache.update(task)
    task.driver.deploy.restore_interface(task)
    return True
