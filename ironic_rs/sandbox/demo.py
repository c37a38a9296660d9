"""Files to try the product with: a small disk image, and stand-ins for the boot files.

Simulated machines execute nothing, so kernel, ramdisk and boot loader only have to be
there; the disk image has a real partition table and content that can be told apart.
"""

from __future__ import annotations

import binascii
import hashlib
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

from ironic_rs.sandbox.disk import SECTOR
from ironic_rs.sandbox.settings import MIB, SettingsError

_ESP_TYPE = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
_LINUX_TYPE = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
_NAMESPACE = uuid.UUID("b4b1a1c2-7d2e-5f0b-8a55-0d6f3a1d2c77")
_FIRST_USABLE = 34
_ENTRIES = 128


@dataclass(frozen=True)
class DemoFiles:
    """Paths of the files, and the SHA-256 digest (hex) of the image."""

    image: Path
    kernel: Path
    ramdisk: Path
    esp: Path
    image_sha256: str


def make_files(folder: Path, image_mib: int = 8) -> DemoFiles:
    """Write all files to ``folder``, the same bytes every time.

    :param image_mib: size of the disk image, at least 3.
    """
    folder.mkdir(parents=True, exist_ok=True)
    image = folder / "demo.img"
    digest = make_image(image, image_mib)
    kernel, ramdisk, esp = folder / "kernel", folder / "ramdisk", folder / "esp.img"
    kernel.write_bytes(b"Stand-in for a deploy kernel.\n" * 64)
    ramdisk.write_bytes(b"Stand-in for a deploy ramdisk.\n" * 64)
    esp.write_bytes(_fat12(64))
    return DemoFiles(image, kernel, ramdisk, esp, digest)


def make_image(path: Path, size_mib: int, seed: str = "demo") -> str:
    """Write a GPT disk image with an EFI system partition and a Linux partition.

    :param seed: images of different seeds have different content.
    :returns: SHA-256 digest (hex).
    :raises SettingsError: too small.
    """
    if size_mib < 3:
        raise SettingsError("a disk image needs at least 3 MiB")
    sectors = size_mib * MIB // SECTOR
    esp_end = 2 * MIB // SECTOR - 1
    last_usable = sectors - _FIRST_USABLE
    entries = _entry(_ESP_TYPE, f"{seed} esp", MIB // SECTOR, esp_end, "EFI")
    entries += _entry(_LINUX_TYPE, f"{seed} root", esp_end + 1, last_usable, "root")
    entries = entries.ljust(_ENTRIES * 128, b"\0")
    disk_id = uuid.uuid5(_NAMESPACE, f"{seed} disk")
    first = _header(disk_id, entries, here=1, other=sectors - 1, table=2, last=last_usable)
    second = _header(
        disk_id, entries, here=sectors - 1, other=1, table=sectors - 33, last=last_usable
    )
    content = bytearray(_protective_mbr(sectors) + first + entries)
    content += bytes(MIB - len(content))
    content += _fat12(MIB // SECTOR)
    stream = hashlib.shake_256(seed.encode())
    content += stream.digest((sectors - esp_end - 1 - 33) * SECTOR)
    content += entries + second
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def _entry(kind: uuid.UUID, name: str, first: int, last: int, label: str) -> bytes:
    identity = uuid.uuid5(_NAMESPACE, name)
    text = label.encode("utf-16-le").ljust(72, b"\0")
    return kind.bytes_le + identity.bytes_le + struct.pack("<QQQ", first, last, 0) + text


def _header(
    disk_id: uuid.UUID, entries: bytes, *, here: int, other: int, table: int, last: int
) -> bytes:
    """GPT header sector (UEFI specification, section 5.3.2)."""

    def pack(checksum: int) -> bytes:
        return struct.pack(
            "<8sIIIIQQQQ16sQIII",
            b"EFI PART",
            0x00010000,
            92,
            checksum,
            0,
            here,
            other,
            _FIRST_USABLE,
            last,
            disk_id.bytes_le,
            table,
            _ENTRIES,
            128,
            binascii.crc32(entries),
        )

    return pack(binascii.crc32(pack(0))).ljust(SECTOR, b"\0")


def _protective_mbr(sectors: int) -> bytes:
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, sectors - 1)
    return (bytes(446) + entry).ljust(510, b"\0") + b"\x55\xaa"


def _fat12(sectors: int) -> bytes:
    """An empty FAT12 file system."""
    boot = struct.pack(
        "<3s8sHBHBHHBHHHIIBBBI11s8s",
        b"\xeb\x3c\x90",
        b"SANDBOX ",
        SECTOR,
        1,
        1,
        2,
        112,
        sectors,
        0xF0,
        6,
        32,
        2,
        0,
        0,
        0,
        0,
        0x29,
        0x5A5A5A5A,
        b"SANDBOX ESP",
        b"FAT12   ",
    ).ljust(510, b"\0")
    allocation = b"\xf0\xff\xff".ljust(6 * SECTOR, b"\0")
    content = boot + b"\x55\xaa" + allocation * 2
    return content.ljust(sectors * SECTOR, b"\0")
