"""What a client may change at a BMC: actions and PATCH requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ironic_rs.sandbox.machine import BOOT_TARGETS, RESET_TYPES, Machine, VirtualMedium
from ironic_rs.sandbox.redfish import bios, dell, events, others, storage, update
from ironic_rs.sandbox.redfish.refusal import Refused

Body = Mapping[str, Any]


@dataclass(frozen=True)
class Created:
    """A request has made a resource.

    :param path: of the resource, from ``/redfish/v1`` on.
    """

    path: str


#: Returns the path of a task that goes on, the resource that was made, or an answer.
Handler = Callable[[Machine, Body], str | Created | dict[str, Any] | None]


def _choice(body: Body, key: str, allowed: tuple[str, ...]) -> str:
    if key not in body:
        raise Refused(400, f"The action needs the parameter {key}", "ActionParameterMissing")
    value = body[key]
    if value not in allowed:
        raise Refused(
            400,
            f"The value {value!r} of {key} is none of {', '.join(allowed)}",
            "ActionParameterValueNotInList",
        )
    return str(value)


def _reset(machine: Machine, body: Body) -> None:
    machine.reset(_choice(body, "ResetType", RESET_TYPES))


def _patch_system(machine: Machine, body: Body) -> None:
    known = {"Boot", "IndicatorLED"}
    if not known & body.keys():
        raise Refused(400, f"None of {sorted(body)} can be written", "PropertyNotWritable")
    if "IndicatorLED" in body:
        machine.indicator = _choice(body, "IndicatorLED", ("Off", "Lit", "Blinking"))
    boot = body.get("Boot")
    if boot is None:
        return
    if not isinstance(boot, Mapping):
        raise Refused(400, "Boot has to be an object", "PropertyValueTypeError")
    new = machine.boot
    enabled, target, mode = new.enabled, new.target, new.mode
    if "BootSourceOverrideEnabled" in boot:
        enabled = _choice(boot, "BootSourceOverrideEnabled", ("Disabled", "Once", "Continuous"))
    if "BootSourceOverrideTarget" in boot:
        target = _choice(boot, "BootSourceOverrideTarget", BOOT_TARGETS)
    if "BootSourceOverrideMode" in boot:
        mode = _choice(boot, "BootSourceOverrideMode", ("UEFI", "Legacy"))
    order = boot.get("BootOrder", machine.boot_order)
    if not isinstance(order, list) or sorted(order) != sorted(machine.boot_order):
        raise Refused(
            400, f"BootOrder has to name {', '.join(machine.boot_order)}", "PropertyValueNotInList"
        )
    if machine.faults.boot_forgets:
        return
    machine.boot_order = list(order)
    new.enabled, new.target, new.mode = enabled, target, mode
    if "HttpBootUri" in boot:
        new.http_uri = str(boot["HttpBootUri"] or "")


def _insert(medium: VirtualMedium) -> Handler:
    def handler(machine: Machine, body: Body) -> None:
        image = body.get("Image")
        if not isinstance(image, str) or not re.match(r"https?://[^/]+/", image):
            raise Refused(400, "Image has to be an http or https URL", "ActionParameterValueError")
        if medium.inserted:
            raise Refused(409, f"{medium.device} has a medium already", "ResourceInUse")
        machine.counters.add("bmc.insert")
        if machine.faults.media_lost:
            return
        medium.image = image
        medium.inserted = bool(body.get("Inserted", True))
        medium.write_protected = bool(body.get("WriteProtected", True))
        medium.username = str(body.get("UserName") or "")
        medium.transfer_protocol = str(body.get("TransferProtocolType") or "")
        medium.transfer_method = str(body.get("TransferMethod") or "")

    return handler


def _eject(medium: VirtualMedium) -> Handler:
    def handler(machine: Machine, _body: Body) -> None:
        machine.counters.add("bmc.eject")
        medium.eject()

    return handler


def _patch_secure_boot(machine: Machine, body: Body) -> None:
    enable = body.get("SecureBootEnable")
    if not isinstance(enable, bool):
        raise Refused(400, "SecureBootEnable has to be true or false", "PropertyValueTypeError")
    if enable and machine.boot.mode == "Legacy":
        raise Refused(400, "Secure Boot needs the boot mode UEFI", "PropertyValueConflict")
    machine.firmware.pending_secure_boot = enable


def _reset_keys(machine: Machine, body: Body) -> None:
    allowed = ("ResetAllKeysToDefault", "DeleteAllKeys", "DeletePK")
    if _choice(body, "ResetKeysType", allowed) != "ResetAllKeysToDefault":
        machine.firmware.pending_secure_boot = False


def _subscribe(machine: Machine, body: Body) -> Created:
    return Created(events.subscribe(machine, body))


_SYSTEM = "Systems/{system}"

HANDLERS: dict[tuple[str, str], Handler] = {
    ("PATCH", _SYSTEM): _patch_system,
    ("POST", f"{_SYSTEM}/Actions/ComputerSystem.Reset"): _reset,
    ("PATCH", f"{_SYSTEM}/Bios/Settings"): bios.change,
    ("POST", f"{_SYSTEM}/Bios/Actions/Bios.ResetBios"): bios.reset,
    ("POST", "UpdateService/Actions/UpdateService.SimpleUpdate"): update.simple_update,
    ("POST", events.SUBSCRIPTIONS): _subscribe,
    ("POST", dell.path_of("DellJobService")): dell.clear_jobs,
    ("POST", dell.path_of("DelliDRACCardService")): dell.reset,
    ("POST", dell.path_of("DellLCService")): dell.status,
    ("POST", dell.IMPORT): dell.set_boot_device,
    ("PATCH", f"{_SYSTEM}/SecureBoot"): _patch_secure_boot,
    ("POST", f"{_SYSTEM}/SecureBoot/Actions/SecureBoot.ResetKeys"): _reset_keys,
}

_MEDIA_ACTION = re.compile(
    r"(?:Systems/\{system\}|Managers/BMC)/VirtualMedia/(?P<device>\w+)"
    r"/Actions/VirtualMedia\.(?P<action>InsertMedia|EjectMedia)"
)


def find(machine: Machine, method: str, path: str) -> Handler | None:
    """What a request changes, None if the BMC has no such action.

    :param path: below ``/redfish/v1``, without slashes at its ends.
    """
    key = path.replace(machine.spec.uuid, "{system}")
    handler = HANDLERS.get((method, key))
    if handler is not None:
        return handler
    change = storage.change(machine, method, key) or others.change(machine, method, key)
    if change is not None:
        return change
    head, _, tail = key.rpartition("/")
    if method == "DELETE" and head == events.SUBSCRIPTIONS and tail in machine.subscriptions:
        return events.unsubscriber(tail)
    match = _MEDIA_ACTION.fullmatch(key)
    if method != "POST" or match is None:
        return None
    medium = machine.media_slots().get(match["device"])
    if medium is None or not medium.usable:
        return None
    return _insert(medium) if match["action"] == "InsertMedia" else _eject(medium)
