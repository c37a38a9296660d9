"""Which kernels, ramdisks and ISOs a node boots from the network.

Source: specification drivers.md sections 11.3, 11.4 and 12.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.domain import errors, ramdisk
from ironic_rs.drivers.pxe import files
from ironic_rs.images import cache, services

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.pxe.flavour import Flavour

LOG = log.getLogger(__name__)

#: Label, which is the file's name, -> image reference.
Images = dict[str, str]


def of_ramdisk(node: models.Node, mode: str) -> Images:
    """Return ``<mode>_kernel`` and ``<mode>_ramdisk``.

    :param mode: ``deploy`` or ``rescue``.
    :raises MissingParameterValue: not configured.
    """
    found = ramdisk.kernel_and_ramdisk(node, mode)
    if found is None:
        raise errors.MissingParameterValue(
            f"Node {node.uuid} has no ramdisk to boot: set {mode}_kernel and {mode}_ramdisk in "
            f"driver_info, or {mode}_kernel and {mode}_ramdisk in [conductor]."
        )
    kernel, initrd = found
    return {f"{mode}_kernel": kernel, f"{mode}_ramdisk": initrd}


def check(node: models.Node, images: Mapping[str, str]) -> None:
    """Check that the references are of a kind that can be fetched; no request is made.

    :raises ImageRefValidationFailed: one is not.
    """
    for label, href in images.items():
        try:
            services.service_for(href)
        except errors.ImageRefValidationFailed as exc:
            raise errors.InvalidParameterValue(f"Node {node.uuid}: {label}: {exc}") from exc


def fetch(node: models.Node, flavour: Flavour, images: Mapping[str, str]) -> None:
    """Put images into the directory of a node, from the cache of the conductor.

    :raises ImageRefValidationFailed, ImageDownloadFailed, InsufficientDiskSpace: as named.
    """
    directory = flavour.node_directory(node)
    with files.explained(node, flavour):
        files.make_directory(directory)
        for label, href in images.items():
            source = cache.boot_isos() if label == ramdisk.BOOT_ISO else cache.boot_files()
            image = source.fetch(href, directory / label)
            files.make_readable(image.path)
