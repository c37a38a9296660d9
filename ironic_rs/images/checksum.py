"""Checksums of images: what instance_info says, and the files that people publish.

Source: specification auxiliary.md section 13, drivers.md section 12.5; field case 76.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeGuard
from urllib.parse import unquote, urlsplit

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.images.services import HTTPImages, redact

#: Hexadecimal digits -> algorithm.
_BY_LENGTH = {32: "md5", 64: "sha256", 128: "sha512"}
_DIGEST = r"([0-9a-fA-F]{32}|[0-9a-fA-F]{64}|[0-9a-fA-F]{128})"
_BARE = re.compile(_DIGEST)
_COREUTILS = re.compile(_DIGEST + r"[ \t]+\*?(\S.*)")
#: Also as openssl writes it: "SHA2-256(name)= hash".
_BSD = re.compile(r"(?:MD5|SHA2?-?256|SHA2?-?512)[ \t]*\((.+)\)[ \t]*=[ \t]*" + _DIGEST)
#: A list of all images of a big mirror is far smaller.
_MAX_FILE = 1024 * 1024


class Checksum(NamedTuple):
    """A digest: algorithm as hashlib names it, value in lower-case hexadecimal."""

    algorithm: str
    value: str


def check_algorithm(algorithm: Any) -> str:
    """Return the algorithm as hashlib names it.

    :raises ImageChecksumError: unknown, of variable length, or md5 while
        ``[agent]allow_md5_checksum`` is off.
    """
    name = str(algorithm).lower().replace("-", "")
    if name not in hashlib.algorithms_available or name.startswith("shake"):
        raise errors.ImageChecksumError(reason=f"hash algorithm '{algorithm}' is not supported")
    if name == "md5" and not CONF.agent.allow_md5_checksum:
        raise errors.ImageChecksumError(
            reason="md5 checksums are not allowed ([agent]allow_md5_checksum)"
        )
    return name


def parse(text: Any) -> Checksum:
    """Parse ``algorithm:value``, or a bare value whose length tells the algorithm.

    :raises ImageChecksumError: neither.
    """
    algorithm, colon, value = str(text).strip().rpartition(":")
    if not colon:
        by_length = _BY_LENGTH.get(len(value))
        if by_length is None or not _BARE.fullmatch(value):
            raise errors.ImageChecksumError(
                reason=f"'{text}' is neither the digits of an md5, sha256 or sha512 digest, "
                "nor 'algorithm:value', nor a URL"
            )
        algorithm = by_length
    return Checksum(check_algorithm(algorithm), value.lower())


def is_url(value: Any) -> TypeGuard[str]:
    """Tell whether a checksum is the URL of a checksum file."""
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def check_url_supported(url: str) -> None:
    """Refuse checksum files when the configuration says so.

    :raises ImageChecksumError: ``[conductor]disable_support_for_checksum_files`` is set.
    """
    if CONF.conductor.disable_support_for_checksum_files:
        raise errors.ImageChecksumError(
            reason=f"checksum files are not allowed, so {redact(url)} is not read"
        )


def from_file(url: str, image_href: str) -> Checksum:
    """Read a published checksum file and return the digest of the image.

    :raises ImageChecksumError: no digest for the image in it, or it can not be had.
    """
    check_url_supported(url)
    try:
        text = HTTPImages().read(url, _MAX_FILE).decode("utf-8-sig")
    except (errors.ImageRefValidationFailed, UnicodeDecodeError) as exc:
        raise errors.ImageChecksumError(
            reason=f"checksum file {redact(url)} can not be read: {exc}"
        ) from exc
    name = PurePosixPath(unquote(urlsplit(image_href).path)).name
    value = find(text, name)
    if value is None:
        raise errors.ImageChecksumError(
            reason=f"checksum file {redact(url)} has no md5, sha256 or sha512 digest of '{name}'"
        )
    return parse(value)


def find(text: str, name: str) -> str | None:
    """Return the digest of file ``name`` in the text of a checksum file.

    Understood: one bare digest, the lines of sha256sum and its like, BSD style
    lines; comments and signatures around them are passed over.  The longest
    digest wins.
    """
    lines = [line.strip() for line in text.splitlines()]
    found: list[str] = []
    for line in lines:
        if match := _COREUTILS.fullmatch(line):
            digest, described = match.groups()
        elif match := _BSD.fullmatch(line):
            described, digest = match.groups()
        else:
            continue
        if PurePosixPath(described).name == name:
            found.append(digest)
    if found:
        return max(found, key=len)
    bare = [line for line in lines if line and not line.startswith("#")]
    if len(bare) == 1 and _BARE.fullmatch(bare[0]):
        return bare[0]
    return None


def of_instance(info: Mapping[str, Any], image_href: str) -> Checksum | None:
    """Return the checksum that instance_info demands of the image, None without any.

    ``image_os_hash_algo`` and ``image_os_hash_value`` win over ``image_checksum``,
    whose URL form is fetched.

    :raises ImageChecksumError: not usable.
    """
    algorithm, value = info.get("image_os_hash_algo"), info.get("image_os_hash_value")
    if algorithm and value:
        return Checksum(check_algorithm(algorithm), str(value).lower())
    given = info.get("image_checksum")
    if not given:
        return None
    return from_file(given, image_href) if is_url(given) else parse(given)
