"""Ports and portgroups."""

from __future__ import annotations

import pytest

from ironic_rs.db import portgroups, ports
from ironic_rs.domain import errors, states

MAC = "52:54:00:cf:2d:31"


@pytest.fixture
def node(world):
    return world.node()


def port(node, mac=MAC, **values):
    return ports.create({"node_id": node.id, "address": mac} | values)


def op(path, value):
    return {"op": "replace", "path": path, "value": value}


def update(world, node, record, *operations):
    world.call("update_port", node, port_id=record.uuid, patch=list(operations))
    return ports.get(record.uuid)


def test_a_port_is_created_on_its_node_and_addresses_are_unique(world, node):
    uuid = world.call("create_port", node, port={"address": MAC.upper()})["uuid"]
    created = ports.get(uuid)
    assert (created.node_id, created.address) == (node.id, MAC)
    with pytest.raises(errors.MACAlreadyExists):
        world.call("create_port", node, port={"address": MAC})


def test_a_port_is_created_while_the_node_is_locked(world, node):
    with world.task(node):
        world.call("create_port", node, port={"address": MAC})


def test_a_patch_changes_a_port(world, node):
    changed = []
    world.driver.network.port_changed = lambda task, record: changed.append(record.uuid)
    record = port(node)
    stored = update(world, node, record, op("/extra", {"a": 1}), op("/pxe_enabled", False))
    assert (stored.extra, stored.pxe_enabled) == ({"a": 1}, False)
    assert changed == [record.uuid]


def test_what_the_network_refuses_is_not_stored(world, node):
    def refuse(task, record):
        raise errors.FailedToUpdateMacOnPort(port_id=record.uuid)

    world.driver.network.port_changed = refuse
    record = port(node)
    with pytest.raises(errors.FailedToUpdateMacOnPort):
        update(world, node, record, op("/address", "52:54:00:cf:2d:32"))
    assert ports.get(record.uuid).address == MAC


@pytest.mark.parametrize("values", [{"state": states.ACTIVE}, {"instance_uuid": "i"}])
def test_the_address_of_a_used_node_stays(world, values):
    values = dict(values)
    if "instance_uuid" in values:
        values["instance_uuid"] = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    node = world.node(**values)
    record = port(node)
    with pytest.raises(errors.InvalidState):
        update(world, node, record, op("/address", "52:54:00:cf:2d:32"))
    world.call("update_node", node, patch=[op("/maintenance", True)])
    stored = update(world, node, record, op("/address", "52:54:00:cf:2d:32"))
    assert stored.address == "52:54:00:cf:2d:32"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/pxe_enabled", False),
        ("/local_link_connection", {"switch_id": "x"}),
        ("/physical_network", "net"),
    ],
)
def test_connectivity_stays_while_something_runs(world, path, value):
    node = world.node(states.ACTIVE)
    record = port(node)
    with pytest.raises(errors.InvalidState):
        update(world, node, record, op(path, value))
    assert update(world, node, record, op("/extra", {"a": 1})).extra == {"a": 1}


def test_a_port_of_another_node_is_not_found(world, node):
    record = port(world.node())
    for method, args in (("update_port", {"patch": []}), ("destroy_port", {})):
        with pytest.raises(errors.PortNotFound):
            world.call(method, node, port_id=record.uuid, **args)


def test_a_bound_port_is_not_deleted(world, node):
    world.driver.network.get_current_vif = lambda task, record: "vif"
    record = port(node)
    with pytest.raises(errors.InvalidState, match="vif"):
        world.call("destroy_port", node, port_id=record.uuid)
    world.call("update_node", node, patch=[op("/maintenance", True)])
    world.call("destroy_port", node, port_id=record.uuid)
    with pytest.raises(errors.PortNotFound):
        ports.get(record.uuid)


# Physical networks.


def group(node, **values):
    return portgroups.create({"node_id": node.id} | values)


def test_the_first_member_brings_its_network_along(world, node):
    bond = group(node)
    world.call(
        "create_port",
        node,
        port={"address": MAC, "portgroup_id": bond.id, "physical_network": "net"},
    )
    assert portgroups.get(bond.id).physical_network == "net"


def test_the_portgroup_s_network_counts_while_it_is_empty(world, node):
    bond = group(node, physical_network="net")
    with pytest.raises(errors.Conflict):
        world.call("create_port", node, port={"address": MAC, "portgroup_id": bond.id})


def test_members_share_one_network(world, node):
    bond = group(node)
    port(node, physical_network="net", portgroup_id=bond.id)
    other = port(node, "52:54:00:cf:2d:32", physical_network="lan")
    with pytest.raises(errors.Conflict):
        update(world, node, other, op("/portgroup_id", bond.id))
    stored = update(
        world, node, other, op("/portgroup_id", bond.id), op("/physical_network", "net")
    )
    assert stored.portgroup_id == bond.id


def test_members_that_disagree_already_are_told(world, node):
    bond = group(node)
    port(node, physical_network="net", portgroup_id=bond.id)
    port(node, "52:54:00:cf:2d:32", portgroup_id=bond.id)
    with pytest.raises(errors.PortgroupPhysnetInconsistent, match="net, none"):
        world.call(
            "create_port", node, port={"address": "52:54:00:cf:2d:33", "portgroup_id": bond.id}
        )


def test_a_portgroup_takes_its_ports_to_another_network(world, node):
    bond = group(node, physical_network="net")
    member = port(node, physical_network="net", portgroup_id=bond.id)
    world.call(
        "update_portgroup_physical_network",
        node,
        portgroup_id=bond.uuid,
        new_physical_network="lan",
    )
    assert portgroups.get(bond.id).physical_network == "lan"
    assert ports.get(member.id).physical_network == "lan"
    world.call(
        "update_portgroup", node, portgroup_id=bond.uuid, patch=[op("/physical_network", "wan")]
    )
    assert ports.get(member.id).physical_network == "wan"


# Portgroups.


def test_a_patch_changes_a_portgroup(world, node):
    bond = group(node)
    world.call("update_portgroup", node, portgroup_id=bond.uuid, patch=[op("/name", "bond0")])
    assert portgroups.get(bond.id).name == "bond0"


def test_a_portgroup_moves_only_while_it_is_empty_and_the_node_rests(world, node):
    other = world.node()
    bond = group(node)
    member = port(node, portgroup_id=bond.id)
    move = {"portgroup_id": bond.uuid, "patch": [op("/node_id", other.id)]}
    with pytest.raises(errors.PortgroupNotEmpty):
        world.call("update_portgroup", node, **move)
    world.call("destroy_port", node, port_id=member.uuid)
    world.call("update_portgroup", node, **move)
    assert portgroups.get(bond.id).node_id == other.id
    busy = world.node(states.ACTIVE)
    bond = group(busy)
    with pytest.raises(errors.InvalidState):
        world.call(
            "update_portgroup", busy, portgroup_id=bond.uuid, patch=[op("/node_id", other.id)]
        )


def test_a_portgroup_with_members_is_not_deleted(world, node):
    bond = group(node)
    member = port(node, portgroup_id=bond.id)
    with pytest.raises(errors.PortgroupNotEmpty):
        world.call("destroy_portgroup", node, portgroup_id=bond.uuid)
    world.call("destroy_port", node, port_id=member.uuid)
    world.call("destroy_portgroup", node, portgroup_id=bond.uuid)
    with pytest.raises(errors.PortgroupNotFound):
        portgroups.get(bond.id)
