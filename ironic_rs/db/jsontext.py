"""JSON of the database columns: fast to read, readable by every release.

Text is written in plain ASCII (as upstream does), so that it fits tables whose
character set is narrower than the client's.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

# orjson turns integers beyond 64 bits into floats; such texts go to the exact reader.
_LONG_NUMBER = re.compile(r"\d{19}")
_OPTIONS = orjson.OPT_NON_STR_KEYS


def loads(text: str) -> Any:
    """Decode ``text``; also what only the standard library reads (NaN, big integers)."""
    if _LONG_NUMBER.search(text) is None:
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass
    return json.loads(text)


def fragment(text: str | None, empty: bytes = b"{}") -> Any:
    """Return what stands for a stored JSON object or array in an answer, unparsed if possible.

    :param empty: what SQL NULL and a JSON null are shown as.
    """
    if text is None or text == "null":
        return orjson.Fragment(empty)
    # What the standard library wrote but JSON does not have, and what was cut off.
    if "NaN" in text or "Infinity" in text or text[-1:] not in ("}", "]"):
        return loads(text)
    return orjson.Fragment(text)


def dumps(value: Any) -> str:
    """Encode ``value`` as ASCII JSON.

    :raises TypeError: the value holds something that JSON has no form for.
    """
    try:
        encoded = orjson.dumps(value, option=_OPTIONS)
    except TypeError:
        return json.dumps(value)
    if encoded.isascii():
        return encoded.decode("ascii")
    return json.dumps(value)


def canonical(value: Any) -> str:
    """Text that is equal for equal values, whatever the order of their keys."""
    try:
        return orjson.dumps(value, option=_OPTIONS | orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        return json.dumps(value, sort_keys=True)
