"""Storage interface ``external``: volumes that somebody else attaches.

Source: specification drivers.md section 14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.domain import errors
from ironic_rs.drivers import base
from ironic_rs.drivers.storage import boot_volume

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class ExternalStorage(base.StorageInterface):
    """The node boots from a volume when it has one and no image is asked for."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        if self.should_write_image(task):
            return
        if "ipxe_boot" not in task.driver.boot.capabilities:
            raise errors.InvalidParameterValue(
                f"Node {task.node.uuid} is to boot from a volume, which boot interface "
                f"{task.node.boot_interface} can not do (capability ipxe_boot)."
            )

    def attach_volumes(self, task: Task) -> None:
        pass

    def detach_volumes(self, task: Task) -> None:
        pass

    def should_write_image(self, task: Task) -> bool:
        if task.node.instance_info.get("image_source"):
            return True
        return boot_volume.target(task.node) is None
