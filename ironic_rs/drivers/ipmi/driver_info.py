"""Where a node's BMC is and how to log in: ``driver_info`` made into a record.

Source: specification drivers.md sections 5.1 and 5.5; field case 56.
"""

from __future__ import annotations

import ipaddress
import re
import shutil
from dataclasses import dataclass, field
from typing import Any

from oslo_log import log
from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.base import Properties

LOG = log.getLogger(__name__)

DEFAULT_PORT = 623
#: The program that is used for what the built-in client does not know.
PROGRAM = "ipmitool"
#: Cipher suites of the built-in client, best first.
BUILT_IN_SUITES = ("17", "3")

#: What needs the program in any case.
SERIAL_CONSOLES = "serial consoles"

PRIVILEGES = {"CALLBACK": 1, "USER": 2, "OPERATOR": 3, "ADMINISTRATOR": 4}
_VERSIONS = ("2.0", "1.5")
_BRIDGING = ("no", "single", "dual")
#: Keys that each kind of bridging needs.
_NEEDED = {
    "no": (),
    "single": ("ipmi_target_channel", "ipmi_target_address"),
    "dual": (
        "ipmi_target_channel",
        "ipmi_target_address",
        "ipmi_transit_channel",
        "ipmi_transit_address",
    ),
}
#: Longest user name and password of IPMI 2.0, in bytes.
_MAX_USERNAME = 16
_MAX_PASSWORD = 20
_MAX_KG = 20

_HOST_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")

PROPERTIES: Properties = {
    "ipmi_address": "IP address or host name of the BMC. Required.",
    "ipmi_username": "Account on the BMC. Default: the anonymous account.",
    "ipmi_password": "Password of the account.",
    "ipmi_port": "UDP port of the BMC. Default: 623.",
    "ipmi_priv_level": (
        "Privilege to ask for: ADMINISTRATOR (default), OPERATOR, USER or CALLBACK."
    ),
    "ipmi_protocol_version": (
        "2.0 (default) or 1.5. The latter needs the program ipmitool on the conductor."
    ),
    "ipmi_cipher_suite": (
        "Number of the cipher suite. Default: [ipmi]cipher_suite_versions, else the best of 17 "
        "and 3 that the BMC knows. Others need the program ipmitool on the conductor."
    ),
    "ipmi_hex_kg_key": "Key Kg of the BMC for two-key log-in, in hexadecimal digits.",
    "ipmi_bridging": (
        "no (default), single or dual: the machine is behind one or two controllers. Needs the "
        "program ipmitool on the conductor."
    ),
    "ipmi_target_channel": "Channel of the target, for single and dual bridging.",
    "ipmi_target_address": "Address of the target, for single and dual bridging.",
    "ipmi_transit_channel": "Channel of the controller in between, for dual bridging.",
    "ipmi_transit_address": "Address of the controller in between, for dual bridging.",
    "ipmi_local_address": "IPMB address of the requester, for single and dual bridging.",
    "ipmi_force_boot_device": (
        "Whether a persistent boot device is set again before each power-on, for BMCs that "
        "forget it. Default: false."
    ),
    "ipmi_disable_boot_timeout": (
        "Whether the BMC is told not to forget a boot device after 60 seconds. Default: "
        "[ipmi]disable_boot_timeout."
    ),
}


@dataclass(frozen=True)
class Bridge:
    """How a message gets to a controller behind the BMC; texts as the program wants them."""

    target_channel: str
    target_address: str
    transit_channel: str | None = None
    transit_address: str | None = None
    local_address: str | None = None


