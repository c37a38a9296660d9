"""One of everything that the API shows, for tests that are made from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.db import (
    allocations,
    bios,
    chassis,
    firmware,
    history,
    inspection_rules,
    inventory,
    models,
    nodes,
    portgroups,
    ports,
    runbooks,
    session,
    templates,
    traits,
    volumes,
)
from ironic_rs.drivers.base import INTERFACE_TYPES

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
CHILD = "2be26c0b-03f2-4d2e-ae87-c02d7f33c123"
OTHER = "4be26c0b-03f2-4d2e-ae87-c02d7f33c123"
TRAIT = "CUSTOM_A"
MAC = "52:54:00:00:00:01"
#: Arguments of paths that name something there.
PARTS: Mapping[str, str] = {
    "node": UUID,
    "port": UUID,
    "portgroup": UUID,
    "chassis": UUID,
    "connector": UUID,
    "target": UUID,
    "allocation": UUID,
    "template": UUID,
    "runbook": UUID,
    "rule": UUID,
    "uuid": UUID,
    "trait": TRAIT,
    "indicator": "led@system",
    "driver": "fake-hardware",
    "hostname": "cond-a",
    "setting": "virtualization",
    "vif": "vif-1",
    "device_types": "cdrom",
    "method": "second_method",
    "ident": UUID,
}
#: What the conductor has written about itself stays.
_KEPT = frozenset({"conductors", "conductor_hardware_interfaces"})


def populate() -> None:
    """Empty the database, but for the conductor, and write one of everything."""
    with session.writer() as connection:
        for table in reversed(models.Base.metadata.sorted_tables):
            if table.name not in _KEPT:
                connection.execute(table.delete())
    row = chassis.create({"uuid": UUID, "description": "rack 1"})
    node = nodes.create(
        {
            "uuid": UUID,
            "name": "n1",
            "driver": "fake-hardware",
            "chassis_id": row.id,
            "provision_state": "manageable",
            "power_state": "power off",
            "driver_info": {"fake_password": "secret"},
            "driver_internal_info": {"agent_url": "https://agent"},
            **{
                f"{kind}_interface": "fake"
                for kind in INTERFACE_TYPES
                if kind not in ("network", "storage")
            },
            "network_interface": "noop",
            "storage_interface": "noop",
        }
    )
    nodes.create(
        {
            "uuid": CHILD,
            "driver": "fake-hardware",
            "parent_node": UUID,
            "provision_state": "active",
        }
    )
    nodes.create({"uuid": OTHER, "driver": "fake-hardware"})
    traits.set_traits(node.id, [TRAIT])
    group = portgroups.create({"uuid": UUID, "name": "pg1", "node_id": node.id, "mode": "802.3ad"})
    ports.create(
        {
            "uuid": UUID,
            "name": "p1",
            "node_id": node.id,
            "portgroup_id": group.id,
            "address": MAC,
        }
    )
    _parts_of(node.id)
    step = {"interface": "deploy", "step": "erase_devices", "args": {"password": "secret"}}
    templates.create({"uuid": UUID, "name": TRAIT, "steps": [{**step, "priority": 5}]})
    runbooks.create({"uuid": UUID, "name": TRAIT, "steps": [{**step, "order": 1}]})
    inspection_rules.create(
        {"uuid": UUID, "actions": [{"op": "fail", "args": ["no"]}], "priority": 1}
    )
    allocation = allocations.create(
        {
            "uuid": UUID,
            "name": "a1",
            "resource_class": "rc",
            "state": "active",
            "node_id": node.id,
        }
    )
    nodes.update(node, {"allocation_id": allocation.id}, fence=None)


def _parts_of(node_id: int) -> None:
    bios.create(
        node_id,
        [
            {
                "name": "virtualization",
                "value": "on",
                "attribute_type": "Enumeration",
                "allowable_values": ["on", "off"],
                "read_only": False,
            }
        ],
    )
    firmware.create({"node_id": node_id, "component": "bmc", "initial_version": "1"})
    inventory.store(node_id, {"cpu": {"count": 4}}, {"logs": None})
    history.create(
        {
            "uuid": UUID,
            "node_id": node_id,
            "severity": "ERROR",
            "event": "x" * 300,
            "conductor": "cond-a",
        }
    )
    volumes.create_connector(
        {"uuid": UUID, "node_id": node_id, "type": "iqn", "connector_id": "iqn.2026-01.c"}
    )
    volumes.create_target(
        {
            "uuid": UUID,
            "node_id": node_id,
            "volume_type": "iscsi",
            "volume_id": "v1",
            "boot_index": 0,
            "properties": {"auth_password": "secret"},
        }
    )


def path(template: str, **parts: Any) -> str:
    """Return a path of the route table that leads to something."""
    return template.format(**{**PARTS, **parts})
