"""Fields of every resource other than nodes."""

from __future__ import annotations

from ironic_rs.domain.fields.kinds import (
    Array,
    Boolean,
    DateTime,
    Ident,
    Integer,
    Links,
    Mac,
    NewUuid,
    Object,
    String,
    Uuid,
)
from ironic_rs.domain.fields.table import Field, Table

_TEXT = String()
_TIME = DateTime()
_UUID = Uuid()
_BOOL = Boolean()
_TEXTS = Array(of=_TEXT)


def _json(name: str, since: int, use: str) -> Field:
    return Field(name, Object(), since, use, nullable=False, empty={}, sortable=False)


def _stamps(since: int, use: str = "D") -> tuple[Field, Field, Field]:
    return (
        Field("created_at", _TIME, since, use, nullable=False),
        Field("updated_at", _TIME, since, use),
        Field("links", Links(), since, "LD", column=None),
    )


PORT = Table(
    "port",
    "ports",
    (
        Field("uuid", NewUuid(), 1, "LDC"),
        Field("address", Mac(), 1, "LDPCR"),
        Field("node_uuid", _UUID, 1, "DPC", nullable=False, column=None),
        Field("node_ident", Ident(), 94, "C", column=None),
        _json("extra", 1, "DPC"),
        _json("internal_info", 18, "D"),
        Field("pxe_enabled", _BOOL, 19, "DPC", nullable=False, empty=True),
        _json("local_link_connection", 19, "DPC"),
        Field("portgroup_uuid", _UUID, 24, "DPC", column=None),
        Field("physical_network", String(minimum=1, maximum=64), 34, "DPC"),
        Field("is_smartnic", _BOOL, 53, "DPC", nullable=False, empty=False),
        Field("name", _TEXT, 88, "DPC"),
        Field("description", _TEXT, 97, "DPC"),
        Field("vendor", String(maximum=32), 100, "DPC"),
        Field("category", String(maximum=80), 101, "DPC"),
        Field(
            "available_for_dynamic_portgroup",
            Boolean(strict=True),
            111,
            "DPC",
            nullable=False,
            empty=True,
        ),
        *_stamps(1),
    ),
)

PORTGROUP = Table(
    "portgroup",
    "portgroups",
    (
        Field("uuid", NewUuid(), 23, "LDC"),
        Field("address", Mac(), 23, "LDPC"),
        Field("name", _TEXT, 23, "LDPC"),
        Field("node_uuid", _UUID, 23, "DPCR", column=None),
        _json("extra", 23, "DPC"),
        _json("internal_info", 23, "D"),
        Field("standalone_ports_supported", _BOOL, 23, "DPC", nullable=False, empty=True),
        Field("mode", String(minimum=1), 26, "DPC", nullable=False),
        _json("properties", 26, "DPC"),
        Field("physical_network", String(minimum=1, maximum=64), 102, "DPC"),
        Field("category", String(maximum=80), 103, "DPC"),
        Field("dynamic_portgroup", _BOOL, 111, "D"),
        *_stamps(23),
        Field("ports", Links(), 23, "D", column=None),
    ),
)

CHASSIS = Table(
    "chassis",
    "chassis",
    (
        Field("uuid", NewUuid(), 1, "LDC"),
        Field("description", _TEXT, 1, "LDPC"),
        _json("extra", 1, "DPC"),
        *_stamps(1),
        Field("nodes", Links(nested=True), 1, "D", column=None),
    ),
)

#: Interface kinds of a driver document, with the microversion that shows them.
DRIVER_INTERFACES: dict[str, int] = {
    "boot": 30,
    "console": 30,
    "deploy": 30,
    "inspect": 30,
    "management": 30,
    "network": 30,
    "power": 30,
    "raid": 30,
    "vendor": 30,
    "storage": 33,
    "rescue": 38,
    "bios": 40,
    "firmware": 86,
}

DRIVER = Table(
    "driver",
    "drivers",
    (
        Field("name", _TEXT, 1, "LD", nullable=False, column=None),
        Field("hosts", _TEXTS, 1, "LD", nullable=False, column=None),
        Field("links", Links(), 1, "LD", column=None),
        Field("properties", Links(), 14, "LD", column=None),
        Field("type", _TEXT, 30, "LD", nullable=False, column=None),
        *(
            row
            for kind, since in DRIVER_INTERFACES.items()
            for row in (
                Field(f"default_{kind}_interface", _TEXT, since, column=None),
                Field(f"enabled_{kind}_interfaces", _TEXTS, since, nullable=False, column=None),
            )
        ),
    ),
)

CONDUCTOR = Table(
    "conductor",
    "conductors",
    (
        Field("hostname", _TEXT, 49, "LD", nullable=False),
        Field("conductor_group", _TEXT, 49, "LD", nullable=False),
        Field("alive", _BOOL, 49, "LD", nullable=False, column=None),
        Field("drivers", _TEXTS, 49, "D", nullable=False, sortable=False),
        *_stamps(49),
    ),
)

