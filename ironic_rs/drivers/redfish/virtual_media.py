"""Virtual media devices: find the right slot, insert, eject.

Source: specification drivers.md section 6.6; field cases 46, 48, 49.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sushy
import sushy.exceptions
from oslo_log import log
from sushy.resources.manager.virtual_media import VirtualMedia, VirtualMediaCollection

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors, ramdisk
from ironic_rs.drivers.redfish import quirks
from ironic_rs.drivers.redfish.quirks import Quirk
from ironic_rs.drivers.redfish.sessions import NodeBmc
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

#: Device types of the REST API.
MEDIA_TYPES = {
    "disk": sushy.VirtualMediaType.USB_STICK,
    "cdrom": sushy.VirtualMediaType.CD,
    "floppy": sushy.VirtualMediaType.FLOPPY,
}

#: Id of the slot that some BMCs mean to be the only one.
FIRST_SLOT = "1"

#: How often, and how many seconds apart, an insert is tried that ends in a 5xx.
INSERT_ATTEMPTS = 3
INSERT_RETRY_INTERVAL = 3.0

INSERT, EJECT = "#VirtualMedia.InsertMedia", "#VirtualMedia.EjectMedia"

_MISSING = (
    sushy.exceptions.MissingAttributeError,
    sushy.exceptions.ResourceNotFoundError,
)
_BAD_SLOT = (400, 404, 405)
_FAILED_TASKS = (
    sushy.TASK_STATE_EXCEPTION,
    sushy.TASK_STATE_KILLED,
    sushy.TASK_STATE_CANCELLED,
    sushy.TASK_STATE_INTERRUPTED,
)


def _collections(bmc: NodeBmc, *, all_places: bool = False) -> Iterator[VirtualMediaCollection]:
    """Yield where the BMC shows virtual media: at the system, else at its managers.

    :param all_places: both; to eject what is in a slot wherever it is shown.
    """
    seen = set()
    try:
        collection = bmc.system.virtual_media
        seen.add(collection.path)
        yield collection
        if not all_places:
            return
    except _MISSING:
        pass
    try:
        managers = bmc.system.managers
    except _MISSING:
        return
    for manager in managers:
        try:
            collection = manager.virtual_media
        except _MISSING:
            continue
        if collection.path not in seen:
            seen.add(collection.path)
            yield collection


def _takes(device: VirtualMedia, kind: sushy.VirtualMediaType) -> bool:
    """Tell whether a slot takes a medium; a DVD drive reads CDs."""
    types = device.media_types or []
    return kind in types or (
        kind == sushy.VirtualMediaType.CD and sushy.VirtualMediaType.DVD in types
    )


@dataclass
class _Place:
    """The slots of one collection.

    :param odd: path -> why nothing can be told of a slot.
    """

    path: str
    slots: list[VirtualMedia]
    odd: dict[str, str]


def _place(collection: VirtualMediaCollection) -> _Place:
    """Read the slots; one that is nonsense does not spoil the others."""
    place = _Place(collection.path, [], {})
    for path in collection.members_identities:
        try:
            place.slots.append(collection.get_member(path))
        except sushy.exceptions.ConnectionError:
            raise
        except (sushy.exceptions.SushyError, AttributeError, TypeError, ValueError) as exc:
            LOG.debug("Virtual media slot %s cannot be read: %s", path, exc)
            place.odd[path] = str(exc)
    return place


def _slots(bmc: NodeBmc) -> list[VirtualMedia]:
    return [slot for collection in _collections(bmc) for slot in _place(collection).slots]


def devices(bmc: NodeBmc) -> list[dict[str, Any]]:
    """Return [{media_types, inserted, image}] of all slots."""
    return [
        {
            "media_types": [kind.value for kind in device.media_types or []],
            "inserted": bool(device.inserted),
            "image": device.image or None,
        }
        for device in _slots(bmc)
    ]


def find(
    bmc: NodeBmc, kinds: Sequence[sushy.VirtualMediaType], *, inserted: bool | None = None
) -> sushy.VirtualMediaType | None:
    """Return the first kind (in order of preference) that some slot takes.

    :param inserted: count only slots with, or without, a medium.
    """
    slots = _slots(bmc)
    for kind in kinds:
        for device in slots:
            if _takes(device, kind) and (inserted is None or bool(device.inserted) == inserted):
                return kind
    return None


def missing(bmc: NodeBmc, kind: sushy.VirtualMediaType) -> str | None:
    """Return the first slot of the kind when none of them holds a medium, else None."""
    slots = [device for device in _slots(bmc) if _takes(device, kind)]
    if not slots or any(device.inserted for device in slots):
        return None
    return str(slots[0].path)


def transfer_protocols(bmc: NodeBmc, kind: sushy.VirtualMediaType) -> set[str]:
    """Return the protocols by which the BMC can fetch a medium; HTTP is always one."""
    found = {"HTTP"}
    for device in _slots(bmc):
        if not _takes(device, kind):
            continue
        action = _action(device, INSERT) or {}
        found.update(action.get("TransferProtocolType@Redfish.AllowableValues") or [])
        protocol = (device.json or {}).get("TransferProtocolType")
        if protocol:
            found.add(protocol)
    return {str(name).upper() for name in found}


def insert(
    node: models.Node,
    bmc: NodeBmc,
    url: str,
    kind: sushy.VirtualMediaType,
    *,
    transfer_protocol: str | None = None,
) -> None:
    """Insert an image into the first slot that takes it, whatever is in it.

    :param transfer_protocol: sent only when given.
    :raises InvalidParameterValue: no slot took it; the text has each slot's reason.
    :raises RedfishError: it was taken but did not show up (with polling).
    """
    places = [_place(collection) for collection in _collections(bmc, all_places=True)]
    try:
        _eject(node, bmc, places, kind)
    except sushy.exceptions.SushyError as exc:
        if isinstance(exc, sushy.exceptions.ConnectionError):
            raise
        LOG.warning("Node %s: ejecting before an insert failed: %s", node.uuid, exc)
    reasons: dict[str, str] = {}
    one_slot = quirks.has(Quirk.FIRST_MEDIA_SLOT, node, bmc)
    usable = {collection.path for collection in _collections(bmc)}
    for place in (place for place in places if place.path in usable):
        slots = [slot for slot in place.slots if not one_slot or slot.identity == FIRST_SLOT]
        for attempt in range(1, INSERT_ATTEMPTS + 1):
            device, again = _try_slots(slots, url, kind, transfer_protocol, reasons)
            if device is not None:
                LOG.info("Node %s: %s inserted into %s", node.uuid, redact(url), device.path)
                if CONF.redfish.enable_vmedia_insert_polling:
                    _wait_until_inserted(node, bmc, device, redact(url))
                else:
                    _look(node, device)
                return
            if not again or attempt == INSERT_ATTEMPTS:
                break
            time.sleep(INSERT_RETRY_INTERVAL)
        reasons.update(place.odd)
    why = "; ".join(f"{path}: {reason}" for path, reason in reasons.items())
    raise errors.InvalidParameterValue(
        f"No virtual media slot of node {node.uuid} takes {redact(url)} as {kind.value}: "
        f"{why or 'the BMC has no slot for it'}."
    )


def _try_slots(
    slots: Sequence[VirtualMedia],
    url: str,
    kind: sushy.VirtualMediaType,
    transfer_protocol: str | None,
    reasons: dict[str, str],
) -> tuple[VirtualMedia | None, bool]:
    """Return (the slot that took the image, whether trying again makes sense)."""
    again = False
    for device in slots:
        if not _takes(device, kind):
            continue
        if not _may_have(device, INSERT):
            reasons[device.path] = "it has no insert action"
            continue
        try:
            device.insert_media(url, transfer_protocol=transfer_protocol)
        except sushy.exceptions.MissingActionError:
            reasons[device.path] = "it has no insert action"
        except sushy.exceptions.ServerSideError as exc:
            reasons[device.path] = str(exc)
            again = True
        except sushy.exceptions.HTTPError as exc:
            if exc.status_code not in _BAD_SLOT:
                raise
            reasons[device.path] = str(exc)
        else:
            return device, False
    return None, again


def _look(node: models.Node, device: VirtualMedia) -> None:
    """Keep in mind when an accepted medium is not shown: the machine may never boot it."""
    try:
        device.refresh(force=False)
    except sushy.exceptions.SushyError as exc:
        LOG.debug("Node %s: %s could not be read: %s", node.uuid, device.path, exc)
        return
    if not device.inserted:
        LOG.warning(
            "Node %s: the BMC accepted the medium, but does not show it in %s",
            node.uuid,
            device.path,
        )
        node.driver_internal_info[ramdisk.MEDIUM_NOT_SHOWN] = device.path


def _wait_until_inserted(node: models.Node, bmc: NodeBmc, device: VirtualMedia, url: str) -> None:
    """Wait until the BMC says so; its own task may say sooner that it failed."""
    timeout = CONF.redfish.vmedia_insert_timeout
    end = time.monotonic() + timeout
    try:
        task = bmc.accepted_task()
    except _MISSING:
        # BMCs forget tasks that have ended; the slot tells what became of it.
        task = None
    while True:
        device.invalidate()
        device.refresh(force=False)
        if device.inserted:
            return
        if task is not None:
            _check_task(node, task, url)
        if time.monotonic() >= end:
            raise errors.RedfishError(
                error=(
                    f"{url} was accepted by {device.path} of node {node.uuid}, but is not "
                    f"inserted after {timeout} s"
                )
            )
        time.sleep(CONF.redfish.vmedia_insert_poll_interval)


def _check_task(node: models.Node, monitor: sushy.taskmonitor.TaskMonitor, url: str) -> None:
    try:
        task = monitor.get_task()
    except _MISSING:
        # Forgotten meanwhile.
        return
    if task.task_state in _FAILED_TASKS:
        said = "; ".join(m.message or m.message_id or "" for m in task.messages or [])
        raise errors.RedfishError(
            error=(
                f"inserting {url} into node {node.uuid} ended as {task.task_state.value}: "
                f"{said or 'the BMC gives no reason'}"
            )
        )


def eject(node: models.Node, bmc: NodeBmc, kind: sushy.VirtualMediaType) -> None:
    """Eject from every slot of the kind that holds something.

    :raises sushy.exceptions.SushyError: the BMC refused, and shows the medium still.
    """
    places = [_place(collection) for collection in _collections(bmc, all_places=True)]
    _eject(node, bmc, places, kind)


def _eject(
    node: models.Node, bmc: NodeBmc, places: Sequence[_Place], kind: sushy.VirtualMediaType
) -> None:
    node.driver_internal_info.pop(ramdisk.MEDIUM_NOT_SHOWN, None)
    problem: sushy.exceptions.SushyError | None = None
    for device in (slot for place in places for slot in place.slots):
        if not (_takes(device, kind) and device.inserted):
            continue
        if _action(device, INSERT) is None and not _may_have(device, EJECT):
            LOG.debug("Node %s: what is in %s is not ours", node.uuid, device.path)
            continue
        try:
            _eject_one(bmc, device)
        except sushy.exceptions.ConnectionError:
            raise
        except sushy.exceptions.MissingActionError as exc:
            if _action(device, INSERT) is not None:
                problem = problem or exc
        except sushy.exceptions.SushyError as exc:
            problem = problem or exc
        else:
            LOG.info("Node %s: ejected what was in %s", node.uuid, device.path)
    if problem is not None:
        raise problem


def _eject_one(bmc: NodeBmc, device: VirtualMedia) -> None:
    if not _may_have(device, EJECT):
        raise sushy.exceptions.MissingActionError(action=EJECT, resource=device.path)
    device.eject_media()
    # sushy keeps to itself that the BMC said no.
    refusal = bmc.refusal()
    if refusal is not None:
        device.refresh(force=False)
        if device.inserted:
            raise refusal


def _action(device: VirtualMedia, name: str) -> dict[str, Any] | None:
    actions = (device.json or {}).get("Actions")
    found = actions.get(name) if isinstance(actions, dict) else None
    return found if isinstance(found, dict) else None


def _may_have(device: VirtualMedia, name: str) -> bool:
    """Tell whether a slot may be asked; without the action it may want a PATCH instead."""
    action = _action(device, name)
    return action is None or isinstance(action.get("target"), str)
