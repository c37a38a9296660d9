"""RAID controllers that a BMC shows: storages, drives, volumes, and their tasks.

Schemas: DMTF DSP0268 (Storage, Drive, Volume); OperationApplyTime: DSP0266.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.raid import DISK_BYTES, LEVELS, Controller, Impossible, Volume
from ironic_rs.sandbox.redfish.forms import OK, ROOT, Document, collection, link, resource, task
from ironic_rs.sandbox.redfish.refusal import Refused
from ironic_rs.sandbox.settings import GIB

_TASK = re.compile(r"TaskService/Tasks/RAID-(?P<number>\d+)")
_STORAGE = re.compile(
    r"Systems/\{system\}/Storage/(?P<id>RAID\.\d+)"
    r"(?:/Drives/Disk\.(?P<disk>\d+)|(?P<volumes>/Volumes)(?:/(?P<volume>[^/]+))?)?"
)


def paths(machine: Machine) -> list[str]:
    """Paths of all storages that are RAID controllers."""
    return [_path(machine, controller) for controller in machine.raid.controllers.values()]


def _path(machine: Machine, controller: Controller) -> str:
    return f"{machine.spec.system_path}/Storage/{controller.identity}"


def find(machine: Machine, key: str) -> Document | None:
    """The resource at a path, as in ``documents.DOCUMENTS``; None if it is none of these."""
    machine.raid.work(machine.faults.raid_complaint)
    match = _TASK.fullmatch(key)
    if match is not None:
        return _task(machine, int(match["number"]))
    match = _STORAGE.fullmatch(key)
    controller = machine.raid.controllers.get(match["id"]) if match is not None else None
    if match is None or controller is None:
        return None
    if match["disk"] is not None:
        number = int(match["disk"])
        return _drive(machine, controller, number) if number < controller.disks else None
    if match["volumes"] is None:
        return _storage(machine, controller)
    if controller.apply_time is None:
        return None
    if match["volume"] is None:
        return _volumes(machine, controller)
    volume = controller.volumes.get(match["volume"])
    return None if volume is None else _volume(machine, controller, volume)


def _storage(machine: Machine, controller: Controller) -> Document:
    path = _path(machine, controller)
    shown = resource(
        "Storage",
        "v1_7_1",
        path,
        Id=controller.identity,
        Name="RAID controller",
        StorageControllers=[
            {
                "@odata.id": f"{path}#/StorageControllers/0",
                "MemberId": "0",
                "Name": "RAID controller",
                "SupportedControllerProtocols": ["PCIe"],
                "SupportedDeviceProtocols": ["SAS"],
                "SupportedRAIDTypes": list(LEVELS),
                "Status": OK,
            }
        ],
        Drives=[link(f"{path}/Drives/Disk.{number}") for number in range(controller.disks)],
        Status=OK,
    )
    if controller.apply_time is not None:
        shown["Volumes"] = link(f"{path}/Volumes")
    return shown


def _drive(machine: Machine, controller: Controller, number: int) -> Document:
    path = _path(machine, controller)
    return resource(
        "Drive",
        "v1_8_0",
        f"{path}/Drives/Disk.{number}",
        Id=f"Disk.{number}",
        Name=f"Disk {number}",
        CapacityBytes=DISK_BYTES,
        MediaType="SSD",
        Protocol="SAS",
        Manufacturer="Sandbox",
        Model="Imaginary disk",
        SerialNumber=f"{controller.identity}-{number}",
        Status=OK,
        Links={
            "Volumes": [
                link(f"{path}/Volumes/{volume.identity}")
                for volume in controller.volumes.values()
                if number in volume.disks
            ]
        },
    )


def _support(controller: Controller) -> Document:
    return {"SupportedValues": [controller.apply_time]}


def _volumes(machine: Machine, controller: Controller) -> Document:
    path = f"{_path(machine, controller)}/Volumes"
    shown = collection("Volume", path, [f"{path}/{name}" for name in controller.volumes])
    shown["@Redfish.OperationApplyTimeSupport"] = _support(controller)
    return shown


def _volume(machine: Machine, controller: Controller, volume: Volume) -> Document:
    path = _path(machine, controller)
    shown = resource(
        "Volume",
        "v1_6_0",
        f"{path}/Volumes/{volume.identity}",
        Id=volume.identity,
        Name=volume.name,
        RAIDType=volume.raid_type,
        CapacityBytes=volume.size,
        Status=OK,
        Links={"Drives": [link(f"{path}/Drives/Disk.{number}") for number in volume.disks]},
    )
    shown["@Redfish.OperationApplyTimeSupport"] = _support(controller)
    return shown


def _task(machine: Machine, number: int) -> Document | None:
    for job in machine.raid.jobs:
        if job.number == number:
            return task(f"RAID-{number}", job.title, job.state, job.text)
    return None


# -- what a client may change -------------------------------------------------------

Change = Callable[[Machine, Mapping[str, Any]], str]


def change(machine: Machine, method: str, key: str) -> Change | None:
    """What a request changes, None if it is none of these."""
    match = _STORAGE.fullmatch(key)
    controller = machine.raid.controllers.get(match["id"]) if match is not None else None
    if match is None or controller is None or controller.apply_time is None:
        return None
    if method == "POST" and match["volumes"] and match["volume"] is None:
        return lambda machine, body: _create(machine, controller, body)
    identity = match["volume"]
    if method == "DELETE" and identity in controller.volumes:
        return lambda machine, body: _begin(machine, controller, body, None, identity)
    return None


def _create(machine: Machine, controller: Controller, body: Mapping[str, Any]) -> str:
    here = f"{_path(machine, controller)}/Drives/Disk."
    links = body.get("Links")
    wanted = links.get("Drives") if isinstance(links, Mapping) else None
    if not isinstance(wanted, list) or not wanted:
        raise Refused(400, "A volume needs Links.Drives", "PropertyMissing")
    drives = [str(drive.get("@odata.id")) for drive in wanted]
    known = {f"{here}{number}": number for number in range(controller.disks)}
    unknown = [drive for drive in drives if drive not in known]
    if unknown:
        raise Refused(400, f"No drives of this controller: {unknown}", "PropertyValueError")
    identity = f"Volume.{machine.raid.number()}"
    try:
        volume = controller.make(
            identity,
            str(body.get("Name") or identity),
            str(body.get("RAIDType")),
            body.get("CapacityBytes"),
            [known[drive] for drive in drives],
        )
    except Impossible as exc:
        raise Refused(400, str(exc), "PropertyValueError") from exc
    return _begin(machine, controller, body, volume, None)


def _begin(
    machine: Machine,
    controller: Controller,
    body: Mapping[str, Any],
    volume: Volume | None,
    doomed: str | None,
) -> str:
    """Begin a job; returns the path of its task."""
    machine.raid.work(machine.faults.raid_complaint)
    when = body.get("@Redfish.OperationApplyTime", controller.apply_time)
    if when != controller.apply_time:
        raise Refused(400, f"Apply time {when} is not supported", "PropertyValueNotInList")
    try:
        job = machine.raid.begin(controller, volume, doomed)
    except Impossible as exc:
        raise Refused(409, str(exc), "ResourceInUse") from exc
    what = f"delete.{controller.identity}.{doomed}"
    if volume is not None:
        what = f"create.{controller.identity}.{volume.size // GIB}"
    machine.counters.add(f"bmc.raid.{what}")
    return f"{ROOT}/TaskService/Tasks/RAID-{job.number}"
