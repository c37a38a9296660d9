"""RAID configurations: their schema and the rules that need no I/O.

Source: specification drivers.md section 2.5.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import jsonschema
from oslo_utils import timeutils

from ironic_rs.domain import capabilities, errors

if TYPE_CHECKING:
    from ironic_rs.db import models

_LEVELS = ("JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0")

_PROPERTIES: Mapping[str, Mapping[str, Any]] = {
    "raid_level": {
        "enum": list(_LEVELS),
        "description": f"RAID level of the volume: {', '.join(_LEVELS)}. Required.",
    },
    "size_gb": {
        "anyOf": [{"type": "integer", "minimum": 0}, {"enum": ["MAX"]}],
        "description": "Size of the volume in GiB, or 'MAX' for all free space. Required.",
    },
    "volume_name": {
        "type": "string",
        "description": "Name of the volume; unique within the node. Chosen by the driver if unset.",
    },
    "is_root_volume": {
        "type": "boolean",
        "description": "True for the volume that takes the image; at most one volume may be it.",
    },
    "share_physical_disks": {
        "type": "boolean",
        "description": "Whether the disks of the volume may be shared with other volumes.",
    },
    "disk_type": {"enum": ["hdd", "ssd"], "description": "Kind of disk to use: hdd or ssd."},
    "interface_type": {
        "enum": ["sata", "scsi", "sas"],
        "description": "Interface of the disks to use: sata, scsi or sas.",
    },
    "number_of_physical_disks": {
        "type": "integer",
        "minimum": 1,
        "description": "How many disks to use; default is the least that the level needs.",
    },
    "controller": {
        "type": "string",
        "description": "RAID controller to use; 'software' for software RAID.",
    },
    "physical_disks": {
        "anyOf": [
            {"type": "array", "items": {"type": "string"}},
            {"type": "array", "items": {"type": "object"}, "minItems": 2},
        ],
        "description": "The disks to use, as the driver names them; needs 'controller'.",
    },
}

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["logical_disks"],
    "additionalProperties": False,
    "properties": {
        "logical_disks": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["raid_level", "size_gb"],
                "additionalProperties": False,
                "properties": _PROPERTIES,
                "dependentRequired": {"physical_disks": ["controller"]},
            },
        }
    },
}


@functools.cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(SCHEMA)


def validate(config: Any) -> None:
    """Check a target RAID configuration.

    :raises InvalidParameterValue: not of the schema, or several root volumes.
    """
    error = jsonschema.exceptions.best_match(_validator().iter_errors(config))
    if error is not None:
        where = "/".join(str(part) for part in error.absolute_path) or "raid_config"
        raise errors.InvalidParameterValue(
            f"RAID configuration is not valid at '{where}': {error.message}"
        )
    roots = [disk for disk in config["logical_disks"] if disk.get("is_root_volume")]
    if len(roots) > 1:
        raise errors.InvalidParameterValue(
            f"RAID configuration has {len(roots)} root volumes, at most one is allowed."
        )


def logical_disk_properties() -> dict[str, str]:
    """Return property name -> description of a logical disk."""
    return {name: spec["description"] for name, spec in _PROPERTIES.items()}


def filtered_target(
    node: models.Node, *, create_root_volume: bool = True, create_nonroot_volumes: bool = True
) -> dict[str, Any]:
    """Return what of target_raid_config is to be created.

    :raises MissingParameterValue: there is no target, or nothing of it is left.
    """
    target = node.target_raid_config
    if not target:
        raise errors.MissingParameterValue(
            f"Node {node.uuid} has no target RAID configuration: set one with "
            "PUT /v1/nodes/<node>/states/raid."
        )
    disks = [
        disk
        for disk in target["logical_disks"]
        if (create_root_volume if disk.get("is_root_volume") else create_nonroot_volumes)
    ]
    if not disks:
        raise errors.MissingParameterValue(
            f"The target RAID configuration of node {node.uuid} has no volumes of the wanted kind "
            f"(create_root_volume {create_root_volume}, create_nonroot_volumes "
            f"{create_nonroot_volumes})."
        )
    return {**target, "logical_disks": disks}


def record(node: models.Node, config: Mapping[str, Any]) -> None:
    """Write what was created to the node (not saved).

    The root volume also sets the properties ``local_gb``, ``root_device`` and the
    capability ``raid_level``.

    :param config: {"logical_disks": [...]}, as the driver reports it.
    :raises InvalidParameterValue: properties.capabilities is not text, or the
        size of the root volume no number.
    """
    node.raid_config = {**config, "last_updated": str(timeutils.utcnow())}
    root = next((disk for disk in config["logical_disks"] if disk.get("is_root_volume")), None)
    if root is None:
        return
    size = root.get("size_gb")
    if size is not None and size != "MAX":
        try:
            node.properties["local_gb"] = int(size)
        except (TypeError, ValueError):
            raise errors.InvalidParameterValue(
                f"size_gb of the root volume of node {node.uuid} is {size!r}, which is no number."
            ) from None
    if root.get("root_device_hint"):
        node.properties["root_device"] = root["root_device_hint"]
    if root.get("raid_level"):
        node.properties["capabilities"] = capabilities.replaced(
            node.properties.get("capabilities"), "raid_level", str(root["raid_level"])
        )


def forget(node: models.Node) -> None:
    """Write to the node that all volumes are deleted (not saved)."""
    node.raid_config = {}
    node.properties.pop("root_device", None)
