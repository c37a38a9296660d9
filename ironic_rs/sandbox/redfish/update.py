"""Firmware updates of a BMC: UpdateService, tasks, and the versions that come of them.

An image is told by its file name: ``bios-2.0.bin`` makes the BIOS version 2.0, ``bmc-``
and ``nic-`` likewise.  The BMC takes a new version of its own at the second look at the
task; BIOS and network card take it at a boot.  The BMC reads the image from where it is
told, as a real one does; one that is not there is no reason to fail: what is in it does
not matter.  Schemas: DMTF DSP0268.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.redfish import forms
from ironic_rs.sandbox.redfish.forms import ROOT
from ironic_rs.sandbox.redfish.refusal import Refused

TASKS = "TaskService/Tasks"
_ACTION = f"{ROOT}/UpdateService/Actions/UpdateService.SimpleUpdate"
_IMAGE = re.compile(r"https?://[^/]+/(?:.*/)?(?P<part>bios|bmc|nic)-(?P<version>[\w.]+)\.bin")

#: In a script: the BMC does not know the task any more, and the firmware is new, or not.
GONE, LOST = "gone", "lost"


def service(_machine: Machine) -> dict[str, Any]:
    """The update service."""
    return {
        "@odata.type": "#UpdateService.v1_8_0.UpdateService",
        "@odata.id": f"{ROOT}/UpdateService",
        "Id": "UpdateService",
        "Name": "Update service",
        "ServiceEnabled": True,
        "Actions": {"#UpdateService.SimpleUpdate": {"target": _ACTION}},
    }


def simple_update(machine: Machine, body: Mapping[str, Any]) -> str:
    """Take an image; returns the path of the task."""
    image = _IMAGE.fullmatch(str(body.get("ImageURI")))
    if image is None:
        raise Refused(
            400, f"There is no firmware at {body.get('ImageURI')!r}", "ActionParameterValueError"
        )
    task = {
        "part": image["part"],
        "version": image["version"],
        "image": str(body["ImageURI"]),
        "sha256": "",
        "script": machine.faults.update_states,
        "state": "New",
        "text": "",
    }
    machine.firmware.tasks.append(task)
    machine.download(task)
    return f"{ROOT}/{TASKS}/{len(machine.firmware.tasks)}"


def task(machine: Machine, number: str) -> dict[str, Any] | None:
    """A task as it is now, None when there is none; looking at it moves it on."""
    tasks = machine.firmware.tasks
    if not number.isdecimal() or not 1 <= int(number) <= len(tasks):
        return None
    found = tasks[int(number) - 1]
    shown = dict(found)
    complaint = machine.faults.update_complaint
    if found["script"]:
        shown = dict(found, state=_next_of_script(machine, found))
        if shown["state"] in (GONE, LOST):
            return None
    elif complaint and found["state"] != "Completed":
        machine.firmware.finish(found, complaint)
        shown = dict(found)
    elif found["part"] == "bmc" and found["state"] == "Starting":
        machine.firmware.finish(found)
    return forms.task(number, f"Update of {shown['part']}", shown["state"], shown["text"])


def _next_of_script(machine: Machine, task: dict[str, str]) -> str:
    state, _, rest = task["script"].partition(" ")
    if rest:
        task["script"] = rest
    if state in ("Completed", GONE):
        machine.firmware.finish(task)
    return state


def adapter(machine: Machine) -> dict[str, Any]:
    """The network card."""
    return {
        "@odata.type": "#NetworkAdapter.v1_5_0.NetworkAdapter",
        "@odata.id": f"{ROOT}/Chassis/Tray/NetworkAdapters/Card",
        "Id": "Card",
        "Name": "Simulated network card",
        "Manufacturer": "Sandbox",
        "Model": "Simulated network card",
        "SerialNumber": f"NIC{machine.spec.index + 1:06d}",
        "Controllers": [{"FirmwarePackageVersion": machine.firmware.versions["nic"]}],
    }
