"""RAID controllers of simulated machines."""

from __future__ import annotations

import pytest

from ironic_rs.sandbox import raid
from ironic_rs.sandbox.raid import DISK_BYTES, Impossible, Raid, parse_kind
from ironic_rs.sandbox.settings import GIB, SettingsError


@pytest.fixture
def controller():
    return Raid([("on-reset", 8)]).controllers["RAID.1"]


@pytest.mark.parametrize(
    ("raid_type", "disks", "data"),
    [
        ("RAID0", 1, 1),
        ("RAID1", 2, 1),
        ("RAID5", 3, 2),
        ("RAID6", 4, 2),
        ("RAID10", 4, 2),
        ("RAID50", 6, 4),
        ("RAID60", 8, 4),
    ],
)
def test_a_volume_without_a_size_takes_all(controller, raid_type, disks, data):
    volume = controller.make("V1", "", raid_type, None, range(disks))
    assert volume.size == data * DISK_BYTES
    controller.volumes["V1"] = volume
    with pytest.raises(Impossible, match="room for 0 bytes"):
        controller.make("V2", "", "RAID0", None, [0])


@pytest.mark.parametrize(
    ("raid_type", "disks", "size", "said"),
    [
        ("RAID5", 2, None, "not possible with 2 drives"),
        ("RAID1", 3, None, "not possible with 3 drives"),
        ("RAID7", 3, None, "not supported"),
        ("RAID1", 2, DISK_BYTES + 1, "room for"),
    ],
)
def test_what_a_controller_cannot_do_it_says(controller, raid_type, disks, size, said):
    with pytest.raises(Impossible, match=said):
        controller.make("V1", "", raid_type, size, range(disks))


def test_jobs_end_at_a_boot_or_by_themselves(monkeypatch):
    array = Raid([("on-reset", 2), ("immediate", 2)])
    for controller in array.controllers.values():
        volume = controller.make(controller.identity, "", "RAID1", GIB, [0, 1])
        array.begin(controller, volume, None)
        with pytest.raises(Impossible, match="busy"):
            array.begin(controller, None, "V9")
    array.work()
    assert array.to_json() == []
    monkeypatch.setattr(raid, "JOB_TIME", -1.0)
    array.work()
    assert [volume["controller"] for volume in array.to_json()] == ["RAID.2"]
    array.work(boots=True)
    assert [volume["controller"] for volume in array.to_json()] == ["RAID.1", "RAID.2"]
    array.begin(array.controllers["RAID.1"], None, "RAID.1")
    array.work("no battery", boots=True)
    assert [job.state for job in array.jobs] == ["Completed", "Completed", "Exception"]
    assert len(array.to_json()) == 2


def test_kinds_are_told_on_the_command_line():
    assert parse_kind("on-reset:6") == ("on-reset", 6)
    assert parse_kind("no-volumes") == ("no-volumes", 4)
    for wrong in ("quick", "immediate:x"):
        with pytest.raises(SettingsError, match="immediate, on-reset, no-volumes"):
            parse_kind(wrong)
