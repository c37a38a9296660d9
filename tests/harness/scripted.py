"""Machines whose steps and answers a test writes down.

The registry of drivers is the real one; each interface of the fake hardware gets its
steps from a :class:`Kit`, which also records what was run, on which node.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.drivers.base import INTERFACE_TYPES, BareDriver
from ironic_rs.drivers.registry import DriverRegistry


class Kit:
    """What the machines of a test offer, answer and have been asked."""

    def __init__(self) -> None:
        self.offered: dict[str, list[dict[str, Any]]] = {
            "clean": [],
            "deploy": [],
            "service": [],
            "verify": [],
        }
        self.results: dict[str, Any] = {}
        self.ran: list[str] = []
        self.ran_on: list[tuple[str, str]] = []
        self.interfaces: dict[str, Any] = {}

    def offer(self, kind: str, name: str, priority: int = 0, **details: Any) -> None:
        """Let the driver offer a step ``interface.step``."""
        interface, step = name.split(".")
        self.offered[kind].append(
            {
                "interface": interface,
                "step": step,
                "priority": priority,
                "argsinfo": None,
                **details,
            }
        )

    def run(self, task: Task, step: dict[str, Any]) -> Any:
        name = f"{step['interface']}.{step['step']}"
        self.ran.append(name)
        self.ran_on.append((str(task.node.uuid), name))
        result = self.results.get(name)
        if isinstance(result, list):
            result = result.pop(0) if result else None
        if isinstance(result, BaseException):
            raise result
        return result(task) if callable(result) else result


class _Scripted:
    """Mixed into each fake interface: its steps come from the kit."""

    kit: Kit
    interface_type: str

    def _offered(self, kind: str) -> list[dict[str, Any]]:
        return [step for step in self.kit.offered[kind] if step["interface"] == self.interface_type]

    def get_clean_steps(self, task: Task) -> list[dict[str, Any]]:
        return self._offered("clean")

    def get_deploy_steps(self, task: Task) -> list[dict[str, Any]]:
        return self._offered("deploy")

    def get_service_steps(self, task: Task) -> list[dict[str, Any]]:
        return self._offered("service")

    def get_verify_steps(self, task: Task) -> list[dict[str, Any]]:
        return self._offered("verify")

    def execute_clean_step(self, task: Task, step: dict[str, Any]) -> Any:
        return self.kit.run(task, step)

    execute_deploy_step = execute_clean_step
    execute_service_step = execute_clean_step
    execute_verify_step = execute_clean_step


class KitRegistry(DriverRegistry):
    """The real registry; drivers get the scripted interfaces."""

    kit: Kit
    _plugins: ClassVar[dict[str, tuple[Any, Any]]] = {}

    def load(self) -> None:
        # Looking for plug-ins takes longer than a test; they follow from the options.
        enabled = str([getattr(CONF, f"enabled_{kind}_interfaces") for kind in INTERFACE_TYPES])
        if enabled not in KitRegistry._plugins:
            super().load()
            KitRegistry._plugins[enabled] = (self._hardware, self._interfaces)
        self._hardware, self._interfaces = KitRegistry._plugins[enabled]
        for kind in INTERFACE_TYPES:
            name = self.default_interface("fake-hardware", kind)
            original = type(self.enabled(kind)[name])
            scripted = type(f"Scripted{original.__name__}", (_Scripted, original), {})
            self.kit.interfaces[kind] = scripted()
            self.kit.interfaces[kind].kit = self.kit

    def build(self, node: models.Node) -> BareDriver:
        driver = super().build(node)
        driver.__dict__.update(self.kit.interfaces)
        return driver
