"""Where images come from: web servers and files of the conductor's host.

Source: specification drivers.md section 12.1; field cases 74 and 80.
"""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

import requests
import urllib3.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.conf.types import SYSTEM_DIRECTORIES
from ironic_rs.domain import errors
from ironic_rs.images import credentials
from ironic_rs.integrations import healing, http, interruption
from ironic_rs.integrations.healing import Partner

LOG = log.getLogger(__name__)

#: Bytes that are read, hashed and written at a time.
CHUNK = 1024 * 1024
#: Bytes for which there must be room ahead of a transfer whose end is not known.
AHEAD = 64 * 1024 * 1024
#: Bytes of the smallest hole; a smaller one costs more calls than it saves.
_HOLE = 64 * 1024
_ZEROS = bytes(CHUNK)
MAX_REDIRECTS = 10
#: Tries of a request while the server is unreachable or says that it is busy.
ATTEMPTS = 3
RETRY_PAUSE = 1.0
_TRANSIENT = frozenset({429, 502, 503, 504})
_METHOD_REFUSED = frozenset({405, 501})
#: Bytes as they are stored: a checksum, and a size, are of those.  What a server packs
#: all the same is not unpacked: a small body may become one of any size.
_AS_STORED = {"Accept-Encoding": "identity"}

_FIRST_BYTE = {"Range": "bytes=0-0"}

#: Called with the number of bytes that are about to be written; raises InsufficientDiskSpace.
Room = Callable[[int], None]


def _any_room(needed: int) -> None:
    """Find room for everything."""


@dataclass(frozen=True)
class ImageInfo:
    """What a service knows of an image without reading it.

    :param href: the reference after redirects.
    :param size: bytes, None when not known.
    :param updated_at: time of the last change, None when not known.
    :param no_cache: it must not be kept on the conductor.
    :param content_type: media type, None when not known.
    """

    href: str
    size: int | None = None
    updated_at: datetime.datetime | None = None
    no_cache: bool = False
    content_type: str | None = None


class ImageService(Protocol):
    """A source of images."""

    def show(self, href: str) -> ImageInfo:
        """Check that an image can be had, and return what is known of it.

        :raises ImageRefValidationFailed: it can not.
        """

    def download(
        self, href: str, target: Path, algorithm: str | None = None, room: Room = _any_room
    ) -> str | None:
        """Write an image to a file that does not exist yet.

        :param algorithm: hash to compute on the way.
        :param room: asked before bytes are written.
        :returns: hexadecimal digest, None without an algorithm.
        :raises ImageRefValidationFailed: the image can not be had.
        :raises ImageDownloadFailed: the transfer failed.
        :raises InsufficientDiskSpace: said by ``room``.
        :raises WorkAborted, LockLost: see :mod:`ironic_rs.integrations.interruption`.
        """


def redact(href: str) -> str:
    """Return a reference without user, password and query, for messages."""
    try:
        parts = urlsplit(href)
    except ValueError:
        return "(malformed)"
    if not parts.netloc:
        return href
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def service_for(href: Any) -> ImageService:
    """Return the service of a reference.

    :raises ImageRefValidationFailed: not text, malformed, or no service for its scheme.
    """
    if not isinstance(href, str) or not href:
        raise errors.ImageRefValidationFailed(
            image_href=href, reason="an image reference must be a non-empty string"
        )
    try:
        scheme = urlsplit(href).scheme.lower()
    except ValueError as exc:
        raise errors.ImageRefValidationFailed(image_href=href, reason=exc) from exc
    if scheme in ("http", "https"):
        return HTTPImages()
    if scheme == "file":
        return FileImages()
    what = f"scheme '{scheme}'" if scheme else "a reference without a scheme"
    raise errors.ImageRefValidationFailed(
        image_href=redact(href), reason=f"{what} is not supported here"
    )


