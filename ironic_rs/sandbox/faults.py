"""Faults that a machine can be told to have, at start or at run time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ironic_rs.sandbox.settings import MachineSpec, SettingsError

#: Values of bmc_etags.
ETAGS = ("", "strict", "outdated")


def _fault(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass
class Faults:
    """The faults of one machine.  The default of each is a healthy machine."""

    bmc_delay: float = _fault(0.0, "seconds that the BMC takes for each request")
    bmc_status: int = _fault(0, "the BMC answers with this HTTP status, for example 503")
    bmc_retry_after: int | None = _fault(None, "Retry-After header (s) beside bmc-status")
    bmc_message_id: str = _fault(
        "", "MessageId beside bmc-status, for example ActionParameterValueConflict"
    )
    bmc_drop: bool = _fault(False, "the BMC closes the connection instead of answering")
    bmc_reset: bool = _fault(False, "the BMC breaks the connection off (TCP reset)")
    bmc_body: str = _fault("", "the BMC answers with this text in place of JSON")
    bmc_endless: bool = _fault(False, "the BMC begins an answer that never ends")
    bmc_omit: str = _fault(
        "", "properties that the BMC leaves out, with spaces between: 'Boot Status/Health'"
    )
    bmc_null: str = _fault("", "properties that the BMC shows as null, as bmc-omit")
    bmc_page: int = _fault(0, "collections come in pages of so many members")
    bmc_systems: int = _fault(0, "the BMC has so many systems more, switched off")
    bmc_etags: str = _fault(
        "",
        "strict: changes need the current ETag in If-Match; outdated: the first with it is "
        "refused (412) all the same, as if the resource had changed meanwhile",
    )
    bmc_only: str = _fault(
        "", "regular expression on 'METHOD /path': the faults above hit only these requests"
    )
    bmc_times: int | None = _fault(
        None, "status, drop, reset, body and endless hit so many requests, then end"
    )
    power_stuck: bool = _fault(False, "power requests are accepted, but nothing switches")
    power_lie: str = _fault(
        "", "the BMC always reports this power state; several, with spaces, in turn: 'On Off null'"
    )
    boot_forgets: bool = _fault(False, "boot settings are accepted and not kept")
    media_slots: str = _fault(
        "",
        "slots for virtual media, with spaces between: types joined by '+', '-' for none, "
        "'null', and '!' at the end for a slot without actions: 'CD! - USBStick CD+DVD'",
    )
    media_lost: bool = _fault(False, "media are accepted and never inserted")
    bios_complaint: str = _fault("", "boots apply no BIOS settings; the BMC gives this reason")
    update_complaint: str = _fault("", "firmware updates end in an exception; the BMC gives this")
    update_states: str = _fault(
        "",
        "states that the task of a firmware update shows, one a look, with spaces between; the "
        "last one stays. gone: not known any more, and the firmware is new; lost: it is not",
    )
    raid_complaint: str = _fault("", "RAID jobs end in an exception; the BMC gives this reason")
    boot_held: int | None = _fault(
        None, "after so many boots the next one stays in the self-test, until this is reset"
    )
    session_lifetime: float | None = _fault(None, "BMC sessions end after so many seconds")
    agent_silent: bool = _fault(False, "the ramdisk boots, but the agent never calls")
    agent_inspection_error: str = _fault("", "the ramdisk reports that inspection failed with this")
    agent_fail_step: str = _fault("", "this in-band step fails: 'step', 'interface.step' or '*'")
    agent_step_seconds: float = _fault(0.0, "each in-band step takes so long in addition")
    agent_status: int = _fault(0, "the agent answers commands with this HTTP status")
    agent_times: int | None = _fault(None, "agent-status hits so many requests, then ends")
    agent_delay: float = _fault(0.0, "seconds that the agent takes for each request")
    agent_checksum_mismatch: bool = _fault(False, "the downloaded image is damaged on the way")
    agent_restart_at: str = _fault("", "the agent restarts once in the middle of this step")
    agent_heartbeat_delay: float = _fault(0.0, "each heartbeat is late by so many seconds")

    def to_json(self) -> dict[str, Any]:
        """All faults by name."""
        return asdict(self)

    def update(self, values: Mapping[str, Any]) -> None:
        """Set some faults; all of ``values`` or none.

        :param values: JSON values by name (``_`` or ``-``); null resets to the default.
        :raises SettingsError: unknown name or unsuitable value.
        """
        checked = {}
        for key, value in values.items():
            name = key.replace("-", "_")
            checked[name] = _convert(name, value)
        for name, value in checked.items():
            setattr(self, name, value)

    def take_bmc_hit(self, method: str, path: str) -> bool:
        """Whether this request gets no regular answer; counts ``bmc_times`` down."""
        broken = (
            self.bmc_status,
            self.bmc_drop,
            self.bmc_reset,
            self.bmc_body,
            self.bmc_endless,
        )
        if not any(broken) or not self.concerns(method, path):
            return False
        if self.bmc_times is not None:
            if self.bmc_times <= 0:
                return False
            self.bmc_times -= 1
        return True

    def concerns(self, method: str, path: str) -> bool:
        """Whether ``bmc_only`` selects the request."""
        return not self.bmc_only or re.search(self.bmc_only, f"{method} {path}") is not None

    def take_agent_status(self) -> int:
        """HTTP status to answer an agent request with, 0 for the regular answer."""
        if not self.agent_status:
            return 0
        if self.agent_times is not None:
            if self.agent_times <= 0:
                return 0
            self.agent_times -= 1
        return self.agent_status

    def fails(self, interface: str, step: str) -> bool:
        """Whether ``agent_fail_step`` selects the step."""
        return selects(self.agent_fail_step, interface, step)

    def take_restart(self, interface: str, step: str) -> bool:
        """Whether the agent restarts in this step; it does so only once."""
        if not selects(self.agent_restart_at, interface, step):
            return False
        self.agent_restart_at = ""
        return True


def selects(pattern: str, interface: str, step: str) -> bool:
    """Whether ``pattern`` (``*``, ``step`` or ``interface.step``) means this step."""
    return pattern in ("*", step, f"{interface}.{step}") if pattern else False


def _convert(name: str, value: Any) -> Any:
    spec = next((item for item in fields(Faults) if item.name == name), None)
    if spec is None:
        known = ", ".join(item.name for item in fields(Faults))
        raise SettingsError(f"unknown fault {name!r}; known are {known}")
    if value is None:
        return spec.default
    wanted = str(spec.type).split(" ")[0]
    try:
        return _CONVERTERS[wanted](name, value)
    except (TypeError, ValueError, re.error) as exc:
        raise SettingsError(f"fault {name}: {value!r} is no {wanted}: {exc}") from exc


def _to_bool(_name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise ValueError("use true or false")


def _to_number(kind: type[int] | type[float], value: Any) -> int | float:
    if isinstance(value, bool):
        raise ValueError("a number is needed")
    number = kind(value)
    if number < 0:
        raise ValueError("it is negative")
    return number


def _to_text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    if name == "bmc_only":
        re.compile(value)
    if name == "bmc_etags" and value not in ETAGS:
        raise ValueError(f"use one of {', '.join(filter(None, ETAGS))}")
    return value


_CONVERTERS = {
    "bool": _to_bool,
    "int": lambda _name, value: _to_number(int, value),
    "float": lambda _name, value: _to_number(float, value),
    "str": _to_text,
}


@dataclass(frozen=True)
class FaultOption:
    """One ``--fault NAME=VALUE[,NAME=VALUE...][@MACHINE[,MACHINE...]]``."""

    values: Mapping[str, str]
    machines: frozenset[str]

    def applies_to(self, spec: MachineSpec) -> bool:
        """Machines are named by name, UUID or number (from 1); none named means all."""
        if not self.machines:
            return True
        return not self.machines.isdisjoint({spec.name, spec.uuid, str(spec.index + 1)})


def parse_option(text: str) -> FaultOption:
    """Parse the value of ``--fault``.

    A flag without a value is switched on: ``agent-silent@3``.

    :raises SettingsError: malformed, unknown fault, or unsuitable value.
    """
    assignments, _, machines = text.partition("@")
    values = {}
    for item in assignments.split(","):
        name, equals, value = item.partition("=")
        if not name.strip():
            raise SettingsError(f"--fault {text!r}: a name is missing")
        values[name.strip()] = value if equals else "true"
    Faults().update(values)
    named = frozenset(part.strip() for part in machines.split(",") if part.strip())
    return FaultOption(values, named)


def apply_options(faults: Faults, spec: MachineSpec, options: Iterable[FaultOption]) -> None:
    """Give a machine the faults of the command line that concern it."""
    for option in options:
        if option.applies_to(spec):
            faults.update(option.values)
