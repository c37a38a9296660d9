"""RAID configurations: their schema and the rules that need no I/O.

Source: specification drivers.md section 2.5.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jsonschema

from ironic_rs.domain import errors

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
