"""Which disks become which volumes: rules without any I/O.

Sizes are in bytes.  Space is given out in stripes of 64 MiB.

Source: specification drivers.md section 6.10; field case 94.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from oslo_utils import units

from ironic_rs.domain import errors, raid

STRIPE = 64 * units.Mi

MAX = "MAX"

#: Arrangements of disks that are tried, which takes a second at most.
MOST_TRIES = 5_000


class DoesNotFit(Exception):
    """A configuration does not fit a machine; the text says what, and why."""


@dataclass(frozen=True)
class Level:
    """A RAID level.

    :param raid_type: its name in Redfish.
    :param minimum: least disks of a span.
    :param maximum: most disks of the volume.
    :param overhead: disks of a span that hold no data.
    :param spans: number of spans; None: one for each two disks.
    """

    raid_type: str
    minimum: int
    maximum: int
    overhead: int
    spans: int | None = 1

    def takes(self, count: int) -> bool:
        """Tell whether a volume of so many disks is possible."""
        least_spans = 2 if self.spans is None else self.spans
        multiple = 2 if self.spans is None else self.spans
        return self.minimum * least_spans <= count <= self.maximum and count % multiple == 0

    def data_disks(self, count: int) -> int:
        """Return how many of so many disks hold data."""
        return count - self.overhead * (count // 2 if self.spans is None else self.spans)

    def use(self, count: int, size: int) -> int:
        """Return what a volume takes of each of its disks."""
        stripes = -(-size // STRIPE)
        return -(-stripes // self.data_disks(count)) * STRIPE

    def largest(self, free: Sequence[int]) -> int:
        """Return the size of the largest volume on disks with so much free space."""
        return min(free) // STRIPE * STRIPE * self.data_disks(len(free))

    @property
    def counts(self) -> str:
        """The numbers of disks that it takes, for texts."""
        allowed = [count for count in range(1, 13) if self.takes(count)]
        if self.takes(1000):
            return f"{', '.join(map(str, allowed[:3]))}, ..."
        return ", ".join(map(str, allowed))


LEVELS: Mapping[str, Level] = {
    "0": Level("RAID0", 1, 1000, 0),
    "1": Level("RAID1", 2, 2, 1),
    "5": Level("RAID5", 3, 1000, 1),
    "6": Level("RAID6", 4, 1000, 2),
    "1+0": Level("RAID10", 2, 1000, 1, None),
    "5+0": Level("RAID50", 3, 1000, 1, 2),
    "6+0": Level("RAID60", 4, 1000, 2, 2),
}

_INTERFACES = {"sata": "SATA", "sas": "SAS"}


@dataclass(frozen=True)
class Disk:
    """A physical disk of a RAID controller.

    :param path: of its resource.
    :param controller: id of the storage that it belongs to.
    :param free: bytes that no volume takes.
    :param levels: RAID levels that the controller offers; None: it does not tell.
    :param fault: why it cannot be used, in the BMC's words; empty when it can.
    """

    path: str
    identity: str
    controller: str
    size: int
    free: int
    media_type: str | None = None
    protocol: str | None = None
    levels: frozenset[str] | None = None
    fault: str = ""

    @property
    def unused(self) -> bool:
        return self.free == self.size

    @property
    def kind(self) -> tuple[str, str, str, int]:
        """Disks of one volume are alike in this."""
        return (self.controller, self.media_type or "", self.protocol or "", self.size)


@dataclass(frozen=True)
class Volume:
    """A volume with its disks; a JSON object by ``dataclasses.asdict``.

    :param size: bytes; None: all that is free.
    :param disks: paths.
    """

    controller: str
    level: str
    size: int | None
    disks: Sequence[str]
    name: str | None = None
    is_root: bool = False

    def __str__(self) -> str:
        size = MAX if self.size is None else f"{self.size // units.Gi} GiB"
        name = f"'{self.name}' " if self.name else ""
        return f"{name}(RAID {self.level}, {size}, controller {self.controller})"


def check(config: Any) -> None:
    """Check a target configuration by itself, without knowing the machine.

    :raises InvalidParameterValue: names the volume, by its place from 1, and what is
        wrong with it.
    """
    raid.validate(config)
    wanted = config["logical_disks"]
    faults = [
        f"volume {number}: {fault}"
        for number, disk in enumerate(wanted, 1)
        for fault in _faults(disk)
    ]
    names = Counter(disk["volume_name"] for disk in wanted if disk.get("volume_name"))
    faults += [f"the name '{name}' is there {n} times" for name, n in names.items() if n > 1]
    if not faults:
        faults = _conflicts(wanted)
    if faults:
        raise errors.InvalidParameterValue(
            f"The RAID configuration cannot be created by Redfish: {'; '.join(faults)}."
        )


def _faults(disk: Mapping[str, Any]) -> Iterator[str]:
    level = LEVELS.get(disk["raid_level"])
    if level is None:
        yield f"RAID level {disk['raid_level']} is not one of {', '.join(LEVELS)}"
        return
    if disk["size_gb"] == 0:
        yield "size_gb has to be 1 or more, or MAX"
    if disk.get("interface_type") == "scsi":
        yield "interface_type has to be sata or sas"
    physical, count = disk.get("physical_disks"), disk.get("number_of_physical_disks")
    if physical is None:
        if disk["size_gb"] == MAX:
            yield "size MAX needs physical_disks (and controller): name the disks to be used up"
        if count is not None and not level.takes(count):
            yield _wrong_count(disk["raid_level"], level, count)
        return
    if not all(isinstance(name, str) for name in physical):
        yield "physical_disks has to be a list of ids of drives, as the BMC shows them"
    elif len(set(physical)) < len(physical):
        yield "physical_disks names a disk twice"
    elif count not in (None, len(physical)):
        yield f"physical_disks names {len(physical)} disks, number_of_physical_disks is {count}"
    elif not level.takes(len(physical)):
        yield _wrong_count(disk["raid_level"], level, len(physical))


def _wrong_count(name: str, level: Level, count: int) -> str:
    return f"RAID {name} cannot be made of {count} disks, but of {level.counts}"


def _conflicts(wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the disks that are promised to volumes which cannot share them."""
    users: dict[tuple[str, str], list[int]] = {}
    for number, disk in enumerate(wanted, 1):
        for name in disk.get("physical_disks") or ():
            users.setdefault((disk["controller"], name), []).append(number)
    faults: dict[str, str] = {}
    for (_controller, name), numbers in users.items():
        volumes = [wanted[number - 1] for number in numbers]
        together = f"volumes {' and '.join(map(str, numbers))}"
        if sum(volume["size_gb"] == MAX for volume in volumes) > 1:
            faults.setdefault(
                together, f"{together} both want all of disk {name}: give one of them a size"
            )
        elif len(numbers) > 1 and not all(v.get("share_physical_disks") for v in volumes):
            faults.setdefault(
                together,
                f"{together} are both on disk {name}: set share_physical_disks on each of them",
            )
    return list(faults.values())


