"""Rules about names, UUIDs, MAC addresses, traits and plain text.

Source: specification rest-api.md sections 5.1, 5.2, 10.3; field case K18.
"""

from __future__ import annotations

import functools
import ipaddress
import re
import uuid

_LOGICAL_NAME = re.compile(r"[A-Za-z0-9\-._~]{1,255}")
_HOST_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"{_HOST_LABEL}(?:\.[a-z0-9_](?:[a-z0-9_-]{{0,61}}[a-z0-9_])?)*")
_MAC = re.compile(r"(?:[0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}")
_DATAPATH_ID = re.compile(r"[0-9a-fA-F]{16}")
_CUSTOM_TRAIT = re.compile(r"CUSTOM_[A-Z0-9_]+")
_SURROGATE = re.compile("[\ud800-\udfff]")

#: Words that are sub-resources of /v1/nodes and therefore no names of nodes.
RESERVED_NODE_NAMES = frozenset(
    {"maintenance", "management", "states", "vendor_passthru", "detail", "validate"}
)
#: Segments that can not be reached by URL.
_UNREACHABLE = frozenset({".", ".."})

MAX_TRAIT_LENGTH = 255


def is_storable(text: str) -> bool:
    """Tell whether every database and every client can take this text.

    NUL can not be stored by PostgreSQL, lone surrogates have no UTF-8 form.
    """
    return "\x00" not in text and _SURROGATE.search(text) is None


def is_uuid_like(text: str) -> bool:
    """Tell whether the text spells a UUID (dashes, braces, urn:, case ignored)."""
    if len(text) > 45:
        return False
    try:
        canonical = str(uuid.UUID(text))
    except (ValueError, AttributeError):
        return False
    bare = text.replace("urn:", "").replace("uuid:", "").strip("{}").replace("-", "").lower()
    return bare == canonical.replace("-", "")


def is_logical_name(text: str) -> bool:
    """Tell whether the text is a name: 1 to 255 RFC 3986 unreserved characters."""
    return _LOGICAL_NAME.fullmatch(text) is not None


def is_valid_name(text: str, *, hostname_only: bool = False) -> bool:
    """Tell whether a resource may be given this name.

    :param hostname_only: the rule below microversion 1.10, a lower-case host name.
    """
    if is_uuid_like(text) or text in _UNREACHABLE:
        return False
    if hostname_only:
        return len(text) <= 255 and _HOST_NAME.fullmatch(text) is not None
    return is_logical_name(text)


def canonical_ip(text: str) -> str:
    """Return the one way to write an IP address (RFC 5952); other text as it is."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        return text


def normalize_mac(text: str) -> str | None:
    """Return the address in lower case with colons, or None if it is no address."""
    lowered = text.lower()
    if not _MAC.fullmatch(lowered):
        return None
    return lowered.replace("-", ":")


def normalize_switch_id(text: str) -> str | None:
    """Return a MAC address or OpenFlow datapath id in lower case, or None."""
    if _DATAPATH_ID.fullmatch(text):
        return text.lower()
    return normalize_mac(text)


def is_valid_trait(text: str, standard: frozenset[str]) -> bool:
    """Tell whether the text is a trait: a custom one or one of ``standard``."""
    if not 1 <= len(text) <= MAX_TRAIT_LENGTH:
        return False
    return _CUSTOM_TRAIT.fullmatch(text) is not None or text in standard


@functools.cache
def standard_traits() -> frozenset[str]:
    """Return the standard traits of the installed os-traits library."""
    # A large package of constants: loaded when first needed.
    import os_traits  # type: ignore[import-untyped]

    return frozenset(os_traits.get_traits())
