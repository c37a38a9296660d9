"""Field tables of all resources: type, microversion, lists, patchability.

``check_values`` is what a conductor calls under the lock, after
:func:`ironic_rs.domain.patch.apply`; the REST layer uses the tables themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ironic_rs.domain.fields.kinds import BadValue, Kind
from ironic_rs.domain.fields.node import (
    BIOS_SETTING,
    FIRMWARE_COMPONENT,
    INTERFACE_FIELDS,
    NODE,
    NODE_HISTORY,
    NODE_STATES,
)
from ironic_rs.domain.fields.other import (
    ALLOCATION,
    CHASSIS,
    CONDUCTOR,
    DEPLOY_TEMPLATE,
    DRIVER,
    DRIVER_INTERFACES,
    EVENT,
    INSPECTION_RULE,
    PORT,
    PORTGROUP,
    RUNBOOK,
    SHARD,
    VOLUME_CONNECTOR,
    VOLUME_TARGET,
)
from ironic_rs.domain.fields.table import Field, Table, show, show_names

#: Tables of the resources that are created, patched or listed, by resource name.
TABLES: Mapping[str, Table] = {
    t.resource: t
    for t in (
        NODE,
        NODE_STATES,
        NODE_HISTORY,
        BIOS_SETTING,
        FIRMWARE_COMPONENT,
        PORT,
        PORTGROUP,
        CHASSIS,
        DRIVER,
        CONDUCTOR,
        VOLUME_CONNECTOR,
        VOLUME_TARGET,
        ALLOCATION,
        DEPLOY_TEMPLATE,
        RUNBOOK,
        INSPECTION_RULE,
        SHARD,
        EVENT,
    )
}


def check_values(resource: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert and check values of a record by column name.

    :param resource: ``node``, ``port``, ``portgroup``, ``volume connector``, ...
    :param values: column -> value as patched by a client; columns that are no
        field (``chassis_id``, ``node_id``) pass unchanged.
    :returns: column -> value to store; null becomes the empty value of the field
        where the column has one (``{}``, ``false``, ``''``).
    :raises InvalidParameterValue: the text names field, value and what is accepted.
    """
    return TABLES[resource].check_values(values)


__all__ = [
    "ALLOCATION",
    "BIOS_SETTING",
    "CHASSIS",
    "CONDUCTOR",
    "DEPLOY_TEMPLATE",
    "DRIVER",
    "DRIVER_INTERFACES",
    "EVENT",
    "FIRMWARE_COMPONENT",
    "INSPECTION_RULE",
    "INTERFACE_FIELDS",
    "NODE",
    "NODE_HISTORY",
    "NODE_STATES",
    "PORT",
    "PORTGROUP",
    "RUNBOOK",
    "SHARD",
    "TABLES",
    "VOLUME_CONNECTOR",
    "VOLUME_TARGET",
    "BadValue",
    "Field",
    "Kind",
    "Table",
    "check_values",
    "show",
    "show_names",
]
