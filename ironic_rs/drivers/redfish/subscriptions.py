"""Event subscriptions: to where a BMC posts what happens to its machine.

Source: specification drivers.md section 6.12; Redfish schemas EventService and
EventDestination.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import sushy.exceptions
from oslo_log import log
from sushy.resources.eventservice.constants import EventType
from sushy.resources.eventservice.eventdestination import (
    EventDestination,
    EventDestinationCollection,
)
from sushy.resources.eventservice.eventservice import EventService

from ironic_rs.db import models
from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.sessions import NodeBmc

LOG = log.getLogger(__name__)

#: What is asked for when the request does not say.
DEFAULTS: Mapping[str, Any] = {
    "Protocol": "Redfish",
    "Context": "",
    "EventTypes": [EventType.ALERT.value],
}
ARGUMENTS = ("Destination", "HttpHeaders", *DEFAULTS)


def wanted(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the subscription that a request describes, as the BMC gets it.

    :raises InvalidParameterValue: an argument is missing or of the wrong form.
    """
    payload = {**DEFAULTS, **{key: arguments[key] for key in ARGUMENTS if key in arguments}}
    _check_destination(payload.get("Destination"))
    for name in ("Protocol", "Context"):
        if not isinstance(payload[name], str):
            raise errors.InvalidParameterValue(f"{name} is {payload[name]!r}, expected text.")
    kinds = payload["EventTypes"]
    if not isinstance(kinds, list) or not kinds or not all(isinstance(k, str) for k in kinds):
        raise errors.InvalidParameterValue(
            f"EventTypes is {kinds!r}, expected a list of names such as "
            f"{', '.join(kind.value for kind in EventType)}."
        )
    headers = payload.get("HttpHeaders", [])
    if not isinstance(headers, list) or not all(_is_header(header) for header in headers):
        raise errors.InvalidParameterValue(
            'HttpHeaders is not a list of objects of text, such as [{"X-Token": "value"}].'
        )
    return payload


def _check_destination(value: Any) -> None:
    if value is None:
        raise errors.InvalidParameterValue(
            "A subscription needs a Destination: the URI to which the BMC posts events."
        )
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    if parts is None or not parts.scheme or not parts.netloc:
        raise errors.InvalidParameterValue(
            f"Destination is {value!r}, expected a URI such as https://host/path."
        )


def _is_header(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def create(node: models.Node, bmc: NodeBmc, payload: dict[str, Any]) -> dict[str, Any]:
    """Subscribe; return what :func:`shown` tells of the new subscription.

    :raises InvalidParameterValue: the BMC does not send such events.
    :raises UnsupportedHardwareFeature: it has no event service.
    :raises RedfishError: it does not show the subscription that it accepted.
    """
    service = _service(node, bmc)
    known = service.event_types_for_subscription or [kind.value for kind in EventType]
    unknown = [kind for kind in payload["EventTypes"] if kind not in known]
    if unknown:
        raise errors.InvalidParameterValue(
            f"The BMC of node {node.uuid} has no events of type {', '.join(unknown)}; it has "
            f"{', '.join(map(str, known))}."
        )
    collection = service.subscriptions
    before = set(collection.members_identities)
    made = collection.create(payload)
    if made is None:
        made = _found_anew(node, collection, before, payload["Destination"])
    LOG.info("Node %s: events go to %s (%s)", node.uuid, payload["Destination"], made.path)
    return shown(made)


def _found_anew(
    node: models.Node, collection: EventDestinationCollection, before: set[str], destination: str
) -> EventDestination:
    """Find a subscription of which the BMC did not say where it is."""
    collection.refresh()
    for path in collection.members_identities:
        if path not in before:
            subscription = collection.get_member(path)
            if subscription.destination == destination:
                return subscription
    raise errors.RedfishError(
        error=(
            f"the BMC of node {node.uuid} accepted the subscription of {destination}, but does "
            "not show it"
        )
    )


def everything(node: models.Node, bmc: NodeBmc) -> dict[str, Any]:
    """Return the collection of subscriptions as the BMC shows it."""
    document: dict[str, Any] = _service(node, bmc).subscriptions.json
    return document


def find(node: models.Node, bmc: NodeBmc, identity: str) -> EventDestination:
    """Return a subscription.

    Only members of the collection are looked at: an id is text of a user, never a path.

    :raises RedfishError: there is none of this id (HTTP 404).
    """
    collection = _service(node, bmc).subscriptions
    for path in collection.members_identities:
        if path.rstrip("/").rpartition("/")[2] == identity:
            try:
                return collection.get_member(path)
            except sushy.exceptions.ResourceNotFoundError:
                break
    raise not_found(node, identity)


def not_found(node: models.Node, identity: str) -> errors.RedfishError:
    """Return the error for a subscription that is not there, HTTP 404."""
    error = errors.RedfishError(
        error=f"the BMC of node {node.uuid} has no subscription '{identity}'"
    )
    error.code = 404
    return error


def shown(subscription: EventDestination) -> dict[str, Any]:
    """Return what the API tells of a subscription; never its headers, which are secret."""
    return {
        "Id": subscription.identity,
        "Context": subscription.context,
        "Protocol": subscription.protocol,
        "Destination": subscription.destination,
        "EventTypes": subscription.event_types,
    }


def _service(node: models.Node, bmc: NodeBmc) -> EventService:
    try:
        return bmc.root.get_event_service()
    except sushy.exceptions.MissingAttributeError as exc:
        raise errors.UnsupportedHardwareFeature(
            node=node.uuid, feature="event subscriptions"
        ) from exc
