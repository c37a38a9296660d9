"""A scripted BMC that updates firmware, and what a periodic asks of the conductor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ironic_rs.domain import states
from tests.harness.bmc import MANAGER, Answer, Bmc, collection, link
from tests.unit.drivers import kit

ROOT = "/redfish/v1"
SERVICE = f"{ROOT}/UpdateService"
TASK = f"{ROOT}/TaskService/Tasks/1"
CHASSIS = f"{ROOT}/Chassis/1"
ADAPTERS = f"{CHASSIS}/NetworkAdapters"
URL = "http://127.0.0.1/image.bin"


def offer(bmc: Bmc) -> dict[str, Any]:
    """Let a BMC take images; returns the task that an update becomes."""
    bmc.tree[ROOT]["UpdateService"] = link(SERVICE)
    action = f"{SERVICE}/Actions/UpdateService.SimpleUpdate"
    bmc.tree[SERVICE] = {
        "Id": "UpdateService",
        "Name": "Update service",
        "Actions": {"#UpdateService.SimpleUpdate": {"target": action}},
    }
    task: dict[str, Any] = {
        "Id": "1",
        "Name": "Update",
        "TaskState": "Running",
        "TaskStatus": "OK",
        "Messages": [],
    }
    bmc.tree[TASK] = task
    bmc.script("POST", "SimpleUpdate", Answer(202, {}, {"Location": TASK}))
    bmc.system["BiosVersion"] = "1.0"
    bmc.system["Links"] = {"Chassis": [link(CHASSIS)], "ManagedBy": [link(MANAGER)]}
    bmc.tree[CHASSIS] = {
        "Id": "1",
        "Name": "Chassis",
        "ChassisType": "RackMount",
        "NetworkAdapters": link(ADAPTERS),
    }
    bmc.tree[ADAPTERS] = collection()
    return task


def run(task: kit.Task, periodic: Callable[[kit.Task], None]) -> list[str]:
    """Run a periodic; returns what it asked of the flows, a reboot as one call."""
    task.flows.calls.clear()
    task.shared = True
    periodic(task)
    return [
        call[1] if call[0] == "power" else call[0]
        for call in task.flows.calls
        if call[0] in ("resume", "fail", "touch") or call == ("power", states.REBOOT)
    ]
