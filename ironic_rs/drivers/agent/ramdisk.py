"""Booting the ramdisk, and which address of ours it is told.

Source: specification drivers.md section 3, agent-protocol.md section 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.domain import states, steps
from ironic_rs.drivers import fast_track
from ironic_rs.integrations import own_api

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task


def disabled(node: models.Node) -> bool:
    """Tell whether the flow of the node does without a ramdisk."""
    for kind in steps.KINDS.values():
        if kind.ramdisk_key and node.provision_state in (kind.running, kind.wait):
            return bool(node.driver_internal_info.get(kind.ramdisk_key))
    return False


def prepare_boot(task: Task) -> None:
    """Make the next boot run the ramdisk, unless somebody else manages that."""
    if not CONF.agent.manage_agent_boot:
        return
    task.node.driver_internal_info["agent_start_attempted"] = True
    task.save()
    task.driver.boot.prepare_ramdisk(task, {"ipa-api-url": own_api.url()})


def reboot_to_finish_step(task: Task) -> str:
    """Reboot into the ramdisk so that a step can end; returns the wait state.

    :raises InvalidState: no step is running.
    """
    node = task.node
    if not disabled(node):
        if fast_track.in_use(task) and not node.disable_power_off:
            task.flows.power(states.POWER_OFF)
        prepare_boot(task)
    task.flows.power(states.REBOOT)
    return steps.wait_state(node)