class HTTPImages:
    """Images on web servers."""

    def _session(self) -> contextlib.AbstractContextManager[requests.Session]:
        return http.server_session(MAX_REDIRECTS)

    def _request(
        self, session: requests.Session, method: str, href: str, **kwargs: Any
    ) -> requests.Response:
        """Send one request; try again while the server is away or busy."""
        while True:
            response, error = self._tried(session, method, href, **kwargs)
            if response is not None and response.status_code not in _TRANSIENT:
                return response
            reason = _answer(response) if response is not None else _failed(method, error)
            # Trust settings do not heal by asking again.
            passing = not isinstance(error, requests.exceptions.SSLError)
            if passing and healing.again(Partner.IMAGES, redact(href), reason):
                if response is not None:
                    response.close()
                continue
            if response is not None:
                return response
            raise errors.ImageRefValidationFailed(image_href=redact(href), reason=reason) from None

    def _tried(
        self, session: requests.Session, method: str, href: str, **kwargs: Any
    ) -> tuple[requests.Response | None, requests.RequestException | None]:
        """Send one request up to ``ATTEMPTS`` times; return the last answer, or the last error.

        :raises ImageRefValidationFailed: it makes no sense to try again.
        """
        last: requests.RequestException | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(RETRY_PAUSE)
            interruption.check()
            try:
                response = session.request(
                    method, href, auth=credentials.basic_auth(href), stream=True, **kwargs
                )
            except requests.ConnectionError as exc:
                last = exc
                continue
            except requests.ReadTimeout as exc:
                # It has taken long enough already.
                return None, exc
            except (requests.RequestException, ValueError) as exc:
                raise errors.ImageRefValidationFailed(
                    image_href=redact(href), reason=f"{method} failed: {http.describe(exc)}"
                ) from None
            if response.status_code not in _TRANSIENT or attempt + 1 == ATTEMPTS:
                return response, None
            response.close()
        return None, last

    def show(self, href: str) -> ImageInfo:
        timeout = CONF.webserver_verify_timeout
        with self._session() as session:
            response = self._request(
                session, "HEAD", href, timeout=timeout, allow_redirects=True, headers=_AS_STORED
            )
            if response.status_code in _METHOD_REFUSED:
                response.close()
                response = self._request(
                    session, "GET", href, timeout=timeout, headers=_AS_STORED | _FIRST_BYTE
                )
            with response:
                _check_status(response, href)
                return _info(response)

    def download(
        self, href: str, target: Path, algorithm: str | None = None, room: Room = _any_room
    ) -> str | None:
        with self._session() as session:
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    return self._transfer(session, href, target, algorithm, room)
                except requests.RequestException as exc:
                    target.unlink(missing_ok=True)
                    if attempt == ATTEMPTS:
                        what = f"transfer of {redact(href)}"
                        if healing.again(Partner.IMAGES, what, http.describe(exc)):
                            return self.download(href, target, algorithm, room)
                        raise errors.ImageDownloadFailed(
                            image_href=redact(href), reason=http.describe(exc)
                        ) from None
                    LOG.warning(
                        "Transfer of image %s broke off, trying again: %s",
                        redact(href),
                        http.describe(exc),
                    )
                except OSError as exc:
                    raise errors.ImageDownloadFailed(
                        image_href=redact(href), reason=f"{target}: {exc.strerror or exc}"
                    ) from exc
        raise AssertionError("the last attempt returns or raises")

    def read(self, href: str, limit: int) -> bytes:
        """Return a small file whole.

        :param limit: most bytes to accept.
        :raises ImageRefValidationFailed: it can not be had, or is larger.
        """
        timeout = CONF.webserver_verify_timeout
        with (
            self._session() as session,
            self._request(session, "GET", href, timeout=timeout) as response,
        ):
            if response.status_code != requests.codes.ok:
                raise _bad_status(response, href)
            content = b""
            try:
                for chunk in _pieces(response):
                    content += chunk
                    if len(content) > limit:
                        raise errors.ImageRefValidationFailed(
                            image_href=redact(href), reason=f"larger than {limit} bytes"
                        )
            except requests.RequestException as exc:
                raise errors.ImageRefValidationFailed(
                    image_href=redact(href), reason=f"GET broke off: {http.describe(exc)}"
                ) from None
        return content

    def _transfer(
        self, session: requests.Session, href: str, target: Path, algorithm: str | None, room: Room
    ) -> str | None:
        timeout = CONF.webserver_connection_timeout
        hasher = hashlib.new(algorithm) if algorithm else None
        with self._request(session, "GET", href, timeout=timeout, headers=_AS_STORED) as response:
            if response.status_code != requests.codes.ok:
                raise _bad_status(response, href)
            length = response.headers.get("Content-Length", "")
            promised = int(length) if length.isdigit() else AHEAD
            room(promised)
            with target.open("xb") as file:
                for chunk in _pieces(response):
                    if len(chunk) > promised:
                        promised += AHEAD
                        room(promised)
                    promised -= len(chunk)
                    _append(file, chunk)
                    if hasher:
                        hasher.update(chunk)
                file.truncate()
        return hasher.hexdigest() if hasher else None


