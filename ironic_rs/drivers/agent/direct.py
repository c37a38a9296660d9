"""Deploy interface ``direct``: the ramdisk writes an image to the disk.

Source: specification drivers.md section 10.3, agent-protocol.md section 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import bootmode, errors, steps
from ironic_rs.drivers import quirks
from ironic_rs.drivers.agent import client, image, inband, partition
from ironic_rs.drivers.agent.client import AgentClient
from ironic_rs.drivers.agent.custom import CustomAgentDeploy
from ironic_rs.drivers.decorators import deploy_step, require_exclusive_lock
from ironic_rs.drivers.quirks import Quirk
from ironic_rs.images import configdrive

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


def _written(node: models.Node, command: client.Command) -> dict[str, str]:
    """Return the identifiers of what the agent has written, by name.

    :raises InstanceDeployFailure: it does not know them.
    """
    if command.get("command_status") == client.FAILED:
        raise errors.InstanceDeployFailure(
            reason=f"the ramdisk of node {node.uuid} does not know what it has written: "
            f"{client.error_text(command)}"
        )
    found = command.get("command_result")
    return dict(found) if isinstance(found, Mapping) else {}


class DirectDeploy(CustomAgentDeploy):
    """Writes whole-disk and partition images, with a config drive."""

    def validate(self, task: Task) -> None:
        super().validate(task)
        if task.driver.storage.should_write_image(task):
            image.validate(task.node)

    def update_instance_info(self, task: Task) -> None:
        if not task.driver.storage.should_write_image(task):
            return
        image.prepare(task.node)
        task.save()

    @deploy_step(priority=80)
    @require_exclusive_lock
    def write_image(self, task: Task) -> str | None:
        """Have the ramdisk write the image; ends with a heartbeat."""
        if not task.driver.storage.should_write_image(task):
            return None
        node = task.node
        image_info = image.write_arguments(node)
        drive = configdrive.for_agent(node)
        if partition.is_wanted(node):
            # It becomes one of the partitions.
            image_info["configdrive"] = drive
        arguments = {"image_info": image_info, "configdrive": drive}
        LOG.info("Node %s: the ramdisk starts to write image %s", node.uuid, image_info["id"])
        step = {"interface": "deploy", "step": "write_image", "args": arguments}
        return inband.execute(task, steps.DEPLOY, step)

    def configure_instance_boot(self, task: Task) -> None:
        node, driver = task.node, task.driver
        if not driver.storage.should_write_image(task):
            driver.boot.prepare_instance(task)
            return
        agent = AgentClient(node)
        written = _written(node, agent.get_partition_uuids())
        root_uuid = written.get("root uuid")
        node.driver_internal_info["root_uuid_or_disk_id"] = root_uuid
        if partition.is_wanted(node):
            partition.remember(node)
        task.save()
        if CONF.agent.manage_agent_boot:
            self._install_bootloader(task, agent, root_uuid, written)
            self._boot_from_disk(task)
            driver.boot.prepare_instance(task)
        else:
            task.flows.set_boot_device("disk", persistent=True)
        image.remove_served(node)

    @staticmethod
    def _install_bootloader(
        task: Task, agent: AgentClient, root_uuid: str | None, written: dict[str, str]
    ) -> None:
        """Install a boot loader where the image's own one does not do."""
        node = task.node
        mode = bootmode.effective(node)
        disks = (node.target_raid_config or {}).get("logical_disks", ())
        software_raid = any(disk.get("controller") == "software" for disk in disks)
        if software_raid:
            root_uuid = node.instance_info.get("image_rootfs_uuid") or root_uuid
        elif partition.is_wanted(node):
            if root_uuid is None:
                return
        elif mode != bootmode.UEFI:
            return
        command = agent.install_bootloader(
            root_uuid,
            efi_system_part_uuid=written.get("efi system partition uuid"),
            prep_boot_part_uuid=written.get("PReP Boot partition uuid"),
            target_boot_mode=mode,
            software_raid=software_raid,
        )
        if command.get("command_status") != client.SUCCEEDED:
            raise errors.InstanceDeployFailure(
                reason=f"the boot loader could not be installed on node {node.uuid}: "
                f"{client.error_text(command)}"
            )

    @staticmethod
    def _boot_from_disk(task: Task) -> None:
        node = task.node
        uefi = bootmode.effective(node) == bootmode.UEFI
        if uefi and quirks.stored(Quirk.LOSES_BOOT_ENTRY, node):
            # Setting the device would remove the entry that the boot loader made.
            return
        persistent = node.driver_info.get("force_persistent_boot_device") != "Never"
        try:
            task.flows.set_boot_device("disk", persistent=persistent)
        except errors.IPMIFailure as exc:
            if not uefi:
                raise
            LOG.warning("Node %s: the boot device could not be set: %s", node.uuid, exc)
