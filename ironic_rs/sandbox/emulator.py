"""BMCs by the emulator of sushy-tools: an independent judge of what a BMC does.

Its fake driver keeps power states and boot devices and nothing runs on its systems, so
this module watches them over Redfish and lets the simulated machines follow.  It knows
no sessions, switches with a delay of its own (1 to 11 s) and cannot be inspected.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import bcrypt

from ironic_rs.sandbox.machine import OFF, ON, Machine
from ironic_rs.sandbox.settings import Settings, SettingsError

LOG = logging.getLogger(__name__)

_ADDRESS = "127.0.0.1"
_POLL = 0.5
_START_LIMIT = 60.0
_STOP_LIMIT = 10.0
# The emulator hashes the password for each request: the cheapest hash will do.
_BCRYPT_ROUNDS = 4


class EmulatorBmcs:
    """One emulator process with one system for each machine."""

    def __init__(
        self, machines: Iterable[Machine], settings: Settings, session: aiohttp.ClientSession
    ) -> None:
        """:raises SettingsError: sushy-tools is not installed."""
        beside = Path(sys.executable).parent / "sushy-emulator"
        found = str(beside) if beside.exists() else shutil.which("sushy-emulator")
        if found is None:
            raise SettingsError("--bmc=sushy-tools needs the package sushy-tools")
        self._executable = found
        self._machines = list(machines)
        self._settings = settings
        self._session = session
        self._auth = aiohttp.BasicAuth(settings.username, settings.password)
        self._folder = settings.directory / "emulator"
        self._process: asyncio.subprocess.Process | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._url = ""

    async def start(self) -> None:
        """Start the emulator and wait until it answers."""
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "tmp").mkdir(parents=True)
        port = self._settings.bmc_port or _free_port()
        self._url = f"http://{_ADDRESS}:{port}"
        configuration = self._folder / "emulator.conf"
        configuration.write_text(_configuration(self._machines, self._settings, self._folder))
        with (self._folder / "emulator.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                self._executable,
                "--config",
                str(configuration),
                "--interface",
                _ADDRESS,
                "--port",
                str(port),
                env={**os.environ, "TMPDIR": str(self._folder / "tmp")},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        await self._wait_ready()
        for machine in self._machines:
            machine.bmc_url = self._url
            machine.power_switch = self._switch_of(machine)
            self._watchers.append(asyncio.create_task(self._watch(machine)))

    async def _wait_ready(self) -> None:
        process = self._process
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_LIMIT):
                while process is not None and process.returncode is None:
                    with contextlib.suppress(aiohttp.ClientError, OSError):
                        async with self._session.get(f"{self._url}/redfish/v1/") as response:
                            if response.status == 200:
                                return
                    await asyncio.sleep(0.1)
        await self.stop()
        raise SettingsError(f"the emulator did not start; see {self._folder / 'emulator.log'}")

    async def stop(self) -> None:
        """End the emulator."""
        for watcher in self._watchers:
            watcher.cancel()
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), _STOP_LIMIT)
        except TimeoutError:
            process.kill()
            await process.wait()

    def expire_sessions(self, _machine: Machine) -> int:
        """The emulator has no sessions."""
        return 0

    def _switch_of(self, machine: Machine) -> Any:
        async def switch(reset_type: str) -> None:
            url = f"{self._url}{machine.spec.system_path}/Actions/ComputerSystem.Reset"
            body = {"ResetType": reset_type}
            async with self._session.post(url, json=body, auth=self._auth) as response:
                LOG.debug("machine=%s %s: %s", machine.spec.name, reset_type, response.status)

        return switch

    async def _get(self, path: str) -> dict[str, Any]:
        async with self._session.get(f"{self._url}{path}", auth=self._auth) as response:
            response.raise_for_status()
            document: dict[str, Any] = await response.json()
            return document

    async def _watch(self, machine: Machine) -> None:
        """Let a machine follow the power state of its system."""
        path = machine.spec.system_path
        while True:
            try:
                system = await self._get(path)
                if system["PowerState"] == ON and machine.power == OFF:
                    await self._take_over(machine, system)
                await machine.observe_power(system["PowerState"])
            except (aiohttp.ClientError, OSError, KeyError) as exc:
                LOG.warning("machine=%s emulator: %r", machine.spec.name, exc)
            await asyncio.sleep(_POLL)

    async def _take_over(self, machine: Machine, system: dict[str, Any]) -> None:
        """Boot device and medium of the system, right before the machine boots."""
        medium = await self._get(f"{machine.spec.system_path}/VirtualMedia/Cd")
        own = machine.virtual_media["Cd"]
        own.image, own.inserted = medium.get("Image") or "", bool(medium.get("Inserted"))
        boot = system.get("Boot", {})
        # The emulator has no one-time override.
        machine.boot.enabled = "Continuous"
        machine.boot.target = boot.get("BootSourceOverrideTarget") or "None"
        machine.boot.mode = boot.get("BootSourceOverrideMode") or "UEFI"


def _configuration(machines: Iterable[Machine], settings: Settings, folder: Path) -> str:
    """The configuration file of the emulator, in Python as it wants it."""
    password = settings.password.encode()
    hashed = bcrypt.hashpw(password, bcrypt.gensalt(_BCRYPT_ROUNDS, prefix=b"2b")).decode()
    (folder / "htpasswd").write_text(f"{settings.username}:{hashed}\n")
    systems, storage, drives = [], {}, {}
    volumes: dict[tuple[str, str], list[str]] = {}
    for machine in machines:
        spec = machine.spec
        systems.append(
            {
                "uuid": spec.uuid,
                "name": spec.name,
                "power_state": OFF,
                "external_notifier": False,
                "nics": [{"mac": mac, "ip": spec.address} for mac in spec.macs],
            }
        )
        controller = {"MemberId": "0", "Name": "Simulated controller", "SpeedGbps": 12}
        storage[spec.uuid] = [
            {
                "Id": "1",
                "Name": "Local storage",
                "StorageControllers": [controller],
                "Drives": ["Disk.0"],
            }
        ]
        drives[(spec.uuid, "1")] = [
            {
                "Id": "Disk.0",
                "Name": "Disk 0",
                "CapacityBytes": settings.disk_bytes,
                "Protocol": "SATA",
            }
        ]
        volumes[(spec.uuid, "1")] = []
    values = {
        "SUSHY_EMULATOR_FAKE_DRIVER": True,
        "SUSHY_EMULATOR_FAKE_SYSTEMS": systems,
        "SUSHY_EMULATOR_STATE_DIR": str(folder),
        "SUSHY_EMULATOR_AUTH_FILE": str(folder / "htpasswd"),
        "SUSHY_EMULATOR_STORAGE": storage,
        "SUSHY_EMULATOR_DRIVES": drives,
        "SUSHY_EMULATOR_VOLUMES": volumes,
    }
    return "".join(f"{key} = {value!r}\n" for key, value in values.items())


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_ADDRESS, 0))
        return int(found.getsockname()[1])
