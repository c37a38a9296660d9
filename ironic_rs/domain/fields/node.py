"""Fields of nodes, and of the documents below a node."""

from __future__ import annotations

from ironic_rs.domain.fields.kinds import (
    Array,
    Boolean,
    DateTime,
    Ident,
    Integer,
    Links,
    NewUuid,
    Object,
    String,
    Uuid,
)
from ironic_rs.domain.fields.table import Field, Table

_TEXT = String()
_LONG_TEXT = String(maximum=65535)
_OBJECT = Object()
_BOOL = Boolean()
_TIME = DateTime()
_TEXTS = Array(of=_TEXT)


def _json(name: str, since: int, use: str) -> Field:
    return Field(name, _OBJECT, since, use, nullable=False, empty={}, sortable=False)


def _interface(kind: str, since: int) -> Field:
    return Field(f"{kind}_interface", _TEXT, since, "DPCS")


NODE = Table(
    "node",
    "nodes",
    (
        Field("uuid", NewUuid(), 1, "LDCS"),
        Field("created_at", _TIME, 1, "D", nullable=False),
        Field("updated_at", _TIME, 1, "D"),
        Field("automated_clean", _BOOL, 47, "DPCS"),
        _interface("bios", 40),
        _interface("boot", 31),
        Field("boot_mode", String(maximum=16), 75, "DCS"),
        _json("clean_step", 7, "DS"),
        Field("conductor_group", _TEXT, 46, "DPCS", nullable=False, empty=""),
        Field("console_enabled", _BOOL, 1, "DCS", nullable=False, empty=False),
        _interface("console", 31),
        Field("disable_power_off", _BOOL, 95, "DPCS"),
        _interface("deploy", 31),
        _json("deploy_step", 44, "DS"),
        Field("description", String(maximum=4096), 51, "DPCS"),
        Field("driver", String(minimum=1), 1, "DPCRS"),
        _json("driver_info", 1, "DPCS"),
        _json("driver_internal_info", 3, "DS"),
        _json("extra", 1, "DPCS"),
        Field("fault", _TEXT, 42, "DS"),
        _interface("firmware", 86),
        Field("health", String(maximum=32), 109, "DS"),
        Field("inspection_finished_at", _TIME, 6, "DS"),
        Field("inspection_started_at", _TIME, 6, "DS"),
        _interface("inspect", 31),
        _json("instance_info", 1, "DPCS"),
        Field("instance_name", String(minimum=1), 104, "DPCS"),
        Field("instance_uuid", Uuid(), 1, "LDPCS"),
        Field("last_error", _LONG_TEXT, 1, "DS"),
        Field("lessee", _TEXT, 65, "DPCS"),
        Field("maintenance", _BOOL, 1, "LDPCS", nullable=False, empty=False),
        Field("maintenance_reason", _LONG_TEXT, 1, "DS"),
        _interface("management", 31),
        Field("name", _TEXT, 5, "LDPCS"),
        _json("network_data", 66, "DPCS"),
        _interface("network", 20),
        Field("owner", _TEXT, 50, "DPCS"),
        Field("parent_node", Ident(), 83, "DPCS"),
        _interface("power", 31),
        Field("power_state", _TEXT, 1, "LDS"),
        _json("properties", 1, "DPCS"),
        Field("protected", _BOOL, 48, "DPS", nullable=False, empty=False),
        Field("protected_reason", _LONG_TEXT, 48, "DPS"),
        Field("provision_state", _TEXT, 1, "LDS"),
        Field("provision_updated_at", _TIME, 1, "DS"),
        _json("raid_config", 12, "DS"),
        _interface("raid", 31),
        _interface("rescue", 38),
        Field("reservation", _TEXT, 1, "DS"),
        Field("resource_class", String(maximum=80), 21, "DPCS"),
        Field("retired", _BOOL, 61, "DPCS"),
        Field("retired_reason", _LONG_TEXT, 61, "DPCS"),
        Field("secure_boot", _BOOL, 75, "DCS"),
        _json("service_step", 87, "DS"),
        Field("shard", _TEXT, 82, "DPCS"),
        _interface("storage", 33),
        Field("target_power_state", _TEXT, 1, "DS"),
        Field("target_provision_state", _TEXT, 1, "DS"),
        _json("target_raid_config", 12, "DS"),
        Field("traits", _TEXTS, 37, "DS", nullable=False, column=None, sortable=False),
        _interface("vendor", 31),
        Field("links", Links(), 1, "LD", column=None),
        Field("conductor", _TEXT, 49, "DS", column=None),
        Field("allocation_uuid", Uuid(), 52, "DS", column=None),
        Field("chassis_uuid", Uuid(), 1, "DPCS", column=None),
        Field("ports", Links(), 1, "D", column=None),
        Field("states", Links(), 14, "D", column=None),
        Field("portgroups", Links(), 24, "D", column=None),
        Field("volume", Links(), 32, "D", column=None),
    ),
)

