"""A scripted BMC, a node on it, and a clock that does not make anybody wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import (
    boot_options,
    connector,
    management,
    power,
    sessions,
    transport,
    virtual_media,
)
from ironic_rs.drivers.redfish.boot import RedfishVirtualMediaBoot
from ironic_rs.drivers.redfish.management import RedfishManagement
from ironic_rs.drivers.redfish.power import RedfishPower
from tests.harness.bmc import Bmc
from tests.unit.drivers import kit


class Clock(ModuleType):
    """Stands in for ``time`` in modules of ours: sleeping only moves the clock."""

    def __init__(self) -> None:
        super().__init__("time")
        self.slept: list[float] = []
        self._skipped = 0.0

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._skipped += seconds

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped

    def time(self) -> float:
        return time.time() + self._skipped

    def skip(self, seconds: float) -> None:
        self._skipped += seconds


class LiveFlows(kit.Flows):
    """The conductor's part, reduced to what the driver sees of it, on the real BMC."""

    def __init__(self, task: kit.Task, clock: Clock) -> None:
        super().__init__(task)
        self._clock = clock

    def power(self, new_state: str, timeout: int | None = None) -> None:
        super().power(new_state, timeout)
        driver = self._task.driver.power
        if new_state == states.REBOOT:
            driver.reboot(self._task, timeout)
        else:
            driver.set_power_state(self._task, new_state, timeout)

    def wait_for_power_state(self, state: str, timeout: int | None = None) -> str:
        for _attempt in range(5):
            if self._task.driver.power.get_power_state(self._task) == state:
                return state
            self._clock.sleep(10)
        raise errors.PowerStateFailure(pstate=state)

    def set_boot_device(self, device: str, persistent: bool = False) -> None:
        super().set_boot_device(device, persistent)
        self._task.driver.management.set_boot_device(self._task, device, persistent)

    def set_boot_mode(self, mode: str) -> None:
        super().set_boot_mode(mode)
        self._task.driver.management.set_boot_mode(self._task, mode)


@pytest.fixture(autouse=True)
def options(config: Callable[..., None]) -> None:
    """Load the configuration, with defaults."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (boot_options, connector, management, power, sessions, transport, virtual_media):
        monkeypatch.setattr(module, "time", clock)
    # One test's clock is not the next one's.
    monkeypatch.setattr(sessions, "_cache", sessions._Cache())
    return clock


@pytest.fixture(autouse=True)
def no_sessions_left(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # The times in the old one are of another clock.
    monkeypatch.setattr(sessions, "_cache", sessions._Cache())
    yield
    sessions.close_all()


@pytest.fixture
def bmc() -> Iterator[Bmc]:
    bmc = Bmc()
    yield bmc
    bmc.close()


@pytest.fixture
def make_task(clock: Clock) -> Callable[..., kit.Task]:
    """Return a maker of exclusive tasks on a BMC; keywords are columns of the node."""

    def make(bmc: Bmc, **columns: Any) -> kit.Task:
        info = {"redfish_address": bmc.address}
        if bmc.auth != "none":
            info |= {"redfish_username": bmc.username, "redfish_password": bmc.password}
        info |= columns.pop("driver_info", {})
        values: dict[str, Any] = {
            "driver": "redfish",
            "provision_state": states.DEPLOYING,
            "boot_interface": "redfish-virtual-media",
            "management_interface": "redfish",
            **columns,
        }
        task = kit.Task(
            kit.node(driver_info=info, **values),
            power=RedfishPower(),
            management=RedfishManagement(),
            boot=RedfishVirtualMediaBoot(),
        )
        task.flows = LiveFlows(task, clock)
        return task

    return make


@pytest.fixture
def task(make_task: Callable[..., kit.Task], bmc: Bmc) -> kit.Task:
    return make_task(bmc)
