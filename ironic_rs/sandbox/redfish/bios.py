"""BIOS settings that a BMC shows and takes: attributes, registry, pending settings.

Schemas: DMTF DSP0268 (Bios, AttributeRegistry, MessageRegistryFile).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.sandbox.machine import Firmware, Machine
from ironic_rs.sandbox.redfish.refusal import Refused

REGISTRY = "SandboxBios.v1_0_0"
ROOT = "/redfish/v1"

_ENTRIES: dict[str, dict[str, Any]] = {
    "BootMode": {"Type": "Enumeration", "Value": ["Uefi", "Bios"]},
    "EmbeddedSata": {"Type": "Enumeration", "Value": ["Ahci", "Raid", "Off"]},
    "NumaGroup": {"Type": "Integer", "LowerBound": 1, "UpperBound": 8},
    "ProcTurboMode": {"Type": "Enumeration", "Value": ["Enabled", "Disabled"]},
    "SandboxCounter": {"Type": "Integer", "LowerBound": -1, "UpperBound": 4294967295},
}


def _show(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "AttributeName": name,
        "DisplayName": name,
        "ReadOnly": False,
        "ResetRequired": True,
        "IsSystemUniqueProperty": False,
        **entry,
    }
    if "Value" in entry:
        shown["Value"] = [
            {"ValueName": value, "ValueDisplayName": value} for value in shown["Value"]
        ]
    return shown


def registry(_machine: Machine) -> dict[str, Any]:
    """The registry of the attributes."""
    return {
        "@odata.type": "#AttributeRegistry.v1_3_0.AttributeRegistry",
        "@odata.id": f"{ROOT}/Registries/{REGISTRY}/File",
        "Id": REGISTRY,
        "Name": "BIOS attributes",
        "Language": "en",
        "OwningEntity": "Sandbox",
        "RegistryVersion": "1.0.0",
        "RegistryEntries": {"Attributes": [_show(*item) for item in _ENTRIES.items()]},
    }


def registry_file(_machine: Machine) -> dict[str, Any]:
    """Where the registry is."""
    path = f"{ROOT}/Registries/{REGISTRY}"
    return {
        "@odata.type": "#MessageRegistryFile.v1_1_0.MessageRegistryFile",
        "@odata.id": path,
        "Id": REGISTRY,
        "Name": "BIOS attribute registry file",
        "Languages": ["en"],
        "Registry": REGISTRY,
        "Location": [{"Language": "en", "Uri": f"{path}/File"}],
    }


def bios(machine: Machine) -> dict[str, Any]:
    """The attributes as the last boot set them."""
    path, firmware = f"{machine.spec.system_path}/Bios", machine.firmware
    settings: dict[str, Any] = {
        "@odata.type": "#Settings.v1_3_0.Settings",
        "SettingsObject": {"@odata.id": f"{path}/Settings"},
        "SupportedApplyTimes": ["OnReset"],
    }
    if firmware.bios_complaint:
        settings["Messages"] = [
            {
                "MessageId": "Base.1.8.GeneralError",
                "Message": firmware.bios_complaint,
                "Severity": "Critical",
            }
        ]
    return {
        "@odata.type": "#Bios.v1_1_0.Bios",
        "@odata.id": path,
        "Id": "Bios",
        "Name": "BIOS settings",
        "AttributeRegistry": REGISTRY,
        "Attributes": dict(firmware.bios),
        "Actions": {"#Bios.ResetBios": {"target": f"{path}/Actions/Bios.ResetBios"}},
        "@Redfish.Settings": settings,
    }


def settings(machine: Machine) -> dict[str, Any]:
    """The attributes that the next boot sets."""
    return {
        "@odata.type": "#Bios.v1_1_0.Bios",
        "@odata.id": f"{machine.spec.system_path}/Bios/Settings",
        "Id": "Settings",
        "Name": "BIOS settings for the next boot",
        "Attributes": dict(machine.firmware.pending_bios),
    }


def _fits(entry: Mapping[str, Any], value: Any) -> bool:
    if entry["Type"] == "Integer":
        number = isinstance(value, int) and not isinstance(value, bool)
        return number and entry["LowerBound"] <= value <= entry["UpperBound"]
    return value in entry["Value"]


def change(machine: Machine, body: Mapping[str, Any]) -> None:
    """Take attributes for the next boot; all or none."""
    attributes = body.get("Attributes")
    if not isinstance(attributes, Mapping):
        raise Refused(400, "Attributes has to be an object", "PropertyMissing")
    unknown = sorted(attributes.keys() - machine.firmware.bios.keys())
    if unknown:
        raise Refused(400, f"Unknown BIOS attributes: {', '.join(unknown)}", "PropertyUnknown")
    for name, value in attributes.items():
        if not _fits(_ENTRIES[name], value):
            raise Refused(
                400, f"The BIOS attribute {name} does not take {value!r}", "PropertyValueNotInList"
            )
    machine.firmware.pending_bios.update(attributes)


def reset(machine: Machine, _body: Mapping[str, Any]) -> None:
    """Set the defaults at the next boot."""
    machine.firmware.pending_bios = dict(Firmware().bios)
