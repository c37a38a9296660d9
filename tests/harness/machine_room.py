"""Machines that really boot: the machine room of ``devstack/machine-room``.

The tests run inside of its network; ``./run-tests e2e`` makes it, and them there.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.servers import wait_until

SCRIPT = Path(__file__).resolve().parents[2] / "devstack" / "machine-room"

#: Minutes of software emulation on a loaded host.
PATIENCE = 1200.0

#: Kernel parameters; without mitigations software emulation takes a quarter less.
_KERNEL = "console=ttyS0 panic=-1 mitigations=off quiet ipa-debug=1"

Document = dict[str, Any]


def wait_for(check: Callable[[], object], what: str) -> None:
    """Look once a second, as long as a machine may take."""
    wait_until(check, what, timeout=PATIENCE, interval=1)


class Console:
    """What a machine writes on its serial console."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def _all(self) -> str:
        return self._path.read_text(errors="replace") if self._path.exists() else ""

    def skip(self) -> None:
        """Forget what was written so far."""
        self._seen = len(self._all())

    @property
    def text(self) -> str:
        """What was written since :meth:`skip`."""
        return self._all()[self._seen :]

    def found(self, pattern: str) -> str:
        """Return the first group of the last match; empty: none."""
        found = re.findall(pattern, self.text)
        return str(found[-1]) if found else ""


@dataclass(frozen=True)
class Machine:
    """A machine; ``system`` is its path on the Redfish service, ``ipmi_port`` 0: no IPMI."""

    name: str
    mac: str
    system: str
    console: Console
    ipmi_port: int = 0


class Room:
    """The room that this process runs in."""

    def __init__(self) -> None:
        try:
            self.address = os.environ["MACHINE_ROOM_ADDRESS"]
            self.redfish = os.environ["MACHINE_ROOM_REDFISH"]
            self.images = os.environ["MACHINE_ROOM_IMAGES"]
            self.artefacts = Path(os.environ["MACHINE_ROOM_ARTEFACTS"])
            self.user = os.environ["MACHINE_ROOM_USER"]
            self.password = os.environ["MACHINE_ROOM_PASSWORD"]
            self.files_port = int(os.environ["MACHINE_ROOM_FILES_PORT"])
        except KeyError as exc:
            pytest.fail(
                f"{exc.args[0]} is not set: these tests run in a machine room. As root, "
                "./run-tests e2e makes one (docs/machine-room.md)"
            )

    @staticmethod
    def _ask(*command: str) -> dict[str, str]:
        done = subprocess.run(
            [SCRIPT, *command], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return dict(line.split("=", 1) for line in done.stdout.splitlines())

    def machine(self, name: str, number: int, ipmi_port: int = 0) -> Machine:
        """Put a machine into the room, switched off, with an empty disk."""
        made = self._ask("node", name, f"52:54:00:e2:e0:{number:02x}")
        if ipmi_port:
            self._ask("ipmi", name, str(ipmi_port))
        console = Console(Path(made["NODE_CONSOLE"]))
        return Machine(name, made["NODE_MAC"], made["NODE_SYSTEM"], console, ipmi_port)

    def file(self, name: str) -> str:
        """Return the URL of a file of the room."""
        return f"{self.images}/{name}"

    def options(self, folder: Path) -> dict[str, Document]:
        """Options of a service that runs the machines of the room."""
        ramdisk = {"kernel": self.file("vmlinuz"), "ramdisk": self.file("initrd")}
        return {
            "DEFAULT": {
                "my_ip": self.address,
                "enabled_hardware_types": "redfish,ipmi",
                "enabled_boot_interfaces": "redfish-virtual-media,ipxe",
                "enabled_deploy_interfaces": "direct",
                "enabled_inspect_interfaces": "agent,redfish,no-inspect",
                "enabled_management_interfaces": "redfish,ipmitool",
                "enabled_power_interfaces": "redfish,ipmitool",
                "enabled_rescue_interfaces": "agent,no-rescue",
                "enabled_raid_interfaces": "no-raid",
                "enabled_bios_interfaces": "no-bios",
                "enabled_vendor_interfaces": "no-vendor",
                "enabled_firmware_interfaces": "no-firmware",
                "enabled_console_interfaces": "no-console",
            },
            "api": {"ramdisk_heartbeat_timeout": 30},
            "conductor": {
                **{f"deploy_{kind}": url for kind, url in ramdisk.items()},
                **{f"rescue_{kind}": url for kind, url in ramdisk.items()},
                "bootloader": self.file("esp.img"),
                "automated_clean": True,
                "sync_power_state_interval": 30,
                **{
                    f"{flow}_timeout": int(PATIENCE)
                    for flow in (
                        *("deploy_callback", "clean_callback", "service_callback"),
                        *("rescue_callback", "inspect_wait"),
                    )
                },
            },
            "deploy": {
                "http_server_host": self.address,
                "default_boot_mode": "uefi",
                "erase_devices_priority": 0,
                "erase_devices_metadata_priority": 10,
            },
            "agent": {"image_download_source": "http", "deploy_logs_local_path": folder / "logs"},
            "redfish": {"kernel_append_params": _KERNEL},
            "pxe": {
                "kernel_append_params": _KERNEL,
                "tftp_root": folder / "tftp",
                "tftp_master_path": folder / "tftp" / "master",
                "images_path": folder / "images",
                "instance_master_path": folder / "images" / "master",
            },
            "dhcp": {"dhcp_provider": "none"},
        }
