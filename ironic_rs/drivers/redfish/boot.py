"""Boot interface ``redfish-virtual-media``: the ramdisk comes on a virtual CD.

Source: specification drivers.md sections 6.7 and 12.7, agent-protocol.md sections 1
and 5; field cases 46, 48, 52.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import sushy
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import bootmode, capabilities, errors, ramdisk, states
from ironic_rs.drivers import boot_mode, fast_track
from ironic_rs.drivers.base import BootInterface, ImagePublisherSettings, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.redfish import virtual_media
from ironic_rs.drivers.redfish.driver_info import parse_driver_info
from ironic_rs.drivers.redfish.sessions import talk
from ironic_rs.images import boot_iso, cache, publisher
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

CD = sushy.VirtualMediaType.CD
#: Directory below [deploy]http_root.
SUBDIR = "redfish"
#: Protocols by which the conductor can show an image to a BMC.
_PROTOCOLS = ("HTTP", "HTTPS")

PROPERTIES: Properties = {
    "deploy_kernel": "URL of the kernel of the deploy ramdisk. Needs deploy_ramdisk.",
    "deploy_ramdisk": "URL of the deploy ramdisk. Needs deploy_kernel.",
    "deploy_iso": "URL of a boot ISO with kernel and ramdisk, in place of those two.",
}


def iso_name(node: models.Node) -> str:
    """Return the name under which the boot ISO of a node is published."""
    return f"boot-{node.uuid}.iso"


class RedfishVirtualMediaBoot(BootInterface):
    """Builds an ISO with kernel, ramdisk and parameters, and boots the machine from it."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    @property
    def image_publisher_settings(self) -> ImagePublisherSettings:
        return ImagePublisherSettings(
            image_subdir=SUBDIR,
            file_permission=CONF.redfish.file_permission,
            kernel_params=CONF.redfish.kernel_append_params,
        )

    def validate(self, task: Task) -> None:
        node = task.node
        parse_driver_info(node)
        if capabilities.boot_option(node) != "local":
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: boot interface {node.boot_interface} boots instances from "
                "the local disk only."
            )
        mode = ramdisk.mode(node)
        prebuilt = ramdisk.iso(node, mode)
        if prebuilt is None:
            _kernel_and_ramdisk(node, mode)
            ramdisk.kernel_parameters(node, CONF.redfish.kernel_append_params)
            if bootmode.effective(node) == bootmode.UEFI:
                _esp(node)
        if prebuilt is None or not _left_to_bmc(prebuilt):
            _base_url(node)
        _wanted_protocol(node)

    def validate_rescue(self, task: Task) -> None:
        node = task.node
        parse_driver_info(node)
        if ramdisk.iso(node, ramdisk.RESCUE) is None:
            _kernel_and_ramdisk(node, ramdisk.RESCUE)

    def validate_inspection(self, task: Task) -> None:
        parse_driver_info(task.node)

    @require_exclusive_lock
    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str | None]) -> None:
        """Insert the boot ISO and boot from it once.

        The machine is off afterwards (unless disable_power_off is set): media are
        changed under no running system.
        """
        node = task.node
        if not ramdisk.needed(node):
            return
        _check_vendor(task)
        if fast_track.in_use(task) and self._has_cd(task):
            LOG.debug("Node %s goes on with the ramdisk that runs on it", node.uuid)
            return
        params: dict[str, str | None] = _for_outside(ramdisk_params)
        prebuilt = ramdisk.iso(node, ramdisk.mode(node))
        if prebuilt is None:
            # Nothing can be put into an ISO that somebody else has built.
            params["ipa-agent-token"] = _pregenerate_token(task)
        self._power_off(task)
        params.update(_own_parameters(task))
        self._boot_from_iso(task, prebuilt, params)

    def _boot_from_iso(
        self, task: Task, prebuilt: str | None, params: Mapping[str, str | None]
    ) -> None:
        node = task.node
        protocol = _wanted_protocol(node)
        url = _build(task, params) if prebuilt is None else _publish(node, prebuilt)
        with talk(task, f"inserting boot ISO {redact(url)}") as bmc:
            if protocol is not None:
                allowed = virtual_media.transfer_protocols(bmc, CD)
                if protocol not in allowed:
                    raise errors.InvalidParameterValue(
                        f"Node {node.uuid}: vmedia_transport_protocol {protocol} is not one "
                        f"that its BMC knows: {', '.join(sorted(allowed))}."
                    )
            virtual_media.insert(node, bmc, url, CD, transfer_protocol=protocol)
        node.driver_internal_info["vmedia_transport_protocol"] = protocol or "HTTP"
        task.save()
        boot_mode.sync_boot_mode(task)
        task.flows.set_boot_device("cdrom", persistent=False)

    @require_exclusive_lock
    def clean_up_ramdisk(self, task: Task) -> None:
        if fast_track.in_use(task):
            LOG.debug("Node %s keeps its ramdisk for the next flow", task.node.uuid)
            return
        # A finished rescue leaves its ramdisk, which lives in memory, to the user.
        if task.node.provision_state != states.RESCUING:
            self._power_off(task)
        self._eject_all(task)

    @require_exclusive_lock
    def prepare_instance(self, task: Task) -> None:
        self._eject_all(task)
        boot_mode.sync_boot_mode(task)
        boot_mode.configure_secure_boot_if_needed(task)
        task.flows.set_boot_device("disk", persistent=True)

    @require_exclusive_lock
    def clean_up_instance(self, task: Task) -> None:
        self._eject_all(task)
        boot_mode.deconfigure_secure_boot_if_needed(task)

    def _has_cd(self, task: Task) -> bool:
        with talk(task, "looking for an inserted CD") as bmc:
            return virtual_media.find(bmc, [CD], inserted=True) is not None

    def _power_off(self, task: Task) -> None:
        """Power off, unless the node must stay on: its next reboot ends the ramdisk."""
        if not task.node.disable_power_off:
            task.flows.power(states.POWER_OFF)

    def _eject_all(self, task: Task) -> None:
        try:
            with talk(task, "ejecting the boot ISO") as bmc:
                virtual_media.eject(task.node, bmc, CD)
        finally:
            publisher.unpublish(iso_name(task.node), SUBDIR)


