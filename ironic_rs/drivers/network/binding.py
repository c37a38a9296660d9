"""Binding ports of the Networking service to the machine, and undoing it.

Binding is what makes that service configure the switch.

Source: specification drivers.md sections 13.2 to 13.4.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.network import vifs
from ironic_rs.integrations import neutron

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task
    from ironic_rs.drivers.network.vifs import Attachable

LOG = log.getLogger(__name__)

_BAREMETAL = "baremetal"
_SMART_NIC = "smart-nic"
_CLIENT_ID_OPTION = "61"


def bind(task: Task, thing: Attachable, vif: str) -> None:
    """Bind a VIF to the machine, without telling where it is plugged in.

    :raises NetworkError: refused, or there is no such VIF.
    """
    _update(task, vif, {**_place(task, _BAREMETAL, str(task.node.uuid)), **_address(thing)})


def plug(task: Task, thing: Attachable, vif: str) -> None:
    """Bind a VIF to the machine, with the links to the switches that it goes through.

    :raises NetworkError: refused, not bound in the end, or there is no such VIF.
    """
    ports = vifs.members(task, thing) if isinstance(thing, models.Portgroup) else [thing]
    smart = next((port for port in ports if port.is_smartnic), None)
    host = host_of(task, smart)
    if smart is not None:
        wait_for_agent(host)
    profile: dict[str, Any] = {
        "local_link_information": [
            port.local_link_connection for port in ports if port.local_link_connection
        ]
    }
    if isinstance(thing, models.Portgroup):
        profile["local_group_information"] = {
            "id": thing.uuid,
            "name": thing.name,
            "bond_mode": thing.mode,
            "bond_properties": _bond_properties(thing.properties),
        }
    network = vifs.physical_network(task, thing)
    if network is not None:
        profile["physical_network"] = network
    values = {
        **_place(task, _BAREMETAL if smart is None else _SMART_NIC, host),
        **_address(thing),
        "binding:profile": profile,
    }
    if "client-id" in thing.extra:
        values["extra_dhcp_opts"] = dhcp_options(thing.extra)
    bound = _update(task, vif, values)
    if must_be_active(task, smart=smart is not None):
        wait_until_active(task, bound)


def host_of(task: Task, smart_nic: models.Port | None) -> str:
    """Return the host that a port is bound to: the agent on a Smart NIC, or the node."""
    if smart_nic is None:
        return str(task.node.uuid)
    return str(smart_nic.local_link_connection["hostname"])


def _place(task: Task, vnic_type: str, host: str) -> dict[str, Any]:
    return {
        "binding:vnic_type": vnic_type,
        "binding:host_id": host,
        "binding:profile": {},
    }


def _address(thing: Attachable) -> dict[str, str]:
    return {"mac_address": thing.address} if thing.address else {}


def _bond_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name if name.startswith("bond_") else f"bond_{name}": value
        for name, value in properties.items()
    }


def dhcp_options(extra: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the DHCP options that a port asks for: the client identifier of InfiniBand."""
    return [{"opt_name": _CLIENT_ID_OPTION, "opt_value": extra.get("client-id")}]


def _update(task: Task, vif: str, values: Mapping[str, Any]) -> neutron.Document:
    bound = neutron.update_port(vif, values)
    if bound is None:
        raise errors.NetworkError(
            f"VIF {vif} of node {task.node.uuid} does not exist in the Networking service."
        )
    return bound


def claim(task: Task, vif: str) -> neutron.Document:
    """Return a VIF that the user wants attached.

    :raises InvalidParameterValue: there is none that the user may see.
    """
    found = neutron.port_for(task.context, vif)
    if found is None:
        raise errors.InvalidParameterValue(
            f"VIF {vif} can not be attached to node {task.node.uuid}: the Networking service has "
            "no such port."
        )
    return found


def unbind(vif: str, *, reset_address: bool) -> None:
    """Take a VIF off the machine; one that is gone is fine.

    :param reset_address: let the Networking service make up a new MAC address, so that
        that of the machine is free for another VIF.
    :raises NetworkError: refused.
    """
    if neutron.update_port(vif, {"binding:host_id": "", "binding:profile": {}}) is None:
        LOG.info("VIF %s was gone before it was taken off", vif)
    elif reset_address:
        # Only a port that is not bound can change its address.
        neutron.update_port(vif, {"mac_address": None})


def change_address(vif: str, address: str) -> None:
    """Give a VIF the new address of its port; a bound one is bound again.

    :raises NetworkError: refused; the binding is as it was, if it could be restored.
    """
    found = neutron.port(vif)
    if found is None or found.get("mac_address") == address:
        return
    host = found.get("binding:host_id")
    back = {"binding:host_id": host, "binding:profile": found.get("binding:profile") or {}}
    if host:
        unbind(vif, reset_address=False)
    try:
        neutron.update_port(vif, {"mac_address": address, **(back if host else {})})
    except errors.NetworkError:
        if host:
            _restore(vif, back)
        raise


def _restore(vif: str, binding: Mapping[str, Any]) -> None:
    try:
        neutron.update_port(vif, binding)
    except errors.NetworkError as exc:
        LOG.error("VIF %s is not bound to %s any more: %s", vif, binding["binding:host_id"], exc)


# Waiting


def must_be_active(task: Task, *, smart: bool) -> bool:
    """Tell whether a port that does not become active is an error for this node.

    :raises InvalidParameterValue: driver_info fail_on_binding_failure is no boolean.
    """
    own = task.node.driver_info.get("fail_on_binding_failure")
    if own is None:
        configured = task.driver.network.configures_switches
        return smart or (configured and CONF.neutron.fail_on_port_binding_failure)
    try:
        return bool(strutils.bool_from_string(own, strict=True))
    except ValueError:
        raise errors.InvalidParameterValue(
            f"Node {task.node.uuid}: driver_info fail_on_binding_failure is '{own}', expected a "
            "boolean."
        ) from None


def wait_until_active(task: Task, port: neutron.Document) -> None:
    """Wait until a port is bound and its switch configured.

    :raises NetworkError: binding failed, or it took too long.
    """
    found: neutron.Document | None = port
    for attempt in _attempts():
        if attempt:
            found = neutron.port(port["id"])
        if found is None:
            raise errors.NetworkError(
                f"VIF {port['id']} of node {task.node.uuid} was deleted while it was bound."
            )
        if found.get("binding:vif_type") == "binding_failed":
            raise errors.NetworkError(
                f"The Networking service could not bind VIF {port['id']} to node "
                f"{task.node.uuid}: no mechanism driver took it. Its log tells why."
            )
        if found.get("status") == "ACTIVE":
            return
    raise errors.NetworkError(
        f"VIF {port['id']} of node {task.node.uuid} did not become active in time."
    )


def wait_for_agent(host: str, *, alive: bool = True) -> None:
    """Wait until the agent of the Networking service on a Smart NIC is alive, or is not.

    :raises NetworkError: it took too long.
    """
    for _ in _attempts():
        if any(agent.get("alive") for agent in neutron.agents(host)) == alive:
            return
    which = "No" if alive else "An"
    raise errors.NetworkError(
        f"{which} agent of the Networking service is alive on Smart NIC {host}."
    )


def _attempts() -> Iterator[int]:
    """Yield once for every question, with a pause before each but the first."""
    for attempt in range(CONF.agent.neutron_agent_max_attempts):
        if attempt:
            time.sleep(CONF.agent.neutron_agent_status_retry_interval)
        yield attempt
