"""Event service of a BMC: it keeps subscriptions and never posts anything.

Schemas: DMTF DSP0268, EventService and EventDestination.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.redfish.forms import ROOT, Document, link, resource
from ironic_rs.sandbox.redfish.refusal import Refused

SUBSCRIPTIONS = "EventService/Subscriptions"
EVENT_TYPES = ("StatusChange", "ResourceUpdated", "ResourceAdded", "ResourceRemoved", "Alert")
#: A BMC has few places.
LIMIT = 4


def service(_machine: Machine) -> Document:
    """The event service."""
    path = f"{ROOT}/EventService"
    return resource(
        "EventService",
        "v1_5_0",
        path,
        Id="EventService",
        Name="Event service",
        ServiceEnabled=True,
        EventTypesForSubscription=list(EVENT_TYPES),
        Subscriptions=link(f"{ROOT}/{SUBSCRIPTIONS}"),
        Actions={
            "#EventService.SubmitTestEvent": {
                "target": f"{path}/Actions/EventService.SubmitTestEvent"
            }
        },
    )


def paths(machine: Machine) -> list[str]:
    """Where the subscriptions are."""
    return [f"{ROOT}/{SUBSCRIPTIONS}/{identity}" for identity in machine.subscriptions]


def subscription(machine: Machine, identity: str) -> Document | None:
    """One subscription; its headers are never shown."""
    wanted = machine.subscriptions.get(identity)
    if wanted is None:
        return None
    return resource(
        "EventDestination",
        "v1_6_0",
        f"{ROOT}/{SUBSCRIPTIONS}/{identity}",
        Id=identity,
        Name=f"Subscription {identity}",
        HttpHeaders=None,
        **wanted,
    )


def subscribe(machine: Machine, body: Mapping[str, Any]) -> str:
    """Keep a subscription; returns its path."""
    if not str(body.get("Destination") or "").startswith("https://"):
        raise Refused(400, "Destination has to be an https URI", "PropertyValueFormatError")
    if body.get("Protocol") != "Redfish":
        raise Refused(400, "Protocol has to be Redfish", "PropertyValueNotInList")
    if len(machine.subscriptions) >= LIMIT:
        raise Refused(400, f"{LIMIT} subscriptions are kept", "EventSubscriptionLimitExceeded")
    machine.subscribed += 1
    identity = str(machine.subscribed)
    shown = ("Destination", "Protocol", "Context", "EventTypes")
    machine.subscriptions[identity] = {key: body.get(key) for key in shown}
    return f"{ROOT}/{SUBSCRIPTIONS}/{identity}"


def unsubscriber(identity: str) -> Callable[[Machine, Mapping[str, Any]], None]:
    """Return what forgets a subscription."""

    def forget(machine: Machine, _body: Mapping[str, Any]) -> None:
        machine.subscriptions.pop(identity, None)

    return forget
