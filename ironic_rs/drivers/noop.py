"""Interfaces that do nothing: ``no-*`` refuse every operation, ``noop`` accept it.

Source: specification drivers.md section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from oslo_log import log

from ironic_rs.domain import errors, states
from ironic_rs.drivers import base
from ironic_rs.drivers.decorators import deploy_step

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


class _Refusing(base.BaseInterface):
    """Every operation raises UnsupportedDriverExtension."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        self._refuse(task)

    def _refuse(self, task: Task, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise self._unsupported(task, self.interface_type)

    def _refuse_for_type(self) -> NoReturn:
        raise errors.UnsupportedDriverExtension(
            driver=f"with no-{self.interface_type}", extension=self.interface_type
        )


class NoConsole(_Refusing, base.ConsoleInterface):
    """Console is not supported."""

    def start_console(self, task: Task) -> None:
        self._refuse(task)

    def stop_console(self, task: Task) -> None:
        self._refuse(task)

    def get_console(self, task: Task) -> dict[str, Any]:
        self._refuse(task)


class NoRescue(_Refusing, base.RescueInterface):
    """Rescue is not supported."""

    def rescue(self, task: Task) -> str:
        self._refuse(task)

    def unrescue(self, task: Task) -> str:
        self._refuse(task)

    def clean_up(self, task: Task) -> None:
        self._refuse(task)


class NoVendor(_Refusing, base.VendorInterface):
    """Vendor passthru is not supported."""

    def validate(self, task: Task, method: str | None = None, **kwargs: Any) -> None:
        self._refuse(task)

    def driver_validate(self, method: str, **kwargs: Any) -> None:
        self._refuse_for_type()


class NoInspect(_Refusing, base.InspectInterface):
    """Inspection is not supported."""

    def inspect_hardware(self, task: Task) -> str | None:
        self._refuse(task)


class NoRAID(_Refusing, base.RAIDInterface):
    """RAID configuration is not supported."""

    def validate_raid_config(self, task: Task, raid_config: dict[str, Any]) -> None:
        self._refuse(task)

    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        self._refuse(task)

    def delete_configuration(self, task: Task) -> str | None:
        self._refuse(task)

    def get_logical_disk_properties(self) -> dict[str, str]:
        self._refuse_for_type()


class NoBIOS(_Refusing, base.BIOSInterface):
    """BIOS settings are not supported; there is nothing to cache."""

    def apply_configuration(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        self._refuse(task)

    def factory_reset(self, task: Task) -> str | None:
        self._refuse(task)

    def cache_bios_settings(self, task: Task) -> None:
        pass


class NoFirmware(_Refusing, base.FirmwareInterface):
    """Firmware updates are not supported; there is nothing to cache."""

    def update(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        self._refuse(task)

    def cache_firmware_components(self, task: Task) -> None:
        pass


class NoopDeploy(base.DeployInterface):
    """The machine is deployed by somebody else."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    @deploy_step(priority=100)
    def deploy(self, task: Task) -> str | None:
        return None

    def tear_down(self, task: Task) -> str:
        return states.DELETED

    def prepare(self, task: Task) -> None:
        pass

    def clean_up(self, task: Task) -> None:
        pass

    def take_over(self, task: Task) -> None:
        pass


class NoopManagement(base.ManagementInterface):
    """The machine has no BMC; somebody else sets its boot device."""

    _BOOT_DEVICES = ("pxe", "disk")

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return list(self._BOOT_DEVICES)

    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        if device not in self._BOOT_DEVICES:
            raise errors.InvalidParameterValue(
                f"Boot device '{device}' is not supported by the noop management interface; "
                f"supported: {', '.join(self.get_supported_boot_devices(task))}."
            )
        LOG.debug("Node %s is expected to boot from %s", task.node.uuid, device)

    def get_boot_device(self, task: Task) -> dict[str, Any]:
        return {"boot_device": "pxe", "persistent": True}

    def get_sensors_data(self, task: Task) -> dict[str, Any]:
        raise self._unsupported(task, "get_sensors_data")
