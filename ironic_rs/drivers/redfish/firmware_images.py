"""Firmware images: from where a BMC fetches them.

A BMC fetches an image from its web server, or from ours.  What we give it we fetch
first, all images of a step before the first is used, so that one that is missing or
damaged stops the step while nothing has been changed yet.

Source: specification drivers.md sections 6.8a and 6.9 (staging).
"""

from __future__ import annotations

import functools
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.boot_media import left_to_bmc
from ironic_rs.images import publisher
from ironic_rs.images.cache import make_room
from ironic_rs.images.services import redact, service_for

LOG = log.getLogger(__name__)

#: driver_internal_info: where there are files of ours, a list with "http" in it.
CLEANUP = "firmware_cleanup"

#: Values of ``source``.
SOURCES = ("http", "local", "swift")
_ALGORITHMS = {40: "sha1", 64: "sha256", 128: "sha512"}
_SCHEMES = ("http", "https", "file")
_HEXADECIMAL = frozenset(string.hexdigits)


def checked(
    uuid: str, given: Any, argument: str, fault: Callable[[Mapping[str, Any]], str | None]
) -> list[dict[str, Any]]:
    """Return the updates that the argument of a step asks for.

    :param argument: its name.
    :param fault: returns what is wrong with an entry, besides ``url`` and ``wait``.
    :raises InvalidParameterValue: names the entry and what is wrong with it, without its
        URL, which may have a password in it.
    """
    if not isinstance(given, list) or not given:
        raise errors.InvalidParameterValue(
            f"Node {uuid}: {argument} has to be a list of one or more firmware images."
        )
    for number, entry in enumerate(given, 1):
        if isinstance(entry, Mapping):
            reason = fault(entry) or _fault_of_url(entry["url"]) or _fault_of_wait(entry)
        else:
            reason = "it is no object"
        if reason:
            raise errors.InvalidParameterValue(
                f"Node {uuid}: firmware image {number} of {argument} cannot be used: {reason}."
            )
    return [dict(entry) for entry in given]


def fault_of_keys(
    entry: Mapping[str, Any], required: Sequence[str], optional: Sequence[str]
) -> str | None:
    """Return which key is missing or too many, None when none is."""
    missing = [key for key in required if key not in entry]
    if missing:
        return f"it needs {' and '.join(missing)}"
    unknown = sorted(str(key) for key in entry.keys() - {*required, *optional})
    return f"it has unknown keys: {', '.join(unknown)}" if unknown else None


def _fault_of_url(url: Any) -> str | None:
    if not isinstance(url, str):
        return "url has to be a URL"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "url has to be a URL"
    scheme = parts.scheme.lower()
    if scheme == "swift":
        return "images in object storage (swift) are not supported; give an http or file URL"
    if scheme not in _SCHEMES or not (parts.path if scheme == "file" else parts.netloc):
        return "url has to begin with http://, https:// or file:///"
    return None


def _fault_of_wait(entry: Mapping[str, Any]) -> str | None:
    wait = entry.get("wait", 1)
    if isinstance(wait, bool) or not isinstance(wait, int) or wait < 1:
        return "wait has to be seconds, 1 or more"
    return None


def fault_of_checksum(value: Any) -> str | None:
    """Return what is wrong with a checksum, None when nothing is."""
    if isinstance(value, str) and len(value) in _ALGORITHMS and set(value) <= _HEXADECIMAL:
        return None
    return "checksum has to be the hexadecimal digits of a SHA1, SHA256 or SHA512 digest"


def source_of(update: dict[str, Any]) -> str:
    """Return ``http``, ``local`` or ``swift``: of the update, else as configured."""
    return str(update.get("source") or CONF.redfish.firmware_source)


def is_left_to_bmc(update: dict[str, Any]) -> bool:
    """Tell whether the BMC fetches the image from where it is."""
    return left_to_bmc(update["url"], source_of(update))


def stage(node: models.Node, updates: Sequence[dict[str, Any]]) -> None:
    """Let each update have an ``image_url`` that the BMC can fetch.

    :param updates: with ``url`` and, maybe, ``checksum`` and ``source``.
    :raises InvalidParameterValue: object storage is asked for.
    :raises ImageRefValidationFailed: an image can not be had.
    :raises ImageDownloadFailed: its transfer failed.
    :raises InsufficientDiskSpace: there is no room for it.
    :raises RedfishError: it has another checksum.
    :raises MissingParameterValue: our web server is not configured.
    """
    for update in updates:
        if source_of(update) == "swift":
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: firmware images cannot be put into object storage (swift); "
                "use http or local as source of the step, or as [redfish]firmware_source."
            )
    unstage(node)
    for position, update in enumerate(updates):
        update["position"] = position
        _stage(node, update)


def again_if_elsewhere(node: models.Node, update: dict[str, Any]) -> None:
    """Stage an image once more that another conductor has staged, which may be dead.

    Raises as :func:`stage` does.
    """
    if update.get("staged_by") not in (None, CONF.host):
        _stage(node, update)


def _stage(node: models.Node, update: dict[str, Any]) -> None:
    url = update["url"]
    if is_left_to_bmc(update):
        update["image_url"] = url
        return
    name = _file_name(url)
    subdir = f"{_subdir(node)}/{update['position']}"
    address = publisher.url_of(name, subdir, node.driver_info.get("external_http_url"))
    wanted = update.get("checksum")
    algorithm = _ALGORITHMS[len(wanted)] if wanted else None
    with publisher.publishing(name, subdir, CONF.redfish.file_permission) as target:
        room = functools.partial(make_room, target.parent)
        digest = service_for(url).download(url, target, algorithm, room)
        if wanted and digest != wanted.lower():
            raise errors.RedfishError(
                error=(
                    f"firmware image {redact(url)} for node {node.uuid} has the {algorithm} "
                    f"checksum {digest}, not {wanted.lower()}"
                )
            )
    update["image_url"] = address
    update["staged_by"] = CONF.host
    LOG.info("Firmware image %s for node %s is at %s", redact(url), node.uuid, address)


def _subdir(node: models.Node) -> str:
    return f"firmware/{node.uuid}"


def _file_name(url: str) -> str:
    """Return the name of the image, which BMCs may look at; hidden files are not served."""
    name = PurePosixPath(unquote(urlsplit(url).path)).name.replace("\0", "").lstrip(".")
    return name or "image"


def unstage(node: models.Node) -> None:
    """Remove what this conductor has staged for a node; nothing is no error."""
    publisher.unpublish_directory(_subdir(node))
