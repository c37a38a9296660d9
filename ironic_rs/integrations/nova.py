"""Telling Nova that the power state of a machine with an instance has changed.

Without it Nova's own power sync would undo what an operator did through us.  Events are
sent by a thread, in order, once: Nova learns the state of an event that is lost by its next
power sync.

Source: specification operations.md section 5.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keystoneauth1 import exceptions

from ironic_rs.conf import CONF
from ironic_rs.domain import states
from ironic_rs.integrations import keystone
from ironic_rs.rpc.context import RequestContext
from ironic_rs.telemetry.outbox import CAPACITY, Outbox

LOG = logging.getLogger(__name__)

_GROUP = "nova"
_PATH = "/os-server-external-events"
#: First microversion with the event ``power-update``.
_MICROVERSION = "2.76"
_TAGS: Mapping[str, str] = {states.POWER_ON: "POWER_ON", states.POWER_OFF: "POWER_OFF"}
_REFUSED = 400


@dataclass(frozen=True)
class _PowerUpdate:
    """The new power state of a server, and under which request id it is told."""

    server: str
    tag: str
    request_id: str | None

    def __str__(self) -> str:
        return f"{self.tag} of server {self.server}"


class PowerUpdates:
    """Sends power updates to Nova; nothing waits for it, and nothing fails by it."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._outbox: Outbox[_PowerUpdate] = Outbox("Nova power updates", _send, str, capacity)

    def tell(self, context: RequestContext, server: str | None, power_state: str | None) -> None:
        """Tell the power state of a server, when ``[nova]`` says that Nova wants to know.

        :param server: uuid of the instance on the node; None for no instance.
        """
        if not server or not CONF.nova.send_power_notifications:
            return
        if CONF.nova.auth_type is None:
            LOG.debug("Nova is not told of server %s: [nova]auth_type is not set", server)
            return
        tag = _TAGS.get(power_state or "")
        if tag is None:
            LOG.info("Nova is not told of server %s: power state %r", server, power_state)
            return
        request_id = context.global_request_id or context.request_id
        self._outbox.put(_PowerUpdate(server, tag, request_id))

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent, at most ``timeout`` seconds; False when some still waits."""
        return self._outbox.flush(timeout)


def _send(update: _PowerUpdate) -> None:
    event = {"name": "power-update", "server_uuid": update.server, "tag": update.tag}
    try:
        response = keystone.adapter(_GROUP).post(
            _PATH,
            json={"events": [event]},
            microversion=_MICROVERSION,
            headers={"X-OpenStack-Request-ID": update.request_id} if update.request_id else {},
            raise_exc=False,
        )
    except (exceptions.ClientException, exceptions.MissingRequiredOptions) as exc:
        LOG.warning("Nova could not be told of %s: %s", update, exc)
        return
    if response.status_code >= _REFUSED:
        LOG.warning("Nova refused %s: HTTP %d", update, response.status_code)
        return
    codes = [code for code in _codes(response) if code >= _REFUSED]
    if codes:
        LOG.warning("Nova did not take %s: code %d", update, codes[0])
    else:
        LOG.debug("Nova was told of %s", update)


def _codes(response: Any) -> list[int]:
    """Return the codes of the events in an answer that need not make sense."""
    try:
        events = response.json()["events"]
        return [int(event["code"]) for event in events if "code" in event]
    except (ValueError, KeyError, TypeError):
        LOG.warning("The answer of Nova to a power update makes no sense")
        return []