def plan(config: Mapping[str, Any], disks: Iterable[Disk]) -> list[Volume]:
    """Give each volume its disks; volumes of all that is free come last.

    Volumes that name disks and a size are placed first, then those that name none,
    then those of size MAX.  A volume that does not share takes disks that nobody uses,
    and nobody else gets them.

    :param config: checked by :func:`check`.
    :raises DoesNotFit: it does not; says which volume, and what there is.
    """
    everything = {disk.path: disk for disk in disks}
    wanted = [(n, disk) for n, disk in enumerate(config["logical_disks"], 1)]
    named = [
        (n, disk, _named(n, disk, everything)) for n, disk in wanted if "physical_disks" in disk
    ]
    pool = {path: disk for path, disk in everything.items() if not disk.fault}
    sized = [item for item in named if item[1]["size_gb"] != MAX]
    whole = [item for item in named if item[1]["size_gb"] == MAX]
    free = [(n, disk) for n, disk in wanted if "physical_disks" not in disk]
    placed = {n: _place_named(n, disk, paths, pool) for n, disk, paths in sized}
    reserved = {
        path for _n, disk, paths in whole if not disk.get("share_physical_disks") for path in paths
    }
    wished = {path for _n, _disk, paths in whole for path in paths}
    found = None
    if free:
        for kept in (wished, reserved):
            usable = {path: disk for path, disk in pool.items() if path not in kept}
            found = _Search(free).run(usable)
            if found is not None:
                break
        else:
            raise DoesNotFit(_does_not_fit(free, pool, reserved))
        for (number, _disk), (volume, use) in zip(free, found, strict=True):
            placed[number] = volume
            _take(pool, volume.disks, use)
    for n, disk, paths in whole:
        placed[n] = _place_named(n, disk, paths, pool)
    return sorted((placed[n] for n, _disk in wanted), key=lambda volume: volume.size is None)


