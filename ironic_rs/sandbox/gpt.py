"""Partition tables of disks and disk images (UEFI specification, section 5.3)."""

from __future__ import annotations

import binascii
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from ironic_rs.sandbox.disk import SECTOR

ESP = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
LINUX = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
SWAP = uuid.UUID("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f")

_FIRST_USABLE = 34
_ENTRIES = 128


@dataclass(frozen=True)
class Part:
    """One partition; ``first`` and ``last`` are sectors."""

    kind: uuid.UUID
    identity: uuid.UUID
    first: int
    last: int
    label: str


def last_usable(sectors: int) -> int:
    """Return the last sector that a partition may have on a disk of so many."""
    return sectors - _FIRST_USABLE


def tables(disk_id: uuid.UUID, parts: Sequence[Part], sectors: int) -> tuple[bytes, bytes]:
    """Return what stands at the start of a disk, and what at its end."""
    entries = b"".join(map(_entry, parts)).ljust(_ENTRIES * 128, b"\0")
    last = last_usable(sectors)
    first = _header(disk_id, entries, here=1, other=sectors - 1, table=2, last=last)
    second = _header(disk_id, entries, here=sectors - 1, other=1, table=sectors - 33, last=last)
    return _protective_mbr(sectors) + first + entries, entries + second


def _entry(part: Part) -> bytes:
    text = part.label.encode("utf-16-le").ljust(72, b"\0")
    where = struct.pack("<QQQ", part.first, part.last, 0)
    return part.kind.bytes_le + part.identity.bytes_le + where + text


def _header(
    disk_id: uuid.UUID, entries: bytes, *, here: int, other: int, table: int, last: int
) -> bytes:
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
    # A size that does not fit is all ones.
    size = min(sectors - 1, 0xFFFFFFFF)
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, size)
    return (bytes(446) + entry).ljust(510, b"\0") + b"\x55\xaa"
