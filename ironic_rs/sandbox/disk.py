"""The disk of a simulated machine: a sparse file in the sandbox directory."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from ironic_rs.sandbox import directory
from ironic_rs.sandbox.settings import MIB

SECTOR = 512
_CHUNK = MIB


@dataclass(frozen=True)
class Partition:
    """One partition.  ``start`` and ``size`` in bytes; ``identity`` as blkid prints it."""

    number: int
    start: int
    size: int
    kind: str
    identity: str


@dataclass(frozen=True)
class InstalledImage:
    """What was written to the disk last: ``size`` bytes with this SHA-256 digest.

    ``offset`` is where on the disk, in bytes: other than 0 for the image of a partition.
    """

    name: str
    size: int
    sha256: str
    offset: int = 0


class Disk:
    """All methods block on file access; call them outside of the event loop."""

    def __init__(self, folder: Path, root: Path, size: int) -> None:
        """:param folder: the machine's directory below ``root``, the sandbox directory."""
        self.path = folder / "disk.img"
        self.size = size
        self._root = root
        self._record_path = folder / "disk.json"
        self.image: InstalledImage | None = None

    def attach(self) -> None:
        """Make the file if it is not there, and recall what is on it."""
        descriptor = directory.open_regular(self.path, self._root, os.O_RDWR | os.O_CREAT)
        try:
            os.ftruncate(descriptor, self.size)
        finally:
            os.close(descriptor)
        try:
            self.image = InstalledImage(**json.loads(self._record_path.read_text()))
        except (OSError, ValueError, TypeError):
            self.image = None

    @contextmanager
    def opened(self, *, write: bool = False) -> Iterator[int]:
        """Descriptor of the disk file."""
        flags = os.O_RDWR if write else os.O_RDONLY
        descriptor = directory.open_regular(self.path, self._root, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def record(self, image: InstalledImage | None) -> None:
        """Remember which image was written, so that a boot can check its bytes."""
        self.image = image
        if image is None:
            self._record_path.unlink(missing_ok=True)
        else:
            self._record_path.write_text(json.dumps(asdict(image)))

    def wipe_metadata(self) -> None:
        """Overwrite the partition tables at both ends with zeroes."""
        edge = min(MIB, self.size)
        with self.opened(write=True) as descriptor:
            os.pwrite(descriptor, bytes(edge), 0)
            os.pwrite(descriptor, bytes(edge), self.size - edge)
        self.record(None)

    def erase(self) -> None:
        """Make every byte zero."""
        with self.opened(write=True) as descriptor:
            os.ftruncate(descriptor, 0)
            os.ftruncate(descriptor, self.size)
        self.record(None)

    def digest(self, length: int | None = None, algorithm: str = "sha256") -> str:
        """Hex digest of the first ``length`` bytes (default: of the installed image)."""
        start = 0
        if length is None:
            length = self.image.size if self.image else self.size
            start = self.image.offset if self.image else 0
        hasher = hashlib.new(algorithm)
        left = min(length, self.size - start)
        with self.opened() as descriptor, os.fdopen(os.dup(descriptor), "rb") as stream:
            stream.seek(start)
            while left:
                chunk = stream.read(min(_CHUNK, left))
                if not chunk:
                    break
                hasher.update(chunk)
                left -= len(chunk)
        return hasher.hexdigest()

    def allocated(self) -> int:
        """Bytes that the sparse file really takes."""
        return self.path.stat().st_blocks * 512

    def partitions(self) -> list[Partition]:
        """Partition table at the start of the disk, GPT or MBR."""
        with self.opened() as descriptor:
            head = os.pread(descriptor, 34 * SECTOR, 0)
        return read_partitions(head)

    def why_not_bootable(self) -> str | None:
        """None if a machine can boot from the disk, else the reason.

        The disk boots when an image was written by an agent, its bytes are all there
        unchanged, and it has a boot signature and a partition.
        """
        with self.opened() as descriptor:
            head = os.pread(descriptor, SECTOR, 0)
        if head[510:512] != b"\x55\xaa":
            return "no boot signature on the disk"
        if not self.partitions():
            return "no partition on the disk"
        if self.image is None:
            return "no image was written to the disk"
        found = self.digest()
        if found != self.image.sha256:
            return (
                f"{self.image.size} bytes of the disk from byte {self.image.offset} on have the "
                f"SHA-256 digest {found}, the image has {self.image.sha256}"
            )
        return None


def read_partitions(head: bytes) -> list[Partition]:
    """Partitions listed in the first 34 sectors of a disk."""
    if head[510:512] != b"\x55\xaa":
        return []
    if head[SECTOR : SECTOR + 8] == b"EFI PART":
        return _gpt(head)
    return _mbr(head)


def _mbr(head: bytes) -> list[Partition]:
    (disk_id,) = struct.unpack_from("<I", head, 440)
    found = []
    for number in range(1, 5):
        entry = head[446 + 16 * (number - 1) : 446 + 16 * number]
        start, count = struct.unpack_from("<II", entry, 8)
        if entry[4] and count:
            found.append(
                Partition(
                    number,
                    start * SECTOR,
                    count * SECTOR,
                    f"{entry[4]:02x}",
                    f"{disk_id:08x}-{number:02d}",
                )
            )
    return found


def _gpt(head: bytes) -> list[Partition]:
    table, count, width = struct.unpack_from("<QII", head, SECTOR + 72)
    found = []
    for index in range(min(count, 128)):
        offset = table * SECTOR + index * width
        entry = head[offset : offset + width]
        if len(entry) < 48 or entry[:16] == bytes(16):
            continue
        first, last = struct.unpack_from("<QQ", entry, 32)
        found.append(
            Partition(
                index + 1,
                first * SECTOR,
                (last - first + 1) * SECTOR,
                _guid(entry[:16]),
                _guid(entry[16:32]),
            )
        )
    return found


def _guid(raw: bytes) -> str:
    return str(uuid.UUID(bytes_le=raw))
