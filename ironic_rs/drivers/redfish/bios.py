"""BIOS settings through Redfish: they are written, and a reboot applies them.

A step runs twice: the first time it asks the BMC and reboots, the second time, after
the reboot, it looks whether the settings are there.  What was asked for is kept in
``driver_internal_info["redfish_bios_state"]``, so another conductor can go on.

Source: specification drivers.md section 6.8, conductor.md section 7; field case 92.
"""

from __future__ import annotations

import time
from typing import Any

import sushy
import sushy.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import bios as db_bios
from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers.agent import ramdisk
from ironic_rs.drivers.base import BIOSInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    node_periodic,
    require_exclusive_lock,
    service_step,
)
from ironic_rs.drivers.redfish import bios_attributes
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk

LOG = log.getLogger(__name__)

#: driver_internal_info: {reboot_requested: True, requested_bios_attrs: {name: value},
#: requested_at: seconds since the epoch}.
STATE = steps.BIOS_STATE

_SETTINGS = {
    "settings": {
        "description": "List of {name, value} of the BIOS settings to apply.",
        "required": True,
    }
}
_WAITING = (states.CLEANWAIT, states.SERVICEWAIT, states.DEPLOYWAIT)
_BOOTED = (sushy.BootProgressStates.OS_BOOT_STARTED, sushy.BootProgressStates.OS_RUNNING)
#: The firmware has done its part; what follows is the business of an operating system.
_POSTED = (*_BOOTED, sushy.BootProgressStates.HARDWARE_COMPLETE)


def _is_applying(node: Any) -> bool:
    return bool(node.driver_internal_info.get(STATE))


