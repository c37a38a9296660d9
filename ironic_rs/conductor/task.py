"""The task: one node, its lock, its driver, and the hand-over to a worker.

Every write made through an exclusive task passes three fences, and each failure
of one raises LockLost and writes nothing:

* the reservation in the database is still this host's (in the UPDATE itself);
* this task, not a newer one of the same process, holds the node
  (:mod:`ironic_rs.conductor.lockbook`);
* the heartbeat of this conductor is recorded (:mod:`ironic_rs.conductor.fence`).

Source: specification conductor.md sections 2.2, 3 and 17 (W10, W26, W42).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ironic_rs.conductor import history, recovery
from ironic_rs.conductor.lock import LockedNode, by_id
from ironic_rs.conductor.lockbook import LockBook
from ironic_rs.conductor.outage import outlast
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db import portgroups as db_portgroups
from ironic_rs.db import ports as db_ports
from ironic_rs.db import records
from ironic_rs.domain import errors, state_since, states

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.db import models
    from ironic_rs.drivers.base import BareDriver
    from ironic_rs.drivers.contract import Flows
    from ironic_rs.rpc.context import RequestContext

LOG = logging.getLogger(__name__)

#: Columns that are not part of what a refused request has changed.
_NOT_PUT_BACK = frozenset({"reservation", "updated_at", "last_error"})

#: Called as ``hook(error, task, previous_state, previous_target_state)``.
EventErrorHandler = Callable[[Exception, "Task", str, str | None], None]


class TaskManager:
    """Makes the tasks of one conductor."""

    def __init__(self, conductor: Conductor) -> None:
        self.conductor = conductor
        self.book = LockBook()

    def acquire(
        self,
        context: RequestContext,
        node_id: str | int,
        *,
        shared: bool = False,
        purpose: str = "unspecified action",
        retry: bool = True,
        patient: bool = False,
        load_driver: bool = True,
        check: Callable[[models.Node], None] | None = None,
    ) -> Task:
        """Take a task on a node; use it as a context manager.

        When the block ends, the lock is released, or handed to the worker asked
        for by :meth:`Task.spawn_after` or ``task.event(callback=...)``.

        :param node_id: uuid or integer id.
        :param shared: read only: no lock is taken, nothing may be saved.
        :param purpose: shown in debug logs.
        :param retry: when the node is locked, try again for
            ``node_locked_retry_attempts`` times ``node_locked_retry_interval``.
        :param patient: wait for a moment.  A cast that still finds the node
            locked is put back into the queue by the RPC server and comes again,
            so no thread waits for ever (W26).
        :param load_driver: false leaves ``task.driver`` to ``task.load_driver()``.
        :param check: called with the record as it was read; its error ends the task.
        :raises NodeNotFound: no such node.
        :raises InvalidIdentity: ``node_id`` is neither a uuid nor an id.
        :raises NodeLocked: somebody else holds the lock.
        :raises TemporaryFailure: this conductor has fenced itself off.
        :raises InvalidState: the record holds an impossible provision state.
        """
        task = Task(self, context, purpose=purpose, retry=retry, patient=patient)
        if shared:
            task._set_node(db_nodes.get(node_id))
        else:
            task._take_lock(node_id)
        try:
            if check is not None:
                check(task.node)
            task._check_states()
            if load_driver:
                task.load_driver()
        except BaseException:
            task.release()
            raise
        return task

    def view(self, context: RequestContext, node: models.Node, *, purpose: str = "view") -> Task:
        """Make a shared task of a record that is already loaded: no SQL at all.

        :param node: a detached record with every column that the driver reads.
        """
        task = Task(self, context, purpose=purpose, retry=False)
        task._set_node(node)
        task.load_driver()
        return task

    def adopt(self, context: RequestContext, uuid: str, node_id: int) -> Task | None:
        """Take over a lock of this host that no task of this process holds.

        :returns: an exclusive task without a driver; None when the lock is in use
            or gone.
        """
        task = Task(self, context, purpose="own lock without owner", retry=False)
        if self.book.is_held(by_id(node_id)) or not self.book.claim(uuid, task):
            return None
        try:
            node = db_nodes.get(uuid)
        except BaseException:
            self.book.drop(uuid, task)
            raise
        if node.reservation != self.conductor.host:
            self.book.drop(uuid, task)
            return None
        task._own(node)
        return task


class Task(LockedNode):
    """One node under a lock (or shared), as :class:`ironic_rs.drivers.contract.Task`.

    :ivar context: who asked.
    :ivar node: the record as of the lock.
    :ivar shared: true when no lock is held.
    :ivar driver: the interfaces of the node.
    :ivar flows: what a driver may ask of the conductor.
    :ivar tasks: the manager, for tasks on other nodes (parents, children).
    :ivar conductor: the conductor that runs this task.
    :ivar allow_reserved_pool: the worker may come from the reserved pool; set
        to false for heartbeats and for all that a periodic starts (W35).
    """

    driver: BareDriver
    flows: Flows

    def __init__(
        self,
        tasks: TaskManager,
        context: RequestContext,
        *,
        purpose: str,
        retry: bool,
        patient: bool = False,
    ) -> None:
        super().__init__(tasks.conductor, tasks.book, purpose=purpose, retry=retry, patient=patient)
        self.tasks = tasks
        self.context = context
        self.allow_reserved_pool = True
        self._ports: Sequence[models.Port] | None = None
        self._portgroups: Sequence[models.Portgroup] | None = None
        self._spawn: tuple[Callable[..., Any], tuple[Any, ...], Mapping[str, Any]] | None = None
        self._hook: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self._tell: Callable[[], None] | None = None
        self._in_worker = False
        self._before: dict[str, Any] | None = None
        self.flows = self.conductor.flow_hooks(self)

    # The node and what hangs on it

    @property
    def ports(self) -> Sequence[models.Port]:
        """Ports of the node, loaded on first use."""
        if self._ports is None:
            self._ports = db_ports.of_node(self.node.id)
        return self._ports

    @ports.setter
    def ports(self, value: Sequence[models.Port] | None) -> None:
        self._ports = value

    @property
    def portgroups(self) -> Sequence[models.Portgroup]:
        """Port groups of the node, loaded on first use."""
        if self._portgroups is None:
            self._portgroups = db_portgroups.of_node(self.node.id)
        return self._portgroups

    @portgroups.setter
    def portgroups(self, value: Sequence[models.Portgroup] | None) -> None:
        self._portgroups = value

    def load_driver(self) -> None:
        """Build the driver; unset interfaces of the node get their defaults.

        :raises DriverNotFound: the hardware type is not enabled here.
        """
        self.driver = self.conductor.drivers.build(self.node)

    def _set_node(self, node: models.Node) -> None:
        super()._set_node(node)
        self._before = None
        self._ports = None
        self._portgroups = None

    def _check_states(self) -> None:
        node = self.node
        target = node.target_provision_state
        state = states.STATES.get(node.provision_state)
        if state is None:
            raise errors.InvalidState(
                f"Node {node.uuid} is in the unknown provision state '{node.provision_state}'."
            )
        if target and not (target in states.STATES and states.STATES[target].stable):
            raise errors.InvalidState(
                f"Node {node.uuid} has the target state '{target}', which is not stable."
            )

    # Writing

    def save(self) -> None:
        """Write the changed columns of ``node`` in one UPDATE, under the fences.

        Does nothing when nothing changed.

        :raises LockLost: the reservation is no longer ours; nothing was written.
        :raises ExclusiveLockRequired: the task is shared.
        """
        self.check_lock()
        if self._before is None and not self._in_worker:
            self._before = records.snapshot(self.node)
        try:
            outlast(lambda: db_nodes.save(self.node, fence=self.conductor.host), self.check_lock)
        except errors.LockLost as exc:
            self._lost = exc
            raise

    def put_back(self) -> None:
        """Make the record what it was before this task wrote to it (not saved).

        ``last_error`` stays: why it was put back belongs there.
        """
        if self._before is not None:
            records.put_back(self.node, self._before, keep=_NOT_PUT_BACK)

    def save_and_release(self, *, touch: bool = False) -> None:
        """Write the changed columns of ``node`` and give the lock back, in one UPDATE.

        :param touch: the call-back time-out starts anew.
        :raises LockLost: the reservation is no longer ours; nothing was written.
        :raises ExclusiveLockRequired: the task is shared.
        """
        self.check_lock()
        node, host = self.node, self.conductor.host
        if touch:
            self._keep_since()
        values: dict[str, Any] = {**records.changes(node), "reservation": None}
        if touch:
            # Each write of the state, be it the same, moves provision_updated_at.
            values["provision_state"] = node.provision_state
        self._letting_go = True
        try:
            written = outlast(lambda: db_nodes.update(node, values, fence=host), self.check_lock)
        except errors.LockLost as exc:
            self._lost = exc
            raise
        except BaseException:
            self._letting_go = False
            raise
        records.apply(node, values | written)
        self._let_go()

    def touch(self) -> None:
        """Move provision_updated_at: the call-back time-out starts anew."""
        if self.shared:
            db_nodes.touch_provisioning(self.node.id)
            return
        self._keep_since()
        self.save()
        db_nodes.touch_provisioning(self.node.id, fence=self.conductor.host)

    def _keep_since(self) -> None:
        node = self.node
        state_since.keep(node.driver_internal_info, node.provision_state, node.provision_updated_at)

    def history(
        self, event: str, event_type: str, *, error: bool = True, user: str | None = None
    ) -> None:
        """Record a node history entry; an error also becomes ``last_error`` (not saved).

        :raises LockLost: the lock was held and is lost; nothing was written.
        """
        if not self.shared:
            self.check_lock()
        history.record(
            self.node,
            self.conductor.host,
            self.context,
            event,
            event_type,
            error=error,
            user=user,
        )

    def event(
        self,
        event: str,
        callback: Callable[..., Any] | None = None,
        call_args: Sequence[Any] = (),
        *,
        call_kwargs: Mapping[str, Any] | None = None,
        error_handler: EventErrorHandler | None = None,
        target_state: str | None = None,
        last_error: str | None = None,
    ) -> None:
        """Move the provision state: the only way to do so.  One save.

        :param callback: worker function to run when the block ends, as
            ``callback(*call_args, **call_kwargs)``; ``last_error`` is then set to
            the argument, so cleared by default.  Without a callback it is only
            changed when given.
        :param error_handler: called as ``handler(error, task, old_state,
            old_target)`` when no worker is free, still under the lock.
        :param target_state: explicit target, must be stable.
        :raises InvalidState: the event is illegal in the present state.
        :raises LockLost: nothing was written.
        """
        if self.shared:
            raise errors.ExclusiveLockRequired()
        node = self.node
        old_state, old_target, old_error = (
            node.provision_state,
            node.target_provision_state,
            node.last_error,
        )
        state, target = states.advance(old_state, old_target, event, target_state)
        node.provision_state = state
        node.target_provision_state = target
        kept = node.driver_internal_info.pop(state_since.KEY, None)
        if callback is not None or last_error is not None:
            node.last_error = last_error
        try:
            self.save()
        except BaseException:
            node.provision_state = old_state
            node.target_provision_state = old_target
            node.last_error = old_error
            if kept is not None:
                node.driver_internal_info[state_since.KEY] = kept
            raise
        failed = state in states.FAILED
        LOG.log(
            logging.ERROR if failed else logging.INFO,
            "Node %s moved to provision state %r from state %r on event %r; target %r",
            node.uuid,
            state,
            old_state,
            event,
            target,
        )
        tell = self.conductor.news.provision_set(self, event, old_state, old_target)
        if callback is None:
            tell()
            return
        # By the worker, if there is one, so that no later event is told before.
        self._tell = tell
        self.spawn_after(callback, *call_args, **(call_kwargs or {}))
        if error_handler is not None:
            self.set_spawn_error_hook(error_handler, self, old_state, old_target)

    # Workers

    def spawn_after(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Hand the lock to a worker that runs ``fn(*args, **kwargs)``.

        Takes effect when the ``with`` block ends without an error.

        :raises RuntimeError: this task is in a worker already; call ``fn`` there.
        """
        if self._in_worker:
            raise RuntimeError("a task inside a worker cannot be handed to another one")
        self._spawn = (fn, args, kwargs)

    def set_spawn_error_hook(self, hook: Callable[..., Any], *args: Any) -> None:
        """Have ``hook(error, *args)`` called, under the lock, when no worker is free."""
        self._hook = (hook, args)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or self._spawn is None:
            self.release()
            return
        fn, args, kwargs = self._spawn
        self._in_worker = True
        try:
            self.conductor.workers.submit(
                self._run, fn, args, kwargs, reserved_ok=self.allow_reserved_pool
            )
        except Exception as exc:
            try:
                self._refused(exc)
            finally:
                self.release()
            raise

    def _refused(self, error: Exception) -> None:
        LOG.warning("No worker for node %s: %s", self.node.uuid, error)
        if self._hook is None:
            return
        hook, args = self._hook
        try:
            hook(error, *args)
        except Exception:
            # The caller has to hear of the missing worker, not of this.
            LOG.exception("Undoing the refused work on node %s failed", self.node.uuid)

    def _run(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Body of the worker: whatever happens, it ends with the lock released."""
        self.context.update_store()
        if self._tell is not None:
            self._tell()
        try:
            with self.conductor.metrics.timer(_name(fn).lstrip("_")):
                fn(*args, **kwargs)
        except errors.LockLost as exc:
            LOG.error("LockLost: the worker on node %s stops: %s", self.node.uuid, exc)
        except Exception as exc:
            LOG.log(
                logging.ERROR,
                "The worker on node %s failed in %s: %s",
                self.node.uuid,
                _name(fn),
                exc,
                exc_info=not isinstance(exc, errors.IronicError),
            )
            self._crashed(_name(fn), exc)
        finally:
            if self._abandoned():
                self._leave()
            else:
                self.release()

    def _abandoned(self) -> bool:
        """True when the node must stay locked until somebody has failed it.

        A node in a transient state without a lock would look as if nobody had to
        care for it; with the lock, the pass over locks without an owner finds it.
        """
        return (
            not self.shared
            and not self._gone
            and self._lost is None
            and self.node.provision_state in states.STUCK_STATES_TREATED_AS_FAIL
        )

    def _leave(self) -> None:
        self._let_go()
        LOG.error(
            "Node %s stays locked in state %r: its worker ended before it could fail it",
            self.node.uuid,
            self.node.provision_state,
        )

    def _crashed(self, name: str, error: Exception) -> None:
        if self.shared or self._gone:
            return
        try:
            recovery.worker_failed(self, name, error)
        except errors.LockLost as exc:
            LOG.error("LockLost: the failure of %s is not recorded: %s", name, exc)
        except errors.NodeNotFound:
            self._gone = True
        except Exception:
            LOG.exception("The failure of %s on node %s is not recorded", name, self.node.uuid)


def _name(fn: Callable[..., Any]) -> str:
    return getattr(fn, "__name__", repr(fn))
