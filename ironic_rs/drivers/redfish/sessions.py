"""One session and one kept connection for each BMC in use, shared by all threads.

:func:`talk` is the only way in: it gives the caller the BMC of a node, under one
deadline, and turns everything that can go wrong below into ``RedfishError`` or
``RedfishConnectionError`` that name the node, the address and what was tried.

Source: specification drivers.md section 6.2; field cases 29, 31, 39.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import sushy
import sushy.auth
import sushy.exceptions
from oslo_log import log
from sushy.resources.base import ResourceBase
from sushy.resources.system.secure_boot import SecureBoot
from sushy.resources.system.system import System
from sushy.taskmonitor import TaskMonitor

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish import auth
from ironic_rs.drivers.redfish.connector import Connector, LoginsRefused
from ironic_rs.drivers.redfish.driver_info import ConnectionKey, RedfishInfo, parse_driver_info
from ironic_rs.drivers.redfish.resources import SystemSummary

LOG = log.getLogger(__name__)

R = TypeVar("R", bound=ResourceBase)

#: An unused session is kept this long at most, in seconds.
MAX_IDLE = 1800.0
#: Seconds spent on logging out of one BMC.
LOGOUT_BUDGET = 5.0
#: A summary this fresh (seconds) answers questions that follow a power read.
FRESH = 10.0
#: So many of the systems of a BMC are named in an error.
MOST_NAMED = 10


class WhichSystem(sushy.exceptions.SushyError):
    """The node does not name its system, and the BMC has several, or none."""

    message = (
        "the BMC has %(count)d systems; name one in driver_info as redfish_system_id%(listed)s"
    )


def _listed(paths: Sequence[str]) -> str:
    """Return the first few paths for a text that goes into a record of the node."""
    if not paths:
        return ""
    more = len(paths) - MOST_NAMED
    return f": {', '.join(paths[:MOST_NAMED])}" + (f" and {more} more" if more > 0 else "")


class Bmc:
    """One BMC and one set of credentials: connector, service root, systems seen.

    The service root is made at first use; the lock for that is the BMC's own, so a
    slow BMC makes nobody wait but those who want this BMC.
    """

    def __init__(self, key: ConnectionKey) -> None:
        self.key = key
        self.connector = Connector(key)
        self.used_at = time.monotonic()
        self._lock = threading.Lock()
        self._root: sushy.Sushy | None = None
        self._had_session = False
        self._paths: dict[str | None, str] = {}
        self._summaries: dict[str, SystemSummary] = {}

    def root(self) -> sushy.Sushy:
        """Return the service root; logs in when there is no session."""
        root = self._root
        if root is not None:
            return root
        with self.connector.operation() as deadline:
            if not self._lock.acquire(timeout=deadline.remaining()):
                raise sushy.exceptions.ConnectionError(
                    url=self.key.address, error="the log-in by another thread has not ended"
                )
            try:
                if self._root is None:
                    self._root = self._log_in()
                return self._root
            finally:
                self._lock.release()

    def _log_in(self) -> sushy.Sushy:
        log_in = auth.make(self.key, had_session=self._had_session)
        root = sushy.Sushy(
            self.key.address,
            root_prefix=self.key.root_prefix,
            auth=log_in,
            connector=self.connector,
        )
        if isinstance(log_in, sushy.auth.SessionAuth):
            self._had_session = log_in.get_session_key() is not None
            if not self._had_session:
                LOG.info("The BMC at %s gives no session; using HTTP Basic", self.key.address)
        return root

    def system_path(self, system_id: str | None) -> str:
        """Return the path of a system; the only one of the BMC for None.

        :raises WhichSystem: there are several, or none.
        """
        if system_id is not None:
            return system_id
        path = self._paths.get(None)
        if path is None:
            members = self.root().get_system_collection().members_identities
            if len(members) != 1:
                raise WhichSystem(count=len(members), listed=_listed(members))
            path = self._paths[None] = members[0]
        return path

    def summary(self, system_id: str | None, *, max_age: float = 0.0) -> SystemSummary:
        """Return the summary of a system, read at most ``max_age`` seconds ago.

        Costs one GET, or none when it is fresh enough.
        """
        root = self.root()
        path = self.system_path(system_id)
        known = self._summaries.get(path)
        if known is None:
            known = SystemSummary(self.connector, path, root.redfish_version, root=root)
            self._summaries[path] = known
        elif time.monotonic() - known.read_at >= max_age:
            known.refresh()
        return known

    def changed(self, system_id: str | None) -> None:
        """Forget what was read of the system: it has just been changed."""
        path = self._paths.get(None) if system_id is None else system_id
        known = self._summaries.get(path) if path else None
        if known is not None:
            known.read_at = float("-inf")

    def forget_session(self) -> None:
        """Forget the session, which the BMC refuses; the connection stays."""
        root, self._root = self._root, None
        _disarm(root)
        self.connector.forget_credentials()
        self.forget_systems()

    def forget_systems(self) -> None:
        """Forget the systems; the BMC may have been exchanged for another."""
        self._paths.clear()
        self._summaries.clear()

    def close(self) -> None:
        """Log out and close the connection; errors are only logged."""
        root, self._root = self._root, None
        try:
            # Without a session there is nothing to log out of, and nothing is sent.
            if root is not None and root._auth is not None and not self.connector.silent:
                with self.connector.operation(LOGOUT_BUDGET, attempts=1):
                    root._auth.close()
        except Exception as exc:
            LOG.debug("Could not log out of the BMC at %s: %s", self.key.address, exc)
        finally:
            _disarm(root)
            self.connector.close()


def _disarm(root: sushy.Sushy | None) -> None:
    """Keep the destructor of a service root from logging out at some later time."""
    if root is not None:
        root._auth = None


class _Cache:
    """The BMCs in use, least recently used first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bmcs: OrderedDict[ConnectionKey, Bmc] = OrderedDict()
        self._swept_at = time.monotonic()
        self._closing: queue.SimpleQueue[Bmc] = queue.SimpleQueue()
        self._closer: threading.Thread | None = None

    def get(self, key: ConnectionKey) -> Bmc:
        now = time.monotonic()
        with self._lock:
            bmc = self._bmcs.get(key)
            if bmc is None:
                bmc = self._bmcs[key] = Bmc(key)
            else:
                self._bmcs.move_to_end(key)
            bmc.used_at = now
            if now - self._swept_at > FRESH:
                self._sweep(now)
            return bmc

    def _sweep(self, now: float) -> None:
        """Let go of BMCs that nobody uses any more."""
        self._swept_at = now
        in_use = max(2.0 * CONF.conductor.sync_power_state_interval, 300.0)
        while self._bmcs:
            key, bmc = next(iter(self._bmcs.items()))
            idle = now - bmc.used_at
            crowded = len(self._bmcs) > CONF.redfish.connection_cache_size
            if not (idle > max(MAX_IDLE, in_use) or (crowded and idle > in_use)):
                return
            del self._bmcs[key]
            self._close_later(bmc)

    def _close_later(self, bmc: Bmc) -> None:
        """Log out in a thread of its own: nobody waits for somebody else's BMC."""
        self._closing.put(bmc)
        if self._closer is None or not self._closer.is_alive():
            self._closer = threading.Thread(
                target=self._close_all_queued, name="redfish-logout", daemon=True
            )
            self._closer.start()

    def _close_all_queued(self) -> None:
        while True:
            try:
                bmc = self._closing.get(timeout=1.0)
            except queue.Empty:
                with self._lock:
                    if self._closing.empty():
                        self._closer = None
                        return
                continue
            bmc.close()

    def drain(self) -> list[Bmc]:
        with self._lock:
            bmcs = list(self._bmcs.values())
            self._bmcs.clear()
            return bmcs

    def __len__(self) -> int:
        with self._lock:
            return len(self._bmcs)


