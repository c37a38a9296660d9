"""Power through Redfish.

Source: specification drivers.md section 6.3; field cases 27, 29, 40.
"""

from __future__ import annotations

import time

import sushy
import sushy.exceptions
from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import PowerInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.redfish import sessions
from ironic_rs.drivers.redfish.driver_info import PROPERTIES, parse_driver_info
from ironic_rs.drivers.redfish.management import RedfishManagement
from ironic_rs.drivers.redfish.sessions import NodeBmc, talk

LOG = log.getLogger(__name__)

READ_MAP = {
    sushy.PowerState.ON: states.POWER_ON,
    sushy.PowerState.POWERING_ON: states.POWER_ON,
    sushy.PowerState.OFF: states.POWER_OFF,
    sushy.PowerState.POWERING_OFF: states.POWER_OFF,
}

RESET_MAP = {
    states.POWER_ON: sushy.ResetType.ON,
    states.POWER_OFF: sushy.ResetType.FORCE_OFF,
    states.REBOOT: sushy.ResetType.FORCE_RESTART,
    states.SOFT_REBOOT: sushy.ResetType.GRACEFUL_RESTART,
    states.SOFT_POWER_OFF: sushy.ResetType.GRACEFUL_SHUTDOWN,
}

#: What the machine is when a request has been carried out.
TARGETS = {
    states.REBOOT: states.POWER_ON,
    states.SOFT_REBOOT: states.POWER_ON,
    states.SOFT_POWER_OFF: states.POWER_OFF,
}

#: Seconds after a forced restart during which a BMC may still report the old "on".
RESTART_SETTLE = 15.0

_CONFLICT = 409
_ALREADY_THERE = {
    states.POWER_ON: ("already powered on", "already on", "is powered on"),
    states.POWER_OFF: ("already powered off", "already off", "is powered off"),
}


class RedfishPower(PowerInterface):
    """Reads the power state with one GET and changes it with one POST."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        parse_driver_info(task.node)

    def close(self) -> None:
        sessions.close_all()

    def get_power_state(self, task: Task) -> str | None:
        with talk(task, "reading the power state") as bmc:
            return READ_MAP.get(bmc.summary().power_state)

    def get_supported_power_states(self, task: Task) -> list[str]:
        return list(RESET_MAP)

    @require_exclusive_lock
    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        if power_state not in RESET_MAP:
            raise errors.InvalidParameterValue(
                f"Node {task.node.uuid} cannot be set to power state '{power_state}'."
            )
        target = TARGETS.get(power_state, power_state)
        if target == states.POWER_ON and isinstance(task.driver.management, RedfishManagement):
            task.driver.management.restore_boot_device(task)
        self._reset(task, power_state, target)
        if power_state == states.REBOOT:
            time.sleep(RESTART_SETTLE)
        task.flows.wait_for_power_state(target, timeout)

    @require_exclusive_lock
    def reboot(self, task: Task, timeout: int | None = None) -> None:
        if self.get_power_state(task) != states.POWER_ON:
            self.set_power_state(task, states.POWER_ON, timeout)
        elif task.node.disable_power_off:
            self.set_power_state(task, states.REBOOT, timeout)
        else:
            self.set_power_state(task, states.POWER_OFF, timeout)
            self.set_power_state(task, states.POWER_ON, timeout)

    def _reset(self, task: Task, power_state: str, target: str) -> None:
        """Ask the BMC once; again while it says that a power-off has not ended.

        The waits between are outside of the deadline of one request.
        """
        attempts = CONF.redfish.power_on_conflict_retry_attempts
        for attempt in range(attempts + 1):
            with talk(task, f"setting power state '{power_state}'") as bmc:
                try:
                    bmc.system.reset_system(RESET_MAP[power_state])
                    return
                except sushy.exceptions.ConnectionError:
                    # The request may have arrived and only its answer got lost.
                    if power_state not in TARGETS and self._is(bmc, target):
                        return
                    raise
                except sushy.exceptions.HTTPError as exc:
                    again = power_state == states.POWER_ON and _is_power_conflict(exc)
                    if not (again and attempt < attempts):
                        if self._is_there_already(task, bmc, target, exc):
                            return
                        raise
                    LOG.info(
                        "Node %s: the BMC cannot power on yet (attempt %d of %d): %s",
                        task.node.uuid,
                        attempt + 1,
                        attempts,
                        exc,
                    )
                finally:
                    bmc.changed()
            time.sleep(CONF.redfish.power_on_conflict_retry_interval)

    def _is(self, bmc: NodeBmc, target: str) -> bool:
        return READ_MAP.get(bmc.summary().power_state) == target

    def _is_there_already(
        self, task: Task, bmc: NodeBmc, target: str, exc: sushy.exceptions.HTTPError
    ) -> bool:
        """Tell whether a refusal only says that the machine is as wanted."""
        if exc.status_code not in (400, _CONFLICT):
            return False
        state = READ_MAP.get(bmc.summary().power_state)
        if state is None:
            text = str(exc).lower()
            there = any(phrase in text for phrase in _ALREADY_THERE[target])
        else:
            there = state == target
        if there:
            LOG.debug("Node %s is in power state '%s' already: %s", task.node.uuid, target, exc)
        return there


def _is_power_conflict(exc: sushy.exceptions.HTTPError) -> bool:
    return exc.status_code == _CONFLICT and "ActionParameterValueConflict" in str(exc)
