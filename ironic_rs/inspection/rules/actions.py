"""What rules do: to the node, its ports and the plugin data, or to a web server.

The engine saves the node.

Source: specification inspection.md section 7, data/inspection-rules.json.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_log import log

from ironic_rs.db import models
from ironic_rs.db import nodes as db_nodes
from ironic_rs.db import ports as db_ports
from ironic_rs.domain import capabilities, errors, fields, inspection_rules, names, secrets
from ironic_rs.domain.fields import Table
from ironic_rs.inspection.rules import api_call
from ironic_rs.inspection.rules.conditions import arguments, items
from ironic_rs.inspection.rules.interpolation import Scope
from ironic_rs.inspection.rules.rule import RuleError

LOG = log.getLogger(__name__)


@dataclass(frozen=True)
class Target:
    """What actions change."""

    node: models.Node
    plugin_data: dict[str, Any]


def run(action: Mapping[str, Any], target: Target, scope: Scope) -> None:
    """Do one action, in a loop as often as that says.

    :raises HardwareInspectionFailure: the action ``fail``.
    :raises RuleError, IronicError: it can not be done.
    """
    operation = inspection_rules.ACTIONS[action["op"]]
    args = operation.bind(action["args"])
    loop = action.get("loop")
    scopes = [scope] if loop is None else [scope.at(item) for item in items(loop, scope)]
    for each in scopes:
        try:
            _ACTIONS[operation.name](target, **arguments(operation, args, each))
        except RuleError as exc:
            raise RuleError(f"action {operation.name}: {exc}") from None


def _fail(target: Target, msg: Any) -> None:
    raise errors.HardwareInspectionFailure(error=msg)


def _log(target: Target, msg: Any, level: str) -> None:
    number = logging.getLevelNamesMapping()[level.upper()]
    LOG.log(number, "Node %s: inspection rule: %s", target.node.uuid, secrets.mask_text(str(msg)))


# Paths


def _parent(container: Any, keys: list[str], *, create: bool) -> dict[str, Any]:
    """Return the object that the last of the keys is in."""
    for key in keys[:-1]:
        if isinstance(container, dict) and create:
            container = container.setdefault(key, {})
        elif isinstance(container, dict) and key in container:
            container = container[key]
        else:
            raise RuleError(f"there is no '{key}' in {'/'.join(keys)}")
    if not isinstance(container, dict):
        raise RuleError(f"'{keys[-1]}' of {'/'.join(keys)} can not be a key: no object is there")
    return container


def _append(container: dict[str, Any], key: str, value: Any, *, unique: bool) -> None:
    present = container.setdefault(key, [])
    if not isinstance(present, list):
        raise RuleError(f"'{key}' is no list that could be extended")
    if not unique or value not in present:
        present.append(value)


def _check_name(name: str, resource: str) -> None:
    reserved = resource == fields.NODE.resource and name in names.RESERVED_NODE_NAMES
    if reserved or not names.is_valid_name(name):
        raise RuleError(f"a {resource} can not be named '{name}'")


_Change = Callable[[dict[str, Any], list[str]], None]


def _set(value: Any) -> _Change:
    def change(columns: dict[str, Any], keys: list[str]) -> None:
        _parent(columns, keys, create=True)[keys[-1]] = value

    return change


def _extend(value: Any, unique: bool) -> _Change:
    def change(columns: dict[str, Any], keys: list[str]) -> None:
        _append(_parent(columns, keys, create=True), keys[-1], value, unique=unique)

    return change


def _delete(columns: dict[str, Any], keys: list[str]) -> None:
    if len(keys) == 1:
        columns[keys[0]] = None
        return
    parent = _parent(columns, keys, create=False)
    if keys[-1] not in parent:
        raise RuleError(f"there is no '{keys[-1]}' in {'/'.join(keys)}")
    del parent[keys[-1]]


def _write(record: Any, table: Table, known: tuple[str, ...], path: str, change: _Change) -> None:
    """Change a field of a record, or something in it.

    :raises InvalidParameterValue: the field can not take the value.
    """
    keys = inspection_rules.split_path(path)
    root, resource = keys[0], table.resource
    if root not in known:
        raise RuleError(
            f"'{root}' of a {resource} is not written by rules; accepted: {', '.join(known)}"
        )
    document = {root: getattr(record, root)}
    change(document, keys)
    value = table.by_name[root].convert(document[root], resource)
    if root == "name" and value is not None:
        _check_name(value, resource)
    setattr(record, root, value.lower() if root == "conductor_group" else value)


def _change_node(target: Target, path: str, change: _Change) -> None:
    _write(target.node, fields.NODE, inspection_rules.NODE_FIELDS, path, change)


def _change_port(target: Target, port_id: Any, path: str, change: _Change) -> None:
    if not isinstance(port_id, str) or not names.is_uuid_like(port_id):
        raise errors.PortNotFound(port=port_id)
    port = db_ports.get(port_id)
    if port.node_id != target.node.id:
        # The lock is that of one node.
        raise errors.PortNotFound(port=port_id)
    _write(port, fields.PORT, inspection_rules.PORT_FIELDS, path, change)
    db_ports.save(port, fence=target.node.reservation)


# Capabilities and traits


def _change_capabilities(target: Target, name: str, value: Any | None) -> None:
    properties = target.node.properties
    changed = capabilities.replaced(properties.get("capabilities"), name, value)
    if changed:
        properties["capabilities"] = changed
    else:
        properties.pop("capabilities", None)


def _set_capability(target: Target, name: str, value: Any) -> None:
    _change_capabilities(target, name, str(value))


def _unset_capability(target: Target, name: str) -> None:
    _change_capabilities(target, name, None)


def _add_trait(target: Target, name: str) -> None:
    node = target.node
    if not names.is_valid_trait(name, names.standard_traits()):
        raise RuleError(f"'{name}' is no trait")
    db_nodes.add_traits(node.id, [name], fence=node.reservation)
    node.traits = sorted({*node.traits, name})


def _remove_trait(target: Target, name: str) -> None:
    node = target.node
    try:
        db_nodes.remove_traits(node.id, name, fence=node.reservation)
    except errors.NodeTraitNotFound:
        LOG.debug("Node %s has no trait %s that a rule could remove", node.uuid, name)
    node.traits = [trait for trait in node.traits if trait != name]


# Plugin data


def _set_data(target: Target, path: str, value: Any) -> None:
    _set(value)(target.plugin_data, path.split("."))


def _extend_data(target: Target, path: str, value: Any, unique: bool) -> None:
    _extend(value, unique)(target.plugin_data, path.split("."))


def _unset_data(target: Target, path: str) -> None:
    keys = path.split(".")
    try:
        _parent(target.plugin_data, keys, create=False).pop(keys[-1], None)
    except RuleError as exc:
        LOG.debug("Node %s: nothing to unset in the plugin data: %s", target.node.uuid, exc)


_ACTIONS: Mapping[str, Callable[..., None]] = {
    "fail": _fail,
    "log": _log,
    "set-attribute": lambda target, path, value: _change_node(target, path, _set(value)),
    "extend-attribute": lambda target, path, value, unique: _change_node(
        target, path, _extend(value, unique)
    ),
    "del-attribute": lambda target, path: _change_node(target, path, _delete),
    "set-capability": _set_capability,
    "unset-capability": _unset_capability,
    "add-trait": _add_trait,
    "remove-trait": _remove_trait,
    "set-plugin-data": _set_data,
    "extend-plugin-data": _extend_data,
    "unset-plugin-data": _unset_data,
    "set-port-attribute": lambda target, port_id, path, value: _change_port(
        target, port_id, path, _set(value)
    ),
    "extend-port-attribute": lambda target, port_id, path, value, unique: _change_port(
        target, port_id, path, _extend(value, unique)
    ),
    "del-port-attribute": lambda target, port_id, path: _change_port(
        target, port_id, path, _delete
    ),
    "api-call": lambda target, **request: api_call.get(**request),
}