_cache = _Cache()


def session_count() -> int:
    """Return the number of BMCs with a kept session or connection."""
    return len(_cache)


def close_all(timeout: float = 10.0, workers: int = 32) -> None:
    """Log out of all BMCs; for the end of the process.

    BMCs have few session slots and long time-outs: a conductor that is restarted
    again and again must not fill them.

    :param timeout: seconds after which the rest is left to the BMCs' own time-outs.
    """
    bmcs = _cache.drain()
    if not bmcs:
        return
    todo: queue.SimpleQueue[Bmc] = queue.SimpleQueue()
    for bmc in bmcs:
        todo.put(bmc)

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                todo.get_nowait().close()

    threads = [
        threading.Thread(target=work, name=f"redfish-logout-{n}", daemon=True)
        for n in range(min(workers, len(bmcs)))
    ]
    end = time.monotonic() + timeout
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(end - time.monotonic(), 0.0))


class NodeBmc:
    """The BMC of one node, for the length of one operation."""

    def __init__(self, info: RedfishInfo, bmc: Bmc) -> None:
        self.info = info
        self._bmc = bmc
        self._system: System | None = None
        self._secure_boot: SecureBoot | None = None

    @property
    def root(self) -> sushy.Sushy:
        """The service root."""
        return self._bmc.root()

    @property
    def address(self) -> str:
        """Scheme and authority of the BMC."""
        return self.info.key.address

    def summary(self, *, max_age: float = 0.0) -> SystemSummary:
        """Return power state, boot mode, health: one GET, none when fresh enough."""
        return self._bmc.summary(self.info.system_id, max_age=max_age)

    @property
    def system(self) -> System:
        """The whole system resource, read once in this operation."""
        if self._system is None:
            path = self._bmc.system_path(self.info.system_id)
            self._system = self.root.get_system(path)
        return self._system

    def reread(self) -> System:
        """Read the system again, its parts only when they are asked for."""
        if self._system is not None:
            self._system.invalidate()
            self._system.refresh(force=False)
        return self.system

    @property
    def secure_boot(self) -> SecureBoot:
        """The secure boot resource, read once in this operation.

        :raises sushy.exceptions.MissingAttributeError: the system has none.
        """
        if self._secure_boot is None:
            summary = self.summary(max_age=FRESH)
            if summary.secure_boot_path is None:
                raise sushy.exceptions.MissingAttributeError(
                    attribute="SecureBoot/@odata.id", resource=summary.path
                )
            self._secure_boot = self.resource(SecureBoot, summary.secure_boot_path)
        return self._secure_boot

    def resource(self, kind: type[R], path: str) -> R:
        """Return a resource that no other leads to by a method of its class."""
        return kind(self._bmc.connector, path, self.root.redfish_version, root=self.root)

    def accepted_task(self) -> TaskMonitor | None:
        """Return the task of a request that this thread just sent and that goes on."""
        uri = self._bmc.connector.accepted_task()
        return None if uri is None else self.root.get_task_monitor(uri)

    def refusal(self) -> sushy.exceptions.HTTPError | None:
        """Return what the last request of this thread was refused with, if it was."""
        return self._bmc.connector.refusal()

    def changed(self) -> None:
        """Forget what was read: the system has just been changed."""
        self._bmc.changed(self.info.system_id)
        self._secure_boot = None
        if self._system is not None:
            self._system.invalidate()


