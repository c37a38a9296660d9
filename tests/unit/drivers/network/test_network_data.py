"""Network data made from VIFs."""

from __future__ import annotations

import json
from importlib import resources

import jsonschema
import pytest

from ironic_rs.domain import errors
from tests.harness.networking import NETWORK


def data_of(world, node):
    with world.task(node) as task:
        found = task.driver.network.get_node_network_data(task)
    if found:
        schema = resources.files("ironic_rs.api") / "schemas" / "network_data.json"
        jsonschema.validate(found, json.loads(schema.read_text()))
    return found


def test_the_network_data_of_the_node_come_first(flat, make_port):
    own = {"links": [], "networks": [], "services": []}
    node = flat.node(network_data=own)
    make_port(node, internal_info={"tenant_vif_port_id": "x"})
    assert data_of(flat, node) == own


def test_without_a_vif_there_are_none(flat, make_port):
    node = flat.node()
    make_port(node)
    assert data_of(flat, node) == {}


def test_links_networks_and_services_of_a_vif(flat, networking, make_port):
    node = flat.node()
    port = make_port(node)
    vif = networking.add("ports", network_id=NETWORK)["id"]
    flat.call("vif_attach", node, vif_info={"id": vif})
    networking.tables["subnets"][networking.subnet]["host_routes"] = [
        {"destination": "198.51.100.0/24", "nexthop": "192.0.2.3"}
    ]
    dns = {"type": "dns", "address": "192.0.2.2"}
    assert data_of(flat, node) == {
        "links": [
            {
                "id": vif,
                "type": "phy",
                "vif_id": vif,
                "ethernet_mac_address": port.address,
                "mtu": 1500,
            }
        ],
        "networks": [
            {
                "id": "network0",
                "type": "ipv4",
                "link": vif,
                "network_id": NETWORK,
                "ip_address": networking.ports[vif]["fixed_ips"][0]["ip_address"],
                "netmask": "255.255.255.0",
                "routes": [
                    {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"},
                    {
                        "network": "198.51.100.0",
                        "netmask": "255.255.255.0",
                        "gateway": "192.0.2.3",
                    },
                ],
                "services": [dns],
            }
        ],
        "services": [dns],
    }


def test_the_network_of_the_service_hides_that_of_the_instance(flat, networking, make_port):
    node = flat.node()
    make_port(node)
    network = networking.add("networks", name="six")["id"]
    networking.add(
        "subnets",
        network_id=network,
        ip_version=6,
        cidr="2001:db8::/64",
        gateway_ip="2001:db8::1",
    )
    cleaning = networking.add("ports", network_id=network)["id"]
    with flat.task(node) as task:
        (port,) = task.ports
        port.internal_info = {"tenant_vif_port_id": "hidden", "cleaning_vif_port_id": cleaning}
        found = task.driver.network.get_node_network_data(task)
    (entry,) = found["networks"]
    assert (entry["type"], entry["link"]) == ("ipv6", cleaning)
    assert entry["netmask"] == "ffff:ffff:ffff:ffff::"
    assert entry["routes"] == [{"network": "::", "netmask": "::", "gateway": "2001:db8::1"}]


def test_all_vifs_are_asked_for_together(flat, networking, make_port, make_group):
    node = flat.node()
    group = make_group(node, address="52:54:00:00:aa:01")
    make_port(node, portgroup_id=group.id)
    make_port(node)
    for _ in range(2):
        vif = networking.add("ports", network_id=NETWORK)["id"]
        flat.call("vif_attach", node, vif_info={"id": vif})
    before = len(networking.asked())
    found = data_of(flat, node)
    assert len(networking.asked()) - before == 3
    assert [entry["id"] for entry in found["networks"]] == ["network0", "network1"]
    assert group.address in {link["ethernet_mac_address"] for link in found["links"]}


def test_a_service_that_does_not_answer_is_an_error(flat, networking, make_port):
    node = flat.node()
    make_port(node, internal_info={"tenant_vif_port_id": "x"})
    networking.fail("GET", "/v2.0/ports", 503)
    with pytest.raises(errors.NetworkError, match="503"):
        data_of(flat, node)
