"""Power sync and power failure recovery.

A cycle over nodes that did not change costs two SQL statements for each thousand
nodes and one BMC call a node, whose task is made of the selected row.  Only a
difference takes a lock, and then everything is looked at again under it.

Source: specification conductor.md sections 7, 10.2 and 17 (W14, W38); field-cases
K05 and K07.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from ironic_rs.conductor.flows import power
from ironic_rs.conductor.periodics import observed
from ironic_rs.conductor.periodics.framework import for_each, my_rows
from ironic_rs.conductor.periodics.loading import load_nodes
from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers import patience
from ironic_rs.rpc.context import RequestContext, admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

#: How texts begin that power code writes to last_error; only those are cleared
#: when the power state turns out to be right (W14).
POWER_ERRORS = (
    "Failed to change power state",
    "Pending power operation",
    "Power sync",
)
#: Seconds in which a BMC has to answer while others wait for their turn; one that does
#: not is asked again, with all its time, beside the others.
HURRY_SECONDS = 10.0
#: A failure that took longer (s) may be for lack of time.
QUICK_SECONDS = 2.0
#: A node whose turn took longer (s) is asked beside the others the next time.
SLOW_SECONDS = 5.0
#: Seconds that a cycle waits for the last BMCs.
PATIENCE = 5.0
_QUIET = {"reserved": False, "with_target_power_state": False}


def _excluded(node: models.Node) -> bool:
    return bool(
        node.provision_state in states.SYNC_EXCLUDED
        or node.maintenance
        or node.target_power_state is not None
        or node.driver_internal_info.get(steps.FIRMWARE_UPDATES)
        or node.driver_internal_info.get(steps.FIRMWARE_IMAGES)
    )


class _NeedsTime(Exception):
    """The BMC did not answer in the time that it had; nothing was recorded."""


class _Turns:
    """Whose turn is next in one cycle: (its cycle, record, whether its BMC has to hurry).

    The suspects (those that failed or were slow the last time, or just now) have all
    their time, but at most a quarter of the workers at a time while others wait.  Those
    that get no turn within the interval of the power sync come first in the next cycle.

    A worker of the cycle before that is free at last goes on in this one.

    :param workers: those of this cycle alone.
    :param total: most workers of all cycles that may be at work.
    :param asked: nodes that are being asked; each that gets a turn is added.
    :param before: the turns of the cycle before.
    """

    def __init__(
        self,
        healthy: Sequence[Row],
        suspects: Sequence[Row],
        *,
        workers: int,
        total: int,
        asked: set[str],
        before: _Turns | None,
    ) -> None:
        self._healthy = load_nodes(healthy)
        self._suspects = load_nodes(suspects)
        self._again: deque[models.Node] = deque()
        #: Nodes that the cycle before is still asking, by uuid.
        self._held: dict[str, models.Node] = {}
        self._total = total
        self._most = min(max(workers // 4, 1), workers - 1)
        self._asked = asked
        self._unhurried: set[str] = set()
        self._end = time.monotonic() + CONF.conductor.sync_power_state_interval
        self._lock = threading.Lock()
        self._next_cycle: _Turns | None = None
        if before is not None:
            before._next_cycle = self

    @property
    def current(self) -> _Turns:
        """The turns of the newest cycle."""
        turns = self
        while turns._next_cycle is not None:
            turns = turns._next_cycle
        return turns

    def end(self, node: models.Node, *, again: bool, failed: bool) -> None:
        """End a turn.

        :param again: the node needs more time: it has another turn in the same cycle.
        :param failed: one that was asked beyond its cycle has its turn of this one too:
            each cycle counts the failures of dead BMCs, however long they take.
        """
        current = self.current
        with current._lock:
            self._asked.discard(node.uuid)
            held = current._held.pop(node.uuid, None)
            if again and current is self:
                self._again.append(node)
            elif held is not None and (again or failed):
                current._again.append(held)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[_Turns, models.Node, bool]:
        current = self.current
        with current._lock:
            if current is not self and len(self._asked) >= current._total:
                raise StopIteration
            while True:
                node, hurried = current._next()
                if node.uuid not in self._asked:
                    self._asked.add(node.uuid)
                    return current, node, hurried
                current._held[node.uuid] = node

    def _next(self) -> tuple[models.Node, bool]:
        if len(self._unhurried & self._asked) < self._most:
            suspect = self._suspect()
            if suspect is not None:
                return suspect, False
        node = next(self._healthy, None)
        if node is not None:
            return node, True
        suspect = None if time.monotonic() > self._end else self._suspect()
        if suspect is None:
            raise StopIteration
        return suspect, False

    def _suspect(self) -> models.Node | None:
        node = next(self._suspects, None)
        if node is None and self._again:
            node = self._again.popleft()
        if node is not None:
            self._unhurried.add(node.uuid)
        return node


class PowerSync:
    """One conductor's power sync; remembers failures in a row by node.

    A slow or dead BMC delays only itself: known ones start first, in at most a
    quarter of the workers, and a cycle does not wait for the last of them to give up.
    """

    def __init__(self) -> None:
        self.failures: dict[str, int] = {}
        #: Nodes that failed or were slow, those that waited longest for a turn first.
        self._suspects: dict[str, None] = {}
        #: Nodes that are being asked, also by a worker that an earlier cycle has left.
        self._asked: set[str] = set()
        self._left: list[Future[None]] = []
        self._turns: _Turns | None = None

    def run(self, conductor: Conductor) -> None:
        """One cycle over the nodes of this conductor."""
        started = time.monotonic()
        rows = my_rows(
            conductor,
            (),
            {
                "maintenance": False,
                "provision_state_not_in": states.SYNC_EXCLUDED,
                **_QUIET,
            },
        )
        conductor.metrics.gauge("ConductorManager.PowerSyncNodesCount", len(rows))
        known = {row["uuid"] for row in rows} | self._asked
        for gone in [uuid for uuid in self._suspects if uuid not in known]:
            self.failures.pop(gone, None)
            self._suspects.pop(gone, None)
        self._left = [worker for worker in self._left if not worker.done()]
        total = conductor.workers.sync_workers
        workers = max(total - len(self._left), 1)
        self._turns = self._new_turns(rows, workers, total)
        context = admin_context()
        self._left += for_each(
            conductor,
            self._turns,
            lambda turn: self._visit(conductor, context, *turn),
            workers=workers,
            patience=PATIENCE,
        )
        LOG.debug(
            "Power sync of %d nodes took %.1f s; %d still do not answer",
            len(rows),
            time.monotonic() - started,
            len(self._left),
        )

    def _new_turns(self, rows: Sequence[Row], workers: int, total: int) -> _Turns:
        places = {uuid: place for place, uuid in enumerate(list(self._suspects))}
        suspects = [row for row in rows if row["uuid"] in places]
        suspects.sort(key=lambda row: places[row["uuid"]])
        healthy = [row for row in rows if row["uuid"] not in places]
        return _Turns(
            healthy,
            suspects,
            workers=workers,
            total=total,
            asked=self._asked,
            before=self._turns,
        )

    def _visit(
        self,
        conductor: Conductor,
        context: RequestContext,
        turns: _Turns,
        node: models.Node,
        hurried: bool,
    ) -> None:
        began = time.monotonic()
        again = False
        try:
            self._look(conductor, context, node, hurried)
        except _NeedsTime as exc:
            LOG.debug("Power sync of node %s is tried again: %s", node.uuid, exc.__cause__)
            again = True
        finally:
            self._suspects.pop(node.uuid, None)
            slow = time.monotonic() - began > SLOW_SECONDS
            failed = node.uuid in self.failures
            if again or slow or failed:
                self._suspects[node.uuid] = None
            turns.end(node, again=again, failed=failed)

    def _look(
        self, conductor: Conductor, context: RequestContext, node: models.Node, hurried: bool
    ) -> None:
        if _excluded(node):
            return
        try:
            with conductor.tasks.view(context, node, purpose="power state sync") as task:
                task.allow_reserved_pool = False
                with conductor.metrics.timer("do_sync_power_state"):
                    self._sync(task, hurried)
        except (errors.NodeLocked, errors.NodeNotFound) as exc:
            LOG.debug("Power sync: %s", exc)
        except errors.LockLost as exc:
            LOG.error("LockLost: power sync of node %s: %s", node.uuid, exc)
        except errors.IronicError as exc:
            LOG.error("Power sync of node %s failed: %s", node.uuid, exc)

    def _sync(self, task: Task, hurried: bool) -> None:
        node = task.node
        uuid = node.uuid
        if node.power_state is None and not _validates(task):
            # Nobody has given it credentials yet.
            self.failures.pop(uuid, None)
            return
        began = time.monotonic()
        try:
            seconds = HURRY_SECONDS if hurried else None
            with patience.at_most(seconds, comes_back=True) as allowance:
                real = power.real_power_state(task)
        except errors.LockLost:
            raise
        except Exception as exc:
            if allowance.shortened and time.monotonic() - began > QUICK_SECONDS:
                raise _NeedsTime from exc
            self._unreadable(task, exc)
            return
        observed.remember(task)
        if real is None or real == task.node.power_state:
            self.failures.pop(uuid, None)
            if real is not None:
                _forget_power_error(task)
            return
        task.upgrade_lock(retry=False)
        self._differs(task)

    def _count(self, uuid: str) -> int:
        count = self.failures.get(uuid, 0) + 1
        self.failures[uuid] = count
        return count

    def _unreadable(self, task: Task, error: Exception) -> None:
        node = task.node
        count = self._count(node.uuid)
        if count <= CONF.conductor.power_state_sync_max_retries:
            LOG.warning(
                "Power sync could not read the power state of node %s (attempt %d of %d): %s",
                node.uuid,
                count,
                CONF.conductor.power_state_sync_max_retries + 1,
                error,
            )
            return
        task.upgrade_lock(retry=False)
        if _excluded(task.node):
            return
        self._give_up(task, None, str(error) or type(error).__name__)

    def _differs(self, task: Task) -> None:
        """The state differs from the stored one; look again, now under the lock."""
        node = task.node
        uuid = node.uuid
        if _excluded(node):
            return
        try:
            # The first reading may be older than a power action that ended since.
            real = power.real_power_state(task)
        except errors.LockLost:
            raise
        except Exception as exc:
            LOG.warning("Power sync could not read node %s again: %s", uuid, exc)
            return
        stored = node.power_state
        if real is None or real == stored:
            self.failures.pop(uuid, None)
            return
        if stored is None:
            LOG.info("Node %s has power state '%s'", uuid, real)
            if _has_power_error(node):
                node.last_error = None
            _record(task, real)
            self.failures.pop(uuid, None)
            return
        if self._count(uuid) > CONF.conductor.power_state_sync_max_retries:
            self._give_up(task, real, None)
        elif (
            CONF.conductor.force_power_state_during_sync
            and task.driver.power.supports_power_sync(task)
            and not node.disable_power_off
        ):
            LOG.warning("Node %s is '%s' instead of '%s', correcting it", uuid, real, stored)
            try:
                power.node_power_action(task, stored)
            except errors.LockLost:
                raise
            except Exception as exc:
                LOG.error("Power sync could not set node %s to '%s': %s", uuid, stored, exc)
        else:
            LOG.warning("Node %s is '%s' instead of '%s', recorded", uuid, real, stored)
            _record(task, real)

    def _give_up(self, task: Task, real: str | None, error: str | None) -> None:
        node = task.node
        expected = node.power_state
        text = (
            f"Power sync of node {node.uuid} was given up after "
            f"{CONF.conductor.power_state_sync_max_retries + 1} attempts: its power state is "
            f"'{real or 'unknown'}', expected was '{expected}'."
        )
        if error:
            text += f" Error: {error}"
        node.power_state = real
        task.history(text, "monitoring")
        if not node.maintenance:
            node.maintenance = True
            node.maintenance_reason = text
            node.fault = states.FAULT_POWER
        task.save()
        _tell(task, expected)
        self.failures.pop(node.uuid, None)
        LOG.error("%s It is in maintenance now", text)


def _record(task: Task, real: str) -> None:
    """Take over the power state that the machine was found in."""
    stored, task.node.power_state = task.node.power_state, real
    task.save()
    _tell(task, stored)


def _tell(task: Task, stored: str | None) -> None:
    """Tell of a recorded power state that is not the one before."""
    if task.node.power_state != stored:
        task.conductor.news.power_state_changed(task)
        task.conductor.news.power_corrected(task, stored)


def _validates(task: Task) -> bool:
    try:
        task.driver.power.validate(task)
    except errors.InvalidParameterValue:
        return False
    return True


def _forget_power_error(task: Task) -> None:
    """Clear the error of a power action that the machine has outlived (W14)."""
    if not _has_power_error(task.node):
        return
    task.upgrade_lock(retry=False)
    if _has_power_error(task.node) and not _excluded(task.node):
        task.node.last_error = None
        task.save()


def _has_power_error(node: models.Node) -> bool:
    return (
        node.last_error is not None
        and node.provision_state not in states.FAILED
        and node.last_error.startswith(POWER_ERRORS)
    )


def recover_power_failures(conductor: Conductor) -> None:
    """Take nodes out of maintenance whose BMC answers again.

    Only maintenance that power sync has set (its fault) is ever cleared.
    """
    rows = my_rows(conductor, (), {"maintenance": True, "fault": states.FAULT_POWER, **_QUIET})
    conductor.metrics.gauge("ConductorManager.PowerSyncRecoveryNodeCount", len(rows))
    context = admin_context()

    def visit(node: models.Node) -> None:
        if node.provision_state == states.ENROLL:
            return
        try:
            with (
                conductor.tasks.view(context, node, purpose="power failure recovery") as task,
                patience.at_most(None, comes_back=True),
            ):
                _recover(task)
        except (errors.NodeLocked, errors.NodeNotFound) as exc:
            LOG.debug("Power failure recovery: %s", exc)
        except errors.LockLost as exc:
            LOG.error("LockLost: power failure recovery of node %s: %s", node.uuid, exc)
        except Exception as exc:
            # The BMC is still away, which everybody knows.
            LOG.debug("Power failure recovery of node %s: %s", node.uuid, exc)

    for_each(conductor, load_nodes(rows), visit)


def _recover(task: Task) -> None:
    task.driver.power.validate(task)
    if power.real_power_state(task) is None:
        return
    task.upgrade_lock(retry=False)
    node = task.node
    if not node.maintenance or node.fault != states.FAULT_POWER or node.target_power_state:
        return
    real = power.real_power_state(task)
    if real is None:
        return
    stored, node.power_state = node.power_state, real
    node.maintenance = False
    node.maintenance_reason = None
    node.fault = None
    if _has_power_error(node):
        node.last_error = None
    task.save()
    _tell(task, stored)
    LOG.info("Node %s answers again, power state '%s': out of maintenance", node.uuid, real)
