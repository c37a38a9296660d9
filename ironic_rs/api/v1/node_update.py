"""PATCH of a node: checked here, applied by the conductor under the lock.

Source: specification rest-api.md section 8.4; field cases K02, K18.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from oslo_utils import strutils

from ironic_rs.api import policy
from ironic_rs.api.args import BOOLEAN, Arg, too_new
from ironic_rs.api.call import Call, Reply
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import node_checks, node_view
from ironic_rs.db import allocations as db_allocations
from ironic_rs.domain import errors, fields, patch, states

ARGS = (Arg("reset_interfaces", BOOLEAN, since=V.RESET_INTERFACES),)

PATCHABLE = fields.NODE.names("P")
_COLUMNS = tuple(
    dict.fromkeys(
        (
            *(n for n in PATCHABLE if n != "chassis_uuid"),
            "chassis_uuid",
            "console_enabled",
            "provision_state",
            "target_provision_state",
            "allocation_uuid",
        )
    )
)

#: Policy of a patch by path prefix, first match wins (section 8.4).
_RULES: tuple[tuple[str, str], ...] = (
    ("/instance_info", "update_instance_info"),
    ("/instance_name", "update_instance_info"),
    ("/extra", "update_extra"),
    ("/driver_info", "update:driver_info"),
    ("/properties", "update:properties"),
    ("/chassis_uuid", "update:chassis_uuid"),
    ("/instance_uuid", "update:instance_uuid"),
    ("/lessee", "update:lessee"),
    ("/owner", "update:owner"),
    ("/network_data", "update:network_data"),
    ("/conductor_group", "update:conductor_group"),
    ("/name", "update:name"),
    ("/retired", "update:retired"),
    ("/shard", "update:shard"),
    ("/parent_node", "update:parent_node"),
    ("/disable_power_off", "update:disable_power_off"),
    ("/driver", "update:driver_interfaces"),
    *((f"/{name}", "update:driver_interfaces") for name in fields.INTERFACE_FIELDS),
)

#: All rules that a patch may ask.
RULES = tuple(
    f"baremetal:node:{rule}"
    for rule in dict.fromkeys(("update", "disable_cleaning", *(rule for _, rule in _RULES)))
)


def update_node(call: Call) -> Reply:
    """PATCH /v1/nodes/{node}."""
    ops = patch.validate(call.body, escapes=call.has(V.PATCH_ESCAPES))
    _check_enrolment_boot_mode(call, ops)
    patch.check_roots(ops, PATCHABLE)
    _check_versions(call, ops)
    reset = bool(call.args["reset_interfaces"])
    if reset and not patch.values(ops, "/driver"):
        raise errors.InvalidParameterValue(
            "reset_interfaces can only be used together with a new value of /driver."
        )
    for value in patch.values(ops, "/network_data"):
        node_checks.check_network_data(call.conf, value)

    node = node_view.find(call, call.path["node"], _COLUMNS)
    call.authorize(policy.node_target(node), *_policies(ops))
    ops = _convert(ops)
    _resolve_parent(call, node, ops)
    _check_state(call, node, ops)
    for value in patch.values(ops, "/name"):
        node_checks.check_name(call, value)
    after = _apply(node, ops)
    _check_chassis_removal(call, ops)
    if after["driver"] != node["driver"] and node["console_enabled"]:
        raise errors.Conflict(
            f"Node {node['uuid']} has its console enabled: stop the console before the driver "
            "is changed."
        )
    # The conductor that will own the node afterwards takes the lock.
    target = {
        "uuid": node["uuid"],
        "driver": after["driver"],
        "conductor_group": after["conductor_group"],
    }
    call.conductors.update_node(call.context, target, _on_columns(ops), reset)
    return node_view.show(call, node["uuid"])


def _check_enrolment_boot_mode(call: Call, ops: Sequence[patch.Operation]) -> None:
    for value in patch.values(ops, "/properties/capabilities"):
        node_checks.check_boot_mode(call.conf, {"capabilities": value})
    for value in patch.values(ops, "/properties"):
        node_checks.check_boot_mode(call.conf, value)


def _check_versions(call: Call, ops: Sequence[patch.Operation]) -> None:
    for op in ops:
        row = fields.NODE.by_name[patch.root(op)]
        if op["op"] != "remove" and row.since > call.minor:
            raise too_new(f"Field '{row.name}' of a node", row.since, call.minor)


def _policies(ops: Sequence[patch.Operation]) -> tuple[str, ...]:
    rules = dict.fromkeys(f"baremetal:node:{_policy(op)}" for op in ops)
    return tuple(rules) or ("baremetal:node:update",)


def _policy(op: patch.Operation) -> str:
    if op["path"] == "/automated_clean" and _is_false(op.get("value")):
        return "disable_cleaning"
    for prefix, rule in _RULES:
        if op["path"].startswith(prefix):
            return rule
    return "update"


def _is_false(value: Any) -> bool:
    """Tell whether a value of a boolean field says no, in any of its spellings."""
    return value is not None and not strutils.bool_from_string(value)


def _convert(ops: Sequence[patch.Operation]) -> list[patch.Operation]:
    """Check and convert the values that become whole fields."""
    converted = patch.convert(ops, fields.NODE)
    for op in converted:
        if op["path"] == "/conductor_group" and op["op"] != "remove":
            op["value"] = op["value"].lower()
    return converted


def _resolve_parent(call: Call, node: Mapping[Any, Any], ops: list[patch.Operation]) -> None:
    owner = node["owner"]
    for op in ops:
        if op["path"] == "/owner":
            owner = op.get("value")
    for op in ops:
        if op["path"] == "/parent_node" and op.get("value") is not None:
            op["value"] = node_checks.parent_uuid(call, op["value"], owner)


def _check_state(call: Call, node: Mapping[Any, Any], ops: Sequence[patch.Operation]) -> None:
    if (
        node["maintenance"]
        and len(ops) == 1
        and ops[0]["op"] == "remove"
        and ops[0]["path"] == "/instance_uuid"
    ):
        return
    state = node["provision_state"]
    if node["target_provision_state"] and state not in states.UPDATE_ALLOWED:
        raise errors.Conflict(
            f"Node {node['uuid']} can not be updated while a state transition is in progress "
            f"(provision state '{state}', target '{node['target_provision_state']}')."
        )
    if state == states.INSPECTING and call.has(V.INSPECT_WAIT):
        raise errors.Conflict(
            f"Node {node['uuid']} can not be updated in provision state '{state}'."
        )
    if any(patch.root(op) == "owner" for op in ops):
        _check_owner_change(call, node)


def _check_owner_change(call: Call, node: Mapping[Any, Any]) -> None:
    if node["provision_state"] == states.ACTIVE and not call.allows(
        "baremetal:node:update_owner_provisioned", policy.node_target(node)
    ):
        raise errors.Conflict(
            f"The owner of node {node['uuid']} can not be changed while it is provisioned."
        )
    allocation = node["allocation_uuid"]
    if allocation is not None and db_allocations.get(allocation).owner:
        raise errors.Conflict(
            f"The owner of node {node['uuid']} can not be changed while it has an allocation "
            "with an owner."
        )


def _apply(node: Mapping[Any, Any], ops: Sequence[patch.Operation]) -> dict[str, Any]:
    """Try the patch on the record as read; the conductor repeats it under the lock."""
    document = {name: node[name] for name in PATCHABLE}
    after = patch.apply(document, ops, fields.NODE)
    touched = {patch.root(op) for op in ops}
    for name in touched:
        after[name] = fields.NODE.by_name[name].convert(after[name], "node")
    return after


def _check_chassis_removal(call: Call, ops: Sequence[patch.Operation]) -> None:
    for op in ops:
        if op["path"] == "/chassis_uuid" and op.get("value") is None:
            call.require(V.CHASSIS_REMOVAL, "Taking a node out of its chassis")


def _on_columns(ops: Sequence[patch.Operation]) -> list[patch.Operation]:
    """Return the patch with the names and values of the database columns."""
    return [
        {
            "op": "replace",
            "path": "/chassis_id",
            "value": node_checks.chassis_id(op.get("value")),
        }
        if op["path"] == "/chassis_uuid"
        else op
        for op in ops
    ]
