"""The remote volume that a node boots from.

Source: specification drivers.md sections 10.8 (boot from volume info) and 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.db import volumes
from ironic_rs.domain import capabilities, errors

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task

#: Volume type -> capability that the node needs to boot from it.
_NEEDED = {"iscsi": "iscsi_boot", "fibre_channel": "fibre_channel_boot"}


def target(node: models.Node) -> models.VolumeTarget | None:
    """Return the volume target with boot index 0, None when there is none."""
    for volume in volumes.targets_of_node(node.id):
        if str(volume.boot_index) == "0":
            return volume
    return None


def remember(task: Task) -> None:
    """Note in driver_internal_info which volume the node boots from (not saved).

    :raises StorageError: the node can not boot from volumes of this type.
    """
    node = task.node
    volume = target(node)
    if volume is None:
        return
    kind = str(volume.volume_type)
    needed = _NEEDED.get(kind)
    if needed is None or not capabilities.of_node(node, needed):
        raise errors.StorageError(
            f"Node {node.uuid} has a boot volume of type '{kind}', but not the capability "
            f"{needed or 'to boot from it'}."
        )
    if f"{kind}_volume_boot" in task.driver.boot.capabilities:
        node.driver_internal_info["boot_from_volume"] = volume.uuid


def forget(node: models.Node) -> None:
    """Delete the volume targets of a node and what was noted of them (not saved)."""
    for volume in volumes.targets_of_node(node.id):
        volumes.destroy_target(volume)
    node.driver_internal_info.pop("boot_from_volume", None)
