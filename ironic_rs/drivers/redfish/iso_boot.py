"""What boot interfaces share that boot machines from an ISO: what is in it, and when.

Source: specification drivers.md sections 6.7 and 12.7, agent-protocol.md sections 1
and 5; field cases 46, 48, 52.
"""

from __future__ import annotations

import logging
import secrets
from abc import abstractmethod
from collections.abc import Mapping

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import bootmode, capabilities, errors, ramdisk, states
from ironic_rs.drivers import boot_mode, fast_track
from ironic_rs.drivers.base import BootInterface, ImagePublisherSettings, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.redfish import boot_media
from ironic_rs.drivers.redfish.driver_info import parse_driver_info
from ironic_rs.images import services

LOG = log.getLogger(__name__)

#: From where a BMC may get the ISO of an instance.
_SOURCES = ("http", "local")

PROPERTIES: Properties = {
    "deploy_kernel": "URL of the kernel of the deploy ramdisk. Needs deploy_ramdisk.",
    "deploy_ramdisk": "URL of the deploy ramdisk. Needs deploy_kernel.",
    "deploy_iso": "URL of a boot ISO with kernel and ramdisk, in place of those two.",
}


class ISOBoot(BootInterface):
    """Builds an ISO with kernel, ramdisk and parameters, and boots the machine from it."""

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

    def _check_ramdisk(self, node: models.Node, mode: str) -> None:
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
        """Offer the boot ISO and boot from it once.

        The machine is off afterwards (unless disable_power_off is set): media are
        changed under no running system.
        """
        node = task.node
        if not ramdisk.needed(node):
            return
        self.check_machine(task)
        if fast_track.in_use(task) and self.is_offered(task):
            LOG.debug("Node %s goes on with the ramdisk that runs on it", node.uuid)
            return
        params: dict[str, str | None] = _for_outside(ramdisk_params)
        prebuilt = ramdisk.iso(node, ramdisk.mode(node))
        if prebuilt is None:
            # Nothing can be put into an ISO that somebody else has built.
            params["ipa-agent-token"] = _pregenerate_token(task)
        power_off(task)
        params.update(_own_parameters(task))
        if prebuilt is None:
            url = boot_media.build_ramdisk(task, params)
        else:
            url = boot_media.publish_ramdisk(node, prebuilt)
        self.offer(task, url)
        boot_mode.sync_boot_mode(task)
        self.boot_from_iso(task, url, persistent=False)

    @require_exclusive_lock
    def clean_up_ramdisk(self, task: Task) -> None:
        if fast_track.in_use(task):
            LOG.debug("Node %s keeps its ramdisk for the next flow", task.node.uuid)
            return
        self.end_ramdisk(task)
        self.withdraw(task)

    @require_exclusive_lock
    def prepare_instance(self, task: Task) -> None:
        """Boot the instance from its disk; from its ISO when it is nothing but that."""
        if not _ramdisk_runs(task.node):
            self.withdraw(task)
        boot_mode.sync_boot_mode(task)
        boot_mode.configure_secure_boot_if_needed(task)
        if capabilities.boot_option(task.node) == "ramdisk":
            url = boot_media.of_instance(task.node)
            self.offer(task, url)
            self.offer_config_drive(task)
            self.boot_from_iso(task, url, persistent=True)
        else:
            task.flows.set_boot_device("disk", persistent=True)

    @require_exclusive_lock
    def after_ramdisk(self, task: Task) -> None:
        if capabilities.boot_option(task.node) != "ramdisk":
            self.withdraw(task)

    @require_exclusive_lock
    def clean_up_instance(self, task: Task) -> None:
        self.withdraw(task)
        boot_mode.deconfigure_secure_boot_if_needed(task)

    @abstractmethod
    def check_machine(self, task: Task) -> None:
        """Refuse machines that cannot be booted in this way.

        :raises InvalidParameterValue: this is one.
        """

    @abstractmethod
    def is_offered(self, task: Task) -> bool:
        """Tell whether a running ramdisk still has what it was booted from, if it needs it."""

    @abstractmethod
    def offer(self, task: Task, url: str) -> None:
        """Show the ISO at a URL to the machine, in place of any other."""

    @abstractmethod
    def boot_from_iso(self, task: Task, url: str, *, persistent: bool) -> None:
        """Make the ISO that was offered the boot device."""

    @abstractmethod
    def withdraw(self, task: Task) -> None:
        """Show no ISO any more, and remove what was published."""

    def end_ramdisk(self, task: Task) -> None:
        """Stop the ramdisk, if it must not outlive what it was booted from."""

    def offer_config_drive(self, task: Task) -> None:
        """Show the config drive of an instance that boots from an ISO, where that is possible."""


def power_off(task: Task) -> None:
    """Power off, unless the node must stay on: its next reboot ends the ramdisk."""
    if not task.node.disable_power_off:
        task.flows.power(states.POWER_OFF)


def _ramdisk_runs(node: models.Node) -> bool:
    """Tell whether the ramdisk of a deployment still uses its medium."""
    return (
        node.provision_state == states.DEPLOYING
        and node.power_state == states.POWER_ON
        and "agent_url" in node.driver_internal_info
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
