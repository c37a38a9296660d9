"""What a hook is, and how the configured ones run.

Source: specification inspection.md section 4.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol

from oslo_log import log
from stevedore import named

from ironic_rs.db import models
from ironic_rs.domain import errors

LOG = log.getLogger(__name__)

GROUP = "ironic_rs.inspection.hooks"

Data = dict[str, Any]


class InspectionTask(Protocol):
    """What processing sees of the task: a locked node.  Hooks leave the saving to others."""

    node: models.Node

    def save(self) -> None:
        """Write the changed columns of the node."""


class Hook(ABC):
    """A step of processing an inventory.

    ``dependencies`` are names of hooks that must be configured before this one.
    """

    dependencies: ClassVar[Sequence[str]] = ()

    def preprocess(  # noqa: B027 - most hooks have nothing to prepare
        self, task: InspectionTask, inventory: Data, plugin_data: Data
    ) -> None:
        """Check and prepare; all hooks do so before the first of them is called.

        :raises HardwareInspectionFailure: the inventory cannot be used.
        """

    @abstractmethod
    def __call__(self, task: InspectionTask, inventory: Data, plugin_data: Data) -> None:
        """Write to the node, to its ports or to ``plugin_data``.

        :raises HardwareInspectionFailure: the inventory cannot be used.
        """


def load(option: str, names: str) -> list[tuple[str, Hook]]:
    """Return the named hooks, in order.

    :param option: name of the option, for errors.
    :param names: separated by commas.
    :raises ConfigInvalid: an unknown hook, or one without what it depends on.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]

    def missing(absent: Iterable[str]) -> None:
        raise errors.ConfigInvalid(
            error_msg=f"{option}: unknown inspection hooks {', '.join(sorted(absent))}."
        )

    def failed(_manager: object, entry_point: Any, exc: BaseException) -> None:
        raise errors.ConfigInvalid(
            error_msg=f"{option}: hook {entry_point.name} cannot be loaded: {exc}"
        ) from exc

    manager: Any = named.NamedExtensionManager(
        GROUP,
        wanted,
        invoke_on_load=True,
        name_order=True,
        on_missing_entrypoints_callback=missing,
        on_load_failure_callback=failed,
    )
    hooks = [(extension.name, extension.obj) for extension in manager]
    seen: set[str] = set()
    for name, hook in hooks:
        absent = [needed for needed in hook.dependencies if needed not in seen]
        if absent:
            raise errors.ConfigInvalid(
                error_msg=f"{option}: hook {name} needs {', '.join(absent)} before it."
            )
        seen.add(name)
    return hooks


def run(
    hooks: Sequence[tuple[str, Hook]], task: InspectionTask, inventory: Data, plugin_data: Data
) -> None:
    """Run all preprocessing, then all hooks.

    :raises HardwareInspectionFailure: with all that preprocessing found, or with the
        first error of a hook.
    """
    problems = []
    for name, hook in hooks:
        try:
            hook.preprocess(task, inventory, plugin_data)
        except errors.HardwareInspectionFailure as exc:
            LOG.warning("Node %s: inspection hook %s: %s", task.node.uuid, name, exc)
            problems.append(f"{name}: {exc.fields.get('error') or exc}")
    if problems:
        raise errors.HardwareInspectionFailure(error="; ".join(problems))
    for name, hook in hooks:
        LOG.debug("Node %s: inspection hook %s", task.node.uuid, name)
        hook(task, inventory, plugin_data)
