"""Masking of secrets, for answers, logs, history and notifications.

What counts as a secret is decided by oslo.utils (key names such as password,
token, secret; ``key: value`` text inside strings).  Its functions walk long lists
of regular expressions for every string, so this module asks them only about the
strings that may hold something.

Source: specification rest-api.md section 8.2 (masking); field case K14.
"""

from __future__ import annotations

import functools
import hmac
import logging
from collections.abc import Mapping
from typing import Any

from oslo_utils import strutils

MASK = "******"

#: driver_info keys that oslo.utils does not know as secrets.
DRIVER_INFO_KEYS = frozenset({"snmp_auth_key", "snmp_priv_key"})
#: instance_info keys that are hidden when they are not empty.
INSTANCE_INFO_KEYS = frozenset({"configdrive", "image_url"})


@functools.cache
def _words() -> tuple[str, ...]:
    # Every string that oslo.utils would change contains one of its key words.
    words = sorted((word.lower() for word in strutils._SANITIZE_KEYS), key=len)
    return tuple(w for n, w in enumerate(words) if not any(s in w for s in words[:n]))


def may_hold_secret(text: str) -> bool:
    """Tell whether :func:`mask` could change anything in a text, JSON included.

    Looking for the words one by one takes a twentieth of the time of a regular
    expression that ignores case.
    """
    lowered = text.lower()
    return any(map(lowered.__contains__, _words()))


@functools.lru_cache(maxsize=4096)
def is_secret_key(key: str) -> bool:
    """Tell whether values under this key are secrets."""
    return may_hold_secret(key)


def mask_text(text: str) -> str:
    """Return the text with passwords and tokens inside it replaced."""
    if not may_hold_secret(text):
        return text
    return strutils.mask_password(text, secret=MASK)


def mask(value: Any) -> Any:
    """Return a copy of a JSON value with all secrets replaced, at any depth."""
    if isinstance(value, Mapping):
        return {
            k: MASK
            if isinstance(k, str) and is_secret_key(k) and not isinstance(v, Mapping)
            else mask(v)
            for k, v in value.items()
        }
    if isinstance(value, str):
        return mask_text(value)
    if isinstance(value, list | tuple):
        return [mask(item) for item in value]
    return value


def mask_driver_info(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return driver_info as it may be shown."""
    masked: dict[str, Any] = mask(value)
    for key in DRIVER_INFO_KEYS & masked.keys():
        masked[key] = MASK
    return masked


def mask_instance_info(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return instance_info as it may be shown."""
    masked: dict[str, Any] = mask(value)
    for key in INSTANCE_INFO_KEYS & masked.keys():
        if value[key]:
            masked[key] = MASK
    return masked


class MaskingFilter(logging.Filter):
    """Masks the secrets of a library's log lines; for the logger that writes them."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without its secrets."""
        text = record.getMessage()
        masked = mask_text(text)
        if masked != text:
            record.msg, record.args = masked, ()
        return True


def token_matches(internal_info: Mapping[str, Any], given: str | None) -> bool:
    """Tell whether ``given`` is the agent token of a node, in constant time (W46).

    :param internal_info: driver_internal_info of the node.
    """
    stored = internal_info.get("agent_secret_token")
    if not stored or given is None:
        return False
    return hmac.compare_digest(str(stored).encode(), given.encode(errors="surrogatepass"))


def forget_rescue_password(node: Any) -> None:
    """Drop the password of a rescue, plain and hashed, from a node record (not saved)."""
    node.instance_info.pop("rescue_password", None)
    node.instance_info.pop("hashed_rescue_password", None)
