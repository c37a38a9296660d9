"""Images that are published packed by zstd are unpacked, no further than there is room.

Source: specification drivers.md section 12.5.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ironic_rs.domain import errors
from ironic_rs.images.services import AHEAD, CHUNK, Room
from ironic_rs.integrations import interruption

_MAGIC = b"\x28\xb5\x2f\xfd"
#: Bits 6 and 7 of the descriptor -> bytes of the frame's content size (RFC 8878, 3.1.1.1).
_SIZE_BYTES = (0, 2, 4, 8)


def is_packed(path: Path) -> bool:
    """Tell whether a file is one that :func:`unpack` unpacks."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def unpack(source: Path, target: Path, room: Room) -> None:
    """Unpack a file.

    :param target: does not exist yet.
    :param room: asked before bytes are written.
    :raises InvalidImage: it is damaged, or zstd is not installed.
    :raises InsufficientDiskSpace: said by ``room``.
    :raises WorkAborted, LockLost: nobody wants it any more.
    """
    program = shutil.which("zstd")
    if program is None:
        raise errors.InvalidImage(
            reason="the file is packed (zstd), and zstd is not installed on the conductor"
        )
    promised = _claimed_size(source)
    room(promised)
    with (
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [program, "-dcq", "--", str(source)], stdout=subprocess.PIPE, stderr=complaints
        ) as process,
        interruption.stoppable(process.kill),
    ):
        try:
            assert process.stdout is not None
            with target.open("xb") as file:
                while chunk := process.stdout.read(CHUNK):
                    interruption.check()
                    if len(chunk) > promised:
                        promised += AHEAD
                        room(promised)
                    promised -= len(chunk)
                    file.write(chunk)
        except BaseException:
            process.kill()
            raise
        if process.wait() != 0:
            complaints.seek(0)
            said = complaints.read(1000).decode(errors="replace").strip()
            raise errors.InvalidImage(reason=f"the file is packed (zstd) and damaged: {said}")


def _claimed_size(path: Path) -> int:
    """Return how many bytes the first frame unpacks to, a small number when it does not say."""
    with path.open("rb") as file:
        head = file.read(len(_MAGIC) + 14)[len(_MAGIC) :]
    if not head:
        return AHEAD
    descriptor = head[0]
    single_segment = bool(descriptor & 0x20)
    count = _SIZE_BYTES[descriptor >> 6] or int(single_segment)
    begin = 1 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(head[begin : begin + count], "little") + 256 * (count == 2)
    return size if count else AHEAD
