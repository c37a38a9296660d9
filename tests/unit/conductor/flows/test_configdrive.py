"""Network data for instances whose config drive has none of use."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.images import configdrive

KNOWN = {
    "links": [
        {"id": "p1", "type": "phy", "mtu": 1500},
        {"id": "p2", "type": "phy", "mtu": 1500},
        {"id": "b", "type": "bond", "mtu": 1500, "bond_links": ["p1", "p2"]},
    ],
    "networks": [{"id": "network0", "link": "b"}],
    "services": [],
}
NAMED = {
    "links": [
        {"id": "iface0", "type": "phy", "mtu": 1500},
        {"id": "iface1", "type": "phy", "mtu": 1500},
        {"id": "iface2", "type": "bond", "mtu": 1500, "bond_links": ["iface0", "iface1"]},
    ],
    "networks": [{"id": "network0", "link": "iface2"}],
    "services": [],
}
OWN = {"links": [{"id": "x"}], "networks": [{"id": "n", "link": "x"}], "services": []}


@pytest.fixture(autouse=True)
def network(world):
    """A network interface that knows the networks of the instance."""
    asked = []

    def tell(task):
        asked.append(task.node.uuid)
        return KNOWN

    world.kit.offer("deploy", "deploy.deploy", 100)
    world.driver.network.capabilities = ("metadata",)
    world.driver.network.get_node_network_data = tell
    return asked


def stored(world, drive):
    node = world.node(states.AVAILABLE)
    world.call("do_node_deploy", node, configdrive=drive)
    found = world.read(node)
    assert found.provision_state == states.ACTIVE
    return found.instance_info["configdrive"]


def test_a_description_without_networks_gets_those_of_the_instance(world):
    drive = {"meta_data": {"a": 1}}
    assert stored(world, drive) == {"meta_data": {"a": 1}, "network_data": NAMED}


def test_links_without_an_mtu_are_replaced_unless_that_is_allowed(world, network):
    assert stored(world, {"network_data": OWN}) == {"network_data": NAMED}
    CONF.set_override("disable_metadata_mtu_check", True, group="conductor")
    assert stored(world, {"network_data": OWN}) == {"network_data": OWN}
    assert len(network) == 1


def test_a_finished_drive_is_completed(world):
    class Node:
        uuid, name = "u", "n"

    drive = configdrive.build(Node, {"user_data": "x"})
    completed = stored(world, drive)
    assert completed != drive
    assert configdrive.with_network(completed, dict, mtu=True) == completed


@pytest.mark.parametrize("drive", ["http://host/drive", "https://host/drive", "aGVsbG8="])
def test_an_address_and_what_can_not_be_read_stay_as_they_are(world, drive):
    assert stored(world, drive) == drive


@pytest.mark.parametrize("exc", [errors.NetworkError("down"), OSError("down")])
def test_a_network_that_does_not_tell_fails_no_deployment(world, exc):
    def fail(task):
        raise exc

    world.driver.network.get_node_network_data = fail
    assert stored(world, {"meta_data": {"a": 1}}) == {"meta_data": {"a": 1}}


def test_nobody_is_asked_when_that_is_switched_off(world, network):
    CONF.set_override("disable_configdrive_check", True, group="conductor")
    assert stored(world, {"meta_data": {"a": 1}}) == {"meta_data": {"a": 1}}
    assert network == []


def test_a_network_interface_without_that_knowledge_is_not_asked(world, network):
    world.driver.network.capabilities = ()
    assert stored(world, {"meta_data": {"a": 1}}) == {"meta_data": {"a": 1}}
    assert network == []
