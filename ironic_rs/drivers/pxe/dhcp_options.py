"""DHCP options that lead a machine to its boot loader.

Source: specification drivers.md section 11.5.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.dhcp.base import DhcpOption
from ironic_rs.drivers.pxe.startup import boot_script_url

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.pxe.flavour import Flavour

_BOOT_FILE = {4: "67", 6: "59"}
_IPXE_TAG = {4: "ipxe", 6: "ipxe6"}
_VENDOR_CLASS = "60"
#: Options that name the TFTP server: its name, its address, and what old ROMs read.
_TFTP_SERVERS = ("66", "150", "255")
_FEATURES_OF_IPXE = "!175"
_MAX_BOOT_FILE = 64


def of_node(node: models.Node, flavour: Flavour, *, tags: bool) -> list[DhcpOption]:
    """Return the options for IPv4 and IPv6.

    :param tags: the provider can give an option to iPXE alone by a tag.
    :raises InvalidParameterValue: the name of the boot loader is too long.
    """
    return [
        option for version in (4, 6) for option in _of_version(node, flavour, version, tags=tags)
    ]


def _of_version(
    node: models.Node, flavour: Flavour, version: int, *, tags: bool
) -> list[DhcpOption]:
    name = flavour.boot_file(node)
    # A machine gets this from a field of fixed length.
    if len(name) > _MAX_BOOT_FILE:
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: the name of its boot loader, {name}, is longer than "
            f"{_MAX_BOOT_FILE} characters."
        )
    as_url = version == 6 or flavour.http
    loader = _url(flavour, name, version) if as_url else name
    number = _BOOT_FILE[version]
    found: list[tuple[str, str]] = []
    if flavour.ipxe:
        script = boot_script_url()
        tag = _IPXE_TAG[version]
        if tags:
            found += [(f"tag:!{tag},{number}", loader), (f"tag:{tag},{number}", script)]
        else:
            found += [(f"{_FEATURES_OF_IPXE},{number}", loader), (number, script)]
    else:
        found.append((number, loader))
    if flavour.http and version == 4:
        found.append((_VENDOR_CLASS, "HTTPClient"))
    if not as_url:
        found += [(server, str(CONF.pxe.tftp_server)) for server in _TFTP_SERVERS]
    return [DhcpOption(key, value, version) for key, value in found]


def _url(flavour: Flavour, name: str, version: int) -> str:
    if flavour.http:
        return f"{str(CONF.deploy.http_url).rstrip('/')}/{name}"
    server = str(CONF.my_ipv6 or CONF.pxe.tftp_server) if version == 6 else CONF.pxe.tftp_server
    try:
        if ipaddress.ip_address(server).version == 6:
            server = f"[{server}]"
    except ValueError:
        pass  # a host name
    return f"tftp://{server}/{name}"
