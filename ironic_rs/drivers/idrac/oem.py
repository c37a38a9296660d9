"""Requests that only an iDRAC knows: its services beside the standard's.

They are a few actions without state; the library of the vendor waits by itself, by ping,
for many minutes and without any deadline of the caller's, so it is not used.

Source: specification drivers.md section 7; the vendor's Redfish API guide.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import requests
import sushy.exceptions
from oslo_log import log
from sushy.resources import base

from ironic_rs.domain import errors
from ironic_rs.drivers import patience
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish.resources import members
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk
from ironic_rs.drivers.redfish.task_state import Phase, look

LOG = log.getLogger(__name__)

#: A service, its action, and what is sent along.
Request = tuple[str, str, Mapping[str, Any]]
CLEAR_JOBS: Request = (
    "DellJobService",
    "#DellJobService.DeleteJobQueue",
    {"JobID": "JID_CLEARALL_FORCE"},
)
RESET: Request = ("DelliDRACCardService", "#DelliDRACCardService.iDRACReset", {"Force": "Graceful"})
_STATUS: Request = ("DellLCService", "#DellLCService.GetRemoteServicesAPIStatus", {})

_IMPORT = "#OemManager.ImportSystemConfiguration"
#: The service takes no blanks between elements.
_BOOT_DEVICE = (
    '<SystemConfiguration><Component FQDD="{manager}">'
    '<Attribute Name="ServerBoot.1#BootOnce">{once}</Attribute>'
    '<Attribute Name="ServerBoot.1#FirstBootDevice">{device}</Attribute>'
    "</Component></SystemConfiguration>"
)
#: Seconds between looks at a BMC that gets ready, or at a job.
READY_POLL = 10.0
JOB_POLL = 1.0
#: Seconds for a reset BMC to be ready again; they take three to six minutes.
RESET_TIMEOUT = 900.0
#: A reset BMC that answers all the time is believed to be back after so many seconds.
UNSEEN_RESET = 60.0
#: Seconds that one look at a BMC that may be away takes at most.
LOOK_BUDGET = 15.0


class Service(base.ResourceBase):
    """A service of the vendor's own, or a manager that has such actions."""

    actions = base.Field("Actions", default={})

    def act(self, action: str, body: Mapping[str, Any]) -> requests.Response | None:
        """Send an action; return None if the resource has no such action."""
        known: dict[str, Any] = {**self.actions, **(self.actions.get("Oem") or {})}
        for name, about in known.items():
            # Older firmware writes the version of the schema before the name.
            if name.endswith(action):
                answer: requests.Response = self._conn.post(about["target"], data=dict(body))
                return answer
        return None


def _managers(task: Task, bmc: NodeBmc) -> list[Any]:
    return members(task.node, bmc.system, "managers")


def act(task: Task, bmc: NodeBmc, request: Request) -> requests.Response | None:
    """Send an action to the first manager that has the service; None if there is none."""
    name, action, body = request
    for manager in _managers(task, bmc):
        links = (manager.json.get("Links") or {}).get("Oem") or {}
        path = ((links.get("Dell") or {}).get(name) or {}).get("@odata.id")
        if path:
            answer = bmc.resource(Service, path).act(action, body)
            if answer is not None:
                return answer
    return None


def reset(task: Task, bmc: NodeBmc) -> bool:
    """Reset the BMC; return False if it has no such request.

    Nothing follows from a lost answer: a BMC that goes down may not get to send it.
    """
    # What is read before has to be answered, so that a dead BMC is told from this.
    bmc.reread()
    try:
        return act(task, bmc, RESET) is not None
    except sushy.exceptions.ConnectionError as exc:
        LOG.info("Node %s: no answer to the reset of its BMC: %s", task.node.uuid, exc)
        return True


def is_ready(task: Task, bmc: NodeBmc, *, real_time: bool = False) -> bool:
    """Tell whether the BMC takes requests that change something.

    :param real_time: also those that the running system applies, such as RAID.
    """
    answer = act(task, bmc, _STATUS)
    if answer is None:
        return True
    status = answer.json()
    wanted = ("LCStatus", "RTStatus") if real_time else ("LCStatus",)
    return all(status.get(name, "Ready") == "Ready" for name in wanted)


