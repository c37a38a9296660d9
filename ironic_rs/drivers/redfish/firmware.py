"""Firmware versions and updates through Redfish.

``update`` hands the first image to the BMC and returns; a periodic follows the task of
the BMC, reboots when the component needs it, and hands over the next image.  All state
is in ``driver_internal_info["redfish_fw_updates"]``, the update under way first, so
that another conductor can go on.

Source: specification drivers.md section 6.9, conductor.md section 7; field case 90.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import sushy
import sushy.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import firmware as db_firmware
from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers.agent import ramdisk
from ironic_rs.drivers.base import FirmwareInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import (
    clean_step,
    deploy_step,
    node_periodic,
    require_exclusive_lock,
    service_step,
)
from ironic_rs.drivers.redfish import firmware_inventory, firmware_progress
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.firmware_progress import Next, Update
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

UPDATES, STARTED = steps.FIRMWARE_STATE

_SETTINGS = {
    "settings": {
        "description": (
            "List of {component, url, wait}: component is bios, bmc or nic:ID; wait is "
            "optional, in seconds."
        ),
        "required": True,
    }
}
_WAITING = (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)
_FAILED = (states.CLEANFAIL, states.DEPLOYFAIL, states.SERVICEFAIL)


def _is_updating(node: Any) -> bool:
    return bool(node.driver_internal_info.get(UPDATES))


class RedfishFirmware(FirmwareInterface):
    """Shows versions of BIOS, BMC and network cards, and updates them by SimpleUpdate."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)

    def cache_firmware_components(self, task: Task) -> None:
        """Store the versions that the BMC shows.

        :raises UnsupportedDriverExtension: it shows none.
        """
        node = task.node
        with talk(task, "reading the firmware versions") as bmc:
            found = firmware_inventory.components(node, bmc)
        if not found:
            raise errors.UnsupportedDriverExtension(driver=node.driver, extension="firmware")
        db_firmware.sync(node.id, found)

    @clean_step(priority=0, argsinfo=_SETTINGS, requires_ramdisk=True)
    @deploy_step(priority=0, abortable=False, argsinfo=_SETTINGS)
    @service_step(priority=0, argsinfo=_SETTINGS, requires_ramdisk=False)
    @require_exclusive_lock
    def update(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        """Update components one after the other.

        :raises InvalidParameterValue: ``settings`` is not acceptable.
        :raises RedfishError: the BMC refuses the first image.
        """
        node = task.node
        updates = _checked(node.uuid, settings)
        self._submit(task, updates[0])
        node.driver_internal_info[UPDATES] = updates
        node.driver_internal_info[STARTED] = int(time.time())
        steps.set_flags(node, skip_current=True, polling=True)
        task.save()
        return steps.wait_state(node)

    def _submit(self, task: Task, update: Update) -> None:
        """Hand an image to the BMC, and note where to follow what it does."""
        node, component, url = task.node, update["component"], update["url"]
        with talk(task, f"updating {component} from {redact(url)}") as bmc:
            try:
                before = firmware_inventory.version(node, bmc, component)
                service = bmc.root.get_update_service()
                monitor = service.simple_update(
                    url,
                    targets=_targets(bmc),
                    transfer_protocol=(
                        sushy.UPDATE_PROTOCOL_HTTPS
                        if urlsplit(url).scheme == "https"
                        else sushy.UPDATE_PROTOCOL_HTTP
                    ),
                ).task_monitor_uri
            except sushy.exceptions.MissingHeaderError:
                # The image was taken, and there is no task to follow.
                monitor = None
            wait = bmc.info.unresponsive_wait
        firmware_progress.begin(update, monitor, before, wait)
        LOG.info("Node %s: the BMC updates %s from %s", node.uuid, component, redact(url))

    @node_periodic(
        "checking if async update of firmware component failed",
        lambda conf: int(conf.redfish.firmware_update_fail_interval),
        filters={"reserved": False, "provision_state_in": list(_FAILED), "maintenance": True},
        columns=("driver_internal_info",),
        predicate=_is_updating,
    )
    def _query_update_failed(self, task: Task) -> None:
        """Forget updates of a flow that has failed."""
        task.upgrade_lock(purpose="forgetting failed firmware updates", retry=False)
        if task.node.provision_state in _FAILED and _is_updating(task.node):
            steps.wipe_firmware_state(task.node)
            task.save()

    @node_periodic(
        "checking async update of firmware component",
        lambda conf: int(conf.redfish.firmware_update_status_interval),
        filters={"reserved": False, "provision_state_in": list(_WAITING)},
        columns=("driver_internal_info",),
        predicate=_is_updating,
    )
    def _query_update_status(self, task: Task) -> None:
        """Go on with the updates of a node, one small piece at a time."""
        task.upgrade_lock(purpose="following a firmware update", retry=False)
        node = task.node
        if node.provision_state not in _WAITING or not _is_updating(node):
            return
        limit = CONF.redfish.firmware_update_overall_timeout
        begun = float(node.driver_internal_info.get(STARTED) or 0)
        if limit and time.time() - begun > limit:
            self._fail(task, f"Firmware updates have not ended in {limit} s")
            return
        first, *later = node.driver_internal_info[UPDATES]
        update: Update = dict(first)
        try:
            with talk(task, f"following the update of {update['component']}") as bmc:
                do, text = firmware_progress.advance(node, bmc, update)
        except errors.RedfishError as exc:
            # BMCs restart in the middle of an update.
            LOG.info("Node %s: its firmware update cannot be looked at: %s", node.uuid, exc)
            return
        node.driver_internal_info[UPDATES] = [update, *later]
        self._do(task, update, do, text)

    def _do(self, task: Task, update: Update, do: Next, text: str) -> None:
        if do is Next.FAIL:
            self._fail(task, f"Update of {update['component']} failed: {text}")
        elif do is Next.REBOOT:
            self._reboot(task)
            task.flows.touch()
        elif do is Next.DONE:
            self._next(task, update)
        else:
            task.flows.touch()

    def _reboot(self, task: Task) -> None:
        """Reboot once: it is noted before, so that no other conductor does it again."""
        steps.set_flags(task.node, reboot=True, skip_current=True, polling=True)
        task.save()
        ramdisk.reboot_to_finish_step(task)

    def _next(self, task: Task, done: Update) -> None:
        """Begin the next update, or let the step end."""
        node = task.node
        updates: list[Update] = node.driver_internal_info[UPDATES]
        LOG.info("Node %s: %s is updated", node.uuid, done["component"])
        if len(updates) > 1:
            try:
                self._submit(task, updates[1])
            except errors.RedfishError as exc:
                self._fail(task, str(exc))
                return
            node.driver_internal_info[UPDATES] = updates[1:]
            task.flows.touch()
            return
        steps.wipe_firmware_state(node)
        try:
            self.cache_firmware_components(task)
        except errors.IronicError as exc:
            LOG.warning("Node %s: could not store the firmware versions: %s", node.uuid, exc)
        task.flows.resume(steps.kind_of(node).name)

    def _fail(self, task: Task, message: str) -> None:
        kind = steps.kind_of(task.node)
        LOG.error("Node %s: %s", task.node.uuid, message)
        steps.wipe_firmware_state(task.node)
        task.flows.fail(kind.name, f"Node {task.node.uuid}: {message}.")


def _targets(bmc: NodeBmc) -> list[str] | None:
    """Return the system when the BMC has several."""
    if bmc.info.system_id is None:
        return None
    several = len(bmc.root.get_system_collection().members_identities) > 1
    return [bmc.info.system_id] if several else None


def _checked(uuid: str, settings: Any) -> list[Update]:
    """Return the updates to make.

    :raises InvalidParameterValue: names the entry and what is wrong with it.
    """
    if not isinstance(settings, list) or not settings:
        raise errors.InvalidParameterValue(
            f"Node {uuid}: firmware settings have to be a list of {{component, url}}."
        )
    for entry in settings:
        reason = _fault(entry)
        if reason:
            raise errors.InvalidParameterValue(
                f"Node {uuid}: firmware setting {entry!r} cannot be used: {reason}."
            )
    return [dict(entry) for entry in settings]


def _fault(entry: Any) -> str | None:
    if not isinstance(entry, Mapping) or not {"component", "url"} <= entry.keys():
        return "it needs component and url"
    unknown = entry.keys() - {"component", "url", "wait"}
    if unknown:
        return f"it has unknown keys: {', '.join(sorted(map(str, unknown)))}"
    component, url, wait = entry["component"], entry["url"], entry.get("wait", 1)
    if not isinstance(component, str) or not (
        component in (firmware_inventory.BIOS, firmware_inventory.BMC)
        or (component.startswith(firmware_inventory.NIC_PREFIX) and len(component) > 4)
    ):
        return "component has to be bios, bmc or nic:ID"
    if not isinstance(url, str) or not urlsplit(url).netloc:
        return "url has to be a URL"
    if urlsplit(url).scheme not in ("http", "https"):
        return "the BMC fetches the image itself, so url has to begin with http:// or https://"
    if isinstance(wait, bool) or not isinstance(wait, int) or wait < 1:
        return "wait has to be seconds, 1 or more"
    return None
