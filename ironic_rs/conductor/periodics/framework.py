"""What a periodic task is, and loops over the nodes of a conductor.

:mod:`scheduler` runs the tasks.

Source: specification conductor.md sections 7 and 17 (W01, W35, W38);
data/periodics.json.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from oslo_config import cfg
from oslo_context import context as oslo_context

from ironic_rs.conf import CONF
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db.listing import Row
from ironic_rs.domain import errors
from ironic_rs.rpc.context import admin_context

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

#: Columns that every scan over nodes needs: identity, and the key of the ring.
BASE_COLUMNS = ("id", "uuid", "driver", "conductor_group")

Interval = Callable[[cfg.ConfigOpts], float]


@dataclass(frozen=True)
class Every:
    """An interval that an option says, in seconds; 0 when the task is switched off.

    :param when: what else must hold for the task to run.
    """

    group: str
    option: str
    when: Callable[[cfg.ConfigOpts], bool] = lambda conf: True

    def __call__(self, conf: cfg.ConfigOpts) -> float:
        return max(0, conf[self.group][self.option]) if self.when(conf) else 0


@dataclass(frozen=True)
class Periodic:
    """A task of the conductor: ``run(conductor)`` every ``interval(CONF)`` seconds.

    :param interval: zero or less switches the task off; read before each run.
    """

    name: str
    interval: Interval
    run: Callable[[Conductor], None]


def periodic(interval: Interval) -> Callable[[Callable[[Conductor], None]], Periodic]:
    """Make a function ``fn(conductor)`` a periodic task of its own name."""

    def make(run: Callable[[Conductor], None]) -> Periodic:
        return Periodic(run.__name__, interval, run)

    return make


@dataclass(frozen=True)
class NodeScan:
    """Which nodes a task works on, and how.

    :param purpose: lock purpose, shown in logs.
    :param columns: columns that ``predicate`` looks at, besides the base ones.
    :param filters: node filters (data-model.md section 4.3).
    :param predicate: gets the selected row; false skips the node.
    :param limit: most nodes that count per run, None for all.
    :param shared: take the node with a shared lock.
    :param workers: nodes that are worked on at a time.
    :param load_driver: false when the function needs no driver.
    """

    purpose: str
    columns: Sequence[str] = ()
    filters: Mapping[str, Any] = field(default_factory=dict)
    predicate: Callable[[Row], bool] | None = None
    limit: int | None = None
    shared: bool = True
    workers: int | None = None
    load_driver: bool = True
    sort_key: str = "id"


def node_periodic(
    purpose: str,
    interval: Interval,
    *,
    columns: Sequence[str] = (),
    filters: Mapping[str, Any] | None = None,
    predicate: Callable[[Row], bool] | None = None,
    limit: int | None = None,
    shared: bool = True,
) -> Callable[[Callable[[Task], None]], Periodic]:
    """Make a function ``fn(task)`` a periodic over the nodes of this conductor."""
    scan = NodeScan(
        purpose=purpose,
        columns=columns,
        filters=dict(filters or {}),
        predicate=predicate,
        limit=limit,
        shared=shared,
    )

    def make(visit: Callable[[Task], None]) -> Periodic:
        return Periodic(
            visit.__name__, interval, lambda conductor: visit_nodes(conductor, scan, visit)
        )

    return make


def my_rows(
    conductor: Conductor,
    columns: Sequence[str],
    filters: Mapping[str, Any],
    sort_key: str = "id",
) -> list[Row]:
    """Rows of the nodes that this conductor owns: one query, then the cached ring."""
    wanted = dict.fromkeys((*BASE_COLUMNS, *columns))
    rows = db_nodes.select(list(wanted), filters, sort_key=sort_key)
    return conductor.ring.owned(conductor.host, rows)


class StopScan(Exception):
    """Raised by the function of a scan: no further node in this run."""


def visit_nodes(conductor: Conductor, scan: NodeScan, visit: Callable[[Task], object]) -> None:
    """Take a task on each node of a scan and call ``visit(task)``.

    Nodes are visited in parallel within bounds.  A node that is locked, gone, or
    fails ends only its own turn.  A node for which ``visit`` returns False does
    not count against the limit.
    """
    rows = my_rows(conductor, scan.columns, scan.filters, scan.sort_key)
    if scan.predicate is not None:
        rows = [row for row in rows if scan.predicate(row)]
    left = _Budget(scan.limit)
    ended = threading.Event()

    def one(row: Row) -> None:
        if not left.take():
            return
        counted = False
        try:
            with conductor.tasks.acquire(
                admin_context(),
                row["uuid"],
                shared=scan.shared,
                purpose=scan.purpose,
                load_driver=scan.load_driver,
                retry=False,
            ) as task:
                task.allow_reserved_pool = False
                counted = visit(task) is not False
        except (errors.NodeLocked, errors.NodeNotFound) as exc:
            LOG.debug("%s: %s", scan.purpose, exc)
        except (StopScan, errors.NoFreeConductorWorker) as exc:
            LOG.info("%s: no further nodes in this run: %s", scan.purpose, exc)
            ended.set()
        except errors.IronicError as exc:
            LOG.error("%s: node %s: %s", scan.purpose, row["uuid"], exc)
        finally:
            if not counted:
                left.give_back()

    for_each(
        conductor,
        rows,
        one,
        workers=scan.workers,
        stop=lambda: ended.is_set() or left.spent,
    )


class _Budget:
    """How many nodes may still be worked on in a run."""

    def __init__(self, limit: int | None) -> None:
        self._left = limit
        self._lock = threading.Lock()

    @property
    def spent(self) -> bool:
        return self._left == 0

    def take(self) -> bool:
        with self._lock:
            if self._left is None:
                return True
            if self._left <= 0:
                return False
            self._left -= 1
            return True

    def give_back(self) -> None:
        with self._lock:
            if self._left is not None:
                self._left += 1


def for_each(
    conductor: Conductor,
    items: Iterable[Any],
    fn: Callable[[Any], object],
    *,
    workers: int | None = None,
    stop: Callable[[], bool] = lambda: False,
    patience: float | None = None,
) -> list[Future[None]]:
    """Call ``fn`` for the items, within bounds, until the conductor stops or is fenced.

    :param patience: do not wait longer for the last items, as ``WorkerPools.each``.
    :returns: the workers that still have an item, none without ``patience``.
    """
    context = oslo_context.get_current() or admin_context()

    def ends() -> bool:
        return conductor.stopping.is_set() or conductor.fence.tripped or stop()

    def one(item: Any) -> None:
        # The thread may have served somebody's request before.
        context.update_store()
        fn(item)

    count = workers or CONF.conductor.periodic_max_workers
    return conductor.workers.each(items, one, count, stop=ends, patience=patience)
