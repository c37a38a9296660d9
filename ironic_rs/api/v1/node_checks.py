"""Checks that creating and patching a node share.

Source: specification rest-api.md sections 5.2, 8.3, 8.4, 9.6.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
from oslo_config import cfg
from oslo_utils import uuidutils

from ironic_rs.api.args import too_new
from ironic_rs.api.call import Call
from ironic_rs.api.microversions import V
from ironic_rs.api.v1 import node_view
from ironic_rs.db import chassis as db_chassis
from ironic_rs.domain import errors, fields, names


def new_uuid() -> str:
    """Return a fresh UUID."""
    return uuidutils.generate_uuid()


def check_versions(call: Call, given: Iterable[str]) -> None:
    """Refuse fields that are newer than the request's version (406)."""
    for name in given:
        row = fields.NODE.by_name[name]
        if row.since > call.minor:
            raise too_new(f"Field '{name}' of a node", row.since, call.minor)


def check_name(call: Call, name: Any) -> None:
    """Check a name that a node is to get.

    :raises NotAcceptable: names are newer than the version.
    :raises InvalidParameterValue: not a valid name, or a reserved word.
    """
    call.require(V.NODE_NAME, "Giving a node a name")
    old_rule = not call.has(V.UNRESTRICTED_NAME)
    if not isinstance(name, str) or not names.is_valid_name(name, hostname_only=old_rule):
        accepted = (
            "a lower-case host name"
            if old_rule
            else "1 to 255 of the characters A-Z a-z 0-9 - . _ ~, no UUID, not '.' or '..'"
        )
        raise errors.InvalidParameterValue(
            f"Cannot name a node {fields.show(name)}: invalid name; accepted: {accepted}."
        )
    if name in names.RESERVED_NODE_NAMES:
        raise errors.InvalidParameterValue(
            f"Cannot name a node '{name}': the word is reserved (as are "
            f"{', '.join(sorted(names.RESERVED_NODE_NAMES))})."
        )


def check_boot_mode(conf: cfg.ConfigOpts, properties: Any) -> None:
    """Refuse nodes of a boot mode that the operator does not enrol.

    :raises BootModeNotAllowed: properties.capabilities names one.
    """
    refused = conf.api.disallowed_enrollment_boot_modes
    if not refused or not isinstance(properties, Mapping):
        return
    mode = _boot_mode_of(properties.get("capabilities"))
    if mode in refused:
        raise errors.BootModeNotAllowed(mode=mode, op="enrollment")


def _boot_mode_of(capabilities: Any) -> str | None:
    if isinstance(capabilities, str):
        pairs = (part.partition(":") for part in capabilities.split(","))
        capabilities = {key.strip(): value.strip() for key, _, value in pairs}
    if not isinstance(capabilities, Mapping):
        return None
    mode = capabilities.get("boot_mode")
    return mode if isinstance(mode, str) else None


def check_network_data(conf: cfg.ConfigOpts, value: Any) -> None:
    """Check the static network description of the ramdisk; empty is fine.

    :raises InvalidParameterValue: not as ``[api]network_data_schema`` wants it.
    """
    if not value:
        return
    error = jsonschema.exceptions.best_match(
        _network_data_schema(conf.api.network_data_schema).iter_errors(value)
    )
    if error is not None:
        where = "/".join(str(part) for part in error.absolute_path) or "the document"
        raise errors.InvalidParameterValue(
            f"Invalid network_data, at {where}: {error.message[:300]}."
        )


@functools.lru_cache(maxsize=4)
def _network_data_schema(path: str) -> Any:
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        cls.check_schema(schema)
    except (OSError, ValueError, jsonschema.SchemaError) as exc:
        raise errors.IncorrectConfiguration(
            error=f"[api]network_data_schema {path} can not be used: {exc}"
        ) from exc
    return cls(schema)


def chassis_id(uuid: str | None) -> int | None:
    """Return the database id of a chassis.

    :raises InvalidParameterValue: there is no such chassis (400).
    """
    if uuid is None:
        return None
    try:
        return db_chassis.get(uuid).id
    except errors.ChassisNotFound as exc:
        raise errors.InvalidParameterValue(f"Chassis {uuid} could not be found.") from exc


def parent_uuid(call: Call, ident: str, owner: str | None) -> str:
    """Return the UUID of the node that is to become a parent.

    :raises InvalidParameterValue: unknown, not visible, or of another owner; which
        of them is not told.
    """
    try:
        parent = node_view.find(call, ident)
    except errors.NodeNotFound:
        parent = None
    if parent is None or parent["owner"] != owner:
        raise errors.InvalidParameterValue(
            f"Node {fields.show(ident)} can not be used as parent_node: not found."
        )
    return str(parent["uuid"])