def _pieces(response: requests.Response) -> Iterator[bytes]:
    """Yield the body as it was sent, until somebody wants it no more.

    :raises requests.RequestException: it broke off.
    :raises WorkAborted, LockLost: it is not wanted any more.
    """
    with interruption.stoppable(lambda: _hang_up(response)):
        try:
            for chunk in response.raw.stream(CHUNK, decode_content=False):
                interruption.check()
                yield chunk
        except urllib3.exceptions.ReadTimeoutError as exc:
            raise requests.ReadTimeout(exc) from exc
        except urllib3.exceptions.HTTPError as exc:
            raise requests.exceptions.ChunkedEncodingError(exc) from exc


def _hang_up(response: requests.Response) -> None:
    # From another thread: the one that reads sees the end of the body.
    with contextlib.suppress(ValueError, RuntimeError, OSError):
        response.raw.shutdown()


def _failed(method: str, error: requests.RequestException | None) -> str:
    times = "" if isinstance(error, requests.ReadTimeout) else f" {ATTEMPTS} times"
    return f"{method} failed{times}: {http.describe(error)}"


def _answer(response: requests.Response) -> str:
    return f"the server answered {response.status_code} {response.reason or ''}".rstrip()


def _bad_status(response: requests.Response, href: str) -> errors.ImageRefValidationFailed:
    return errors.ImageRefValidationFailed(image_href=redact(href), reason=_answer(response))


def _check_status(response: requests.Response, href: str) -> None:
    status = response.status_code
    if status in (requests.codes.ok, requests.codes.partial_content):
        return
    # A directory may be closed for listing while the files in it can be read.
    if status == requests.codes.forbidden and urlsplit(response.url).path.endswith("/"):
        return
    raise _bad_status(response, href)


def _info(response: requests.Response) -> ImageInfo:
    headers = response.headers
    size = headers.get("Content-Length", "")
    if response.status_code == requests.codes.partial_content:
        size = headers.get("Content-Range", "").rpartition("/")[2]
    updated_at = None
    with contextlib.suppress(TypeError, ValueError):
        updated_at = email.utils.parsedate_to_datetime(headers.get("Last-Modified", ""))
        if updated_at.tzinfo is None:
            updated_at = updated_at.replace(tzinfo=datetime.UTC)
    return ImageInfo(
        href=response.url,
        size=int(size) if size.isdigit() else None,
        updated_at=updated_at,
        no_cache="no-store" in headers.get("Cache-Control", "").lower(),
        content_type=headers.get("Content-Type", "").partition(";")[0].strip().lower() or None,
    )


