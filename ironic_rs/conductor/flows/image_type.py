"""What kind of image an instance has: whole disk, partition, or a path.

Source: specification conductor.md section 10.6 (step 8), drivers.md section 12.3.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from oslo_utils import uuidutils

from ironic_rs.db import models

WHOLE_DISK = "whole-disk"
PARTITION = "partition"

#: Values taken from the image service, to be looked up anew for a rebuild.
_FROM_GLANCE = ("kernel", "ramdisk", "boot_iso", "original_image_source")


def is_glance(source: object) -> bool:
    """Tell whether an image reference names an image of the image service."""
    return isinstance(source, str) and (
        source.startswith("glance://") or uuidutils.is_uuid_like(source)
    )


def forget_glance_details(node: models.Node) -> None:
    """Drop what an earlier deployment learnt from the image service (not saved).

    A node without any image information is fine (W24).
    """
    info = node.instance_info
    if not is_glance(info.get("image_source")):
        return
    for key in _FROM_GLANCE:
        info.pop(key, None)


def infer(node: models.Node) -> None:
    """Store the image type in instance_info and driver_internal_info (not saved)."""
    info = node.instance_info
    internal = node.driver_internal_info
    source = info.get("image_source")
    given = info.get("image_type")
    if not source and not given:
        return
    if isinstance(source, str) and _is_path(source):
        internal["is_source_a_path"] = True
        return
    internal.pop("is_source_a_path", None)
    if given is None:
        split = bool(info.get("kernel") or info.get("ramdisk"))
        is_oci = isinstance(source, str) and source.startswith("oci://")
        given = PARTITION if split and not is_oci else WHOLE_DISK
        info["image_type"] = given
    internal["is_whole_disk_image"] = given == WHOLE_DISK


def _is_path(source: str) -> bool:
    """Tell whether a reference names a directory on a web server."""
    try:
        parts = urlsplit(source)
    except ValueError:
        # Not a reference at all, which validation tells.
        return False
    return parts.scheme in ("http", "https") and parts.path.endswith("/")