def _kernel_and_ramdisk(node: models.Node, mode: str) -> tuple[str, str]:
    found = ramdisk.kernel_and_ramdisk(node, mode)
    if found is None:
        raise errors.MissingParameterValue(
            f"Node {node.uuid} has no ramdisk to boot: set {mode}_kernel and {mode}_ramdisk, or "
            f"{mode}_iso, in driver_info, or {mode}_kernel and {mode}_ramdisk in [conductor]."
        )
    return found


def _esp(node: models.Node) -> str | Path:
    """Return the image with the EFI boot loader: a reference, or a file of the host."""
    href = ramdisk.bootloader(node)
    if href is not None:
        return href
    if CONF.esp_image:
        return Path(CONF.esp_image)
    raise errors.MissingParameterValue(
        f"Node {node.uuid} has no EFI boot loader for its boot ISO: set bootloader in "
        "driver_info, [conductor]bootloader or [DEFAULT]esp_image."
    )


def _base_url(node: models.Node) -> str:
    return publisher.base_url(node.driver_info.get("external_http_url"))


def _wanted_protocol(node: models.Node) -> str | None:
    """Return the protocol that driver_info asks for; only then the BMC is told one."""
    wanted = node.driver_info.get("vmedia_transport_protocol")
    if wanted is None:
        return None
    if str(wanted).upper() not in _PROTOCOLS:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: vmedia_transport_protocol {wanted} is not offered by the "
            f"conductor; possible are {', '.join(_PROTOCOLS)}."
        )
    scheme = urlsplit(_base_url(node)).scheme.upper()
    if scheme != str(wanted).upper():
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: vmedia_transport_protocol is {wanted}, but images are "
            f"published by {scheme}."
        )
    return scheme


def _check_vendor(task: Task) -> None:
    """Refuse Dell machines whose virtual media only their own protocol can boot."""
    node = task.node
    if "dell" not in re.split(r"\W+", str(node.properties.get("vendor") or "").lower()):
        return
    with talk(task, "reading the firmware version of the BMC") as bmc:
        managers = bmc.system.managers
        version = str(managers[0].firmware_version or "") if managers else ""
    if version.split(".")[0] not in ("6", "7"):
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: boot interface {node.boot_interface} does not work on Dell "
            f"machines with BMC firmware {version or 'of unknown version'}; use "
            "idrac-redfish-virtual-media."
        )


def _for_outside(params: Mapping[str, str | None]) -> dict[str, str | None]:
    """Point the ramdisk to the API as it is seen from where virtual media are used."""
    changed: dict[str, str | None] = dict(params)
    outside = CONF.deploy.external_callback_url
    if outside:
        outside = outside.rstrip("/")
        if "ipa-api-url" in changed:
            changed["ipa-api-url"] = outside
        if "ipa-inspection-callback-url" in changed:
            changed["ipa-inspection-callback-url"] = f"{outside}/v1/continue_inspection"
    return changed


def _pregenerate_token(task: Task) -> str:
    """Make the agent's token; it lives until the flow ends, over reboots."""
    token = secrets.token_urlsafe()
    info = task.node.driver_internal_info
    info["agent_secret_token"] = token
    info["agent_secret_token_pregenerated"] = True
    task.save()
    return token


def _own_parameters(task: Task) -> dict[str, str]:
    params = {"boot_method": "vmedia"}
    if LOG.isEnabledFor(logging.DEBUG):
        params["ipa-debug"] = "1"
    for port in task.ports:
        if task.driver.network.get_current_vif(task, port):
            params["BOOTIF"] = str(port.address)
            break
    return params


def _network_data(task: Task) -> dict[str, object] | None:
    if CONF.inspector.force_dhcp and task.node.provision_state in (
        states.INSPECTING,
        states.INSPECTWAIT,
    ):
        return None
    return task.driver.network.get_node_network_data(task) or None


def _build(task: Task, params: Mapping[str, str | None]) -> str:
    """Build and publish the boot ISO; return its URL."""
    node = task.node
    kernel, initrd = _kernel_and_ramdisk(node, ramdisk.mode(node))
    mode = bootmode.effective(node)
    append = ramdisk.kernel_parameters(node, CONF.redfish.kernel_append_params)
    line, publisher_id = boot_iso.command_line(append, params)
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
                esp=_fetch(_esp(node), place / "esp") if mode == bootmode.UEFI else None,
                kernel_parameters=line,
                publisher_id=publisher_id,
                files=boot_iso.agent_files(_network_data(task)),
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


def _left_to_bmc(href: str) -> bool:
    """Tell whether the BMC fetches a boot ISO from where it is."""
    from_web = urlsplit(href).scheme.lower() in ("http", "https")
    return from_web and CONF.deploy.ramdisk_image_download_source == "http"


def _publish(node: models.Node, href: str) -> str:
    """Return a URL of a boot ISO that somebody else built, for the BMC to fetch."""
    if _left_to_bmc(href):
        return href
    url = publisher.url_of(iso_name(node), SUBDIR, node.driver_info.get("external_http_url"))
    with publisher.publishing(iso_name(node), SUBDIR, CONF.redfish.file_permission) as target:
        cache.boot_isos().fetch(href, target)
    return url
