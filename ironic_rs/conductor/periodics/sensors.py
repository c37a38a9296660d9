"""What the sensors of machines tell, sent as notifications.

Machines are asked a few at a time, on a kept connection, from records that are loaded
a thousand by a statement.  A reading that takes too long leaves the rest to the next
one, which begins with them.

Source: specification conductor.md section 7, operations.md section 6.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

from ironic_rs.conductor.periodics.framework import for_each, my_rows
from ironic_rs.conductor.periodics.loading import load_nodes
from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context
from ironic_rs.telemetry.sensors import SensorSender

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor

LOG = logging.getLogger(__name__)


class SensorReading:
    """One conductor's reading of sensors; remembers which nodes it did not get to."""

    def __init__(self) -> None:
        self._sender: SensorSender | None = None
        self._left: set[str] = set()

    def run(self, conductor: Conductor) -> None:
        """Read and send once."""
        if self._sender is None:
            self._sender = SensorSender(CONF)
        if not self._sender.goes_anywhere:
            LOG.warning(
                "[sensor_data]send_sensor_data has no effect without a driver in "
                "[oslo_messaging_notifications]"
            )
            return
        if CONF.sensor_data.enable_for_conductor:
            self._of_conductor(conductor)
        if CONF.sensor_data.enable_for_nodes:
            self._of_nodes(conductor)

    def _of_conductor(self, conductor: Conductor) -> None:
        assert self._sender is not None
        try:
            self._sender.conductor(conductor.host, conductor.metrics.collected())
        except Exception as exc:
            LOG.error("The metrics of conductor %s could not be sent: %s", conductor.host, exc)

    def _of_nodes(self, conductor: Conductor) -> None:
        filters: dict[str, Any] = {"maintenance": False}
        if not CONF.sensor_data.enable_for_undeployed_nodes:
            filters["provision_state"] = states.ACTIVE
        rows = my_rows(conductor, (), filters)
        rows.sort(key=lambda row: row["uuid"] not in self._left)
        left = {row["uuid"] for row in rows}
        deadline = time.monotonic() + CONF.sensor_data.wait_timeout
        context = admin_context()

        def visit(node: models.Node) -> None:
            left.discard(node.uuid)
            if node.maintenance:
                return
            try:
                with conductor.tasks.view(context, node, purpose="getting sensors data") as task:
                    task.driver.management.validate(task)
                    self._send(node, task.driver.management.get_sensors_data(task))
            except (errors.UnsupportedDriverExtension, NotImplementedError) as exc:
                LOG.debug("Node %s: its driver tells of no sensors: %s", node.uuid, exc)
            except Exception as exc:
                LOG.warning("Node %s: its sensors could not be read: %s", node.uuid, exc)

        for_each(
            conductor,
            load_nodes(rows),
            visit,
            workers=CONF.sensor_data.workers,
            stop=lambda: time.monotonic() >= deadline,
        )
        self._left = left
        if left and not conductor.stopping.is_set():
            LOG.warning(
                "The sensors of %d of %d nodes were not read within %d s: raise "
                "[sensor_data]workers or wait_timeout",
                len(left),
                len(rows),
                CONF.sensor_data.wait_timeout,
            )

    def _send(self, node: models.Node, data: dict[str, Any] | None) -> None:
        assert self._sender is not None
        self._sender.node(node, data or {})
