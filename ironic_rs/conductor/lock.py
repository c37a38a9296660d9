"""A node and its exclusive lock: taking, checking, changing and releasing it.

Source: specification conductor.md sections 3 and 17 (W10, W26, W42).
"""

from __future__ import annotations

import datetime
import logging
import time
from typing import TYPE_CHECKING

from ironic_rs.conductor.outage import outlast
from ironic_rs.conf import CONF
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.conductor.lockbook import LockBook
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.db import models

LOG = logging.getLogger(__name__)

#: Seconds that a patient task waits for the lock before it gives the thread back.  Few
#: threads run casts: those for locked nodes must not keep the others waiting.
PATIENT_SECONDS = 0.2


def by_id(node_id: int) -> str:
    """Return the key in the book of a node that is known by its integer id only."""
    return f"#{node_id}"


class LockedNode:
    """The part of a task that holds, checks and gives back the lock.

    :param retry: try for ``node_locked_retry_attempts`` times the interval.
    :param patient: try for :data:`PATIENT_SECONDS`.
    """

    node: models.Node

    def __init__(
        self, conductor: Conductor, book: LockBook, *, purpose: str, retry: bool, patient: bool
    ) -> None:
        self.conductor = conductor
        self.purpose = purpose
        self.shared = True
        self._book = book
        self._retry = retry
        self._patient = patient
        self._released = False
        self._letting_go = False
        self._gone = False
        self._lost: errors.LockLost | None = None
        self._epoch = 0
        self._locked_at = 0.0
        self._since: datetime.datetime | None = None

    def _set_node(self, node: models.Node) -> None:
        self.node = node

    def _take_lock(self, ident: str | int) -> None:
        host = self.conductor.host
        self.conductor.fence.check_new_work(host)
        deadline = time.monotonic() + self._patience()
        key = ident if isinstance(ident, str) else by_id(ident)
        claimed = self._book.claim(key, self, timeout=deadline - time.monotonic())
        try:
            # Without the turn one try is still made: the database decides, and the
            # holder in this process may have lost the node without knowing it.
            node = self._reserve(ident, deadline)
        except BaseException:
            if claimed:
                self._book.drop(key, self)
            raise
        previous = self._book.hold(node.uuid, self)
        if isinstance(previous, LockedNode) and previous._holds:
            LOG.warning(
                "LockLost: a task of this conductor lost its lock of node %s; a new one holds it",
                node.uuid,
            )
        if key != node.uuid:
            self._book.drop(key, self)
        self._own(node)

    @property
    def _holds(self) -> bool:
        """True while the row says that this task holds the node, as far as is known."""
        return not (self.shared or self._letting_go)

    def _own(self, node: models.Node) -> None:
        self._set_node(node)
        self.shared = False
        self._released = False
        self._letting_go = False
        self._lost = None
        self._epoch = self.conductor.fence.epoch
        self._locked_at = time.monotonic()
        self._since = datetime.datetime.now(datetime.UTC)
        LOG.debug("Node %s locked for: %s", node.uuid, self.purpose)

    def _patience(self) -> float:
        if self._patient:
            return PATIENT_SECONDS
        if not self._retry:
            return 0.0
        group = CONF.conductor
        return max(0, group.node_locked_retry_attempts - 1) * group.node_locked_retry_interval

    def _reserve(self, ident: str | int, deadline: float) -> models.Node:
        while True:
            try:
                return db_nodes.reserve(ident, self.conductor.host)
            except errors.NodeLocked as exc:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise self._named(exc) from exc
                time.sleep(min(left, CONF.conductor.node_locked_retry_interval))

    def _named(self, exc: errors.NodeLocked) -> errors.NodeLocked:
        """Return the error with what this process knows of the holder."""
        uuid, host = exc.fields["node"], exc.fields["host"]
        holder = self._book.holder(uuid)
        if not isinstance(holder, LockedNode) or holder is self or holder._since is None:
            return exc
        if host != self.conductor.host:
            return exc
        error = errors.NodeLocked(node=uuid, host=host)
        return error.held_by(uuid, host, holder.purpose, holder._since)

    def check_lock(self) -> None:
        """Make sure that this task may go on; call it before each piece of work.

        Costs no SQL, except after an interruption of the heartbeat.

        :raises ExclusiveLockRequired: the task is shared.
        :raises LockLost: the node is no longer ours.
        """
        if self.shared:
            raise errors.ExclusiveLockRequired()
        if self._lost is not None:
            raise self._lost
        node, host, fence = self.node, self.conductor.host, self.conductor.fence
        if self._released:
            raise errors.LockLost(host=host, node=node.uuid, reason="it was released")
        if not self._book.is_holder(node.uuid, self):
            self._lose("a newer task of this conductor holds the node")
        fence.check(host, node.uuid)
        if self._epoch != fence.epoch:
            epoch = fence.epoch
            rows = db_nodes.select(["reservation"], {"id": node.id})
            holder = rows[0]["reservation"] if rows else None
            if holder != host:
                self._lose(f"it is held by {holder or 'nobody'} now")
            self._epoch = epoch

    def _lose(self, reason: str) -> None:
        self._lost = errors.LockLost(host=self.conductor.host, node=self.node.uuid, reason=reason)
        raise self._lost

    def upgrade_lock(self, purpose: str | None = None, retry: bool | None = None) -> None:
        """Take the exclusive lock; ``node`` becomes a fresh record.

        Nothing but the purpose changes on an exclusive task.  The driver object
        stays.  Local variables that hold the old record are stale afterwards.

        :raises NodeLocked: held by somebody else after the retries.
        """
        if purpose is not None:
            self.purpose = purpose
        if not self.shared:
            return
        if retry is not None:
            self._retry = retry
        self._take_lock(self.node.uuid)

    def downgrade_lock(self) -> None:
        """Release the lock and go on with a fresh shared record."""
        uuid = self.node.uuid
        self.release()
        self._released = False
        self._set_node(db_nodes.get(uuid))

    def forget(self) -> None:
        """The row was deleted under the lock: there is nothing to release."""
        self._gone = True

    def release(self) -> None:
        """Let go of the lock; ``task.node`` is only to be read afterwards.

        A lock that is already lost is logged, never raised: what was done under
        it was done while it was ours.
        """
        if self.shared or self._released:
            return
        node = self.node
        self._letting_go = True
        try:
            if not self._gone and not self._lost and self._book.is_holder(node.uuid, self):
                self._release_row(node)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Forget the lock; its row is free, or not ours."""
        self._released = True
        self.shared = True
        self._since = None
        self._book.drop(self.node.uuid, self)
        LOG.debug(
            "Node %s released after %.3f s: %s",
            self.node.uuid,
            time.monotonic() - self._locked_at,
            self.purpose,
        )

    def _release_row(self, node: models.Node) -> None:
        def check() -> None:
            # The first try may have been done without an answer, and the row have been
            # taken since by another task of this host.
            if not self._book.is_holder(node.uuid, self):
                raise errors.LockLost(
                    host=self.conductor.host, node=node.uuid, reason="a newer task holds it"
                )

        try:
            outlast(lambda: db_nodes.release(node.id, self.conductor.host), check)
        except errors.NodeNotFound:
            pass
        except errors.IronicError as exc:
            LOG.error("LockLost: node %s was not ours at its release: %s", node.uuid, exc)
        except Exception:
            # The next pass over locks without an owner gets it back.
            LOG.exception("The lock of node %s could not be released", node.uuid)
