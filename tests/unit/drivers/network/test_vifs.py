"""Attaching, detaching and listing VIFs, down to the wire of the Networking service."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import portgroups, ports, session
from ironic_rs.domain import errors, states
from tests.harness.networking import NETWORK
from tests.unit.drivers.network.conftest import LINK

KEY = "tenant_vif_port_id"


@pytest.fixture
def node(flat):
    return flat.node()


@pytest.fixture
def vif(networking):
    return networking.add("ports", network_id=NETWORK)["id"]


def attach(world, node, vif, **more):
    world.call("vif_attach", node, vif_info={"id": vif, **more})


def listed(world, node):
    return [found["id"] for found in world.call("vif_list", node)]


def carried(record):
    """Return the VIF that a stored port or port group carries."""
    db = ports if hasattr(record, "portgroup_id") else portgroups
    return db.get(record.uuid).internal_info.get(KEY)


def untouched(networking, vif):
    port = networking.ports[vif]
    return port["binding:host_id"] == "" and port["binding:vif_type"] == "unbound"


def test_a_vif_goes_to_the_free_port_and_is_bound_with_its_address(
    flat, node, vif, networking, make_port
):
    port = make_port(node)
    attach(flat, node, vif)
    assert listed(flat, node) == [vif]
    assert carried(port) == vif
    bound = networking.ports[vif]
    assert bound["mac_address"] == port.address
    assert bound["binding:host_id"] == node.uuid
    assert bound["binding:vnic_type"] == "baremetal"
    assert bound["binding:profile"] == {}


def test_a_detached_vif_is_off_the_port_and_free_of_its_address(flat, vif, networking, make_port):
    node = flat.node(states.AVAILABLE)
    port = make_port(node)
    attach(flat, node, vif)
    flat.call("vif_detach", node, vif_id=vif)
    assert listed(flat, node) == []
    assert carried(port) is None
    assert untouched(networking, vif)
    assert networking.ports[vif]["mac_address"] != port.address


def test_detaching_takes_the_place_of_older_releases_along(flat, vif, make_port):
    node = flat.node()
    port = make_port(node, internal_info={KEY: vif}, extra={"vif_port_id": vif, "x": 1})
    flat.call("vif_detach", node, vif_id=vif)
    assert ports.get(port.uuid).extra == {"x": 1}


def test_a_vif_that_is_gone_can_be_detached(flat, make_port):
    node = flat.node(states.AVAILABLE)
    port = make_port(node, internal_info={KEY: "gone"})
    flat.call("vif_detach", node, vif_id="gone")
    assert carried(port) is None


def test_a_vif_is_attached_once(flat, node, vif, make_port):
    make_port(node)
    make_port(node)
    attach(flat, node, vif)
    with pytest.raises(errors.VifAlreadyAttached, match="port"):
        attach(flat, node, vif)


def test_what_is_not_attached_can_not_be_detached(flat, node, vif, make_port):
    make_port(node)
    with pytest.raises(errors.VifNotAttached):
        flat.call("vif_detach", node, vif_id=vif)


def test_a_node_without_a_free_port_refuses(flat, node, vif, networking, make_port):
    with pytest.raises(errors.NoFreePhysicalPorts):
        attach(flat, node, vif)
    port = make_port(node)
    attach(flat, node, vif)
    other = networking.add("ports", network_id=NETWORK)["id"]
    with pytest.raises(errors.NoFreePhysicalPorts):
        attach(flat, node, other)
    assert carried(port) == vif
    assert untouched(networking, other)


def test_a_port_group_comes_before_ports(flat, node, vif, make_port, make_group):
    group = make_group(node, address="52:54:00:00:aa:01")
    make_port(node)
    member = make_port(node, portgroup_id=group.id)
    attach(flat, node, vif)
    assert (carried(group), carried(member)) == (vif, None)
    with pytest.raises(errors.VifAlreadyAttached, match="portgroup"):
        attach(flat, node, vif)


def test_members_of_a_used_port_group_are_not_free(
    flat, node, vif, networking, make_port, make_group
):
    group = make_group(node)
    make_port(node, portgroup_id=group.id)
    attach(flat, node, vif)
    with pytest.raises(errors.NoFreePhysicalPorts):
        attach(flat, node, networking.add("ports", network_id=NETWORK)["id"])


def test_a_port_group_without_members_is_not_free(flat, node, vif, make_group):
    group = make_group(node)
    with pytest.raises(errors.NoFreePhysicalPorts):
        attach(flat, node, vif)
    assert carried(group) is None


def test_a_port_group_with_a_used_member_is_offered_member_by_member(
    flat, node, vif, make_port, make_group
):
    group = make_group(node)
    make_port(node, portgroup_id=group.id, internal_info={KEY: "other"})
    free = make_port(node, portgroup_id=group.id)
    attach(flat, node, vif)
    assert (carried(group), carried(free)) == (None, vif)


def test_a_port_that_boots_by_network_is_preferred(flat, node, vif, make_port):
    make_port(node, pxe_enabled=False)
    boots = make_port(node)
    attach(flat, node, vif)
    assert carried(boots) == vif


def test_the_user_may_name_the_port(flat, node, vif, make_port):
    make_port(node)
    wanted = make_port(node, pxe_enabled=False)
    attach(flat, node, vif, port_uuid=wanted.uuid)
    assert carried(wanted) == vif


def test_the_user_may_name_the_port_group(flat, node, vif, make_port, make_group):
    groups = [make_group(node), make_group(node)]
    for group in groups:
        make_port(node, portgroup_id=group.id)
    attach(flat, node, vif, portgroup_uuid=groups[1].uuid)
    assert carried(groups[1]) == vif


@pytest.mark.parametrize("name", ["port_uuid", "portgroup_uuid"])
def test_a_named_port_of_somebody_else_is_an_error(flat, node, vif, make_port, name):
    make_port(node)
    with pytest.raises(errors.InvalidParameterValue, match=f"{name} is 'elsewhere'"):
        attach(flat, node, vif, **{name: "elsewhere"})


# Physical networks


@pytest.fixture
def in_physnet2(networking):
    network = networking.add("networks", **{"provider:physical_network": "physnet2"})["id"]
    return networking.add("ports", network_id=network)["id"]


def test_a_port_in_the_physical_network_is_preferred(flat, node, in_physnet2, make_port):
    make_port(node, physical_network="physnet1")
    make_port(node)
    fits = make_port(node, physical_network="physnet2", pxe_enabled=False)
    attach(flat, node, in_physnet2)
    assert carried(fits) == in_physnet2


def test_a_port_group_in_the_physical_network_is_preferred(
    flat, node, in_physnet2, make_port, make_group
):
    groups = [make_group(node), make_group(node)]
    make_port(node, portgroup_id=groups[0].id)
    make_port(node, portgroup_id=groups[1].id, physical_network="physnet2")
    attach(flat, node, in_physnet2)
    assert carried(groups[1]) == in_physnet2


def test_a_port_in_another_physical_network_is_not_free(flat, node, in_physnet2, make_port):
    make_port(node, physical_network="physnet1")
    with pytest.raises(errors.NoFreePhysicalPorts):
        attach(flat, node, in_physnet2)


def test_a_network_of_no_physical_network_is_reached_from_everywhere(flat, node, vif, make_port):
    port = make_port(node, physical_network="physnet1")
    attach(flat, node, vif)
    assert carried(port) == vif


def test_members_in_several_physical_networks_are_an_error(flat, node, vif, make_port, make_group):
    group = make_group(node)
    for name in ("physnet1", "physnet2"):
        make_port(node, portgroup_id=group.id, physical_network=name)
    with pytest.raises(errors.PortgroupPhysnetInconsistent, match="physnet1, physnet2"):
        attach(flat, node, vif)


def segmented(networking, *subnets_in):
    """Return a port in a network with two segments, with addresses in these of them."""
    network = networking.add("networks", segments=True)["id"]
    segments = [
        networking.add("segments", network_id=network, physical_network=f"physnet{n}")["id"]
        for n in (1, 2)
    ]
    addresses = []
    for number in subnets_in:
        subnet = networking.add(
            "subnets", network_id=network, segment_id=segments[number], cidr="198.51.100.0/24"
        )["id"]
        addresses.append({"subnet_id": subnet, "ip_address": f"198.51.100.{number}"})
    return networking.add("ports", network_id=network, fixed_ips=addresses)["id"]


def test_the_segment_of_the_address_decides(flat, node, networking, make_port):
    make_port(node, physical_network="physnet1")
    fits = make_port(node, physical_network="physnet2")
    vif = segmented(networking, 1)
    attach(flat, node, vif)
    assert carried(fits) == vif


def test_without_an_address_all_segments_do(flat, node, networking, make_port):
    make_port(node, physical_network="physnet3")
    fits = make_port(node, physical_network="physnet2")
    vif = segmented(networking)
    attach(flat, node, vif)
    assert carried(fits) == vif


def test_addresses_in_several_segments_are_refused(flat, node, networking, make_port):
    make_port(node, physical_network="physnet2")
    with pytest.raises(errors.VifInvalidForAttach, match="physnet1, physnet2"):
        attach(flat, node, segmented(networking, 0, 1))


def test_a_network_that_is_gone_is_an_error(flat, node, networking, vif, make_port):
    make_port(node, physical_network="physnet2")
    networking.ports[vif]["network_id"] = "gone"
    with pytest.raises(errors.NetworkError, match="Network gone of VIF"):
        attach(flat, node, vif)


# Ports that can not be used


def test_a_switch_port_has_to_be_known_to_configure_it(neutron, networking, vif, make_port):
    node = neutron.node()
    make_port(node)
    fits = make_port(node, local_link_connection=LINK)
    attach(neutron, node, vif)
    assert carried(fits) == vif


@pytest.mark.parametrize(
    "values",
    [
        {"is_smartnic": True, "local_link_connection": LINK},
        {"local_link_connection": {"port_id": "rep0", "hostname": "nic1"}},
    ],
)
def test_a_smart_nic_and_its_link_have_to_agree(flat, node, vif, make_port, values):
    make_port(node, **values)
    with pytest.raises(errors.NoFreePhysicalPorts):
        attach(flat, node, vif)


def test_infiniband_needs_no_link(neutron, vif, make_port):
    node = neutron.node()
    port = make_port(node, extra={"client-id": "ff:00"})
    attach(neutron, node, vif)
    assert carried(port) == vif


# An active node


def test_on_an_active_node_the_vif_is_plugged_in(flat, vif, networking, make_port, make_group):
    node = flat.node(states.ACTIVE)
    group = make_group(
        node, name="bond", address="52:54:00:00:aa:01", properties={"miimon": 100, "bond_x": 1}
    )
    for number in (1, 2):
        make_port(
            node,
            portgroup_id=group.id,
            physical_network="physnet1",
            local_link_connection=LINK | {"port_id": f"Ethernet{number}"},
        )
    attach(flat, node, vif)
    bound = networking.ports[vif]
    assert bound["mac_address"] == group.address
    assert bound["binding:profile"] == {
        "local_link_information": [
            LINK | {"port_id": "Ethernet1"},
            LINK | {"port_id": "Ethernet2"},
        ],
        "local_group_information": {
            "id": group.uuid,
            "name": "bond",
            "bond_mode": "802.3ad",
            "bond_properties": {"bond_miimon": 100, "bond_x": 1},
        },
        "physical_network": "physnet1",
    }


def test_a_binding_that_failed_is_an_error_and_nothing_is_attached(
    neutron, vif, networking, make_port
):
    networking.binding = ("DOWN", "binding_failed")
    node = neutron.node(states.ACTIVE)
    port = make_port(node, local_link_connection=LINK)
    with pytest.raises(errors.NetworkError, match="no mechanism driver took it"):
        attach(neutron, node, vif)
    assert carried(port) is None
    assert untouched(networking, vif)


def test_a_binding_is_waited_for(neutron, vif, networking, make_port, monkeypatch):
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        networking.ports[vif]["status"] = "ACTIVE"

    monkeypatch.setattr("time.sleep", sleep)
    networking.binding = ("BUILD", "other")
    node = neutron.node(states.ACTIVE)
    make_port(node, local_link_connection=LINK)
    attach(neutron, node, vif)
    assert pauses == [10]


def test_waiting_for_a_binding_ends(neutron, vif, networking, make_port):
    CONF.set_override("neutron_agent_max_attempts", 1, "agent")
    networking.binding = ("BUILD", "other")
    node = neutron.node(states.ACTIVE)
    make_port(node, local_link_connection=LINK)
    with pytest.raises(errors.NetworkError, match="did not become active in time"):
        attach(neutron, node, vif)


@pytest.mark.parametrize("where", ["option", "node"])
def test_a_binding_need_not_be_waited_for(neutron, vif, networking, make_port, where):
    networking.binding = ("DOWN", "binding_failed")
    if where == "option":
        CONF.set_override("fail_on_port_binding_failure", False, "neutron")
    own = {"fail_on_binding_failure": "no"} if where == "node" else {}
    node = neutron.node(states.ACTIVE, driver_info=own)
    port = make_port(node, local_link_connection=LINK)
    attach(neutron, node, vif)
    assert carried(port) == vif


def test_a_bad_wish_about_waiting_is_named(neutron, vif, networking, make_port):
    node = neutron.node(states.ACTIVE, driver_info={"fail_on_binding_failure": "perhaps"})
    make_port(node, local_link_connection=LINK)
    with pytest.raises(errors.InvalidParameterValue, match="is 'perhaps', expected a boolean"):
        attach(neutron, node, vif)


def test_a_smart_nic_is_bound_to_the_agent_on_it(flat, vif, networking, make_port):
    networking.add("agents", host="nic1", alive=True)
    node = flat.node(states.ACTIVE)
    link = {"port_id": "rep0", "hostname": "nic1"}
    make_port(node, is_smartnic=True, local_link_connection=link)
    attach(flat, node, vif)
    bound = networking.ports[vif]
    assert (bound["binding:host_id"], bound["binding:vnic_type"]) == ("nic1", "smart-nic")


def test_a_smart_nic_without_an_agent_is_an_error(flat, vif, networking, make_port):
    CONF.set_override("neutron_agent_max_attempts", 1, "agent")
    networking.add("agents", host="nic1", alive=False)
    node = flat.node(states.ACTIVE)
    link = {"port_id": "rep0", "hostname": "nic1"}
    make_port(node, is_smartnic=True, local_link_connection=link)
    with pytest.raises(errors.NetworkError, match=r"No agent .* on Smart NIC nic1"):
        attach(flat, node, vif)


# What the Networking service answers


def test_a_vif_that_does_not_exist_is_bad_input(flat, node, networking, make_port):
    make_port(node)
    with pytest.raises(errors.InvalidParameterValue, match="has no such port"):
        attach(flat, node, "nonsense/../x")


def test_a_vif_that_is_bound_elsewhere_moves(flat, node, vif, networking, make_port):
    networking.ports[vif] |= {"binding:host_id": "compute1", "binding:vif_type": "ovs"}
    make_port(node)
    attach(flat, node, vif)
    assert networking.ports[vif]["binding:host_id"] == node.uuid


def test_an_address_in_use_is_an_error_and_nothing_is_attached(
    flat, node, vif, networking, make_port
):
    port = make_port(node)
    networking.add("ports", network_id=NETWORK, mac_address=port.address)
    with pytest.raises(errors.NetworkError, match=f"409: .*{port.address} is in use"):
        attach(flat, node, vif)
    assert carried(port) is None
    assert untouched(networking, vif)
    stored = flat.read(node)
    assert "is in use" in stored.last_error
    assert stored.reservation is None


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (401, r"HTTP 401: by order of the test \(the credentials in \[neutron\]"),
        (403, r"HTTP 403: by order of the test \(the credentials in \[neutron\]"),
        (409, "HTTP 409: by order of the test"),
        (500, "HTTP 500: by order of the test"),
        (503, "HTTP 503: by order of the test"),
        (None, "no answer within 1 s"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_a_refusal_is_told_and_leaves_nothing(
    flat, node, vif, networking, make_port, method, status, text
):
    CONF.set_override("request_timeout", 1, "neutron")
    port = make_port(node)
    networking.fail(method, f"/v2.0/ports/{vif}", status, times=1)
    with pytest.raises(errors.NetworkError, match=f"{method} /ports/{vif} failed: {text}"):
        attach(flat, node, vif)
    assert carried(port) is None
    assert untouched(networking, vif)
    assert flat.read(node).reservation is None


def test_a_vif_that_vanishes_is_an_error(flat, node, vif, networking, make_port):
    port = make_port(node)
    networking.fail("PUT", f"/v2.0/ports/{vif}", 404)
    with pytest.raises(errors.NetworkError, match=f"VIF {vif} of node .* does not exist"):
        attach(flat, node, vif)
    assert carried(port) is None


def test_a_refused_connection_is_told(flat, node, vif, make_port):
    CONF.set_override("endpoint_override", "http://127.0.0.1:9", "neutron")
    make_port(node)
    with pytest.raises(errors.NetworkError, match="Unable to establish connection to http://127"):
        attach(flat, node, vif)


def test_a_vif_that_can_not_be_unbound_stays_attached(flat, vif, networking, make_port):
    node = flat.node(states.AVAILABLE)
    port = make_port(node)
    attach(flat, node, vif)
    networking.fail("PUT", f"/v2.0/ports/{vif}", 503, times=1)
    with pytest.raises(errors.NetworkError, match="503"):
        flat.call("vif_detach", node, vif_id=vif)
    assert carried(port) == vif
    flat.call("vif_detach", node, vif_id=vif)
    assert carried(port) is None


def test_what_could_not_be_written_down_is_not_bound(
    flat, node, vif, networking, make_port, monkeypatch
):
    make_port(node)

    def refuse(task, thing):
        raise errors.LockLost(host="h", node=node.uuid, reason="of the test")

    monkeypatch.setattr("ironic_rs.drivers.network.vifs.save", refuse)
    with pytest.raises(errors.LockLost):
        attach(flat, node, vif)
    assert untouched(networking, vif)


def test_a_port_group_that_was_made_for_the_vif_goes_with_it(flat, vif, make_port, make_group):
    node = flat.node()
    group = make_group(node, dynamic_portgroup=True, internal_info={KEY: vif})
    member = make_port(node, portgroup_id=group.id)
    flat.call("vif_detach", node, vif_id=vif)
    assert ports.get(member.uuid).portgroup_id is None
    with pytest.raises(errors.PortgroupNotFound):
        portgroups.get(group.uuid)


def test_a_missing_cleaning_network_refuses_all_calls(flat, node, vif, make_port):
    make_port(node)
    CONF.clear_override("cleaning_network", "neutron")
    with pytest.raises(errors.MissingParameterValue, match=r"\[neutron\]cleaning_network"):
        attach(flat, node, vif)
    with pytest.raises(errors.MissingParameterValue):
        listed(flat, node)


def test_requests_and_statements_of_an_attachment(flat, node, vif, networking, make_port):
    make_port(node)
    with session.count_statements() as statements:
        attach(flat, node, vif)
    assert [line.split("?")[0] for line in networking.asked()] == [
        "GET /v2.0/networks",
        f"GET /v2.0/ports/{vif}",
        f"PUT /v2.0/ports/{vif}",
    ]
    # Lock, ports, port groups, port, unlock.
    assert len(statements.statements) <= 6
