"""Networks of the service and of the instance, down to the wire."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import ports
from ironic_rs.domain import errors, states
from ironic_rs.drivers.network import vifs
from tests.harness.networking import NETWORK, NETWORK_NAME
from tests.unit.drivers.network.conftest import LINK

KINDS = ("cleaning", "provisioning", "rescuing", "inspection", "servicing")


@pytest.fixture
def own_network(networking):
    """One network for each purpose; its UUID by purpose."""
    found = {kind: networking.add("networks", name=kind)["id"] for kind in KINDS}
    for kind in KINDS:
        CONF.set_override(f"{kind}_network", kind, "neutron")
    return found


def stored_vifs(task, kind):
    return {
        port.uuid: port.internal_info[vifs.key(kind)]
        for port in ports.of_node(task.node.id)
        if vifs.key(kind) in port.internal_info
    }


def add(task, kind):
    return getattr(task.driver.network, f"add_{kind}_network")(task)


def remove(task, kind):
    getattr(task.driver.network, f"remove_{kind}_network")(task)


# Networks of the service


@pytest.mark.parametrize("kind", ["cleaning", "inspection"])
def test_flat_connects_and_disconnects(flat, own_network, networking, make_port, kind):
    node = flat.node()
    port = make_port(node, local_link_connection=LINK, physical_network="physnet1")
    with flat.task(node) as task:
        made = add(task, kind)
        assert stored_vifs(task, kind) == made == {port.uuid: next(iter(networking.ports))}
        assert task.driver.network.get_current_vif(task, task.ports[0]) == made[port.uuid]
        found = networking.ports[made[port.uuid]]
        assert found["network_id"] == own_network[kind]
        assert found["device_id"] == node.uuid
        assert found["device_owner"] == "baremetal:none"
        assert found["mac_address"] == port.address
        assert found["binding:host_id"] == node.uuid
        assert found["binding:vnic_type"] == "baremetal"
        assert found["binding:profile"] == {
            "local_link_information": [LINK],
            "physical_network": "physnet1",
        }
        remove(task, kind)
        assert networking.ports == {}
        assert stored_vifs(task, kind) == {}


@pytest.mark.parametrize("kind", KINDS)
def test_neutron_connects_with_security_groups(neutron, own_network, networking, make_port, kind):
    group = networking.add("security-groups")["id"]
    CONF.set_override(f"{kind}_network_security_groups", [group], "neutron")
    node = neutron.node(instance_uuid="5e3c4d1a-7e1c-4b8b-8a4f-1d6f1d6f1d6f")
    make_port(node, local_link_connection=LINK)
    with neutron.task(node) as task:
        add(task, kind)
        (found,) = networking.ports.values()
        assert found["network_id"] == own_network[kind]
        assert found["security_groups"] == [group]
        assert found["device_id"] == node.instance_uuid
        assert list(stored_vifs(task, kind).values()) == [found["id"]]
        remove(task, kind)
    assert networking.ports == {}


def test_a_missing_security_group_is_named(neutron, networking, make_port):
    CONF.set_override("cleaning_network_security_groups", ["sg-1"], "neutron")
    node = neutron.node()
    make_port(node, local_link_connection=LINK)
    with (
        neutron.task(node) as task,
        pytest.raises(errors.NetworkError, match="no security group sg-1"),
    ):
        add(task, "cleaning")


def test_only_ports_that_boot_by_network_are_connected(flat, networking, make_port):
    node = flat.node()
    boots = make_port(node)
    make_port(node, pxe_enabled=False)
    with flat.task(node) as task:
        task.driver.boot.capabilities = ("pxe_boot",)
        assert list(add(task, "cleaning")) == [boots.uuid]


@pytest.mark.parametrize("why", ["boot interface", "option"])
def test_all_ports_can_be_connected(flat, networking, make_port, why):
    node = flat.node()
    made = [make_port(node).uuid, make_port(node, pxe_enabled=False).uuid]
    CONF.set_override("add_all_ports", why == "option", "neutron")
    with flat.task(node) as task:
        task.driver.boot.capabilities = ("pxe_boot",) if why == "option" else ()
        connected = add(task, "cleaning")
    assert list(connected) == made
    assert networking.ports[connected[made[0]]]["fixed_ips"] != []
    assert networking.ports[connected[made[1]]]["fixed_ips"] == []


def test_infiniband_asks_for_its_client_identifier(flat, networking, make_port):
    node = flat.node()
    make_port(node, extra={"client-id": "ff:00"})
    with flat.task(node) as task:
        add(task, "cleaning")
    (found,) = networking.ports.values()
    assert found["extra_dhcp_opts"] == [{"opt_name": "61", "opt_value": "ff:00"}]


@pytest.mark.parametrize(("count", "wanted"), [(4, 4), (1, 1)])
def test_each_boot_stage_gets_an_ipv6_address(flat, networking, make_port, count, wanted):
    CONF.set_override("dhcpv6_stateful_address_count", count, "neutron")
    network = networking.add("networks", name="six")["id"]
    networking.add(
        "subnets",
        network_id=network,
        ip_version=6,
        cidr="2001:db8::/64",
        ipv6_address_mode="dhcpv6-stateful",
    )
    CONF.set_override("cleaning_network", "six", "neutron")
    node = flat.node()
    make_port(node)
    with flat.task(node) as task:
        add(task, "cleaning")
    (found,) = networking.ports.values()
    assert len({address["ip_address"] for address in found["fixed_ips"]}) == wanted


def test_a_node_without_ports_can_not_be_connected(flat, networking):
    node = flat.node()
    with (
        flat.task(node) as task,
        pytest.raises(errors.NetworkError, match="no port to connect to the cleaning network"),
    ):
        add(task, "cleaning")


def test_leftovers_are_deleted_before_and_after(flat, networking, make_port):
    node = flat.node()
    port = make_port(node)
    networking.add("ports", network_id=NETWORK, mac_address=port.address)
    other = networking.add("ports", network_id=NETWORK)["id"]
    with flat.task(node) as task:
        (made,) = add(task, "cleaning").values()
        assert set(networking.ports) == {other, made}
        task.ports[0].internal_info = {}
        remove(task, "cleaning")
    assert set(networking.ports) == {other}


def test_the_port_of_the_instance_in_the_same_network_stays(flat, networking, make_port):
    node = flat.node()
    port = make_port(node)
    vif = networking.add("ports", network_id=NETWORK)["id"]
    flat.call("vif_attach", node, vif_info={"id": vif})
    assert networking.ports[vif]["mac_address"] == port.address
    with flat.task(node) as task:
        remove(task, "cleaning")
        with pytest.raises(errors.NetworkError, match="is in use"):
            add(task, "cleaning")
    assert vif in networking.ports


def test_a_port_that_is_gone_is_removed(flat, networking, make_port):
    node = flat.node()
    make_port(node)
    with flat.task(node) as task:
        add(task, "cleaning")
        networking.ports.clear()
        remove(task, "cleaning")
        assert stored_vifs(task, "cleaning") == {}


def test_some_connected_ports_are_enough(flat, networking, make_port, caplog):
    node = flat.node()
    bad, good = make_port(node), make_port(node)
    networking.fail("POST", "/v2.0/ports", 503, times=1)
    with flat.task(node) as task:
        assert list(add(task, "cleaning")) == [good.uuid]
    assert f"some ports are not connected to the cleaning network {NETWORK}: port {bad.uuid}" in (
        caplog.text
    )


@pytest.mark.parametrize("status", [401, 404, 409, 503])
def test_no_connected_port_is_an_error_and_leaves_none(flat, networking, make_port, status):
    node = flat.node()
    make_port(node)
    make_port(node)
    networking.fail("POST", "/v2.0/ports", status)
    with (
        flat.task(node) as task,
        pytest.raises(errors.NetworkError, match=rf"port .*HTTP {status}: by order.*; port .*"),
    ):
        add(task, "cleaning")
    assert networking.ports == {}
    assert all(not port.internal_info for port in ports.of_node(node.id))


def test_a_port_that_is_not_bound_is_deleted_again(neutron, networking, make_port):
    networking.binding = ("DOWN", "binding_failed")
    node = neutron.node()
    make_port(node, local_link_connection=LINK)
    with neutron.task(node) as task, pytest.raises(errors.NetworkError, match="could not bind"):
        add(task, "cleaning")
    assert networking.ports == {}


def test_a_port_that_can_not_be_deleted_again_is_logged(neutron, networking, make_port, caplog):
    networking.binding = ("DOWN", "binding_failed")
    networking.fail("DELETE", "/v2.0/ports/.*", 503)
    node = neutron.node()
    make_port(node, local_link_connection=LINK)
    with neutron.task(node) as task, pytest.raises(errors.NetworkError, match="could not bind"):
        add(task, "cleaning")
    assert "is left behind in the Networking service" in caplog.text


def test_ports_that_can_not_be_written_down_are_deleted_again(
    flat, networking, make_port, monkeypatch
):
    node = flat.node()
    make_port(node)

    def refuse(task, thing):
        raise errors.LockLost(host="h", node=node.uuid, reason="of the test")

    monkeypatch.setattr("ironic_rs.drivers.network.vifs.save", refuse)
    with flat.task(node) as task, pytest.raises(errors.LockLost):
        add(task, "cleaning")
    assert networking.ports == {}


def test_a_refused_removal_is_an_error_and_can_be_repeated(flat, networking, make_port):
    node = flat.node()
    make_port(node)
    with flat.task(node) as task:
        add(task, "cleaning")
        networking.fail("DELETE", "/v2.0/ports/.*", 503, times=1)
        with pytest.raises(errors.NetworkError, match=r"DELETE /ports/.* failed: HTTP 503"):
            remove(task, "cleaning")
        assert len(stored_vifs(task, "cleaning")) == 1
        remove(task, "cleaning")
    assert networking.ports == {}


def test_a_smart_nic_is_waited_for(neutron, networking, make_port):
    networking.add("agents", host="nic1", alive=True)
    node = neutron.node()
    link = {"port_id": "rep0", "hostname": "nic1"}
    make_port(node, is_smartnic=True, local_link_connection=link)
    with neutron.task(node) as task:
        assert task.driver.network.need_power_on(task)
        add(task, "cleaning")
    (found,) = networking.ports.values()
    assert (found["binding:host_id"], found["binding:vnic_type"]) == ("nic1", "smart-nic")


# Which network


@pytest.mark.parametrize("name", [NETWORK, NETWORK_NAME])
def test_the_node_decides_before_the_option(flat, networking, name):
    CONF.set_override("cleaning_network", "nonsense", "neutron")
    node = flat.node(driver_info={"cleaning_network": name})
    with flat.task(node) as task:
        task.driver.network.validate(task)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nonsense", r"\[neutron\]cleaning_network is 'nonsense': .* no such network"),
        (NETWORK.replace("1", "9"), "no such network"),
        ("twice", "2 networks have this name"),
    ],
)
def test_a_network_that_is_not_one_is_named(flat, networking, name, text):
    for _ in range(2):
        networking.add("networks", name="twice")
    CONF.set_override("cleaning_network", name, "neutron")
    with flat.task(flat.node()) as task, pytest.raises(errors.InvalidParameterValue, match=text):
        task.driver.network.validate(task)


def test_neutron_needs_a_provisioning_network_too(neutron, networking):
    CONF.clear_override("provisioning_network", "neutron")
    with (
        neutron.task(neutron.node()) as task,
        pytest.raises(errors.MissingParameterValue, match=r"\[neutron\]provisioning_network"),
    ):
        task.driver.network.validate(task)


def test_neutron_needs_a_rescuing_network_to_rescue(neutron, networking):
    with neutron.task(neutron.node()) as task:
        task.driver.network.validate(task)
        with pytest.raises(errors.MissingParameterValue, match=r"\[neutron\]rescuing_network"):
            task.driver.network.validate_rescue(task)


def test_neutron_refuses_a_machine_that_stays_on(neutron, networking):
    node = neutron.node(disable_power_off=True)
    with neutron.task(node) as task:
        with pytest.raises(errors.InvalidParameterValue, match="allow_disabling_power_off"):
            task.driver.network.validate(task)
        CONF.set_override("allow_disabling_power_off", True, "neutron")
        task.driver.network.validate(task)


def test_inspection_without_a_network_is_unmanaged(flat, networking):
    with flat.task(flat.node()) as task:
        with pytest.raises(errors.UnsupportedDriverExtension):
            task.driver.network.validate_inspection(task)
        CONF.set_override("inspection_network", NETWORK_NAME, "neutron")
        task.driver.network.validate_inspection(task)


# Networks of the instance


@pytest.fixture
def deployed(flat, networking, make_port, make_group):
    """An available node with a VIF on a port and one on a port group."""
    node = flat.node(states.AVAILABLE)
    group = make_group(node)
    make_port(node)
    make_port(node, portgroup_id=group.id)
    for _ in range(2):
        vif = networking.add("ports", network_id=NETWORK)["id"]
        flat.call("vif_attach", node, vif_info={"id": vif})
    return node


def hosts(networking):
    return {port["binding:host_id"] for port in networking.ports.values()}


@pytest.mark.parametrize("purpose", ["provisioning", "rescuing", "servicing"])
def test_flat_binds_the_vifs_of_the_instance_for_the_ramdisk(flat, deployed, networking, purpose):
    with flat.task(deployed) as task:
        remove(task, purpose)
        assert hosts(networking) == {""}
        add(task, purpose)
        assert hosts(networking) == {deployed.uuid}


def test_flat_binds_and_unbinds_for_the_instance(flat, deployed, networking):
    addresses = {port.address for port in ports.of_node(deployed.id)}
    with flat.task(deployed) as task:
        task.driver.network.unconfigure_tenant_networks(task)
        assert hosts(networking) == {""}
        assert not addresses & {port["mac_address"] for port in networking.ports.values()}
        task.driver.network.configure_tenant_networks(task)
        assert hosts(networking) == {deployed.uuid}
        assert len(task.driver.network.vif_list(task)) == 2


@pytest.mark.parametrize("method", ["add_provisioning_network", "configure_tenant_networks"])
def test_flat_needs_a_vif_to_deploy(flat, networking, make_port, method):
    node = flat.node()
    make_port(node)
    with (
        flat.task(node) as task,
        pytest.raises(errors.NetworkError, match="has no VIF on any of its 1 ports and 0 port"),
    ):
        getattr(task.driver.network, method)(task)


def test_flat_reports_a_vif_that_can_not_be_bound(flat, deployed, networking):
    networking.fail("PUT", "/v2.0/ports/.*", 503, times=1)
    with flat.task(deployed) as task, pytest.raises(errors.NetworkError, match="503"):
        task.driver.network.configure_tenant_networks(task)


def test_neutron_plugs_in_and_unplugs(neutron, networking, make_port):
    node = neutron.node(states.AVAILABLE)
    make_port(node, local_link_connection=LINK)
    vif = networking.add("ports", network_id=NETWORK)["id"]
    neutron.call("vif_attach", node, vif_info={"id": vif})
    with neutron.task(node) as task:
        task.driver.network.configure_tenant_networks(task)
        assert networking.ports[vif]["binding:profile"]["local_link_information"] == [LINK]
        task.driver.network.unconfigure_tenant_networks(task)
        assert networking.ports[vif]["binding:profile"] == {}
        assert task.driver.network.vif_list(task) == [{"id": vif}]


def test_neutron_needs_a_vif(neutron, networking):
    with (
        neutron.task(neutron.node()) as task,
        pytest.raises(errors.NetworkError, match="has no VIF on any of its 0 ports"),
    ):
        task.driver.network.configure_tenant_networks(task)


def test_networking_can_be_attached_again_as_a_service_step(neutron, networking, make_port):
    node = neutron.node(states.ACTIVE)
    make_port(node, local_link_connection=LINK)
    vif = networking.add("ports", network_id=NETWORK)["id"]
    neutron.call("vif_attach", node, vif_info={"id": vif})
    networking.ports[vif]["binding:profile"] = {}
    with neutron.task(node) as task:
        (step,) = task.driver.network.get_service_steps(task)
        assert (step["step"], step["priority"], step["requires_ramdisk"]) == (
            "reattach_networking",
            0,
            False,
        )
        assert task.driver.network.execute_service_step(task, step) is None
    assert networking.ports[vif]["binding:profile"]["local_link_information"] == [LINK]


def test_a_machine_is_cleaned_and_no_port_is_left(flat, networking, make_port):
    """Through the real flow: a failure of the network fails cleaning, not the node."""
    node = flat.node(states.MANAGEABLE)
    make_port(node)
    networking.fail("GET", "/v2.0/networks", 503)
    flat.call("do_provisioning_action", node, action="provide")
    stored = flat.read(node)
    assert stored.provision_state == states.CLEANFAIL
    assert "Networking service: GET /networks failed: HTTP 503" in stored.last_error
    assert stored.reservation is None
