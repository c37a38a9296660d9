"""RAID controllers of a machine: disks, volumes, and what is under way.

A controller does what it is asked for in a task, at once or at the next boot.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ironic_rs.sandbox.settings import GIB, SettingsError

#: When a controller does what it is asked for.
IMMEDIATE, ON_RESET = "Immediate", "OnReset"
KINDS: Mapping[str, str | None] = {
    "immediate": IMMEDIATE,
    "on-reset": ON_RESET,
    # It shows no volumes at all.
    "no-volumes": None,
}
DISK_BYTES = 100 * GIB
#: A job that needs no boot takes so long, in seconds.
JOB_TIME = 0.3
_STRIPE = 64 * 1024**2

#: RAID type -> least disks, disks that a span loses, disks of which the number has to be
#: a multiple.
LEVELS = {
    "RAID0": (1, 0, 1),
    "RAID1": (2, 1, 2),
    "RAID5": (3, 1, 1),
    "RAID6": (4, 2, 1),
    "RAID10": (4, 1, 2),
    "RAID50": (6, 1, 2),
    "RAID60": (8, 2, 2),
}


class Impossible(Exception):
    """A controller cannot do that; the text says why."""


@dataclass
class Volume:
    """A volume; ``size`` in bytes."""

    identity: str
    name: str
    raid_type: str
    size: int
    disks: Sequence[int]


@dataclass
class Job:
    """What a controller was asked for: a volume, or the end of the one with this id."""

    number: int
    controller: Controller
    volume: Volume | None
    doomed: str | None
    state: str = "Running"
    text: str = ""
    begun: float = field(default_factory=time.monotonic)

    @property
    def title(self) -> str:
        return f"{'Deletion' if self.doomed else 'Creation'} of a volume"

    def finish(self, complaint: str) -> None:
        """Do it, or end with a complaint."""
        if complaint:
            self.state, self.text = "Exception", complaint
            return
        self.state = "Completed"
        volumes = self.controller.volumes
        if self.volume is not None:
            volumes[self.volume.identity] = self.volume
        elif self.doomed is not None:
            volumes.pop(self.doomed, None)


@dataclass
class Controller:
    """A RAID controller with disks of :data:`DISK_BYTES`.

    :param apply_time: see :data:`KINDS`.
    """

    identity: str
    apply_time: str | None
    disks: int
    volumes: dict[str, Volume] = field(default_factory=dict)

    def _used(self, disk: int) -> int:
        return sum(
            -(-volume.size // _data_disks(volume.raid_type, len(volume.disks)))
            for volume in self.volumes.values()
            if disk in volume.disks
        )

    def make(
        self, identity: str, name: str, raid_type: str, size: int | None, disks: Sequence[int]
    ) -> Volume:
        """Lay out a volume, without making it.

        :param size: bytes; None: all that is free.
        :raises Impossible: it does not fit.
        """
        if raid_type not in LEVELS:
            raise Impossible(f"RAID type {raid_type!r} is not supported")
        least, _overhead, multiple = LEVELS[raid_type]
        if len(disks) < least or len(disks) % multiple:
            raise Impossible(f"{raid_type} is not possible with {len(disks)} drives")
        free = min(DISK_BYTES - self._used(disk) for disk in disks) // _STRIPE * _STRIPE
        room = free * _data_disks(raid_type, len(disks))
        if not room or (size or 0) > room:
            raise Impossible(f"The drives have room for {room} bytes, not for {size or 'a volume'}")
        return Volume(identity, name, raid_type, size or room, list(disks))


def _data_disks(raid_type: str, count: int) -> int:
    _least, overhead, _multiple = LEVELS[raid_type]
    spans = {"RAID10": count // 2, "RAID50": 2, "RAID60": 2}.get(raid_type, 1)
    return count - overhead * spans


class Raid:
    """The controllers of a machine.

    :param kinds: one a controller: a key of :data:`KINDS` and a number of disks.
    """

    def __init__(self, kinds: Sequence[tuple[str, int]]) -> None:
        self.controllers = {
            f"RAID.{number}": Controller(f"RAID.{number}", KINDS[kind], disks)
            for number, (kind, disks) in enumerate(kinds, 1)
        }
        self.jobs: list[Job] = []
        self._numbers = 0

    def number(self) -> int:
        """A number that nothing else has."""
        self._numbers += 1
        return self._numbers

    def begin(self, controller: Controller, volume: Volume | None, doomed: str | None) -> Job:
        """Begin to make a volume, or to end one.

        :raises Impossible: the controller has something else to do.
        """
        if any(job.controller is controller and job.state == "Running" for job in self.jobs):
            raise Impossible(f"Controller {controller.identity} is busy with another job")
        job = Job(self.number(), controller, volume, doomed)
        self.jobs.append(job)
        return job

    def work(self, complaint: str = "", *, boots: bool = False) -> None:
        """End the jobs that are to end by now.

        :param complaint: why they fail, if they do.
        :param boots: the machine boots now.
        """
        for job in self.jobs:
            if job.controller.apply_time == ON_RESET:
                ends = boots
            else:
                ends = time.monotonic() - job.begun > JOB_TIME
            if ends and job.state == "Running":
                job.finish(complaint)

    def to_json(self) -> list[dict[str, Any]]:
        """All volumes."""
        return [
            {
                "controller": controller.identity,
                "id": volume.identity,
                "name": volume.name,
                "raid_type": volume.raid_type,
                "size": volume.size,
                "disks": list(volume.disks),
            }
            for controller in self.controllers.values()
            for volume in controller.volumes.values()
        ]


def parse_kind(text: str) -> tuple[str, int]:
    """Parse the value of ``--raid``: ``KIND[:DISKS]``.

    :raises SettingsError: it is none.
    """
    kind, _, disks = text.partition(":")
    if kind not in KINDS or not (disks or "4").isdecimal():
        raise SettingsError(f"--raid {text!r}: use KIND[:DISKS] with one of {', '.join(KINDS)}")
    return kind, int(disks or 4)
