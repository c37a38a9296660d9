"""What an image file really is, whether that is safe, and its conversion to raw.

Formats are detected by content, never by name or declaration; qemu-img only sees
files whose format was detected and found safe, with that format given explicitly.

Source: specification drivers.md section 12.5; field case 78.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from oslo_concurrency import processutils
from oslo_log import log
from oslo_utils import units
from oslo_utils.imageutils import format_inspector

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.integrations import interruption

LOG = log.getLogger(__name__)

#: Formats that are written to a disk as they are.
AS_IS = frozenset({"raw", "gpt", "iso"})
#: Declared formats of parts of an image, which hold anything.
_PARTS = frozenset({"ari", "aki"})
_CHUNK = 64 * 1024
#: Bytes that no disk has; a header may claim what it likes.
_MOST = units.Pi
#: How packed files begin.  Content of no known format is taken for raw, but nothing can
#: boot from these.
_PACKED = {
    b"\x1f\x8b\x08": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
#: The program that converts images.
CONVERTER = "qemu-img"
#: Seconds between two tries of a conversion.
TRY_PAUSE = 1.0
#: What qemu-img says when another try may do.
_TEMPORARY = ("resource temporarily unavailable", "cannot allocate memory")


def _inspect(path: Path) -> tuple[str, format_inspector.FileInspector]:
    """Return (format, inspector) of a file.

    :raises InvalidImage: several formats at once, or unreadable.
    """
    try:
        with path.open("rb") as file:
            wrapper = format_inspector.InspectWrapper(file)
            while wrapper.read(_CHUNK) and wrapper.formats is None:
                pass
            wrapper.close()
    except OSError as exc:
        raise errors.InvalidImage(reason=f"{path} can not be read: {exc}") from exc
    found = {str(one): one for one in wrapper.formats or ()}
    if set(found) == {"iso", "gpt"}:
        # A hybrid image that boots from CD and from disk.
        return "iso", found["iso"]
    if len(found) != 1:
        raise errors.InvalidImage(
            reason=f"several formats at once: {', '.join(sorted(found)) or 'none'}"
        )
    return next(iter(found.items()))


def detect(path: Path) -> str:
    """Return the format of a file by its content, safe or not.

    :raises InvalidImage: several formats at once, or unreadable.
    """
    return _inspect(path)[0]


def check(path: Path, declared: str | None = None) -> str:
    """Detect the format of a file and check that it is acceptable.

    :param declared: what somebody said that the format is.
    :returns: the detected format.
    :raises InvalidImage: not safe, not permitted, or not what was declared.
    """
    if path.stat().st_size == 0:
        raise errors.InvalidImage(reason="the file is empty")
    detected, inspector = _inspect(path)
    if declared in _PARTS:
        return detected
    try:
        inspector.safety_check()
    except format_inspector.SafetyCheckFailed as exc:
        raise errors.InvalidImage(
            reason=f"the {detected} image is not safe: {', '.join(sorted(exc.failures))}"
        ) from exc
    size = _virtual_size(inspector)
    if size > _MOST:
        raise errors.InvalidImage(
            reason=f"the {detected} image is not safe: its virtual size of {size} bytes is more "
            "than any disk has"
        )
    packed = _packed(path)
    if detected == "raw" and packed:
        raise errors.InvalidImage(
            reason=f"the file is packed ({packed}); publish the image unpacked, or as qcow2"
        )
    permitted = set(CONF.conductor.permitted_image_formats)
    if "raw" in permitted:
        permitted.add("gpt")
    if detected not in permitted:
        raise errors.InvalidImage(
            reason=f"format {detected} is not permitted ([conductor]permitted_image_formats: "
            f"{', '.join(sorted(permitted))})"
        )
    if declared and declared != detected and not {declared, detected} <= {"raw", "gpt"}:
        raise errors.InvalidImage(
            reason=f"the image was declared to be {declared}, but its content is {detected}"
        )
    return detected


def virtual_size(path: Path) -> int:
    """Return how many bytes the image takes on a disk; an estimate when it does not say so."""
    said = _virtual_size(_inspect(path)[1])
    return said or int(path.stat().st_size * CONF.raw_image_growth_factor)


def _virtual_size(inspector: format_inspector.FileInspector) -> int:
    """Return the bytes that the header of an image claims, 0 when it says nothing."""
    try:
        return max(int(inspector.virtual_size), 0)
    except Exception:
        # The inspector raises whatever a broken header makes it stumble over.
        LOG.debug("The virtual size of a %s image is not known", inspector, exc_info=True)
        return 0


def _packed(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(max(map(len, _PACKED)))
    return next((name for magic, name in _PACKED.items() if head.startswith(magic)), None)


def _available_memory() -> int:
    """Return the available memory of the host in MiB."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    raise errors.ImageConvertFailed(image_id="", reason="/proc/meminfo has no MemAvailable")


