"""Systems that share a BMC with the machine: the fault ``bmc_systems``.

They only have a power state.  Schema: DMTF DSP0268.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.redfish.forms import OK, ROOT, Document, resource

_KEY = re.compile(r"Systems/(?P<name>other-(?P<number>\d+))(?P<action>/Actions/\S+)?")
_RESET = "/Actions/ComputerSystem.Reset"
_RESETS = {"On": "On", "ForceOff": "Off"}


def paths(machine: Machine) -> list[str]:
    """Paths of the systems."""
    return [f"{ROOT}/Systems/other-{n}" for n in range(1, machine.faults.bmc_systems + 1)]


def _name(machine: Machine, key: str, action: str | None) -> str | None:
    match = _KEY.fullmatch(key)
    if match is None or match["action"] != action:
        return None
    return match["name"] if 1 <= int(match["number"]) <= machine.faults.bmc_systems else None


def find(machine: Machine, key: str) -> Document | None:
    """The system at a path below ``/redfish/v1``, None if it is none."""
    name = _name(machine, key, None)
    if name is None:
        return None
    return resource(
        "ComputerSystem",
        "v1_10_0",
        f"{ROOT}/Systems/{name}",
        Id=name,
        Name=name,
        PowerState=machine.other_systems.get(name, "Off"),
        Status=OK,
        Actions={
            "#ComputerSystem.Reset": {
                "target": f"{ROOT}/Systems/{name}{_RESET}",
                "ResetType@Redfish.AllowableValues": list(_RESETS),
            }
        },
    )


def change(
    machine: Machine, method: str, key: str
) -> Callable[[Machine, Mapping[str, Any]], None] | None:
    """What a request changes at such a system, None if nothing."""
    name = _name(machine, key, _RESET)
    if method != "POST" or name is None:
        return None

    def switch(machine: Machine, body: Mapping[str, Any]) -> None:
        machine.other_systems[name] = _RESETS.get(str(body.get("ResetType")), "Off")

    return switch
