"""Step kinds as data, and the rules about steps that need no I/O.

One engine runs clean, deploy and service steps (and a simpler loop runs verify
steps); what differs between the kinds is in :data:`KINDS`.

Source: specification conductor.md section 9, data/reserved-steps.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from ironic_rs.domain import errors, states

Step = dict[str, Any]


class StepNode(Protocol):
    """What these rules need of a node record."""

    uuid: Any
    provision_state: Any
    clean_step: Any
    deploy_step: Any
    service_step: Any
    driver_internal_info: Any


@dataclass(frozen=True)
class StepKind:
    """Everything that differs between the kinds of steps.

    :param name: ``clean``, ``deploy``, ``service`` or ``verify``.
    :param label: word used in texts (``cleaning``, ``deployment``, ...).
    :param field: node column that holds the running step.
    :param steps_key: driver_internal_info key of the plan (a list of steps).
    :param index_key: driver_internal_info key of the position in the plan.
    :param running: state in which a worker runs steps.
    :param wait: state in which nobody owns the node until a call-back.
    :param hold: state of a paused flow.
    :param failed: state after a failure.
    :param reboot_flag: a reboot was issued; lost contact means "wait".
    :param polling_flag: a driver periodic watches the step.
    :param skip_flag: False = run the same step again on continue.
    :param cached_key: cached in-band steps by interface.
    :param ramdisk_key: driver_internal_info key that says "no ramdisk".
    :param interface_priority: which interfaces give steps, and their order.
    """

    name: str
    label: str
    field: str
    steps_key: str
    index_key: str
    running: str
    wait: str
    hold: str
    failed: str
    reboot_flag: str
    polling_flag: str
    skip_flag: str
    cached_key: str
    ramdisk_key: str | None
    interface_priority: Mapping[str, int]


_COMMON_PRIORITY = {
    "vendor": 7,
    "power": 6,
    "management": 5,
    "firmware": 4,
    "deploy": 3,
    "bios": 2,
    "raid": 1,
}

CLEAN = StepKind(
    name="clean",
    label="cleaning",
    field="clean_step",
    steps_key="clean_steps",
    index_key="clean_step_index",
    running=states.CLEANING,
    wait=states.CLEANWAIT,
    hold=states.CLEANHOLD,
    failed=states.CLEANFAIL,
    reboot_flag="cleaning_reboot",
    polling_flag="cleaning_polling",
    skip_flag="skip_current_clean_step",
    cached_key="agent_cached_clean_steps",
    ramdisk_key="cleaning_disable_ramdisk",
    interface_priority=_COMMON_PRIORITY,
)
DEPLOY = StepKind(
    name="deploy",
    label="deployment",
    field="deploy_step",
    steps_key="deploy_steps",
    index_key="deploy_step_index",
    running=states.DEPLOYING,
    wait=states.DEPLOYWAIT,
    hold=states.DEPLOYHOLD,
    failed=states.DEPLOYFAIL,
    reboot_flag="deployment_reboot",
    polling_flag="deployment_polling",
    skip_flag="skip_current_deploy_step",
    cached_key="agent_cached_deploy_steps",
    ramdisk_key=None,
    interface_priority=_COMMON_PRIORITY,
)
SERVICE = StepKind(
    name="service",
    label="servicing",
    field="service_step",
    steps_key="service_steps",
    index_key="service_step_index",
    running=states.SERVICING,
    wait=states.SERVICEWAIT,
    hold=states.SERVICEHOLD,
    failed=states.SERVICEFAIL,
    reboot_flag="servicing_reboot",
    polling_flag="servicing_polling",
    skip_flag="skip_current_service_step",
    cached_key="agent_cached_service_steps",
    ramdisk_key="service_disable_ramdisk",
    interface_priority={"network": 8, **_COMMON_PRIORITY},
)

#: The kinds that the step engine runs, by name.
KINDS: Mapping[str, StepKind] = {k.name: k for k in (CLEAN, DEPLOY, SERVICE)}

VERIFY_INTERFACE_PRIORITY: Mapping[str, int] = {
    "power": 13,
    "management": 12,
    "firmware": 11,
    "inspect": 10,
    "deploy": 9,
    "boot": 8,
    "bios": 7,
    "raid": 6,
    "vendor": 5,
    "network": 4,
    "storage": 3,
    "console": 2,
    "rescue": 1,
}

#: Step names that the conductor itself runs, in the order of the check.
RESERVED = ("power_on", "power_off", "reboot", "hold", "wait")


_KIND_OF_STATE = {
    state: kind
    for kind in KINDS.values()
    for state in (kind.running, kind.wait, kind.hold, kind.failed)
}


def kind_of(node: StepNode) -> StepKind:
    """Return the kind of the step that runs on the node (deploy if none does)."""
    known = _KIND_OF_STATE.get(node.provision_state)
    if known is not None:
        return known
    if node.clean_step:
        return CLEAN
    if node.service_step:
        return SERVICE
    return DEPLOY


def without_ramdisk(node: StepNode, kind: StepKind) -> bool:
    """Tell whether the flow of the kind runs on the node without booting a ramdisk."""
    key = kind.ramdisk_key
    return key is not None and bool(node.driver_internal_info.get(key))


def wait_state(node: StepNode) -> str:
    """Return what an asynchronous step method must return for this node.

    :raises InvalidState: no step is running.
    """
    if not (node.clean_step or node.service_step or node.deploy_step):
        raise errors.InvalidState(
            f"Node {node.uuid} runs no step: nothing to wait for in state '{node.provision_state}'."
        )
    return kind_of(node).wait


def set_flags(
    node: StepNode,
    *,
    reboot: bool | None = None,
    skip_current: bool | None = None,
    polling: bool | None = None,
    kind: StepKind | None = None,
) -> None:
    """Set the flags of an asynchronous step in driver_internal_info (not saved).

    ``reboot`` and ``skip_current`` are written when given; ``polling`` is written
    when given and removed otherwise.  A reboot also drops the agent token unless
    it was pre-generated (the next ramdisk gets a new one).
    """
    kind = kind or kind_of(node)
    info: MutableMapping[str, Any] = node.driver_internal_info
    if reboot is not None:
        info[kind.reboot_flag] = reboot
        if reboot and not info.get("agent_secret_token_pregenerated"):
            info.pop("agent_secret_token", None)
    if skip_current is not None:
        info[kind.skip_flag] = skip_current
    if polling is None:
        info.pop(kind.polling_flag, None)
    else:
        info[kind.polling_flag] = polling


def step_id(step: Mapping[str, Any] | None) -> str:
    """Return ``interface.step``."""
    if not step:
        return ""
    return f"{step.get('interface')}.{step.get('step')}"


def sort_steps(steps: Iterable[Step], interface_priority: Mapping[str, int]) -> list[Step]:
    """Sort by priority, then by the interface's own; highest first, stable."""
    return sorted(
        steps,
        key=lambda s: (s.get("priority", 0), interface_priority.get(s.get("interface", ""), 0)),
        reverse=True,
    )