def boot_virtual_medium(
    task: Task, bmc: NodeBmc, device: str, *, persistent: bool, timeout: float
) -> bool:
    """Make a virtual medium the boot device.

    :param device: ``VCD-DVD`` or ``VFDD``.
    :param timeout: seconds that the BMC may take.
    :returns: False if the BMC has no such request.
    :raises RedfishError: the BMC failed, or did not end in time.
    """
    for manager in _managers(task, bmc):
        buffer = _BOOT_DEVICE.format(
            manager=manager.identity, once="Disabled" if persistent else "Enabled", device=device
        )
        body = {"ShareParameters": {"Target": "ALL"}, "ImportBuffer": buffer}
        answer = bmc.resource(Service, manager.path).act(_IMPORT, body)
        if answer is not None:
            _follow(task, bmc, device, timeout)
            return True
    return False


def _follow(task: Task, bmc: NodeBmc, device: str, timeout: float) -> None:
    """Wait for the job of the request just sent; one that is forgotten has ended."""
    monitor = bmc.accepted_task()
    uri = None if monitor is None else monitor.task_monitor_uri
    end = time.monotonic() + timeout
    while True:
        view = look(bmc, uri)
        if view.phase in (Phase.DONE, Phase.GONE):
            return
        if view.phase is Phase.FAILED or time.monotonic() >= end:
            ended = "failed" if view.phase is Phase.FAILED else f"did not end in {timeout:.0f} s"
            raise errors.RedfishError(
                error=(
                    f"the job that makes {device} the boot device of node {task.node.uuid} "
                    f"{ended}: {view.text or 'the BMC gives no reason'}"
                )
            )
        time.sleep(JOB_POLL)


def wait_until_back(task: Task) -> None:
    """Wait for a BMC that has just been reset.

    :raises RedfishError: it is not ready after 15 minutes.
    """
    began = time.monotonic()
    was_away = False
    while True:
        time.sleep(READY_POLL)
        said = "it says that it is not ready"
        try:
            with (
                patience.at_most(LOOK_BUDGET),
                talk(task, "waiting for the reset BMC") as bmc,
            ):
                ready = is_ready(task, bmc) and bmc.reread() is not None
        except errors.RedfishError as exc:
            was_away, ready, said = True, False, str(exc)
        waited = time.monotonic() - began
        if ready and (was_away or waited >= UNSEEN_RESET):
            return
        if waited >= RESET_TIMEOUT:
            raise errors.RedfishError(
                error=f"the BMC of node {task.node.uuid} is not back after its reset: {said}"
            )


def wait_until_ready(task: Task, timeout: float) -> None:
    """Wait until the BMC can change RAID volumes.

    :raises RedfishError: it cannot within ``timeout`` seconds.
    """
    end = time.monotonic() + timeout
    while True:
        with talk(task, "asking whether the BMC is ready") as bmc:
            if is_ready(task, bmc, real_time=True):
                return
        if time.monotonic() >= end:
            raise errors.RedfishError(
                error=(
                    f"the BMC of node {task.node.uuid} is not ready for RAID after "
                    f"{timeout:.0f} s; a reset (clean step reset_idrac) may help"
                )
            )
        time.sleep(READY_POLL)


def pxe_interfaces(bmc: NodeBmc) -> list[str]:
    """Return the ids of the network interfaces that boot from the network, in order."""
    try:
        attributes = bmc.system.bios.attributes or {}
    except (sushy.exceptions.MissingAttributeError, sushy.exceptions.ResourceNotFoundError):
        return []
    found = []
    for number in range(1, 5):
        if attributes.get(f"PxeDev{number}EnDis") == "Enabled":
            found.append(str(attributes.get(f"PxeDev{number}Interface") or ""))
    return [name for name in found if name]
