"""The conductor: what belongs to one, how it starts and how it stops.

Source: specification conductor.md sections 6 and 17 (W07, W27, W50).
"""

from __future__ import annotations

import logging
import threading
import time

from ironic_rs.conductor import recovery
from ironic_rs.conductor.endpoints import ENDPOINTS
from ironic_rs.conductor.fence import SelfFence
from ironic_rs.conductor.flows.hooks import TaskFlows
from ironic_rs.conductor.interrupts import Interrupts
from ironic_rs.conductor.keepalive import KeepAlive
from ironic_rs.conductor.lockbook import LockBook
from ironic_rs.conductor.news import News
from ironic_rs.conductor.periodics import housekeeping, tasks
from ironic_rs.conductor.periodics.allocations import check_orphan_allocations
from ironic_rs.conductor.periodics.scheduler import Scheduler
from ironic_rs.conductor.task import Task, TaskManager
from ironic_rs.conductor.workers import WorkerPools
from ironic_rs.conf import CONF
from ironic_rs.db import conductors as db_conductors
from ironic_rs.db import session
from ironic_rs.domain import errors
from ironic_rs.drivers.contract import Flows
from ironic_rs.drivers.registry import DriverRegistry
from ironic_rs.inspection.rules import builtin
from ironic_rs.rpc import transport as rpc_transport
from ironic_rs.rpc.conductor_client import ConductorClient
from ironic_rs.rpc.registry import Registry
from ironic_rs.rpc.ring import HashRing
from ironic_rs.rpc.transport import RpcServer, Transport
from ironic_rs.telemetry.metrics import Metrics

LOG = logging.getLogger(__name__)

#: A scheduling thread that has not come round for so long (seconds) hangs.
_STUCK_SECONDS = 30.0


