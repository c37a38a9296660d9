"""Boot and network interfaces that write down what they are asked."""

from __future__ import annotations

from typing import Any

from ironic_rs.drivers.fake.provisioning import FakeBoot
from ironic_rs.drivers.network.noop import NoopNetwork


class Boot(FakeBoot):
    """``calls``: method names; ``params``: parameters of the last ramdisk."""

    def __init__(self, calls: list[str] | None = None) -> None:
        super().__init__()
        self.calls: list[str] = [] if calls is None else calls
        self.params: dict[str, Any] = {}
        self.refusals: dict[str, Exception] = {}

    def _asked(self, name: str) -> None:
        self.calls.append(name)
        if name in self.refusals:
            raise self.refusals[name]

    def validate_inspection(self, task: Any) -> None:
        if "validate_inspection" in self.refusals:
            raise self.refusals["validate_inspection"]

    def validate_rescue(self, task: Any) -> None:
        if "validate_rescue" in self.refusals:
            raise self.refusals["validate_rescue"]

    def prepare_ramdisk(self, task: Any, ramdisk_params: Any) -> None:
        self.params = dict(ramdisk_params)
        self._asked("prepare_ramdisk")

    def clean_up_ramdisk(self, task: Any) -> None:
        self._asked("clean_up_ramdisk")

    def prepare_instance(self, task: Any) -> None:
        self._asked("prepare_instance")

    def clean_up_instance(self, task: Any) -> None:
        self._asked("clean_up_instance")


class Network(NoopNetwork):
    """``calls``: names of the methods that move the machine between networks."""

    def __init__(self, calls: list[str] | None = None) -> None:
        super().__init__()
        self.calls: list[str] = [] if calls is None else calls
        self.refusals: dict[str, Exception] = {}

    def __getattribute__(self, name: str) -> Any:
        if name.endswith(("_network", "_networks")):
            self.calls.append(name)
            if name in self.refusals:
                raise self.refusals[name]
        return super().__getattribute__(name)
