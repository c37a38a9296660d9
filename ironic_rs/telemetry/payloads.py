"""What notifications tell about objects: names, versions and fields, one row each.

The wire form is that of versioned objects: ``{"ironic_object.name": ..., ".namespace",
".version", ".data": {...}}``.

Source: specification operations.md section 4 (the table of payloads).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ironic_rs.domain import secrets

NOTICE = "** redacted: not part of notifications **"
_ALWAYS = ("created_at", "updated_at", "uuid")


def _redacted(value: Any) -> dict[str, str]:
    return {"redacted_contents": NOTICE}


def _steps(value: Any) -> list[dict[str, Any]]:
    """Return steps as users know them: no columns of the database."""
    known = ("interface", "step", "args", "priority", "order")
    return [
        secrets.mask({name: step[name] for name in known if name in step})
        for step in (value if isinstance(value, list) else ())
        if isinstance(step, Mapping)
    ]


def _masked(mask: Callable[[Mapping[str, Any]], Any]) -> Callable[[Any], Any]:
    return lambda value: mask(value) if isinstance(value, Mapping) else secrets.mask(value)


@dataclass(frozen=True)
class Payload:
    """The payload of one kind of object.

    :param subject: name of the object in event types.
    :param name: name of the payload.
    :param hidden: what is shown in place of the value of a field.
    :param sensitive: fields that are redacted when the object is ``sensitive``.
    """

    subject: str
    name: str
    version: str
    fields: Sequence[str]
    hidden: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    sensitive: frozenset[str] = frozenset()

    def make(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the payload of an object.

        :param values: its fields; those that it lacks are null.
        """
        redact = self.sensitive if values.get("sensitive") else ()
        data: dict[str, Any] = {}
        for name in (*_ALWAYS, *self.fields):
            value = values.get(name)
            if name in redact:
                value = _redacted(value)
            elif name in self.hidden:
                value = self.hidden[name](value)
            else:
                value = secrets.mask(value)
            data[name] = _plain(value)
        return {
            "ironic_object.name": self.name,
            "ironic_object.namespace": "ironic",
            "ironic_object.version": self.version,
            "ironic_object.data": data,
        }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC)
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value


_INTERFACES = tuple(
    f"{kind}_interface"
    for kind in (
        "bios",
        "boot",
        "console",
        "deploy",
        "inspect",
        "management",
        "network",
        "power",
        "raid",
        "rescue",
        "storage",
        "vendor",
    )
)
_NODE = (
    *_INTERFACES,
    "boot_mode",
    "clean_step",
    "conductor_group",
    "console_enabled",
    "deploy_step",
    "description",
    "disable_power_off",
    "driver",
    "extra",
    "fault",
    "inspection_finished_at",
    "inspection_started_at",
    "instance_uuid",
    "last_error",
    "lessee",
    "maintenance",
    "maintenance_reason",
    "name",
    "owner",
    "power_state",
    "properties",
    "protected",
    "protected_reason",
    "provision_state",
    "provision_updated_at",
    "resource_class",
    "retired",
    "retired_reason",
    "secure_boot",
    "target_power_state",
    "target_provision_state",
    "traits",
)
_NODE_HIDDEN = {
    "driver_info": _masked(secrets.mask_driver_info),
    "instance_info": _masked(secrets.mask_instance_info),
}
#: What the conductor adds to the fields of a node, besides the node itself.
POWER_TO, POWER_FROM = "to_power", "from_power"
_TRANSITION = ("event", "previous_provision_state", "previous_target_provision_state")

NODE = Payload("node", "NodePayload", "1.17", _NODE)
NODE_CRUD = Payload(
    "node",
    "NodeCRUDPayload",
    "1.15",
    (*_NODE, "chassis_uuid", "instance_info", "driver_info"),
    _NODE_HIDDEN,
)
NODE_POWER = Payload("node", "NodeSetPowerStatePayload", "1.17", (*_NODE, POWER_TO))
NODE_POWER_CORRECTED = Payload(
    "node", "NodeCorrectedPowerStatePayload", "1.17", (*_NODE, POWER_FROM)
)
NODE_PROVISION = Payload(
    "node",
    "NodeSetProvisionStatePayload",
    "1.18",
    (*_NODE, "instance_info", "driver_internal_info", *_TRANSITION),
    _NODE_HIDDEN,
)
CHASSIS = Payload("chassis", "ChassisCRUDPayload", "1.0", ("description", "extra"))
PORT = Payload(
    "port",
    "PortCRUDPayload",
    "1.8",
    (
        "address",
        "available_for_dynamic_portgroup",
        "category",
        "description",
        "extra",
        "is_smartnic",
        "local_link_connection",
        "name",
        "node_uuid",
        "physical_network",
        "portgroup_uuid",
        "pxe_enabled",
        "vendor",
    ),
)
PORTGROUP = Payload(
    "portgroup",
    "PortgroupCRUDPayload",
    "1.3",
    (
        "address",
        "category",
        "dynamic_portgroup",
        "extra",
        "mode",
        "name",
        "node_uuid",
        "physical_network",
        "properties",
        "standalone_ports_supported",
    ),
)
ALLOCATION = Payload(
    "allocation",
    "AllocationCRUDPayload",
    "1.1",
    (
        "candidate_nodes",
        "extra",
        "last_error",
        "name",
        "node_uuid",
        "owner",
        "resource_class",
        "state",
        "traits",
    ),
)
VOLUME_CONNECTOR = Payload(
    "volumeconnector",
    "VolumeConnectorCRUDPayload",
    "1.0",
    ("connector_id", "extra", "node_uuid", "type"),
)
VOLUME_TARGET = Payload(
    "volumetarget",
    "VolumeTargetCRUDPayload",
    "1.0",
    ("boot_index", "extra", "node_uuid", "properties", "volume_id", "volume_type"),
    {"properties": _redacted},
)
DEPLOY_TEMPLATE = Payload(
    "deploytemplate",
    "DeployTemplateCRUDPayload",
    "1.0",
    ("extra", "name", "steps"),
    {"steps": _steps},
)
RUNBOOK = Payload(
    "runbook",
    "RunbookCRUDPayload",
    "1.1",
    ("description", "disable_ramdisk", "extra", "name", "owner", "public", "steps", "traits"),
    {"steps": _steps},
)
INSPECTION_RULE = Payload(
    "inspectionrule",
    "InspectionRuleCRUDPayload",
    "1.0",
    ("actions", "conditions", "description", "phase", "priority", "scope", "sensitive"),
    sensitive=frozenset({"actions", "conditions"}),
)
