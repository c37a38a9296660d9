"""The scripted BMC of the Redfish tests, with services of the vendor's own."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.drivers.idrac import oem
from tests.harness.bmc import MANAGER, Answer, Bmc, link
from tests.unit.drivers.redfish.conftest import (  # noqa: F401
    Clock,
    bmc,
    clock,
    make_task,
    no_sessions_left,
    options,
    task,
)

SERVICES = {
    "DellJobService": "DeleteJobQueue",
    "DelliDRACCardService": "iDRACReset",
    "DellLCService": "GetRemoteServicesAPIStatus",
}
IMPORT = f"{MANAGER}/Actions/Oem/EID_674_Manager.ImportSystemConfiguration"


@pytest.fixture(autouse=True)
def own_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.setattr(oem, "time", clock)


@pytest.fixture
def services(bmc: Bmc) -> dict[str, Any]:  # noqa: F811
    """Give the BMC the services; returns the status that it tells, to be changed."""
    status = {"LCStatus": "Ready", "RTStatus": "Ready"}
    manager = bmc.tree[MANAGER]
    manager["Links"] = {"Oem": {"Dell": {}}}
    for name, action in SERVICES.items():
        path = f"{MANAGER}/Oem/Dell/{name}"
        manager["Links"]["Oem"]["Dell"][name] = link(path)
        target = f"{path}/Actions/{name}.{action}"
        bmc.tree[path] = {"Id": name, "Actions": {f"#{name}.{action}": {"target": target}}}
        bmc.script("POST", f"{action}$", lambda _request: Answer(200, status))
    manager["Actions"] = {
        "Oem": {"OemManager.v1_3_0#OemManager.ImportSystemConfiguration": {"target": IMPORT}}
    }
    bmc.script("POST", "ImportSystemConfiguration", Answer(204))
    return status