def _wait_for_memory(image: str) -> None:
    """Wait until the host has memory for a conversion.

    :raises ImageConvertFailed: it has not, after all retries.
    """
    needed = CONF.minimum_required_memory
    for _attempt in range(CONF.minimum_memory_wait_retries):
        if (available := _available_memory()) >= needed:
            return
        if CONF.minimum_memory_warning_only:
            LOG.warning("Only %s MiB of memory available, %s wanted", available, needed)
            return
        time.sleep(CONF.minimum_memory_wait_time)
    raise errors.ImageConvertFailed(
        image_id=image, reason=f"less than {needed} MiB of memory available on the conductor"
    )


def _kill(running: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in running:
        process.kill()


def converter_missing() -> str | None:
    """Return why no image can be converted on this conductor, None when they can."""
    if shutil.which(CONVERTER) is not None:
        return None
    return f"the program {CONVERTER} is not installed on this conductor, or may not be run"


def convert_to_raw(source: Path, target: Path, detected: str, image: str) -> None:
    """Convert an image that passed :func:`check` to raw.

    :param detected: format returned by :func:`check`; not one of ``AS_IS``.
    :param image: reference of the image, for errors.
    :raises ImageConvertFailed: the conversion failed, or its result is not raw.
    :raises WorkAborted, LockLost: nobody wants it any more.
    """
    missing = converter_missing()
    if missing is not None:
        raise errors.ImageConvertFailed(image_id=image, reason=missing)
    _wait_for_memory(image)
    limits = processutils.ProcessLimits(
        address_space=CONF.disk_utils.image_convert_memory_limit * units.Mi
    )
    attempts = CONF.disk_utils.image_convert_attempts
    for attempt in range(1, attempts + 1):
        running: list[subprocess.Popen[bytes]] = []
        try:
            with interruption.stoppable(functools.partial(_kill, running)):
                processutils.execute(
                    CONVERTER,
                    "convert",
                    "-f",
                    detected,
                    "-O",
                    "raw",
                    str(source),
                    str(target),
                    prlimit=limits,
                    env_variables={**os.environ, "MALLOC_ARENA_MAX": "3", "LC_ALL": "C"},
                    on_execute=running.append,
                )
            break
        except (processutils.ProcessExecutionError, OSError) as exc:
            target.unlink(missing_ok=True)
            said = (getattr(exc, "stderr", None) or str(exc)).strip()
            temporary = any(text in said.lower() for text in _TEMPORARY)
            if attempt == attempts or not temporary:
                raise errors.ImageConvertFailed(image_id=image, reason=said) from exc
            LOG.warning("Conversion of %s failed, trying again: %s", image, said)
            time.sleep(TRY_PAUSE)
    result = detect(target)
    if result not in AS_IS:
        target.unlink(missing_ok=True)
        raise errors.ImageConvertFailed(
            image_id=image, reason=f"converted to raw, but the content is {result}"
        )
