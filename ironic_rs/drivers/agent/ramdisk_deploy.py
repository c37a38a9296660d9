"""Deploy interface ``ramdisk``: the instance is a ramdisk; nothing is written to a disk.

The agent runs only for cleaning, servicing and rescue.

Source: specification drivers.md section 10.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.domain import capabilities, errors, ramdisk, states
from ironic_rs.drivers import base
from ironic_rs.drivers.agent.base import AgentDeployBase
from ironic_rs.drivers.decorators import deploy_step, require_exclusive_lock
from ironic_rs.drivers.storage import boot_volume

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

_HAS_INSTANCE = frozenset({states.ACTIVE, states.UNRESCUING, states.ADOPTING})


class RamdiskDeploy(AgentDeployBase):
    """Boots an ISO, or a kernel with its ramdisk, of instance_info."""

    def get_properties(self) -> base.Properties:
        return {}

    def supports_deploy(self, task: Task) -> bool:
        info = task.node.instance_info
        wanted = strutils.bool_from_string(info.get("ironic_ramdisk_deploy"))
        given = info.get(ramdisk.BOOT_ISO) or (info.get("kernel") and info.get("ramdisk"))
        return bool(wanted and given)

    def validate(self, task: Task) -> None:
        node, boot = task.node, task.driver.boot
        if "ramdisk_boot" not in boot.capabilities:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid}: boot interface {node.boot_interface} can not boot a ramdisk "
                "as an instance, which deploy interface ramdisk needs."
            )
        boot.validate(task)
        capabilities.validate(node)

    @require_exclusive_lock
    def prepare(self, task: Task) -> None:
        node, driver = task.node, task.driver
        boot_volume.remember(task)
        if node.provision_state == states.DEPLOYING:
            driver.network.validate(task)
            if not node.disable_power_off:
                task.flows.power(states.POWER_OFF)
            driver.storage.attach_volumes(task)
        elif node.provision_state in _HAS_INSTANCE:
            driver.boot.prepare_instance(task)

    @deploy_step(priority=100)
    @require_exclusive_lock
    def deploy(self, task: Task) -> str | None:
        """Boot the instance, in its networks."""
        node, driver = task.node, task.driver
        if (
            node.instance_info.get("configdrive")
            and "ramdisk_boot_configdrive" not in driver.boot.capabilities
        ):
            LOG.warning(
                "Node %s: boot interface %s does not give a config drive to a ramdisk",
                node.uuid,
                node.boot_interface,
            )
        with task.flows.power_off_and_on():
            driver.network.configure_tenant_networks(task)
            driver.boot.prepare_instance(task)
        return None