def _take(pool: dict[str, Disk], paths: Iterable[str], use: int | None) -> None:
    """Use up space of disks; None: all of it."""
    for path in paths:
        disk = pool[path]
        pool[path] = replace(disk, free=0 if use is None else max(disk.free - use, 0))


def _size(disk: Mapping[str, Any]) -> int:
    return int(disk["size_gb"]) * units.Gi


def _shares(disk: Mapping[str, Any]) -> bool:
    return bool(disk.get("share_physical_disks"))


def _named(number: int, disk: Mapping[str, Any], pool: Mapping[str, Disk]) -> list[str]:
    """Return the paths of the disks that a volume names."""
    controller = disk["controller"]
    known = {d.identity: d for d in pool.values() if d.controller == controller}
    known |= {d.path: d for d in known.values()}
    _need_controller(number, controller, pool.values())
    unknown = [name for name in disk["physical_disks"] if name not in known]
    if unknown:
        raise DoesNotFit(
            f"volume {number}: controller {controller} has no disk {', '.join(unknown)}; "
            f"it has {', '.join(sorted(d.identity for d in set(known.values())))}"
        )
    chosen = [known[name] for name in disk["physical_disks"]]
    broken = [f"{d.identity} ({d.fault})" for d in chosen if d.fault]
    if broken:
        raise DoesNotFit(f"volume {number}: the BMC says that it cannot use {', '.join(broken)}")
    _need_level(number, disk["raid_level"], chosen[0])
    return [d.path for d in chosen]


def _need_controller(number: int, controller: str, disks: Iterable[Disk]) -> None:
    names = sorted({disk.controller for disk in disks})
    if controller not in names:
        raise DoesNotFit(
            f"volume {number}: there is no RAID controller {controller} with disks; "
            f"there is {', '.join(names) or 'none at all'}"
        )


def _need_level(number: int, level: str, disk: Disk) -> None:
    if disk.levels is not None and level not in disk.levels:
        offered = ", ".join(name for name in LEVELS if name in disk.levels)
        raise DoesNotFit(
            f"volume {number}: controller {disk.controller} does not offer RAID {level}; "
            f"it offers {offered or 'none that is known'}"
        )


def _place_named(
    number: int, wish: Mapping[str, Any], paths: Sequence[str], pool: dict[str, Disk]
) -> Volume:
    """Place a volume on the disks that it names, and take their space."""
    disks = [pool[path] for path in paths]
    level = LEVELS[wish["raid_level"]]
    used = [disk.identity for disk in disks if not disk.unused]
    if used and not _shares(wish):
        raise DoesNotFit(
            f"volume {number}: {', '.join(used)} is in use by another volume; delete that, "
            "or set share_physical_disks"
        )
    room = level.largest([disk.free for disk in disks])
    size = None if wish["size_gb"] == MAX else _size(wish)
    if room < (size or STRIPE):
        raise DoesNotFit(
            f"volume {number}: the disks {', '.join(disk.identity for disk in disks)} have room "
            f"for {room // units.Gi} GiB in RAID {wish['raid_level']}, not for {wish['size_gb']}"
        )
    use = level.use(len(disks), size) if size is not None and _shares(wish) else None
    _take(pool, paths, use)
    return _volume(wish, disks, size)


def _volume(wish: Mapping[str, Any], disks: Sequence[Disk], size: int | None) -> Volume:
    return Volume(
        controller=disks[0].controller,
        level=wish["raid_level"],
        size=size,
        disks=[disk.path for disk in disks],
        name=wish.get("volume_name"),
        is_root=bool(wish.get("is_root_volume")),
    )


_Found = tuple[Volume, int | None]


