"""In-band clean, deploy and service steps of the simulated agent."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironic_rs.sandbox.agent import images
from ironic_rs.sandbox.agent.errors import AgentError, unsupported

if TYPE_CHECKING:
    from ironic_rs.sandbox.agent.agent import Agent

MANAGER = "GenericHardwareManager"
VERSION = {"generic_hardware_manager": "1.2"}

Run = Callable[["Agent", Mapping[str, Any], Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Step:
    """One in-band step.

    :param kinds: the lists that show it, each with its priority there.
    :param run: ``run(agent, node, arguments)``; its value is the result of the step.
    """

    interface: str
    name: str
    kinds: Mapping[str, int]
    run: Run
    argsinfo: Mapping[str, Any] | None = None
    abortable: bool = True

    def to_json(self, kind: str) -> dict[str, Any]:
        """Entry of the list of ``kind``."""
        return {
            "step": self.name,
            "interface": self.interface,
            "priority": self.kinds[kind],
            "reboot_requested": False,
            "abortable": self.abortable,
            "argsinfo": self.argsinfo,
        }


async def _erase_devices(agent: Agent, _node: Any, _arguments: Any) -> None:
    await asyncio.to_thread(agent.machine.disk.erase)
    _drop_configdrive(agent)


async def _erase_metadata(agent: Agent, _node: Any, _arguments: Any) -> None:
    await asyncio.to_thread(agent.machine.disk.wipe_metadata)
    _drop_configdrive(agent)


def _drop_configdrive(agent: Agent) -> None:
    agent.machine.configdrive = None
    agent.machine.configdrive_path.unlink(missing_ok=True)


async def _nothing(_agent: Agent, _node: Any, _arguments: Any) -> None:
    """Steps on hardware that a simulated machine does not have."""


async def _write_image(agent: Agent, _node: Any, arguments: Mapping[str, Any]) -> str:
    machine = agent.machine
    info = arguments.get("image_info")
    if not isinstance(info, Mapping):
        raise AgentError("InvalidCommandParamsError", "Invalid command params", "no image_info")
    # A new image comes without the old config drive.
    _drop_configdrive(agent)
    await images.write_image(machine, info, allow_md5=agent.allow_md5)
    configdrive = arguments.get("configdrive") or info.get("configdrive")
    if configdrive:
        content = await images.read_configdrive(machine, str(configdrive))
        await asyncio.to_thread(machine.configdrive_path.write_bytes, content)
        machine.configdrive = {
            "size": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
    image = machine.disk.image
    return f"image {info['id']} written, {image.size if image else 0} bytes"


async def _raid_delete(agent: Agent, _node: Any, _arguments: Any) -> None:
    agent.machine.volumes = []


async def _raid_create(agent: Agent, node: Mapping[str, Any], arguments: Mapping[str, Any]) -> Any:
    """Make the volumes of the target of the node, as a RAID controller would."""
    if arguments:
        raise AgentError(
            "TypeError", "Command execution error", f"unexpected arguments {sorted(arguments)}"
        )
    return _make_volumes(agent, node.get("target_raid_config") or {})


async def _raid_apply(agent: Agent, _node: Any, arguments: Mapping[str, Any]) -> Any:
    if arguments.get("delete_existing", True):
        agent.machine.volumes = []
    return _make_volumes(agent, arguments.get("raid_config") or {})


def _make_volumes(agent: Agent, config: Mapping[str, Any]) -> Mapping[str, Any]:
    machine = agent.machine
    wanted = config.get("logical_disks") or []
    if machine.volumes and wanted:
        raise AgentError(
            "RAIDError",
            "Error creating RAID volumes",
            f"{len(machine.volumes)} volumes exist: delete the configuration first",
        )
    made = [
        {"volume_name": f"volume{number}", **disk} for number, disk in enumerate(wanted, start=1)
    ]
    machine.volumes = made
    return {**config, "logical_disks": made} if made else {}


async def _inject_files(_agent: Agent, _node: Any, _arguments: Any) -> None:
    raise unsupported("inject_files: the simulated agent does not mount file systems")


async def _bootc(_agent: Agent, _node: Any, _arguments: Any) -> None:
    raise unsupported("execute_bootc_install: the simulated agent runs no commands")


_WRITE_ARGUMENTS = {
    "image_info": {"description": "image to write", "required": True},
    "configdrive": {"description": "config drive", "required": False},
}
_RAID_ARGUMENTS = {
    "raid_config": {"description": "target RAID configuration", "required": True},
    "delete_existing": {"description": "delete the existing configuration", "required": False},
}
_FILES_ARGUMENTS = {
    "files": {"description": "files to inject", "required": False},
    "verify_ca": {"description": "verification of TLS", "required": False},
}
_CLEAN, _DEPLOY, _SERVICE = "clean", "deploy", "service"
_EVERYWHERE_BUT_DEPLOY = {_CLEAN: 0, _SERVICE: 0}

STEPS = (
    Step("deploy", "erase_devices", {_CLEAN: 10}, _erase_devices),
    Step("deploy", "erase_devices_metadata", {_CLEAN: 99, _DEPLOY: 0}, _erase_metadata),
    Step("deploy", "erase_devices_express", {_CLEAN: 0}, _erase_devices),
    Step("deploy", "erase_pstore", {_CLEAN: 0}, _nothing),
    Step("deploy", "clean_uefi_nvram", {_CLEAN: 0, _DEPLOY: 0, _SERVICE: 0}, _nothing),
    Step("deploy", "burnin_cpu", _EVERYWHERE_BUT_DEPLOY, _nothing),
    Step("deploy", "burnin_memory", _EVERYWHERE_BUT_DEPLOY, _nothing),
    Step("deploy", "burnin_network", _EVERYWHERE_BUT_DEPLOY, _nothing),
    Step("deploy", "burnin_disk", {_CLEAN: 0}, _nothing),
    Step("raid", "delete_configuration", _EVERYWHERE_BUT_DEPLOY, _raid_delete),
    Step("raid", "create_configuration", _EVERYWHERE_BUT_DEPLOY, _raid_create),
    Step("raid", "apply_configuration", {_DEPLOY: 0, _SERVICE: 0}, _raid_apply, _RAID_ARGUMENTS),
    Step(
        "deploy",
        "write_image",
        {_DEPLOY: 0, _SERVICE: 0},
        _write_image,
        _WRITE_ARGUMENTS,
        abortable=False,
    ),
    Step("deploy", "inject_files", {_DEPLOY: 0, _SERVICE: 0}, _inject_files, _FILES_ARGUMENTS),
    Step("deploy", "execute_bootc_install", {_DEPLOY: 0, _SERVICE: 0}, _bootc),
)


def listing(kind: str) -> dict[str, Any]:
    """Result of ``get_<kind>_steps``."""
    shown = [step.to_json(kind) for step in STEPS if kind in step.kinds]
    return {f"{kind}_steps": {MANAGER: shown}, "hardware_manager_version": dict(VERSION)}


def find(kind: str, interface: str, name: str) -> Step:
    """The step of a kind.

    :raises AgentError: there is none.
    """
    for step in STEPS:
        if kind in step.kinds and (step.interface, step.name) == (interface, name):
            return step
    raise AgentError(
        f"{kind.capitalize()}ingError" if kind == _CLEAN else "DeploymentError",
        f"Cannot execute the {kind} step",
        f"no hardware manager has the {kind} step {interface}.{name}",
    )
