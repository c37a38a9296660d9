"""What driver tests share: nodes, and a task whose flows write down what they are asked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from oslo_utils import timeutils

from ironic_rs.db import models, records
from ironic_rs.domain import errors, states
from ironic_rs.drivers import base
from ironic_rs.drivers.fake.bios import FakeBIOS
from ironic_rs.drivers.fake.machine import (
    FakeConsole,
    FakeFirmware,
    FakeManagement,
    FakePower,
    FakeRAID,
    FakeRescue,
)
from ironic_rs.drivers.fake.provisioning import FakeBoot, FakeDeploy, FakeInspect, FakeStorage
from ironic_rs.drivers.fake.vendor import FakeVendor
from ironic_rs.drivers.network.noop import NoopNetwork

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"


def node(**values: Any) -> models.Node:
    """Return a clean record of a fake node."""
    row: dict[str, Any] = dict.fromkeys(models.Node.__table__.columns.keys())
    for name in (
        "instance_info",
        "properties",
        "driver_info",
        "driver_internal_info",
        "clean_step",
        "deploy_step",
        "service_step",
        "extra",
        "raid_config",
        "target_raid_config",
        "network_data",
    ):
        row[name] = {}
    row |= {
        "id": 1,
        "uuid": UUID,
        "driver": "fake-hardware",
        "maintenance": False,
        "disable_power_off": False,
        "provision_state": states.AVAILABLE,
        "power_state": states.POWER_OFF,
    }
    return records.build(models.Node, row | values)


class Flows:
    """Writes down what a driver asks of the conductor, in ``calls``."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.calls: list[tuple[Any, ...]] = []
        self.errors: dict[str, Exception] = {}

    def _call(self, *call: Any) -> None:
        self.calls.append(call)
        if call[0] in self.errors:
            raise self.errors[call[0]]

    def power(self, new_state: str, timeout: int | None = None) -> None:
        self._call("power", new_state)
        self._task.node.power_state = states.POWER_TARGET[new_state]

    @contextlib.contextmanager
    def power_off_and_on(self) -> Iterator[None]:
        self.power(states.POWER_OFF)
        yield
        self.power(states.POWER_ON)

    def wait_for_power_state(self, state: str, timeout: int | None = None) -> str:
        self._call("wait_for_power_state", state, timeout)
        return state

    def set_boot_device(self, device: str, persistent: bool = False) -> None:
        self._call("set_boot_device", device, persistent)

    def set_boot_mode(self, mode: str) -> None:
        self._call("set_boot_mode", mode)

    def set_steps(self, kind: str, *, reset_current: bool = False) -> None:
        self._call("set_steps", kind, reset_current)

    def resume(self, kind: str) -> None:
        self._call("resume", kind)

    def start(self, kind: str) -> None:
        self._call("start", kind)

    def fail(self, kind: str, message: str, *, collect_logs: bool = False) -> None:
        self._call("fail", kind, message, collect_logs)

    def touch(self) -> None:
        self._call("touch")


class Task:
    """A task on one node, without a database."""

    def __init__(self, record: models.Node, *, shared: bool = False, **interfaces: Any) -> None:
        self.context = SimpleNamespace()
        self.node = record
        self.shared = shared
        self.ports: list[models.Port] = []
        self.portgroups: list[models.Portgroup] = []
        self.flows = Flows(self)
        self.saves = 0
        self.released: dict[str, Any] | None = None
        self.locked_by: str | None = None
        self.histories: list[str] = []
        made: dict[str, base.BaseInterface] = {
            "bios": FakeBIOS(),
            "boot": FakeBoot(),
            "console": FakeConsole(),
            "deploy": FakeDeploy(),
            "firmware": FakeFirmware(),
            "inspect": FakeInspect(),
            "management": FakeManagement(),
            "network": NoopNetwork(),
            "power": FakePower(),
            "raid": FakeRAID(),
            "rescue": FakeRescue(),
            "storage": FakeStorage(),
            "vendor": FakeVendor(),
        }
        self.driver: Any = SimpleNamespace(**made | interfaces)

    def save(self) -> None:
        if self.shared:
            raise errors.ExclusiveLockRequired
        self.saves += 1
        records.mark_clean(self.node)

    def save_and_release(self, *, touch: bool = False) -> None:
        self.released = {"touch": touch, "changes": records.changes(self.node)}
        self.save()
        self.shared = True

    def upgrade_lock(self, purpose: str | None = None, retry: bool | None = None) -> None:
        if self.locked_by is not None:
            raise errors.NodeLocked(node=self.node.uuid, host=self.locked_by)
        self.shared = False

    def history(
        self, event: str, event_type: str, *, error: bool = True, user: str | None = None
    ) -> None:
        self.histories.append(event)


def now() -> str:
    """Return the present as the record has times of heartbeats."""
    return timeutils.utcnow().isoformat()
