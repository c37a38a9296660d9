"""Boot interface ``redfish-virtual-media``: the ramdisk comes on a virtual CD.

Source: specification drivers.md sections 6.7 and 12.7, agent-protocol.md sections 1
and 5; field cases 46, 48, 52.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
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
from ironic_rs.drivers.redfish import boot_media, quirks, virtual_media
from ironic_rs.drivers.redfish.driver_info import parse_driver_info
from ironic_rs.drivers.redfish.quirks import Quirk
from ironic_rs.drivers.redfish.sessions import talk
from ironic_rs.images import services
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

CD = sushy.VirtualMediaType.CD
USB = sushy.VirtualMediaType.USB_STICK
#: Protocols by which the conductor can show an image to a BMC.
_PROTOCOLS = ("HTTP", "HTTPS")
#: From where a BMC may get the ISO of an instance.
_SOURCES = ("http", "local")

PROPERTIES: Properties = {
    "deploy_kernel": "URL of the kernel of the deploy ramdisk. Needs deploy_ramdisk.",
    "deploy_ramdisk": "URL of the deploy ramdisk. Needs deploy_kernel.",
    "deploy_iso": "URL of a boot ISO with kernel and ramdisk, in place of those two.",
}


class RedfishVirtualMediaBoot(BootInterface):
    """Builds an ISO with kernel, ramdisk and parameters, and boots the machine from it."""

    capabilities = ("ramdisk_boot", "ramdisk_boot_configdrive")

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    @property
    def image_publisher_settings(self) -> ImagePublisherSettings:
        return ImagePublisherSettings(
            image_subdir=boot_media.SUBDIR,
            file_permission=CONF.redfish.file_permission,
            kernel_params=CONF.redfish.kernel_append_params,
        )

    def validate(self, task: Task) -> None:
        node = task.node
        parse_driver_info(node)
        option = capabilities.boot_option(node)
        if option not in ("local", "ramdisk"):
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: boot interface {node.boot_interface} boots instances from "
                "the local disk or from an ISO only."
            )
        mode = ramdisk.mode(node)
        if option == "ramdisk":
            self._check_instance(node)
        if ramdisk.needs_agent(node, mode):
            self._check_ramdisk(node, mode)

    @staticmethod
    def _check_ramdisk(node: models.Node, mode: str) -> None:
        """Check what the ISO of the ramdisk is made of."""
        prebuilt = ramdisk.iso(node, mode)
        if prebuilt is None:
            boot_media.kernel_and_ramdisk(node, mode)
            ramdisk.kernel_parameters(node, CONF.redfish.kernel_append_params)
            if bootmode.effective(node) == bootmode.UEFI:
                boot_media.esp(node)
        source = str(CONF.deploy.ramdisk_image_download_source)
        if prebuilt is None or not boot_media.left_to_bmc(prebuilt, source):
            boot_media.base_url(node)
        _wanted_protocol(node)

    @staticmethod
    def _check_instance(node: models.Node) -> None:
        """Check what an instance boots that has no disk."""
        info = node.instance_info
        if info.get("image_source") and info.get(ramdisk.BOOT_ISO):
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: instance_info has both image_source and boot_iso."
            )
        found = ramdisk.of_instance(node)
        for label, href in found.items():
            try:
                services.service_for(href)
            except errors.ImageRefValidationFailed as exc:
                raise errors.InvalidParameterValue(f"Node {node.uuid}: {label}: {exc}") from exc
        source = boot_media.instance_source(node)
        if source not in _SOURCES:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: ramdisk_image_download_source is '{source}', expected one of "
                f"{', '.join(_SOURCES)}."
            )
        if ramdisk.BOOT_ISO not in found and bootmode.effective(node) == bootmode.UEFI:
            boot_media.esp(node)
        boot_media.base_url(node)

    def validate_rescue(self, task: Task) -> None:
        parse_driver_info(task.node)
        self._check_ramdisk(task.node, ramdisk.RESCUE)

    def validate_inspection(self, task: Task) -> None:
        parse_driver_info(task.node)
        self._check_ramdisk(task.node, ramdisk.DEPLOY)

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
        if prebuilt is None:
            url = boot_media.build_ramdisk(task, params)
        else:
            url = boot_media.publish_ramdisk(node, prebuilt)
        self._insert_iso(task, url)
        boot_mode.sync_boot_mode(task)
        task.flows.set_boot_device("cdrom", persistent=False)

    def _insert_iso(self, task: Task, url: str) -> None:
        node = task.node
        protocol = _wanted_protocol(node)
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
        """Boot the instance from its disk; from its ISO when it is nothing but that."""
        if not _ramdisk_runs(task.node):
            self._eject_all(task)
        boot_mode.sync_boot_mode(task)
        boot_mode.configure_secure_boot_if_needed(task)
        if capabilities.boot_option(task.node) == "ramdisk":
            self._insert_iso(task, boot_media.of_instance(task.node))
            self._insert_config_drive(task)
            task.flows.set_boot_device("cdrom", persistent=True)
        else:
            task.flows.set_boot_device("disk", persistent=True)

    @require_exclusive_lock
    def after_ramdisk(self, task: Task) -> None:
        if capabilities.boot_option(task.node) != "ramdisk":
            self._eject_all(task)

    def _insert_config_drive(self, task: Task) -> None:
        """Show the config drive as a USB stick.

        :raises InstanceDeployFailure: the BMC has no slot for one.
        """
        node = task.node
        if not node.instance_info.get("configdrive"):
            return
        with talk(task, "inserting the config drive") as bmc:
            if virtual_media.find(bmc, [USB]) is None:
                raise errors.InstanceDeployFailure(
                    reason=f"the BMC of node {node.uuid} has no slot for a USB stick, by which "
                    "the config drive would be given to the instance"
                )
            url = boot_media.publish_config_drive(node)
            if url is not None:
                virtual_media.insert(node, bmc, url, USB)

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
        node = task.node
        kinds = [CD]
        if capabilities.boot_option(node) == "ramdisk" and node.instance_info.get("configdrive"):
            kinds.append(USB)
        try:
            with talk(task, "ejecting the boot ISO") as bmc:
                for kind in kinds:
                    virtual_media.eject(node, bmc, kind)
        finally:
            boot_media.unpublish(node)


def _ramdisk_runs(node: models.Node) -> bool:
    """Tell whether the ramdisk of a deployment still uses its medium."""
    return (
        node.provision_state == states.DEPLOYING
        and node.power_state == states.POWER_ON
        and "agent_url" in node.driver_internal_info
    )


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
    scheme = urlsplit(boot_media.base_url(node)).scheme.upper()
    if scheme != str(wanted).upper():
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: vmedia_transport_protocol is {wanted}, but images are "
            f"published by {scheme}."
        )
    return scheme


def _check_vendor(task: Task) -> None:
    """Refuse machines whose virtual media only a request of the vendor's own can boot."""
    node = task.node
    with talk(task, "finding out how the BMC boots from virtual media") as bmc:
        if not quirks.has(Quirk.OWN_MEDIA_BOOT, node, bmc):
            return
        machine = quirks.described(node, bmc)
    raise errors.InvalidParameterValue(
        f"Node {node.uuid}: boot interface {node.boot_interface} does not work on this "
        f"machine ({machine}); use idrac-redfish-virtual-media."
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
