"""Rows of a fleet as it is found in service, for the benchmarks of the REST API."""

from __future__ import annotations

import datetime
import json
import uuid
from typing import Any

from sqlalchemy import insert

from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.db.base import table

_SPACE = uuid.UUID("7c9a1f0e-3f0b-4a52-9f5e-0d6f6a1f2b3c")
_NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
INTERFACES = {
    "bios": "no-bios",
    "boot": "fake",
    "console": "no-console",
    "deploy": "fake",
    "firmware": "no-firmware",
    "inspect": "no-inspect",
    "management": "fake",
    "network": "noop",
    "power": "fake",
    "raid": "no-raid",
    "rescue": "no-rescue",
    "storage": "noop",
    "vendor": "no-vendor",
}


def uuid_of(kind: str, number: int) -> str:
    """Return the UUID of a record of the fleet."""
    return str(uuid.uuid5(_SPACE, f"{kind}-{number}"))


def name_of(number: int) -> str:
    """Return the name of a node of the fleet."""
    return f"rack{number // 40:03d}-node{number % 40:02d}"


def _node(number: int) -> dict[str, Any]:
    deployed = number % 3 == 0
    return {
        "uuid": uuid_of("node", number),
        "name": name_of(number),
        "driver": "fake-hardware",
        "resource_class": f"baremetal-{number % 4}",
        "power_state": "power on" if deployed else "power off",
        "provision_state": "active" if deployed else "available",
        "provision_updated_at": _NOW,
        "inspection_finished_at": _NOW,
        "inspection_started_at": _NOW,
        "instance_uuid": uuid_of("instance", number) if deployed else None,
        "owner": uuid.UUID(int=number % 10).hex,
        "conductor_group": "",
        "driver_info": {
            "redfish_address": f"https://10.{number // 250}.{number % 250}.1",
            "redfish_username": "admin",
            "redfish_password": "not-for-eyes",
            "redfish_system_id": "/redfish/v1/Systems/1",
            "redfish_verify_ca": "/etc/ssl/certs/bmc.pem",
            "deploy_kernel": "http://images.example.com/ipa.kernel",
            "deploy_ramdisk": "http://images.example.com/ipa.initramfs",
        },
        "driver_internal_info": {
            "agent_version": "10.2.0",
            "agent_last_heartbeat": "2026-01-02T03:04:05.123456",
            "hardware_manager_version": {"generic_hardware_manager": "1.2"},
            "last_power_state_change": "2026-01-02T03:04:05.123456",
            "root_uuid_or_disk_id": "0x5a3f1c77",
            "is_whole_disk_image": True,
        },
        "properties": {
            "cpus": "64",
            "cpu_arch": "x86_64",
            "memory_mb": "524288",
            "local_gb": "1788",
            "vendor": "unknown",
            "capabilities": "boot_mode:uefi,secure_boot:true,raid_level:1,cpu_vt:true",
            "root_device": {"wwn": f"0x5000c500{number:08x}"},
        },
        "instance_info": {
            "image_source": "http://images.example.com/debian-12.qcow2",
            "image_checksum": "0f5c4b8d9d3f2a1c" * 4,
            "image_os_hash_algo": "sha256",
            "capabilities": {"boot_option": "local"},
            "nova_host_id": "compute-7",
        }
        if deployed
        else {},
        "extra": {"rack": f"R{number // 40}", "unit": number % 40, "asset": f"A{number:07d}"},
        **{f"{kind}_interface": name for kind, name in INTERFACES.items()},
    }


def fill(connection: str, nodes: int) -> None:
    """Write the fleet: nodes with three traits and one port each, one connector each.

    :param connection: SQLAlchemy URL of a migrated database.
    """
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", connection, group="database")
    session.configure()
    stamp = {"created_at": _NOW, "updated_at": _NOW, "version": "1.44"}

    @session.writes
    def write(db: Any) -> None:
        rows = [{**_node(n), **stamp, "id": n + 1} for n in range(nodes)]
        for start in range(0, nodes, 500):
            db.execute(insert(table(models.Node)), rows[start : start + 500])
        traits = ("CUSTOM_GOLD", "CUSTOM_RAID1", "HW_CPU_X86_VMX")
        db.execute(
            insert(table(models.NodeTrait)),
            [
                {"node_id": n + 1, "trait": trait, "version": "1.0"}
                for n in range(nodes)
                for trait in traits
            ],
        )
        db.execute(
            insert(table(models.Port)),
            [
                {
                    "uuid": uuid_of("port", n),
                    "address": f"52:54:{n >> 16:02x}:{n >> 8 & 255:02x}:{n & 255:02x}:01",
                    "node_id": n + 1,
                    "pxe_enabled": True,
                    "is_smartnic": False,
                    "local_link_connection": {
                        "switch_id": "aa:bb:cc:dd:ee:ff",
                        "port_id": f"Ethernet1/{n % 48}",
                        "switch_info": f"tor-{n // 40}",
                    },
                    "extra": {"cable": f"C{n:06d}"},
                    "internal_info": {},
                    "physical_network": "physnet1",
                    "created_at": _NOW,
                    "version": "1.16",
                }
                for n in range(nodes)
            ],
        )

    write()
    session.dispose()
    CONF.reset()
    CONF.clear()


def sizes(documents: bytes) -> str:
    """Describe an answer: documents and bytes."""
    found = json.loads(documents)
    lists = [v for v in found.values() if isinstance(v, list)] if isinstance(found, dict) else []
    return f"{len(lists[0]) if lists else 1} documents, {len(documents) // 1024} KiB"
