"""DHCP provider ``neutron``: options of ports of the Networking service.

Source: specification drivers.md section 11.5.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.dhcp.base import DhcpOption, DHCPProvider
from ironic_rs.drivers.network import vifs as node_vifs
from ironic_rs.integrations import neutron

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


class NeutronDHCP(DHCPProvider):
    """The DHCP agents of the Networking service answer the machines."""

    def supports_ipxe_tag(self) -> bool:
        return True

    def update_port_dhcp_opts(
        self, port_id: str, options: Sequence[DhcpOption], context: Any = None
    ) -> None:
        """Set the options that fit the addresses of a port.

        :raises FailedToUpdateDHCPOptOnPort: refused, or there is no such port.
        """
        try:
            port = neutron.port(port_id)
            if port is not None:
                versions = {_version(address) for address in _addresses(port)}
                if not versions:
                    LOG.error("Port %s has no address, so it gets no DHCP options", port_id)
                wanted = [_document(option) for option in options if option.ip_version in versions]
                port = neutron.update_port(port_id, {"extra_dhcp_opts": wanted})
        except errors.NetworkError as exc:
            raise _failed(port_id, str(exc)) from exc
        if port is None:
            raise _failed(port_id, "the Networking service has no such port")

    def update_dhcp_opts(self, task: Task, options: Sequence[DhcpOption], vifs: Any = None) -> None:
        """Set the options of the ports that the node uses now; some of them are enough.

        :raises FailedToUpdateDHCPOptOnPort: it uses none, or all failed.
        """
        node = task.node
        wanted = _in_use(task) if vifs is None else list(vifs)
        if not wanted:
            raise errors.FailedToUpdateDHCPOptOnPort(
                f"Node {node.uuid} has no VIF whose DHCP options could be set: attach one, or set "
                "[dhcp]dhcp_provider to none where another DHCP server answers."
            )
        failures = []
        for vif in wanted:
            try:
                self.update_port_dhcp_opts(vif, options, task.context)
            except errors.FailedToUpdateDHCPOptOnPort as exc:
                failures.append(str(exc))
        if len(failures) == len(wanted):
            raise errors.FailedToUpdateDHCPOptOnPort(f"Node {node.uuid}: {' '.join(failures)}")
        if failures:
            LOG.warning("Node %s: %s", node.uuid, " ".join(failures))
        if CONF.neutron.port_setup_delay:
            time.sleep(CONF.neutron.port_setup_delay)

    def get_ip_addresses(self, task: Task) -> list[str]:
        """Return the first address of each port that the node uses now."""
        wanted = _in_use(task)
        if not wanted:
            return []
        try:
            ports = neutron.ports({"id": wanted})
        except errors.NetworkError as exc:
            LOG.warning("Node %s: its addresses are not known: %s", task.node.uuid, exc)
            return []
        return [found[0] for port in ports if (found := _addresses(port))]


def _in_use(task: Task) -> list[str]:
    found = (node_vifs.current(thing) for thing in node_vifs.things(task))
    return [vif for vif in found if vif is not None]


def _addresses(port: neutron.Document) -> list[str]:
    return [str(entry["ip_address"]) for entry in port.get("fixed_ips") or []]


def _version(address: str) -> int:
    return 6 if ":" in address else 4


def _document(option: DhcpOption) -> neutron.Document:
    return {
        "opt_name": option.name,
        "opt_value": option.value,
        "ip_version": option.ip_version,
    }


def _failed(port_id: str, reason: str) -> errors.FailedToUpdateDHCPOptOnPort:
    return errors.FailedToUpdateDHCPOptOnPort(
        f"The DHCP options of port {port_id} could not be set: {reason.rstrip('.')}."
    )
