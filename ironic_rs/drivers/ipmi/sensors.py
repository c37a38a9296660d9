"""Sensor readings, in the form of the program ``ipmitool sdr -v``.

Consumers of sensor notifications know that form: {type: {"NAME (0xNN)": {field: text}}}.

Source: specification drivers.md sections 5.4 and 5.5, operations.md (sensor data).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oslo_log import log
from pyghmi.ipmi import sdr
from pyghmi.ipmi.private import constants

from ironic_rs.drivers.ipmi.errors import BmcError

if TYPE_CHECKING:
    from ironic_rs.drivers.ipmi.session import Session

LOG = log.getLogger(__name__)

Sensors = dict[str, dict[str, Any]]

#: Units as the program writes them, where the library's differ.
_UNITS = {
    "°C": "degrees C",
    "°F": "degrees F",
    "K": "degrees K",
    "V": "Volts",
    "A": "Amps",
    "W": "Watts",
    "J": "Joules",
    "Hz": "hertz",
    "% ": "percent",
}
_TYPE_LINE = re.compile(r"Sensor Type \((Analog|Discrete|Threshold)\)")
_SENSORS_AND_EVENTS = 0x04
_GET_READING = 0x2D


class _Sdr(sdr.SDR):
    """The library's list of sensors, with the entity and number of each."""

    def make_sdr_entry(self, sdrbytes: bytes) -> Any:
        entry = super().make_sdr_entry(sdrbytes)
        if entry.sdrtype == sdr.TYPE_SENSOR:
            entry.entity_id = f"{sdrbytes[8]}.{sdrbytes[9] & 0x7F} ({entry.entity})"
        return entry


class _Commands:
    """What the library's sensor code asks of a command object, on a session of ours."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def get_event_constants(self) -> ModuleType:
        return constants

    def raw_command(
        self, netfn: int, command: int, data: Any = (), rslun: int = 0, **_more: Any
    ) -> dict[str, Any]:
        """Return the answer as the library has it, errors included."""
        try:
            found = self._session.ask(netfn, command, bytes(data), rslun)
        except BmcError as exc:
            if exc.code is None:
                raise
            return {"code": exc.code, "error": str(exc), "data": bytearray()}
        return {"code": 0, "data": bytearray(found)}

    def xraw_command(
        self, netfn: int, command: int, data: Any = (), rslun: int = 0, **_more: Any
    ) -> dict[str, Any]:
        """Return a good answer; an error is raised."""
        found = self._session.ask(netfn, command, bytes(data), rslun)
        return {"code": 0, "data": bytearray(found)}


def read(session: Session) -> Sensors:
    """Read all sensors of a BMC.

    :raises BmcError: the list of sensors is not readable.
    """
    commands = _Commands(session)
    # The library keeps a weak reference to its command object.
    entries = _Sdr(commands)
    found: Sensors = {}
    for number in list(entries.get_sensor_numbers()):
        entry = entries.sensors[number]
        try:
            raw = session.ask(
                _SENSORS_AND_EVENTS,
                _GET_READING,
                bytes([entry.sensor_number]),
                entry.sensor_lun,
            )
            reading = entry.decode_sensor_reading(commands, bytearray(raw))
        except BmcError as exc:
            if exc.code is None:
                raise
            LOG.debug("Sensor %s of BMC %s: %s", entry.name, session.target, exc)
            continue
        except (ArithmeticError, IndexError, NotImplementedError) as exc:
            LOG.debug("Sensor %s of BMC %s makes no sense: %s", entry.name, session.target, exc)
            continue
        _add(found, entry, reading)
    return found


def _add(found: Sensors, entry: Any, reading: Any) -> None:
    kind = (str(entry.sensor_type).split() or ["Unknown"])[0]
    name = f"{entry.name} (0x{entry.sensor_number:x})"
    analog = reading.value is not None
    label = "Sensor Type (Threshold)" if analog else "Sensor Type (Discrete)"
    record = {
        "Sensor ID": name,
        "Entity ID": entry.entity_id,
        label: f"{entry.sensor_type} (0x{entry.sensor_type_number:02x})",
        "Sensor Reading": _text(reading, analog),
    }
    if not reading.unavailable:
        record["Status"] = "; ".join(reading.states) or "ok"
    found.setdefault(kind, {})[name] = record


def _text(reading: Any, analog: bool) -> str:
    if reading.unavailable:
        return "No Reading"
    if not analog:
        bits = sum(1 << (state & 0xFF) for state in reading.state_ids)
        return f"{bits:x}h"
    units = _UNITS.get(reading.units, reading.units).strip()
    return f"{reading.value:.6g} (+/- {reading.imprecision or 0:.6g}) {units}".rstrip()


def parse(text: str, no_sensors: Callable[[str], Exception]) -> Sensors:
    """Parse what ``ipmitool sdr -v`` prints.

    :param no_sensors: makes the error of a text in which no sensor was found.
    """
    if not text.strip():
        return {}
    found: Sensors = {}
    for block in re.split(r"\n\s*\n", text):
        record: dict[str, str] = {}
        for line in block.splitlines():
            if line.count(":") == 1:
                key, _colon, value = line.partition(":")
                record[key.strip()] = value.strip()
        if "Sensor Reading" not in record or "Sensor ID" not in record:
            continue
        kinds = [value for key, value in record.items() if _TYPE_LINE.fullmatch(key)]
        if not kinds or not kinds[0]:
            raise no_sensors(f"sensor {record['Sensor ID']} has no type")
        found.setdefault(kinds[0].split()[0], {})[record["Sensor ID"]] = record
    if not found:
        raise no_sensors("no sensor found in the answer of the program")
    return found