VOLUME_CONNECTOR = Table(
    "volume connector",
    "connectors",
    (
        Field("uuid", NewUuid(), 32, "LDC"),
        Field("node_uuid", _UUID, 32, "LDPCR", column=None),
        Field("type", String(maximum=32), 32, "LDPCR"),
        Field("connector_id", _TEXT, 32, "LDPCR"),
        _json("extra", 32, "DPC"),
        *_stamps(32),
    ),
)

VOLUME_TARGET = Table(
    "volume target",
    "targets",
    (
        Field("uuid", NewUuid(), 32, "LDC"),
        Field("node_uuid", _UUID, 32, "LDPCR", column=None),
        Field("volume_type", String(maximum=64), 32, "LDPCR"),
        Field("boot_index", Integer(), 32, "LDPCR"),
        Field("volume_id", String(maximum=36), 32, "LDPCR"),
        _json("properties", 32, "DPC"),
        _json("extra", 32, "DPC"),
        *_stamps(32),
    ),
)

ALLOCATION = Table(
    "allocation",
    "allocations",
    (
        Field("uuid", NewUuid(), 52, "LDC"),
        Field("name", _TEXT, 52, "LDPC"),
        _json("extra", 52, "LDPC"),
        Field(
            "candidate_nodes",
            Array(of=_TEXT),
            52,
            "LDC",
            nullable=False,
            empty=[],
            sortable=False,
        ),
        Field("resource_class", String(maximum=80), 52, "LDC"),
        Field("traits", Array(of=_TEXT), 52, "LDC", nullable=False, empty=[], sortable=False),
        Field("state", _TEXT, 52, "LD", nullable=False),
        Field("last_error", _TEXT, 52, "LD"),
        Field("node_uuid", _UUID, 52, "LD", column=None),
        Field("owner", _TEXT, 60, "LDC"),
        Field("node", Ident(), 58, "C", column=None),
        *_stamps(52, "LD"),
    ),
)

DEPLOY_TEMPLATE = Table(
    "deploy template",
    "deploy_templates",
    (
        Field("uuid", NewUuid(), 55, "LDC"),
        Field("name", _TEXT, 55, "LDPCR"),
        Field("steps", Array(of=Object(), minimum=1), 55, "DPCR", column=None),
        _json("extra", 55, "DPC"),
        Field("description", _TEXT, 55, "C", column=None),
        *_stamps(55),
    ),
)

RUNBOOK = Table(
    "runbook",
    "runbooks",
    (
        Field("uuid", NewUuid(), 92, "LDC"),
        Field("name", _TEXT, 92, "LDPCR"),
        Field("steps", Array(of=Object(), minimum=1), 92, "DPCR", column=None),
        Field("disable_ramdisk", _BOOL, 92, "DPC", nullable=False, empty=False),
        _json("extra", 92, "DPC"),
        Field("public", _BOOL, 92, "DPC", nullable=False, empty=False),
        Field("owner", _TEXT, 92, "DPC"),
        Field("description", _TEXT, 112, "DPC"),
        Field("traits", _TEXTS, 112, "D", nullable=False, column=None),
        *_stamps(92),
    ),
)

INSPECTION_RULE = Table(
    "inspection rule",
    "inspection_rules",
    (
        Field("uuid", NewUuid(), 96, "LDC"),
        Field("description", _TEXT, 96, "LDPC"),
        Field("phase", String(choices=("main",)), 96, "LDPC", nullable=False, empty="main"),
        Field("priority", Integer(minimum=0, maximum=9999), 96, "LDPC", nullable=False, empty=0),
        Field("sensitive", _BOOL, 96, "DPC", nullable=False, empty=False),
        Field("actions", Array(of=Object(), minimum=1), 96, "DPCR", sortable=False, hidden=True),
        Field(
            "conditions",
            Array(of=Object()),
            96,
            "DPC",
            nullable=False,
            empty=[],
            sortable=False,
            hidden=True,
        ),
        *_stamps(96),
    ),
)

SHARD = Table(
    "shard",
    "shards",
    (
        Field("name", _TEXT, 82, "LD", nullable=False, column=None),
        Field("count", Integer(), 82, "LD", nullable=False, column=None),
    ),
)

#: An event that another service tells; it is logged and not kept.
EVENT = Table(
    "event",
    "events",
    (
        Field(
            "event",
            String(choices=("network.bind_port", "network.unbind_port", "network.delete_port")),
            54,
            "CR",
            column=None,
        ),
        Field("port_id", _UUID, 54, "CR", column=None),
        Field("mac_address", Mac(), 54, "CR", column=None),
        Field("status", _TEXT, 54, "CR", column=None),
        Field("device_id", _TEXT, 54, "C", column=None),
        Field("binding:host_id", _UUID, 54, "C", column=None),
        Field("binding:vnic_type", _TEXT, 54, "C", column=None),
    ),
)
