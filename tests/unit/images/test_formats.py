"""Formats of images by content, and their conversion (field case 78)."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import struct
from pathlib import Path

import pytest

from ironic_rs.domain import errors
from ironic_rs.images import configdrive, formats


def raw(size: int = 1024 * 1024) -> bytes:
    return b"\x5a" * size


def qcow2(*, backing: bytes = b"", data_file: bool = False, size: int = 1 << 20) -> bytes:
    """Return a version 3 header with what is needed to look like an image."""
    features = 1 << 2 if data_file else 0
    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        b"QFI\xfb",
        3,
        104 if backing else 0,
        len(backing),
        16,
        size,
        0,
        1,
        0x30000,
        0x10000,
        1,
        0,
        0,
        features,
        0,
        0,
        4,
        104,
    )
    return (header + backing).ljust(1 << 18, b"\0")


def gpt() -> bytes:
    mbr = bytearray(512)
    mbr[446:462] = bytes([0, 0, 2, 0, 0xEE, 255, 255, 255]) + struct.pack("<II", 1, 0xFFFFFFFF)
    mbr[510:512] = b"\x55\xaa"
    return bytes(mbr) + b"EFI PART".ljust(512, b"\0") + bytes(1 << 20)


def vmdk() -> bytes:
    return b"KDMV".ljust(1 << 20, b"\0")


def store(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "image"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "declared", "detected"),
    [
        (raw(), None, "raw"),
        (raw(), "raw", "raw"),
        (gpt(), "raw", "gpt"),
        (gpt(), None, "gpt"),
        (qcow2(), "qcow2", "qcow2"),
        (qcow2(), None, "qcow2"),
        (raw(), "ari", "raw"),
    ],
)
def test_the_content_decides(config, tmp_path, content, declared, detected):
    assert formats.check(store(tmp_path, content), declared) == detected


@pytest.mark.parametrize(
    ("content", "declared", "match"),
    [
        (b"", None, "empty"),
        (raw(), "qcow2", "declared to be qcow2, but its content is raw"),
        (qcow2(), "raw", "declared to be raw, but its content is qcow2"),
        (qcow2(backing=b"/etc/passwd"), "qcow2", "not safe"),
        (qcow2(data_file=True), "qcow2", "not safe"),
        (vmdk(), "vmdk", "not safe|not permitted"),
        (b"LUKS\xba\xbe\x00\x01".ljust(1 << 20, b"\0"), None, "not safe|not permitted"),
        (qcow2(size=1 << 63), "qcow2", "virtual size of 9223372036854775808 bytes"),
        (gzip.compress(raw()), "raw", "packed .gzip."),
        (bz2.compress(raw()), None, "packed .bzip2."),
        (lzma.compress(raw()), None, "packed .xz."),
        (b"\x28\xb5\x2f\xfd" + raw(), "raw", "packed .zstd."),
        (b"PK\x03\x04" + raw(), None, "packed .zip."),
    ],
)
def test_dangerous_and_mislabelled_images_are_refused(config, tmp_path, content, declared, match):
    with pytest.raises(errors.InvalidImage, match=match):
        formats.check(store(tmp_path, content), declared)


def test_several_formats_at_once_are_refused(config, tmp_path):
    iso = bytearray(configdrive.make_iso({"meta_data.json": b"{}"}))
    iso[: len(qcow2()[:512])] = qcow2()[:512]
    with pytest.raises(errors.InvalidImage, match="several formats"):
        formats.check(store(tmp_path, bytes(iso)))


def test_a_hybrid_iso_is_an_iso(config, tmp_path):
    iso = bytearray(configdrive.make_iso({"meta_data.json": b"{}"}))
    iso[:1024] = gpt()[:1024]
    assert formats.detect(store(tmp_path, bytes(iso))) == "iso"


def test_permitted_formats_are_configured(config, tmp_path):
    config("conductor", permitted_image_formats=["raw"])
    formats.check(store(tmp_path, gpt()))
    with pytest.raises(errors.InvalidImage, match="qcow2 is not permitted"):
        formats.check(store(tmp_path, qcow2()))


def test_the_virtual_size_of_an_image_is_told(config, tmp_path):
    assert formats.virtual_size(store(tmp_path, qcow2(size=1 << 33))) == 1 << 33
    assert formats.virtual_size(store(tmp_path, raw(4096))) == 4096
    # A header that ends early tells nothing.
    assert formats.virtual_size(store(tmp_path, vmdk())) == 2 * len(vmdk())


@pytest.fixture
def qemu_img(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config) -> Path:
    """A qemu-img that writes down its arguments and limits, and runs $BODY."""
    directory = tmp_path / "bin"
    directory.mkdir()
    tool = directory / "qemu-img"
    tool.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> {tmp_path}/calls\n'
        f"ulimit -v > {tmp_path}/limit\n"
        f'echo "$MALLOC_ARENA_MAX" > {tmp_path}/arenas\n'
        "for target; do :; done\n"
        f". {tmp_path}/body\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    (tmp_path / "body").write_text('printf raw-content > "$target"\n')
    monkeypatch.setattr(formats, "TRY_PAUSE", 0)
    config(minimum_required_memory=1)
    return tmp_path


def test_conversion_names_the_format_and_limits_the_tool(qemu_img, config):
    config("disk_utils", image_convert_memory_limit=512)
    target = qemu_img / "out"
    formats.convert_to_raw(qemu_img / "in", target, "qcow2", "http://x/y")
    assert (qemu_img / "calls").read_text() == (f"convert -f qcow2 -O raw {qemu_img}/in {target}\n")
    assert int((qemu_img / "limit").read_text()) == 512 * 1024
    assert (qemu_img / "arenas").read_text() == "3\n"
    assert target.read_text() == "raw-content"


def test_conversion_is_tried_again_for_a_lack_of_memory(qemu_img):
    (qemu_img / "body").write_text("echo Cannot allocate memory >&2; exit 1\n")
    with pytest.raises(errors.ImageConvertFailed, match="Cannot allocate memory"):
        formats.convert_to_raw(qemu_img / "in", qemu_img / "out", "qcow2", "x")
    assert len((qemu_img / "calls").read_text().splitlines()) == 3


def test_conversion_of_a_broken_image_fails_at_once(qemu_img):
    (qemu_img / "body").write_text("echo Image is corrupt >&2; exit 1\n")
    with pytest.raises(errors.ImageConvertFailed, match="corrupt"):
        formats.convert_to_raw(qemu_img / "in", qemu_img / "out", "qcow2", "x")
    assert len((qemu_img / "calls").read_text().splitlines()) == 1


def test_a_conversion_that_is_not_raw_is_refused(qemu_img):
    (qemu_img / "qcow2").write_bytes(qcow2())
    (qemu_img / "body").write_text(f'cp {qemu_img}/qcow2 "$target"\n')
    with pytest.raises(errors.ImageConvertFailed, match="content is qcow2"):
        formats.convert_to_raw(qemu_img / "in", qemu_img / "out", "qcow2", "x")
    assert not (qemu_img / "out").exists()


def test_conversion_waits_for_memory_only_so_long(qemu_img, config):
    config(
        minimum_required_memory=1 << 40, minimum_memory_wait_time=0, minimum_memory_wait_retries=2
    )
    with pytest.raises(errors.ImageConvertFailed, match="memory"):
        formats.convert_to_raw(qemu_img / "in", qemu_img / "out", "qcow2", "x")
    config(minimum_memory_warning_only=True)
    formats.convert_to_raw(qemu_img / "in", qemu_img / "out", "qcow2", "x")


def test_a_missing_tool_is_named(tmp_path, monkeypatch, config):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(errors.ImageConvertFailed, match="qemu-img is not installed"):
        formats.convert_to_raw(tmp_path / "in", tmp_path / "out", "qcow2", "x")