class RedfishBIOS(BIOSInterface):
    """Reads and writes the attributes of the system's Bios resource."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)

    def cache_bios_settings(self, task: Task) -> None:
        """Store the settings that the BMC shows.

        :raises UnsupportedDriverExtension: it shows none.
        """
        with talk(task, "reading the BIOS settings") as bmc:
            bios = bios_attributes.resource(task.node, bmc)
            rows = bios_attributes.rows(task.node, bmc, bios)
        db_bios.sync(task.node.id, rows)

    @clean_step(priority=0, argsinfo=_SETTINGS, requires_ramdisk=False)
    @deploy_step(priority=0, argsinfo=_SETTINGS)
    @service_step(priority=0, argsinfo=_SETTINGS, requires_ramdisk=False)
    @require_exclusive_lock
    def apply_configuration(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        """Set BIOS settings.

        :raises InvalidParameterValue: an attribute does not take its value.
        :raises RedfishError: the reboot has not applied all of them.
        """
        node = task.node
        if _is_applying(node):
            self._check_applied(task)
            self.post_configuration(task, settings)
            return None
        asked = bios_attributes.wanted(node, settings, db_bios.of_node(node.id))
        with talk(task, "applying BIOS settings") as bmc:
            bios = bios_attributes.resource(node, bmc)
            if bios_attributes.are_set(bios, asked):
                LOG.info("Node %s has the wanted BIOS settings already", node.uuid)
                return None
            times = bios.supported_apply_times or ()
            on_reset = sushy.ApplyTime.ON_RESET
            bios.set_attributes(asked, apply_time=on_reset if on_reset in times else None)
        return self._reboot(task, asked)

    @clean_step(priority=0, requires_ramdisk=False)
    @deploy_step(priority=0)
    @service_step(priority=0, requires_ramdisk=False)
    @require_exclusive_lock
    def factory_reset(self, task: Task) -> str | None:
        """Set all BIOS settings to the defaults of the manufacturer.

        :raises RedfishError: the BMC refuses.
        """
        if _is_applying(task.node):
            del task.node.driver_internal_info[STATE]
            self._cache(task)
            self.post_reset(task)
            return None
        with talk(task, "resetting the BIOS settings") as bmc:
            bios_attributes.resource(task.node, bmc).reset_bios()
        return self._reboot(task, {})

    def post_reset(self, task: Task) -> None:
        """Called when a factory reset is done; for vendors that need more."""

    def post_configuration(self, task: Task, settings: list[dict[str, Any]]) -> None:
        """Called when settings are applied; for vendors that need more."""

    def _reboot(self, task: Task, asked: dict[str, Any]) -> str:
        """Reboot into the second half of the step."""
        node = task.node
        node.driver_internal_info[STATE] = {
            "reboot_requested": True,
            "requested_bios_attrs": asked,
            "requested_at": int(time.time()),
        }
        steps.set_flags(
            node,
            reboot=True,
            skip_current=False,
            polling=True if ramdisk.disabled(node) else None,
        )
        task.save()
        return ramdisk.reboot_to_finish_step(task)

    def _check_applied(self, task: Task) -> None:
        node = task.node
        state = node.driver_internal_info.pop(STATE)
        asked = state.get("requested_bios_attrs") or {}
        with talk(task, "checking the BIOS settings") as bmc:
            bios = bios_attributes.resource(node, bmc)
            missing = bios_attributes.unapplied(bios, asked)
            said = bios_attributes.complaints(bios) if missing else ""
        self._cache(task)
        if missing:
            raise errors.RedfishError(
                error=(
                    f"BIOS settings of node {node.uuid} are not applied after the reboot: "
                    f"{', '.join(sorted(missing))}" + (f". The BMC says: {said}" if said else "")
                )
            )

    def _cache(self, task: Task) -> None:
        """Store the settings; a BMC that fails here does not undo what was done."""
        try:
            self.cache_bios_settings(task)
        except errors.LockLost:
            raise
        except errors.IronicError as exc:
            LOG.warning("Node %s: could not store the BIOS settings: %s", task.node.uuid, exc)

    @node_periodic(
        "checking async bios apply status",
        lambda conf: int(conf.redfish.firmware_update_status_interval),
        filters={"reserved": False, "provision_state_in": list(_WAITING)},
        columns=("driver_internal_info",),
        predicate=_is_applying,
    )
    def _query_bios_apply_status(self, task: Task) -> None:
        """Run the second half of a step once the machine has booted."""
        state = task.node.driver_internal_info.get(STATE)
        if not state:
            return
        try:
            with talk(task, "checking the BIOS settings") as bmc:
                progress = _progress(bmc)
                over = self._is_over(task, bmc, state)
        except errors.IronicError as exc:
            LOG.info("Node %s: BIOS settings cannot be looked at now: %s", task.node.uuid, exc)
            return
        if progress is not None:
            # The time-out is for machines that hang: one that comes along may boot longer.
            if progress not in _BOOTED and _is_recent(state):
                task.flows.touch()
            done = _POSTED if ramdisk.disabled(task.node) else _BOOTED
            if progress not in done:
                return
        if not over:
            LOG.debug("Node %s: the BIOS settings are not applied yet", task.node.uuid)
            return
        task.upgrade_lock(purpose="finishing a BIOS step", retry=False)
        node = task.node
        if node.provision_state in _WAITING and _is_applying(node):
            LOG.info("Node %s has booted after a change of its BIOS settings", node.uuid)
            task.flows.resume(steps.kind_of(node).name)

    def _is_over(self, task: Task, bmc: NodeBmc, state: dict[str, Any]) -> bool:
        """Tell whether a boot has applied the settings, or has refused them."""
        asked = state.get("requested_bios_attrs")
        if not asked:
            return True
        bios = bios_attributes.resource(task.node, bmc)
        return not bios_attributes.unapplied(bios, asked) or bios_attributes.are_refused(
            bios, asked
        )


def _progress(bmc: NodeBmc) -> sushy.BootProgressStates | None:
    """Return how far the machine has booted; None when the BMC does not tell."""
    progress = bmc.system.boot_progress
    state = None if progress is None else progress.last_state
    return None if state is sushy.BootProgressStates.NONE else state


def _is_recent(state: dict[str, Any]) -> bool:
    limit = CONF.redfish.firmware_update_overall_timeout
    return not limit or time.time() - float(state.get("requested_at") or 0) < limit
