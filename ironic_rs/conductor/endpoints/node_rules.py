"""What may be changed of a node, and when: the rules of ``update_node``.

Pure checks on the record under the lock, plus what has to change with it.

Source: specification conductor.md section 10.13, field-cases.md K02 and K05.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ironic_rs.db import models, nodes
from ironic_rs.domain import errors, fields, patch, states
from ironic_rs.domain.fields import INTERFACE_FIELDS
from ironic_rs.drivers.registry import DriverRegistry

_COLUMNS = frozenset(models.Node.__table__.columns.keys())
#: Longest chain of parents that is followed.
_MOST_ANCESTORS = 32
#: What may be said of a node whatever happens to it.
_ANY_TIME = frozenset({"maintenance", "maintenance_reason"})
#: Only the conductor writes these, whatever a patch says.
_PRIVATE = frozenset(
    {
        "id",
        "uuid",
        "reservation",
        "provision_state",
        "target_provision_state",
        "power_state",
        "target_power_state",
        "driver_internal_info",
        "allocation_id",
        "conductor_affinity",
    }
)


def apply(
    node: models.Node,
    operations: Sequence[Mapping[str, Any]],
    drivers: DriverRegistry,
    *,
    reset_interfaces: bool = False,
) -> None:
    """Apply a patch to the record and enforce the rules (not saved).

    :raises PatchError, InvalidParameterValue, InvalidState, NodeAssociated,
        DriverNotFound: refused; the record is then not to be saved.
    """
    _refuse_in_transition(node, operations)
    before = {name: getattr(node, name) for name in _COLUMNS - _PRIVATE}
    wanted = patch.apply(before, [dict(op) for op in operations], fields.NODE)
    touched = fields.check_values(
        "node", {patch.root(op): wanted[patch.root(op)] for op in operations}
    )
    for name, value in touched.items():
        setattr(node, name, value)
    changed = {name: value for name, value in touched.items() if value != before[name]}

    _maintenance(node, touched, changed)
    _protection(node, before, changed)
    if changed.get("parent_node"):
        check_parent(str(node.uuid), changed["parent_node"])
    _interfaces(node, before, changed, drivers, reset_interfaces)
    _resource_class(node, before, changed)
    _instance_name(node, changed)
    _instance(node, before, changed)


def _refuse_in_transition(node: models.Node, operations: Sequence[Mapping[str, Any]]) -> None:
    """Refuse changes below a flow that began after the API had looked at the node."""
    state, target = node.provision_state, node.target_provision_state
    if not target or state in states.UPDATE_ALLOWED:
        return
    if {patch.root(op) for op in operations} <= _ANY_TIME:
        return
    only = operations[0] if len(operations) == 1 else {}
    freed = only.get("op") == "remove" and only.get("path") == "/instance_uuid"
    if node.maintenance and freed:
        return
    raise errors.InvalidState(
        f"Node {node.uuid} can not be updated while a state transition is in progress "
        f"(provision state '{state}', target '{target}')."
    )


def _may_change(node: models.Node) -> bool:
    """Tell whether what the node is may change now."""
    return bool(node.maintenance or node.provision_state in states.UPDATE_NODE_INTERFACES_ALLOWED)


def _allowed_states() -> str:
    return ", ".join(sorted(states.UPDATE_NODE_INTERFACES_ALLOWED))


def _maintenance(node: models.Node, touched: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    if "maintenance" in changed and not node.maintenance:
        node.maintenance_reason = None
        node.fault = None
    elif node.fault == states.FAULT_POWER and touched.keys() & {
        "maintenance",
        "maintenance_reason",
    }:
        # It is the operator's own from now on: the return of the BMC does not end it.
        node.fault = None


def _protection(node: models.Node, before: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    if "protected" in changed:
        if not node.protected:
            node.protected_reason = None
        elif node.provision_state not in (states.ACTIVE, states.RESCUE):
            raise errors.InvalidState(
                f"Node {node.uuid} can be protected in states {states.ACTIVE} and "
                f"{states.RESCUE}, not in '{node.provision_state}'."
            )
    if changed.get("protected_reason") and not node.protected:
        raise errors.InvalidParameterValue(
            f"protected_reason of node {node.uuid} needs protected to be true."
        )
    if "retired" in changed:
        if not node.retired:
            node.retired_reason = None
        elif node.provision_state == states.AVAILABLE:
            raise errors.InvalidState(
                f"Node {node.uuid} can not be retired while it is '{states.AVAILABLE}': move it "
                f"to '{states.MANAGEABLE}' first."
            )
    if changed.get("retired_reason") and not node.retired:
        raise errors.InvalidParameterValue(
            f"retired_reason of node {node.uuid} needs retired to be true."
        )


def check_parent(uuid: str, parent: str) -> None:
    """Refuse a parent that is the node itself, or one of its descendants.

    :raises InvalidParameterValue: a loop, or the parent does not exist.
    """
    seen = {uuid}
    current: str | None = parent
    for _ in range(_MOST_ANCESTORS):
        if current is None:
            return
        if current in seen:
            raise errors.InvalidParameterValue(
                f"Node {parent} can not be the parent of node {uuid}: that would be a loop."
            )
        seen.add(current)
        rows = nodes.select(["parent_node"], {"uuid": current})
        if not rows:
            raise errors.InvalidParameterValue(f"Parent node {current} does not exist.")
        current = rows[0]["parent_node"]
    raise errors.InvalidParameterValue(
        f"Node {uuid} would have more than {_MOST_ANCESTORS} ancestors."
    )


def _interfaces(
    node: models.Node,
    before: Mapping[str, Any],
    changed: Mapping[str, Any],
    drivers: DriverRegistry,
    reset_interfaces: bool,
) -> None:
    named = {field for field in INTERFACE_FIELDS if field in changed}
    if not named and "driver" not in changed:
        return
    if "driver" in changed and reset_interfaces:
        for field in INTERFACE_FIELDS:
            if field not in changed:
                setattr(node, field, None)
    drivers.check_and_update_node_interfaces(node)
    differ = {
        field
        for field in INTERFACE_FIELDS
        if before[field] is not None and getattr(node, field) != before[field]
    }
    if (named or differ) and not _may_change(node):
        raise errors.InvalidState(
            f"Interfaces of node {node.uuid} can be changed in states {_allowed_states()} or in "
            f"maintenance, not in '{node.provision_state}'."
        )
    if "deploy_interface" in changed or reset_interfaces:
        node.driver_internal_info.pop("original_deploy_interface", None)


def _resource_class(
    node: models.Node, before: Mapping[str, Any], changed: Mapping[str, Any]
) -> None:
    if "resource_class" not in changed or not before["resource_class"]:
        return
    # Not even in maintenance: the scheduler's books would no longer be right.
    if node.provision_state not in states.UPDATE_NODE_INTERFACES_ALLOWED:
        raise errors.InvalidState(
            f"The resource class of node {node.uuid} can be changed in states "
            f"{_allowed_states()}, not in '{node.provision_state}'."
        )


def _instance_name(node: models.Node, changed: Mapping[str, Any]) -> None:
    shown = (changed.get("instance_info") or {}).get("display_name")
    # The column takes a text of 255 characters; a display name may be anything.
    if isinstance(shown, str) and 0 < len(shown) <= 255 and not node.instance_name:
        node.instance_name = shown


def _instance(node: models.Node, before: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    if "instance_uuid" not in changed:
        return
    if changed["instance_uuid"] is not None:
        if before["instance_uuid"] is not None:
            raise errors.NodeAssociated(node=node.uuid, instance=before["instance_uuid"])
        return
    if node.allocation_id is None:
        return
    if not _may_change(node):
        raise errors.InvalidState(
            f"The instance of node {node.uuid} belongs to an allocation and can be removed in "
            f"states {_allowed_states()} or in maintenance, not in '{node.provision_state}'."
        )
    # The allocation itself goes with the save.
    node.allocation_id = None
