"""Commands of the agent API and their results (agent-protocol sections 6 and 7)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ironic_rs.sandbox.agent import images, inventory, steps
from ironic_rs.sandbox.agent.errors import AgentError, invalid

if TYPE_CHECKING:
    from ironic_rs.sandbox.agent.agent import Agent

LOG = logging.getLogger(__name__)

RUNNING, SUCCEEDED, FAILED = "RUNNING", "SUCCEEDED", "FAILED"
VERSION_MISMATCH = "CLEAN_VERSION_MISMATCH"

Handler = Callable[..., Awaitable[Any]]


class VersionMismatch(Exception):
    """The conductor's list of steps was made by another version of the agent."""


@dataclass(frozen=True)
class Command:
    """A command: ``handler(agent, **params)``; asynchronous ones answer RUNNING."""

    handler: Handler
    asynchronous: bool = False


@dataclass
class Result:
    """One execution of a command."""

    name: str
    status: str = RUNNING
    error: Mapping[str, Any] | None = None
    result: Any = None
    identity: str = field(default_factory=lambda: str(uuid.uuid4()))
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def to_json(self) -> dict[str, Any]:
        """The result on the wire."""
        return {
            "id": self.identity,
            "command_name": self.name,
            "command_status": self.status,
            "command_error": self.error,
            "command_result": self.result,
        }


