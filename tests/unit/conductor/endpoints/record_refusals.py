"""What makes the RPC methods about the records and parts of a node refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ironic_rs.db import allocations, models
from ironic_rs.domain import errors
from tests.unit.conductor import tablekit
from tests.unit.conductor.endpoints.good_calls import (
    LED,
    NOWHERE,
    OTHER_MAC,
    TRAIT,
    UUID,
    Args,
    MakeArgs,
    connector,
    group,
    port,
    replace,
    target,
)
from tests.unit.conductor.endpoints.refusals import Refusal, other_node, patch_of
from tests.unit.conductor.tablekit import Table


def _port(patch: Any, **values: Any) -> MakeArgs:
    return lambda table, node: {"port_id": port(node, **values).uuid, "patch": patch}


def _moved(more: Args) -> MakeArgs:
    return lambda table, node: {"port_id": port(other_node(table)).uuid, **more}


def _group_moved(more: Args) -> MakeArgs:
    return lambda table, node: {"portgroup_id": group(other_node(table)).uuid, **more}


def _members(*networks: str | None) -> Callable[[Table, Any], models.Portgroup]:
    def make(table: Table, node: Any) -> models.Portgroup:
        made = group(node)
        for number, network in enumerate(networks):
            port(node, f"52:54:00:cf:00:0{number}", portgroup_id=made.id, physical_network=network)
        return made

    return make


def _join(*networks: str | None, new: bool) -> MakeArgs:
    def make(table: Table, node: Any) -> Args:
        made = _members(*networks)(table, node)
        if new:
            values = {"address": OTHER_MAC, "portgroup_id": made.id, "physical_network": "c"}
            return {"port": values}
        record = port(node, OTHER_MAC, physical_network="c")
        return {"port_id": record.uuid, "patch": replace("/portgroup_id", made.id)}

    return make


def _two_ports(table: Table, node: Any) -> Args:
    port(node, OTHER_MAC)
    return {"port_id": port(node).uuid, "patch": replace("/address", OTHER_MAC)}


def _two_groups(table: Table, node: Any) -> Args:
    group(node, address=OTHER_MAC)
    return {"portgroup_id": group(node).uuid, "patch": replace("/address", OTHER_MAC)}


def _group_to_other(full: bool) -> MakeArgs:
    def make(table: Table, node: Any) -> Args:
        made = _members(*(["a"] if full else []))(table, node)
        return {
            "portgroup_id": made.uuid,
            "patch": replace("/node_id", other_node(table).id),
        }

    return make


def _bound(table: Table, node: Any) -> Args:
    return {"port_id": port(node).uuid}


def _told(method: str, answer: str, *made: errors.IronicError) -> list[Refusal]:
    return [
        Refusal(method, type(exc).__name__, "by the network", answers={answer: exc}) for exc in made
    ]


PORTS = [
    Refusal("destroy_port", "PortNotFound", "of another node", args=_moved({})),
    Refusal("update_port", "PortNotFound", "of another node", args=_moved(patch_of("/extra", {}))),
    Refusal(
        "destroy_port",
        "InvalidState",
        "has a VIF",
        args=_bound,
        answers={"network.get_current_vif": "v"},
    ),
    *(
        Refusal(method, "PortgroupNotFound", "of another node", args=_group_moved(more))
        for method, more in (
            ("destroy_portgroup", {}),
            ("update_portgroup", patch_of("/extra", {})),
            ("update_portgroup_physical_network", {"new_physical_network": "a"}),
        )
    ),
    Refusal(
        "destroy_portgroup",
        "PortgroupNotEmpty",
        "has a port",
        args=lambda table, node: {"portgroup_id": _members("a")(table, node).uuid},
    ),
    Refusal(
        "create_port",
        "MACAlreadyExists",
        "address",
        args=lambda table, node: port(node) and {},
    ),
    Refusal("create_port", "Conflict", "other network", args=_join("a", new=True)),
    Refusal(
        "create_port",
        "PortgroupPhysnetInconsistent",
        "two networks",
        args=_join("a", "b", new=True),
    ),
    Refusal("update_port", "Conflict", "other network", args=_join("a", new=False)),
    Refusal(
        "update_port",
        "PortgroupPhysnetInconsistent",
        "two networks",
        args=_join("a", "b", new=False),
    ),
    Refusal("update_port", "MACAlreadyExists", "address", args=_two_ports),
    Refusal(
        "update_port",
        "InvalidState",
        "address of an active node",
        args=_port(replace("/address", OTHER_MAC)),
        state="active",
    ),
    Refusal(
        "update_port",
        "InvalidState",
        "address of a node with an instance",
        {"instance_uuid": UUID},
        args=_port(replace("/address", OTHER_MAC)),
    ),
    *(
        Refusal(
            "update_port",
            "InvalidState",
            f"{path} of an available node",
            args=_port(replace(path, value)),
            state="available",
        )
        for path, value in (
            ("/pxe_enabled", False),
            ("/physical_network", "a"),
            ("/local_link_connection", {"port_id": "1", "switch_id": "00:00:00:00:00:01"}),
        )
    ),
    *_told(
        "update_port",
        "network.port_changed",
        errors.FailedToUpdateMacOnPort(port_id="p"),
        errors.FailedToUpdateDHCPOptOnPort(port_id="p"),
        errors.NetworkError("down"),
        errors.Conflict("has a VIF"),
    ),
    Refusal(
        "update_portgroup",
        "InvalidState",
        "to another node",
        args=_group_to_other(full=False),
        state="active",
    ),
    Refusal(
        "update_portgroup", "PortgroupNotEmpty", "to another node", args=_group_to_other(full=True)
    ),
    Refusal("update_portgroup", "PortgroupMACAlreadyExists", "address", args=_two_groups),
    *_told(
        "update_portgroup",
        "network.portgroup_changed",
        errors.FailedToUpdateMacOnPort(port_id="p"),
        errors.NetworkError("down"),
        errors.Conflict("has a VIF"),
    ),
]
TRACE = frozenset({"last_error", "updated_at"})
VIFS = [
    Refusal(method, type(exc).__name__, "by the network", answers={answer: exc}, writes=trace)
    for method, answer, made, trace in (
        (
            "vif_attach",
            "network.vif_attach",
            (
                errors.VifAlreadyAttached(vif="v", object_type="port", object_uuid="p"),
                errors.VifInvalidForAttach(vif="v", node="n", reason="r"),
                errors.NoFreePhysicalPorts(vif="v"),
                errors.NetworkError("down"),
                errors.PortgroupPhysnetInconsistent(portgroup="g", physical_networks="a, b"),
            ),
            TRACE,
        ),
        (
            "vif_detach",
            "network.vif_detach",
            (errors.VifNotAttached(vif="v", node="n"), errors.NetworkError("down")),
            TRACE,
        ),
        ("vif_list", "network.vif_list", (errors.NetworkError("down"),), frozenset()),
    )
    for exc in made
]


def _volume(make: Callable[..., Any], name: str, patch: Any) -> MakeArgs:
    def args(table: Table, node: Any) -> Args:
        made = make(node)
        return {name: made.uuid} | ({"patch": patch} if patch else {})

    return args


def _doubled(make: Callable[..., Any], name: str, other: Any, patch: Any) -> MakeArgs:
    def args(table: Table, node: Any) -> Args:
        make(node, other)
        return {name: make(node).uuid, "patch": patch}

    return args


def _elsewhere(make: Callable[..., Any], name: str, more: Args) -> MakeArgs:
    return lambda table, node: {name: make(other_node(table)).uuid, **more}


def _volumes(kind: str, make: Callable[..., Any]) -> Iterator[Refusal]:
    name, missing = f"{kind}_id", f"Volume{kind.capitalize()}NotFound"
    update, destroy = f"update_volume_{kind}", f"destroy_volume_{kind}"
    for method, more in ((update, patch_of("/extra", {})), (destroy, {})):
        yield Refusal(method, missing, "no such one", args={name: NOWHERE, **more})
        yield Refusal(method, missing, "of another node", args=_elsewhere(make, name, more))
        yield Refusal(
            method, "InvalidStateRequested", "is on", {"power_state": "power on"}, state="active"
        )
    yield Refusal(
        update,
        "InvalidStateRequested",
        "power state unknown",
        {"power_state": None},
    )
    yield Refusal(
        update,
        "InvalidParameterValue",
        "value",
        args=_volume(make, name, replace("/extra", "text")),
    )


VOLUMES = [
    *_volumes("connector", connector),
    *_volumes("target", target),
    Refusal(
        "update_volume_connector",
        "VolumeConnectorTypeAndIdAlreadyExists",
        "taken",
        args=_doubled(
            connector, "connector_id", "iqn.other", replace("/connector_id", "iqn.other")
        ),
    ),
    Refusal(
        "update_volume_target",
        "VolumeTargetBootIndexAlreadyExists",
        "taken",
        args=_doubled(target, "target_id", 7, replace("/boot_index", 7)),
    ),
]
MACHINE = [
    Refusal(
        "get_console_information", "NodeConsoleNotEnabled", "is off", {"console_enabled": False}
    ),
    Refusal("set_boot_device", "InvalidParameterValue", "device", args={"device": "tape"}),
    Refusal(
        "set_indicator_state",
        "InvalidParameterValue",
        "component",
        args={"component": "wheel"},
        answers={"management.set_indicator_state": errors.InvalidParameterValue("no wheel")},
    ),
    Refusal(
        "get_indicator_state", "InvalidParameterValue", "indicator", args={**LED, "indicator": "x"}
    ),
    Refusal(
        "get_supported_indicators", "InvalidParameterValue", "component", args={"component": "x"}
    ),
    *(
        Refusal(
            "get_supported_boot_devices",
            name,
            "by the driver",
            answers={"management.get_supported_boot_devices": getattr(errors, name)("no BMC")},
        )
        for name in ("InvalidParameterValue", "MissingParameterValue")
    ),
    Refusal(
        "set_target_raid_config",
        "InvalidParameterValue",
        "not of the schema",
        args={"target_raid_config": {"disks": []}},
    ),
    Refusal(
        "set_target_raid_config",
        "MissingParameterValue",
        "by the driver",
        answers={"raid.validate_raid_config": errors.MissingParameterValue("no controller")},
    ),
    *(
        Refusal(
            method,
            "TemporaryFailure",
            "the BMC is known not to answer",
            {"maintenance": True, "fault": "power failure"},
        )
        for method in ("attach_virtual_media", "detach_virtual_media")
    ),
    Refusal(
        "attach_virtual_media", "InvalidParameterValue", "device", args={"device_type": "tape"}
    ),
    Refusal(
        "attach_virtual_media",
        "InvalidParameterValue",
        "nobody can fetch it",
        args={"image_url": "nfs://x/y", "image_download_source": "local"},
    ),
    Refusal(
        "detach_virtual_media", "InvalidParameterValue", "device", args={"device_types": ["tape"]}
    ),
]
AGENT = [
    Refusal("heartbeat", "InvalidParameterValue", why, args=args)
    for why, args in (
        ("says nothing", {"agent_version": None}),
        ("no token", {"agent_token": None}),
        ("wrong token", {"agent_token": "w" * 43}),
        ("no TLS", {"callback_url": "http://x"}),
        ("no certificate", {"agent_verify_ca": "text"}),
    )
]


def _allocation(**values: Any) -> Args:
    return {"allocation": {"resource_class": "gold"} | values}


def _same(**values: Any) -> MakeArgs:
    def make(table: Table, node: Any) -> Args:
        allocations.create({"resource_class": "gold"} | values)
        return _allocation(**values)

    return make


def _backfill(node_values: Args, allocation: Args) -> MakeArgs:
    def make(table: Table, node: Any) -> Args:
        row = {"resource_class": "gold", "provision_state": "active"} | dict(node_values)
        return {**_allocation(**allocation), "node_id": str(other_node(table, **row).uuid)}

    return make


def _backfill_of_instance_elsewhere(table: Table, node: Any) -> Args:
    other_node(table, "active", instance_uuid=UUID)
    return _backfill({}, {"uuid": UUID})(table, node)


ALLOCATIONS = [
    Refusal("create_allocation", "AllocationDuplicateName", "taken", args=_same(name="a")),
    Refusal("create_allocation", "AllocationAlreadyExists", "taken", args=_same(uuid=UUID)),
    Refusal(
        "create_allocation",
        "NodeNotFound",
        "back-fill",
        args={**_allocation(), "node_id": NOWHERE},
    ),
    Refusal(
        "create_allocation",
        "NodeLocked",
        "back-fill",
        args=_backfill({"reservation": tablekit.OTHER_HOST}, {}),
    ),
    Refusal(
        "create_allocation",
        "NodeAssociated",
        "another instance",
        args=_backfill({"instance_uuid": NOWHERE}, {"uuid": UUID}),
    ),
    Refusal(
        "create_allocation",
        "InstanceAssociated",
        "instance of another node",
        args=_backfill_of_instance_elsewhere,
    ),
    *(
        Refusal("create_allocation", "InvalidParameterValue", why, args=_backfill(node, wanted))
        for why, node, wanted in (
            ("not in use", {"provision_state": "available"}, {}),
            ("in maintenance", {"maintenance": True}, {}),
            ("another class", {"resource_class": "silver"}, {}),
            ("lacks a trait", {}, {"traits": [TRAIT]}),
            ("no candidate", {}, {"candidate_nodes": [NOWHERE]}),
        )
    ),
    Refusal(
        "destroy_allocation", "AllocationNotFound", "no such one", args={"allocation_id": NOWHERE}
    ),
    Refusal("destroy_allocation", "NodeLocked", "locked", {"reservation": tablekit.OTHER_HOST}),
    Refusal("destroy_allocation", "InvalidState", "in use", state="active"),
    Refusal("destroy_allocation", "InvalidState", "on its way", state="deploying"),
]
TRAITS = [
    Refusal(
        "add_node_traits",
        "InvalidParameterValue",
        "too many",
        args={"traits": [f"CUSTOM_{n}" for n in range(51)]},
    ),
    Refusal(
        "remove_node_traits", "NodeTraitNotFound", "not there", args={"traits": ["CUSTOM_OTHER"]}
    ),
]

#: Refusals of methods about records and parts of a node.
OF_RECORDS: list[Refusal] = [
    *PORTS,
    *VIFS,
    *VOLUMES,
    *MACHINE,
    *AGENT,
    *ALLOCATIONS,
    *TRAITS,
]
