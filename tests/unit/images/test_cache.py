"""Images kept on the conductor."""

from __future__ import annotations

import datetime
import email.utils
import hashlib
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from ironic_rs.domain import errors
from ironic_rs.images import cache, formats
from ironic_rs.images.cache import ImageCache, Wish
from ironic_rs.images.checksum import Checksum
from tests.unit.images.test_formats import qcow2

CONTENT = b"\x5a" * 300_000
DIGEST = Checksum("sha256", hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def images(tmp_path: Path, config) -> ImageCache:
    return ImageCache(str(tmp_path / "masters"), size=1, ttl=60)


def masters(tmp_path: Path) -> list[Path]:
    return sorted(p for p in (tmp_path / "masters").iterdir() if p.suffix != ".json")


def test_an_image_is_fetched_once_and_linked_to_each_node(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    first = images.fetch(url, tmp_path / "a" / "disk", Wish(DIGEST))
    second = images.fetch(url, tmp_path / "b" / "disk", Wish(DIGEST))
    assert server.methods("/image").count("GET") == 1
    assert first.path.samefile(second.path)
    assert (second.format, second.checksum) == ("raw", DIGEST)
    assert first.path.read_bytes() == CONTENT


def test_a_newer_image_at_its_source_is_fetched_again(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    images.fetch(url, tmp_path / "a")
    future = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    server.put("/image", b"new", headers={"Last-Modified": email.utils.format_datetime(future)})
    images.fetch(url, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"new"


def test_an_image_that_must_not_be_kept_is_not(server, images, tmp_path):
    url = server.put("/image", CONTENT, headers={"Cache-Control": "no-store"})
    images.fetch(url, tmp_path / "a", Wish(DIGEST))
    images.fetch(url, tmp_path / "b", Wish(DIGEST))
    assert server.methods("/image").count("GET") == 2
    assert not (tmp_path / "masters").exists()


def test_a_wrong_digest_leaves_nothing_behind(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    with pytest.raises(errors.ImageChecksumError, match=r"/image has sha256 .* not abc"):
        images.fetch(url, tmp_path / "a", Wish(Checksum("sha256", "abc")))
    assert list((tmp_path / "masters").iterdir()) == []
    assert not (tmp_path / "a").exists()


def test_another_digest_is_another_image(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    images.fetch(url, tmp_path / "a", Wish(DIGEST))
    with pytest.raises(errors.ImageChecksumError):
        images.fetch(url, tmp_path / "a", Wish(Checksum("sha256", "abc")))


def test_the_check_of_digests_can_be_switched_off(server, images, tmp_path, config):
    config("conductor", disable_file_checksum=True)
    images.fetch(server.put("/image", CONTENT), tmp_path / "a", Wish(Checksum("sha256", "abc")))


def test_an_image_that_is_not_what_was_declared_is_refused(server, images, tmp_path):
    url = server.put("/image", qcow2())
    with pytest.raises(errors.InvalidImage, match="declared"):
        images.fetch(url, tmp_path / "a", Wish(declared="raw"))
    assert list((tmp_path / "masters").iterdir()) == []


def test_inspection_can_be_switched_off(server, images, tmp_path, config):
    config("conductor", disable_deep_image_inspection=True)
    image = images.fetch(server.put("/image", qcow2()), tmp_path / "a", Wish(declared="raw"))
    assert image.format == "qcow2"


def converter(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stand in for the tool: conversion is tested with the tool's own tests."""
    calls = []

    def convert(source: Path, target: Path, detected: str, image: str) -> None:
        calls.append(detected)
        shutil.copy(source, target)
        target.write_bytes(CONTENT)

    monkeypatch.setattr(formats, "convert_to_raw", convert)
    return calls


def test_a_converted_image_has_the_digest_of_its_content(server, images, tmp_path, monkeypatch):
    calls = converter(monkeypatch)
    body = qcow2()
    source = Checksum("md5", hashlib.md5(body).hexdigest())
    url = server.put("/image", body)
    for name in ("a", "b"):
        image = images.fetch(url, tmp_path / name, Wish(source, "qcow2", to_raw=True))
        assert (image.format, image.checksum) == ("raw", DIGEST)
        assert image.path.read_bytes() == CONTENT
    assert calls == ["qcow2"]


def test_raw_images_are_not_converted(server, images, tmp_path, monkeypatch):
    calls = converter(monkeypatch)
    image = images.fetch(server.put("/image", CONTENT), tmp_path / "a", Wish(DIGEST, to_raw=True))
    assert (image.format, image.checksum, calls) == ("raw", DIGEST, [])


def test_nodes_that_want_an_image_at_the_same_time_fetch_it_once(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    threads = [
        threading.Thread(target=images.fetch, args=(url, tmp_path / str(n), Wish(DIGEST)))
        for n in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.methods("/image").count("GET") == 1
    assert all((tmp_path / str(n)).read_bytes() == CONTENT for n in range(5))


def test_downloads_can_be_made_one_after_the_other(server, images, tmp_path, config):
    config(parallel_image_downloads=False)
    images.fetch(server.put("/image", CONTENT), tmp_path / "a")


def test_clean_up_removes_what_is_unused_too_long_then_the_oldest(server, images, tmp_path):
    half = b"\x5a" * 700_000
    for name in ("in-use", "expired", "old", "new"):
        images.fetch(server.put(f"/{name}", half + name.encode()), tmp_path / name)
    (used,) = (m for m in masters(tmp_path) if m.samefile(tmp_path / "in-use"))
    ages = {"expired": 4000, "old": 2000, "new": 10}
    for name, age in ages.items():
        (tmp_path / name).rename(tmp_path / "gone")
        master = next(m for m in masters(tmp_path) if m.samefile(tmp_path / "gone"))
        (tmp_path / "gone").unlink()
        os.utime(master, (time.time() - age, master.stat().st_mtime))
    images.clean_up()
    left = masters(tmp_path)
    assert len(left) == 2
    assert used in left
    assert any(m.read_bytes().endswith(b"new") for m in left)


def test_unused_images_give_way_to_a_new_one(server, images, tmp_path, monkeypatch, config):
    images.fetch(server.put("/old", CONTENT + b"old"), tmp_path / "a")
    (tmp_path / "a").unlink()
    free = iter([100, 100, 10_000_000, 10_000_000])
    monkeypatch.setattr(cache, "_free", lambda _directory: next(free, 10_000_000))
    images.fetch(server.put("/new", CONTENT), tmp_path / "b")
    assert len(masters(tmp_path)) == 1


def test_an_image_that_does_not_fit_is_told(server, images, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_free", lambda _directory: 1000)
    with pytest.raises(errors.InsufficientDiskSpace, match="masters"):
        images.fetch(server.put("/image", CONTENT), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_cache_without_a_directory_keeps_nothing(server, tmp_path, config):
    url = server.put("/image", CONTENT)
    ImageCache("", size=1, ttl=1).fetch(url, tmp_path / "a")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a"]
