"""The list of all periodic tasks of a conductor, those of its drivers included.

Source: specification conductor.md section 7, data/periodics.json.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ironic_rs.conductor.periodics import timeouts
from ironic_rs.conductor.periodics.allocations import check_orphan_allocations
from ironic_rs.conductor.periodics.framework import Every, NodeScan, Periodic, visit_nodes
from ironic_rs.conductor.periodics.housekeeping import (
    clean_up_caches,
    purge_history,
    remove_stale_conductors,
)
from ironic_rs.conductor.periodics.local_state import sync_local_state
from ironic_rs.conductor.periodics.orphans import OrphanCheck
from ironic_rs.conductor.periodics.power_sync import PowerSync, recover_power_failures
from ironic_rs.conductor.periodics.sensors import SensorReading
from ironic_rs.conductor.periodics.time_in_state import TimeInState
from ironic_rs.drivers.decorators import NodePeriodic

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor
    from ironic_rs.conductor.task import Task
    from ironic_rs.drivers.interface import BaseInterface

LOG = logging.getLogger(__name__)


def of_conductor() -> list[Periodic]:
    """Return the periodic tasks of the conductor itself (data/periodics.json)."""
    return [
        Periodic(
            "_clean_up_caches", Every("conductor", "cache_clean_up_interval"), clean_up_caches
        ),
        Periodic(
            "_sync_power_states", Every("conductor", "sync_power_state_interval"), PowerSync().run
        ),
        Periodic(
            "_power_failure_recovery",
            Every("conductor", "power_failure_recovery_interval"),
            recover_power_failures,
        ),
        *timeouts.periodics(),
        Periodic(
            "_check_orphan_nodes",
            Every("conductor", "check_provision_state_interval"),
            OrphanCheck().run,
        ),
        Periodic(
            "_check_orphan_allocations",
            Every("conductor", "check_allocations_interval"),
            check_orphan_allocations,
        ),
        Periodic(
            "_sync_local_state", Every("conductor", "sync_local_state_interval"), sync_local_state
        ),
        Periodic(
            "manage_node_history",
            Every(
                "conductor",
                "node_history_cleanup_interval",
                when=lambda conf: (
                    conf.conductor.node_history_cleanup_batch_count > 0
                    and conf.conductor.node_history_max_entries > 0
                ),
            ),
            purge_history,
        ),
        Periodic(
            "cleanup_stale_conductors",
            Every("conductor", "conductor_cleanup_interval"),
            remove_stale_conductors,
        ),
        Periodic(
            "_send_sensor_data",
            Every("sensor_data", "interval", when=lambda conf: conf.sensor_data.send_sensor_data),
            SensorReading().run,
        ),
        Periodic(
            "_check_time_in_state",
            Every("time_in_state", "check_interval"),
            TimeInState().run,
        ),
    ]


def collect(conductor: Conductor) -> list[Periodic]:
    """Return the periodic tasks of ``conductor``; its drivers must be loaded."""
    tasks = [*of_conductor(), *of_interfaces(conductor.drivers.all_interfaces())]
    if len(tasks) > conductor.workers.normal.size:
        LOG.warning(
            "%d periodic tasks share %d workers: raise [conductor]workers_pool_size",
            len(tasks),
            conductor.workers.normal.size,
        )
    return tasks


def of_interfaces(interfaces: Iterable[BaseInterface]) -> list[Periodic]:
    """Periodics of the interfaces; each interface class counts once."""
    found = []
    classes: set[type] = set()
    for interface in interfaces:
        if type(interface) in classes:
            continue
        classes.add(type(interface))
        for mark, method in interface.periodics():
            found.append(_of_interface(interface, mark, method))
    return found


def _of_interface(
    interface: BaseInterface, mark: NodePeriodic, method: Callable[[Task], Any]
) -> Periodic:
    kind, cls = interface.interface_type, type(interface)

    def visit(task: Task) -> Any:
        # Exactly this class: a subclass has a periodic of its own, and running
        # both would act twice on one node.
        if type(getattr(task.driver, kind)) is not cls:
            return False
        return method(task)

    scan = NodeScan(
        purpose=mark.purpose,
        columns=mark.columns,
        filters=mark.filters,
        predicate=mark.predicate,
        limit=mark.limit,
        shared=mark.shared,
    )
    return Periodic(
        f"{cls.__name__}.{getattr(method, '__name__', 'periodic')}",
        mark.interval,
        lambda conductor: visit_nodes(conductor, scan, visit),
    )
