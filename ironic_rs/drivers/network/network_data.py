"""Network data of a node, made from what the Networking service knows of its VIFs.

The format is that of ``network_data.json`` of a config drive.

Source: specification drivers.md section 13.2.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from ironic_rs.drivers.network import vifs
from ironic_rs.integrations import neutron

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

Document = dict[str, Any]


def build(task: Task) -> Document:
    """Return links, networks and services of the VIFs that are in use now; {} for none.

    :raises NetworkError: the Networking service does not tell.
    """
    used = {vif: thing for thing in vifs.things(task) if (vif := vifs.current(thing)) is not None}
    if not used:
        return {}
    ports = neutron.ports({"id": sorted(used)})
    networks = {
        network["id"]: network
        for network in neutron.networks({"id": sorted({port["network_id"] for port in ports})})
    }
    addresses = [address for port in ports for address in port.get("fixed_ips") or []]
    subnets = {
        subnet["id"]: subnet
        for subnet in neutron.subnets(address["subnet_id"] for address in addresses)
    }
    data: Document = {"links": [], "networks": [], "services": []}
    for port in ports:
        link: Document = {
            "id": port["id"],
            "type": "phy",
            "vif_id": port["id"],
            "ethernet_mac_address": used[port["id"]].address or port["mac_address"],
        }
        mtu = networks.get(port["network_id"], {}).get("mtu")
        if mtu:
            link["mtu"] = mtu
        data["links"].append(link)
        for address in port.get("fixed_ips") or []:
            subnet = subnets.get(address["subnet_id"])
            if subnet is not None:
                number = len(data["networks"])
                data["networks"].append(_network(number, port, address["ip_address"], subnet))
                _add_services(data["services"], subnet)
    return data


def _network(number: int, port: Document, address: str, subnet: Document) -> Document:
    version = subnet["ip_version"]
    routes = [
        _route(route["destination"], route["nexthop"]) for route in subnet.get("host_routes") or []
    ]
    if subnet.get("gateway_ip"):
        everywhere = "0.0.0.0/0" if version == 4 else "::/0"
        routes.insert(0, _route(everywhere, subnet["gateway_ip"]))
    return {
        "id": f"network{number}",
        "type": f"ipv{version}",
        "link": port["id"],
        "network_id": port["network_id"],
        "ip_address": address,
        "netmask": str(ipaddress.ip_network(subnet["cidr"], strict=False).netmask),
        "routes": routes,
        "services": [
            {"type": "dns", "address": server} for server in subnet.get("dns_nameservers") or []
        ],
    }


def _route(destination: str, gateway: str) -> Document:
    network = ipaddress.ip_network(destination, strict=False)
    return {
        "network": str(network.network_address),
        "netmask": str(network.netmask),
        "gateway": gateway,
    }


def _add_services(services: list[Document], subnet: Document) -> None:
    for server in subnet.get("dns_nameservers") or []:
        service = {"type": "dns", "address": server}
        if service not in services:
            services.append(service)
