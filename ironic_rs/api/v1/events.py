"""Events that other services tell, as the Networking service does; they are logged.

Source: specification rest-api.md section 11.6.
"""

from __future__ import annotations

from typing import Any

from oslo_log import log

from ironic_rs.api.call import Call
from ironic_rs.api.documents import Schema, Shape, record
from ironic_rs.domain import errors, fields
from ironic_rs.domain.fields import show

LOG = log.getLogger(__name__)


def _form(minor: int) -> Schema:
    events = {"type": "array", "items": fields.EVENT.create_schema(minor), "minItems": 1}
    return record({"events": events})


EVENTS = Shape("events", _form)


def post_events(call: Call) -> None:
    """POST /v1/events."""
    given = call.body.get("events") if isinstance(call.body, dict) else None
    if not isinstance(given, list) or not given or set(call.body) != {"events"}:
        raise errors.InvalidParameterValue(
            'The request body must be {"events": [...]}, a list of at least one event.'
        )
    checked = [_checked(number, event) for number, event in enumerate(given)]
    call.authorize()
    for event in checked:
        LOG.debug("Event of another service: %s", event)


def _checked(number: int, event: Any) -> dict[str, Any]:
    if not isinstance(event, dict):
        raise errors.InvalidParameterValue(f"Invalid event {number}: {show(event)} is no object.")
    try:
        return fields.EVENT.check_create(event)
    except errors.InvalidParameterValue as exc:
        raise errors.InvalidParameterValue(f"Invalid event {number}: {exc}") from None
