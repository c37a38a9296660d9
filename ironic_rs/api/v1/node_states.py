"""States of a node, and PUT of all of them but provision.

Source: specification rest-api.md sections 9.1, 9.2.
"""

from __future__ import annotations

from typing import Any

from ironic_rs.api import documents
from ironic_rs.api.args import BOOLEAN, TEXT, Arg
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import node_view
from ironic_rs.db import nodes as db_nodes
from ironic_rs.domain import errors, raid, states
from ironic_rs.domain.fields import show
from ironic_rs.domain.fields.kinds import Integer, String

_SOFT = (states.SOFT_REBOOT, states.SOFT_POWER_OFF)


def _power_targets(minor: int) -> documents.Schema:
    return documents.one_of(
        [t for t in states.POWER_TARGET if minor >= V.SOFT_POWER or t not in _SOFT]
    )


POWER_ARGS = (
    Arg("target", TEXT, required=True, form=_power_targets),
    Arg("timeout", Integer(minimum=1), late=V.SOFT_POWER),
)
BOOT_MODE_ARGS = (Arg("target", String(choices=("bios", "uefi")), required=True),)
SECURE_BOOT_ARGS = (Arg("target", BOOLEAN, required=True),)
CONSOLE_ARGS = (Arg("enabled", BOOLEAN, required=True),)
CONSOLE = documents.Shape(
    "whether the console is on, and how to reach it",
    documents.record(
        {"console_enabled": documents.BOOLEAN, "console_info": documents.or_null(documents.OBJECT)}
    ),
)
RAID = documents.Shape(
    "the target RAID configuration", {"anyOf": [documents.record({}), raid.SCHEMA]}
)

_CLEANING = (states.CLEANING, states.CLEANWAIT)


def show_states(call: Call) -> Reply:
    """GET /v1/nodes/{node}/states."""
    view = node_view.STATES.detail(call.minor)
    row = node_view.load(call, node_view.single_columns(view))
    return Reply(view.render(row, call), revision=db_nodes.revision_of(row))


def set_power(call: Call) -> Reply:
    """PUT /v1/nodes/{node}/states/power."""
    target, timeout = call.args["target"], call.args["timeout"]
    row = node_view.load(call, ("provision_state", "disable_power_off"))
    if target in _SOFT:
        call.require(V.SOFT_POWER, f"Power target '{target}'")
    if timeout is not None:
        call.require(V.SOFT_POWER, "A timeout of a power action")
    if target not in states.POWER_TARGET:
        raise errors.InvalidParameterValue(
            f"Invalid power target {show(target)}; accepted: {', '.join(states.POWER_TARGET)}."
        )
    # A power action would disturb a running clean step without telling it.
    if row["provision_state"] in _CLEANING:
        raise errors.InvalidStateRequested(
            action=target, node=row["uuid"], state=row["provision_state"]
        )
    if row["disable_power_off"] and states.POWER_TARGET[target] == states.POWER_OFF:
        raise errors.Conflict(
            f"Node {row['uuid']} must not be powered off: disable_power_off is set."
        )
    call.conductors.change_node_power_state(call.context, row, target, timeout)
    return Reply(location=node_view.state_path(call))


def set_raid(call: Call) -> None:
    """PUT /v1/nodes/{node}/states/raid."""
    if not isinstance(call.body, dict):
        raise errors.InvalidParameterValue(
            "The request body must be a JSON object: the target RAID configuration."
        )
    row = node_view.load(call)
    try:
        call.conductors.set_target_raid_config(call.context, row, call.body)
    except errors.UnsupportedDriverExtension as exc:
        raise errors.NotFound(str(exc)) from exc


def set_boot_mode(call: Call) -> Reply:
    """PUT /v1/nodes/{node}/states/boot_mode."""
    row = _load_for_boot(call)
    _refuse_unstable(row, "boot mode")
    call.conductors.change_node_boot_mode(call.context, row, call.args["target"])
    return Reply(location=node_view.state_path(call))


def set_secure_boot(call: Call) -> Reply:
    """PUT /v1/nodes/{node}/states/secure_boot."""
    row = _load_for_boot(call)
    _refuse_unstable(row, "secure boot")
    call.conductors.change_node_secure_boot(call.context, row, call.args["target"])
    return Reply(location=node_view.state_path(call))


def _load_for_boot(call: Call) -> Any:
    row = node_view.load(call, ("provision_state",))
    # Only who may do it hears that it is too new: these two routes are late.
    call.require(V.BOOT_MODE, f"{call.route.method} {call.route.path}", 404)
    return row


def _refuse_unstable(row: Any, what: str) -> None:
    if row["provision_state"] in states.UNSTABLE:
        raise errors.Conflict(
            f"The {what} of node {row['uuid']} can not be changed while it is in provision state "
            f"'{row['provision_state']}'."
        )


def show_console(call: Call) -> dict[str, Any]:
    """GET /v1/nodes/{node}/states/console, and the same in the order of old clients."""
    row = node_view.load(call)
    try:
        info = call.conductors.get_console_information(call.context, row)
    except errors.NodeConsoleNotEnabled:
        return {"console_enabled": False, "console_info": None}
    return {"console_enabled": True, "console_info": info}


def set_console(call: Call) -> Reply:
    """PUT /v1/nodes/{node}/states/console."""
    row = node_view.load(call)
    call.conductors.set_console_mode(call.context, row, call.args["enabled"])
    return Reply(location=node_view.state_path(call, "/console"))
