"""Firmware updates one after the other, from a step to its end.

The first image is handed to the BMC by the step; a periodic follows the task of the
BMC, reboots when it needs that, and hands over the next image.  All state is in
``driver_internal_info``, the update under way first, so that another conductor can go
on.  An update is noted before the BMC gets its image: a conductor that dies in between
leaves one without a task, of which the version tells later what became of it.

Source: specification drivers.md sections 6.8a and 6.9, conductor.md section 7; field
case 90.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import sushy
import sushy.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import firmware as db_firmware
from ironic_rs.db import models
from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers.agent import ramdisk
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish import firmware_images, firmware_inventory, firmware_progress
from ironic_rs.drivers.redfish.connector import may_have_arrived
from ironic_rs.drivers.redfish.firmware_progress import Update
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk
from ironic_rs.drivers.redfish.task_state import Next
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

WAITING = (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)
FAILED = (states.CLEANFAIL, states.DEPLOYFAIL, states.SERVICEFAIL)


class UpdateFlow:
    """The updates of one step.

    :param key: of ``driver_internal_info``, for the list of updates.
    :param reboots_at_once: reboot when the BMC has an image, not when its task needs it.
    """

    def __init__(self, key: str, *, reboots_at_once: bool = False) -> None:
        self._key = key
        self._reboots_at_once = reboots_at_once

    def is_running(self, node: Any) -> bool:
        """Tell whether a node has updates under way."""
        return bool(node.driver_internal_info.get(self._key))

    def is_left_over(self, node: Any) -> bool:
        """Tell whether there is something to forget when the flow has failed."""
        return self.is_running(node) or bool(node.driver_internal_info.get(firmware_images.CLEANUP))

    def start(self, task: Task, updates: Sequence[Update]) -> str:
        """Hand over the first image; returns the wait state.

        :param updates: with ``url`` and, maybe, ``component``, ``wait``, ``checksum``,
            ``source``.
        :raises IronicError: an image cannot be had, or the BMC refuses the first.
        """
        node = task.node
        try:
            self._stage(task, updates)
            node.driver_internal_info[steps.FIRMWARE_STARTED] = int(time.time())
            self._submit(task, updates)
            if self._reboots_at_once:
                return self._reboot(task)
        except errors.LockLost:
            raise
        except errors.IronicError:
            _forget(task)
            raise
        steps.set_flags(node, skip_current=True, polling=True)
        task.save()
        return steps.wait_state(node)

    def _stage(self, task: Task, updates: Sequence[Update]) -> None:
        if not all(firmware_images.is_left_to_bmc(update) for update in updates):
            # Noted before there is a file.
            task.node.driver_internal_info[firmware_images.CLEANUP] = ["http"]
            task.save()
        firmware_images.stage(task.node, updates)

    def _submit(self, task: Task, updates: Sequence[Update]) -> None:
        """Hand the first of the updates to the BMC, and note where to follow it."""
        node, update = task.node, updates[0]
        firmware_images.again_if_elsewhere(node, update)
        what = _named(update)
        with talk(task, f"updating {what}") as bmc:
            before = firmware_inventory.versions(node, bmc, update.get("component"))
            firmware_progress.begin(update, before, bmc.info.unresponsive_wait)
            if self._reboots_at_once:
                update["boots"] = 1
            node.driver_internal_info[self._key] = list(updates)
            task.save()
            update["task_monitor"] = _simple_update(node, bmc, update["image_url"])
        task.save()
        LOG.info("Node %s: the BMC updates %s", node.uuid, what)

    def forget(self, task: Task) -> None:
        """Forget updates of a flow that has failed."""
        task.upgrade_lock(purpose="forgetting failed firmware updates", retry=False)
        if task.node.provision_state in FAILED and self.is_left_over(task.node):
            _forget(task)
            task.save()

    def follow(self, task: Task) -> None:
        """Go on with the updates of a node, one small piece at a time."""
        task.upgrade_lock(purpose="following a firmware update", retry=False)
        node = task.node
        if node.provision_state not in WAITING or not self.is_running(node):
            return
        limit = CONF.redfish.firmware_update_overall_timeout
        begun = float(node.driver_internal_info.get(steps.FIRMWARE_STARTED) or 0)
        if limit and time.time() - begun > limit:
            _fail(task, f"Firmware updates have not ended in {limit} s")
            return
        update: Update = node.driver_internal_info[self._key][0]
        try:
            with talk(task, f"following the update of {_named(update)}") as bmc:
                do, text = firmware_progress.advance(node, bmc, update)
        except errors.RedfishError as exc:
            # BMCs restart in the middle of an update.
            LOG.info("Node %s: its firmware update cannot be looked at: %s", node.uuid, exc)
            do, text = firmware_progress.silent(update, str(exc))
            if do is Next.WAIT:
                task.save()
                return
        self._do(task, update, do, text)

    def _do(self, task: Task, update: Update, do: Next, text: str) -> None:
        try:
            if do is Next.FAIL:
                _fail(task, f"Update of {_named(update)} failed: {text}")
                return
            if do is Next.REBOOT:
                self._reboot(task)
            elif do is Next.DONE and self._next(task, update):
                return
        except errors.LockLost:
            raise
        except errors.IronicError as exc:
            _fail(task, f"Update of {_named(update)} cannot go on: {exc}".removesuffix("."))
            return
        task.flows.touch()

    def _reboot(self, task: Task) -> str:
        """Reboot once: it is noted before, so that no other conductor does it again."""
        steps.set_flags(task.node, reboot=True, skip_current=True, polling=True)
        task.save()
        return ramdisk.reboot_to_finish_step(task)

    def _next(self, task: Task, done: Update) -> bool:
        """Begin the next update; True: there is none, and the step has ended.

        :raises IronicError: the BMC refuses it.
        """
        node = task.node
        LOG.info("Node %s: %s is updated", node.uuid, _named(done))
        updates: list[Update] = node.driver_internal_info[self._key]
        if len(updates) > 1:
            self._submit(task, updates[1:])
            if self._reboots_at_once:
                self._reboot(task)
            return False
        _forget(task)
        try:
            cache(task)
        except errors.IronicError as exc:
            LOG.warning("Node %s: could not store the firmware versions: %s", node.uuid, exc)
        task.flows.resume(steps.kind_of(node).name)
        return True


def cache(task: Task) -> None:
    """Store the versions that the BMC shows.

    :raises UnsupportedDriverExtension: it shows none.
    """
    node = task.node
    with talk(task, "reading the firmware versions") as bmc:
        found = firmware_inventory.components(node, bmc)
    if not found:
        raise errors.UnsupportedDriverExtension(driver=node.driver, extension="firmware")
    db_firmware.sync(node.id, found)


def _named(update: Update) -> str:
    """Return how an update is called in texts."""
    url = redact(update["url"])
    return f"{update['component']} from {url}" if update.get("component") else f"firmware {url}"


def _simple_update(node: models.Node, bmc: NodeBmc, url: str) -> str | None:
    """Hand an image to the BMC; returns where to follow its task, None without one."""
    https = urlsplit(url).scheme.lower() == "https"
    service = bmc.root.get_update_service()
    targets = _targets(bmc)
    try:
        return service.simple_update(
            url,
            targets=targets,
            transfer_protocol=sushy.UPDATE_PROTOCOL_HTTPS if https else sushy.UPDATE_PROTOCOL_HTTP,
        ).task_monitor_uri
    except sushy.exceptions.MissingHeaderError:
        # The image was taken, and there is no task to follow.
        return None
    except sushy.exceptions.ConnectionError as exc:
        if not may_have_arrived(exc):
            raise
        LOG.warning(
            "Node %s: the BMC did not answer when it got %s; the version will tell "
            "whether it took it: %s",
            node.uuid,
            redact(url),
            exc,
        )
        return None


def _targets(bmc: NodeBmc) -> list[str] | None:
    """Return the system when the BMC has several."""
    if bmc.info.system_id is None:
        return None
    several = len(bmc.root.get_system_collection().members_identities) > 1
    return [bmc.info.system_id] if several else None


def _forget(task: Task) -> None:
    """Forget all updates, and remove their images (not saved)."""
    steps.wipe_firmware_state(task.node)
    if task.node.driver_internal_info.pop(firmware_images.CLEANUP, None):
        firmware_images.unstage(task.node)


def _fail(task: Task, message: str) -> None:
    kind = steps.kind_of(task.node)
    LOG.error("Node %s: %s", task.node.uuid, message)
    _forget(task)
    task.flows.fail(kind.name, f"Node {task.node.uuid}: {message}.")
