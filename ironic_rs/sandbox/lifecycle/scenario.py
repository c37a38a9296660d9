"""The life of a fleet: enroll, manage, inspect, provide, deploy, undeploy; checked on the way."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from ironic_rs.sandbox.lifecycle.client import (
    BaremetalCommand,
    LifecycleError,
    NodeView,
    Observer,
)
from ironic_rs.sandbox.lifecycle.progress import Progress, StageTiming
from ironic_rs.sandbox.settings import MIB

_POLL = 0.25
# A look at many nodes costs the service more: it is done less often.
_NODES_PER_POLL_SECOND = 200
_PARALLEL_DIGESTS = 8
_STARTABLE = ("enroll", "manageable", "available")
_USER_DATA = "#!/bin/sh\necho deployed by the sandbox\n"


@dataclass(frozen=True)
class Plan:
    """What to run against what.

    :param image_url: whole-disk raw image, as the machines reach it.
    :param image_file: the same image as a local file, to compare the disks with.
    :param stage_timeout: seconds that a stage may take.
    :param driver_info: added to the driver_info of every node.
    """

    api_url: str
    control_url: str
    image_url: str
    image_file: Path
    stage_timeout: float = 300.0
    inspect: bool = True
    undeploy: bool = True
    config_drive: bool = True
    driver_info: dict[str, str] | None = None
    baremetal: str | None = None


@dataclass(frozen=True)
class Image:
    """Size and SHA-256 digest (hex) of the image file."""

    size: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> Image:
        """Read an image file.

        :raises LifecycleError: it cannot be read.
        """
        hasher, size = hashlib.sha256(), 0
        try:
            with path.open("rb") as stream:
                while chunk := stream.read(MIB):
                    hasher.update(chunk)
                    size += len(chunk)
        except OSError as exc:
            raise LifecycleError(f"cannot read the image {path}: {exc.strerror}") from exc
        return cls(size, hasher.hexdigest())


@dataclass
class _Stage:
    """One verb on its way: which nodes are there, and after how many seconds."""

    verb: str
    target: str
    done: Callable[[NodeView], bool]
    begin: float = field(default_factory=time.monotonic)
    reached: dict[str, float] = field(default_factory=dict)

    def note(self, nodes: Mapping[str, NodeView]) -> None:
        """Look which nodes are there now."""
        seconds = time.monotonic() - self.begin
        for name, node in nodes.items():
            if node.state == self.target and self.done(node) and not node.locked:
                self.reached.setdefault(name, seconds)
            else:
                self.reached.pop(name, None)


class Scenario:
    """One run.  :meth:`run` raises :class:`LifecycleError` with the reason of a failure."""

    def __init__(self, plan: Plan, session: aiohttp.ClientSession, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._command = BaremetalCommand(plan.api_url, plan.baremetal)
        self._observer = Observer(session, plan.api_url, plan.control_url)
        self._states: dict[str, dict[str, str]] = {}
        self._names: list[str] = []
        self._pause = _POLL
        self.timings: list[StageTiming] = []

    async def run(self) -> None:
        """Live the whole life and check every promise."""
        image = await asyncio.to_thread(Image.of, self._plan.image_file)
        machines = await self._observer.machines()
        self._names = sorted(machines)
        self._pause = max(_POLL, len(machines) / _NODES_PER_POLL_SECOND)
        await self._enroll(machines)
        await self._verb("manage", "manageable", skip=("manageable",))
        if self._plan.inspect:
            await self._inspect()
        await self._verb("provide", "available")
        await self._set_image(image)
        options = ["--config-drive", _config_drive()] if self._plan.config_drive else []
        await self._verb("deploy", "active", *options)
        await self._check_active(image)
        if self._plan.undeploy:
            await self._verb("undeploy", "available")
            await self._check_clean(image)

    # -- stages ---------------------------------------------------------------------

    async def _enroll(self, machines: Mapping[str, dict[str, Any]]) -> None:
        self._progress.stage("enroll")
        begin = time.monotonic()
        known = await self._observer.nodes()
        for name in self._names:
            if name in known and known[name].state not in _STARTABLE:
                raise LifecycleError(
                    f"node {name} is {known[name].state}; a run starts from {', '.join(_STARTABLE)}"
                )
        new = [self._node(machines[name]) for name in self._names if name not in known]
        if new:
            await self._command.create({"nodes": new})
        nodes = await self._look()
        missing = [name for name in self._names if name not in nodes]
        if missing:
            raise LifecycleError(f"nodes are missing after enrolment: {', '.join(missing)}")
        self.timings.append(StageTiming("enroll", time.monotonic() - begin, []))

    def _node(self, machine: dict[str, Any]) -> dict[str, Any]:
        bmc = machine["bmc"]
        info = {
            "redfish_address": bmc["address"],
            "redfish_system_id": bmc["system_id"],
            **(self._plan.driver_info or {}),
        }
        if bmc["username"]:
            info["redfish_username"] = bmc["username"]
            info["redfish_password"] = bmc["password"]
        return {
            "name": machine["name"],
            "driver": "redfish",
            "boot_interface": "redfish-virtual-media",
            "deploy_interface": "direct",
            "inspect_interface": "redfish" if self._plan.inspect else "no-inspect",
            "resource_class": "sandbox",
            "driver_info": info,
            "properties": {"cpu_arch": "x86_64"},
            "ports": [{"address": mac} for mac in machine["macs"]],
        }

    async def _inspect(self) -> None:
        """Begins and ends in the same state: only the time of the inspection tells."""
        before = {name: node.inspected_at for name, node in (await self._observer.nodes()).items()}
        await self._verb(
            "inspect", "manageable", done=lambda node: node.inspected_at != before[node.name]
        )

    async def _verb(
        self,
        verb: str,
        target: str,
        *options: str,
        skip: Sequence[str] = (),
        done: Callable[[NodeView], bool] = lambda node: True,
    ) -> None:
        """One provision verb for all nodes, until all have ``target`` and are ``done``."""
        self._progress.stage(verb)
        stage = _Stage(verb, target, done)
        nodes = await self._observer.nodes()
        names = [name for name in self._names if nodes[name].state not in skip]
        if names:
            # Nodes that came first are on their way while the command still runs.
            command = asyncio.create_task(self._command.nodes([verb], names, *options))
            try:
                while not command.done():
                    stage.note(await self._look())
                    await asyncio.wait([command], timeout=self._pause)
                await command
            finally:
                command.cancel()
        await self._wait(stage)
        self.timings.append(
            StageTiming(verb, time.monotonic() - stage.begin, list(stage.reached.values()))
        )

    async def _wait(self, stage: _Stage) -> None:
        """Wait until all nodes are there.

        :raises LifecycleError: a node failed, or time is over.
        """
        deadline = time.monotonic() + self._plan.stage_timeout
        while True:
            nodes = await self._look()
            stage.note(nodes)
            for name in self._names:
                reason = _failure(nodes[name], stage.target)
                if reason:
                    raise LifecycleError(f"{stage.verb}: node {name} {reason}")
            late = [name for name in self._names if name not in stage.reached]
            if not late:
                return
            if time.monotonic() > deadline:
                states = [f"{name} ({nodes[name].state})" for name in late]
                raise LifecycleError(
                    f"{stage.verb}: after {self._plan.stage_timeout:.0f} s not {stage.target}: "
                    f"{', '.join(states)}"
                )
            await asyncio.sleep(self._pause)

    async def _look(self) -> dict[str, NodeView]:
        known = await self._observer.nodes()
        self._states = await self._observer.states()
        nodes = {name: known[name] for name in self._names if name in known}
        software = {name: self._states[name]["software"] for name in nodes}
        self._progress.update(nodes, software)
        return nodes

    async def _set_image(self, image: Image) -> None:
        values = {
            "image_source": self._plan.image_url,
            "image_os_hash_algo": "sha256",
            "image_os_hash_value": image.sha256,
            "image_disk_format": "raw",
            "image_type": "whole-disk",
        }
        options = [
            text for key, value in values.items() for text in ("--instance-info", f"{key}={value}")
        ]
        await self._command.nodes(["set"], self._names, *options)

    # -- checks ---------------------------------------------------------------------

    async def _check_active(self, image: Image) -> None:
        """All machines are active at one time, run the image and have its bytes on disk."""
        nodes = await self._observer.nodes()
        inactive = [name for name in self._names if nodes[name].state != "active"]
        if inactive:
            raise LifecycleError(f"not active together with the others: {', '.join(inactive)}")
        deadline = time.monotonic() + self._plan.stage_timeout
        while waiting := [
            name for name in self._names if self._states[name]["software"] != "instance"
        ]:
            if time.monotonic() > deadline:
                details = [f"{name}: {self._states[name]['detail']}" for name in waiting]
                raise LifecycleError("instances do not run: " + "; ".join(details))
            await asyncio.sleep(self._pause)
            await self._look()
        disks = await self._disks(image.size)
        wrong = [name for name, disk in disks.items() if disk["sha256"] != image.sha256]
        if wrong:
            raise LifecycleError(f"the disks differ from the image: {', '.join(sorted(wrong))}")
        if self._plan.config_drive:
            without = [name for name, disk in disks.items() if not disk["configdrive"]]
            if without:
                raise LifecycleError(f"no config drive on: {', '.join(sorted(without))}")
        self._progress.note(
            f"All {len(self._names)} machines are active at one time; the first {image.size} bytes "
            "of every disk match the image."
        )

    async def _check_clean(self, image: Image) -> None:
        """Nothing of the image boots any more, and the machines are off."""
        disks = await self._disks(image.size)
        dirty = [name for name, disk in disks.items() if disk["sha256"] == image.sha256]
        if dirty:
            raise LifecycleError(f"the image is still on the disk of: {', '.join(sorted(dirty))}")
        await self._look()
        running = [name for name in self._names if self._states[name]["software"] == "instance"]
        if running:
            raise LifecycleError(f"instances still run on: {', '.join(running)}")
        self._progress.note(f"All {len(self._names)} machines are available again, disks wiped.")

    async def _disks(self, length: int) -> dict[str, dict[str, Any]]:
        gate = asyncio.Semaphore(_PARALLEL_DIGESTS)

        async def one(name: str) -> tuple[str, dict[str, Any]]:
            async with gate:
                return name, await self._observer.disk(name, length)

        return dict(await asyncio.gather(*(one(name) for name in self._names)))


def _failure(node: NodeView, target: str) -> str | None:
    """Why a node will not get to ``target``; None while it may."""
    failed = node.state.endswith("failed") or node.state == "error"
    # A refused verification leaves the node in enroll, with the reason.
    refused = node.state == "enroll" and bool(node.last_error) and target == "manageable"
    if failed or refused:
        return f"is in state {node.state}: {node.last_error or 'no error recorded'}"
    return None


def _config_drive() -> str:
    return json.dumps({"meta_data": {"hostname": "sandbox"}, "user_data": _USER_DATA})
