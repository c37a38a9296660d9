"""The two ways to the API: the ``baremetal`` command for every change, plain HTTP to look."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

LOG = logging.getLogger(__name__)

# Nodes that one command is given: its argument list must not become too long.
_NODES_PER_COMMAND = 200
_API_VERSION = "1.80"
_FIELDS = (
    "uuid",
    "name",
    "provision_state",
    "target_provision_state",
    "power_state",
    "last_error",
    "reservation",
    "inspection_finished_at",
)
_PAGE = 1000


class LifecycleError(Exception):
    """The run failed; the text says where and why."""


@dataclass(frozen=True)
class NodeView:
    """What is shown and judged of a node."""

    name: str
    uuid: str
    state: str
    target: str | None
    power: str | None
    last_error: str | None
    inspected_at: str | None
    locked: bool


class BaremetalCommand:
    """Runs ``baremetal`` of python-ironicclient as a user would type it."""

    def __init__(self, api_url: str, executable: str | None = None) -> None:
        """:param executable: default: the one beside this Python, else on the PATH.

        :raises LifecycleError: there is none.
        """
        beside = Path(sys.executable).parent / "baremetal"
        found = executable or (str(beside) if beside.exists() else shutil.which("baremetal"))
        if found is None:
            raise LifecycleError(
                "the baremetal command is not installed: pip install python-ironicclient"
            )
        self._executable = found
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("OS_")},
            "OS_AUTH_TYPE": "none",
            "OS_ENDPOINT": api_url,
        }

    async def run(self, *arguments: str) -> str:
        """Run one command; returns its standard output.

        :raises LifecycleError: it failed.
        """
        LOG.debug("baremetal %s", " ".join(arguments))
        try:
            process = await asyncio.create_subprocess_exec(
                self._executable,
                *arguments,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as exc:
            raise LifecycleError(f"cannot run {self._executable}: {exc.strerror}") from exc
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            shown = " ".join(arguments[:6]) + (" ..." if len(arguments) > 6 else "")
            raise LifecycleError(
                f"`baremetal {shown}` ended with {process.returncode}: "
                f"{err.decode(errors='replace').strip() or out.decode(errors='replace').strip()}"
            )
        return out.decode(errors="replace")

    async def nodes(self, verb: Sequence[str], names: Sequence[str], *options: str) -> None:
        """``baremetal node <verb> <names...> <options...>``, in as few calls as possible."""
        for start in range(0, len(names), _NODES_PER_COMMAND):
            some = names[start : start + _NODES_PER_COMMAND]
            await self.run("node", *verb, *some, *options)

    async def create(self, resources: Mapping[str, Any]) -> None:
        """``baremetal create <file>``."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as stream:
            json.dump(resources, stream)
            stream.flush()
            await self.run("create", stream.name)


class Observer:
    """Reads states by HTTP, because starting a command for each look would be slow."""

    def __init__(self, session: aiohttp.ClientSession, api_url: str, control_url: str) -> None:
        self._session = session
        self._api, self._control = api_url.rstrip("/"), control_url.rstrip("/")

    async def nodes(self) -> dict[str, NodeView]:
        """All nodes that have a name, by name."""
        url = f"{self._api}/v1/nodes?limit={_PAGE}&fields={','.join(_FIELDS)}"
        headers = {"X-OpenStack-Ironic-API-Version": _API_VERSION}
        found = {}
        while url:
            page = await self._get(url, headers)
            for item in page["nodes"]:
                if item["name"]:
                    found[item["name"]] = _view(item)
            url = str(page.get("next") or "")
        return found

    async def machines(self) -> dict[str, dict[str, Any]]:
        """All about the simulated machines, by name."""
        document = await self._get(f"{self._control}/machines")
        return {item["name"]: item for item in document["machines"]}

    async def states(self) -> dict[str, dict[str, str]]:
        """``power``, ``software`` and ``detail`` of the simulated machines, by name."""
        return await self._get(f"{self._control}/states")

    async def disk(self, name: str, length: int) -> dict[str, Any]:
        """Digest of the first ``length`` bytes of a machine's disk."""
        return await self._get(f"{self._control}/machines/{name}/disk?bytes={length}")

    async def _get(self, url: str, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        try:
            async with self._session.get(url, headers=headers) as response:
                text = await response.text()
                if response.status != 200:
                    raise LifecycleError(f"GET {url} answered {response.status}: {text[:500]}")
                document = json.loads(text)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as exc:
            raise LifecycleError(f"GET {url} failed: {str(exc) or repr(exc)}") from exc
        if not isinstance(document, dict):
            raise LifecycleError(f"GET {url} answered no JSON object")
        return document


def _view(item: Mapping[str, Any]) -> NodeView:
    return NodeView(
        name=item["name"],
        uuid=item["uuid"],
        state=item["provision_state"],
        target=item["target_provision_state"],
        power=item["power_state"],
        last_error=item["last_error"],
        inspected_at=item["inspection_finished_at"],
        locked=bool(item["reservation"]),
    )
