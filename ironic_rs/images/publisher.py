"""The directory that the conductor's web server shows to machines and BMCs.

A file appears there whole or not at all: it is written under a hidden name (which
the web server does not serve) and renamed.  The same name always gives the same URL.

Source: specification drivers.md section 12.7 (local publisher).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

LOG = log.getLogger(__name__)

_PART = ".part"


def base_url(external_url: str | None = None) -> str:
    """Return the URL of ``[deploy]http_root``, without a slash at the end.

    :param external_url: of the node (driver_info external_http_url); goes first.
    :raises MissingParameterValue: it is not configured where machines find it.
    """
    url = external_url or CONF.deploy.external_http_url or CONF.deploy.http_url
    if not url:
        raise errors.MissingParameterValue(
            "Images cannot be given to machines: neither [deploy]http_url nor "
            "external_http_url is set, and [deploy]http_server does not run."
        )
    return str(url).rstrip("/")


def _directory(subdir: str) -> Path:
    return Path(CONF.deploy.http_root) / subdir


def url_of(name: str, subdir: str, external_url: str | None = None) -> str:
    """Return the URL of a published file."""
    return f"{base_url(external_url)}/{quote(subdir)}/{quote(name)}"


@contextlib.contextmanager
def publishing(name: str, subdir: str, mode: int = 0o644) -> Iterator[Path]:
    """Yield the path to write a file to; it is published when the block ends well.

    :param subdir: directory below ``[deploy]http_root``, made when missing.
    :param mode: permission bits of the file.
    :raises ImageCreationFailed: the directory or the file cannot be written.
    """
    directory = _directory(subdir)
    part = directory / f".{name}.{secrets.token_hex(4)}{_PART}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_parts(directory, name)
        yield part
        _set_mode(part, mode)
        os.replace(part, directory / name)
    except OSError as exc:
        raise errors.ImageCreationFailed(
            image_type="boot",
            error=f"cannot write {exc.filename or part}: {exc.strerror or exc}",
        ) from exc
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


@contextlib.contextmanager
def work_directory(target: Path) -> Iterator[Path]:
    """Yield a directory for parts of a file in publication, on the same file system.

    It is hidden like ``target``, and removed in the end.
    """
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.stem, suffix=_PART) as path:
        yield Path(path)


def _set_mode(path: Path, mode: int) -> None:
    """Set the permissions; a file that has other names gets other permissions as a copy."""
    info = path.stat()
    if stat.S_IMODE(info.st_mode) & mode == mode:
        return
    if info.st_nlink > 1:
        copy = path.with_name(f"{path.stem}-copy{_PART}")
        shutil.copyfile(path, copy)
        os.replace(copy, path)
    path.chmod(mode)


def unpublish(name: str, subdir: str) -> None:
    """Remove a published file, or what a crash left of one; none is no error."""
    directory = _directory(subdir)
    try:
        (directory / name).unlink(missing_ok=True)
        _remove_parts(directory, name)
    except OSError as exc:
        LOG.warning("Published file %s cannot be removed: %s", directory / name, exc)


def unpublish_directory(subdir: str) -> None:
    """Remove a directory with all that is published in it; none is no error."""
    directory = _directory(subdir)
    try:
        shutil.rmtree(directory)
    except FileNotFoundError:
        return
    except OSError as exc:
        LOG.warning("Published files in %s cannot be removed: %s", directory, exc)


def _remove_parts(directory: Path, name: str) -> None:
    """Remove unfinished files of the same name: the node's lock says nobody writes one."""
    prefix = f".{name}."
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(_PART):
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)
                else:
                    Path(entry.path).unlink(missing_ok=True)
