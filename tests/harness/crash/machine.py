"""A fake machine that remembers: what was done to it outlives the conductor.

The fake interfaces of the product keep the machine in the database, so there it can
never differ from its record.  Here its power switch is a file, and each call that
would reach the machine is a line in another one.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ironic_rs.domain import states
from ironic_rs.drivers.decorators import clean_step, deploy_step, service_step, verify_step
from ironic_rs.drivers.fake import machine as fake
from ironic_rs.drivers.fake import provisioning
from ironic_rs.drivers.interface import BaseInterface
from ironic_rs.drivers.network import vifs
from ironic_rs.drivers.network.noop import NoopNetwork
from tests.harness.crash.points import Points

#: Calls that reach the machine or its network.
_CALLS: Mapping[type, Sequence[str]] = {
    fake.FakeManagement: ("set_boot_device",),
    fake.FakeConsole: ("start_console", "stop_console"),
    fake.FakeRescue: ("rescue", "unrescue", "clean_up"),
    provisioning.FakeBoot: (
        "prepare_ramdisk",
        "clean_up_ramdisk",
        "prepare_instance",
        "clean_up_instance",
    ),
    provisioning.FakeDeploy: (
        "prepare",
        "clean_up",
        "tear_down",
        "take_over",
        "prepare_cleaning",
        "tear_down_cleaning",
        "prepare_service",
        "tear_down_service",
    ),
    provisioning.FakeInspect: ("inspect_hardware",),
    NoopNetwork: ("vif_detach", "configure_tenant_networks"),
}
_STEPS = tuple(f"execute_{kind}_step" for kind in ("clean", "deploy", "service", "verify"))


#: See :class:`tests.harness.crash.site.Machine`.
only_switched_on_request = True


class Ground:
    """Where this process finds its machine; each process sets it once.

    :ivar points: where calls are counted; None: they are no points.
    """

    folder: Path
    points: Points | None = None


def _log() -> Path:
    return Ground.folder / "calls"


def _reach(what: str, call: Callable[[], Any]) -> Any:
    """Do something to the machine: it happens the moment it is written down."""

    def effect() -> Any:
        with _log().open("a") as file:
            file.write(what + "\n")
        return call()

    return effect() if Ground.points is None else Ground.points.around(what, effect)


def calls() -> Counter[str]:
    """Return what was done to the machine so far, and how often."""
    return Counter(_log().read_text().splitlines() if _log().exists() else ())


def forget_calls() -> None:
    """Count anew."""
    _log().unlink(missing_ok=True)


def power() -> str:
    """Return the state of the power switch."""
    return str(json.loads((Ground.folder / "power").read_text()))


def set_power(state: str) -> None:
    """Put the power switch."""
    new = Ground.folder / "power.new"
    new.write_text(json.dumps(state))
    os.replace(new, Ground.folder / "power")


def install() -> None:
    """Give the fake interfaces of this process a machine; before they are loaded."""
    _install_steps()
    for cls, names in _CALLS.items():
        for name in names:
            _wrap(cls, name, f"{cls.interface_type}.{name}")  # type: ignore[attr-defined]
    for name in _STEPS:
        _wrap_step(name)
    _install_power()
    install_network()


def _wrap(cls: type, name: str, what: str) -> None:
    original = getattr(cls, name)

    @functools.wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _reach(what, lambda: original(self, *args, **kwargs))

    setattr(cls, name, call)


def _wrap_step(name: str) -> None:
    original = getattr(BaseInterface, name)
    kind = name.split("_")[1]

    @functools.wraps(original)
    def call(self: Any, task: Any, step: dict[str, Any]) -> Any:
        what = f"step {kind} {step['interface']}.{step['step']}"
        return _reach(what, lambda: original(self, task, step))

    setattr(BaseInterface, name, call)


def _install_power() -> None:
    def get_power_state(_self: Any, _task: Any) -> str:
        return power()

    def set_power_state(_self: Any, _task: Any, wanted: str, timeout: int | None = None) -> None:
        target = states.POWER_TARGET[wanted]
        _reach(f"power {wanted}", lambda: set_power(target))

    def reboot(_self: Any, _task: Any, timeout: int | None = None) -> None:
        _reach("power rebooting", lambda: set_power(states.POWER_ON))

    fake.FakePower.get_power_state = get_power_state  # type: ignore[method-assign]
    fake.FakePower.set_power_state = set_power_state  # type: ignore[method-assign]
    fake.FakePower.reboot = reboot  # type: ignore[method-assign]


def install_network() -> None:
    """Have VIFs written down as the network interfaces do that manage them."""

    def vif_list(_self: Any, task: Any) -> list[dict[str, Any]]:
        return [{"id": vif} for _, vif in vifs.attached(task)]

    original = NoopNetwork.vif_detach

    def vif_detach(self: Any, task: Any, vif_id: str) -> None:
        thing = vifs.find(task, vif_id)
        original(self, task, vif_id)
        vifs.detach(task, thing)

    NoopNetwork.vif_list = vif_list  # type: ignore[method-assign]
    NoopNetwork.vif_detach = vif_detach  # type: ignore[method-assign]


def _install_steps() -> None:
    """More steps than the fake interfaces have, and real effects of some of their calls."""

    def add(cls: type, name: str, mark: Callable[[Any], Any], result: str | None = None) -> None:
        def step(self: Any, task: Any) -> str | None:
            return result

        step.__name__ = name
        setattr(cls, name, mark(step))

    add(fake.FakeManagement, "check_one", verify_step(priority=20))
    add(fake.FakeManagement, "check_two", verify_step(priority=10))
    add(fake.FakeManagement, "wipe_one", clean_step(priority=30))
    add(fake.FakeManagement, "wipe_slowly", clean_step(priority=20), states.CLEANWAIT)
    add(fake.FakeManagement, "wipe_two", clean_step(priority=10))
    add(fake.FakeManagement, "write_slowly", deploy_step(priority=90), states.DEPLOYWAIT)
    add(fake.FakeManagement, "write_more", deploy_step(priority=80))
    add(fake.FakeManagement, "mend_one", service_step(requires_ramdisk=False))
    add(fake.FakeManagement, "mend_slowly", service_step(requires_ramdisk=False), "service wait")
    add(fake.FakeManagement, "mend_two", service_step(requires_ramdisk=False))

    def power_to(cls: type, name: str, state: str) -> None:
        original = getattr(cls, name)

        @functools.wraps(original)
        def call(self: Any, task: Any) -> Any:
            task.flows.power(state)
            return original(self, task)

        setattr(cls, name, call)

    deploy = provisioning.FakeDeploy
    power_to(deploy, "deploy", states.REBOOT)
    power_to(deploy, "tear_down", states.POWER_OFF)
    power_to(fake.FakeRescue, "rescue", states.REBOOT)
    power_to(fake.FakeRescue, "unrescue", states.REBOOT)
