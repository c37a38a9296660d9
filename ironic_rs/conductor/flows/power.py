"""Power actions: the only code that changes the power state of a machine.

Source: specification conductor.md section 10.1, defect W34.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.conductor import history
from ironic_rs.conf import CONF
from ironic_rs.db import nodes
from ironic_rs.domain import errors, states, steps

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

_OFF = frozenset({states.POWER_OFF, states.SOFT_POWER_OFF})
_REBOOTS = frozenset({states.REBOOT, states.SOFT_REBOOT})
#: Requests for which the real state is read first and which are skipped when met.
_IDEMPOTENT = frozenset({states.POWER_ON, states.POWER_OFF, states.SOFT_POWER_OFF})

#: Back-off of power polling in seconds: first pause, growth, longest pause.
_FIRST_PAUSE = 1.0
_GROWTH = 1.5
_LONGEST_PAUSE = 15.0


def default_timeout(new_state: str) -> int | None:
    """Return the timeout (seconds) of a request that names none."""
    if new_state in (states.SOFT_POWER_OFF, states.SOFT_REBOOT):
        return int(CONF.conductor.soft_power_off_timeout)
    return None


def has_own_supply(node: models.Node) -> bool:
    """Tell whether a child node keeps power when its parent is off."""
    value = node.driver_info.get("has_dedicated_power_supply", False)
    return bool(strutils.bool_from_string(value))


def real_power_state(task: Task) -> str | None:
    """Read the power state; a state of ``error`` is a failure.

    :raises PowerStateFailure: the BMC reports an error.
    """
    state: str | None = task.driver.power.get_power_state(task)
    if state == states.POWER_ERROR:
        raise errors.PowerStateFailure(
            f"The BMC of node {task.node.uuid} reports power state '{state}'."
        )
    return state


def node_power_action(task: Task, new_state: str, timeout: int | None = None) -> None:
    """Run a power action and record it; needs the exclusive lock.

    :param timeout: seconds for the driver; None: the driver's default.
    :raises PowerStateFailure: refused by disable_power_off, or not reached.
    :raises ParentNodeLocked, ChildNodeLocked: a coupled node is busy.
    """
    target = states.POWER_TARGET[new_state]
    task.conductor.news.power_set(task, "start", target)
    try:
        if target == states.POWER_OFF and task.node.disable_power_off:
            raise errors.PowerStateFailure(
                f"Node {task.node.uuid} can not be powered off: disable_power_off is set."
            )
        if new_state in _IDEMPOTENT and real_power_state(task) == target:
            _already_there(task, new_state, target)
            return
        _remember_request(task, new_state, target)
        if target == states.POWER_ON and task.node.provision_state == states.ACTIVE:
            task.driver.storage.attach_volumes(task)
        _act(task, new_state, timeout)
    except errors.LockLost:
        raise
    except Exception as exc:
        _record_failure(task, new_state, target, exc)
        raise
    _record_success(task, new_state, target)


def _already_there(task: Task, new_state: str, target: str) -> None:
    node = task.node
    LOG.info("Node %s is already in power state %s", node.uuid, target)
    if new_state in _OFF:
        # The children may have been left on by whoever turned the parent off (W34).
        _power_off_children(task)
        steps.wipe_on_power_off(node)
    history.forget_error(node)
    node.power_state = target
    node.target_power_state = None
    task.save()
    task.conductor.news.power_set(task, "end", target)


def _remember_request(task: Task, new_state: str, target: str) -> None:
    node = task.node
    node.target_power_state = target
    history.forget_error(node)
    node.driver_internal_info["last_power_state_change"] = datetime.now(UTC).isoformat()
    if (new_state in _OFF or new_state in _REBOOTS) and not task.driver.power.uses_agent:
        steps.wipe_on_power_off(node)
    task.save()


def _act(task: Task, new_state: str, timeout: int | None) -> None:
    if states.POWER_TARGET[new_state] == states.POWER_ON:
        # A reboot too ends with power on.
        _power_on_parent(task)
    if new_state in _OFF:
        _power_off_children(task)
        task.driver.power.set_power_state(task, new_state, timeout=timeout)
        return
    # The power supply of the children goes through the parent: they are off while
    # it is, and those that were on come back with it (W34).
    were_on = _power_off_children(task) if new_state in _REBOOTS else []
    if new_state == states.REBOOT:
        task.driver.power.reboot(task, timeout=timeout)
    else:
        task.driver.power.set_power_state(task, new_state, timeout=timeout)
    for uuid in were_on:
        _with_child(task, uuid, lambda child: node_power_action(child, states.POWER_ON))


def _record_failure(task: Task, new_state: str, target: str, exc: Exception) -> None:
    node = task.node
    LOG.error("Node %s: power action '%s' failed: %s", node.uuid, new_state, exc)
    # A pending action would keep power sync away for ever (W34).
    node.target_power_state = None
    task.history(
        f"Failed to change power state to '{target}' by '{new_state}': {errors.reason(exc)}",
        "UNKNOWN",
    )
    task.save()
    task.conductor.news.power_set(task, "error", target)


def _record_success(task: Task, new_state: str, target: str) -> None:
    node = task.node
    node.power_state = target
    node.target_power_state = None
    task.save()
    LOG.info("Node %s: power state is '%s' after '%s'", node.uuid, target, new_state)
    task.conductor.news.power_state_changed(task)
    task.conductor.news.power_set(task, "end", target)
    if target == states.POWER_OFF and node.provision_state == states.ACTIVE:
        try:
            task.driver.storage.detach_volumes(task)
        except errors.StorageError as exc:
            LOG.warning("Node %s: volumes were not detached: %s", node.uuid, exc)


def _power_on_parent(task: Task) -> None:
    """Give a child node power: its parent must be on first."""
    node = task.node
    if not node.parent_node or has_own_supply(node):
        return
    with task.tasks.acquire(
        task.context, node.parent_node, shared=True, purpose="power on parent node"
    ) as parent:
        if real_power_state(parent) == states.POWER_ON:
            return
        try:
            parent.upgrade_lock()
        except errors.NodeLocked as exc:
            refused = errors.ParentNodeLocked(parent=node.parent_node, node=node.uuid)
            raise refused.of(exc) from exc
        node_power_action(parent, states.POWER_ON)


def _power_off_children(task: Task) -> list[str]:
    """Power off the children that live from this node; return those that were on.

    All locks are taken before the first child is touched.

    :raises ChildNodeLocked: a child that is on is busy.
    """
    to_do = []
    with ExitStack() as stack:
        for uuid in nodes.child_uuids(str(task.node.uuid)):
            child = stack.enter_context(
                task.tasks.acquire(task.context, uuid, shared=True, purpose="child node power off")
            )
            if has_own_supply(child.node) or real_power_state(child) == states.POWER_OFF:
                continue
            try:
                child.upgrade_lock()
            except errors.NodeLocked as exc:
                refused = errors.ChildNodeLocked(child=uuid, node=task.node.uuid)
                raise refused.of(exc) from exc
            to_do.append(child)
        for child in to_do:
            node_power_action(child, states.POWER_OFF)
        return [str(child.node.uuid) for child in to_do]


def _with_child(task: Task, uuid: str, action: Callable[[Task], None]) -> None:
    try:
        with task.tasks.acquire(task.context, uuid, purpose="power on child node") as child:
            action(child)
    except errors.NodeLocked as exc:
        refused = errors.ChildNodeLocked(child=uuid, node=task.node.uuid)
        raise refused.of(exc) from exc


def wait_for_power_state(task: Task, state: str, timeout: int | None = None) -> str:
    """Poll the BMC, ever slower, until it reports ``state``.

    :param timeout: seconds; default ``[conductor]power_state_change_timeout``.
    :raises PowerStateFailure: not reached in time.
    """
    limit = CONF.conductor.power_state_change_timeout if timeout is None else timeout
    deadline = time.monotonic() + limit
    pause = _FIRST_PAUSE
    while True:
        if task.driver.power.get_power_state(task) == state:
            return state
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            LOG.error("Node %s: not '%s' after %s seconds", task.node.uuid, state, limit)
            raise errors.PowerStateFailure(pstate=state)
        time.sleep(min(pause, remaining))
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)


@contextmanager
def power_off_and_on(task: Task) -> Iterator[None]:
    """Power the node off, run the body, power it on again.

    With disable_power_off the node stays on and is rebooted after the body.
    """
    if task.node.disable_power_off:
        yield
        node_power_action(task, states.REBOOT)
        return
    node_power_action(task, states.POWER_OFF)
    yield
    node_power_action(task, states.POWER_ON)
