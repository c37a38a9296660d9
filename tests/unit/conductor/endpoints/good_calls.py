"""One call of each RPC method that is good: refusals differ from it in one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ironic_rs.db import allocations, models, nodes, portgroups, ports, volumes
from tests.unit.conductor.flowkit import steps
from tests.unit.conductor.tablekit import Table

MAC = "52:54:00:cf:2d:31"
OTHER_MAC = "52:54:00:cf:2d:32"
UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
NOWHERE = "3be26c0b-03f2-4d2e-ae87-c02d7f33c123"
TOKEN = "t" * 43
STEPS = steps("raid.a")
LED = {"component": "system", "indicator": "led"}
TRAIT = "CUSTOM_GOLD"

Args = Mapping[str, Any]
MakeArgs = Callable[[Table, Any], Args]


@dataclass(frozen=True)
class Good:
    """A call that is accepted.

    :param state: provision state of the node; None: the method is about no node.
    :param values: other columns of the node.
    :param args: arguments, or what makes them from the stored node.
    :param answers: what methods of the driver (``interface.method``) answer.
    """

    state: str | None = "manageable"
    values: Args = field(default_factory=dict)
    args: Args | MakeArgs = field(default_factory=dict)
    answers: Args = field(default_factory=dict)

    def arguments(self, table: Table, node: Any) -> dict[str, Any]:
        """Return the arguments besides ``node_id``."""
        return dict(self.args(table, node) if callable(self.args) else self.args)


def replace(path: str, value: Any) -> list[dict[str, Any]]:
    """Return a patch."""
    return [{"op": "replace", "path": path, "value": value}]


def port(node: models.Node, mac: str = MAC, **values: Any) -> models.Port:
    """Store a port."""
    return ports.create({"node_id": node.id, "address": mac} | values)


def group(node: models.Node, **values: Any) -> models.Portgroup:
    """Store a portgroup."""
    return portgroups.create({"node_id": node.id} | values)


def connector(node: models.Node, name: str = "iqn.2017-07.org:1") -> models.VolumeConnector:
    """Store a volume connector."""
    return volumes.create_connector({"node_id": node.id, "type": "iqn", "connector_id": name})


def target(node: models.Node, index: int = 0) -> models.VolumeTarget:
    """Store a volume target."""
    return volumes.create_target(
        {"node_id": node.id, "volume_type": "iscsi", "boot_index": index, "volume_id": "v"}
    )


def allocate(table: Table, node: models.Node, uuid: str = UUID) -> models.Allocation:
    """Store an allocation that the node has."""
    made = allocations.create(
        {"uuid": uuid, "resource_class": "gold", "conductor_affinity": table.world.conductor_id}
    )
    allocations.bind(made, node.id, fence=None)
    return allocations.get(made.id)


def _trait(table: Table, node: models.Node) -> Args:
    nodes.set_traits(node.id, [TRAIT])
    return {"traits": [TRAIT]}


def waiting(kind: str, state: str) -> Good:
    """Return a call that goes on with a flow."""
    info = {f"{kind}_steps": STEPS, f"{kind}_step_index": 0}
    return Good(state, {f"{kind}_step": STEPS[0], "driver_internal_info": info})


GOOD: dict[str, Good] = {
    "create_node": Good(None, args={"node": {"driver": "fake-hardware"}}),
    "update_node": Good(args={"patch": replace("/extra", {"a": 1})}),
    "change_node_power_state": Good(args={"new_state": "power off"}),
    "change_node_boot_mode": Good(args={"new_state": "uefi"}),
    "change_node_secure_boot": Good(args={"new_state": True}),
    "vendor_passthru": Good(
        args={"driver_method": "second_method", "http_method": "POST", "info": {"bar": "kazoo"}}
    ),
    "driver_vendor_passthru": Good(
        None,
        args={
            "driver_name": "fake-hardware",
            "driver_method": "ping",
            "http_method": "POST",
            "info": {},
        },
    ),
    "get_node_vendor_passthru_methods": Good(),
    "get_driver_vendor_passthru_methods": Good(None, args={"driver_name": "fake-hardware"}),
    "do_node_rescue": Good("active", args={"rescue_password": "secret"}),
    "do_node_unrescue": Good("rescue"),
    "do_node_deploy": Good("available"),
    "continue_node_deploy": waiting("deploy", "wait call-back"),
    "continue_node_service": waiting("service", "service wait"),
    "do_node_tear_down": Good("active"),
    "do_node_clean": Good(args={"clean_steps": STEPS}),
    "continue_node_clean": waiting("clean", "clean wait"),
    "do_provisioning_action": Good(args={"action": "provide"}),
    "validate_driver_interfaces": Good(),
    "destroy_node": Good(),
    "destroy_port": Good(args=lambda table, node: {"port_id": port(node).uuid}),
    "destroy_portgroup": Good(args=lambda table, node: {"portgroup_id": group(node).uuid}),
    "update_portgroup_physical_network": Good(
        args=lambda table, node: {
            "portgroup_id": group(node).uuid,
            "new_physical_network": "physnet1",
        }
    ),
    "destroy_volume_connector": Good(
        args=lambda table, node: {"connector_id": connector(node).uuid}
    ),
    "update_volume_connector": Good(
        values={"power_state": "power off"},
        args=lambda table, node: {
            "connector_id": connector(node).uuid,
            "patch": replace("/extra", {"a": 1}),
        },
    ),
    "destroy_volume_target": Good(args=lambda table, node: {"target_id": target(node).uuid}),
    "update_volume_target": Good(
        values={"power_state": "power off"},
        args=lambda table, node: {
            "target_id": target(node).uuid,
            "patch": replace("/extra", {"a": 1}),
        },
    ),
    "get_console_information": Good("active", {"console_enabled": True}),
    "set_console_mode": Good("active", args={"enabled": True}),
    "create_port": Good(args={"port": {"address": MAC}}),
    "update_port": Good(
        args=lambda table, node: {
            "port_id": port(node).uuid,
            "patch": replace("/extra", {"a": 1}),
        }
    ),
    "update_portgroup": Good(
        args=lambda table, node: {
            "portgroup_id": group(node).uuid,
            "patch": replace("/extra", {"a": 1}),
        }
    ),
    "get_driver_properties": Good(None, args={"driver_name": "fake-hardware"}),
    "set_boot_device": Good(args={"device": "pxe"}),
    "get_boot_device": Good(),
    "inject_nmi": Good(answers={"management.inject_nmi": None}),
    "get_supported_boot_devices": Good(),
    "set_indicator_state": Good(
        args={**LED, "state": "on"}, answers={"management.set_indicator_state": None}
    ),
    "get_indicator_state": Good(args=LED),
    "get_supported_indicators": Good(),
    "inspect_hardware": Good(),
    "continue_inspection": Good(
        "inspect wait", args={"inventory": {}}, answers={"inspect.continue_inspection": None}
    ),
    "set_target_raid_config": Good(
        args={"target_raid_config": {"logical_disks": [{"raid_level": "1", "size_gb": 10}]}}
    ),
    "get_raid_logical_disk_properties": Good(None, args={"driver_name": "fake-hardware"}),
    "heartbeat": Good(
        "clean wait",
        {"driver_internal_info": {"agent_secret_token": TOKEN, "agent_url": "https://x"}},
        {"callback_url": "https://x", "agent_version": "13.0.0", "agent_token": TOKEN},
    ),
    "vif_list": Good(),
    "vif_attach": Good(args={"vif_info": {"id": "v"}}, answers={"network.vif_attach": None}),
    "vif_detach": Good(args={"vif_id": "v"}, answers={"network.vif_detach": None}),
    "add_node_traits": Good(args={"traits": [TRAIT]}),
    "remove_node_traits": Good(args=_trait),
    "create_allocation": Good(None, args={"allocation": {"resource_class": "gold"}}),
    "destroy_allocation": Good(
        "available",
        {"resource_class": "gold"},
        args=lambda table, node: {"allocation_id": allocate(table, node).uuid},
    ),
    "get_node_with_token": Good("clean wait"),
    "do_node_service": Good("active", args={"service_steps": STEPS}),
    "attach_virtual_media": Good(
        args={
            "device_type": "cdrom",
            "image_url": "http://192.0.2.1/a.iso",
            "image_download_source": "http",
        }
    ),
    "detach_virtual_media": Good(),
    "get_virtual_media": Good(),
}
