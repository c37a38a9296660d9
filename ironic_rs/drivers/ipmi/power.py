"""Power through IPMI.

Source: specification drivers.md section 5.4.
"""

from __future__ import annotations

import time

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import PowerInterface, Properties
from ironic_rs.drivers.contract import Task
from ironic_rs.drivers.decorators import require_exclusive_lock
from ironic_rs.drivers.ipmi import boot_device, manufacturer
from ironic_rs.drivers.ipmi.bmc import Link, operate
from ironic_rs.drivers.ipmi.driver_info import PROPERTIES, parse, validate
from ironic_rs.drivers.ipmi.errors import BmcError

LOG = log.getLogger(__name__)

#: Request "chassis" (network function 0): commands and their data.
CHASSIS = 0x00
_GET_STATUS = 0x01
_CONTROL = 0x02
_POWER_IS_ON = 0x01

CONTROLS = {
    states.POWER_OFF: 0x00,
    states.POWER_ON: 0x01,
    states.REBOOT: 0x03,
    states.SOFT_POWER_OFF: 0x05,
}
NMI = 0x04
#: Completion code "not in the present state": it is where it should go already.
_WRONG_STATE = 0xD5

#: Seconds after a hard reset during which a BMC may still report the old "on".
RESET_SETTLE = 15.0


def control(link: Link, action: int) -> None:
    """Ask for a change of the chassis' power."""
    link.ask(CHASSIS, _CONTROL, bytes([action]))


def _is_on(link: Link) -> bool:
    answer = link.ask(CHASSIS, _GET_STATUS)
    if not answer:
        raise BmcError("the answer to the question for the power state is empty")
    return bool(answer[0] & _POWER_IS_ON)


class IPMIPower(PowerInterface):
    """Reads and changes the power state by chassis requests."""

    def get_properties(self) -> Properties:
        return dict(PROPERTIES)

    def validate(self, task: Task) -> None:
        validate(task.node)

    def get_power_state(self, task: Task) -> str | None:
        def read(link: Link) -> bool:
            on = _is_on(link)
            manufacturer.note(link, task.node)
            return on

        on = operate(task.node, "reading the power state", read, reading=True)
        return states.POWER_ON if on else states.POWER_OFF

    def get_supported_power_states(self, task: Task) -> list[str]:
        return [
            states.POWER_ON,
            states.POWER_OFF,
            states.REBOOT,
            states.SOFT_REBOOT,
            states.SOFT_POWER_OFF,
        ]

    @require_exclusive_lock
    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        node = task.node
        if power_state == states.POWER_ON:
            self._on(task, timeout)
        elif power_state == states.POWER_OFF:
            self._off(task, states.POWER_OFF, timeout)
        elif power_state == states.SOFT_POWER_OFF:
            self._soft_off(task, timeout)
        elif power_state == states.SOFT_REBOOT:
            if node.disable_power_off:
                raise errors.UnsupportedHardwareFeature(
                    node=node.uuid, feature="soft reboot without power off"
                )
            self._soft_off(task, timeout)
            self._on(task, timeout)
        else:
            raise errors.InvalidParameterValue(
                f"Node {node.uuid} cannot be set to power state '{power_state}' by IPMI."
            )

    @require_exclusive_lock
    def reboot(self, task: Task, timeout: int | None = None) -> None:
        on = self.get_power_state(task) == states.POWER_ON
        if on and task.node.disable_power_off:
            boot_device.restore(task, parse(task.node))
            self._control(task, states.REBOOT, states.POWER_ON)
            time.sleep(RESET_SETTLE)
            task.flows.wait_for_power_state(states.POWER_ON, timeout)
            return
        if on:
            self._off(task, states.POWER_OFF, timeout)
        self._on(task, timeout)

    def _on(self, task: Task, timeout: int | None) -> None:
        boot_device.restore(task, parse(task.node))
        self._control(task, states.POWER_ON, states.POWER_ON)
        task.flows.wait_for_power_state(states.POWER_ON, timeout)

    def _off(self, task: Task, how: str, timeout: int | None) -> None:
        self._control(task, how, states.POWER_OFF)
        task.flows.wait_for_power_state(states.POWER_OFF, timeout)

    def _soft_off(self, task: Task, timeout: int | None) -> None:
        if timeout is None:
            timeout = CONF.conductor.soft_power_off_timeout
        self._off(task, states.SOFT_POWER_OFF, timeout)

    def _control(self, task: Task, request: str, target: str) -> None:
        def act(link: Link) -> None:
            try:
                control(link, CONTROLS[request])
            except BmcError as exc:
                if exc.code != _WRONG_STATE or _is_on(link) != (target == states.POWER_ON):
                    raise
                LOG.debug("Node %s is in power state '%s' already", task.node.uuid, target)

        operate(task.node, f"setting power state '{request}'", act)
