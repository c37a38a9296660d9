"""Images kept on the conductor: fetched once, hard-linked to each node.

A cached image ("master") is shared by all nodes that use it; each node gets a hard
link, so a master with one link is in nobody's use and may go.

Source: specification drivers.md section 12.5; field case 81.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from oslo_log import log
from oslo_utils import units, uuidutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.images import formats, unpacking, workshop
from ironic_rs.images.checksum import Checksum
from ironic_rs.images.services import ImageInfo, copy, digest, redact, service_for
from ironic_rs.integrations import interruption

LOG = log.getLogger(__name__)

#: Suffix of what lies beside a master: what is known of it.
_FACTS = ".json"
#: Seconds after which who waits for others looks whether it is still wanted.
_LOOK_UP = 0.5


@dataclass(frozen=True)
class Image:
    """An image file on the conductor.

    :param path: where it is.
    :param format: format of its content, None when it was not inspected.
    :param checksum: digest of its content, None when nobody asked for one.
    """

    path: Path
    format: str | None
    checksum: Checksum | None


@dataclass(frozen=True)
class Wish:
    """What is wanted of an image.

    :param checksum: digest of the image as it is at its source.
    :param declared: format that somebody said it has.
    :param to_raw: convert it when its format is neither raw nor as good as raw.
    :param unpack: unpack it when it is packed by zstd.
    """

    checksum: Checksum | None = None
    declared: str | None = None
    to_raw: bool = False
    unpack: bool = False


class _Turns:
    """Who works on which master: one thread at a time."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        #: Master -> its lock, and how many threads have it or wait for it.
        self._locks: dict[Path, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def _known(self, master: Path) -> Iterator[threading.Lock]:
        with self._guard:
            lock, users = self._locks.get(master, (threading.Lock(), 0))
            self._locks[master] = lock, users + 1
        try:
            yield lock
        finally:
            with self._guard:
                lock, users = self._locks.pop(master)
                if users > 1:
                    self._locks[master] = lock, users - 1

    @contextlib.contextmanager
    def taken(self, master: Path) -> Iterator[None]:
        """Wait for the turn.

        :raises WorkAborted, LockLost: nobody wants it any more.
        """
        with self._known(master) as lock:
            while not lock.acquire(timeout=_LOOK_UP):
                interruption.check()
            try:
                yield
            finally:
                lock.release()

    @contextlib.contextmanager
    def tried(self, master: Path) -> Iterator[bool]:
        """Take the turn if it is free, which the block is told."""
        with self._known(master) as lock:
            mine = lock.acquire(blocking=False)
            try:
                yield mine
            finally:
                if mine:
                    lock.release()


_turns = _Turns()


class _Downloads:
    """How many images are fetched at a time: the number is read once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._one = threading.Semaphore()
        self._some: threading.Semaphore | None = None

    @contextlib.contextmanager
    def one_more(self) -> Iterator[None]:
        """Wait until one more may be fetched.

        :raises WorkAborted, LockLost: nobody wants it any more.
        """
        with self._guard:
            if self._some is None:
                self._some = threading.Semaphore(CONF.image_download_concurrency)
            slots = self._some if CONF.parallel_image_downloads else self._one
        while not slots.acquire(timeout=_LOOK_UP):
            interruption.check()
        try:
            yield
        finally:
            slots.release()


_downloads = _Downloads()


class ImageCache:
    """One directory of masters.

    :param directory: where the masters are; empty or None keeps nothing.
    :param size: most MiB of masters in nobody's use.
    :param ttl: minutes after which a master in nobody's use goes.
    :param inspect: whether formats are looked at.
    """

    def __init__(self, directory: str | None, *, size: int, ttl: int, inspect: bool = True) -> None:
        self._directory = Path(directory) if directory else None
        self._size = size * units.Mi
        self._ttl = ttl * 60
        self._inspect = inspect

    def fetch(self, href: str, target: Path, wish: Wish = Wish()) -> Image:
        """Put an image at ``target``, from the cache or from its source.

        :raises ImageRefValidationFailed: the image can not be had.
        :raises ImageDownloadFailed: the transfer failed.
        :raises ImageChecksumError: another digest than wanted.
        :raises InvalidImage: a format that is not safe, permitted or as declared.
        :raises ImageConvertFailed: the conversion failed.
        :raises InsufficientDiskSpace: no room, even after removing unused images.
        :raises WorkAborted, LockLost: nobody wants it any more.
        """
        with interruption.stoppable(_only_looked_for), _explained(href, target):
            info = service_for(href).show(href)
            target.parent.mkdir(parents=True, exist_ok=True)
            if self._directory is None or info.no_cache:
                with _downloads.one_more():
                    return self._produce(href, info, target, wish)
            self._directory.mkdir(parents=True, exist_ok=True)
            master = self._master(href, wish)
            with _turns.taken(master):
                image = _recall(master, info)
                if image is None or not _deliver(master, target):
                    LOG.info("Image %s is not in the cache, or outdated", redact(href))
                    with _downloads.one_more():
                        image = self._produce(href, info, master, wish, keep=True)
                    _deliver(master, target)
                return replace(image, path=target)

    def _master(self, href: str, wish: Wish) -> Path:
        """Return the place of a master; another digest is another image."""
        assert self._directory is not None
        name = href if wish.checksum is None else f"{href}#{':'.join(wish.checksum)}"
        suffix = ".converted" if wish.to_raw else ".unpacked" if wish.unpack else ""
        return self._directory / f"{uuid.uuid5(uuid.NAMESPACE_URL, name)}{suffix}"

    def _produce(
        self, href: str, info: ImageInfo, target: Path, wish: Wish, *, keep: bool = False
    ) -> Image:
        """Fetch, check and convert an image; nothing is left behind on failure.

        :param keep: it becomes a master.
        """
        room = functools.partial(make_room, target.parent)
        with workshop.opened(target.parent) as place:
            part = place / "image"
            if info.size:
                room(info.size)
            algorithm = wish.checksum.algorithm if wish.checksum else None
            found = service_for(href).download(href, part, algorithm, room)
            _verify_size(href, part, info)
            _verify(href, found, wish.checksum)
            expected = wish.checksum
            if wish.unpack and unpacking.is_packed(part):
                packed, part = part, place / "unpacked"
                unpacking.unpack(packed, part, room)
                packed.unlink()
                expected = _checksum(part, expected)
            image = Image(part, self._format(part, wish.declared), expected)
            if wish.to_raw and image.format not in formats.AS_IS:
                image = self._convert(image, place / "raw", href)
            if keep:
                # What is known of an older master must not stand beside this one.
                facts = _facts(target)
                facts.unlink(missing_ok=True)
                _sync(image.path)
            os.replace(image.path, target)
            if keep:
                known = place / "facts"
                known.write_text(json.dumps({"format": image.format, "checksum": image.checksum}))
                os.replace(known, facts)
            return replace(image, path=target)

    def _format(self, path: Path, declared: str | None) -> str | None:
        if not self._inspect:
            return None
        if CONF.conductor.disable_deep_image_inspection:
            return formats.detect(path)
        return formats.check(path, declared)

    @staticmethod
    def _convert(image: Image, target: Path, href: str) -> Image:
        assert image.format is not None
        make_room(target.parent, formats.virtual_size(image.path))
        formats.convert_to_raw(image.path, target, image.format, redact(href))
        return Image(target, "raw", _checksum(target, image.checksum))

    def unused(self) -> list[tuple[float, int, Path]]:
        """Return (last use, bytes, path) of the masters in nobody's use, oldest first."""
        found = []
        if self._directory is not None and self._directory.is_dir():
            for path in self._directory.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    info = path.stat()
                    if info.st_nlink == 1 and path.suffix != _FACTS and path.is_file():
                        found.append((info.st_atime, info.st_size, path))
        return sorted(found)

    def clean_up(self) -> None:
        """Remove what is unused for too long, then the oldest until the rest fits."""
        now = time.time()
        left = []
        for used, size, path in self.unused():
            if now - used > self._ttl:
                _remove(path)
            else:
                left.append((size, path))
        total = sum(size for size, _path in left)
        for size, path in left:
            if total <= self._size:
                break
            _remove(path)
            total -= size

    def give_way(self, needed: int) -> None:
        """Remove the oldest unused masters until ``needed`` bytes are free."""
        if self._directory is None or not self._directory.is_dir():
            return
        for _used, _size, path in self.unused():
            if _free(self._directory) >= needed:
                return
            _remove(path)

    def sweep(self) -> None:
        """Remove what processes left unfinished that are gone.

        :raises OSError: the directory cannot be read.
        """
        if self._directory is not None:
            workshop.sweep(self._directory)

    def on_device_of(self, directory: Path) -> bool:
        """Tell whether the masters are on the file system of a directory."""
        here = self._directory
        return here is not None and here.is_dir() and here.stat().st_dev == directory.stat().st_dev


def instance_images() -> ImageCache:
    """Return the cache of instance images."""
    pxe = CONF.pxe
    return ImageCache(pxe.instance_master_path, size=pxe.image_cache_size, ttl=pxe.image_cache_ttl)


def boot_files() -> ImageCache:
    """Return the cache of kernels, ramdisks and boot loaders; they have no disk format."""
    pxe = CONF.pxe
    return ImageCache(
        pxe.tftp_master_path, size=pxe.image_cache_size, ttl=pxe.image_cache_ttl, inspect=False
    )


def boot_isos() -> ImageCache:
    """Return the cache of boot ISOs; they are neither inspected nor converted."""
    deploy = CONF.deploy
    return ImageCache(
        deploy.iso_master_path,
        size=deploy.iso_cache_size,
        ttl=deploy.iso_cache_ttl,
        inspect=False,
    )


def all_caches() -> dict[str, ImageCache]:
    """Return the caches by what they hold; what is easiest to make again comes first."""
    return {
        "boot ISOs": boot_isos(),
        "instance images": instance_images(),
        "boot files": boot_files(),
    }


def sweep() -> None:
    """Remove what processes left unfinished that are gone, also beside the files of nodes.

    :raises OSError: a directory cannot be read.
    """
    for cache in all_caches().values():
        cache.sweep()
    for root in {CONF.pxe.images_path, CONF.pxe.tftp_root, CONF.deploy.http_root}:
        for place in Path(root).iterdir() if Path(root).is_dir() else ():
            if uuidutils.is_uuid_like(place.name):
                workshop.sweep(place)


def make_room(directory: Path, needed: int) -> None:
    """Make sure that a file of ``needed`` bytes fits into a directory.

    :raises InsufficientDiskSpace: it does not, even without unused cached images.
    """
    for cache in all_caches().values():
        if not cache.on_device_of(directory):
            continue
        cache.clean_up()
        if _free(directory) < needed:
            cache.give_way(needed)
    free = _free(directory)
    if free < needed:
        raise errors.InsufficientDiskSpace(
            path=directory, required=-(-needed // units.Mi), actual=free // units.Mi
        )


def _free(directory: Path) -> int:
    return shutil.disk_usage(directory).free


def _remove(path: Path) -> None:
    """Remove a master, unless somebody is about to use it."""
    with _turns.tried(path) as mine, contextlib.suppress(FileNotFoundError):
        if mine and path.stat().st_nlink == 1:
            LOG.debug("Removing unused cached image %s", path)
            path.unlink()
            _facts(path).unlink(missing_ok=True)


def _facts(master: Path) -> Path:
    return master.with_name(master.name + _FACTS)


def _checksum(path: Path, source: Checksum | None) -> Checksum:
    """Return the checksum of a file that was made from another one.

    :param source: what is known of that.
    """
    algorithm = source.algorithm if source and source.algorithm != "md5" else "sha256"
    return Checksum(algorithm, digest(path, algorithm))


def _verify_size(href: str, path: Path, info: ImageInfo) -> None:
    """Check that as many bytes came as were announced; some servers announce none at all."""
    size = path.stat().st_size
    if info.size and size < info.size:
        raise errors.ImageDownloadFailed(
            image_href=redact(href), reason=f"only {size} of {info.size} bytes came"
        )


def _verify(href: str, digest: str | None, expected: Checksum | None) -> None:
    if expected is None or CONF.conductor.disable_file_checksum or digest == expected.value:
        return
    raise errors.ImageChecksumError(
        reason=f"image {redact(href)} has {expected.algorithm} {digest}, not {expected.value}"
    )


def _recall(master: Path, info: ImageInfo) -> Image | None:
    """Return a master as it was remembered, None when there is none or it is outdated."""
    try:
        fetched = master.stat().st_mtime
        facts = json.loads(_facts(master).read_text())
        digest = facts["checksum"]
        image = Image(master, facts["format"], Checksum(*digest) if digest else None)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if info.updated_at is not None and info.updated_at.timestamp() > fetched:
        return None
    return image


def _deliver(master: Path, target: Path) -> bool:
    """Put a master at ``target``: hard link, or a copy over a file system boundary.

    :returns: False when it is gone: another process needed the room.
    """
    with contextlib.suppress(FileNotFoundError):
        # The time of access tells how long an unused master has been unused.
        os.utime(master, (time.time(), master.stat().st_mtime))
        if target.exists() and target.samefile(master):
            return True
        with workshop.opened(target.parent) as place, master.open("rb") as source:
            part = place / "image"
            try:
                os.link(master, part)
            except OSError:
                make_room(target.parent, master.stat().st_size)
                with part.open("xb") as file:
                    copy(source, file)
            os.replace(part, target)
        return True
    return False


def _only_looked_for() -> None:
    """End nothing: that the end is wanted is noticed soon enough."""


def _sync(path: Path) -> None:
    """Have a file on the disk before its name is: a crash leaves it whole, or not at all."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _explained(href: str, target: Path) -> Iterator[None]:
    """Turn errors of the file system into one that names image and place.

    :raises ImageDownloadFailed: the block could not write.
    """
    try:
        yield
    except OSError as exc:
        where = exc.filename2 or exc.filename or target
        raise errors.ImageDownloadFailed(
            image_href=redact(href), reason=f"{where}: {exc.strerror or exc}"
        ) from exc
