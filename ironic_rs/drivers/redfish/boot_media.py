"""Boot media: the ISO images that machines boot from, and where BMCs fetch them.

Source: specification drivers.md sections 6.7 and 12.7.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.conf.types import clean_kernel_parameters
from ironic_rs.db import models
from ironic_rs.domain import bootmode, errors, ramdisk, states
from ironic_rs.drivers.contract import Task
from ironic_rs.images import boot_iso, cache, configdrive, publisher

LOG = log.getLogger(__name__)

#: Directory below [deploy]http_root.
SUBDIR = "redfish"


def iso_name(node: models.Node) -> str:
    """Return the name under which the boot ISO of a node is published."""
    return f"boot-{node.uuid}.iso"


def _drive_name(node: models.Node) -> str:
    return f"configdrive-{node.uuid}.img"


def kernel_and_ramdisk(node: models.Node, mode: str) -> tuple[str, str]:
    """Return the images of the ramdisk of a mode.

    :raises MissingParameterValue: none are configured.
    """
    found = ramdisk.kernel_and_ramdisk(node, mode)
    if found is None:
        raise errors.MissingParameterValue(
            f"Node {node.uuid} has no ramdisk to boot: set {mode}_kernel and {mode}_ramdisk, or "
            f"{mode}_iso, in driver_info, or {mode}_kernel and {mode}_ramdisk in [conductor]."
        )
    return found


def esp(node: models.Node) -> str | Path:
    """Return the image with the EFI boot loader: a reference, or a file of the host.

    :raises MissingParameterValue: none is configured.
    """
    href = ramdisk.bootloader(node)
    if href is not None:
        return href
    if CONF.esp_image:
        return Path(CONF.esp_image)
    raise errors.MissingParameterValue(
        f"Node {node.uuid} has no EFI boot loader for its boot ISO: set bootloader in "
        "driver_info, [conductor]bootloader or [DEFAULT]esp_image."
    )


def base_url(node: models.Node) -> str:
    """Return where the node's BMC finds what is published.

    :raises MissingParameterValue: it is not configured.
    """
    return publisher.base_url(node.driver_info.get("external_http_url"))


def _network_data(task: Task) -> dict[str, object] | None:
    if CONF.inspector.force_dhcp and task.node.provision_state in (
        states.INSPECTING,
        states.INSPECTWAIT,
    ):
        return None
    return task.driver.network.get_node_network_data(task) or None


def build_ramdisk(task: Task, params: Mapping[str, str | None]) -> str:
    """Build and publish the ISO that boots the ramdisk; return its URL."""
    node = task.node
    kernel, initrd = kernel_and_ramdisk(node, ramdisk.mode(node))
    append = ramdisk.kernel_parameters(node, CONF.redfish.kernel_append_params)
    files = boot_iso.agent_files(_network_data(task))
    return _build(node, kernel, initrd, boot_iso.command_line(append, params), files)


def publish_ramdisk(node: models.Node, href: str) -> str:
    """Return a URL of a pre-built ISO with the ramdisk, for the BMC to fetch."""
    return _publish(node, href, str(CONF.deploy.ramdisk_image_download_source))


def of_instance(node: models.Node) -> str:
    """Return a URL of the ISO that is the instance, built when it is given in parts.

    :raises MissingParameterValue: it is not given.
    """
    found = ramdisk.of_instance(node)
    if ramdisk.BOOT_ISO in found:
        return _publish(node, found[ramdisk.BOOT_ISO], instance_source(node))
    arguments = clean_kernel_parameters(
        str(node.instance_info.get("ramdisk_kernel_arguments") or "")
    )
    line = boot_iso.command_line(f"root=/dev/ram0 text {arguments}".rstrip(), {})
    return _build(node, found["kernel"], found["ramdisk"], line, {})


def instance_source(node: models.Node) -> str:
    """Return where the BMC gets the ISO of an instance: ``http``, or ``local`` from us."""
    own = node.instance_info.get("ramdisk_image_download_source")
    return str(own or CONF.deploy.ramdisk_image_download_source)


def publish_config_drive(node: models.Node) -> str | None:
    """Publish the config drive of a node as an image; return its URL, None without one."""
    drive = configdrive.for_agent(node)
    if drive is None:
        return None
    content = configdrive.image_of(drive)
    with publisher.publishing(_drive_name(node), SUBDIR, CONF.redfish.file_permission) as target:
        target.write_bytes(content)
    return publisher.url_of(_drive_name(node), SUBDIR, node.driver_info.get("external_http_url"))


def unpublish(node: models.Node) -> None:
    """Remove what was published for the node."""
    publisher.unpublish(iso_name(node), SUBDIR)
    publisher.unpublish(_drive_name(node), SUBDIR)


def _build(
    node: models.Node,
    kernel: str,
    initrd: str,
    command_line: tuple[str, str],
    files: Mapping[str, bytes],
) -> str:
    mode = bootmode.effective(node)
    line, publisher_id = command_line
    url = publisher.url_of(iso_name(node), SUBDIR, node.driver_info.get("external_http_url"))
    with (
        publisher.publishing(iso_name(node), SUBDIR, CONF.redfish.file_permission) as target,
        publisher.work_directory(target) as place,
    ):
        boot_iso.build(
            boot_iso.Contents(
                boot_mode=mode,
                kernel=_fetch(kernel, place / "kernel"),
                ramdisk=_fetch(initrd, place / "ramdisk"),
                esp=_fetch(esp(node), place / "esp") if mode == bootmode.UEFI else None,
                kernel_parameters=line,
                publisher_id=publisher_id,
                files=files,
            ),
            target,
        )
    LOG.info("Boot ISO of node %s is published at %s", node.uuid, url)
    return url


def _fetch(source: str | Path, place: Path) -> Path:
    """Return a file of the host as it is; fetch a reference to ``place``."""
    if isinstance(source, Path):
        return source
    return cache.boot_files().fetch(source, place).path


def left_to_bmc(href: str, source: str) -> bool:
    """Tell whether the BMC fetches an ISO from where it is.

    :param source: ``http``: it does when it can; else the conductor gives it.
    """
    return source == "http" and urlsplit(href).scheme.lower() in ("http", "https")


def _publish(node: models.Node, href: str, source: str) -> str:
    if left_to_bmc(href, source):
        return href
    url = publisher.url_of(iso_name(node), SUBDIR, node.driver_info.get("external_http_url"))
    with publisher.publishing(iso_name(node), SUBDIR, CONF.redfish.file_permission) as target:
        cache.boot_isos().fetch(href, target)
    return url
