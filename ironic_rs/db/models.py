"""Every record of the database: 21 tables, as upstream's schema 9fb44677ef15 has them.

The mapped classes are the records used everywhere, always detached: the query
modules fill them from Core rows, nobody keeps them in a session.  JSON columns
are plain ``dict`` and ``list`` (never None); datetimes are aware, in UTC.

Names, types, constraints and indexes are those of specification data-model.md
section 2; the indexes called ``ix_*`` are ours (section 6, point 8).
"""

from __future__ import annotations

import datetime
from types import NoneType
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, false, true
from sqlalchemy.orm import Mapped, mapped_column

from ironic_rs.db.base import (
    TABLE_OPTIONS,
    Base,
    bigint,
    json_dict,
    json_dict_long,
    json_list,
    json_list_long,
    str15,
    str16,
    str18,
    str32,
    str36,
    str64,
    str80,
    str255,
    text,
)


class Chassis(Base):
    """A group of nodes."""

    __tablename__ = "chassis"
    object_version = "1.4"
    __table_args__ = (
        UniqueConstraint("uuid", name="uniq_chassis0uuid"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    extra: Mapped[json_dict]
    description: Mapped[str255 | None]


class Allocation(Base):
    """A request for a node; ``node_id`` is a plain integer, nodes hold the foreign key."""

    __tablename__ = "allocations"
    object_version = "1.3"
    __table_args__ = (
        UniqueConstraint("name", name="uniq_allocations0name"),
        UniqueConstraint("uuid", name="uniq_allocations0uuid"),
        Index("ix_allocations_node_id", "node_id"),
        Index("ix_allocations_state_conductor_affinity", "state", "conductor_affinity"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36]
    name: Mapped[str255 | None]
    node_id: Mapped[int | None]
    state: Mapped[str15]
    owner: Mapped[str255 | None]
    last_error: Mapped[text | None]
    resource_class: Mapped[str80 | None]
    traits: Mapped[json_list]
    candidate_nodes: Mapped[json_list]
    extra: Mapped[json_dict]
    conductor_affinity: Mapped[int | None]


class Conductor(Base):
    """A registered conductor; ``updated_at`` is its heartbeat, by the database's clock."""

    __tablename__ = "conductors"
    object_version = "1.6"
    __table_args__ = (
        UniqueConstraint("hostname", name="uniq_conductors0hostname"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    hostname: Mapped[str255]
    drivers: Mapped[json_list]
    online: Mapped[bool | None] = mapped_column(default=True)
    conductor_group: Mapped[str255] = mapped_column(default="", server_default="")


class ConductorHardwareInterface(Base):
    """One interface that a conductor offers for one hardware type."""

    __tablename__ = "conductor_hardware_interfaces"
    __table_args__ = (
        UniqueConstraint(
            "conductor_id",
            "hardware_type",
            "interface_type",
            "interface_name",
            name="uniq_conductorhardwareinterfaces0",
        ),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    conductor_id: Mapped[int] = mapped_column(ForeignKey("conductors.id"))
    hardware_type: Mapped[str255]
    interface_type: Mapped[str16]
    interface_name: Mapped[str255]
    default: Mapped[bool] = mapped_column(default=False)


class Node(Base):
    """A machine.

    ``traits`` is filled by the queries that say so; it is not a column.
    """

    __tablename__ = "nodes"
    object_version = "1.44"
    attached = (("traits", list),)
    __table_args__ = (
        UniqueConstraint("instance_uuid", name="uniq_nodes0instance_uuid"),
        UniqueConstraint("name", name="uniq_nodes0name"),
        UniqueConstraint("uuid", name="uniq_nodes0uuid"),
        Index("conductor_group_idx", "conductor_group"),
        Index("driver_idx", "driver"),
        Index("lessee_idx", "lessee"),
        Index("owner_idx", "owner"),
        Index("parent_node_idx", "parent_node"),
        Index("provision_state_idx", "provision_state"),
        Index("reservation_idx", "reservation"),
        Index("resource_class_idx", "resource_class"),
        Index("shard_idx", "shard"),
        Index(
            "ix_nodes_provision_state_provision_updated_at",
            "provision_state",
            "provision_updated_at",
        ),
        Index("ix_nodes_conductor_affinity", "conductor_affinity"),
        Index("ix_nodes_allocation_id", "allocation_id"),
        Index("ix_nodes_chassis_id", "chassis_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36] = mapped_column(nullable=True)
    instance_uuid: Mapped[str36 | None]
    instance_name: Mapped[str255 | None]
    name: Mapped[str255 | None]
    chassis_id: Mapped[int | None] = mapped_column(ForeignKey("chassis.id"))
    power_state: Mapped[str15 | None]
    target_power_state: Mapped[str15 | None]
    provision_state: Mapped[str15] = mapped_column(nullable=True)
    target_provision_state: Mapped[str15 | None]
    provision_updated_at: Mapped[datetime.datetime | None]
    last_error: Mapped[text | None]
    instance_info: Mapped[json_dict_long]
    properties: Mapped[json_dict]
    driver: Mapped[str255 | None]
    driver_info: Mapped[json_dict]
    driver_internal_info: Mapped[json_dict]
    clean_step: Mapped[json_dict]
    deploy_step: Mapped[json_dict]
    resource_class: Mapped[str80 | None]
    raid_config: Mapped[json_dict]
    target_raid_config: Mapped[json_dict]
    reservation: Mapped[str255 | None]
    conductor_affinity: Mapped[int | None] = mapped_column(
        ForeignKey("conductors.id", name="nodes_conductor_affinity_fk")
    )
    conductor_group: Mapped[str255] = mapped_column(default="", server_default="")
    maintenance: Mapped[bool | None] = mapped_column(default=False)
    maintenance_reason: Mapped[text | None]
    fault: Mapped[str255 | None]
    console_enabled: Mapped[bool | None] = mapped_column(default=False)
    inspection_finished_at: Mapped[datetime.datetime | None]
    inspection_started_at: Mapped[datetime.datetime | None]
    extra: Mapped[json_dict]
    automated_clean: Mapped[bool | None]
    protected: Mapped[bool] = mapped_column(default=False, server_default=false())
    protected_reason: Mapped[text | None]
    owner: Mapped[str255 | None]
    lessee: Mapped[str255 | None]
    allocation_id: Mapped[int | None] = mapped_column(ForeignKey("allocations.id"))
    description: Mapped[text | None]
    bios_interface: Mapped[str255 | None]
    boot_interface: Mapped[str255 | None]
    console_interface: Mapped[str255 | None]
    deploy_interface: Mapped[str255 | None]
    firmware_interface: Mapped[str255 | None]
    inspect_interface: Mapped[str255 | None]
    management_interface: Mapped[str255 | None]
    network_interface: Mapped[str255 | None]
    raid_interface: Mapped[str255 | None]
    rescue_interface: Mapped[str255 | None]
    retired: Mapped[bool | None] = mapped_column(default=False, server_default=false())
    retired_reason: Mapped[text | None]
    network_data: Mapped[json_dict]
    storage_interface: Mapped[str255 | None]
    power_interface: Mapped[str255 | None]
    vendor_interface: Mapped[str255 | None]
    boot_mode: Mapped[str16 | None]
    secure_boot: Mapped[bool | None]
    shard: Mapped[str255 | None]
    parent_node: Mapped[str36 | None]
    service_step: Mapped[json_dict]
    disable_power_off: Mapped[bool | None] = mapped_column(default=False, server_default=false())
    health: Mapped[str32 | None]

    traits: list[str]

    def get_interface(self, interface_type: str) -> str | None:
        """Name of the interface in use: instance_info overrides the node's own."""
        override = self.instance_info.get(f"{interface_type}_interface")
        if override is not None:
            return str(override)
        own: str | None = getattr(self, f"{interface_type}_interface")
        return own


class NodeTrait(Base):
    """A trait of a node."""

    __tablename__ = "node_traits"
    object_version = "1.1"
    __table_args__ = (
        Index("node_traits_idx", "trait"),
        TABLE_OPTIONS,
    )

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    trait: Mapped[str255] = mapped_column(primary_key=True)


class NodeTag(Base):
    """A tag of a node; no REST resource shows it."""

    __tablename__ = "node_tags"
    __table_args__ = (
        Index("node_tags_idx", "tag"),
        TABLE_OPTIONS,
    )

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    tag: Mapped[str255] = mapped_column(primary_key=True)


class NodeHistory(Base):
    """An event of a node."""

    __tablename__ = "node_history"
    object_version = "1.3"
    __table_args__ = (
        UniqueConstraint("uuid", name="uniq_history0uuid"),
        Index("history_conductor_idx", "conductor"),
        Index("history_node_id_idx", "node_id"),
        Index("history_uuid_idx", "uuid"),
        Index("ix_node_history_node_id_created_at", "node_id", "created_at"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36]
    conductor: Mapped[str255 | None]
    event_type: Mapped[str255 | None]
    severity: Mapped[str255 | None]
    event: Mapped[text | None]
    user: Mapped[str64 | None]
    project: Mapped[str80 | None]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"))
    state: Mapped[str255 | None]
    target_provision_state: Mapped[str255 | None]
    duration_seconds: Mapped[int | None]


class NodeInventory(Base):
    """What inspection found; one row a node, by convention."""

    __tablename__ = "node_inventory"
    object_version = "1.1"
    __table_args__ = (
        Index("inventory_node_id_idx", "node_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    inventory_data: Mapped[json_dict_long]
    plugin_data: Mapped[json_dict_long]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"))


class BIOSSetting(Base):
    """A BIOS setting of a node."""

    __tablename__ = "bios_settings"
    object_version = "1.2"
    __table_args__ = (TABLE_OPTIONS,)

    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"), primary_key=True)
    name: Mapped[str255] = mapped_column(primary_key=True)
    value: Mapped[text | None]
    attribute_type: Mapped[str255 | None]
    allowable_values: Mapped[json_list]
    lower_bound: Mapped[bigint | None]
    max_length: Mapped[int | None]
    min_length: Mapped[int | None]
    read_only: Mapped[bool | None]
    reset_required: Mapped[bool | None]
    unique: Mapped[bool | None]
    upper_bound: Mapped[bigint | None]


class FirmwareComponent(Base):
    """A firmware component of a node."""

    __tablename__ = "firmware_information"
    object_version = "1.2"
    __table_args__ = (
        UniqueConstraint("node_id", "component", name="uniq_nodecomponent0node_id0component"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    node_id: Mapped[int] = mapped_column(ForeignKey("nodes.id"))
    component: Mapped[str255]
    initial_version: Mapped[str255]
    current_version: Mapped[str255 | None]
    last_version_flashed: Mapped[str255 | None]
    vendor: Mapped[str255 | None]
    model: Mapped[str255 | None]
    serial_number: Mapped[str255 | None]


class Portgroup(Base):
    """A bond; ``node_uuid`` is filled from the node by the queries."""

    __tablename__ = "portgroups"
    object_version = "1.9"
    attached = (("node_uuid", NoneType),)
    __table_args__ = (
        UniqueConstraint("address", name="uniq_portgroups0address"),
        UniqueConstraint("name", name="uniq_portgroups0name"),
        UniqueConstraint("uuid", name="uniq_portgroups0uuid"),
        Index("ix_portgroups_node_id", "node_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    name: Mapped[str255 | None]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"))
    address: Mapped[str18 | None]
    extra: Mapped[json_dict]
    internal_info: Mapped[json_dict]
    standalone_ports_supported: Mapped[bool | None] = mapped_column(default=True)
    mode: Mapped[str255 | None]
    properties: Mapped[json_dict]
    physical_network: Mapped[str64 | None]
    category: Mapped[str80 | None]
    dynamic_portgroup: Mapped[bool | None] = mapped_column(default=False)

    node_uuid: str | None


class Port(Base):
    """A network port; ``node_uuid`` is filled from the node by the queries."""

    __tablename__ = "ports"
    object_version = "1.16"
    attached = (("node_uuid", NoneType),)
    __table_args__ = (
        UniqueConstraint("address", name="uniq_ports0address"),
        UniqueConstraint("name", name="uniq_ports0name"),
        UniqueConstraint("uuid", name="uniq_ports0uuid"),
        Index("ix_ports_node_id", "node_id"),
        Index("ix_ports_portgroup_id", "portgroup_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    address: Mapped[str18 | None]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"))
    extra: Mapped[json_dict]
    local_link_connection: Mapped[json_dict]
    portgroup_id: Mapped[int | None] = mapped_column(ForeignKey("portgroups.id"))
    pxe_enabled: Mapped[bool | None] = mapped_column(default=True)
    internal_info: Mapped[json_dict]
    physical_network: Mapped[str64 | None]
    is_smartnic: Mapped[bool | None] = mapped_column(default=False)
    name: Mapped[str255 | None]
    description: Mapped[str255 | None]
    vendor: Mapped[str32 | None]
    category: Mapped[str80 | None]
    available_for_dynamic_portgroup: Mapped[bool] = mapped_column(
        default=True, server_default=true()
    )

    node_uuid: str | None


class VolumeConnector(Base):
    """An initiator address of a node."""

    __tablename__ = "volume_connectors"
    object_version = "1.1"
    __table_args__ = (
        UniqueConstraint("type", "connector_id", name="uniq_volumeconnectors0type0connector_id"),
        UniqueConstraint("uuid", name="uniq_volumeconnectors0uuid"),
        Index("ix_volume_connectors_node_id", "node_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"))
    type: Mapped[str32 | None]
    connector_id: Mapped[str255 | None]
    extra: Mapped[json_dict]


class VolumeTarget(Base):
    """A remote volume of a node."""

    __tablename__ = "volume_targets"
    object_version = "1.1"
    __table_args__ = (
        UniqueConstraint("node_id", "boot_index", name="uniq_volumetargets0node_id0boot_index"),
        UniqueConstraint("uuid", name="uniq_volumetargets0uuid"),
        Index("ix_volume_targets_node_id", "node_id"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    node_id: Mapped[int | None] = mapped_column(ForeignKey("nodes.id"))
    volume_type: Mapped[str64 | None]
    properties: Mapped[json_dict]
    boot_index: Mapped[int | None]
    volume_id: Mapped[str36 | None]
    extra: Mapped[json_dict]


class DeployTemplate(Base):
    """Named deploy steps; ``steps`` is filled by the queries."""

    __tablename__ = "deploy_templates"
    object_version = "1.2"
    attached = (("steps", list),)
    __table_args__ = (
        UniqueConstraint("name", name="uniq_deploytemplates0name"),
        UniqueConstraint("uuid", name="uniq_deploytemplates0uuid"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    name: Mapped[str255]
    extra: Mapped[json_dict]

    steps: list[dict[str, Any]]


class DeployTemplateStep(Base):
    """A step of a deploy template."""

    __tablename__ = "deploy_template_steps"
    __table_args__ = (
        Index("deploy_template_id", "deploy_template_id"),
        Index("deploy_template_steps_interface_idx", "interface"),
        Index("deploy_template_steps_step_idx", "step"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    deploy_template_id: Mapped[int] = mapped_column(ForeignKey("deploy_templates.id"))
    interface: Mapped[str255]
    step: Mapped[str255]
    args: Mapped[json_dict] = mapped_column(nullable=False)
    priority: Mapped[int]


class Runbook(Base):
    """Named steps for cleaning and servicing; queries fill ``steps`` and ``traits``."""

    __tablename__ = "runbooks"
    object_version = "1.2"
    attached = (("steps", list), ("traits", list))
    __table_args__ = (
        UniqueConstraint("name", name="uniq_runbooks0name"),
        UniqueConstraint("uuid", name="uniq_runbooks0uuid"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36 | None]
    name: Mapped[str255]
    description: Mapped[str255 | None]
    public: Mapped[bool | None] = mapped_column(default=False)
    owner: Mapped[str255 | None]
    disable_ramdisk: Mapped[bool | None] = mapped_column(default=False)
    extra: Mapped[json_dict]

    steps: list[dict[str, Any]]
    traits: list[str]


class RunbookStep(Base):
    """A step of a runbook."""

    __tablename__ = "runbook_steps"
    __table_args__ = (
        Index("runbook_id", "runbook_id"),
        Index("runbook_steps_interface_idx", "interface"),
        Index("runbook_steps_step_idx", "step"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    runbook_id: Mapped[int] = mapped_column(ForeignKey("runbooks.id"))
    interface: Mapped[str255]
    step: Mapped[str255]
    args: Mapped[json_dict] = mapped_column(nullable=False)
    order: Mapped[int]


class RunbookTrait(Base):
    """A trait that nodes need for a runbook."""

    __tablename__ = "runbook_traits"
    object_version = "1.0"
    __table_args__ = (
        Index("runbook_traits_idx", "trait"),
        TABLE_OPTIONS,
    )

    runbook_id: Mapped[int] = mapped_column(ForeignKey("runbooks.id"), primary_key=True)
    trait: Mapped[str255] = mapped_column(primary_key=True)


class InspectionRule(Base):
    """A rule of in-band inspection."""

    __tablename__ = "inspection_rules"
    object_version = "1.1"
    __table_args__ = (
        UniqueConstraint("uuid", name="uniq_inspection_rules0uuid"),
        Index("inspection_rule_phase_idx", "phase"),
        Index("inspection_rule_scope_idx", "scope"),
        TABLE_OPTIONS,
    )

    id: Mapped[int] = mapped_column(primary_key=True)
    uuid: Mapped[str36]
    priority: Mapped[int] = mapped_column(default=0)
    description: Mapped[str255 | None]
    scope: Mapped[str255 | None]
    sensitive: Mapped[bool | None] = mapped_column(default=False)
    phase: Mapped[str16 | None] = mapped_column(default="main")
    conditions: Mapped[json_list_long]
    actions: Mapped[json_list_long] = mapped_column(nullable=False)


# Records are made without the ORM's constructor, which would do this.
Base.registry.configure()
