"""Fake interfaces of provisioning: boot, deploy, inspect, storage.

Source: specification drivers.md section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ironic_rs.domain import states
from ironic_rs.drivers import base
from ironic_rs.drivers.decorators import deploy_step
from ironic_rs.drivers.fake.delay import pause

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class FakeBoot(base.BootInterface):
    """Boots anything."""

    capabilities: ClassVar[Sequence[str]] = ("ipxe_boot", "pxe_boot")

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def prepare_ramdisk(self, task: Task, ramdisk_params: Mapping[str, str | None]) -> None:
        pause("boot")

    def clean_up_ramdisk(self, task: Task) -> None:
        pause("boot")

    def prepare_instance(self, task: Task) -> None:
        pause("boot")

    def clean_up_instance(self, task: Task) -> None:
        pass


class FakeDeploy(base.DeployInterface):
    """Deploys without an image."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    @deploy_step(priority=100)
    def deploy(self, task: Task) -> str | None:
        pause("deploy")
        return None

    def tear_down(self, task: Task) -> str:
        pause("deploy")
        return states.DELETED

    def prepare(self, task: Task) -> None:
        pause("deploy")

    def clean_up(self, task: Task) -> None:
        pause("deploy")

    def take_over(self, task: Task) -> None:
        pause("deploy")


class FakeInspect(base.InspectInterface):
    """Inspects nothing, successfully."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def inspect_hardware(self, task: Task) -> str | None:
        pause("inspect")
        return states.MANAGEABLE


class FakeStorage(base.StorageInterface):
    """Has no volumes."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def attach_volumes(self, task: Task) -> None:
        pause("storage")

    def detach_volumes(self, task: Task) -> None:
        pause("storage")

    def should_write_image(self, task: Task) -> bool:
        return True
