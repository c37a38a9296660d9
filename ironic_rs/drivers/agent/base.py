"""What all deploy interfaces have in common whose ramdisk is the agent.

Source: specification drivers.md sections 9.3 and 9.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import Step, StepKind
from ironic_rs.drivers import base, fast_track
from ironic_rs.drivers.agent import inband, logs, ramdisk
from ironic_rs.drivers.agent.client import AgentClient
from ironic_rs.drivers.agent.heartbeat import HeartbeatMixin
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.dhcp import base as dhcp
from ironic_rs.drivers.storage import boot_volume

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


class AgentDeployBase(HeartbeatMixin, base.DeployInterface):
    """Heartbeats, in-band steps, cleaning, servicing and tear down."""

    _PROPERTIES: ClassVar[base.Properties] = {
        "deploy_kernel": "Reference of the kernel of the deploy ramdisk. Required.",
        "deploy_ramdisk": "Reference of the deploy ramdisk. Required.",
        "image_http_proxy": "Proxy through which the ramdisk fetches http images. Optional.",
        "image_https_proxy": "Proxy through which the ramdisk fetches https images. Optional.",
        "image_no_proxy": (
            "Hosts, IP addresses and .domains, comma-separated, that need no proxy. Optional."
        ),
        "image_download_source": (
            "Where the ramdisk fetches the image: http (from its source), local (from the "
            "conductor) or swift. Optional."
        ),
        "deploy_forces_oob_reboot": (
            "Power the machine off and on through its BMC at the end of deployment, without "
            "asking the ramdisk. Optional, default false."
        ),
        "agent_verify_ca": (
            "Whether to verify the TLS certificate of the agent: a boolean, or the path of "
            "a certificate file on the conductor. Optional."
        ),
    }

    def get_properties(self) -> base.Properties:
        return dict(self._PROPERTIES)

    # In-band steps

    def _with_in_band(self, task: Task, kind: StepKind, own: list[Step]) -> list[Step]:
        names = {step["step"] for step in own}
        found = inband.cached(task, kind, self.interface_type)
        return own + [step for step in found if step["step"] not in names]

    def get_clean_steps(self, task: Task) -> list[Step]:
        return self._with_in_band(task, steps.CLEAN, super().get_clean_steps(task))

    def get_deploy_steps(self, task: Task) -> list[Step]:
        return self._with_in_band(task, steps.DEPLOY, super().get_deploy_steps(task))

    def get_service_steps(self, task: Task) -> list[Step]:
        return self._with_in_band(task, steps.SERVICE, super().get_service_steps(task))

    def execute_clean_step(self, task: Task, step: Step) -> str | None:
        if _is_in(step, self.clean_steps):
            return super().execute_clean_step(task, step)
        return inband.execute(task, steps.CLEAN, step)

    def execute_deploy_step(self, task: Task, step: Step) -> str | None:
        if _is_in(step, self.deploy_steps):
            return super().execute_deploy_step(task, step)
        if steps.DEPLOY.cached_key not in task.node.driver_internal_info:
            raise errors.InstanceDeployFailure(
                reason=f"deploy step {steps.step_id(step)} runs in the ramdisk, which has not "
                f"told its steps yet (node {task.node.uuid})"
            )
        return inband.execute(task, steps.DEPLOY, step)

    def execute_service_step(self, task: Task, step: Step) -> str | None:
        if _is_in(step, self.service_steps):
            return super().execute_service_step(task, step)
        return inband.execute(task, steps.SERVICE, step)

    # Life of an instance

    @require_exclusive_lock
    def tear_down(self, task: Task) -> str:
        if not task.node.disable_power_off:
            task.flows.power(states.POWER_OFF)
        task.driver.storage.detach_volumes(task)
        boot_volume.forget(task.node)
        task.driver.network.unconfigure_tenant_networks(task)
        task.driver.network.remove_provisioning_network(task)
        return states.DELETED

    def clean_up(self, task: Task) -> None:
        if CONF.agent.manage_agent_boot:
            task.driver.boot.clean_up_ramdisk(task)
        task.driver.boot.clean_up_instance(task)
        dhcp.provider().clean_dhcp_opts(task)
        if task.node.disable_power_off and not task.shared:
            task.flows.power(states.REBOOT)

    def take_over(self, task: Task) -> None:
        pass

    def collect_ramdisk_logs(self, task: Task) -> None:
        """Keep the logs of the ramdisk; failures are only logged."""
        logs.collect(task)

    # Cleaning

    @require_exclusive_lock
    def prepare_cleaning(self, task: Task) -> str | None:
        use_running = fast_track.in_use(task)
        task.driver.network.add_cleaning_network(task)
        self._set_erase_parameters(task)
        ramdisk.prepare_boot(task)
        if use_running and inband.refresh(task, steps.CLEAN):
            task.save()
            return None
        if not use_running:
            task.flows.power(states.REBOOT)
        return states.CLEANWAIT

    @staticmethod
    def _set_erase_parameters(task: Task) -> None:
        """Tell the ramdisk, through the node, how to erase disks (not saved)."""
        deploy = CONF.deploy
        task.node.driver_internal_info.update(
            {
                "agent_erase_devices_iterations": deploy.shred_random_overwrite_iterations,
                "agent_erase_devices_zeroize": deploy.shred_final_overwrite_with_zeros,
                "agent_continue_if_secure_erase_failed": (
                    deploy.continue_if_disk_secure_erase_fails
                ),
                # The name that older ramdisks know.
                "agent_continue_if_ata_erase_failed": deploy.continue_if_disk_secure_erase_fails,
                "agent_enable_nvme_secure_erase": deploy.enable_nvme_secure_erase,
                "agent_enable_ata_secure_erase": deploy.enable_ata_secure_erase,
                "disk_erasure_concurrency": deploy.disk_erasure_concurrency,
                "agent_erase_skip_read_only": deploy.erase_skip_read_only,
            }
        )

    @require_exclusive_lock
    def tear_down_cleaning(self, task: Task) -> None:
        node = task.node
        keep_running = node.disable_power_off or node.fault == states.FAULT_CLEAN
        if not keep_running and not fast_track.in_use(task):
            task.flows.power(states.POWER_OFF)
        if CONF.agent.manage_agent_boot:
            task.driver.boot.clean_up_ramdisk(task)
        task.driver.network.remove_cleaning_network(task)
        if node.disable_power_off:
            task.flows.power(states.REBOOT)

    # Servicing

    @require_exclusive_lock
    def prepare_service(self, task: Task) -> str | None:
        driver = task.driver
        with task.flows.power_off_and_on():
            driver.boot.clean_up_instance(task)
            driver.network.unconfigure_tenant_networks(task)
            driver.network.add_servicing_network(task)
            ramdisk.prepare_boot(task)
        return states.SERVICEWAIT

    @require_exclusive_lock
    def tear_down_service(self, task: Task) -> None:
        node, driver = task.node, task.driver
        failed = node.fault == states.FAULT_SERVICE
        if node.disable_power_off:
            AgentClient(node).lockdown(fail_if_unavailable=False)
        elif not failed:
            task.flows.power(states.POWER_OFF)
        if CONF.agent.manage_agent_boot:
            driver.boot.clean_up_ramdisk(task)
        if failed:
            return
        driver.network.remove_servicing_network(task)
        driver.network.configure_tenant_networks(task)
        driver.boot.prepare_instance(task)
        task.flows.power(states.REBOOT if node.disable_power_off else states.POWER_ON)


def _is_in(step: Step, own: list[Step]) -> bool:
    return any(one["step"] == step["step"] for one in own)
