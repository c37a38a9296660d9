"""How a BMC with faults answers: documents with gaps, pages, ETags, broken answers."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import hashlib
import json
import socket
import struct
from collections.abc import Iterable
from typing import Any

from aiohttp import web

from ironic_rs.sandbox.faults import Faults
from ironic_rs.sandbox.redfish.forms import Document
from ironic_rs.sandbox.redfish.refusal import Refused

#: Seconds between the bytes of an answer that never ends.
_DRIP = 0.05


def shown(faults: Faults, path: str, document: Document) -> Document:
    """A document as a BMC with gaps shows it."""
    if not (faults.bmc_omit or faults.bmc_null) or not faults.concerns("GET", path):
        return document
    document = copy.deepcopy(document)
    for name in faults.bmc_omit.split():
        place, last = _place(document, name)
        place.pop(last, None)
    for name in faults.bmc_null.split():
        place, last = _place(document, name)
        if last in place:
            place[last] = None
    return document


def _place(document: Document, name: str) -> tuple[dict[str, Any], str]:
    """Where a property is, and its last name; nowhere that matters if it is not."""
    *outer, last = name.split("/")
    place: Any = document
    for part in outer:
        place = place.get(part) if isinstance(place, dict) else None
    return (place if isinstance(place, dict) else {}), last


def page(faults: Faults, path: str, document: Document, skip: str | None) -> Document:
    """One page of a collection.

    :param path: of the request.
    :param skip: value of ``$skip``.
    """
    size = faults.bmc_page
    if not size or "Members" not in document or not faults.concerns("GET", path):
        return document
    first = int(skip) if skip is not None and skip.isdecimal() else 0
    members = document["Members"]
    found = {**document, "Members": members[first : first + size]}
    if first + size < len(members):
        found["Members@odata.nextLink"] = f"{path}?$skip={first + size}"
    return found


class Tags:
    """ETags of one BMC."""

    def __init__(self) -> None:
        self._changes = 0
        self._refused_last = False

    def of(self, document: Document) -> str:
        """The tag of a document as it is now."""
        text = json.dumps(document, sort_keys=True) + str(self._changes)
        return f'"{hashlib.sha256(text.encode()).hexdigest()[:16]}"'

    def check(self, faults: Faults, path: str, document: Document, given: str | None) -> None:
        """Let a change pass, or refuse it.

        :param given: If-Match.
        """
        if not faults.bmc_etags or not faults.concerns("PATCH", path):
            return
        if given is None:
            raise Refused(428, "If-Match is missing", "PreconditionRequired")
        if given != self.of(document):
            raise Refused(412, "The resource has changed", "PreconditionFailed")
        if faults.bmc_etags == "outdated" and not self._refused_last:
            self._changes += 1
            self._refused_last = True
            raise Refused(412, "The resource has just changed", "PreconditionFailed")
        self._refused_last = False


async def broken(request: web.BaseRequest, faults: Faults) -> web.StreamResponse | None:
    """What comes in place of an answer; None: an error with a status."""
    if faults.bmc_drop or faults.bmc_reset:
        if request.transport is not None:
            if faults.bmc_reset:
                _break_off(request.transport.get_extra_info("socket"))
            request.transport.abort()
        return web.Response()
    if faults.bmc_body:
        return web.Response(text=faults.bmc_body, content_type="application/json")
    if not faults.bmc_endless:
        return None
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        for byte in _spaces():
            await response.write(byte)
            await asyncio.sleep(_DRIP)
    return response


def _spaces() -> Iterable[bytes]:
    while True:
        yield b" "


def _break_off(connection: socket.socket | None) -> None:
    """Let the end of a connection be a reset."""
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
