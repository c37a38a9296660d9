"""Base of all interfaces: properties, validation, steps and periodics.

Source: specification drivers.md sections 1.5 to 1.7 and 2.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from ironic_rs.domain import errors
from ironic_rs.domain.steps import Step
from ironic_rs.drivers import decorators
from ironic_rs.drivers.decorators import NodePeriodic

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

#: Interface types that every hardware type must define.
CORE_INTERFACES = ("boot", "deploy", "management", "network", "power")
#: Interface types that may be no-ops.
OPTIONAL_INTERFACES = ("bios", "console", "firmware", "inspect", "raid", "rescue", "storage")
#: All interface types of a driver, in the order of a driver object.
INTERFACE_TYPES = (*CORE_INTERFACES, *OPTIONAL_INTERFACES, "vendor")

Properties = dict[str, str]


def marked(obj: object, mark: str) -> Iterator[tuple[Callable[..., Any], Any]]:
    """Yield (bound method, mark) of the methods that carry ``mark``, by name."""
    cls = type(obj)
    for name in dir(cls):
        data = getattr(getattr(cls, name, None), mark, None)
        if data is not None:
            yield getattr(obj, name), data


class BaseInterface(ABC):
    """Base of all interfaces.

    The ``*_steps`` lists hold the decorated methods, collected at construction.
    Use :meth:`get_clean_steps` and its sisters: they return copies.
    """

    interface_type: ClassVar[str]
    #: False: the conductor warns when the interface is enabled.
    supported: ClassVar[bool] = True

    def __init__(self) -> None:
        self.clean_steps: list[Step] = []
        self.deploy_steps: list[Step] = []
        self.verify_steps: list[Step] = []
        self.service_steps: list[Step] = []
        for _method, marks in marked(self, decorators.STEP_MARK):
            for kind, step in marks.items():
                self._steps(kind).append({**step, "interface": self.interface_type})

    def _steps(self, kind: str) -> list[Step]:
        steps: list[Step] = getattr(self, f"{kind}_steps")
        return steps

    @abstractmethod
    def get_properties(self) -> Properties:
        """Return driver_info property name -> description."""

    @abstractmethod
    def validate(self, task: Task) -> None:
        """Check quickly that the node is configured for this interface.

        :raises InvalidParameterValue: a bad value.
        :raises MissingParameterValue: a missing one.
        """

    def close(self) -> None:  # noqa: B027 - most keep nothing
        """Let go of connections kept between calls; the process ends."""

    def periodics(self) -> list[tuple[NodePeriodic, Callable[[Task], None]]]:
        """Return the periodics over nodes that this interface wants."""
        return [(mark, method) for method, mark in marked(self, decorators.PERIODIC_MARK)]

    def get_clean_steps(self, task: Task) -> list[Step]:
        """Return copies of the clean steps, any priority.

        :raises NodeCleaningFailure: the steps could not be obtained.
        """
        return copy.deepcopy(self.clean_steps)

    def get_deploy_steps(self, task: Task) -> list[Step]:
        """Return copies of the deploy steps, any priority.

        :raises InstanceDeployFailure: the steps could not be obtained.
        """
        return copy.deepcopy(self.deploy_steps)

    def get_verify_steps(self, task: Task) -> list[Step]:
        """Return copies of the verify steps, any priority.

        :raises NodeVerifyFailure: the steps could not be obtained.
        """
        return copy.deepcopy(self.verify_steps)

    def get_service_steps(self, task: Task) -> list[Step]:
        """Return copies of the service steps.

        :raises NodeServicingFailure: the steps could not be obtained.
        """
        return copy.deepcopy(self.service_steps)

    def _execute(self, task: Task, step: Step) -> str | None:
        result: str | None = getattr(self, step["step"])(task, **(step.get("args") or {}))
        return result

    def execute_clean_step(self, task: Task, step: Step) -> str | None:
        """Run a clean step: None when done, CLEANWAIT when it goes on without us."""
        return self._execute(task, step)

    def execute_deploy_step(self, task: Task, step: Step) -> str | None:
        """Run a deploy step: None when done, DEPLOYWAIT when it goes on without us."""
        return self._execute(task, step)

    def execute_verify_step(self, task: Task, step: Step) -> None:
        """Run a verify step; it is always synchronous."""
        self._execute(task, step)

    def execute_service_step(self, task: Task, step: Step) -> str | None:
        """Run a service step: None when done, SERVICEWAIT when it goes on without us."""
        return self._execute(task, step)

    def _unsupported(self, task: Task, extension: str) -> errors.UnsupportedDriverExtension:
        return errors.UnsupportedDriverExtension(driver=task.node.driver, extension=extension)
