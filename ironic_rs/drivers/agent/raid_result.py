"""What comes of the RAID steps of the ramdisk.

Source: specification drivers.md section 10.10, conductor.md section 8.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ironic_rs.domain import errors, raid
from ironic_rs.domain.steps import Step, StepKind

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


def keep(task: Task, kind: StepKind, step: Step, result: Mapping[str, Any]) -> None:
    """Write what a RAID step of the ramdisk has done to the node (not saved).

    :param result: ``command_result`` of the step.
    :raises MissingParameterValue: the ramdisk does not say what it has created.
    :raises InvalidParameterValue: what it says can not be written to the node.
    """
    node = task.node
    if step["step"] == "delete_configuration":
        raid.forget(node)
        return
    if step["step"] not in ("create_configuration", "apply_configuration"):
        return
    created = result.get(f"{kind.name}_result")
    disks = created.get("logical_disks") if isinstance(created, Mapping) else None
    if not isinstance(disks, list) or not all(isinstance(disk, Mapping) for disk in disks):
        raise errors.MissingParameterValue(
            f"the ramdisk did not tell which volumes it has created (result: {created!r})"
        )
    node.driver_internal_info.pop("target_raid_config", None)
    raid.record(node, dict(created or {}))
