"""Machines that have to be on while the networks of their Smart NICs change."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states

LINK = {"port_id": "rep0", "hostname": "nic1"}
TURNS = [
    ("set_boot_device", "bios", False),
    ("power", states.POWER_ON),
    ("power", states.POWER_OFF),
]


@pytest.fixture
def seen(neutron, networking, monkeypatch):
    """What happens to a machine whose card loses its agent with its power."""
    calls = []
    CONF.set_override("neutron_agent_status_retry_interval", 0, "agent")
    CONF.set_override("neutron_agent_max_attempts", 3, "agent")
    card = networking.add("agents", host="nic1", alive=False)

    def set_power_state(task, state, timeout=None):
        calls.append(("power", state))
        task.node.power_state = state
        networking.tables["agents"][card["id"]]["alive"] = state == states.POWER_ON

    def set_boot_device(task, device, persistent=False):
        calls.append(("set_boot_device", device, persistent))

    neutron.driver.power.set_power_state = set_power_state
    neutron.driver.management.set_boot_device = set_boot_device
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return calls


def machine(neutron, make_port, **values):
    node = neutron.node(**{"power_state": states.POWER_OFF} | values)
    make_port(node, is_smartnic=True, local_link_connection=LINK)
    return node


@pytest.mark.parametrize("kind", ["provisioning", "cleaning"])
def test_a_machine_that_is_off_is_on_while_its_networks_change(
    neutron, networking, make_port, seen, kind
):
    node = machine(neutron, make_port)
    with neutron.task(node) as task:
        getattr(task.driver.network, f"add_{kind}_network")(task)
        assert seen == TURNS
        assert len(networking.ports) == 1
        getattr(task.driver.network, f"remove_{kind}_network")(task)
    assert seen == TURNS * 2
    assert networking.ports == {}
    assert neutron.read(node).power_state == states.POWER_OFF


def test_the_networks_of_the_instance_are_changed_likewise(neutron, networking, make_port, seen):
    node = machine(neutron, make_port, provision_state=states.DEPLOYING)
    vif = networking.add("ports", network_id=next(iter(networking.tables["networks"])))["id"]
    neutron.call("vif_attach", node, vif_info={"id": vif})
    seen.clear()
    with neutron.task(node) as task:
        task.driver.network.configure_tenant_networks(task)
        assert networking.ports[vif]["binding:host_id"] == "nic1"
        assert seen == TURNS
        task.driver.network.unconfigure_tenant_networks(task)
    assert seen == TURNS * 2


def test_a_machine_that_is_on_stays_on(neutron, networking, make_port, seen):
    node = machine(neutron, make_port, power_state=states.POWER_ON)
    for agent in networking.tables["agents"].values():
        agent["alive"] = True
    with neutron.task(node) as task:
        task.driver.network.add_cleaning_network(task)
    assert seen == []


def test_a_machine_without_such_a_card_stays_off(neutron, make_port, seen):
    node = neutron.node(power_state=states.POWER_OFF)
    make_port(node, local_link_connection={"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "1"})
    with neutron.task(node) as task:
        task.driver.network.add_cleaning_network(task)
    assert seen == []


def test_a_card_with_power_of_its_own_is_not_waited_for_for_ever(
    neutron, networking, make_port, seen
):
    for agent in networking.tables["agents"].values():
        agent["alive"] = True
    node = machine(neutron, make_port)
    with neutron.task(node) as task:
        task.driver.network.add_cleaning_network(task)
    assert seen == TURNS


def test_the_machine_is_off_again_after_a_failure(neutron, networking, make_port, seen):
    networking.fail("POST", "/v2.0/ports", 503)
    node = machine(neutron, make_port)
    with neutron.task(node) as task, pytest.raises(errors.NetworkError):
        task.driver.network.add_cleaning_network(task)
    assert seen == TURNS
