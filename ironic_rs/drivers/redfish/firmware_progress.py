"""One firmware update on its way: what to do next, by kind of component.

Each look is short; what has to be waited for is noted in the update itself, a JSON
object in ``driver_internal_info``.

Source: specification drivers.md sections 6.8a and 6.9; field case 90.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import sushy

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.drivers.redfish import firmware_inventory, task_state
from ironic_rs.drivers.redfish.sessions import NodeBmc
from ironic_rs.drivers.redfish.task_state import Next, Phase, TaskView

Update = dict[str, Any]

#: component_type of an update that does not say what it is for.
UNKNOWN = "unknown"
_STARTING, _PENDING = sushy.TaskState.STARTING, sushy.TaskState.PENDING
#: Task states in which a BMC may be waiting for a boot of the machine; else both.
_WAITS_FOR_BOOT = {UNKNOWN: (_PENDING,)}
#: The first boot of these comes with the image, maybe before the BMC has read it; else 1.
_MOST_BOOTS = {UNKNOWN: 2}


_Answer = tuple[Next, str]
_WAIT: _Answer = (Next.WAIT, "")
_REBOOT: _Answer = (Next.REBOOT, "")
_DONE: _Answer = (Next.DONE, "")


def begin(update: Update, versions: Mapping[str, str], unresponsive_wait: int) -> None:
    """Note that the BMC is about to be given the image.

    :param versions: of the component, or of all when it is unknown, before the update.
    :param unresponsive_wait: seconds to leave the BMC alone, from ``driver_info``.
    """
    component = update.get("component")
    is_bmc = component == firmware_inventory.BMC
    default = CONF.redfish.firmware_update_reboot_delay if is_bmc else unresponsive_wait
    update["task_monitor"] = None
    update["component_type"] = component.partition(":")[0] if component else UNKNOWN
    update["versions_before"] = dict(versions)
    update["wait"] = update.get("wait") or default
    update["wait_start_time"] = time.time()


def advance(node: models.Node, bmc: NodeBmc, update: Update) -> _Answer:
    """Look at an update once; returns what to do, and for FAIL why.

    Changes ``update``, which the caller saves.
    """
    if "settle_start_time" in update:
        return _settle(node, bmc, update)
    if time.time() - update["wait_start_time"] < update["wait"]:
        return _WAIT
    answer = _look(node, bmc, update)
    return _settle(node, bmc, update) if answer[0] is Next.DONE else answer


def silent(update: Update, reason: str) -> _Answer:
    """The BMC could not be looked at, as it is when BMCs restart in the middle."""
    if "settle_start_time" not in update:
        return _WAIT
    update["settle_successes"] = 0
    return _unsettled(update, reason)


def _look(node: models.Node, bmc: NodeBmc, update: Update) -> _Answer:
    if "verify_start_time" in update:
        return _verify(node, bmc, update)
    view = task_state.look(bmc, update["task_monitor"])
    if view.phase is Phase.FAILED:
        return Next.FAIL, view.text
    if update["component_type"] == firmware_inventory.BMC:
        return _bmc(node, bmc, update, view)
    if view.phase is Phase.ACTIVE:
        return _active(update, view)
    if not update.get("boots"):
        # The new firmware starts to work with a boot.  Of a task that has vanished
        # only the version tells afterwards whether it has done something.
        if view.phase is Phase.GONE:
            update["verify_start_time"] = time.time()
        return _boot(update)
    if view.phase is Phase.GONE:
        update["verify_start_time"] = time.time()
        return _verify(node, bmc, update)
    return _DONE


def _boot(update: Update) -> _Answer:
    update["boots"] = update.get("boots", 0) + 1
    return _REBOOT


def _active(update: Update, view: TaskView) -> _Answer:
    """The task goes on; some tasks go on only with a reboot."""
    kind = update["component_type"]
    if update.get("boots", 0) >= _MOST_BOOTS.get(kind, 1):
        return _WAIT
    if kind == firmware_inventory.BIOS:
        return _WAIT if view.state is sushy.TaskState.NEW else _boot(update)
    if view.state in _WAITS_FOR_BOOT.get(kind, (_STARTING, _PENDING)):
        begun = update.setdefault("boot_wanted_since", time.time())
        if time.time() - begun >= CONF.redfish.firmware_update_nic_starting_wait:
            return _boot(update)
    return _WAIT


def _bmc(node: models.Node, bmc: NodeBmc, update: Update, view: TaskView) -> _Answer:
    """A BMC restarts by itself, and forgets its tasks with that."""
    if view.phase is Phase.ACTIVE:
        return _WAIT
    now = time.time()
    pause = CONF.redfish.firmware_update_bmc_version_check_interval
    if now - update.get("bmc_version_checked_at", 0) < pause:
        return _WAIT
    update["bmc_version_checked_at"] = now
    versions = firmware_inventory.versions(node, bmc, firmware_inventory.BMC)
    if _changed(update, versions):
        return _DONE
    begun = update.setdefault("bmc_check_start_time", now)
    if now - begun < CONF.redfish.firmware_update_bmc_timeout:
        return _WAIT
    if view.phase is Phase.DONE:
        # The same version again.
        return _DONE
    return Next.FAIL, _vanished(update, versions)


def _verify(node: models.Node, bmc: NodeBmc, update: Update) -> _Answer:
    versions = firmware_inventory.versions(node, bmc, update.get("component"))
    if _changed(update, versions):
        return _DONE
    if time.time() - update["verify_start_time"] < CONF.redfish.firmware_update_bmc_timeout:
        return _WAIT
    return Next.FAIL, _vanished(update, versions)


def _changed(update: Update, versions: Mapping[str, str]) -> bool:
    """Tell whether a version is another one; one that was not shown before tells nothing."""
    before = update["versions_before"]
    return any(before.get(name, version) != version for name, version in versions.items())


def _vanished(update: Update, versions: Mapping[str, str]) -> str:
    if update.get("component"):
        still = f"the version is still {next(iter(versions.values()), 'unknown')}"
    else:
        still = "no version of BIOS, BMC and network cards has changed"
    return f"the BMC does not know the task of the update any more, and {still}"


def _settle(node: models.Node, bmc: NodeBmc, update: Update) -> _Answer:
    """After an update a BMC may come and go: wait until it stays.

    :raises sushy.exceptions.SushyError: not all of it can be read.
    """
    conf, now = CONF.redfish, time.time()
    if (
        not conf.firmware_update_required_successes
        or not conf.firmware_update_resource_validation_timeout
    ):
        return _DONE
    update.setdefault("settle_start_time", now)
    if now - update.get("settle_checked_at", 0) < conf.firmware_update_validation_interval:
        return _WAIT
    firmware_inventory.read_all(bmc)
    update["settle_checked_at"] = now
    update["settle_successes"] = update.get("settle_successes", 0) + 1
    if update["settle_successes"] >= conf.firmware_update_required_successes:
        return _DONE
    return _unsettled(update, "it comes and goes")


def _unsettled(update: Update, reason: str) -> _Answer:
    limit = CONF.redfish.firmware_update_resource_validation_timeout
    if time.time() - update["settle_start_time"] <= limit:
        return _WAIT
    return Next.FAIL, (
        f"the image is applied, but the BMC was not steadily readable within {limit} s: {reason}"
    )
