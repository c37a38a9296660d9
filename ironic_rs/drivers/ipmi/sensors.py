"""Sensor readings, in the form of the program ``ipmitool sdr -v``.

Consumers of sensor notifications know that form: {type: {"NAME (0xNN)": {field: text}}}.

Source: specification drivers.md sections 5.4 and 5.5, operations.md (sensor data).
"""

from __future__ import annotations

import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyghmi.exceptions
from oslo_log import log
from pyghmi.ipmi import sdr
from pyghmi.ipmi.private import constants

from ironic_rs.drivers.ipmi.errors import BmcError, UnreadableSensors

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
#: Storage request "get sensor record", and "there is no such record".
_NOT_THERE = (0x0A, 0x23, 0xCB)
#: Kind of reading that is compared with thresholds.
_THRESHOLD = 0x01


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
        #: There is no first record.
        self.no_records = False

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
            if (netfn, command, exc.code) == _NOT_THERE and not any(data[2:4]):
                self.no_records = True
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
    try:
        # The library keeps a weak reference to its command object.
        entries = _Sdr(commands)
    except pyghmi.exceptions.IpmiException as exc:
        if commands.no_records:
            return {}
        raise BmcError(f"its list of sensors is not readable: {exc}") from exc
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
        _add(found, entry, reading, raw[0])
    return found


def _add(found: Sensors, entry: Any, reading: Any, raw: int) -> None:
    kind = (str(entry.sensor_type).split() or ["Unknown"])[0]
    name = f"{entry.name} (0x{entry.sensor_number:x})"
    analog = entry.reading_type == _THRESHOLD
    record = {
        "Sensor ID": name,
        "Entity ID": entry.entity_id,
        f"Sensor Type ({'Threshold' if analog else 'Discrete'})": (
            f"{entry.sensor_type} (0x{entry.sensor_type_number:02x})"
        ),
        "Sensor Reading": _text(reading, raw),
    }
    if analog:
        states = [state.removesuffix(" threshold").title() for state in reading.states]
        record["Status"] = "Not Available" if reading.unavailable else ", ".join(states) or "ok"
    elif reading.states:
        record["States Asserted"] = ", ".join(reading.states)
    found.setdefault(kind, {})[name] = record


def _text(reading: Any, raw: int) -> str:
    if reading.unavailable:
        return "No Reading"
    if reading.value is None:
        return f"{raw:x}h"
    units = _UNITS.get(reading.units, reading.units).strip()
    return f"{reading.value:.6g} (+/- {reading.imprecision or 0:.6g}) {units}".rstrip()


def parse(text: str) -> Sensors:
    """Parse what ``ipmitool sdr -v`` prints.

    :raises UnreadableSensors: no sensor in it, or one without a type.
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
            raise UnreadableSensors(f"sensor {record['Sensor ID']} has no type")
        found.setdefault(kinds[0].split()[0], {})[record["Sensor ID"]] = record
    if not found:
        raise UnreadableSensors("no sensor found in the answer of the program")
    return found
