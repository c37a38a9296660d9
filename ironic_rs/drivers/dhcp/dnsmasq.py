"""DHCP provider ``dnsmasq``: files that a dnsmasq on the same host reads.

dnsmasq notices new and changed files by itself; a file appears there whole, and its
old content never comes back.

Source: specification drivers.md section 11.5.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.dhcp.base import DhcpOption, DHCPProvider

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)

#: driver_internal_info key: the tag by which the node's options are found.
TAG = "dnsmasq_tag"
#: driver_internal_info key: the MAC addresses that dnsmasq was told of.
_MACS = "dnsmasq_macs"
#: A tag that all machines of ours have.
_OURS = "ironic"


class DnsmasqDHCP(DHCPProvider):
    """One file of options for each node, one file for each of its MAC addresses."""

    def update_port_dhcp_opts(
        self, port_id: str, options: Sequence[DhcpOption], context: Any = None
    ) -> None:
        """dnsmasq has no ports; :meth:`update_dhcp_opts` does it all."""

    def update_dhcp_opts(self, task: Task, options: Sequence[DhcpOption], vifs: Any = None) -> None:
        node = task.node
        macs = sorted(_mac(port) for port in task.ports if port.pxe_enabled)
        info = node.driver_internal_info
        gone = set(info.get(_MACS) or ()) - set(macs)
        # Written down first: what a crash leaves is found again.
        known = {TAG: node.uuid, _MACS: sorted({*macs, *gone})}
        if any(info.get(key) != value for key, value in known.items()):
            info.update(known)
            task.save()
        lines = [_line(node.uuid, option) for option in options]
        _write(_options_file(node), "".join(f"{line}\n" for line in lines), node)
        for mac in macs:
            _write(_host_file(mac), f"{mac},set:{node.uuid},set:{_OURS}\n", node)
        for mac in gone:
            _forget(mac, node)

    def get_ip_addresses(self, task: Task) -> list[str]:
        wanted = {_mac(port) for port in task.ports if port.pxe_enabled}
        found = []
        try:
            lines = Path(CONF.dnsmasq.dhcp_leasefile).read_text(errors="replace").splitlines()
        except OSError as exc:
            LOG.warning("The leases of dnsmasq cannot be read: %s", exc)
            return []
        for line in lines:
            # expiry, MAC, IP, name, client id
            words = line.split()
            if len(words) < 3 or words[1].lower() not in wanted:
                continue
            with contextlib.suppress(ValueError):
                found.append(str(ipaddress.ip_address(words[2])))
        return found

    def clean_dhcp_opts(self, task: Task) -> None:
        node = task.node
        try:
            # Those of ports that are gone included.
            known = node.driver_internal_info.get(_MACS) or ()
            for mac in {*known, *(_mac(port) for port in task.ports)}:
                _forget(mac, node)
            _options_file(node).unlink(missing_ok=True)
        except (OSError, errors.FailedToUpdateDHCPOptOnPort) as exc:
            LOG.warning("Node %s: its DHCP options were not taken back: %s", node.uuid, exc)

    def supports_ipxe_tag(self) -> bool:
        return True


def _mac(port: models.Port) -> str:
    return str(port.address).lower()


def _forget(mac: str, node: models.Node) -> None:
    """Take back the tag of a MAC address, unless it has come to be another node's."""
    path = _host_file(mac)
    try:
        mine = f"set:{node.uuid}," in path.read_text()
    except FileNotFoundError:
        return
    if mine:
        # A file that is gone is not forgotten by dnsmasq; one that says so is.
        _write(path, f"{mac},ignore\n", node)


def _line(tag: str, option: DhcpOption) -> str:
    """Return a line of a dhcp-optsdir file: tags, option, value."""
    # "tag:!ipxe,67" has its own tags in front of the number.
    name = option.name
    tags, _comma, number = name.rpartition(",")
    head = f"tag:{tag}," + (f"{tags}," if tags else "")
    if option.ip_version == 6:
        return f"{head}option6:{number},{option.value}"
    return f"{head}{number},{option.value}"


def _options_file(node: models.Node) -> Path:
    return Path(CONF.dnsmasq.dhcp_optsdir) / f"ironic-{node.uuid}.conf"


def _host_file(mac: str) -> Path:
    return Path(CONF.dnsmasq.dhcp_hostsdir) / f"ironic-{mac}.conf"


def _write(path: Path, text: str, node: models.Node) -> None:
    """Put a file into a directory that dnsmasq watches, whole.

    The unfinished file is hidden: dnsmasq skips names that begin with a dot.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        part.write_text(text)
        os.replace(part, path)
    except OSError as exc:
        part.unlink(missing_ok=True)
        raise errors.FailedToUpdateDHCPOptOnPort(
            f"Node {node.uuid}: DHCP options for dnsmasq cannot be written to {path}: "
            f"{exc.strerror or exc}."
        ) from exc
