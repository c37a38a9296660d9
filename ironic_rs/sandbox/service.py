"""The running sandbox: fleet, control endpoint, file server; from start to signal."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ironic_rs.sandbox.control import Control
from ironic_rs.sandbox.faults import FaultOption
from ironic_rs.sandbox.files import FileServer
from ironic_rs.sandbox.fleet import Fleet
from ironic_rs.sandbox.settings import Settings, SettingsError

LOG = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"


@dataclass(frozen=True)
class ServeOptions:
    """What to serve beside the machines.

    :param files: directory for the file server; None for no file server.
    """

    settings: Settings
    control_port: int
    faults: Sequence[FaultOption] = ()
    emulator: bool = False
    files: Path | None = None
    files_port: int = 0


async def serve(options: ServeOptions) -> None:
    """Run until SIGTERM or SIGINT.

    Once everything listens, ``sandbox.json`` in the sandbox directory says where:
    ``{"control": url, "files": url or null, "machines": n}``.

    :raises SettingsError: it cannot start; the text says why.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    ready_file = options.settings.directory / "sandbox.json"
    fleet = Fleet(options.settings, options.faults, emulator=options.emulator)
    ready_file.unlink(missing_ok=True)
    control = Control(fleet, ADDRESS, options.control_port)
    files = FileServer(options.files, ADDRESS, options.files_port) if options.files else None
    try:
        await fleet.start()
        try:
            control_url = await control.start()
            files_url = await files.start() if files else None
        except OSError as exc:
            raise SettingsError(f"cannot listen on {ADDRESS}: {exc}") from exc
        places = {"control": control_url, "files": files_url, "machines": len(fleet.machines)}
        _write(ready_file, json.dumps(places))
        LOG.info("sandbox ready: %s", places)
        await stop.wait()
    finally:
        ready_file.unlink(missing_ok=True)
        await control.stop()
        if files:
            await files.stop()
        await fleet.stop()


def _write(path: Path, text: str) -> None:
    """A reader never sees half a file."""
    temporary = path.with_suffix(".new")
    temporary.write_text(text)
    temporary.replace(path)
