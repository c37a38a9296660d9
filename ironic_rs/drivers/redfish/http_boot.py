"""Boot interface ``redfish-https``: the firmware loads the ISO itself, by UEFI HTTP boot.

Source: specification drivers.md section 6.7.
"""

from __future__ import annotations

import sushy

from ironic_rs.domain import bootmode, errors
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish import boot_media
from ironic_rs.drivers.redfish.iso_boot import ISOBoot
from ironic_rs.drivers.redfish.management import UEFI_HTTP_URL
from ironic_rs.drivers.redfish.sessions import talk


class RedfishHTTPSBoot(ISOBoot):
    """Tells the firmware from where to load the ISO; it runs in memory then."""

    capabilities = ("ramdisk_boot",)

    def validate(self, task: Task) -> None:
        """Check the node and whether its firmware boots from a URL.

        :raises InvalidParameterValue: the boot mode is not UEFI.
        :raises UnsupportedHardwareFeature: the firmware does not.
        """
        super().validate(task)
        node = task.node
        if bootmode.effective(node) != bootmode.UEFI:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: boot interface {node.boot_interface} needs the boot mode "
                "uefi; set boot_mode:uefi in the capabilities of the node."
            )
        self.check_machine(task)

    def check_machine(self, task: Task) -> None:
        """Refuse machines whose firmware does not boot from a URL.

        :raises UnsupportedHardwareFeature: this is one.
        """
        with talk(task, "finding out what the machine boots from") as bmc:
            system = bmc.system
            known = system.get_allowed_system_boot_source_values()
            if system.boot is None or sushy.BootSource.UEFI_HTTP not in known:
                raise errors.UnsupportedHardwareFeature(
                    node=task.node.uuid, feature="boot device UefiHttp"
                )

    def is_offered(self, task: Task) -> bool:
        return True

    def offer(self, task: Task, url: str) -> None:
        """The address goes to the machine along with the boot device."""

    def boot_from_iso(self, task: Task, url: str, *, persistent: bool) -> None:
        task.node.driver_internal_info[UEFI_HTTP_URL] = url
        task.save()
        task.flows.set_boot_device("uefihttp", persistent=persistent)

    def withdraw(self, task: Task) -> None:
        if task.node.driver_internal_info.pop(UEFI_HTTP_URL, None) is not None:
            task.save()
        boot_media.unpublish(task.node)
