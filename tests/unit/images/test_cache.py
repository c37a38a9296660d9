"""Images kept on the conductor."""

from __future__ import annotations

import datetime
import email.utils
import errno
import gzip
import hashlib
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from ironic_rs.conductor.interrupts import Interrupts, Work
from ironic_rs.domain import errors
from ironic_rs.images import cache, formats, services
from ironic_rs.images.cache import ImageCache, Wish
from ironic_rs.images.checksum import Checksum
from ironic_rs.integrations import interruption
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


# Bodies that are not what they seem


def test_less_than_was_announced_is_no_image(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    server.pages["/image"].short = 1000
    with pytest.raises(errors.ImageDownloadFailed, match="only 299000 of 300000 bytes came"):
        images.fetch(url, tmp_path / "a")
    assert list((tmp_path / "masters").iterdir()) == []


def test_a_packed_body_is_not_unpacked(server, images, tmp_path):
    bomb = gzip.compress(bytes(50_000_000))
    url = server.put("/image", bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(errors.InvalidImage, match=r"packed \(gzip\)"):
        images.fetch(url, tmp_path / "a")
    assert list((tmp_path / "masters").iterdir()) == []
    digest = Checksum("sha256", hashlib.sha256(bomb).hexdigest())
    with pytest.raises(errors.InvalidImage, match=r"packed \(gzip\)"):
        images.fetch(url, tmp_path / "a", Wish(digest))


def test_a_body_without_end_ends_where_the_room_does(server, images, tmp_path, monkeypatch):
    url = server.put("/image", b"\x5a" * 1_000_000, headers={"Content-Length": ""}, endless=True)
    asked = []

    def room(directory: Path, needed: int) -> None:
        asked.append(needed)
        if len(asked) == 3:
            raise errors.InsufficientDiskSpace(path=directory, required=1, actual=0)

    monkeypatch.setattr(cache, "make_room", room)
    with pytest.raises(errors.InsufficientDiskSpace):
        images.fetch(url, tmp_path / "a")
    assert list((tmp_path / "masters").iterdir()) == []


# Others who use the cache at the same time


def test_a_cached_image_is_there_at_once_while_others_are_fetched(
    server, images, tmp_path, config, monkeypatch
):
    url = server.put("/image", CONTENT)
    images.fetch(url, tmp_path / "a")
    config(parallel_image_downloads=False)
    with cache._downloads.one_more():
        images.fetch(url, tmp_path / "b")
    assert (tmp_path / "b").exists()


def test_a_master_in_somebodys_hands_does_not_go(server, images, tmp_path):
    images.fetch(server.put("/image", CONTENT), tmp_path / "a")
    (tmp_path / "a").unlink()
    (master,) = masters(tmp_path)
    with cache._turns.taken(master):
        images.give_way(1 << 60)
        assert master.exists()
    images.give_way(1 << 60)
    assert list((tmp_path / "masters").iterdir()) == []
    assert cache._turns._locks == {}


def test_a_master_that_another_process_removed_is_fetched_again(
    server, images, tmp_path, monkeypatch
):
    url = server.put("/image", CONTENT)
    images.fetch(url, tmp_path / "a")
    recall = cache._recall

    def recalled(master: Path, info: services.ImageInfo) -> cache.Image | None:
        found = recall(master, info)
        master.unlink()
        return found

    monkeypatch.setattr(cache, "_recall", recalled)
    images.fetch(url, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == CONTENT
    assert server.methods("/image").count("GET") == 2


def test_a_master_without_its_facts_is_fetched_again(server, images, tmp_path):
    url = server.put("/image", CONTENT)
    images.fetch(url, tmp_path / "a", Wish(DIGEST))
    (facts,) = (tmp_path / "masters").glob("*.json")
    facts.unlink()
    images.fetch(url, tmp_path / "b", Wish(DIGEST))
    assert server.methods("/image").count("GET") == 2
    assert facts.exists()


def test_over_a_file_system_boundary_an_image_is_copied(server, images, tmp_path, monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    images.fetch(server.put("/image", CONTENT), tmp_path / "node" / "disk")
    (master,) = masters(tmp_path)
    assert (tmp_path / "node" / "disk").read_bytes() == CONTENT
    assert not master.samefile(tmp_path / "node" / "disk")
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["disk"]


def test_a_place_that_cannot_be_written_is_named(server, images, tmp_path):
    (tmp_path / "node").write_text("a file")
    with pytest.raises(errors.ImageDownloadFailed, match="/node"):
        images.fetch(server.put("/image", CONTENT), tmp_path / "node" / "disk")


# Transfers that nobody wants any more


class Order:
    """An order to stop, given from another thread."""

    def __init__(self) -> None:
        self.interrupts = Interrupts()
        self.over: errors.WorkAborted | None = None
        self.works: list[Work] = []

    def check(self) -> None:
        if self.works[-1].aborted:
            raise errors.WorkAborted(node="n", what="deployment")

    def stoppable(self, stop):
        return self.interrupts.stoppable(self.works[-1], stop)

    def run(self, function, *arguments) -> None:
        with self.interrupts.work("n") as work, interruption.by(self):
            self.works.append(work)
            try:
                function(*arguments)
            except errors.WorkAborted as exc:
                self.over = exc


def test_a_transfer_is_broken_off_although_the_server_says_nothing(server, images, tmp_path):
    url = server.put("/image", CONTENT, stall=100_000)
    order = Order()
    thread = threading.Thread(target=order.run, args=(images.fetch, url, tmp_path / "a"))
    thread.start()
    assert server.stalled.wait(60)
    assert order.interrupts.abort("n")
    thread.join(60)
    assert order.over is not None
    assert list((tmp_path / "masters").iterdir()) == []
    assert not (tmp_path / "a").exists()
    assert server.methods("/image").count("GET") == 1


def test_who_waits_for_the_transfer_of_another_can_be_told_to_stop(server, images, tmp_path):
    url = server.put("/image", CONTENT, stall=100_000)
    first, second = Order(), Order()
    one = threading.Thread(target=first.run, args=(images.fetch, url, tmp_path / "a"))
    one.start()
    assert server.stalled.wait(60)
    two = threading.Thread(target=second.run, args=(images.fetch, url, tmp_path / "b"))
    two.start()
    while not second.interrupts.abort("n"):
        pass
    two.join(60)
    assert second.over is not None
    assert first.over is None
    server.go_on.set()
    one.join(60)
    assert (tmp_path / "a").read_bytes() == CONTENT
    assert not (tmp_path / "b").exists()
