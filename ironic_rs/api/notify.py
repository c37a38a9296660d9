"""Notifications about what requests do: the route table says which, this sends them.

``start`` is sent once the caller is known to be allowed (``call.authorize``), so that
nobody can fill the bus with requests that are refused; ``end`` after the handler, or
``error``.  Nothing here fails a request.

Source: specification rest-api.md section 14, operations.md section 4.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ironic_rs.db import (
    allocations,
    chassis,
    inspection_rules,
    nodes,
    portgroups,
    ports,
    records,
    runbooks,
    templates,
    volumes,
)
from ironic_rs.db.listing import Listing
from ironic_rs.domain import errors, names
from ironic_rs.telemetry import payloads
from ironic_rs.telemetry.payloads import Payload

if TYPE_CHECKING:
    from ironic_rs.api.call import Call, Reply

LOG = logging.getLogger(__name__)

Values = Mapping[Any, Any]
#: From a UUID or name to the values of the object, None where there is none.
Load = Callable[[str], Values | None]


@dataclass(frozen=True)
class Event:
    """What a route tells about.

    :param action: ``create``, ``update``, ``delete``, ``maintenance_set``.
    :param argument: of the path that names the object; None where it is created.
    """

    payload: Payload
    action: str
    load: Load
    argument: str | None = None

    def type(self, status: str) -> str:
        """Return the event type of a status: ``start``, ``end``, ``error``."""
        return f"baremetal.{self.payload.subject}.{self.action}.{status}"


class Watch:
    """One request that is told about.

    :ivar values: the object as it was before, or as it is asked for.
    """

    def __init__(self, call: Call, event: Event) -> None:
        self._call = call
        self._event = event
        self.values: Values | None = None

    def begin(self) -> None:
        """Tell of the start, once."""
        if self.values is not None:
            return
        try:
            self.values = self._before()
        except Exception:
            # The request itself will meet whatever this was.
            LOG.exception("The start of %s can not be told", self._event.type("start"))
        if self.values is None:
            # Not there: the request is about to say so.
            self.values = {}
        elif self.values:
            self._send("start", "info", self.values)

    def _before(self) -> Values | None:
        argument = self._event.argument
        if argument is not None:
            return self._event.load(self._call.path[argument])
        body = self._call.body
        return dict(body) if isinstance(body, dict) else None

    def end(self, reply: Reply | Any) -> None:
        """Tell of the end."""
        if not self.values:
            return
        try:
            self._send("end", "info", self._after(reply) or self.values)
        except Exception:
            LOG.exception("%s can not be told", self._event.type("end"))

    def _after(self, reply: Any) -> Values | None:
        if self._event.action == "delete":
            return None
        assert self.values is not None
        uuid = self.values.get("uuid")
        if self._event.argument is None:
            document = getattr(reply, "body", reply)
            uuid = document["uuid"]
        return self._event.load(str(uuid))

    def failed(self) -> None:
        """Tell of an error."""
        if self.values:
            self._send("error", "error", self.values)

    def _send(self, status: str, level: str, values: Values) -> None:
        call = self._call
        try:
            payload = self._event.payload.make(values)
        except Exception:
            LOG.exception("%s can not be told", self._event.type(status))
            return
        call.services.emitter.emit(self._event.type(status), level, payload, call.context)


@contextlib.contextmanager
def watching(call: Call) -> Iterator[Watch | None]:
    """Tell about a request while its handler runs; None where nobody is told."""
    event = call.route.event
    if event is None or not call.services.emitter.wants("error"):
        yield None
        return
    watch = Watch(call, event)
    call.on_authorized = watch.begin
    try:
        yield watch
    except BaseException:
        watch.failed()
        raise


def _rows(listing: Listing, payload: Payload, *more: str) -> Load:
    known = [n for n in (*payload.fields, *more) if listing.column(n) is not None]
    columns = ("uuid", "created_at", "updated_at", *known)

    def load(ident: str) -> Values | None:
        key = "uuid" if names.is_uuid_like(ident) else "name"
        if key not in listing.filters:
            return None
        rows = listing.select(dict.fromkeys(columns), {key: ident}, limit=1)
        return dict(rows[0]) if rows else None

    return load


def _node(payload: Payload) -> Load:
    load_row = _rows(nodes.LISTING, payload, "traits_json")

    def load(ident: str) -> Values | None:
        row = load_row(ident)
        return None if row is None else {**row, "traits": nodes.traits_in(row)}

    return load


def _record(get: Callable[[str], Any]) -> Load:
    def load(ident: str) -> Values | None:
        try:
            return records.as_dict(get(ident))
        except (errors.NotFound, errors.InvalidIdentity):
            return None

    return load


def _allocation_of_node(ident: str) -> Values | None:
    node = _node(payloads.NODE)(ident)
    rows = (
        allocations.select(("uuid",), {"node_uuid": node["uuid"]}, limit=1)
        if node is not None
        else ()
    )
    return _allocation(rows[0]["uuid"]) if rows else None


_allocation = _rows(allocations.LISTING, payloads.ALLOCATION)

NODE_CREATED = Event(payloads.NODE_CRUD, "create", _node(payloads.NODE_CRUD))
NODE_UPDATED = Event(payloads.NODE_CRUD, "update", _node(payloads.NODE_CRUD), "node")
NODE_DELETED = Event(payloads.NODE_CRUD, "delete", _node(payloads.NODE_CRUD), "node")
MAINTENANCE_SET = Event(payloads.NODE, "maintenance_set", _node(payloads.NODE), "node")
NODE_ALLOCATION_DELETED = Event(payloads.ALLOCATION, "delete", _allocation_of_node, "node")

#: Of the other objects, by the argument of the path: payload and how one is read.
_OTHERS: Mapping[str, tuple[Payload, Load]] = {
    "chassis": (payloads.CHASSIS, _record(chassis.get)),
    "port": (payloads.PORT, _rows(ports.LISTING, payloads.PORT)),
    "portgroup": (payloads.PORTGROUP, _rows(portgroups.LISTING, payloads.PORTGROUP)),
    "allocation": (payloads.ALLOCATION, _allocation),
    "connector": (
        payloads.VOLUME_CONNECTOR,
        _rows(volumes.CONNECTORS, payloads.VOLUME_CONNECTOR),
    ),
    "target": (payloads.VOLUME_TARGET, _rows(volumes.TARGETS, payloads.VOLUME_TARGET)),
    "template": (payloads.DEPLOY_TEMPLATE, _record(templates.get_by_ident)),
    "runbook": (payloads.RUNBOOK, _record(runbooks.get_by_ident)),
    "rule": (payloads.INSPECTION_RULE, _record(inspection_rules.get)),
}


def created(argument: str) -> Event:
    """Return the event of a creation of what an argument of paths names."""
    payload, load = _OTHERS[argument]
    return Event(payload, "create", load)


def updated(argument: str) -> Event:
    """Return the event of a change."""
    payload, load = _OTHERS[argument]
    return Event(payload, "update", load, argument)


def deleted(argument: str) -> Event:
    """Return the event of a deletion."""
    payload, load = _OTHERS[argument]
    return Event(payload, "delete", load, argument)
