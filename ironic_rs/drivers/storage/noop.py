"""Storage interface ``noop``: no remote volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.drivers import base

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class NoopStorage(base.StorageInterface):
    """Images are always written to a local disk."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def attach_volumes(self, task: Task) -> None:
        pass

    def detach_volumes(self, task: Task) -> None:
        pass

    def should_write_image(self, task: Task) -> bool:
        return True
