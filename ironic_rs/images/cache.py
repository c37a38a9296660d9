"""Images kept on the conductor: fetched once, hard-linked to each node.

A cached image ("master") is shared by all nodes that use it; each node gets a hard
link, so a master with one link is in nobody's use and may go.

Source: specification drivers.md section 12.5; field case 81.
"""

from __future__ import annotations

import contextlib
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
from oslo_utils import units

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.images import checksum, formats
from ironic_rs.images.checksum import Checksum
from ironic_rs.images.services import CHUNK, ImageInfo, redact, service_for

LOG = log.getLogger(__name__)

#: Suffixes of what lies beside a master: what is known of it, and unfinished work.
_FACTS = ".json"
_PART = ".part"

_locks: dict[Path, threading.Lock] = {}
_guard = threading.Lock()
_serial = threading.Lock()
_slots: threading.BoundedSemaphore | None = None


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
    """

    checksum: Checksum | None = None
    declared: str | None = None
    to_raw: bool = False


@contextlib.contextmanager
def _one_at_a_time(master: Path) -> Iterator[None]:
    """Let one thread work on a master (on all of them without parallel downloads)."""
    global _slots
    with _guard:
        if _slots is None:
            _slots = threading.BoundedSemaphore(CONF.image_download_concurrency)
        slots = _slots
        lock = _locks.setdefault(master, threading.Lock())
    turn = contextlib.nullcontext() if CONF.parallel_image_downloads else _serial
    with lock, turn, slots:
        yield


def _is_busy(master: Path) -> bool:
    """Tell whether a thread works on a master: it is about to be used."""
    with _guard:
        lock = _locks.get(master)
        return lock is not None and lock.locked()


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
        """
        info = service_for(href).show(href)
        target.parent.mkdir(parents=True, exist_ok=True)
        if self._directory is None or info.no_cache:
            return self._produce(href, info, target, wish)
        self._directory.mkdir(parents=True, exist_ok=True)
        master = self._master(href, wish)
        with _one_at_a_time(master):
            image = _recall(master, info)
            if image is None:
                LOG.info("Image %s is not in the cache, or outdated; fetching it", redact(href))
                image = self._produce(href, info, master, wish)
                _remember(image)
            # The time of access tells how long an unused master has been unused.
            os.utime(master, (time.time(), master.stat().st_mtime))
            _deliver(master, target)
        return replace(image, path=target)

    def _master(self, href: str, wish: Wish) -> Path:
        """Return the place of a master; another digest is another image."""
        assert self._directory is not None
        name = href if wish.checksum is None else f"{href}#{':'.join(wish.checksum)}"
        suffix = ".converted" if wish.to_raw else ""
        return self._directory / f"{uuid.uuid5(uuid.NAMESPACE_URL, name)}{suffix}"

    def _produce(self, href: str, info: ImageInfo, target: Path, wish: Wish) -> Image:
        """Fetch, check and convert an image; nothing is left behind on failure."""
        part = target.with_name(f"{target.name}.{uuid.uuid4().hex}{_PART}")
        converted = part.with_name(f"{part.name[: -len(_PART)]}.raw{_PART}")
        try:
            if info.size:
                make_room(target.parent, info.size)
            algorithm = wish.checksum.algorithm if wish.checksum else None
            digest = service_for(href).download(href, part, algorithm)
            _verify(href, digest, wish.checksum)
            image = Image(part, self._format(part, wish.declared), wish.checksum)
            if wish.to_raw and image.format not in formats.AS_IS:
                image = self._convert(image, converted, href)
            os.replace(image.path, target)
            return replace(image, path=target)
        finally:
            part.unlink(missing_ok=True)
            converted.unlink(missing_ok=True)

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
        algorithm = image.checksum.algorithm if image.checksum else "sha256"
        if algorithm == "md5":
            algorithm = "sha256"
        return Image(target, "raw", Checksum(algorithm, checksum.compute(target, algorithm)))

    def unused(self) -> list[tuple[float, int, Path]]:
        """Return (last use, bytes, path) of the masters in nobody's use, oldest first."""
        found = []
        if self._directory is not None and self._directory.is_dir():
            for path in self._directory.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    info = path.stat()
                    unused = info.st_nlink == 1 and not _is_busy(path)
                    if unused and path.suffix != _FACTS and path.is_file():
                        found.append((info.st_atime, info.st_size, path))
        return sorted(found)

    def clean_up(self) -> None:
        """Remove what is unused for too long, then the oldest until the rest fits."""
        now = time.time()
        left = []
        for used, size, path in self.unused():
            if now - used > self._ttl:
                _remove(path)
            elif path.suffix != _PART:
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
            if path.suffix != _PART:
                _remove(path)

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
    LOG.debug("Removing unused cached image %s", path)
    path.unlink(missing_ok=True)
    _facts(path).unlink(missing_ok=True)


def _facts(master: Path) -> Path:
    return master.with_name(master.name + _FACTS)


def _verify(href: str, digest: str | None, expected: Checksum | None) -> None:
    if expected is None or CONF.conductor.disable_file_checksum or digest == expected.value:
        return
    raise errors.ImageChecksumError(
        reason=f"image {redact(href)} has {expected.algorithm} {digest}, not {expected.value}"
    )


def _remember(image: Image) -> None:
    facts = _facts(image.path)
    part = facts.with_name(facts.name + _PART)
    part.write_text(json.dumps({"format": image.format, "checksum": image.checksum}))
    os.replace(part, facts)


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


def _deliver(master: Path, target: Path) -> None:
    """Put a master at ``target``: hard link, or a copy over a file system boundary."""
    if target.exists() and target.samefile(master):
        return
    target.unlink(missing_ok=True)
    try:
        os.link(master, target)
    except OSError:
        with master.open("rb") as source, target.open("xb") as file:
            shutil.copyfileobj(source, file, CHUNK)
