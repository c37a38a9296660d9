"""Deploy interface ``custom-agent``: whatever the ramdisk's own steps do.

Base of ``direct``.

Source: specification drivers.md sections 9.4 and 10.2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.domain import capabilities, errors, root_device, states, steps
from ironic_rs.drivers import fast_track
from ironic_rs.drivers.agent import image, inband, logs, ramdisk
from ironic_rs.drivers.agent.base import AgentDeployBase
from ironic_rs.drivers.agent.client import AgentClient
from ironic_rs.drivers.decorators import deploy_step, require_exclusive_lock
from ironic_rs.drivers.storage import boot_volume

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

#: States in which the instance is there already.
_HAS_INSTANCE = frozenset({states.ACTIVE, states.UNRESCUING, states.ADOPTING})
_RESCUE_STATES = frozenset({states.RESCUING, states.RESCUEWAIT, states.RESCUE, states.RESCUEFAIL})


@contextlib.contextmanager
def _failing_deployment(task: Task, what: str) -> Iterator[None]:
    """Fail the deployment, with the logs of the ramdisk, when the body fails.

    A busy ramdisk is no failure: the next heartbeat runs the step again.
    """
    try:
        yield
    except (errors.LockLost, errors.AgentInProgress):
        raise
    except Exception as exc:
        text = f"Failed to {what} of node {task.node.uuid}: {exc}"
        LOG.log(log.ERROR, "%s", text, exc_info=not isinstance(exc, errors.IronicError))
        task.flows.fail("deploy", text, collect_logs=True)
        raise errors.InstanceDeployFailure(text) from exc


class CustomAgentDeploy(AgentDeployBase):
    """Boots the ramdisk, runs its steps, boots the instance."""

    def validate(self, task: Task) -> None:
        if CONF.agent.manage_agent_boot:
            task.driver.boot.validate(task)
        capabilities.validate(task.node)
        root_device.of_node(task.node)

    @require_exclusive_lock
    def prepare(self, task: Task) -> None:
        node = task.node
        boot_volume.remember(task)
        if node.provision_state in _HAS_INSTANCE:
            task.driver.boot.prepare_instance(task)
            return
        if node.provision_state in _RESCUE_STATES:
            return
        if node.provision_state == states.DEPLOYING and not self._prepare_deploying(task):
            return
        self.update_instance_info(task)
        ramdisk.prepare_boot(task)

    def _prepare_deploying(self, task: Task) -> bool:
        """Make power, networks and volumes ready; False when the ramdisk need not boot."""
        node, driver = task.node, task.driver
        driver.network.validate(task)
        use_running = fast_track.in_use(task)
        if not use_running and not node.disable_power_off:
            task.flows.power(states.POWER_OFF)
        write = driver.storage.should_write_image(task)
        if write:
            driver.network.unconfigure_tenant_networks(task)
            driver.network.add_provisioning_network(task)
        if use_running:
            self.update_instance_info(task)
        driver.storage.attach_volumes(task)
        return write and not use_running

    def update_instance_info(self, task: Task) -> None:
        """Resolve the image; this interface leaves images to the ramdisk's steps."""

    @deploy_step(priority=100)
    @require_exclusive_lock
    def deploy(self, task: Task) -> str | None:
        """Boot the ramdisk, unless one is running that may be used."""
        node = task.node
        if fast_track.in_use(task):
            if not inband.refresh(task, steps.DEPLOY):
                raise errors.AgentInProgress(
                    node=node.uuid, command="deploy.get_deploy_steps", error="it is busy"
                )
            task.flows.set_steps(steps.DEPLOY.name)
            return None
        if not task.driver.storage.should_write_image(task):
            return None
        # An earlier out-of-band step has rebooted into the ramdisk already.
        if not node.driver_internal_info.pop(steps.DEPLOY.reboot_flag, None):
            task.flows.power(states.REBOOT)
        return states.DEPLOYWAIT

    @deploy_step(priority=60)
    @require_exclusive_lock
    def prepare_instance_boot(self, task: Task) -> str | None:
        """Make the next boot run the instance."""
        with _failing_deployment(task, "prepare the boot of the instance"):
            self.configure_instance_boot(task)
        return None

    def configure_instance_boot(self, task: Task) -> None:
        """Set up the boot of the instance; errors fail the deployment."""
        task.driver.boot.prepare_instance(task)

    @deploy_step(priority=40)
    @require_exclusive_lock
    def tear_down_agent(self, task: Task) -> str | None:
        """Stop the ramdisk and power the machine off."""
        with _failing_deployment(task, "stop the ramdisk"):
            if CONF.agent.deploy_logs_collect == "always":
                logs.collect(task)
            self._stop_ramdisk(task)
            task.driver.boot.after_ramdisk(task)
        return None

    def _stop_ramdisk(self, task: Task) -> None:
        node = task.node
        agent = AgentClient(node)
        if node.disable_power_off:
            agent.lockdown()
            return
        if states.POWER_ON not in task.driver.power.get_supported_power_states(task):
            agent.sync()
            task.flows.power(states.REBOOT)
            return
        try:
            if _is_true(node.driver_info.get("deploy_forces_oob_reboot")):
                agent.sync()
            else:
                agent.power_off()
                options = CONF.agent
                task.flows.wait_for_power_state(
                    states.POWER_OFF,
                    (options.post_deploy_get_power_state_retries + 1)
                    * options.post_deploy_get_power_state_retry_interval,
                )
        except errors.LockLost:
            raise
        except errors.IronicError as exc:
            LOG.warning("Node %s is powered off by its BMC now: %s", node.uuid, exc)
        # Records the state of a machine that is off, and is the last resort otherwise.
        task.flows.power(states.POWER_OFF)

    @deploy_step(priority=30)
    @require_exclusive_lock
    def switch_to_tenant_network(self, task: Task) -> str | None:
        """Connect the machine to the networks of its instance."""
        with _failing_deployment(task, "switch the networks"):
            task.driver.network.remove_provisioning_network(task)
            task.driver.network.configure_tenant_networks(task)
        return None

    @deploy_step(priority=20)
    @require_exclusive_lock
    def boot_instance(self, task: Task) -> str | None:
        """Boot the instance."""
        with _failing_deployment(task, "boot the instance"):
            if task.node.disable_power_off:
                task.flows.power(states.REBOOT)
            elif states.POWER_ON in task.driver.power.get_supported_power_states(task):
                task.flows.power(states.POWER_ON)
        return None

    def clean_up(self, task: Task) -> None:
        super().clean_up(task)
        self.remove_cached_images(task)

    def remove_cached_images(self, task: Task) -> None:
        """Stop serving the image of the node and drop its file."""
        image.remove_served(task.node)


def _is_true(value: object) -> bool:
    return strutils.bool_from_string(value, default=False)