@contextmanager
def talk(task: Task, doing: str) -> Iterator[NodeBmc]:
    """Talk to the BMC of a node, under one deadline.

    :param doing: what the caller does, for the texts: ``"reading the power state"``.
    :raises RedfishConnectionError: the BMC did not answer.
    :raises RedfishError: it refused, or answered nonsense.
    :raises InvalidParameterValue: ``driver_info`` is wrong.
    """
    info = parse_driver_info(task.node)
    if CONF.redfish.connection_cache_size == 0:
        with contextlib.closing(_open(info.key)) as bmc, _translated(info, bmc, doing):
            yield NodeBmc(info, bmc)
        return
    bmc = _open(info.key, _cache.get)
    with _translated(info, bmc, doing):
        yield NodeBmc(info, bmc)


def _open(key: ConnectionKey, make: Callable[[ConnectionKey], Bmc] = Bmc) -> Bmc:
    try:
        return make(key)
    except (ValueError, OSError) as exc:
        raise errors.InvalidParameterValue(
            f"TLS settings for the BMC at {key.address} cannot be used: {exc}"
        ) from exc


@contextmanager
def _translated(info: RedfishInfo, bmc: Bmc, doing: str) -> Iterator[None]:
    what = f"{doing} of node {info.node_uuid} at {bmc.key.address}"
    try:
        with bmc.connector.operation():
            yield
    except sushy.exceptions.ConnectionError as exc:
        raise errors.RedfishConnectionError(f"No answer while {what}{_tries(exc)}: {exc}") from exc
    except (sushy.exceptions.AccessError, LoginsRefused) as exc:
        bmc.forget_session()
        raise errors.RedfishError(f"Access denied while {what}: {exc}") from exc
    except sushy.exceptions.ResourceNotFoundError as exc:
        bmc.forget_systems()
        raise errors.RedfishError(f"Error while {what}: {exc}") from exc
    except sushy.exceptions.SushyError as exc:
        raise errors.RedfishError(f"Error while {what}{_tries(exc)}: {exc}") from exc
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        if not _raised_in_library(exc):
            raise
        raise errors.RedfishError(
            f"The BMC's answer makes no sense while {what}: {type(exc).__name__}: {exc}"
        ) from exc


def _tries(exc: sushy.exceptions.SushyError) -> str:
    tries = getattr(exc, "tries", 1)
    return f" ({tries} tries)" if tries > 1 else ""


def _raised_in_library(exc: BaseException) -> bool:
    """Tell sushy stumbling over a strange document from a bug of ours."""
    in_library = False
    trace = exc.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("sushy"):
            in_library = True
        elif module.startswith("ironic_rs"):
            in_library = False
        trace = trace.tb_next
    return in_library
