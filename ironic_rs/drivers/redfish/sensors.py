"""Fans, temperatures, power supplies and drives.

Source: specification drivers.md section 6.5; field case 95.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from oslo_log import log

from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.resources import optional, plain
from ironic_rs.drivers.redfish.sessions import NodeBmc

LOG = log.getLogger(__name__)

Readings = dict[str, dict[str, Any]]

_FAN = (
    "identity",
    "max_reading_range",
    "min_reading_range",
    "reading",
    "reading_units",
    "serial_number",
    "physical_context",
)
_TEMPERATURE = (
    "identity",
    "max_reading_range_temp",
    "min_reading_range_temp",
    "reading_celsius",
    "physical_context",
    "sensor_number",
)
_SUPPLY = (
    "power_capacity_watts",
    "line_input_voltage",
    "last_power_output_watts",
    "serial_number",
)
_DRIVE = ("name", "model", "capacity_bytes")


def _reading(source: Any, fields: Iterable[str]) -> dict[str, Any]:
    reading = {name: plain(getattr(source, name)) for name in fields}
    status = source.status
    reading["state"] = plain(status.state) if status is not None else None
    reading["health"] = plain(status.health) if status is not None else None
    return reading


def collect(node: models.Node, bmc: NodeBmc) -> dict[str, Readings]:
    """Return {Fan, Temperature, Power, Drive: {sensor id: {field: value}}} and Extra.

    All is plain JSON.  What the BMC does not show, or shows in a strange form, is left
    out, with one warning for all of it.

    :raises FailedToGetSensorData: there is nothing else.
    """
    system, strange = bmc.system, list[str]()
    found: dict[str, Readings] = {}
    chassis = optional(node, "chassis", lambda: system.chassis[0], None, strange)
    for kind, read in (("Fan", _fans), ("Temperature", _temperatures), ("Power", _supplies)):
        found[kind] = {}
        if chassis is not None:
            found[kind] = optional(node, f"{kind} sensors", partial(read, chassis), {}, strange)
    found["Drive"] = optional(node, "drives", lambda: _drives(system), {}, strange)
    problems = "; ".join(strange)
    if not any(found.values()):
        raise errors.FailedToGetSensorData(
            node=node.uuid, error=problems or "the BMC shows no sensors"
        )
    if problems:
        LOG.warning("Node %s: not all sensors: %s", node.uuid, problems)
    found["Extra"] = {
        name: getattr(system, name.lower()) for name in ("Manufacturer", "Model", "UUID")
    }
    return found


def _fans(chassis: Any) -> Readings:
    return {
        f"{fan.identity}@{chassis.identity}": _reading(fan, _FAN) for fan in chassis.thermal.fans
    }


def _temperatures(chassis: Any) -> Readings:
    return {
        f"{sensor.identity}@{chassis.identity}": _reading(sensor, _TEMPERATURE)
        for sensor in chassis.thermal.temperatures
    }


def _supplies(chassis: Any) -> Readings:
    power = chassis.power
    return {
        f"{index}:{power.identity}@{chassis.identity}": _reading(supply, _SUPPLY)
        for index, supply in enumerate(power.power_supplies)
    }


def _drives(system: Any) -> Readings:
    if (system.json or {}).get("SimpleStorage"):
        drives = [
            (storage.identity, device)
            for storage in system.simple_storage.get_members()
            for device in storage.devices
            if device.capacity_bytes
        ]
    else:
        drives = [
            (storage.identity, drive)
            for storage in system.storage.get_members()
            for drive in storage.drives
        ]
    readings: Readings = {}
    for storage_id, drive in drives:
        reading = _reading(drive, _DRIVE)
        if reading["state"] is None and reading["health"] is not None:
            reading["state"] = "Enabled"
        readings[f"{drive.name}:{storage_id}@{system.identity}"] = reading
    return readings
