"""Boot interfaces ``pxe``, ``ipxe``, ``http`` and ``http-ipxe``.

Source: specification drivers.md sections 11.1 and 11.4; field case 102.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import bootmode, capabilities, errors, ramdisk, states
from ironic_rs.drivers import boot_mode, quirks
from ironic_rs.drivers.base import BootInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import NodePeriodic, require_exclusive_lock
from ironic_rs.drivers.dhcp import base as dhcp
from ironic_rs.drivers.pxe import (
    dhcp_options,
    files,
    images,
    options,
    rendering,
    retry,
    startup,
    volumes,
)
from ironic_rs.drivers.pxe.flavour import GRUB, Flavour
from ironic_rs.drivers.quirks import Quirk

LOG = log.getLogger(__name__)

#: Option by which a template boots an ISO.
_BOOT_ISO_URL = "boot_iso_url"

PROPERTIES: Properties = {
    "deploy_kernel": "URL of the kernel of the deploy ramdisk. Needs deploy_ramdisk.",
    "deploy_ramdisk": "URL of the deploy ramdisk. Needs deploy_kernel.",
    "rescue_kernel": "URL of the kernel of the rescue ramdisk. Needs rescue_ramdisk.",
    "rescue_ramdisk": "URL of the rescue ramdisk. Needs rescue_kernel.",
    "kernel_append_params": (
        "Kernel parameters of the ramdisk, in place of [pxe]kernel_append_params; %default% "
        "stands for those."
    ),
    "force_persistent_boot_device": (
        "Whether boot devices are set persistently: Always, Never or Default (as each flow "
        "wants it)."
    ),
}


class _NetworkBoot(BootInterface):
    """Boots ramdisk and instance over the network."""

    flavour: ClassVar[Flavour]

    def __init__(self) -> None:
        super().__init__()
        startup.at_start(self.flavour)

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    # Checks

    def validate(self, task: Task) -> None:
        self._check(task, ramdisk.mode(task.node))
        found = ramdisk.of_instance(task.node) if self._boots_instance_from_network(task) else {}
        images.check(task.node, found)
        if ramdisk.BOOT_ISO in found:
            self._check_iso_boots(task)
        if volumes.boots_from_volume(task):
            volumes.options(task.node)

    def _check_iso_boots(self, task: Task) -> None:
        """Refuse an ISO where the boot loader of the node would find nothing to boot.

        :raises InvalidParameterValue: its configuration has no entry for one.
        """
        node = task.node
        template = self._template(task)
        if _BOOT_ISO_URL not in rendering.source(template):
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: instance_info has {ramdisk.BOOT_ISO}, which the boot loader of "
                f"boot interface {node.boot_interface} cannot boot in this boot mode ({template} "
                f"says nothing of {_BOOT_ISO_URL}). Use boot interface ipxe or http-ipxe, or "
                "kernel and ramdisk."
            )

    def validate_rescue(self, task: Task) -> None:
        images.check(task.node, images.of_ramdisk(task.node, ramdisk.RESCUE))

    def validate_inspection(self, task: Task) -> None:
        try:
            self._check(task, ramdisk.DEPLOY)
        except errors.MissingParameterValue as exc:
            LOG.info("Node %s cannot boot a ramdisk for inspection: %s", task.node.uuid, exc)
            raise self._unsupported(task, "validate_inspection") from exc

    def _check(self, task: Task, mode: str) -> None:
        """Check what every network boot needs.

        :raises MissingParameterValue, InvalidParameterValue: something is not so.
        """
        node = task.node
        if not files.booting_ports(task):
            why = "none of its ports has pxe_enabled" if task.ports else "it has no ports"
            raise errors.MissingParameterValue(
                f"Node {node.uuid} cannot boot from the network: {why}."
            )
        if self.flavour.by_http:
            _check_web_server(node.uuid, str(node.boot_interface))
        capabilities.validate(node)
        if self.flavour.http and bootmode.effective(node) != bootmode.UEFI:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid} is to boot in BIOS mode, but boot interface "
                f"{node.boot_interface} needs UEFI."
            )
        if node.instance_info.get("image_source") and node.instance_info.get(ramdisk.BOOT_ISO):
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: instance_info has both image_source and boot_iso."
            )
        self._template(task)
        dhcp_options.of_node(node, self.flavour, tags=False)
        options.append_parameters(task, {})
        if ramdisk.needs_agent(node, mode):
            images.check(node, images.of_ramdisk(node, mode))

    def _template(self, task: Task) -> Path:
        """Return the template of the node's configuration.

        :raises InvalidParameterValue: there is none.
        """
        node = task.node
        own = node.driver_info.get("pxe_template")
        path = self.flavour.template(node)
        if own:
            if not CONF.pxe.enable_insecure_template_override:
                raise errors.InvalidParameterValue(
                    f"Node {node.uuid}: driver_info has pxe_template, which is only allowed with "
                    "[pxe]enable_insecure_template_override."
                )
            path = Path(str(own))
        if not path.is_file():
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: the template of its boot configuration, {path}, does not "
                "exist on this conductor."
            )
        return path

    # The ramdisk

    @require_exclusive_lock
    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str | None]) -> None:
        """Write boot configuration, links and images, and boot from the network once."""
        node = task.node
        if not ramdisk.needed(node):
            return
        startup.ensure(self.flavour)
        found = images.of_ramdisk(node, ramdisk.mode(node))
        boot_mode.sync_boot_mode(task)
        self._tell_dhcp(task)
        values = options.build(task, self.flavour, found, ramdisk_params)
        self._write_config(task, values, rendering.DEPLOY)
        images.fetch(node, self.flavour, found)
        retry.set_network_boot(task, self.flavour, persistent=False)

    def clean_up_ramdisk(self, task: Task) -> None:
        self._remove(task)

    # The instance

    @require_exclusive_lock
    def prepare_instance(self, task: Task) -> None:
        """Boot the instance from its disk, or from the network when it has none."""
        node = task.node
        boot_mode.sync_boot_mode(task)
        option = capabilities.boot_option(node)
        if option != "kickstart":
            boot_mode.configure_secure_boot_if_needed(task)
        if self._boots_instance_from_network(task):
            self._prepare_network_instance(task, option)
        else:
            self._prepare_disk_instance(task)
        self._set_instance_device(task)

    def _boots_instance_from_network(self, task: Task) -> bool:
        local = capabilities.boot_option(task.node) == "local"
        return not local or volumes.boots_from_volume(task)

    def _prepare_network_instance(self, task: Task, option: str) -> None:
        node = task.node
        startup.ensure(self.flavour)
        found = ramdisk.of_instance(node)
        values = options.build(task, self.flavour, found)
        entry = {"ramdisk": rendering.RAMDISK, "kickstart": rendering.ANACONDA}.get(
            option, rendering.WHOLE_DISK
        )
        if volumes.boots_from_volume(task):
            values.update(volumes.options(node))
            entry = rendering.ISCSI
        self._tell_dhcp(task)
        self._write_config(task, values, entry)
        if found:
            images.fetch(node, self.flavour, found)

    def _prepare_disk_instance(self, task: Task) -> None:
        if CONF.pxe.enable_netboot_fallback:
            startup.ensure(self.flavour)
            self._tell_dhcp(task)
            files.remove_config(task, self.flavour)
            self._write_config(task, options.build(task, self.flavour, {}), rendering.WHOLE_DISK)
        else:
            self._remove(task)

    def _set_instance_device(self, task: Task) -> None:
        # A running instance is not disturbed, only taken over.
        if task.node.provision_state in (states.ACTIVE, states.ADOPTING):
            return
        if self._boots_instance_from_network(task):
            retry.set_network_boot(task, self.flavour, persistent=True)
        elif not _keeps_own_order(task):
            task.flows.set_boot_device("disk", persistent=True)

    def clean_up_instance(self, task: Task) -> None:
        self._remove(task)
        boot_mode.deconfigure_secure_boot_if_needed(task)

    # What both need

    def _tell_dhcp(self, task: Task) -> None:
        provider = dhcp.provider()
        provider.update_dhcp_opts(
            task,
            dhcp_options.of_node(task.node, self.flavour, tags=provider.supports_ipxe_tag()),
        )

    def _write_config(self, task: Task, values: Mapping[str, object], entry: str) -> None:
        node = task.node
        text = rendering.config(self._template(task), self.flavour.syntax(node), values, entry)
        with files.explained(node, self.flavour):
            files.write(self.flavour.config(node), text)
        files.link_config(task, self.flavour, self._addresses(task))

    def _addresses(self, task: Task) -> list[str]:
        """Return the IP addresses by which GRUB may look for its configuration."""
        if self.flavour.syntax(task.node) != GRUB:
            return []
        return dhcp.provider().get_ip_addresses(task)

    def _remove(self, task: Task) -> None:
        files.remove_config(task, self.flavour)

    # Another try

    def periodics(self) -> list[tuple[NodePeriodic, Callable[[Task], None]]]:
        mark = retry.mark()
        return [] if mark is None else [(mark, self.check_boot_timeouts)]

    def check_boot_timeouts(self, task: Task) -> None:
        """Boot a machine again whose ramdisk was not heard of."""
        retry.boot_again(task, self.flavour)


def _check_web_server(node_uuid: str, interface: str) -> None:
    missing = [name for name in ("http_url", "http_root") if not CONF.deploy[name]]
    if missing:
        raise errors.MissingParameterValue(
            f"Node {node_uuid}: boot interface {interface} needs [deploy]{' and '.join(missing)}."
        )


def _keeps_own_order(task: Task) -> bool:
    """Tell whether the boot device of a fresh instance is left as it is.

    Some machines in UEFI mode lose the entry of the installed system when the disk is
    set as boot device.
    """
    node = task.node
    return (
        node.provision_state == states.DEPLOYING
        and quirks.stored(Quirk.LOSES_BOOT_ENTRY, node)
        and bootmode.effective(node) == bootmode.UEFI
    )


class PXEBoot(_NetworkBoot):
    """Boot interface ``pxe``: pxelinux or GRUB by TFTP."""

    flavour = Flavour(ipxe=False, http=False)
    capabilities = ("ramdisk_boot", "pxe_boot")


class IPXEBoot(_NetworkBoot):
    """Boot interface ``ipxe``: iPXE by TFTP (or in the ROM), the rest by HTTP."""

    flavour = Flavour(ipxe=True, http=False)
    capabilities = ("iscsi_volume_boot", "ramdisk_boot", "ipxe_boot", "pxe_boot")


class HTTPBoot(_NetworkBoot):
    """Boot interface ``http``: GRUB and the rest by the firmware's HTTP boot."""

    flavour = Flavour(ipxe=False, http=True)
    capabilities = ("ramdisk_boot", "pxe_boot")


class HTTPIPXEBoot(_NetworkBoot):
    """Boot interface ``http-ipxe``: iPXE by the firmware's HTTP boot."""

    flavour = Flavour(ipxe=True, http=True)
    capabilities = ("iscsi_volume_boot", "ramdisk_boot", "ipxe_boot", "pxe_boot")
