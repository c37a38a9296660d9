"""Nodes that waited too long for a call-back.

The whole backlog is worked off in one run, with a bounded number of nodes at a
time (W39): the handlers run in the workers of the scan itself, so timed-out nodes
can never fill the pool.

Source: specification conductor.md sections 7, 11.1 and 16 (guarantees 8, 10).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ironic_rs.conductor import failures, recovery
from ironic_rs.conductor.periodics.framework import Every, Periodic, for_each, my_rows
from ironic_rs.conf import CONF
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class CallbackTimeout:
    """One wait state and what happens when the wait is over.

    :param name: name of the periodic task.
    :param state: wait state.
    :param option: option of [conductor] with the time-out in seconds, 0 = no limit.
    :param since: column that says when the wait began.
    :param waited_for: shown in last_error.
    :param interval: option of [conductor] with the interval of the task.
    :param handle: error handler ``(task, message)``; the node is in the failed state.
    """

    name: str
    state: str
    option: str
    since: str
    waited_for: str
    handle: Callable[[Task, str], None]
    interval: str = "check_provision_state_interval"


def _clean_up_deployment(task: Task, message: str) -> None:
    failures.deploying_error_handler(task, message)


def _clean_up_cleaning(task: Task, message: str) -> None:
    failures.cleaning_error_handler(task, message, set_fail_state=False)


def _clean_up_servicing(task: Task, message: str) -> None:
    failures.servicing_error_handler(task, message, set_fail_state=False)


def _clean_up_rescue(task: Task, message: str) -> None:
    failures.rescuing_error_handler(task, message, set_fail_state=False)


def _clean_up_inspection(task: Task, message: str) -> None:
    failures.inspecting_error_handler(task, message)


DEPLOY = CallbackTimeout(
    name="_check_deploy_timeouts",
    state=states.DEPLOYWAIT,
    option="deploy_callback_timeout",
    since="provision_updated_at",
    waited_for="the deploy ramdisk",
    handle=_clean_up_deployment,
)
CLEAN = CallbackTimeout(
    name="_check_cleanwait_timeouts",
    state=states.CLEANWAIT,
    option="clean_callback_timeout",
    since="provision_updated_at",
    waited_for="the cleaning ramdisk",
    handle=_clean_up_cleaning,
)
RESCUE = CallbackTimeout(
    name="_check_rescuewait_timeouts",
    state=states.RESCUEWAIT,
    option="rescue_callback_timeout",
    since="provision_updated_at",
    waited_for="the rescue ramdisk",
    handle=_clean_up_rescue,
    interval="check_rescue_state_interval",
)
SERVICE = CallbackTimeout(
    name="_check_servicewait_timeouts",
    state=states.SERVICEWAIT,
    option="service_callback_timeout",
    since="provision_updated_at",
    waited_for="the servicing ramdisk",
    handle=_clean_up_servicing,
)
INSPECT = CallbackTimeout(
    name="_check_inspect_wait_timeouts",
    state=states.INSPECTWAIT,
    option="inspect_wait_timeout",
    since="inspection_started_at",
    waited_for="the inspection ramdisk",
    handle=_clean_up_inspection,
)
TIMEOUTS = (DEPLOY, CLEAN, RESCUE, SERVICE, INSPECT)

_BEFORE = {
    "provision_updated_at": "provisioned_before",
    "inspection_started_at": "inspection_started_before",
}


def periodics() -> list[Periodic]:
    """Return the periodic tasks of all call-back time-outs."""
    return [_periodic(timeout) for timeout in TIMEOUTS]


def _periodic(timeout: CallbackTimeout) -> Periodic:
    return Periodic(
        timeout.name,
        Every(
            "conductor",
            timeout.interval,
            when=lambda conf: getattr(conf.conductor, timeout.option) > 0,
        ),
        lambda conductor: check(conductor, timeout),
    )


def check(conductor: Conductor, timeout: CallbackTimeout) -> None:
    """Fail the nodes of this conductor whose wait is over."""
    seconds = getattr(CONF.conductor, timeout.option)
    if seconds <= 0:
        return
    rows = my_rows(
        conductor,
        [timeout.since],
        {
            "reserved": False,
            "provision_state": timeout.state,
            "maintenance": False,
            _BEFORE[timeout.since]: seconds,
        },
        sort_key=timeout.since,
    )
    context = admin_context()

    def one(row: Row) -> None:
        try:
            with conductor.tasks.acquire(
                context,
                row["uuid"],
                purpose="node state check",
                retry=False,
                load_driver=False,
            ) as task:
                _expire(task, timeout, row, seconds)
        except (errors.NodeLocked, errors.NodeNotFound) as exc:
            LOG.debug("%s: %s", timeout.name, exc)
        except errors.LockLost as exc:
            LOG.error("LockLost: %s of node %s: %s", timeout.name, row["uuid"], exc)

    for_each(conductor, rows, one)


def _expire(task: Task, timeout: CallbackTimeout, row: Row, seconds: int) -> None:
    node = task.node
    if node.maintenance or node.provision_state != timeout.state:
        return
    if getattr(node, timeout.since) != row[timeout.since]:
        # A heartbeat came between the query and the lock.
        return
    message = (
        f"Timeout reached while waiting for callback for node {node.uuid}: nothing was heard of "
        f"{timeout.waited_for} for more than {seconds} s ([conductor]{timeout.option})."
    )
    step = node.clean_step or node.deploy_step or node.service_step
    if step:
        message += f" Running step: {step.get('interface')}.{step.get('step')}."
    target = recovery.kept_target(node)
    try:
        task.load_driver()
    except errors.IronicError as exc:
        # Without a driver nothing can be cleaned up, but the node must not wait for ever.
        task.history(f"{message} Its driver cannot be loaded: {exc}", "conductor")
        task.event("fail", target_state=target)
        return
    slot = _missing_medium(task)
    if slot:
        message += f" The boot medium was last seen as not inserted in {slot}."
    task.event("fail", target_state=target, last_error=message)
    timeout.handle(task, message)


def _missing_medium(task: Task) -> str | None:
    """Return where the boot medium of a ramdisk that never called is missing."""
    if "agent_url" in task.node.driver_internal_info:
        return None
    return task.driver.boot.missing_medium(task)
