"""Records as the ramdisk gets them: plain JSON, secrets masked.

Source: specification drivers.md section 8 (node dict sent).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ironic_rs.db import records
from ironic_rs.domain import secrets

if TYPE_CHECKING:
    from ironic_rs.db import models

_MASKED = ("driver_info", "instance_info", "driver_internal_info")


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime.datetime) else value
        for name, value in values.items()
    }


def node_dict(node: models.Node, *, with_configdrive: bool = False) -> dict[str, Any]:
    """Return the node as the ramdisk gets it.

    :param with_configdrive: leave the config drive readable.
    """
    values = _plain(records.as_dict(node))
    for name in _MASKED:
        values[name] = secrets.mask(values[name])
    drive = node.instance_info.get("configdrive")
    if drive:
        values["instance_info"]["configdrive"] = drive if with_configdrive else secrets.MASK
    return values


def port_dicts(ports: Iterable[models.Port]) -> list[dict[str, Any]]:
    """Return the ports as the ramdisk gets them."""
    return [_plain(records.as_dict(port)) for port in ports]
