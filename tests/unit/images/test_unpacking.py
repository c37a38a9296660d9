"""Images packed by zstd (K10/78): unpacked, or refused before they fill a disk."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from ironic_rs.domain import errors
from ironic_rs.images import unpacking
from ironic_rs.images.cache import ImageCache, Wish
from ironic_rs.images.checksum import Checksum
from ironic_rs.images.services import AHEAD
from tests.harness.servers import missing
from tests.unit.images.test_formats import qcow2, raw

CONTENT = raw(3_000_000)


def zstd(content: bytes, *options: str) -> bytes:
    """Pack; from a pipe, so that the size is told only with ``--stream-size``."""
    program = shutil.which("zstd")
    if program is None:
        missing("zstd is not installed")
    command = [program, "-qc", *options]
    return subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout


def told(content: bytes) -> bytes:
    """Pack, with the size in the header."""
    return zstd(content, f"--stream-size={len(content)}")


def store(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "packed"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("size", [1, 200, 255, 256, 300, 65_536, 70_000, 3_000_000])
def test_the_size_in_the_header_is_asked_for_first(tmp_path, size):
    asked: list[int] = []
    source = store(tmp_path, told(CONTENT[:size]))
    assert unpacking.is_packed(source)
    unpacking.unpack(source, tmp_path / "image", asked.append)
    assert asked == [size]
    assert (tmp_path / "image").read_bytes() == CONTENT[:size]


def test_without_a_size_there_must_be_room_ahead(tmp_path):
    asked: list[int] = []
    content = bytes(AHEAD + 5_000_000)
    unpacking.unpack(store(tmp_path, zstd(content)), tmp_path / "image", asked.append)
    assert asked[0] == AHEAD
    assert len(asked) == 2
    assert (tmp_path / "image").stat().st_size == len(content)


def test_a_bomb_is_not_unpacked_further_than_there_is_room(tmp_path):
    def room(needed: int) -> None:
        if (tmp_path / "image").exists():
            raise errors.InsufficientDiskSpace(path="x", required=needed, actual=0)

    source = store(tmp_path, zstd(bytes(AHEAD * 4)))
    assert source.stat().st_size < 100_000
    with pytest.raises(errors.InsufficientDiskSpace):
        unpacking.unpack(source, tmp_path / "image", room)
    assert (tmp_path / "image").stat().st_size <= AHEAD


def test_damage_is_told(tmp_path):
    packed = bytearray(zstd(CONTENT[:1000] + hashlib.shake_256(b"x").digest(100_000)))
    packed[5000] ^= 0xFF
    with pytest.raises(errors.InvalidImage, match="damaged"):
        unpacking.unpack(store(tmp_path, bytes(packed)), tmp_path / "image", lambda _n: None)


def test_without_the_program_the_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(errors.InvalidImage, match="zstd is not installed"):
        unpacking.unpack(store(tmp_path, b""), tmp_path / "image", lambda _n: None)


def test_what_was_unpacked_is_looked_at_and_has_its_own_digest(server, config, tmp_path):
    images = ImageCache(str(tmp_path / "masters"), size=1, ttl=60)
    packed = told(CONTENT)
    source = Checksum("sha512", hashlib.sha512(packed).hexdigest())
    url = server.put("/image.zst", packed)
    for name in ("a", "b"):
        image = images.fetch(url, tmp_path / name, Wish(source, "raw", unpack=True))
        assert image.path.read_bytes() == CONTENT
        assert image.checksum == ("sha512", hashlib.sha512(CONTENT).hexdigest())
    assert server.methods("/image.zst").count("GET") == 1
    with pytest.raises(errors.InvalidImage, match=r"packed \(zstd\)"):
        images.fetch(url, tmp_path / "c", Wish(source, "raw"))
    unsafe = told(qcow2(backing=b"/etc/passwd"))
    with pytest.raises(errors.InvalidImage, match="not safe"):
        images.fetch(server.put("/unsafe", unsafe), tmp_path / "d", Wish(unpack=True))
    twice = told(told(CONTENT))
    with pytest.raises(errors.InvalidImage, match=r"packed \(zstd\)"):
        images.fetch(server.put("/twice", twice), tmp_path / "e", Wish(unpack=True))
