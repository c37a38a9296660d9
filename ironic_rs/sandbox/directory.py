"""The sandbox directory: the only place on the host that the sandbox writes to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ironic_rs.sandbox.settings import SettingsError

MARKER = ".ironic-rs-sandbox"
_FORBIDDEN = ("/dev", "/proc", "/sys", "/boot", "/etc")


def prepare(path: Path) -> Path:
    """Create or recognise the directory of a sandbox.

    An existing directory is accepted only if it is empty or was made by a sandbox:
    files with the names of disks must never be someone else's.

    :returns: the resolved path.
    :raises SettingsError: the path is unsuitable.
    """
    resolved = path.expanduser().resolve()
    if resolved == Path("/") or any(resolved.is_relative_to(root) for root in _FORBIDDEN):
        raise SettingsError(f"directory {path}: a sandbox cannot live there")
    if resolved.exists() and not resolved.is_dir():
        raise SettingsError(f"directory {path} is not a directory")
    marker = resolved / MARKER
    if resolved.exists() and not marker.exists() and any(resolved.iterdir()):
        raise SettingsError(
            f"directory {path} is neither empty nor made by a sandbox (no {MARKER} in it); "
            "choose another one"
        )
    resolved.mkdir(parents=True, exist_ok=True)
    marker.touch()
    return resolved


def open_regular(path: Path, root: Path, flags: int) -> int:
    """Open a file of the sandbox; never a link, never a device.

    :param root: directory that must contain the file.
    :returns: a file descriptor.
    :raises SettingsError: the path leaves the sandbox or is no ordinary file.
    """
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise SettingsError(f"{path} is outside of the sandbox directory {root}")
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as exc:
        raise SettingsError(f"cannot open {path}: {exc.strerror}") from exc
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SettingsError(f"{path} is not an ordinary file: the sandbox does not touch it")
    return descriptor
