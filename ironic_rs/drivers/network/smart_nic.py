"""Machines with Smart NICs: these have power, and an agent, only while the machine is on.

Source: specification conductor.md section 10.1, drivers.md section 3.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.network import binding

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

_BIOS_SETUP = "bios"


@contextmanager
def powered(task: Task) -> Iterator[None]:
    """Have a machine on, in its BIOS set-up, while the networks of its Smart NICs change.

    Nothing happens to machines without such a card, and to those that are on.

    :raises PowerStateFailure: it can not be powered on.
    """
    network, power = task.driver.network, task.driver.power
    if not network.need_power_on(task) or power.get_power_state(task) != states.POWER_OFF:
        yield
        return
    _wait_until_silent(task)
    task.flows.set_boot_device(_BIOS_SETUP)
    task.flows.power(states.POWER_ON)
    try:
        yield
        # The agent applies what has changed when it looks the next time.
        time.sleep(2 * CONF.agent.neutron_agent_poll_interval)
    finally:
        task.flows.power(states.POWER_OFF)


def _wait_until_silent(task: Task) -> None:
    """Wait until the agent of a card that has no power counts as dead.

    What is waited for after power on would else be found at once, from before.
    """
    for port in task.ports:
        if not port.is_smartnic:
            continue
        host = binding.host_of(task, port)
        try:
            binding.wait_for_agent(host, alive=False)
        except errors.NetworkError as exc:
            # A card with a power supply of its own.
            LOG.warning("Node %s: %s", task.node.uuid, exc)