@dataclass(frozen=True)
class BmcTarget:
    """Parsed ``driver_info``.

    :param suites: cipher suites to try, best first; empty: the client's choice.
    :param suite_fixed: the node asks for one cipher suite.
    :param kg: key of two-key log-in.
    :param needs_program: why only the program will do; None when the built-in client does.
    """

    node_uuid: str
    address: str
    port: int = DEFAULT_PORT
    username: str | None = None
    password: str = field(default="", repr=False)
    privilege: str = "ADMINISTRATOR"
    version: str = "2.0"
    suites: tuple[str, ...] = ()
    suite_fixed: bool = False
    kg: bytes | None = field(default=None, repr=False)
    bridge: Bridge | None = None
    force_boot_device: bool = False
    disable_boot_timeout: bool = True
    needs_program: str | None = None

    def __str__(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{host}:{self.port}"


def _invalid(node: models.Node, what: str) -> errors.InvalidParameterValue:
    return errors.InvalidParameterValue(f"Node {node.uuid}: {what}")


def port_number(node: models.Node, key: str, value: Any) -> int:
    """Return a port number of driver_info.

    :raises InvalidParameterValue: not a whole number from 1 to 65535.
    """
    try:
        number = int(str(value)) if not isinstance(value, bool) else 0
    except ValueError:
        number = 0
    if not 1 <= number <= 65535:
        raise _invalid(node, f"{key} is '{value}', expected a port number from 1 to 65535.")
    return number


def _address(node: models.Node, value: Any) -> str:
    """Return the address; a word that a program takes for an option is not one."""
    text = value.strip() if isinstance(value, str) else ""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        pass
    else:
        if isinstance(found, ipaddress.IPv6Address) and found.scope_id is not None:
            raise _invalid(
                node,
                f"ipmi_address '{value}' has an IPv6 zone identifier, which means something "
                "else on every conductor; use a global or unique local address.",
            )
        return str(found)
    labels = text.rstrip(".").split(".")
    named = len(text) <= 255 and all(_HOST_LABEL.fullmatch(label) for label in labels)
    # What ends in a number is an IPv4 address or a mistake, never a name (RFC 1123).
    if not named or labels[-1].isdigit():
        raise _invalid(
            node,
            f"ipmi_address is '{value}', expected an IP address or a host name; a port goes "
            "into ipmi_port.",
        )
    return text.rstrip(".")


def _choice(node: models.Node, key: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise _invalid(node, f"{key} is '{value}', expected one of {', '.join(choices)}.")
    return str(value)


def _flag(node: models.Node, key: str, default: bool) -> bool:
    value = node.driver_info.get(key)
    if value is None:
        return default
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError as exc:
        raise _invalid(node, f"{key} is '{value}', expected true or false.") from exc


def _kg(node: models.Node, value: Any) -> bytes | None:
    if value in (None, ""):
        return None
    try:
        key = bytes.fromhex(str(value))
    except ValueError:
        raise _invalid(
            node, "ipmi_hex_kg_key must be an even number of hexadecimal digits."
        ) from None
    if len(key) > _MAX_KG:
        raise _invalid(node, f"ipmi_hex_kg_key has more than {2 * _MAX_KG} digits.")
    return key


def _bridge(node: models.Node, kind: str) -> Bridge | None:
    if kind == "no":
        return None
    info = node.driver_info
    missing = [key for key in _NEEDED[kind] if info.get(key) in (None, "")]
    if missing:
        raise errors.MissingParameterValue(
            f"Node {node.uuid}: {kind} bridging needs {', '.join(missing)} in driver_info."
        )
    found: dict[str, str] = {}
    for key in (*_NEEDED[kind], "ipmi_local_address"):
        value = info.get(key)
        if value not in (None, ""):
            found[key.removeprefix("ipmi_")] = _number(node, key, value)
    return Bridge(**found)


def _number(node: models.Node, key: str, value: Any) -> str:
    """Return a byte as it was written, decimal or hexadecimal."""
    text = str(value).strip()
    try:
        number = int(text, 0)
    except ValueError:
        number = -1
    if not 0 <= number <= 255:
        raise _invalid(node, f"{key} is '{value}', expected a number from 0 to 255 or 0xff.")
    return text


def _suites(node: models.Node, version: str) -> tuple[tuple[str, ...], bool]:
    """Return (suites to try, best first; whether the node asks for one)."""
    value = node.driver_info.get("ipmi_cipher_suite")
    if value is None:
        return tuple(reversed(CONF.ipmi.cipher_suite_versions)), False
    try:
        number = int(str(value))
    except ValueError:
        number = -1
    if not 0 <= number <= 255:
        raise _invalid(node, f"ipmi_cipher_suite is '{value}', expected the number of a suite.")
    if version != "2.0":
        raise _invalid(node, f"ipmi_cipher_suite has no meaning with IPMI {version}.")
    return (str(number),), True


def _needs_program(version: str, suites: tuple[str, ...], bridging: str) -> str | None:
    """Tell what of driver_info the built-in client does not know."""
    if CONF.ipmi.use_ipmitool == "always":
        return "[ipmi]use_ipmitool is 'always'"
    if version != "2.0":
        return f"ipmi_protocol_version is {version}"
    if bridging != "no":
        return f"ipmi_bridging is {bridging}"
    if suites and not set(suites) & set(BUILT_IN_SUITES):
        return f"the cipher suite is {' or '.join(suites)}"
    return None


def _limited(node: models.Node, key: str, most: int) -> str | None:
    value = node.driver_info.get(key)
    if value is None:
        return None
    text = str(value)
    size = len(text.encode())
    if size > most:
        raise _invalid(node, f"{key} has {size} bytes; IPMI allows {most}.")
    if "\0" in text:
        raise _invalid(node, f"{key} contains a NUL character.")
    return text


def parse(node: models.Node) -> BmcTarget:
    """Parse driver_info; no request is made.

    :raises MissingParameterValue: ipmi_address, or an address of bridging, is missing.
    :raises InvalidParameterValue: something is not acceptable, or needs a program
        that is not there.
    """
    info = node.driver_info
    if not info.get("ipmi_address"):
        raise errors.MissingParameterValue(f"Node {node.uuid}: driver_info has no ipmi_address.")
    version = _choice(
        node, "ipmi_protocol_version", str(info.get("ipmi_protocol_version", "2.0")), _VERSIONS
    )
    bridging = _choice(node, "ipmi_bridging", info.get("ipmi_bridging", "no"), _BRIDGING)
    suites, fixed = _suites(node, version)
    username = _limited(node, "ipmi_username", _MAX_USERNAME)
    privilege = info.get("ipmi_priv_level", "ADMINISTRATOR")
    port = info.get("ipmi_port")
    return BmcTarget(
        node_uuid=node.uuid,
        address=_address(node, info["ipmi_address"]),
        port=DEFAULT_PORT if port in (None, "") else port_number(node, "ipmi_port", port),
        username=username,
        password=_limited(node, "ipmi_password", _MAX_PASSWORD) or "",
        privilege=_choice(node, "ipmi_priv_level", privilege, tuple(PRIVILEGES)),
        version=version,
        suites=suites,
        suite_fixed=fixed,
        kg=_kg(node, info.get("ipmi_hex_kg_key")),
        bridge=_bridge(node, bridging),
        force_boot_device=_flag(node, "ipmi_force_boot_device", False),
        disable_boot_timeout=_flag(
            node, "ipmi_disable_boot_timeout", CONF.ipmi.disable_boot_timeout
        ),
        needs_program=_needs_program(version, suites, bridging),
    )


def validate(node: models.Node) -> BmcTarget:
    """Parse driver_info, and check that what it asks for is there.

    :raises InvalidParameterValue: see :func:`parse`.
    """
    target = parse(node)
    check_program(target)
    if not target.username:
        LOG.warning("Node %s: ipmi_username is not set, the anonymous account is used", node.uuid)
    if not target.password:
        LOG.warning("Node %s: ipmi_password is not set", node.uuid)
    return target


def check_program(target: BmcTarget) -> None:
    """Check that the program is there for a node that needs it.

    :raises InvalidParameterValue: it is not, or is not to be used.
    """
    if target.needs_program is None:
        return
    why = f"Node {target.node_uuid}: {target.needs_program}, for which the program {PROGRAM}"
    if CONF.ipmi.use_ipmitool == "never" and target.needs_program != SERIAL_CONSOLES:
        raise errors.InvalidParameterValue(f"{why} is needed, but [ipmi]use_ipmitool is 'never'.")
    if shutil.which(PROGRAM) is None:
        raise errors.InvalidParameterValue(
            f"{why} is needed; it is not installed on this conductor, or may not be run."
        )
