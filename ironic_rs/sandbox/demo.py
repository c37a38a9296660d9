"""Files to try the product with: a small disk image, and stand-ins for the boot files.

Simulated machines execute nothing, so kernel, ramdisk and boot loader only have to be
there; the disk image has a real partition table and content that can be told apart.
"""

from __future__ import annotations

import hashlib
import struct
import uuid
from dataclasses import dataclass
from pathlib import Path

from ironic_rs.sandbox import gpt
from ironic_rs.sandbox.disk import SECTOR
from ironic_rs.sandbox.settings import MIB, SettingsError

_NAMESPACE = uuid.UUID("b4b1a1c2-7d2e-5f0b-8a55-0d6f3a1d2c77")


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
    parts = [
        gpt.Part(gpt.ESP, uuid.uuid5(_NAMESPACE, f"{seed} esp"), MIB // SECTOR, esp_end, "EFI"),
        gpt.Part(
            gpt.LINUX,
            uuid.uuid5(_NAMESPACE, f"{seed} root"),
            esp_end + 1,
            gpt.last_usable(sectors),
            "root",
        ),
    ]
    head, tail = gpt.tables(uuid.uuid5(_NAMESPACE, f"{seed} disk"), parts, sectors)
    content = bytearray(head)
    content += bytes(MIB - len(content))
    content += _fat12(MIB // SECTOR)
    stream = hashlib.shake_256(seed.encode())
    content += stream.digest((sectors - esp_end - 1 - 33) * SECTOR)
    content += tail
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


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
