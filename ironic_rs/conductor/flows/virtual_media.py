"""Virtual media on request: an image is put into, or taken out of, a machine.

Source: specification conductor.md section 10.15, defect W33; drivers.md section 12.7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from oslo_log import log

from ironic_rs.domain import errors
from ironic_rs.drivers.base import ImagePublisherSettings
from ironic_rs.images import cache, publisher
from ironic_rs.images.services import redact

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ironic_rs.conductor.task import Task

LOG = log.getLogger(__name__)

DEVICE_TYPES = ("cdrom", "disk", "floppy")
#: Who fetches an image: this conductor, or the BMC from where the image is.
LOCAL, HTTP = "local", "http"
_FETCHED = ("http", "https")
_SUBDIR = "redfish"


def check_source(image_url: str, image_download_source: str) -> None:
    """Refuse what can not be brought to a BMC.

    :raises InvalidParameterValue: the text says what would be accepted.
    """
    scheme = urlsplit(image_url).scheme.lower()
    if image_download_source == HTTP or (scheme in _FETCHED and image_download_source == LOCAL):
        return
    if image_download_source == LOCAL:
        raise errors.InvalidParameterValue(
            f"The conductor can not fetch {redact(image_url)}: only the BMC can use {scheme}; "
            f"accepted with it: image_download_source {HTTP}."
        )
    raise errors.InvalidParameterValue(
        f"image_download_source {image_download_source} needs an image in a store with "
        f"temporary URLs, {redact(image_url)} is none; accepted: {LOCAL}, {HTTP}."
    )


def attach(task: Task, device_type: str, image_url: str, image_download_source: str) -> None:
    """Insert an image; a failure is recorded."""
    try:
        _unstage(task, device_type)
        url = image_url
        if image_download_source == LOCAL:
            url = _stage(task, device_type, image_url)
        task.driver.management.attach_virtual_media(task, device_type, url)
    except errors.LockLost:
        raise
    except Exception as exc:
        _unstage(task, device_type)
        _failed(task, f"attach {device_type} {redact(image_url)}", exc)


def detach(task: Task, device_types: Sequence[str] | None) -> None:
    """Eject, and forget what was staged for it; a failure is recorded."""
    try:
        task.driver.management.detach_virtual_media(task, device_types)
    except errors.LockLost:
        raise
    except Exception as exc:
        _failed(task, f"detach {', '.join(device_types or DEVICE_TYPES)}", exc)
        return
    for device_type in device_types or DEVICE_TYPES:
        _unstage(task, device_type)


def _failed(task: Task, what: str, exc: Exception) -> None:
    known = isinstance(exc, errors.IronicError)
    uuid = task.node.uuid
    LOG.error("Node %s: could not %s: %s", uuid, what, exc, exc_info=not known)
    reason = errors.reason(exc)
    task.history(f"Could not {what} as virtual media of node {uuid}: {reason}", "UNKNOWN")
    task.save()


def _settings(task: Task) -> ImagePublisherSettings:
    return task.driver.boot.image_publisher_settings or ImagePublisherSettings()


def _place(task: Task, device_type: str) -> tuple[str, str]:
    """Return (name, directory) of a staged image."""
    suffix = "iso" if device_type == "cdrom" else "img"
    name = f"{device_type}-{task.node.uuid}.{suffix}"
    return name, _settings(task).image_subdir or _SUBDIR


def _stage(task: Task, device_type: str, image_url: str) -> str:
    """Fetch an image and publish it; return its URL for the BMC."""
    name, subdir = _place(task, device_type)
    url = publisher.url_of(name, subdir, task.node.driver_info.get("external_http_url"))
    with publisher.publishing(name, subdir, _settings(task).file_permission) as target:
        cache.boot_isos().fetch(image_url, target)
    return url


def _unstage(task: Task, device_type: str) -> None:
    publisher.unpublish(*_place(task, device_type))
