"""By which addresses of its BMC a node is found that sends inspection data.

Source: specification inspection.md section 3.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from oslo_log import log

if TYPE_CHECKING:
    from ironic_rs.db import models

LOG = log.getLogger(__name__)


def of_bmc(node: models.Node) -> list[str]:
    """Return what driver_info has as addresses, with the IP addresses of names.

    Names are looked up, which may take as long as the resolver of the host waits.
    Loopback addresses are left out: they tell nothing about a machine.
    """
    found: set[str] = set()
    for host in _hosts(node):
        try:
            answers = socket.getaddrinfo(host, None, proto=socket.IPPROTO_TCP)
        except (OSError, UnicodeError) as exc:
            LOG.warning("Node %s: BMC address %s cannot be resolved: %s", node.uuid, host, exc)
            continue
        addresses = {str(answer[4][0]).partition("%")[0] for answer in answers}
        useful = {address for address in addresses if not _is_loopback(address)}
        if useful:
            found |= useful | {host}
    return sorted(found)


def _hosts(node: models.Node) -> set[str]:
    info = node.driver_info
    bridged = info.get("ipmi_bridging", "no") != "no"
    hosts = set()
    for key, value in info.items():
        if not key.endswith("_address") or not value or not isinstance(value, str):
            continue
        if key.startswith("ipmi_") and bridged:
            # Several machines behind one controller.
            continue
        host = _host(value)
        if host:
            hosts.add(host)
    return hosts


def _host(value: str) -> str | None:
    """Return the host of a URL, of ``host[:port][/path]``, or of a bare IPv6 address."""
    text = value.strip()
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    try:
        return urlsplit(text if "://" in text else f"//{text}").hostname
    except ValueError:
        return None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
