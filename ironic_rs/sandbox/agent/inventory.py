"""What the agent collects for in-band inspection: the inventory, and data of collectors.

Source: specification inspection.md section 5.
"""

from __future__ import annotations

import base64
import io
import ipaddress
import tarfile
from collections.abc import Iterable, Sequence
from typing import Any

from ironic_rs.sandbox.machine import Machine

DEVICE = "/dev/sda"


#: The network for benchmarks of RFC 2544.  The machines really live on loopback
#: addresses, which no inventory of a real machine has on a network card.
_NETWORK = ipaddress.IPv4Network("198.18.0.0/15")


def _address(index: int) -> str:
    """Address of the first network card of a machine, as its inventory tells it."""
    return str(_NETWORK[1 + index % (_NETWORK.num_addresses - 2)])


def packed_logs(lines: Iterable[str]) -> str:
    """Return base64 of a tar.gz with the agent's log."""
    content = "\n".join(lines).encode() + b"\n"
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        entry = tarfile.TarInfo("agent.log")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return base64.b64encode(buffer.getvalue()).decode()


def inspection(
    machine: Machine, boot_mac: str | None, collectors: Sequence[str], log_lines: Iterable[str]
) -> dict[str, Any]:
    """Return what the agent posts at the end of an inspection.

    :param collectors: names of parameter ipa-inspection-collectors; unknown ones are an
        error that the agent reports.
    """
    found = collect(machine, boot_mac)
    unknown = [name for name in collectors if name not in ("default", "logs")]
    problem = machine.faults.agent_inspection_error or None
    if unknown:
        problem = f"no such collectors: {', '.join(unknown)}"
    data: dict[str, Any] = {"inventory": found, "error": problem}
    if "default" in collectors:
        data["root_disk"] = found["disks"][0]
        data["boot_interface"] = boot_mac
        data["configuration"] = {
            "collectors": list(collectors),
            "managers": [{"name": "generic_hardware_manager", "version": "1.2"}],
        }
    if "logs" in collectors:
        data["logs"] = packed_logs(log_lines)
    return data


def collect(machine: Machine, boot_mac: str | None) -> dict[str, Any]:
    """Inventory of a machine in the form that continue_inspection takes.

    :param boot_mac: parameter BOOTIF, if there was one.
    """
    spec, settings = machine.spec, machine.settings
    return {
        "interfaces": [
            {
                "name": f"eth{number}",
                "mac_address": mac,
                "ipv4_address": _address(spec.index) if number == 0 else None,
                "ipv6_address": None,
                "has_carrier": True,
                "lldp": None,
                "vendor": "0x1af4",
                "product": "0x0001",
                "client_id": None,
                "biosdevname": None,
                "speed_mbps": 10000,
                "pci_address": f"0000:00:{number + 3:02x}.0",
                "driver": "sandbox",
            }
            for number, mac in enumerate(spec.macs)
        ],
        "cpu": {
            "model_name": "Simulated CPU",
            "frequency": "3000.0000",
            "count": settings.cpus,
            "architecture": "x86_64",
            "flags": ["aes", "vmx"],
            "socket_count": 1,
        },
        "disks": [
            {
                "name": DEVICE,
                "model": "Sparse file",
                "size": settings.disk_bytes,
                "rotational": False,
                "wwn": None,
                "serial": f"DSK{spec.index + 1:06d}",
                "vendor": "Sandbox",
                "wwn_with_extension": None,
                "wwn_vendor_extension": None,
                "hctl": "0:0:0:0",
                "by_path": None,
                "logical_sectors": 512,
                "physical_sectors": 512,
            }
        ],
        "memory": {
            "total": settings.memory_gib * 1024**3,
            "physical_mb": settings.memory_gib * 1024,
        },
        "bmc_address": spec.address,
        "bmc_v6address": "::/0",
        "bmc_mac": None,
        "system_vendor": {
            "product_name": "Simulated machine",
            "serial_number": f"SIM{spec.index + 1:06d}",
            "manufacturer": "Sandbox",
            "firmware": {"vendor": "Sandbox", "version": "1.0.0", "build_date": ""},
        },
        "boot": {
            "current_boot_mode": "uefi" if machine.boot.mode == "UEFI" else "bios",
            "pxe_interface": boot_mac,
        },
        "hostname": spec.name,
        "usb_devices": [],
    }