#: Interface columns of a node, with the kind of interface.
INTERFACE_FIELDS: dict[str, str] = {
    f.name: f.name.removesuffix("_interface") for f in NODE.rows if f.name.endswith("_interface")
}

NODE_STATES = Table(
    "node states",
    "states",
    (
        Field("console_enabled", _BOOL, nullable=False),
        Field("last_error", _LONG_TEXT),
        Field("power_state", _TEXT),
        Field("provision_state", _TEXT),
        Field("target_power_state", _TEXT),
        Field("target_provision_state", _TEXT),
        Field("provision_updated_at", _TIME),
        _json("raid_config", 12, "D"),
        _json("target_raid_config", 12, "D"),
        Field("boot_mode", _TEXT, 75),
        Field("secure_boot", _BOOL, 75),
    ),
)

NODE_HISTORY = Table(
    "history entry",
    "history",
    (
        Field("uuid", Uuid(), 78, "LD", nullable=False),
        Field("created_at", _TIME, 78, "LD", nullable=False),
        Field("severity", _TEXT, 78, "LD", nullable=False),
        Field("event", _LONG_TEXT, 78, "LD", nullable=False, sortable=False),
        Field("event_type", _TEXT, 78),
        Field("conductor", _TEXT, 78),
        Field("user", _TEXT, 78),
        Field("project", _TEXT, 113),
        Field("state", _TEXT, 115),
        Field("target_provision_state", _TEXT, 115),
        Field("duration_seconds", Integer(), 115),
        Field("links", Links(), 78, "LD", column=None),
    ),
)

BIOS_SETTING = Table(
    "BIOS setting",
    "bios",
    (
        Field("name", _TEXT, 40, "LD", nullable=False),
        Field("value", _LONG_TEXT, 40, "LD"),
        Field("created_at", _TIME, 40, "LD", nullable=False),
        Field("updated_at", _TIME, 40, "LD"),
        Field("links", Links(), 40, "LD", column=None),
        Field("attribute_type", _TEXT, 74),
        Field("allowable_values", _TEXTS, 74),
        Field("lower_bound", Integer(), 74),
        Field("upper_bound", Integer(), 74),
        Field("min_length", Integer(), 74),
        Field("max_length", Integer(), 74),
        Field("read_only", _BOOL, 74),
        Field("reset_required", _BOOL, 74),
        Field("unique", _BOOL, 74),
    ),
)

FIRMWARE_COMPONENT = Table(
    "firmware component",
    "firmware",
    (
        Field("component", _TEXT, 86, "LD", nullable=False),
        Field("initial_version", _TEXT, 86, "LD"),
        Field("current_version", _TEXT, 86, "LD"),
        Field("last_version_flashed", _TEXT, 86, "LD"),
        Field("created_at", _TIME, 86, "LD", nullable=False),
        Field("updated_at", _TIME, 86, "LD"),
        Field("vendor", _TEXT, 114, "LD"),
        Field("model", _TEXT, 114, "LD"),
        Field("serial_number", _TEXT, 114, "LD"),
    ),
)
