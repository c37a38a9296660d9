"""Services that iDRACs have beside the standard's; nobody is disturbed by them.

Source: the vendor's Redfish API guide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.redfish.forms import ROOT, Document, link, resource, task
from ironic_rs.sandbox.redfish.refusal import Refused

MANAGER = "Managers/BMC"
_OEM = f"{MANAGER}/Oem/Dell"
IMPORT = f"{MANAGER}/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"
#: Service -> its action.
SERVICES = {
    "DellJobService": "DeleteJobQueue",
    "DelliDRACCardService": "iDRACReset",
    "DellLCService": "GetRemoteServicesAPIStatus",
}
_ATTRIBUTE = re.compile(r'<Attribute Name="ServerBoot\.1#(\w+)">([\w-]+)</Attribute>')
_DEVICES = {"VCD-DVD": "Cd"}
_JOB = "JID_1"


def links() -> Document:
    """Links of the manager to the services."""
    return {"Dell": {name: link(f"{ROOT}/{_OEM}/{name}") for name in SERVICES}}


def actions() -> Document:
    """Actions of the manager."""
    return {
        "OemManager.v1_3_0#OemManager.ImportSystemConfiguration": {"target": f"{ROOT}/{IMPORT}"}
    }


def path_of(service: str) -> str:
    """Where the action of a service is."""
    return f"{_OEM}/{service}/Actions/{service}.{SERVICES[service]}"


def find(key: str) -> Document | None:
    """One of the services, or the job of an import, which ends at once."""
    if key == f"TaskService/Tasks/{_JOB}":
        return task(_JOB, "Import configuration", "Completed", "")
    head, _, name = key.rpartition("/")
    if head != _OEM or name not in SERVICES:
        return None
    action = {f"#{name}.{SERVICES[name]}": {"target": f"{ROOT}/{path_of(name)}"}}
    return resource(name, "v1_2_0", f"{ROOT}/{key}", Id=name, Name=name, Actions=action)


def clear_jobs(machine: Machine, body: Mapping[str, Any]) -> None:
    """Forget what updates there were."""
    if body.get("JobID") not in ("JID_CLEARALL", "JID_CLEARALL_FORCE"):
        raise Refused(400, f"There is no job {body.get('JobID')!r}", "ResourceMissingAtURI")
    machine.counters.add("bmc.jobs_cleared")
    machine.firmware.tasks.clear()


def reset(machine: Machine, _body: Mapping[str, Any]) -> None:
    """Be as before: this BMC needs no time for that."""
    machine.counters.add("bmc.resets")


def status(_machine: Machine, _body: Mapping[str, Any]) -> Document:
    """Tell that everything is ready."""
    return {"LCStatus": "Ready", "RTStatus": "Ready", "Status": "Ready"}


def set_boot_device(machine: Machine, body: Mapping[str, Any]) -> str:
    """Boot from a virtual medium; returns the path of the job."""
    found = dict(_ATTRIBUTE.findall(str(body.get("ImportBuffer"))))
    target = _DEVICES.get(found.get("FirstBootDevice", ""))
    if target is None:
        raise Refused(400, "The configuration names no boot device", "PropertyValueNotInList")
    machine.counters.add("bmc.imports")
    machine.boot.target = target
    machine.boot.enabled = "Once" if found.get("BootOnce") == "Enabled" else "Continuous"
    return f"{ROOT}/TaskService/Tasks/{_JOB}"
