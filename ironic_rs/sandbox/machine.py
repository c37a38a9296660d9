"""One simulated machine: power, boot order, virtual media, disk, and what runs on it.

The BMC (``redfish``) changes a machine by :meth:`Machine.reset` and the boot and media
attributes; an agent or an instance that runs on it asks for :meth:`Machine.halt` and
:meth:`Machine.reboot`, as an operating system would.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from ironic_rs.sandbox import media
from ironic_rs.sandbox.counters import Counters
from ironic_rs.sandbox.disk import Disk
from ironic_rs.sandbox.faults import Faults
from ironic_rs.sandbox.raid import Raid
from ironic_rs.sandbox.settings import MachineSpec, Settings

LOG = logging.getLogger(__name__)

ON, OFF = "On", "Off"
POWERING_ON, POWERING_OFF = "PoweringOn", "PoweringOff"
RESET_TYPES = (
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "GracefulRestart",
    "ForceRestart",
    "PowerCycle",
    "PushPowerButton",
    "Nmi",
)
BOOT_TARGETS = ("None", "Pxe", "Cd", "Hdd", "UsbCd", "UefiHttp", "BiosSetup")
CD_TARGETS = ("Cd", "UsbCd")


class AgentProcess(Protocol):
    """What a machine needs to know of the agent that runs on it."""

    state: str

    async def run(self) -> None:
        """Work until cancelled."""

    def to_json(self) -> dict[str, Any]: ...


AgentFactory = Callable[["Machine", media.BootMedium], AgentProcess]


@dataclass
class BootOverride:
    """BootSourceOverride of the system."""

    enabled: str = "Disabled"
    target: str = "None"
    mode: str = "UEFI"
    http_uri: str = ""


@dataclass
class VirtualMedium:
    """One virtual media device of the BMC."""

    device: str
    media_types: tuple[str, ...] | None
    #: The BMC offers to insert and to eject.
    usable: bool = True
    image: str = ""
    inserted: bool = False
    write_protected: bool = True
    username: str = ""
    transfer_protocol: str = ""
    transfer_method: str = ""

    def eject(self) -> None:
        """Back to an empty drive."""
        self.image = self.username = self.transfer_protocol = self.transfer_method = ""
        self.inserted = False
        self.write_protected = True


@dataclass
class Firmware:
    """Settings that a boot applies."""

    bios: dict[str, Any] = field(
        default_factory=lambda: {
            "BootMode": "Uefi",
            "EmbeddedSata": "Raid",
            "NumaGroup": 1,
            "ProcTurboMode": "Enabled",
            "SandboxCounter": 0,
        }
    )
    pending_bios: dict[str, Any] = field(default_factory=dict)
    #: What the BMC says of settings that the last boot did not apply.
    bios_complaint: str = ""
    versions: dict[str, str] = field(
        default_factory=lambda: {"bios": "1.0.0", "bmc": "1.0.0", "nic": "1.0.0"}
    )
    #: Updates: part, version, state (TaskState), text, image (URL) and its sha256, empty
    #: when it could not be read, and script (what ``update_states`` said, as far as left).
    tasks: list[dict[str, str]] = field(default_factory=list)
    secure_boot: bool = False
    pending_secure_boot: bool | None = None

    def apply(self, bios_complaint: str = "", update_complaint: str = "") -> None:
        """What happens at the next boot.

        :param bios_complaint: why BIOS settings are not applied, if they are not.
        :param update_complaint: why new firmware is not, if it is not.
        """
        self.bios_complaint = bios_complaint if self.pending_bios else ""
        if not bios_complaint:
            self.bios.update(self.pending_bios)
        self.pending_bios.clear()
        for task in self.tasks:
            if task["part"] != "bmc" and task["state"] == "Starting" and not task["script"]:
                self.finish(task, update_complaint)
        if self.pending_secure_boot is not None:
            self.secure_boot = self.pending_secure_boot
            self.pending_secure_boot = None

    def finish(self, task: dict[str, str], complaint: str = "") -> None:
        """End an update, with success unless there is a complaint."""
        if complaint:
            task.update(state="Exception", text=complaint)
            return
        self.versions[task["part"]] = task["version"]
        task["state"] = "Completed"


class Machine:
    """State and life of one machine.  Everything runs in the event loop of the fleet."""

    def __init__(
        self,
        spec: MachineSpec,
        settings: Settings,
        session: aiohttp.ClientSession,
        agent_factory: AgentFactory,
    ) -> None:
        self.spec = spec
        self.settings = settings
        self.session = session
        self.faults = Faults()
        self.counters = Counters()
        self.folder: Path = settings.directory / "machines" / spec.name
        self.disk = Disk(self.folder, settings.directory, settings.disk_bytes)
        self.power = OFF
        self.boot = BootOverride()
        self.boot_order = ["Hdd", "Cd", "Pxe"]
        self.firmware = Firmware()
        self.raid = Raid(settings.raid)
        self.virtual_media = {
            "Cd": VirtualMedium("Cd", ("CD", "DVD")),
            "Removable": VirtualMedium("Removable", ("Floppy", "USBStick")),
        }
        self.indicator = "Off"
        #: Power states of systems beside this one: redfish/others.py.
        self.other_systems: dict[str, str] = {}
        self._lies = 0
        self._odd_slots: tuple[str, dict[str, VirtualMedium]] = ("", {})
        self.subscriptions: dict[str, dict[str, Any]] = {}
        self.subscribed = 0
        self.bmc_url = ""
        #: With ``bmc_tls``: whom a client of the BMC has to trust.
        self.bmc_certificate = self.folder / "bmc.pem"
        self.configdrive_path = self.folder / "configdrive.iso"
        self.configdrive: dict[str, Any] | None = None
        self.rescue_hash: str | None = None
        self.volumes: list[dict[str, Any]] = []
        self.software = "none"
        self.detail = ""
        self.in_post = False
        self.agent: AgentProcess | None = None
        self.history: list[dict[str, str]] = []
        # With an external BMC the power switch is elsewhere: see emulator.py.
        self.power_switch: Callable[[str], Awaitable[None]] | None = None
        self._agent_factory = agent_factory
        self._medium: media.BootMedium | None = None
        self._transition: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._downloads: set[asyncio.Task[None]] = set()
        self._latest: asyncio.Task[None] | None = None

    # -- set-up ---------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the folder and the disk (blocking)."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.disk.attach()

    async def close(self) -> None:
        """Switch off at once, whatever runs."""
        await _cancel(self._transition)
        for download in list(self._downloads):
            await _cancel(download)
        await self._stop_software()
        self.power = OFF

    # -- power ----------------------------------------------------------------------

    def reset(self, reset_type: str) -> None:
        """A power request of the BMC; returns at once, the state follows.

        :param reset_type: one of :data:`RESET_TYPES`.
        """
        self.counters.add(f"bmc.reset.{reset_type}")
        if self.faults.power_stuck or reset_type == "Nmi":
            return
        if reset_type == "PushPowerButton":
            reset_type = "GracefulShutdown" if self.power == ON else "On"
        self._change(lambda: self._perform(reset_type, self.settings.shutdown_delay))

    def halt(self) -> None:
        """The operating system powers the machine off."""
        if not self.faults.power_stuck:
            self._change(lambda: self._from_inside("ForceOff"))

    def reboot(self) -> None:
        """The operating system restarts the machine."""
        if not self.faults.power_stuck:
            self._change(lambda: self._from_inside("ForceRestart"))

    def restart_agent(self) -> bool:
        """Start the agent anew without a boot; False if none runs."""
        medium = self._medium
        if medium is None:
            return False
        self._change(lambda: self._restart_agent(medium))
        return True

    def _change(self, transition: Callable[[], Awaitable[None]]) -> None:
        """Begin a transition in place of the one that may be under way: the latest counts."""
        previous = self._transition

        async def follow() -> None:
            await _cancel(previous)
            await transition()

        self._transition = asyncio.create_task(follow(), name=f"{self.spec.name} power")

    async def _from_inside(self, reset_type: str) -> None:
        await asyncio.sleep(self.settings.shutdown_delay)
        if self.power_switch is not None:
            await self.power_switch(reset_type)
        else:
            await self._perform(reset_type, 0.0)

    async def _perform(self, reset_type: str, graceful_delay: float) -> None:
        if reset_type.startswith("Graceful"):
            await asyncio.sleep(graceful_delay)
        if reset_type in ("On", "ForceOn"):
            if self.power == OFF or self._running is None:
                await self._switch_on()
        elif reset_type in ("ForceOff", "GracefulShutdown"):
            await self._switch_off()
        elif reset_type == "PowerCycle":
            await self._switch_off()
            await self._switch_on()
        elif self.power == OFF:
            await self._switch_on()
        else:
            await self._stop_software()
            self.start_software()

    async def _switch_on(self) -> None:
        if self.settings.power_delay:
            self.power = POWERING_ON
            await asyncio.sleep(self.settings.power_delay)
        self.power = ON
        self.start_software()

    async def _switch_off(self) -> None:
        if self.power == OFF:
            return
        if self.settings.power_delay:
            self.power = POWERING_OFF
            await asyncio.sleep(self.settings.power_delay)
        await self._lose_power()

    async def _lose_power(self) -> None:
        try:
            await self._stop_software()
        finally:
            # Also when a newer request comes in between: the software is gone by then.
            self.power = OFF
            self._note("none", "powered off")

    async def observe_power(self, power: str) -> None:
        """An external BMC switched the machine."""
        if power == self.power:
            return
        if power == ON:
            self.power = ON
            self.start_software()
        elif power == OFF:
            await self._lose_power()

    # -- what runs ------------------------------------------------------------------

    def start_software(self) -> None:
        """Begin to boot."""
        self._run(self._boot)

    def _run(self, software: Callable[[], Awaitable[None]]) -> None:
        ending = self._latest

        async def follow() -> None:
            await _cancel(ending)
            await software()

        self._running = asyncio.create_task(follow(), name=f"{self.spec.name} software")
        self._latest = self._running

    async def _stop_software(self) -> None:
        running, self._running = self._running, None
        self.agent = None
        self._medium = None
        await _cancel(running)

    async def _restart_agent(self, medium: media.BootMedium) -> None:
        await self._stop_software()
        self._run(lambda: self._run_agent(medium))

    def _note(self, software: str, detail: str) -> None:
        self.software, self.detail = software, detail
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.history.append({"time": now, "software": software, "detail": detail})
        del self.history[:-50]
        LOG.info("machine=%s software=%r detail=%r", self.spec.name, software, detail)

    def boot_sequence(self) -> list[str]:
        """Devices that this boot tries; a one-time override is used up by asking."""
        boot = self.boot
        sequence = list(self.boot_order)
        if boot.enabled in ("Once", "Continuous") and boot.target != "None":
            sequence = [boot.target, *(item for item in sequence if item != boot.target)]
        if boot.enabled == "Once":
            boot.enabled, boot.target = "Disabled", "None"
        return sequence

    async def _boot(self) -> None:
        self.counters.add("machine.boots")
        self.in_post = True
        self._note("firmware", "power-on self-test")
        try:
            await asyncio.sleep(self.settings.boot_delay)
            await self._hold()
            self.firmware.apply(self.faults.bios_complaint, self.faults.update_complaint)
            self.raid.work(self.faults.raid_complaint, boots=True)
            self.in_post = False
            reasons = []
            for device in self.boot_sequence():
                reason = await self._boot_from(device)
                if reason is None:
                    return
                reasons.append(f"{device}: {reason}")
            self._note("firmware", "nothing to boot. " + "; ".join(reasons))
        except Exception as exc:
            LOG.exception("machine=%s boot failed", self.spec.name)
            self._note("firmware", f"boot failed: {exc!r}")

    async def _hold(self) -> None:
        """Stay in the self-test as long as a fault wants it."""
        if self.faults.boot_held:
            self.faults.boot_held -= 1
            return
        while self.faults.boot_held == 0:
            await asyncio.sleep(0.05)

    async def _boot_from(self, device: str) -> str | None:
        """Boot from one device and stay there while the software runs.

        :returns: the reason why it does not boot.
        """
        if device in CD_TARGETS:
            for medium in self.media_slots().values():
                if medium.inserted and {"CD", "DVD"} & set(medium.media_types or ()):
                    return await self._boot_iso(medium.image)
            return "no medium inserted"
        if device == "UefiHttp":
            if not self.boot.http_uri:
                return "no HttpBootUri set"
            return await self._boot_iso(self.boot.http_uri)
        if device == "Hdd":
            return await self._boot_disk()
        return "not simulated"

    async def _boot_disk(self) -> str | None:
        reason = await asyncio.to_thread(self.disk.why_not_bootable)
        if reason is None and self.disk.image is not None:
            self._note("instance", f"runs {self.disk.image.name}")
        return reason

    async def _boot_iso(self, url: str) -> str | None:
        path = self.folder / "medium.iso"
        try:
            await media.fetch(self.session, url, path)
            medium = await asyncio.to_thread(media.read_iso, path)
        except media.MediaError as exc:
            return str(exc)
        finally:
            path.unlink(missing_ok=True)
        if medium.runs_agent:
            await self._run_agent(medium)
        else:
            self._note("instance", f"runs the ISO {medium.label}")
        return None

    async def _run_agent(self, medium: media.BootMedium) -> None:
        self.counters.add("agent.boots")
        self._medium = medium
        self._note("agent", "ramdisk started")
        self.agent = self._agent_factory(self, medium)
        try:
            await self.agent.run()
        except Exception as exc:
            LOG.exception("machine=%s agent crashed", self.spec.name)
            self._note("agent", f"agent crashed: {exc!r}")

    # -- firmware -------------------------------------------------------------------

    def download(self, update: dict[str, str]) -> None:
        """Let the BMC read the image of an update, which goes on with that."""
        task = asyncio.create_task(self._download(update), name=f"{self.spec.name} firmware")
        self._downloads.add(task)
        task.add_done_callback(self._downloads.discard)

    async def _download(self, update: dict[str, str]) -> None:
        path = self.folder / "firmware.bin"
        try:
            await media.fetch(self.session, update["image"], path)
            content = await asyncio.to_thread(path.read_bytes)
            update["sha256"] = hashlib.sha256(content).hexdigest()
        except media.MediaError as exc:
            LOG.info("machine=%s %s", self.spec.name, exc)
        finally:
            path.unlink(missing_ok=True)
        update["state"] = "Starting"

    # -- views ----------------------------------------------------------------------

    def reported_power(self) -> str | None:
        """PowerState that the BMC shows."""
        lies = self.faults.power_lie.split()
        if not lies:
            return self.power
        self._lies += 1
        lie = lies[(self._lies - 1) % len(lies)]
        return None if lie == "null" else lie

    def media_slots(self) -> dict[str, VirtualMedium]:
        """Virtual media devices by name, as the BMC has them now."""
        text = self.faults.media_slots
        if not text:
            return self.virtual_media
        if text != self._odd_slots[0]:
            self._odd_slots = (text, _slots(text))
        return self._odd_slots[1]

    def to_json(self) -> dict[str, Any]:
        """State for the control endpoint."""
        image = self.disk.image
        return {
            "name": self.spec.name,
            "uuid": self.spec.uuid,
            "index": self.spec.index,
            "macs": list(self.spec.macs),
            "bmc": {
                "address": self.bmc_url,
                "system_id": self.spec.system_path,
                "username": self.settings.username,
                "password": self.settings.password,
                "certificate": str(self.bmc_certificate) if self.settings.bmc_tls else None,
            },
            "power": self.power,
            "software": self.software,
            "detail": self.detail,
            "boot": {
                "enabled": self.boot.enabled,
                "target": self.boot.target,
                "mode": self.boot.mode,
                "order": list(self.boot_order),
            },
            "media": {
                name: {"inserted": medium.inserted, "image": medium.image}
                for name, medium in self.media_slots().items()
            },
            "agent": self.agent.to_json() if self.agent else None,
            "image": (
                {"name": image.name, "size": image.size, "sha256": image.sha256} if image else None
            ),
            "configdrive": self.configdrive,
            "volumes": list(self.volumes),
            "raid_volumes": self.raid.to_json(),
            "firmware": {
                "versions": dict(self.firmware.versions),
                "updates": [dict(update) for update in self.firmware.tasks],
            },
            "faults": self.faults.to_json(),
            "history": list(self.history),
        }


async def _cancel(task: asyncio.Task[None] | None) -> None:
    """Cancel a task and wait for its end; a cancelled caller does not wait."""
    if task is not None and not task.done():
        task.cancel()
        await asyncio.wait([task])


def _slots(text: str) -> dict[str, VirtualMedium]:
    """Make the slots of the fault ``media_slots``."""
    made = {}
    for number, word in enumerate(text.split(), 1):
        types = word.removesuffix("!")
        known: tuple[str, ...] | None = tuple(types.split("+"))
        if types in ("-", "null"):
            known = () if types == "-" else None
        name = f"Slot{number}"
        made[name] = VirtualMedium(name, known, usable=not word.endswith("!"))
    return made