class _Search:
    """Finds disks for volumes that name none, by trial and going back.

    What has failed is remembered: disks of one kind with the same free space are as
    good as each other, so there are not many different cases.  After :data:`MOST_TRIES`
    it gives up, and the volumes need to be told their disks.
    """

    def __init__(self, wanted: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        self._wanted = wanted
        self._failed: set[tuple[Any, ...]] = set()
        self._tries = 0

    def run(self, pool: Mapping[str, Disk], at: int = 0) -> list[_Found] | None:
        """Return volumes and what they take of each disk (None: all of it)."""
        if at == len(self._wanted):
            return []
        case = (at, *sorted((disk.kind, disk.free) for disk in pool.values()))
        self._tries += 1
        if case in self._failed or self._tries > MOST_TRIES:
            return None
        wish = self._wanted[at][1]
        for disks, use in _choices(wish, pool.values()):
            volume = _volume(wish, disks, _size(wish))
            rest = dict(pool)
            _take(rest, volume.disks, use)
            further = self.run(rest, at + 1)
            if further is not None:
                return [(volume, use), *further]
        self._failed.add(case)
        return None


def _suits(wish: Mapping[str, Any], disk: Disk) -> bool:
    """Tell whether a volume may be on a disk, apart from the space."""
    kind, interface = wish.get("disk_type"), wish.get("interface_type")
    return (
        wish.get("controller") in (None, disk.controller)
        and (disk.levels is None or wish["raid_level"] in disk.levels)
        and (kind is None or (disk.media_type or "").lower() == kind)
        and (interface is None or disk.protocol == _INTERFACES[interface])
    )


def _choices(
    wish: Mapping[str, Any], disks: Iterable[Disk]
) -> Iterator[tuple[list[Disk], int | None]]:
    """Yield sets of like disks for a volume, few disks and little waste first."""
    level, shares, fixed = (
        LEVELS[wish["raid_level"]],
        _shares(wish),
        wish.get("number_of_physical_disks"),
    )
    suitable = sorted(
        (disk for disk in disks if _suits(wish, disk) and (shares or disk.unused)),
        key=lambda disk: (disk.kind, disk.free),
    )
    for _kind, alike in groupby(suitable, key=lambda disk: disk.kind):
        group = list(alike)
        for count in range(1, len(group) + 1):
            if not level.takes(count) or fixed not in (None, count):
                continue
            use = level.use(count, _size(wish))
            fitting = [disk for disk in group if disk.free >= use][:count]
            if len(fitting) == count:
                yield fitting, use if shares else None


def _does_not_fit(
    wanted: Sequence[tuple[int, Mapping[str, Any]]], pool: Mapping[str, Disk], kept: set[str]
) -> str:
    """Say what does not fit: the first volume that no disks suit, or all of them."""
    usable = {path: disk for path, disk in pool.items() if path not in kept}
    for number, wish in wanted:
        if wish.get("controller") is not None:
            _need_controller(number, wish["controller"], pool.values())
        if next(_choices(wish, usable.values()), None) is None:
            return f"{_no_place(number, wish)}. The machine has {_stock(usable.values())}"
    numbers = ", ".join(str(number) for number, _wish in wanted)
    return (
        f"volumes {numbers} do not fit together. The machine has {_stock(usable.values())}; "
        "share_physical_disks lets volumes share their disks"
    )


def _no_place(number: int, wish: Mapping[str, Any]) -> str:
    level = LEVELS[wish["raid_level"]]
    wishes = [
        f"{wish['size_gb']} GiB",
        f"{wish.get('number_of_physical_disks', level.counts)} disks",
    ]
    wishes += [
        str(wish[key]) for key in ("disk_type", "interface_type") if wish.get(key) is not None
    ]
    if wish.get("controller") is not None:
        wishes.append(f"controller {wish['controller']}")
    return f"volume {number}: nothing suits RAID {wish['raid_level']} ({', '.join(wishes)})"


def _stock(disks: Iterable[Disk]) -> str:
    """Return what disks there are, for texts."""
    kinds: dict[tuple[str, str, str, int], list[Disk]] = {}
    for disk in disks:
        kinds.setdefault(disk.kind, []).append(disk)
    lines = []
    for (controller, media, protocol, size), alike in sorted(kinds.items()):
        words = " ".join(filter(None, (media, protocol, f"{size // units.Gi} GiB")))
        unused = sum(disk.unused for disk in alike)
        levels = alike[0].levels
        offers = (
            ""
            if levels is None
            else f", RAID {', '.join(name for name in LEVELS if name in levels) or 'none'}"
        )
        lines.append(f"{len(alike)} x {words} at {controller} ({unused} unused{offers})")
    return "; ".join(lines) or "no disks at a RAID controller"
