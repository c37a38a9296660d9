"""Networks of the service: where a machine is while it is cleaned, deployed and so on.

Ports are made in them for the time of the work and deleted afterwards.

Source: specification drivers.md sections 13.3 and 13.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import uuidutils

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.network import binding, vifs
from ironic_rs.integrations import neutron

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

_OWNER = "baremetal:none"
_STATEFUL = "dhcpv6-stateful"


def resolve(task: Task, kind: str) -> str:
    """Return the UUID of a network of the service.

    :param kind: one of :data:`vifs.KINDS`.
    :raises MissingParameterValue: neither the node nor an option names one.
    :raises InvalidParameterValue: there is no such network, or several of that name.
    :raises NetworkError: the Networking service does not tell.
    """
    option = f"{kind}_network"
    name = task.node.driver_info.get(option)
    where = f"driver_info {option} of node {task.node.uuid}"
    if not name:
        name, where = CONF.neutron[option], f"[neutron]{option}"
    if not name:
        raise errors.MissingParameterValue(
            f"Node {task.node.uuid} needs a {kind} network: set [neutron]{option} or driver_info "
            f"{option} to the name or UUID of a network."
        )
    filters = {"id" if uuidutils.is_uuid_like(name) else "name": str(name), "fields": "id"}
    found = [str(network["id"]) for network in neutron.networks(filters)]
    if len(found) == 1:
        return found[0]
    trouble = (
        "the Networking service has no such network"
        if not found
        else f"{len(found)} networks have this name ({', '.join(sorted(found))}), use a UUID"
    )
    raise errors.InvalidParameterValue(f"{where} is '{name}': {trouble}.")


def security_groups(kind: str) -> list[str]:
    """Return the security groups that ports in a network of the service get."""
    groups: list[str] = CONF.neutron[f"{kind}_network_security_groups"]
    return groups


def add(task: Task, kind: str, groups: Sequence[str] = ()) -> dict[str, str]:
    """Connect the machine to a network of the service.

    Where some ports could not be connected, the others are, with a warning.

    :param groups: security groups of the ports.
    :returns: uuid of a port -> VIF.
    :raises NetworkError: no port could be connected; none is left behind.
    :raises MissingParameterValue, InvalidParameterValue: see :func:`resolve`.
    """
    node = task.node
    network = resolve(task, kind)
    _check_groups(kind, groups)
    ports = _ports(task)
    if not ports:
        raise errors.NetworkError(
            f"Node {node.uuid} has no port to connect to the {kind} network: at least one port "
            "with pxe_enabled and a complete local_link_connection is needed."
        )
    _delete_leftovers(task, kind, network)
    made: dict[str, str] = {}
    failed: list[str] = []
    for port in ports:
        try:
            made[str(port.uuid)] = _connect(task, port, network, groups)
        except errors.NetworkError as exc:
            failed.append(f"port {port.uuid}: {exc}")
    if not made:
        raise errors.NetworkError(
            f"Node {node.uuid} could not be connected to the {kind} network {network}: "
            + "; ".join(failed)
        )
    if failed:
        LOG.warning(
            "Node %s: some ports are not connected to the %s network %s: %s",
            node.uuid,
            kind,
            network,
            "; ".join(failed),
        )
    try:
        vifs.set_service(task, kind, made)
    except Exception:
        # Not written down: nobody would delete them.
        for vif in made.values():
            _discard(vif)
        raise
    return made


def remove(task: Task, kind: str) -> None:
    """Take the machine off a network of the service.

    :raises NetworkError, MissingParameterValue, InvalidParameterValue: not done.
    """
    _delete_leftovers(task, kind, resolve(task, kind))
    vifs.set_service(task, kind, {})


def _check_groups(kind: str, groups: Sequence[str]) -> None:
    missing = set(groups) - {group["id"] for group in neutron.security_groups(groups)}
    if missing:
        raise errors.NetworkError(
            f"[neutron]{kind}_network_security_groups: the Networking service has no security "
            f"group {', '.join(sorted(missing))}."
        )


def _ports(task: Task) -> list[models.Port]:
    """Return the ports to connect."""
    everything = CONF.neutron.add_all_ports or "pxe_boot" not in task.driver.boot.capabilities
    return [
        port
        for port in task.ports
        if (everything or port.pxe_enabled) and vifs.is_usable(task, port)
    ]


def _delete_leftovers(task: Task, kind: str, network: str) -> None:
    """Delete the ports of a network of the service, also those nobody wrote down.

    The instance may have a port in the same network, with the same address: it stays.
    """
    ours = {
        str(port.internal_info[vifs.key(kind)])
        for port in task.ports
        if vifs.key(kind) in port.internal_info
    }
    addresses = [str(port.address) for port in task.ports]
    if addresses:
        filters = {"network_id": network, "mac_address": addresses, "fields": "id"}
        ours |= {str(port["id"]) for port in neutron.ports(filters)}
    for vif in sorted(ours - {vif for _, vif in vifs.attached(task)}):
        neutron.delete_port(vif)


def _connect(task: Task, port: models.Port, network: str, groups: Sequence[str]) -> str:
    """Make, bind and await a port of the Networking service; return its id.

    :raises NetworkError: none is left behind.
    """
    smart = port if port.is_smartnic else None
    host = binding.host_of(task, smart)
    must_be_active = binding.must_be_active(task, smart=smart is not None)
    if smart is not None:
        binding.wait_for_agent(host)
    profile: dict[str, Any] = {"local_link_information": []}
    if port.local_link_connection:
        profile["local_link_information"] = [port.local_link_connection]
    if port.physical_network is not None:
        profile["physical_network"] = port.physical_network
    values: dict[str, Any] = {
        "network_id": network,
        "admin_state_up": True,
        "device_id": task.node.instance_uuid or task.node.uuid,
        "device_owner": _OWNER,
        "mac_address": port.address,
        "binding:vnic_type": "baremetal" if smart is None else "smart-nic",
        "binding:host_id": host,
        "binding:profile": profile,
    }
    if groups:
        values["security_groups"] = list(groups)
    if not port.pxe_enabled:
        # Nothing asks for an address there.
        values["fixed_ips"] = []
    if "client-id" in port.extra:
        values["extra_dhcp_opts"] = binding.dhcp_options(port.extra)
    made = neutron.create_port(values)
    try:
        _add_ipv6_addresses(made)
        if must_be_active:
            binding.wait_until_active(task, made)
    except Exception:
        _discard(made["id"])
        raise
    return str(made["id"])


def _add_ipv6_addresses(port: neutron.Document) -> None:
    """Give a port more addresses where each boot stage asks for one of its own."""
    wanted = CONF.neutron.dhcpv6_stateful_address_count
    addresses = port.get("fixed_ips") or []
    if wanted == 1 or not any(":" in address.get("ip_address", "") for address in addresses):
        return
    stateful = [
        subnet["id"]
        for subnet in neutron.subnets(address["subnet_id"] for address in addresses)
        if subnet.get("ip_version") == 6 and subnet.get("ipv6_address_mode") == _STATEFUL
    ]
    more = [{"subnet_id": subnet} for subnet in stateful for _ in range(wanted - 1)]
    if more:
        neutron.update_port(port["id"], {"fixed_ips": [*addresses, *more]})


def _discard(vif: str) -> None:
    """Delete a port that could not be used; failing that, say so."""
    try:
        neutron.delete_port(vif)
    except errors.NetworkError as exc:
        LOG.error("Port %s is left behind in the Networking service: %s", vif, exc)
