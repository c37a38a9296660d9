"""RAID controllers, disks and volumes as a BMC shows them, and how it is asked for others.

A volume counts as RAID when the BMC tells its level; disks that are passed through as
they are show up as volumes too, and are left alone.

Source: specification drivers.md section 6.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sushy
import sushy.exceptions
import sushy.utils
from oslo_utils import units
from sushy.resources.system.storage.drive import Drive
from sushy.resources.system.storage.storage import Storage
from sushy.resources.system.storage.volume import Volume as RedfishVolume
from sushy.resources.system.storage.volume import VolumeCollection
from sushy.taskmonitor import TaskMonitor

from ironic_rs.db import models
from ironic_rs.drivers.redfish.raid_layout import LEVELS, Disk, Volume
from ironic_rs.drivers.redfish.resources import members, optional, plain
from ironic_rs.drivers.redfish.sessions import NodeBmc

_MISSING = (sushy.exceptions.MissingAttributeError, sushy.exceptions.ResourceNotFoundError)

_LEVEL_OF_TYPE = {level.raid_type: name for name, level in LEVELS.items()}
#: What BMCs that do not know RAIDType say of a volume.
_LEVEL_OF_OLD_TYPE = {
    sushy.VOLUME_TYPE_NON_REDUNDANT: "0",
    sushy.VOLUME_TYPE_MIRRORED: "1",
    sushy.VOLUME_TYPE_STRIPED_WITH_PARITY: "5",
    sushy.VOLUME_TYPE_SPANNED_MIRRORS: "1+0",
    sushy.VOLUME_TYPE_SPANNED_STRIPES_WITH_PARITY: "5+0",
}


#: States of drives that are away, kept for others, or do not work.
_UNUSABLE = (
    sushy.State.ABSENT,
    sushy.State.DISABLED,
    sushy.State.STANDBY_SPARE,
    sushy.State.UNAVAILABLE_OFFLINE,
)


@dataclass(frozen=True)
class Answer:
    """What a BMC said to a request that it has accepted.

    :param task_monitor: where to follow it; None: there is nothing to follow.
    """

    task_monitor: str | None


@dataclass(frozen=True)
class Controller:
    """A storage that shows volumes, with its volumes as they were read."""

    identity: str
    storage: Storage
    collection: VolumeCollection
    volumes: Sequence[RedfishVolume]

    @property
    def raid(self) -> dict[str, RedfishVolume]:
        """The RAID volumes by id."""
        return {v.identity: v for v in self.volumes if level_of(v) is not None}


def level_of(volume: RedfishVolume) -> str | None:
    """Return the RAID level of a volume, in the BMC's words when it is none of ours.

    None: it is a disk that is passed through.
    """
    raid_type = volume.raid_type
    if raid_type is not None:
        if raid_type is sushy.RAID_TYPE_NONE:
            return None
        return _LEVEL_OF_TYPE.get(raid_type.value, str(plain(raid_type)))
    return _LEVEL_OF_OLD_TYPE.get(volume.volume_type)


def read(bmc: NodeBmc) -> list[Controller]:
    """Read the storages that show volumes, and these.

    :raises sushy.exceptions.SushyError: one of them cannot be read: what is there is
        not known then.
    """
    found = []
    for storage in bmc.system.storage.get_members():
        try:
            collection = storage.volumes
        except _MISSING:
            continue
        found.append(Controller(storage.identity, storage, collection, collection.get_members()))
    return found


def disks(
    node: models.Node, controllers: Sequence[Controller], *, emptied: bool = False
) -> list[Disk]:
    """Return the disks that RAID volumes can be made of.

    :param emptied: as if there were no RAID volumes.
    """
    return [disk for controller in controllers for disk in _disks(node, controller, emptied)]


def _disks(node: models.Node, controller: Controller, emptied: bool) -> list[Disk]:
    storage = controller.storage
    raid_types = _raid_types(node, storage)
    if raid_types is not None and not raid_types:
        return []
    drives = _drives(node, storage)
    taken = {} if emptied else _taken(controller, drives)
    return [
        Disk(
            path=drive.path,
            identity=drive.identity,
            controller=storage.identity,
            size=drive.capacity_bytes,
            free=max(drive.capacity_bytes - taken.get(drive.path, 0), 0),
            media_type=drive.media_type,
            protocol=plain(drive.protocol),
            fault=_fault(drive),
            levels=None
            if raid_types is None
            else frozenset(_LEVEL_OF_TYPE.get(plain(item), "") for item in raid_types),
        )
        for drive in drives
        if drive.capacity_bytes
    ]


def _drives(node: models.Node, storage: Storage) -> list[Drive]:
    """Return the drives; those that cannot be read, such as of an empty bay, are left out."""
    found = (
        optional(node, f"drive {path}", partial(storage.get_drive, path), None)
        for path in storage.drives_identities or ()
    )
    return [drive for drive in found if drive is not None]


def _fault(drive: Drive) -> str:
    status = drive.status
    if status is None:
        return ""
    if status.health is sushy.HEALTH_CRITICAL:
        return "health Critical"
    return f"state {plain(status.state)}" if status.state in _UNUSABLE else ""


def _raid_types(node: models.Node, storage: Storage) -> Sequence[Any] | None:
    """Return the levels that a storage offers; None: it does not tell."""
    controllers = members(node, storage, "controllers") or storage.storage_controllers or []
    types: Sequence[Any] | None = controllers[0].raid_types if controllers else None
    return types


def _links(resource: Any, name: str) -> list[str]:
    try:
        return list(sushy.utils.get_sub_resource_path_by(resource, ["Links", name], True))
    except (sushy.exceptions.MissingAttributeError, AttributeError):
        # Not there, or null.
        return []


def _taken(controller: Controller, drives: Sequence[Any]) -> dict[str, int]:
    """Return what RAID volumes take of each drive, in bytes, by path.

    Either side tells which drives a volume is on: not every BMC does on both.
    """
    taken: dict[str, int] = {}
    for volume in controller.raid.values():
        on = set(_links(volume, "Drives"))
        on |= {drive.path for drive in drives if volume.path in _links(drive, "Volumes")}
        level = LEVELS.get(level_of(volume) or "")
        for path in on:
            # Of a level that is none of ours nothing is known: its drives are full.
            known = level is not None and level.takes(len(on)) and volume.capacity_bytes
            use = level.use(len(on), volume.capacity_bytes) if level and known else None
            taken[path] = taken.get(path, 0) + (use if use is not None else 1 << 63)
    return taken


def needs_reset(node: models.Node, owner: VolumeCollection | RedfishVolume) -> bool | None:
    """Tell whether a change waits for a boot; None: the BMC does not tell.

    :param owner: the collection for a new volume, the volume for its deletion.
    """
    support = optional(
        node, f"apply times of {owner.path}", lambda: owner.operation_apply_time_support, None
    )
    times = None if support is None else support.mapped_supported_values
    if times and sushy.ApplyTime.IMMEDIATE in times:
        return False
    if times and sushy.ApplyTime.ON_RESET in times:
        return True
    return None


def _apply_time(on_reset: bool | None) -> sushy.ApplyTime | None:
    if on_reset is None:
        return None
    return sushy.ApplyTime.ON_RESET if on_reset else sushy.ApplyTime.IMMEDIATE


def create(controller: Controller, volume: Volume, on_reset: bool | None) -> Answer:
    """Ask for a volume.

    :raises sushy.exceptions.SushyError: the BMC refuses.
    """
    payload: dict[str, Any] = {
        "RAIDType": LEVELS[volume.level].raid_type,
        "Links": {"Drives": [{"@odata.id": path} for path in volume.disks]},
    }
    if volume.name:
        payload["Name"] = volume.name
    if volume.size is not None:
        payload["CapacityBytes"] = volume.size
    return _answer(controller.collection.create, payload, on_reset)


def delete(volume: RedfishVolume, on_reset: bool | None) -> Answer:
    """Ask for the end of a volume.

    :raises sushy.exceptions.SushyError: the BMC refuses.
    """
    return _answer(volume.delete, None, on_reset)


def _answer(ask: Any, payload: dict[str, Any] | None, on_reset: bool | None) -> Answer:
    try:
        result = ask(payload, apply_time=_apply_time(on_reset))
    except sushy.exceptions.MissingHeaderError:
        # It is accepted, and there is no task to follow.
        result = None
    except sushy.exceptions.HTTPError as exc:
        if not str(exc).startswith("HTTP GET"):
            raise
        # It is done; only what came of it cannot be read at once.
        result = None
    return Answer(result.task_monitor_uri if isinstance(result, TaskMonitor) else None)


def shown(controllers: Sequence[Controller]) -> list[dict[str, Any]]:
    """Return the RAID volumes as ``raid_config`` has them."""
    return [
        {
            "id": volume.identity,
            "name": volume.name,
            "controller": controller.identity,
            "size_gb": (volume.capacity_bytes or 0) // units.Gi,
            "raid_level": level_of(volume),
        }
        for controller in controllers
        for volume in controller.raid.values()
    ]
