"""One firmware update on its way: what to do next, by kind of component.

Each look is short; what has to be waited for is noted in the update itself, a JSON
object in ``driver_internal_info``.

Source: specification drivers.md section 6.9; field case 90.
"""

from __future__ import annotations

import time
from enum import Enum
from typing import Any

import sushy

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.drivers.redfish import firmware_inventory, task_state
from ironic_rs.drivers.redfish.sessions import NodeBmc
from ironic_rs.drivers.redfish.task_state import Phase, TaskView

Update = dict[str, Any]


class Next(Enum):
    """What the caller has to do."""

    WAIT = "wait"
    REBOOT = "reboot"
    DONE = "done"
    FAIL = "fail"


_Answer = tuple[Next, str]
_WAIT: _Answer = (Next.WAIT, "")
_REBOOT: _Answer = (Next.REBOOT, "")
_DONE: _Answer = (Next.DONE, "")


def begin(update: Update, monitor: str | None, version: str | None, unresponsive_wait: int) -> None:
    """Note that the BMC has been given the image.

    :param monitor: where to follow the task; None: there is none.
    :param version: of the component before the update.
    :param unresponsive_wait: seconds to leave the BMC alone, from ``driver_info``.
    """
    component = update["component"]
    is_bmc = component == firmware_inventory.BMC
    default = CONF.redfish.firmware_update_reboot_delay if is_bmc else unresponsive_wait
    update["task_monitor"] = monitor
    update["component_type"] = component.partition(":")[0]
    update["version_before"] = version
    update["wait"] = update.get("wait") or default
    update["wait_start_time"] = time.time()


def advance(node: models.Node, bmc: NodeBmc, update: Update) -> _Answer:
    """Look at an update once; returns what to do, and for FAIL why.

    Changes ``update``, which the caller saves.
    """
    if time.time() - update["wait_start_time"] < update["wait"]:
        return _WAIT
    if "verify_start_time" in update:
        return _verify(node, bmc, update)
    view = task_state.look(bmc, update["task_monitor"])
    if view.phase is Phase.FAILED:
        return Next.FAIL, view.text
    if update["component_type"] == firmware_inventory.BMC:
        return _bmc(node, bmc, update, view)
    if view.phase is Phase.ACTIVE:
        return _active(update, view)
    if not update.get("rebooted"):
        # The new firmware starts to work with a boot.  Of a task that has vanished
        # only the version tells afterwards whether it has done something.
        update["rebooted"] = True
        if view.phase is Phase.GONE:
            update["verify_start_time"] = time.time()
        return _REBOOT
    if view.phase is Phase.GONE:
        update["verify_start_time"] = time.time()
        return _verify(node, bmc, update)
    return _DONE


def _active(update: Update, view: TaskView) -> _Answer:
    """The task goes on; some tasks go on only with a reboot."""
    if update.get("rebooted"):
        return _WAIT
    if update["component_type"] == firmware_inventory.BIOS:
        if view.state is sushy.TaskState.NEW:
            return _WAIT
        update["rebooted"] = True
        return _REBOOT
    if view.state is sushy.TaskState.STARTING:
        begun = update.setdefault("nic_starting_timestamp", time.time())
        if time.time() - begun >= CONF.redfish.firmware_update_nic_starting_wait:
            update["rebooted"] = True
            return _REBOOT
    return _WAIT


def _bmc(node: models.Node, bmc: NodeBmc, update: Update, view: TaskView) -> _Answer:
    """A BMC restarts by itself, and forgets its tasks with that."""
    if view.phase is Phase.ACTIVE:
        return _WAIT
    version = firmware_inventory.version(node, bmc, firmware_inventory.BMC)
    if version is not None and version != update["version_before"]:
        return _DONE
    begun = update.setdefault("bmc_check_start_time", time.time())
    if time.time() - begun < CONF.redfish.firmware_update_bmc_timeout:
        return _WAIT
    if view.phase is Phase.DONE:
        # The same version again.
        return _DONE
    return Next.FAIL, _vanished(version)


def _verify(node: models.Node, bmc: NodeBmc, update: Update) -> _Answer:
    version = firmware_inventory.version(node, bmc, update["component"])
    if version is not None and version != update["version_before"]:
        return _DONE
    if time.time() - update["verify_start_time"] < CONF.redfish.firmware_update_bmc_timeout:
        return _WAIT
    return Next.FAIL, _vanished(version)


def _vanished(version: str | None) -> str:
    return (
        "the BMC does not know the task of the update any more, and the version is still "
        f"{version or 'unknown'}"
    )
