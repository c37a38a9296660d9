"""Rescue interface ``agent``: the ramdisk is left running for the owner of the instance.

Source: specification drivers.md section 10.9, conductor.md sections 8.3 and 10.11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, secrets, states
from ironic_rs.drivers import base
from ironic_rs.drivers.agent import client, ramdisk
from ironic_rs.drivers.agent.client import AgentClient
from ironic_rs.drivers.decorators import require_exclusive_lock

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


class AgentRescue(base.RescueInterface):
    """Boots the rescue ramdisk; its first heartbeat finishes the rescue."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        """Check networks, boot and password.

        :raises MissingParameterValue, InvalidParameterValue: something is not usable.
        """
        node, driver = task.node, task.driver
        driver.network.validate_rescue(task)
        if CONF.agent.manage_agent_boot:
            driver.boot.validate(task)
            driver.boot.validate_rescue(task)
        password = node.instance_info.get("rescue_password")
        if password is None:
            raise errors.MissingParameterValue(
                f"Node {node.uuid} can not be rescued without a rescue_password."
            )
        if not str(password).strip():
            raise errors.InvalidParameterValue(
                f"The rescue_password of node {node.uuid} must not be empty."
            )

    @require_exclusive_lock
    def rescue(self, task: Task) -> str:
        """Move the machine from the networks of its instance into the rescue ramdisk."""
        driver = task.driver
        with task.flows.power_off_and_on():
            driver.boot.clean_up_instance(task)
            driver.network.unconfigure_tenant_networks(task)
            driver.network.add_rescuing_network(task)
            ramdisk.prepare_boot(task)
        return states.RESCUEWAIT

    @require_exclusive_lock
    def unrescue(self, task: Task) -> str:
        """Boot the instance again, in its own networks."""
        driver = task.driver
        with task.flows.power_off_and_on():
            self.clean_up(task)
            driver.network.configure_tenant_networks(task)
            driver.boot.prepare_instance(task)
        return states.ACTIVE

    def clean_up(self, task: Task) -> None:
        """Forget the password, and what the boot of the ramdisk and its network need."""
        secrets.forget_rescue_password(task.node)
        if CONF.agent.manage_agent_boot:
            task.driver.boot.clean_up_ramdisk(task)
        task.driver.network.remove_rescuing_network(task)


def finalize(task: Task) -> None:
    """Give the ramdisk its password; it leaves the rescuing network then.

    :raises AgentInProgress: not now, the next heartbeat tries again.
    :raises AgentConnectionFailed, AgentAPIError, InstanceRescueFailure: not possible.
    """
    node = task.node
    info = node.instance_info
    command = AgentClient(node).finalize_rescue(
        info.get("hashed_rescue_password"), info.get("rescue_password")
    )
    if command.get("command_status") != client.SUCCEEDED:
        raise errors.InstanceRescueFailure(
            instance=node.instance_uuid,
            node=node.uuid,
            reason=f"the ramdisk could not be finalized: {client.error_text(command)}",
        )
    LOG.info("Node %s: the rescue ramdisk has its password", node.uuid)