class FileImages:
    """Images on the conductor's own host, below ``[conductor]file_url_allowed_paths``."""

    def _resolve(self, href: str) -> Path:
        """Return the real path of an image, after all links.

        :raises ImageRefValidationFailed: not an allowed, regular, readable file.
        """

        def refuse(reason: str) -> errors.ImageRefValidationFailed:
            return errors.ImageRefValidationFailed(image_href=href, reason=reason)

        parts = urlsplit(href)
        if parts.netloc:
            raise refuse("a file reference must not name a host")
        path = unquote(parts.path)
        if not path.startswith("/") or "\0" in path:
            raise refuse("not an absolute path")
        try:
            real = Path(path).resolve(strict=True)
            mode = real.stat().st_mode
        except (OSError, RuntimeError) as exc:
            # Nothing may be learnt about files outside of the allowed directories.
            if not _allowed(Path(os.path.normpath(path))):
                raise refuse("the path is not allowed") from None
            raise refuse(f"the file can not be read: {exc}") from exc
        if not _allowed(real):
            raise refuse("the path is not allowed")
        if not stat.S_ISREG(mode):
            raise refuse("not a regular file")
        if not os.access(real, os.R_OK):
            raise refuse("the file is not readable")
        return real

    def show(self, href: str) -> ImageInfo:
        info = self._resolve(href).stat()
        return ImageInfo(
            href=href,
            size=info.st_size,
            updated_at=datetime.datetime.fromtimestamp(info.st_mtime, datetime.UTC),
            no_cache=True,
        )

    def download(
        self, href: str, target: Path, algorithm: str | None = None, room: Room = _any_room
    ) -> str | None:
        path = self._resolve(href)
        try:
            with open(path, "rb", opener=_open_no_follow) as source:
                if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                    raise errors.ImageRefValidationFailed(
                        image_href=href, reason="not a regular file"
                    )
                digest = _digest(source, algorithm) if algorithm else None
                if not _link(path, target, source):
                    room(os.fstat(source.fileno()).st_size)
                    source.seek(0)
                    with target.open("xb") as file:
                        copy(source, file)
        except OSError as exc:
            raise errors.ImageDownloadFailed(
                image_href=href, reason=f"{exc.filename or target}: {exc.strerror or exc}"
            ) from exc
        return digest


def _allowed(path: Path) -> bool:
    if any(path.is_relative_to(system) for system in SYSTEM_DIRECTORIES):
        return False
    roots = CONF.conductor.file_url_allowed_paths
    return any(path.is_relative_to(Path(root).resolve()) for root in roots)


def _open_no_follow(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _link(path: Path, target: Path, source: BinaryIO) -> bool:
    """Hard-link the opened file; False when it has to be copied."""
    try:
        os.link(path, target, follow_symlinks=False)
    except OSError:
        return False
    if os.path.samestat(target.lstat(), os.fstat(source.fileno())):
        return True
    target.unlink()
    return False


def copy(source: BinaryIO, target: BinaryIO) -> None:
    """Copy the rest of a file to a new one, until somebody wants it no more."""
    while chunk := source.read(CHUNK):
        interruption.check()
        _append(target, chunk)
    target.truncate()


def _append(file: BinaryIO, chunk: bytes) -> None:
    """Write the next bytes of a new file, or leave a hole where a whole block is zero.

    Raw images are mostly empty: they need neither the room nor the time of their size
    (K10/81).  The file must be truncated at its end: a hole alone does not make it longer.
    """
    if len(chunk) >= _HOLE and _ZEROS.startswith(chunk):
        file.seek(len(chunk), os.SEEK_CUR)
    else:
        file.write(chunk)


def _digest(source: BinaryIO, algorithm: str) -> str:
    hasher = hashlib.new(algorithm)
    while chunk := source.read(CHUNK):
        interruption.check()
        hasher.update(chunk)
    return hasher.hexdigest()


def digest(path: Path, algorithm: str) -> str:
    """Return the hexadecimal digest of a file.

    :raises OSError: it cannot be read.
    :raises WorkAborted, LockLost: it is not wanted any more.
    """
    with path.open("rb") as file:
        return _digest(file, algorithm)
