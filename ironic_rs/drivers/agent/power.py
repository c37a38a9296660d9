"""Power interface ``agent``: for machines without a BMC; their ramdisk reboots them.

Source: specification drivers.md section 4 (agent power), agent-protocol.md section 9.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from ironic_rs.drivers import base, fast_track
from ironic_rs.drivers.agent.client import AgentClient
from ironic_rs.drivers.decorators import require_exclusive_lock

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

_REBOOTS = (states.REBOOT, states.SOFT_REBOOT)
_REBOOT_COMMAND = "run_image"


class AgentPower(base.PowerInterface):
    """On while the agent is heard of; knows nothing but reboots."""

    uses_agent: ClassVar[bool] = True

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        """Check that there is an agent to talk to.

        :raises InvalidParameterValue: fast track is off, or the agent is silent.
        """
        node = task.node
        if not fast_track.enabled(node):
            raise errors.InvalidParameterValue(
                f"Power interface agent of node {node.uuid} needs fast track: set fast_track in "
                "driver_info, or [deploy]fast_track."
            )
        if not fast_track.agent_is_alive(node):
            raise errors.InvalidParameterValue(
                f"The agent of node {node.uuid} was not heard of in the last "
                f"{CONF.deploy.fast_track_timeout} seconds: switch the machine on by hand, and "
                "let it boot the ramdisk."
            )

    def get_supported_power_states(self, task: Task) -> list[str]:
        return list(_REBOOTS)

    def supports_power_sync(self, task: Task) -> bool:
        return False

    def get_power_state(self, task: Task) -> str | None:
        return states.POWER_ON if fast_track.agent_is_alive(task.node) else None

    @require_exclusive_lock
    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        """Reboot; there is nothing else that it can do.

        :raises PowerStateFailure: something else was asked for, or the agent did not.
        """
        if power_state not in _REBOOTS:
            raise errors.PowerStateFailure(
                f"Node {task.node.uuid} can not be brought to '{power_state}': power interface "
                "agent can only reboot a machine whose ramdisk runs. Switch it by hand."
            )
        self.reboot(task, timeout)

    @require_exclusive_lock
    def reboot(self, task: Task, timeout: int | None = None) -> None:
        """Have the agent reboot the machine; returns when this agent is gone.

        :param timeout: seconds to wait for that; default is what a deployment waits for
            a power off.
        :raises PowerStateFailure: it refused, or is still there.
        """
        node = task.node
        agent = AgentClient(node)
        try:
            agent.reboot()
        except (errors.AgentAPIError, errors.AgentConnectionFailed, errors.AgentInProgress) as exc:
            raise errors.PowerStateFailure(
                f"The agent of node {node.uuid} did not take the request to reboot: {exc}"
            ) from exc
        _wait_until_gone(task, agent, timeout)
        steps.wipe_on_power_off(node)
        task.save()


def _wait_until_gone(task: Task, agent: AgentClient, timeout: int | None) -> None:
    """Wait until the agent that took the request does not answer any more.

    A heartbeat that it still sends would be taken for the first one after the reboot.
    """
    options = CONF.agent
    pause = options.post_deploy_get_power_state_retry_interval
    if timeout is None:
        timeout = (options.post_deploy_get_power_state_retries + 1) * pause
    deadline = time.monotonic() + timeout
    while True:
        try:
            names = {command.get("command_name") for command in agent.commands()}
        except errors.AgentConnectionFailed:
            return
        except (errors.AgentAPIError, errors.AgentInProgress) as exc:
            # One that starts anew does not know the token any more.
            LOG.debug("Node %s: the agent answers otherwise: %s", task.node.uuid, exc)
            return
        if _REBOOT_COMMAND not in names:
            return
        if time.monotonic() >= deadline:
            raise errors.PowerStateFailure(
                f"The agent of node {task.node.uuid} has not rebooted the machine within "
                f"{timeout} seconds."
            )
        time.sleep(min(pause, max(deadline - time.monotonic(), 0)))
