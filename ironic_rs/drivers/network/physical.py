"""Which physical networks reach a port of the Networking service.

Source: specification drivers.md section 13.2, step 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ironic_rs.domain import errors
from ironic_rs.integrations import neutron

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

_NETWORK = "provider:physical_network"


def networks_of(task: Task, port: neutron.Document) -> frozenset[str]:
    """Return the physical networks; empty when the network is not tied to any.

    :raises VifInvalidForAttach: the addresses of the port are in several of them.
    :raises NetworkError: the Networking service does not tell.
    """
    network = neutron.network(port["network_id"])
    if network is None:
        raise errors.NetworkError(
            f"Network {port['network_id']} of VIF {port['id']} does not exist in the Networking "
            "service."
        )
    if "segments" not in network:
        name = network.get(_NETWORK)
        return frozenset({name} if name else ())
    names = {
        str(segment.get("id")): segment["physical_network"]
        for segment in neutron.segments({"network_id": network["id"]})
        if segment.get("physical_network")
    }
    addresses = port.get("fixed_ips") or []
    of_subnets = {
        subnet.get("segment_id")
        for subnet in neutron.subnets(address["subnet_id"] for address in addresses)
    }
    used = frozenset(names[segment] for segment in of_subnets if segment in names)
    if len(used) > 1:
        raise errors.VifInvalidForAttach(
            vif=port["id"],
            node=task.node.uuid,
            reason=f"its addresses are in several physical networks: {', '.join(sorted(used))}",
        )
    return used or frozenset(names.values())
