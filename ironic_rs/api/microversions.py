"""The microversions of the API, one line each, and their negotiation.

Source: specification rest-api.md sections 2 and 7.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Any

from ironic_rs.domain import errors

MAJOR = 1
MINIMUM = 1
MAXIMUM = 115

SERVICE_TYPE = "baremetal"
HEADER = "X-OpenStack-Ironic-API-Version"
MINIMUM_HEADER = "X-OpenStack-Ironic-API-Minimum-Version"
MAXIMUM_HEADER = "X-OpenStack-Ironic-API-Maximum-Version"


class V(enum.IntEnum):
    """Minor versions that change something besides fields (those: domain/fields)."""

    AVAILABLE_STATE = 2  # shown; below it is null
    MANAGEABLE = 4  # verbs manage and provide
    NODE_NAME = 5  # nodes can be addressed by name
    INSPECT = 6  # verb inspect
    FIELDS = 8  # ?fields=
    FILTER_PROVISION_STATE = 9
    UNRESTRICTED_NAME = 10  # RFC 3986 unreserved characters instead of host names
    ENROLL = 11  # new nodes start in enroll, not in available
    RAID = 12  # PUT states/raid, driver RAID properties
    ABORT_CLEAN = 13
    CLEAN = 15  # manual cleaning
    FILTER_DRIVER = 16
    ADOPT = 17
    FILTER_RESOURCE_CLASS = 21
    RAMDISK = 22  # lookup and heartbeat
    PORTGROUPS = 23
    PORTGROUP_PORTS = 24
    CHASSIS_REMOVAL = 25
    SOFT_POWER = 27  # soft power targets, power timeout
    VIFS = 28
    INJECT_NMI = 29
    DYNAMIC_DRIVERS = 30
    VOLUMES = 32
    REBUILD_CONFIGDRIVE = 35
    AGENT_VERSION = 36
    TRAITS = 37
    RESCUE = 38
    INSPECT_WAIT = 39  # shown; below it is inspecting; no PATCH while inspecting
    BIOS = 40
    ABORT_INSPECT = 41
    FILTER_FAULT = 42
    DETAIL = 43  # ?detail=
    RESET_INTERFACES = 45
    CONDUCTOR_GROUP = 46
    CONDUCTORS = 49
    OWNER = 50
    ALLOCATIONS = 52
    EVENTS = 54
    DEPLOY_TEMPLATES = 55
    CONFIGDRIVE_OBJECT = 56
    PATCH_ALLOCATION = 57
    BACKFILL = 58  # an allocation for a node that is in use already
    VENDOR_DATA = 59
    ALLOCATION_OWNER = 60
    AGENT_TOKEN = 62
    INDICATORS = 63  # not enforced
    NETWORK_TYPE = 64  # local_link_connection.network_type
    LESSEE = 65
    VIF_PORT = 67  # port_uuid and portgroup_uuid of a VIF
    AGENT_VERIFY_CA = 68
    DEPLOY_STEPS = 69
    CLEAN_DISABLE_RAMDISK = 70
    AGENT_STATUS = 72
    DEPLOY_VERBS = 73  # deploy and undeploy
    BIOS_REGISTRY = 74  # registry fields, ?detail= and ?fields= of BIOS settings
    BOOT_MODE = 76  # PUT states/boot_mode, states/secure_boot
    DRIVER_FIELDS = 77
    HISTORY = 78
    INVENTORY = 81
    SHARDS = 82
    CHILDREN = 83
    CONTINUE_INSPECTION = 84
    UNHOLD = 85
    FIRMWARE = 86
    SERVICE = 87
    VMEDIA = 89
    OVN_VTEP = 90  # local_link_connection with vtep keys, until:
    LITERAL_JSON = 91  # before, .json at the end of a path was the format
    RUNBOOKS = 92
    GET_VMEDIA = 93
    NODE_IDENT = 94  # of a port
    INSPECTION_RULES = 96
    PATCH_ESCAPES = 98
    PORTGROUP_PHYSICAL_NETWORK = 102
    INSTANCE_NAME = 104
    NO_OVN_VTEP = 105
    PORTGROUP_SHARD = 106
    SERVICE_DISABLE_RAMDISK = 108
    ABORT_DEPLOY = 110
    RUNBOOK_TRAITS = 112
    FIRMWARE_IDENTITY = 114


#: Highest minor version of the releases that [DEFAULT]pin_release_version may name.
RELEASES: Mapping[str, int] = {
    "24.1": 90,
    "2024.1": 90,
    "26.1": 93,
    "2024.2": 93,
    "29.0": 96,
    "2025.1": 96,
    "32.0": 101,
    "2025.2": 101,
    "33.0": 104,
    "34.0": 109,
    "35.0": 111,
    "2026.1": 111,
    "36.0": 112,
    "37.0": 112,
    "38.0": 113,
    "39.0": 115,
    "2026.2": 115,
}

_VERSION = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")


class UnsupportedVersion(Exception):
    """The requested version can not be served; clients negotiate from the headers."""

    def __init__(self, message: str, maximum: int) -> None:
        super().__init__(message)
        self.maximum = maximum


def text(minor: int) -> str:
    """Return ``1.15`` for 15."""
    return f"{MAJOR}.{minor}"


def maximum(pin: str | None) -> int:
    """Return the highest minor version to offer, under [DEFAULT]pin_release_version.

    :raises IncorrectConfiguration: pinned to a release that is too old.
    """
    if not pin:
        return MAXIMUM
    try:
        return RELEASES[pin]
    except KeyError:
        raise errors.IncorrectConfiguration(
            error=f"[DEFAULT]pin_release_version = {pin} is too old to upgrade from; "
            f"supported are {', '.join(RELEASES)}"
        ) from None


def requested(environ: Mapping[str, Any]) -> str | None:
    """Return the version that a request asks for; the new header wins over the old."""
    for entry in environ.get("HTTP_OPENSTACK_API_VERSION", "").split(","):
        service, _, version = entry.strip().partition(" ")
        if service.lower() == SERVICE_TYPE and version.strip():
            return str(version).strip()
    legacy: str = environ.get("HTTP_X_OPENSTACK_IRONIC_API_VERSION", "")
    return legacy.strip() or None


def negotiate(environ: Mapping[str, Any], highest: int = MAXIMUM) -> int:
    """Return the minor version to serve a request with.

    :param environ: WSGI environment.
    :param highest: the highest minor version offered.
    :raises UnsupportedVersion: not a version, another major, or out of range.
    """
    wanted = requested(environ)
    return MINIMUM if wanted is None else parse(wanted, highest)


def parse(wanted: str, highest: int = MAXIMUM) -> int:
    """Return the minor version that a text such as ``1.15`` or ``latest`` means.

    :raises UnsupportedVersion: not a version, another major, or out of range.
    """
    if wanted.lower() == "latest":
        return highest
    match = _VERSION.fullmatch(wanted)
    if match is None:
        raise UnsupportedVersion(
            f"Invalid version {wanted[:40]!a}; accepted: a version "
            f"from {text(MINIMUM)} to {text(highest)}, or latest.",
            highest,
        )
    major, minor = int(match[1]), int(match[2])
    if major != MAJOR or not MINIMUM <= minor <= highest:
        raise UnsupportedVersion(
            f"Version {wanted} was requested but this service offers versions from "
            f"[{text(MINIMUM)}, {text(highest)}].",
            highest,
        )
    return minor


def headers(highest: int, used: int | None = None) -> list[tuple[str, str]]:
    """Return the version headers of a response; without ``used`` no echo."""
    values = [(MINIMUM_HEADER, text(MINIMUM)), (MAXIMUM_HEADER, text(highest))]
    if used is not None:
        values.append((HEADER, text(used)))
    return values
