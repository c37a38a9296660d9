"""Where a node's BMC is and how to log in: ``driver_info`` made into a record.

Source: specification drivers.md section 6.1; field case 37 (IPv6 addresses).
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from typing import Any
from urllib import parse

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.base import Properties
from ironic_rs.integrations import http

DEFAULT_ROOT_PREFIX = "/redfish/v1/"

PROPERTIES: Properties = {
    "redfish_address": (
        "URL of the BMC: scheme and host, https when no scheme is given; a path becomes "
        "the prefix of the Redfish root. Required."
    ),
    "redfish_system_id": (
        "Path of the system resource, such as /redfish/v1/Systems/1. Needed when the BMC "
        "has several systems."
    ),
    "redfish_username": "Account on the BMC. Default: no log-in.",
    "redfish_password": "Password of the account. Default: the empty one.",
    "redfish_verify_ca": (
        "Whether to verify the certificate of the BMC: a boolean, or the path of a file or "
        "directory of trusted certificates. Default: [redfish]verify_ca, else true."
    ),
    "redfish_auth_type": "basic, session or auto. Default: [redfish]auth_type.",
    "redfish_tls_minimum_version": (
        "Lowest TLS version: 1.1, 1.2 or 1.3. Default: [redfish]tls_minimum_version."
    ),
    "redfish_tls_ciphers": "Allowed TLS ciphers. Default: [redfish]tls_ciphers.",
    "firmware_update_unresponsive_bmc_wait": (
        "Seconds to wait for the BMC after an update of its firmware. Default: "
        "[redfish]firmware_update_wait_unresponsive_bmc."
    ),
}


@dataclass(frozen=True)
class ConnectionKey:
    """Everything that makes two connections different; the key of the session cache.

    Credentials are compared, never hashed slowly and never shown: a change of
    ``driver_info`` simply is another key.

    :param address: scheme and authority, e.g. ``https://[2001:db8::1]:8443``.
    :param root_prefix: path of the service root, with both slashes.
    :param verify_ca: verify by the system's trust store, not at all, or by this
        file or directory.
    """

    address: str
    root_prefix: str = DEFAULT_ROOT_PREFIX
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    verify_ca: bool | str = True
    auth_type: str = "auto"
    tls_min_version: str | None = None
    tls_ciphers: str | None = None


@dataclass(frozen=True)
class RedfishInfo:
    """Parsed ``driver_info``.

    :param system_id: quoted path of the system, None for the only one.
    :param unresponsive_wait: seconds of firmware_update_unresponsive_bmc_wait.
    """

    node_uuid: str
    key: ConnectionKey
    system_id: str | None
    unresponsive_wait: int


def _invalid(node: models.Node, what: str) -> errors.InvalidParameterValue:
    return errors.InvalidParameterValue(f"Node {node.uuid}: {what}")


def _address(node: models.Node, value: Any) -> tuple[str, str]:
    """Return (scheme and authority, root prefix)."""
    if not isinstance(value, str):
        raise _invalid(node, "redfish_address must be a string with the URL of the BMC.")
    scheme, found, rest = value.strip().rpartition("://")
    text = f"{scheme if found else 'https'}://{_with_brackets(rest)}"
    try:
        parts = parse.urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise _invalid(node, f"redfish_address '{value}' is not a URL: {exc}.") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise _invalid(
            node, f"redfish_address '{value}' must have the form http(s)://host[:port][/path]."
        )
    if "%" in host:
        raise _invalid(
            node,
            f"redfish_address '{value}' has an IPv6 zone identifier, which means something "
            "else on every conductor; use a global or unique local address.",
        )
    if parts.username is not None:
        raise _invalid(
            node, "redfish_address must not contain credentials; use redfish_username/password."
        )
    if not _is_host(host):
        raise _invalid(node, f"redfish_address '{value}' has no valid host name or IP address.")
    authority = f"[{host}]" if ":" in host else host
    if port is not None:
        authority = f"{authority}:{port}"
    path = parts.path.strip("/")
    prefix = f"/{path}/" if path else DEFAULT_ROOT_PREFIX
    return f"{parts.scheme}://{authority}", prefix


def _with_brackets(text: str) -> str:
    """Put a bare IPv6 address into brackets; other text is returned as it is."""
    bare, slash, path = text.partition("/")
    try:
        ipaddress.IPv6Address(bare)
    except ValueError:
        return text
    return f"[{bare}]{slash}{path}"


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
        return True
    return all(c.isalnum() or c in "-._" for c in host)


def _verify_ca(node: models.Node, value: Any) -> bool | str:
    """Return the trust choice; the option stands in for nothing and for plain true."""
    name = f"Node {node.uuid}: redfish_verify_ca"
    choice = True if value is None else http.parse_verify(value, name)
    if choice is True and CONF.redfish.verify_ca:
        return http.parse_verify(CONF.redfish.verify_ca, "[redfish]verify_ca")
    return choice


def _choice(node: models.Node, name: str, allowed: tuple[str, ...], default: Any) -> str | None:
    value = node.driver_info.get(name)
    if value is None:
        return default if default is None else str(default)
    if value not in allowed:
        raise _invalid(node, f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    return str(value)


def _text(node: models.Node, name: str, default: str | None = None) -> str | None:
    value = node.driver_info.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise _invalid(node, f"{name} must be a string.")
    return value


def _account(node: models.Node) -> tuple[str | None, str | None]:
    """Return (user name, password); an account without a password has an empty one."""
    username, password = _text(node, "redfish_username"), _text(node, "redfish_password")
    if password is not None and username is None:
        raise errors.MissingParameterValue(
            f"Node {node.uuid}: driver_info has redfish_password, but no redfish_username."
        )
    return username, (password or "") if username is not None else None


def parse_driver_info(node: models.Node) -> RedfishInfo:
    """Read and check the Redfish part of ``driver_info``.

    :raises MissingParameterValue: redfish_address, or the user name of a password, is
        missing.
    :raises InvalidParameterValue: a bad value; the text names the key.
    """
    info = node.driver_info
    if not info.get("redfish_address"):
        raise errors.MissingParameterValue(
            f"Node {node.uuid}: redfish_address is missing in driver_info."
        )
    address, prefix = _address(node, info["redfish_address"])
    system_id = _text(node, "redfish_system_id")
    if system_id is not None:
        # The percent sign is safe: a path that is quoted already is not quoted twice.
        system_id = parse.quote(system_id, safe="/%:@")
    wait = info.get("firmware_update_unresponsive_bmc_wait")
    try:
        wait = int(CONF.redfish.firmware_update_wait_unresponsive_bmc if wait is None else wait)
    except (TypeError, ValueError):
        wait = -1
    if wait < 0:
        raise _invalid(node, "firmware_update_unresponsive_bmc_wait must be seconds, 0 or more.")
    username, password = _account(node)
    key = ConnectionKey(
        address=address,
        root_prefix=prefix,
        username=username,
        password=password,
        verify_ca=_verify_ca(node, info.get("redfish_verify_ca")),
        auth_type=_choice(
            node, "redfish_auth_type", ("basic", "session", "auto"), CONF.redfish.auth_type
        )
        or "auto",
        tls_min_version=_choice(
            node,
            "redfish_tls_minimum_version",
            ("1.1", "1.2", "1.3"),
            CONF.redfish.tls_minimum_version,
        ),
        tls_ciphers=_text(node, "redfish_tls_ciphers", CONF.redfish.tls_ciphers),
    )
    return RedfishInfo(
        node_uuid=str(node.uuid), key=key, system_id=system_id or None, unresponsive_wait=wait
    )