class CommandQueue:
    """All commands since the agent started; at most one runs at a time."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.results: list[Result] = []

    def find(self, identity: str) -> Result | None:
        """A result by its id."""
        return next((item for item in self.results if item.identity == identity), None)

    def cancel(self) -> None:
        """The agent ends: so do its commands."""
        for result in self.results:
            if result.task is not None:
                result.task.cancel()

    async def submit(self, name: Any, params: Any, *, wait: bool) -> Result:
        """Run a command; a synchronous one, or any with ``wait``, to its end.

        :raises AgentError: the request is refused.
        """
        if not isinstance(name, str) or not isinstance(params, Mapping):
            raise invalid("name has to be a text and params an object")
        extension, dot, short = name.partition(".")
        if not dot:
            raise invalid(f"command name {name!r} has no extension")
        if extension not in EXTENSIONS:
            raise AgentError("RequestedObjectNotFoundError", "Extension not found", extension, 404)
        command = COMMANDS.get(name)
        if command is None:
            raise invalid(f"unknown command {name}")
        if self.results and self.results[-1].status == RUNNING:
            raise AgentError(
                "AgentIsBusy", "Agent is busy", f"executing command {self.results[-1].name}", 409
            )
        self._agent.machine.counters.add(f"agent.command.{name}")
        result = Result(short)
        self.results.append(result)
        run = self._execute(command, name, params, result)
        if not command.asynchronous:
            await run
        else:
            result.task = asyncio.create_task(run)
            if wait:
                await asyncio.wait([result.task])
        return result

    async def _execute(
        self, command: Command, name: str, params: Mapping[str, Any], result: Result
    ) -> None:
        try:
            inspect.signature(command.handler).bind(self._agent, **params)
            value = await command.handler(self._agent, **params)
            if isinstance(value, str):
                value = {"result": f"{result.name}: {value}" if command.asynchronous else value}
            result.result = value
            result.status = SUCCEEDED
        except VersionMismatch as exc:
            result.error = AgentError("VersionMismatch", "Version mismatch", str(exc)).to_json()
            result.status = VERSION_MISMATCH
        except AgentError as exc:
            result.error, result.status = exc.to_json(), FAILED
        except Exception as exc:
            LOG.debug("machine=%s %s failed", self._agent.machine.spec.name, name, exc_info=True)
            error = AgentError(type(exc).__name__, "Command execution error", str(exc))
            result.error, result.status = error.to_json(), FAILED
        self._agent.log(f"command {name} {result.status}")
        if command.asynchronous:
            self._agent.force_heartbeat()


# -- steps --------------------------------------------------------------------------


def _list_steps(kind: str) -> Handler:
    async def handler(_agent: Agent, node: Any, ports: Any) -> dict[str, Any]:
        return steps.listing(kind)

    return handler


def _execute_step(kind: str) -> Handler:
    async def handler(agent: Agent, **params: Any) -> dict[str, Any]:
        step, node = params.get("step"), params.get("node")
        if not isinstance(step, Mapping) or "step" not in step or "interface" not in step:
            raise invalid("params.step needs step and interface")
        if not isinstance(node, Mapping) or not isinstance(params.get("ports"), list):
            raise invalid("params need node and ports")
        version = params.get(f"{kind}_version")
        if version is not None and version != steps.VERSION:
            raise VersionMismatch(f"agent has {steps.VERSION}, the conductor knows {version}")
        interface, name = str(step["interface"]), str(step["step"])
        found = steps.find(kind, interface, name)
        await _suffer_faults(agent, kind, interface, name)
        arguments = step.get("args") or {}
        agent.machine.counters.add(f"agent.step.{interface}.{name}")
        value = await found.run(agent, node, arguments)
        return {f"{kind}_result": value, f"{kind}_step": step}

    return handler


async def _suffer_faults(agent: Agent, kind: str, interface: str, name: str) -> None:
    faults = agent.machine.faults
    if faults.agent_step_seconds:
        await asyncio.sleep(faults.agent_step_seconds)
    if faults.take_restart(interface, name):
        agent.log(f"restart in the middle of {interface}.{name}")
        agent.machine.restart_agent()
        # The restart ends this agent and with it this task.
        await asyncio.Event().wait()
    if faults.fails(interface, name):
        raise AgentError(
            "CleaningError" if kind == "clean" else "DeploymentError",
            f"Error executing the {kind} step",
            f"injected fault in {interface}.{name}",
        )


# -- standby, image -----------------------------------------------------------------


async def _prepare_image(
    agent: Agent, image_info: Any, metadata: Any = None, files: Any = None, configdrive: Any = None
) -> Any:
    step = steps.find("deploy", "deploy", "write_image")
    return await step.run(agent, {}, {"image_info": image_info, "configdrive": configdrive})


async def _partition_uuids(agent: Agent) -> dict[str, Any]:
    return await asyncio.to_thread(images.partition_uuids, agent.machine)


async def _power_off(agent: Agent) -> None:
    agent.machine.halt()


async def _run_image(agent: Agent) -> None:
    agent.machine.reboot()


async def _sync(agent: Agent) -> None:
    """Writes go straight to the file: there is nothing to flush."""


async def _install_bootloader(
    agent: Agent,
    root_uuid: Any,
    efi_system_part_uuid: Any = None,
    prep_boot_part_uuid: Any = None,
    target_boot_mode: str = "bios",
) -> None:
    if agent.machine.disk.image is None:
        raise AgentError("DeploymentError", "Cannot install the boot loader", "no image written")


# -- the rest -----------------------------------------------------------------------


async def _collect_logs(agent: Agent) -> dict[str, Any]:
    return {"system_logs": inventory.packed_logs(agent.log_lines)}


async def _finalize_rescue(agent: Agent, rescue_password: str, hashed: bool = False) -> None:
    if not hashed:
        raise invalid("only hashed rescue passwords are accepted")
    agent.machine.rescue_hash = rescue_password
    agent.stop_serving("rescued")


async def _lockdown(agent: Agent) -> None:
    agent.stop_serving("locked down")


COMMANDS: dict[str, Command] = {
    "clean.get_clean_steps": Command(_list_steps("clean")),
    "clean.execute_clean_step": Command(_execute_step("clean"), asynchronous=True),
    "deploy.get_deploy_steps": Command(_list_steps("deploy")),
    "deploy.execute_deploy_step": Command(_execute_step("deploy"), asynchronous=True),
    "service.get_service_steps": Command(_list_steps("service")),
    "service.execute_service_step": Command(_execute_step("service"), asynchronous=True),
    "standby.prepare_image": Command(_prepare_image, asynchronous=True),
    "standby.get_partition_uuids": Command(_partition_uuids),
    "standby.power_off": Command(_power_off, asynchronous=True),
    "standby.run_image": Command(_run_image, asynchronous=True),
    "standby.sync": Command(_sync),
    "image.install_bootloader": Command(_install_bootloader, asynchronous=True),
    "log.collect_system_logs": Command(_collect_logs),
    "rescue.finalize_rescue": Command(_finalize_rescue),
    "system.lockdown": Command(_lockdown),
}
EXTENSIONS = frozenset(name.partition(".")[0] for name in COMMANDS)