#: Key of driver_internal_info of a BIOS step that has rebooted the machine.
BIOS_STATE = "redfish_bios_state"

#: Firmware updates under way, the one that runs first: of the firmware interface, and of
#: the management step ``update_firmware``.
FIRMWARE_UPDATES, FIRMWARE_IMAGES = "redfish_fw_updates", "firmware_updates"

#: When the first of either began, in seconds since the epoch.
FIRMWARE_STARTED = "redfish_fw_update_start_time"

_FIRMWARE_STATE = (FIRMWARE_UPDATES, FIRMWARE_IMAGES, FIRMWARE_STARTED)

#: RAID volumes under way.  Stays when a flow fails: what came of them is looked up then.
RAID_STATE = "raid_configs"

#: A step that starts anew must not take what an aborted one left for its own.
_ALL_FLAGS = (
    *(flag for k in KINDS.values() for flag in (k.reboot_flag, k.polling_flag, k.skip_flag)),
    BIOS_STATE,
    *_FIRMWARE_STATE,
)


def _drop(info: MutableMapping[str, Any], *keys: str) -> None:
    for key in keys:
        info.pop(key, None)


def wipe_flags(node: StepNode) -> None:
    """Remove the flags of all kinds (not saved)."""
    _drop(node.driver_internal_info, *_ALL_FLAGS)


def wipe_firmware_state(node: StepNode) -> None:
    """Forget firmware updates (not saved)."""
    _drop(node.driver_internal_info, *_FIRMWARE_STATE)


def wipe_token_and_url(node: StepNode) -> None:
    """Forget the agent: token, address and certificate (not saved)."""
    _drop(
        node.driver_internal_info,
        "agent_secret_token",
        "agent_secret_token_pregenerated",
        "agent_url",
        "agent_verify_ca",
    )


def wipe_on_power_off(node: StepNode) -> None:
    """Forget what dies with the running ramdisk (not saved)."""
    info = node.driver_internal_info
    if not info.get("agent_secret_token_pregenerated"):
        info.pop("agent_secret_token", None)
    _drop(
        info,
        "agent_url",
        *(kind.cached_key for kind in KINDS.values()),
        "agent_verify_ca",
        "agent_start_attempted",
    )


def wipe_deploy_info(node: StepNode, *, keep_agent: bool = False) -> None:
    """Forget the plan of a deployment (not saved).

    :param keep_agent: the node is fast-track able; keep token and address.
    """
    if not keep_agent:
        wipe_token_and_url(node)
    info = node.driver_internal_info
    info["deploy_steps"] = None
    _drop(
        info,
        "user_deploy_steps",
        "agent_cached_deploy_steps",
        "deploy_step_index",
        "steps_validated",
        "image_source",
        "agent_start_attempted",
    )
    wipe_flags(node)


def wipe_clean_info(node: StepNode, *, keep_agent: bool = False) -> None:
    """Forget the plan of a cleaning (not saved)."""
    if not keep_agent:
        wipe_token_and_url(node)
    info = node.driver_internal_info
    info["clean_steps"] = None
    _drop(
        info,
        "agent_cached_clean_steps",
        "clean_step_index",
        "cleaning_disable_ramdisk",
        "steps_validated",
        "declarative_cleaning",
        "agent_start_attempted",
    )
    wipe_flags(node)


def wipe_service_info(node: StepNode) -> None:
    """Forget the plan of a servicing, and the agent in any case (not saved)."""
    wipe_token_and_url(node)
    info = node.driver_internal_info
    info["service_steps"] = None
    _drop(
        info,
        "agent_cached_service_steps",
        "service_step_index",
        "service_disable_ramdisk",
        "steps_validated",
        "image_source",
        "agent_start_attempted",
    )
    wipe_flags(node)
