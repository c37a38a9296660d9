"""All machines of a sandbox, and what serves them."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Iterable, Iterator
from typing import Protocol

import aiohttp

from ironic_rs.sandbox import directory
from ironic_rs.sandbox.agent.agent import Agent
from ironic_rs.sandbox.emulator import EmulatorBmcs
from ironic_rs.sandbox.faults import FaultOption, apply_options
from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.redfish.service import Bmc
from ironic_rs.sandbox.settings import Settings, SettingsError

LOG = logging.getLogger(__name__)

_READ_BUFFER = 1024**2
_PARALLEL_STARTS = 100
# BMC, client of it, agent, client of that, downloads, disk.
_DESCRIPTORS_PER_MACHINE = 8
_DESCRIPTORS_BESIDES = 200


class BmcBackend(Protocol):
    """Where the BMCs of a fleet are."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def expire_sessions(self, machine: Machine) -> int:
        """End the sessions of a machine's BMC; returns their number."""


class OwnBmcs:
    """One Redfish service for each machine, in this process."""

    def __init__(self, machines: Iterable[Machine]) -> None:
        self._bmcs = {machine.spec.index: Bmc(machine) for machine in machines}

    async def start(self) -> None:
        for bmc in self._bmcs.values():
            try:
                await bmc.start()
            except OSError as exc:
                spec = bmc.machine.spec
                raise SettingsError(
                    f"cannot listen on {spec.address}:{spec.bmc_port} for {spec.name}: "
                    f"{exc.strerror}; is another sandbox running?"
                ) from exc

    async def stop(self) -> None:
        await asyncio.gather(*(bmc.stop() for bmc in self._bmcs.values()))

    def expire_sessions(self, machine: Machine) -> int:
        return self._bmcs[machine.spec.index].expire_sessions()


def allow_descriptors(machines: int) -> None:
    """Raise the limit of open files as far as the fleet needs and the system lets us.

    :raises SettingsError: the hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = machines * _DESCRIPTORS_PER_MACHINE + _DESCRIPTORS_BESIDES
    if needed <= soft:
        return
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise SettingsError(
            f"{machines} machines need {needed} open files, the limit is {hard}: "
            "raise it (ulimit -n) or take fewer machines"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Fleet:
    """Create, start, find and stop machines.

    Must be made inside a running event loop.
    """

    def __init__(
        self,
        settings: Settings,
        faults: Iterable[FaultOption] = (),
        *,
        emulator: bool = False,
    ) -> None:
        """:param emulator: BMCs by sushy-tools instead of our own ones."""
        directory.prepare(settings.directory)
        self.settings = settings
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=0),
            timeout=aiohttp.ClientTimeout(total=None, connect=30, sock_read=60),
            read_bufsize=_READ_BUFFER,
        )
        options = list(faults)
        self.machines: list[Machine] = []
        for index in range(settings.machines):
            machine = Machine(settings.spec(index), settings, self.session, Agent)
            apply_options(machine.faults, machine.spec, options)
            self.machines.append(machine)
        self.bmcs: BmcBackend = (
            EmulatorBmcs(self.machines, settings, self.session)
            if emulator
            else OwnBmcs(self.machines)
        )
        self._by_key: dict[str, Machine] = {}
        for machine in self.machines:
            for key in (machine.spec.name, machine.spec.uuid, str(machine.spec.index + 1)):
                self._by_key[key] = machine

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines)

    def find(self, key: str) -> Machine | None:
        """A machine by name, UUID or number (from 1)."""
        return self._by_key.get(key)

    async def start(self) -> None:
        """Make the disks and start the BMCs.

        :raises SettingsError: an address is taken, or a file is not usable.
        """
        allow_descriptors(len(self.machines))
        gate = asyncio.Semaphore(_PARALLEL_STARTS)

        async def prepare(machine: Machine) -> None:
            async with gate:
                await asyncio.to_thread(machine.prepare)

        await asyncio.gather(*(prepare(machine) for machine in self.machines))
        await self.bmcs.start()
        LOG.info("machines=%d directory=%s", len(self.machines), self.settings.directory)

    async def stop(self) -> None:
        """Switch everything off."""
        await asyncio.gather(*(machine.close() for machine in self.machines))
        await self.bmcs.stop()
        await self.session.close()
