"""A sandbox inside the test process, for clients that block."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ironic_rs.sandbox.fleet import Fleet
from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.settings import Settings

T = TypeVar("T")
_LIMIT = 60.0


class Sandbox:
    """A fleet on an event loop of its own thread; delays are zero unless given."""

    def __init__(self, directory: Path, *, emulator: bool = False, **settings: Any) -> None:
        # Free ports: several test runs share the machine.
        values = {
            "machines": 1,
            "network": "127.0.0.1/32",
            "bmc_port": 0,
            "agent_port": 0,
            "boot_delay": 0.0,
            "shutdown_delay": 0.0,
            "heartbeat_gap": 0.0,
            "retry_interval": 0.01,
            "disk_bytes": 16 * 1024**2,
        }
        self.settings = Settings(directory=directory, **{**values, **settings})
        self._emulator = emulator
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.fleet: Fleet

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop of the fleet and wait for its value."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_LIMIT)

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function in the loop of the fleet."""

        async def calling() -> T:
            return function(*arguments)

        return self.run(calling())

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait until ``condition`` holds in the loop; fails after a minute."""

        async def waiting() -> None:
            async with asyncio.timeout(_LIMIT):
                while not condition():
                    await asyncio.sleep(0.005)

        try:
            self.run(waiting())
        except TimeoutError:
            states = [machine.to_json() for machine in self.fleet]
            raise AssertionError(f"waited in vain for: {what}; {states}") from None

    @property
    def machine(self) -> Machine:
        """The first machine."""
        return self.fleet.machines[0]

    def start(self) -> None:
        self._thread.start()

        async def starting() -> Fleet:
            fleet = Fleet(self.settings, emulator=self._emulator)
            await fleet.start()
            return fleet

        self.fleet = self.run(starting())

    def stop(self) -> None:
        self.run(self.fleet.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_LIMIT)
        self._loop.close()


@contextlib.contextmanager
def running(directory: Path, **settings: Any) -> Iterator[Sandbox]:
    """A started sandbox, stopped at the end."""
    sandbox = Sandbox(directory, **settings)
    sandbox.start()
    try:
        yield sandbox
    finally:
        sandbox.stop()
