"""Boot media: fetch the image that was inserted and read what it boots."""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

_CONFIG_FILES = ("boot/grub/grub.cfg", "efi/boot/grub.cfg", "isolinux/isolinux.cfg")
_SMALL = 1024**2
_COMMANDS = ("linux", "linuxefi", "linux16", "append", "kernel")


class MediaError(Exception):
    """The medium cannot be fetched or does not boot; the text says why."""


@dataclass(frozen=True)
class BootMedium:
    """What booting a deploy ISO gives to the ramdisk.

    :param parameters: ``key=value`` words of the kernel command line.
    :param files: small files of the medium by lower-case path without leading slash:
        what the ramdisk would find on it (certificates, network data, a token).
    :param label: volume label.
    """

    parameters: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)
    label: str = ""

    @property
    def runs_agent(self) -> bool:
        """Whether the agent is started; else the medium runs something of its user."""
        return any(key.startswith("ipa-") for key in self.parameters)

    def parameter(self, *names: str) -> str | None:
        """First of the parameters that is set."""
        for name in names:
            value = self.parameters.get(name)
            if value:
                return value
        return None


async def fetch(session: aiohttp.ClientSession, url: str, path: Path) -> int:
    """Download ``url`` to ``path``.

    :returns: the size in bytes.
    :raises MediaError: not http(s), an error answer, or a broken transfer.
    """
    if not url.startswith(("http://", "https://")):
        raise MediaError(f"cannot fetch {url}: only http and https media are supported")
    size = 0
    try:
        async with session.get(url) as response:
            if response.status != 200:
                raise MediaError(f"GET {url} answered {response.status}")
            with path.open("wb") as stream:
                async for chunk in response.content.iter_chunked(_SMALL):
                    await asyncio.to_thread(stream.write, chunk)
                    size += len(chunk)
    except (aiohttp.ClientError, OSError, TimeoutError) as exc:
        raise MediaError(f"GET {url} failed: {str(exc) or repr(exc)}") from exc
    return size


def read_iso(path: Path) -> BootMedium:
    """Read kernel parameters and small files of a bootable ISO (blocking).

    :raises MediaError: no ISO, not bootable, or no kernel command line in it.
    """
    image = pycdlib.PyCdlib()
    try:
        image.open(str(path))
    except (PyCdlibException, OSError) as exc:
        raise MediaError(f"not an ISO 9660 image: {exc}") from exc
    try:
        if image.eltorito_boot_catalog is None:
            raise MediaError("the ISO has no El Torito boot catalog: no machine boots it")
        sizes, files = _read_tree(image)
        label = image.pvd.volume_identifier.decode("ascii", "replace").strip()
    except PyCdlibException as exc:
        raise MediaError(f"cannot read the ISO: {exc}") from exc
    finally:
        image.close()
    parameters = _boot_entry(files, sizes)
    return BootMedium(parameters, files, label)


def _read_tree(image: Any) -> tuple[dict[str, int], dict[str, bytes]]:
    """Sizes of all files, and the content of the small ones, by lower-case path."""
    if image.has_rock_ridge():
        facade = "rr_path"
    elif image.has_joliet():
        facade = "joliet_path"
    else:
        facade = "iso_path"
    sizes: dict[str, int] = {}
    files: dict[str, bytes] = {}
    for folder, _folders, names in image.walk(**{facade: "/"}):
        for name in names:
            full = f"{folder.rstrip('/')}/{name}"
            record = image.get_record(**{facade: full})
            if record.is_symlink() if hasattr(record, "is_symlink") else False:
                continue
            key = full.strip("/").split(";")[0].rstrip(".").lower()
            sizes[key] = record.get_data_length()
            if sizes[key] <= _SMALL and _interesting(key):
                buffer = io.BytesIO()
                image.get_file_from_iso_fp(buffer, **{facade: full})
                files[key] = buffer.getvalue()
    return sizes, files


def _interesting(key: str) -> bool:
    return key.endswith((".cfg", ".conf", ".crt", ".pem", ".json", ".txt")) or "token" in key


def _boot_entry(files: dict[str, bytes], sizes: dict[str, int]) -> dict[str, str]:
    """Kernel parameters of the first boot entry, whose kernel and initrd must exist."""
    names = [name for name in _CONFIG_FILES if name in files]
    names += sorted(name for name in files if name.endswith(".cfg") and name not in names)
    for name in names:
        lines = [line.split() for line in files[name].decode("utf-8", "replace").splitlines()]
        entries = [words for words in lines if words and words[0].lower() in _COMMANDS]
        wanted = next((words for words in entries if any("=" in word for word in words)), None)
        if wanted is None:
            continue
        for words in lines:
            if words and words[0].lower() in ("linux", "linuxefi", "kernel", "initrd", "initrdefi"):
                _check_file(words, sizes)
        return dict(word.split("=", 1) for word in wanted[1:] if "=" in word)
    raise MediaError("no kernel command line found in a boot loader configuration of the ISO")


def _check_file(words: list[str], sizes: dict[str, int]) -> None:
    """The kernel or initrd that a boot loader names has to be on the medium."""
    if len(words) < 2 or words[1].startswith("("):
        return
    key = words[1].strip("/").lower()
    if not sizes.get(key):
        raise MediaError(f"the boot loader names {words[1]}, which is missing or empty in the ISO")
