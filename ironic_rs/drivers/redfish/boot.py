"""Boot interface ``redfish-virtual-media``: the ramdisk comes on a virtual CD.

Source: specification drivers.md sections 6.7 and 12.7; field cases 46, 48, 52.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import sushy
from oslo_log import log

from ironic_rs.db import models
from ironic_rs.domain import capabilities, errors, states
from ironic_rs.drivers import patience
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.redfish import boot_media, quirks, virtual_media
from ironic_rs.drivers.redfish.iso_boot import ISOBoot, power_off
from ironic_rs.drivers.redfish.quirks import Quirk
from ironic_rs.drivers.redfish.sessions import talk
from ironic_rs.images.services import redact

LOG = log.getLogger(__name__)

CD = sushy.VirtualMediaType.CD
USB = sushy.VirtualMediaType.USB_STICK
#: A look for the medium of a ramdisk that did not call may take so long.
LOOK_SECONDS = 10.0
#: Protocols by which the conductor can show an image to a BMC.
_PROTOCOLS = ("HTTP", "HTTPS")


class RedfishVirtualMediaBoot(ISOBoot):
    """Inserts the ISO into a virtual CD drive."""

    capabilities = ("ramdisk_boot", "ramdisk_boot_configdrive")

    def _check_ramdisk(self, node: models.Node, mode: str) -> None:
        super()._check_ramdisk(node, mode)
        _wanted_protocol(node)

    def check_machine(self, task: Task) -> None:
        """Refuse machines whose virtual media only a request of the vendor's own can boot.

        :raises InvalidParameterValue: this is one.
        """
        node = task.node
        with talk(task, "finding out how the BMC boots from virtual media") as bmc:
            if not quirks.has(Quirk.OWN_MEDIA_BOOT, node, bmc):
                return
            machine = quirks.described(node, bmc)
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: boot interface {node.boot_interface} does not work on this "
            f"machine ({machine}); use idrac-redfish-virtual-media."
        )

    def is_offered(self, task: Task) -> bool:
        with talk(task, "looking for an inserted CD") as bmc:
            return virtual_media.find(bmc, [CD], inserted=True) is not None

    def offer(self, task: Task, url: str) -> None:
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

    def boot_from_iso(self, task: Task, url: str, *, persistent: bool) -> None:
        task.flows.set_boot_device("cdrom", persistent=persistent)

    def missing_medium(self, task: Task) -> str | None:
        try:
            with (
                patience.at_most(LOOK_SECONDS),
                talk(task, "looking for the boot medium") as bmc,
            ):
                return virtual_media.missing(bmc, CD)
        except errors.IronicError as exc:
            LOG.info("Node %s: could not look for its boot medium: %s", task.node.uuid, exc)
            return super().missing_medium(task)

    def offer_config_drive(self, task: Task) -> None:
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

    def end_ramdisk(self, task: Task) -> None:
        # A finished rescue leaves its ramdisk, which lives in memory, to the user.
        if task.node.provision_state != states.RESCUING:
            power_off(task)

    def withdraw(self, task: Task) -> None:
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
