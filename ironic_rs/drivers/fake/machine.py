"""Fake interfaces to the machine: power, management, console, RAID, firmware, rescue.

The database record is the machine.

Source: specification drivers.md section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ironic_rs.domain import errors, states
from ironic_rs.drivers import base
from ironic_rs.drivers.decorators import clean_step
from ironic_rs.drivers.fake.delay import pause

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task


class FakePower(base.PowerInterface):
    """The power state is whatever the record says."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def get_power_state(self, task: Task) -> str | None:
        pause("power")
        return task.node.power_state

    def set_power_state(self, task: Task, power_state: str, timeout: int | None = None) -> None:
        pause("power")
        if power_state not in self.get_supported_power_states(task):
            raise errors.InvalidParameterValue(
                f"Power state '{power_state}' is not supported by the fake power interface; "
                f"supported: {', '.join(self.get_supported_power_states(task))}."
            )
        task.node.power_state = states.POWER_TARGET[power_state]

    def reboot(self, task: Task, timeout: int | None = None) -> None:
        pause("power")
        task.node.power_state = states.POWER_ON

    def get_supported_power_states(self, task: Task) -> list[str]:
        return [
            states.POWER_ON,
            states.POWER_OFF,
            states.REBOOT,
            states.SOFT_REBOOT,
            states.SOFT_POWER_OFF,
        ]


class FakeManagement(base.ManagementInterface):
    """Boots from the network only; two indicators that are always on; virtual media.

    What is inserted is kept in ``driver_internal_info.fake_virtual_media``.
    """

    _BOOT_DEVICES = ("pxe",)
    _INDICATORS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
        "chassis": {"led-0": {"readonly": True, "states": ["off", "on"]}},
        "system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}},
    }
    _MEDIA: Mapping[str, str] = {"cdrom": "CD", "disk": "USBStick", "floppy": "Floppy"}

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pause("management")

    def get_supported_boot_devices(self, task: Task) -> list[str]:
        return list(self._BOOT_DEVICES)

    def set_boot_device(self, task: Task, device: str, persistent: bool = False) -> None:
        pause("management")
        if device not in self._BOOT_DEVICES:
            raise errors.InvalidParameterValue(
                f"Boot device '{device}' is not supported by the fake management interface; "
                f"supported: {', '.join(self.get_supported_boot_devices(task))}."
            )

    def get_boot_device(self, task: Task) -> dict[str, Any]:
        pause("management")
        return {"boot_device": "pxe", "persistent": False}

    def get_sensors_data(self, task: Task) -> dict[str, Any]:
        pause("management")
        return {}

    def get_supported_indicators(
        self, task: Task, component: str | None = None
    ) -> dict[str, dict[str, Any]]:
        if component is None:
            found = self._INDICATORS
        elif component in self._INDICATORS:
            found = {component: self._INDICATORS[component]}
        else:
            raise errors.InvalidParameterValue(f"Component '{component}' has no indicators.")
        return {name: {key: dict(led) for key, led in leds.items()} for name, leds in found.items()}

    def get_indicator_state(self, task: Task, component: str, indicator: str) -> str:
        if indicator not in self.get_supported_indicators(task, component)[component]:
            raise errors.InvalidParameterValue(
                f"Component '{component}' has no indicator '{indicator}'."
            )
        return "on"

    def get_virtual_media(self, task: Task) -> list[dict[str, Any]]:
        pause("management")
        images = task.node.driver_internal_info.get("fake_virtual_media", {})
        return [
            {"media_types": [kind], "inserted": name in images, "image": images.get(name)}
            for name, kind in self._MEDIA.items()
        ]

    def attach_virtual_media(self, task: Task, device_type: str, image_url: str) -> None:
        pause("management")
        info = task.node.driver_internal_info
        info["fake_virtual_media"] = {**info.get("fake_virtual_media", {}), device_type: image_url}
        task.save()

    def detach_virtual_media(self, task: Task, device_types: Sequence[str] | None = None) -> None:
        pause("management")
        info = task.node.driver_internal_info
        images = info.get("fake_virtual_media", {})
        kept = {name: url for name, url in images.items() if name not in (device_types or images)}
        info["fake_virtual_media"] = kept
        task.save()


class FakeConsole(base.ConsoleInterface):
    """A console that shows nothing."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def start_console(self, task: Task) -> None:
        pass

    def stop_console(self, task: Task) -> None:
        pass

    def get_console(self, task: Task) -> dict[str, Any]:
        return {}


class FakeRAID(base.RAIDInterface):
    """Accepts every valid configuration."""

    def get_properties(self) -> base.Properties:
        return {}

    def create_configuration(
        self,
        task: Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        pause("raid")
        return None

    def delete_configuration(self, task: Task) -> str | None:
        pause("raid")
        return None


class FakeFirmware(base.FirmwareInterface):
    """Accepts every update and changes nothing."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    @clean_step(
        priority=0,
        argsinfo={
            "settings": {
                "description": "List of {component, url} of the wanted firmware.",
                "required": True,
            }
        },
    )
    def update(self, task: Task, settings: list[dict[str, Any]]) -> str | None:
        pause("firmware")
        return None

    def cache_firmware_components(self, task: Task) -> None:
        pass


class FakeRescue(base.RescueInterface):
    """Rescues without a ramdisk."""

    def get_properties(self) -> base.Properties:
        return {}

    def validate(self, task: Task) -> None:
        pass

    def rescue(self, task: Task) -> str:
        pause("rescue")
        return states.RESCUE

    def unrescue(self, task: Task) -> str:
        pause("rescue")
        return states.ACTIVE
