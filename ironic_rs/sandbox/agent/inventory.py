"""Hardware inventory that the agent collects, for look-up and in-band inspection."""

from __future__ import annotations

from typing import Any

from ironic_rs.sandbox.machine import Machine

DEVICE = "/dev/sda"


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
                "ipv4_address": spec.address if number == 0 else None,
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
