"""Notifications with what sensors tell: unversioned, for collectors such as Prometheus'.

They are sent in the thread that read the sensor, so that a broker which is away
slows the reading down instead of filling the memory.

Source: specification operations.md section 6, auxiliary.md section 5.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_utils import uuidutils

from ironic_rs.db import models

#: How often a message is tried again when the broker does not take it.
_RETRIES = 1


class SensorSender:
    """Sends what sensors of machines and of this conductor tell.

    :param conf: with ``[sensor_data]`` and ``[oslo_messaging_notifications]``.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        transport = oslo_messaging.get_notification_transport(conf)
        # Registers the options of its group, and so comes before they are read.
        self._notifier = oslo_messaging.Notifier(
            transport, publisher_id=f"ironic-conductor.{conf.host}", retry=_RETRIES
        )

    @property
    def goes_anywhere(self) -> bool:
        """True when the configuration names a driver that sends."""
        drivers: list[str] = self._conf.oslo_messaging_notifications.driver
        return any(driver != "noop" for driver in drivers)

    def node(self, node: models.Node, data: Mapping[str, Any]) -> bool:
        """Send the readings of a node.

        :param data: {type: {sensor id: {field: value}}}.
        :returns: False when there is nothing to send of the types that are wanted.
        """
        payload = of_types(data, self._conf.sensor_data.data_types)
        if not payload:
            return False
        event = f"hardware.{node.driver}.metrics"
        self._send(
            event,
            {
                "instance_uuid": node.instance_uuid,
                "node_uuid": node.uuid,
                "node_name": node.name,
                "payload": payload,
            },
        )
        return True

    def conductor(self, hostname: str, metrics: Mapping[str, Any]) -> None:
        """Send the metrics of a conductor.

        :param metrics: name to {type, and value or count}.
        """
        if metrics:
            self._send("ironic.metrics", {"hostname": hostname, "payload": dict(metrics)})

    def _send(self, event: str, message: dict[str, Any]) -> None:
        common = {
            "message_id": uuidutils.generate_uuid(),
            # Collectors want the fraction, be it zero.
            "timestamp": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%f"),
            "event_type": f"{event}.update",
        }
        self._notifier.info({}, event, {**common, **message})


def of_types(data: Mapping[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    """Return the readings of the types that are wanted, in any case; ALL means every type."""
    names = {name.lower() for name in wanted}
    if "all" in names:
        return dict(data)
    return {name: readings for name, readings in data.items() if name.lower() in names}
