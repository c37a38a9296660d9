"""Disks and demo images."""

from __future__ import annotations

import struct

import pytest

from ironic_rs.sandbox import demo
from ironic_rs.sandbox.disk import Disk, InstalledImage, read_partitions
from ironic_rs.sandbox.settings import MIB, SettingsError


@pytest.fixture
def disk(tmp_path):
    made = Disk(tmp_path, tmp_path, 8 * MIB)
    made.attach()
    return made


def test_a_new_disk_is_sparse_and_boots_nothing(disk):
    assert disk.path.stat().st_size == 8 * MIB
    assert disk.allocated() == 0
    assert disk.why_not_bootable() == "no boot signature on the disk"


def test_what_was_installed_is_known_after_a_restart(disk, tmp_path):
    disk.record(InstalledImage("image", 5, "ab"))
    again = Disk(tmp_path, tmp_path, 8 * MIB)
    again.attach()
    assert again.image == InstalledImage("image", 5, "ab")


def test_a_demo_image_has_a_partition_table_that_others_can_read(tmp_path):
    demo.make_image(tmp_path / "image", 4)
    content = (tmp_path / "image").read_bytes()
    assert len(content) == 4 * MIB
    first, second = read_partitions(content[: 34 * 512])
    assert first.start == MIB
    assert second.start == first.start + first.size
    assert second.start + second.size == 4 * MIB - 33 * 512
    assert first.kind == "c12a7328-f81f-11d2-ba4b-00a0c93ec93b"


def test_a_demo_image_is_the_same_every_time_for_a_seed(tmp_path):
    digests = [demo.make_image(tmp_path / "image", 3, seed) for seed in ("a", "a", "b")]
    assert digests[0] == digests[1] != digests[2]


def test_an_image_has_a_least_size(tmp_path):
    with pytest.raises(SettingsError):
        demo.make_image(tmp_path / "image", 2)


def test_the_partitions_of_an_mbr_are_read():
    entry = struct.pack("<B3xB3xII", 0x80, 0x83, 2048, 4096)
    head = (bytes(440) + b"\x44\x33\x22\x11\0\0" + entry).ljust(510, b"\0") + b"\x55\xaa"
    (partition,) = read_partitions(head.ljust(34 * 512, b"\0"))
    assert (partition.start, partition.size) == (2048 * 512, 4096 * 512)
    assert partition.identity == "11223344-01"
