"""Reading request bodies: size limit, JSON, depth limit.

Source: specification rest-api.md sections 1, 3 (form C), 4; field case K01.
"""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

import orjson
from oslo_config import cfg

from ironic_rs.api import errors as api_errors
from ironic_rs.httpd.documents import deeper_than

_CHUNK = 64 * 1024
# orjson turns integers beyond 64 bits into floats: bodies that may hold one are read
# again by the standard library, which tells.
_LONG_NUMBER = re.compile(rb"\d{19}")
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


def size_limit(conf: cfg.ConfigOpts, path: str) -> int:
    """Return the number of bytes that a body sent to this path may have."""
    path = path.rstrip("/")
    if path.endswith("states/provision"):
        kib = conf.api.max_json_body_size_provision
    elif path.endswith("continue_inspection"):
        kib = conf.api.max_json_body_size_inspection
    else:
        kib = conf.api.max_json_body_size
    return int(kib) * 1024


def read(environ: dict[str, Any], limit: int) -> bytes:
    """Return the whole body.

    :raises BodyTooLarge: more than ``limit`` bytes, announced or sent.
    :raises LengthRequired: sent in chunks that the HTTP server does not put together.
    :raises MalformedBody: fewer bytes arrived than were announced.
    """
    announced = environ.get("CONTENT_LENGTH")
    if announced:
        if not announced.isascii() or not announced.isdigit():
            raise api_errors.MalformedBody(f"Invalid Content-Length {announced[:40]!a}.")
        length = int(announced)
        if length > limit:
            raise _too_large(limit)
        return _read_exactly(environ, length)
    if not environ.get("wsgi.input_terminated"):
        if environ.get("HTTP_TRANSFER_ENCODING"):
            # Taking it for no body would do something else than what was asked for.
            raise api_errors.LengthRequired(
                "The HTTP server of this API takes no request bodies in chunks; send them with "
                "Content-Length."
            )
        return b""
    # A chunked body: its size is known when it ends.
    parts: list[bytes] = []
    total = 0
    while total <= limit:
        part = environ["wsgi.input"].read(_CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
        total += len(part)
    raise _too_large(limit)


def _read_exactly(environ: dict[str, Any], length: int) -> bytes:
    data: bytes = environ["wsgi.input"].read(length) if length else b""
    if len(data) != length:
        raise api_errors.MalformedBody(
            f"The body ended after {len(data)} of the {length} bytes of Content-Length."
        )
    return data


def _too_large(limit: int) -> api_errors.BodyTooLarge:
    return api_errors.BodyTooLarge(
        f"The request body is larger than the {limit // 1024} KiB accepted here."
    )


def parse(data: bytes, max_depth: int) -> Any:
    """Return the value of a JSON body; an empty body is an empty object.

    :raises MalformedBody: not JSON (NaN, lone surrogates and integers beyond 64 bits
        count as not JSON).
    :raises BodyTooDeep: nested deeper than ``max_depth``.
    """
    if not data.strip():
        return {}
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        if "depth" in str(exc) or "recursion" in str(exc).lower():
            raise _too_deep(max_depth) from None
        raise api_errors.MalformedBody(f"The request body is not valid JSON: {exc}.") from None
    if deeper_than(value, max_depth):
        raise _too_deep(max_depth)
    if _LONG_NUMBER.search(data) is not None:
        json.loads(data, parse_int=_check_integer)
    return value


def _check_integer(digits: str) -> None:
    if len(digits) > 20 or not _SMALLEST <= int(digits) <= _LARGEST:
        raise api_errors.MalformedBody(
            f"The request body holds the number {digits[:25]}...; integers of at most 64 bits "
            "are accepted."
        )


def _too_deep(max_depth: int) -> api_errors.BodyTooDeep:
    return api_errors.BodyTooDeep(
        f"The JSON of the request body is nested deeper than the {max_depth} levels accepted."
    )


def dump(value: Any) -> bytes:
    """Return a value as the JSON of a response; datetimes in UTC with offset."""
    try:
        return orjson.dumps(value, option=orjson.OPT_NAIVE_UTC)
    except TypeError:
        # Values stored by somebody else may hold what orjson has no form for:
        # integers beyond 64 bits, keys that are no strings, lone surrogates.
        return json.dumps(value, default=_plain).encode("utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, orjson.Fragment):
        return json.loads(orjson.dumps(value))
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return value.isoformat()