class Conductor:
    """One conductor of this process.

    :ivar host: identity: lock tag, RPC address, registered name (W28: one for all).
    :ivar conductor_id: id of its row, once started.
    :ivar tasks: makes tasks on nodes.
    :ivar allocating: which thread looks for a node for which allocation.
    :ivar news: tells the world what happens to nodes.
    :ivar interrupts: which nodes' work can be broken off.
    :ivar metrics: how long things take, and how many there are.
    :ivar workers: runs what outlives an RPC call.
    :ivar ring: which conductor owns a node.
    :ivar drivers: hardware types and interfaces that are enabled here.
    :ivar rpc: calls to conductors.
    :ivar registry: methods that may be called on this one.
    :ivar stopping: set once a graceful stop has begun.
    :ivar fence: trips when others may hold this conductor for dead.

    :param host: default ``[DEFAULT]host``.
    :param transport: default the transport of the process.
    :raises IncorrectConfiguration: worker pools too small, transport unusable.
    """

    def __init__(self, host: str | None = None, transport: Transport | None = None) -> None:
        self._transport = transport or rpc_transport.get()
        self.host = self._transport.identity(host or CONF.host)
        self.conductor_id: int | None = None
        self.stopping = threading.Event()
        self.fence = SelfFence(lambda: CONF.conductor.heartbeat_timeout)
        self.news = News(self.host)
        self.metrics = Metrics(CONF, self.host)
        self.interrupts = Interrupts()
        self.workers = WorkerPools(CONF)
        self.tasks = TaskManager(self)
        self.allocating = LockBook()
        self.drivers = DriverRegistry(CONF)
        self.ring = HashRing()
        self.rpc = ConductorClient(self._transport, self.ring)
        self.registry = Registry(
            (endpoint(self) for endpoint in ENDPOINTS),
            lambda name: self.metrics.timer(f"ConductorManager.{name}"),
        )
        self.keepalive = KeepAlive(self.host, self.fence, self._is_online, self._register)
        self.periodics: Scheduler | None = None
        self._server: RpcServer | None = None
        self._keep_registered = False
        self._registered = False

    def flow_hooks(self, task: Task) -> Flows:
        """Make what a driver may ask of the conductor on a task."""
        return TaskFlows(task)

    # Start

    def start(self) -> None:
        """Start; returns when this conductor is registered and ready.

        :raises IronicError: the start failed; nothing is left registered.
        """
        LOG.info("Conductor %s is starting", self.host)
        session.wait_until_reachable()
        self.drivers.load()
        # A bad file is found now, not by the first inspection.
        builtin.load()
        recovery.free_own_locks(self)
        housekeeping.clear_unfinished_images()
        self.periodics = Scheduler(self, tasks.collect(self))
        self._server = self._transport.serve(self.host, self.registry)
        # Before the registration: from then on requests are routed here.
        self._server.start()
        try:
            self._register(first=True)
        except Exception:
            self._server.stop()
            self._unregister()
            raise
        self.keepalive.start()
        self.ring.reset()
        self._fail_stuck()
        self._resume_allocations()
        self.periodics.start()
        try:
            self.workers.submit(recovery.restart_consoles, self)
        except errors.NoFreeConductorWorker:
            LOG.warning("No worker is free to start consoles anew")
        LOG.info(
            "Conductor %s is ready: hardware types %s, conductor group '%s', %d periodic tasks",
            self.host,
            ", ".join(self.drivers.hardware_types),
            CONF.conductor.conductor_group,
            len(self.periodics.names),
        )

    def _fail_stuck(self) -> None:
        try:
            recovery.fail_stuck_at_start(self)
        except errors.TemporaryFailure:
            LOG.warning("Conductor %s stood still since it registered: heartbeat anew", self.host)
            self.keepalive.beat()
            self.ring.reset()
            recovery.fail_stuck_at_start(self)

    def _resume_allocations(self) -> None:
        """Go on with the allocations of an earlier life, and of nobody."""
        try:
            self.workers.submit(check_orphan_allocations, self)
        except errors.NoFreeConductorWorker as exc:
            LOG.warning("Allocations are resumed by the periodic task only: %s", exc)

    def _register(self, first: bool = False) -> None:
        """Write the rows of this conductor; also used when they vanished (W50)."""
        started = self.fence.now()
        if first and self.host in db_conductors.online_hosts():
            LOG.warning(
                "A conductor named %s is registered and online; its row is taken over. Two "
                "conductors must not run under one name ([DEFAULT]host)",
                self.host,
            )
        record = db_conductors.register(
            self.host,
            list(self.drivers.hardware_types),
            conductor_group=CONF.conductor.conductor_group,
            update_existing=True,
        )
        self.conductor_id = record.id
        self._registered = True
        db_conductors.set_interfaces(record.id, self.drivers.registration_rows())
        self.fence.beat(started)

    def _unregister(self) -> None:
        if not self._registered:
            return
        try:
            db_conductors.unregister(self.host)
        except errors.ConductorNotFound:
            pass
        except Exception:
            LOG.exception("Conductor %s could not leave the ring by itself", self.host)
        self._registered = False

    def _is_online(self) -> bool:
        return self._registered

    def healthy(self) -> bool:
        """Tell whether the threads that this conductor lives by still come round."""
        if self.stopping.is_set() or self.periodics is None or not self.periodics.started:
            return True
        return self.keepalive.alive and self.periodics.silence < _STUCK_SECONDS

    def reloaded(self) -> None:
        """Take over changed options, and log how the periodic tasks are doing."""
        if self.periodics is not None and self.periodics.started:
            self.periodics.reload()

    # Stop

    def keep_registered(self) -> None:
        """Do not leave the ring on the coming stop: a restart is planned (SIGUSR1)."""
        self._keep_registered = True

    def stop(self, timeout: float | None = None) -> bool:
        """Stop gracefully, in the order of conductor.md section 6.3.

        The conductor leaves the ring; requests that are still routed here are
        served until the rings of the others have changed; running workers go on
        and release their nodes.  The heartbeat goes on to the end, so nobody
        takes over what still runs.  Locks are never cleared by force.

        :param timeout: seconds for all of it; None = for ever.
        :returns: False when workers still ran at the end.
        """
        begun = time.monotonic()
        end = None if timeout is None else begun + timeout

        def left() -> float | None:
            return None if end is None else max(0.0, end - time.monotonic())

        LOG.info("Conductor %s is stopping", self.host)
        self.stopping.set()
        self.interrupts.close()
        others = not self._keep_registered and self._leave_ring()
        if not others:
            # Nobody else would take it: a call that needs a worker is told to come again.
            self.workers.close(f"conductor {self.host} is stopping")
        if self.periodics is not None:
            self.periodics.stop()
        if others:
            self._serve_stragglers(begun, left())
            self.workers.close(f"conductor {self.host} is stopping")
        if self._server is not None:
            self._server.stop()
            if not self._server.wait(left()):
                LOG.warning("Requests still run")
        done = self.tasks.book.wait_empty(left()) and self.workers.wait(left())
        if not done:
            LOG.error(
                "Conductor %s leaves %d nodes locked: their workers did not end in time",
                self.host,
                len(self.tasks.book),
            )
        self.keepalive.stop()
        self.news.flush()
        LOG.info("Conductor %s has stopped", self.host)
        return done

    def _leave_ring(self) -> bool:
        """Deregister; tells whether other conductors are online."""
        self._unregister()
        self.ring.reset()
        try:
            return any(host != self.host for host in db_conductors.online_hosts())
        except Exception as exc:
            LOG.warning("Other conductors are not known: %s", exc)
            return False

    def _serve_stragglers(self, begun: float, left: float | None) -> None:
        """Serve what is routed here by rings that do not know of the stop yet."""
        window = begun + CONF.hash_ring_reset_interval - time.monotonic()
        pause = window if left is None else min(window, left)
        if pause > 0:
            LOG.info("Serving for %.0f s more, until other services know of the stop", pause)
            time.sleep(pause)
