"""Interface types that speak to the machine: power, management, BIOS, RAID and so on.

Import them from :mod:`ironic_rs.drivers.base`.

Source: specification drivers.md section 2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ironic_rs.domain import raid, states
from ironic_rs.drivers import decorators
from ironic_rs.drivers.decorators import Passthru
from ironic_rs.drivers.interface import BaseInterface, marked

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class PowerInterface(BaseInterface):
    """Reads and changes the power state."""

    interface_type = "power"
    #: True: a request goes to the running ramdisk, so its address and token must not be
    #: forgotten before; the interface forgets them when the request was taken.
    uses_agent: ClassVar[bool] = False

    @abstractmethod
    def get_power_state(self, task: Task) -> str | None:
        """Return the power state of the machine; None when unknown."""

    @abstractmethod
    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        """Change the power state and wait until it is reached.

        :param timeout: seconds; default of the configuration when None.
        """

    @abstractmethod
    def reboot(self, task: Task, timeout: int | None = None) -> None:
        """Power cycle; an off machine is powered on."""

    def get_supported_power_states(self, task: Task) -> list[str]:
        """Return the requests that :meth:`set_power_state` and :meth:`reboot` know."""
        return [states.POWER_ON, states.POWER_OFF, states.REBOOT]

    def supports_power_sync(self, task: Task) -> bool:
        """Tell whether power sync may force the wanted state."""
        return True


class ManagementInterface(BaseInterface):
    """Boot device, boot mode, sensors, indicators, virtual media."""

    interface_type = "management"

    @abstractmethod
    def get_supported_boot_devices(self, task: Task) -> list[str]:
        """Return the boot devices that can be set."""

    @abstractmethod
    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        """Set the boot device; once unless ``persistent``."""

    @abstractmethod
    def get_boot_device(self, task: Task) -> dict[str, Any]:
        """Return {boot_device: name or None, persistent: bool or None}."""

    @abstractmethod
    def get_sensors_data(self, task: Task) -> dict[str, Any]:
        """Return {type: {sensor id: {field: value}}}."""

    def get_supported_boot_modes(self, task: Task) -> list[str]:
        """Return the boot modes that can be set: bios, uefi."""
        raise self._unsupported(task, "get_supported_boot_modes")

    def set_boot_mode(self, task: Task, mode: str) -> None:
        """Set the boot mode: bios or uefi."""
        raise self._unsupported(task, "set_boot_mode")

    def get_boot_mode(self, task: Task) -> str | None:
        """Return the boot mode."""
        raise self._unsupported(task, "get_boot_mode")

    def get_secure_boot_state(self, task: Task) -> bool | None:
        """Tell whether secure boot is on."""
        raise self._unsupported(task, "get_secure_boot_state")

    def set_secure_boot_state(self, task: Task, state: bool) -> None:
        """Turn secure boot on or off."""
        raise self._unsupported(task, "set_secure_boot_state")

    def get_node_health(self, task: Task) -> str | None:
        """Return OK, Warning, Critical or None."""
        raise self._unsupported(task, "get_node_health")

    def inject_nmi(self, task: Task) -> None:
        """Send a non-maskable interrupt."""
        raise self._unsupported(task, "inject_nmi")

    def get_supported_indicators(
        self, task: Task, component: str | None = None
    ) -> dict[str, dict[str, Any]]:
        """Return component -> indicator -> {readonly, states}."""
        raise self._unsupported(task, "get_supported_indicators")

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str:
        """Return off, on, blinking or unknown."""
        raise self._unsupported(task, "get_indicator_state")

    def set_indicator_state(self, task: Task, component: str, indicator: str, state: str) -> None:
        """Set an indicator to off, on or blinking."""
        raise self._unsupported(task, "set_indicator_state")

    def detect_vendor(self, task: Task) -> str | None:
        """Return the manufacturer of the machine."""
        raise self._unsupported(task, "detect_vendor")

    def get_mac_addresses(self, task: Task) -> list[str]:
        """Return the MAC addresses that the BMC knows."""
        raise self._unsupported(task, "get_mac_addresses")

    def get_virtual_media(self, task: Task) -> list[dict[str, Any]]:
        """Return the virtual media devices and what is in them."""
        raise self._unsupported(task, "get_virtual_media")

    def attach_virtual_media(self, task: Task, device_type: str, image_url: str) -> None:
        """Insert an image; device types disk, cdrom, floppy."""
        raise self._unsupported(task, "attach_virtual_media")

    def detach_virtual_media(self, task: Task, device_types: Sequence[str] | None = None) -> None:
        """Eject images of the device types (all when None)."""
        raise self._unsupported(task, "detach_virtual_media")


class ConsoleInterface(BaseInterface):
    """Serial or graphical console."""

    interface_type = "console"

    @abstractmethod
    def start_console(self, task: Task) -> None:
        """Start the console; does nothing when it runs."""

    @abstractmethod
    def stop_console(self, task: Task) -> None:
        """Stop the console; does nothing when it does not run."""

    @abstractmethod
    def get_console(self, task: Task) -> dict[str, Any]:
        """Return {type, url}."""


@dataclass(frozen=True)
class VendorRoute:
    """A passthru route with the method of the interface that serves it."""

    route: Passthru
    func: Callable[..., Any]


class VendorInterface(BaseInterface):
    """Vendor methods that no other interface knows.

    ``vendor_routes`` and ``driver_routes`` map method names to routes.
    """

    interface_type = "vendor"

    def __init__(self) -> None:
        super().__init__()
        self.vendor_routes: dict[str, VendorRoute] = {
            mark.name: VendorRoute(mark, method)
            for method, mark in marked(self, decorators.PASSTHRU_MARK)
        }
        self.driver_routes: dict[str, VendorRoute] = {
            mark.name: VendorRoute(mark, method)
            for method, mark in marked(self, decorators.DRIVER_PASSTHRU_MARK)
        }

    @abstractmethod
    def validate(self, task: Task, method: str | None = None, **kwargs: Any) -> None:
        """Check the node, and the arguments of ``method`` when given.

        :raises UnsupportedDriverExtension: no such method.
        """

    def driver_validate(self, method: str, **kwargs: Any) -> None:
        """Check the arguments of a driver method."""


class BIOSInterface(BaseInterface):
    """BIOS settings."""

    interface_type = "bios"

    @abstractmethod
    def apply_configuration(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        """Apply [{name, value}]; CLEANWAIT when it goes on without us."""

    @abstractmethod
    def factory_reset(self, task: Task) -> str | None:
        """Reset all settings; CLEANWAIT when it goes on without us."""

    @abstractmethod
    def cache_bios_settings(self, task: Task) -> None:
        """Read the settings into the database."""


class RAIDInterface(BaseInterface):
    """RAID volumes."""

    interface_type = "raid"

    @abstractmethod
    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        """Create node.target_raid_config; CLEANWAIT when it goes on without us."""

    @abstractmethod
    def delete_configuration(self, task: Task) -> str | None:
        """Delete all volumes; CLEANWAIT when it goes on without us."""

    def validate(self, task: Task) -> None:
        """Check node.target_raid_config when there is one."""
        if task.node.target_raid_config:
            self.validate_raid_config(task, task.node.target_raid_config)

    def validate_raid_config(self, task: Task, raid_config: dict[str, Any]) -> None:
        """Check a target configuration.

        :raises InvalidParameterValue: not acceptable.
        """
        raid.validate(raid_config)

    def apply_configuration(
        self,
        task: Task,
        raid_config: dict[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        """Check and store the target configuration, then create it."""
        self.validate_raid_config(task, raid_config)
        task.node.target_raid_config = raid_config
        task.save()
        return self.create_configuration(
            task,
            create_root_volume=create_root_volume,
            create_nonroot_volumes=create_nonroot_volumes,
            delete_existing=delete_existing,
        )

    def get_logical_disk_properties(self) -> dict[str, str]:
        """Return property name -> description of a logical disk."""
        return raid.logical_disk_properties()


class FirmwareInterface(BaseInterface):
    """Firmware versions and updates."""

    interface_type = "firmware"

    @abstractmethod
    def update(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        """Update components [{component, url}]; a wait state when it goes on without us."""

    @abstractmethod
    def cache_firmware_components(self, task: Task) -> None:
        """Read the component versions into the database."""
