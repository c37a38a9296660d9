"""Sending notifications: handed to a thread, so that nobody ever waits for the broker.

An :class:`Emitter` belongs to one service of a process.  ``emit`` puts a message into an
:class:`~ironic_rs.telemetry.outbox.Outbox` and returns.

Source: specification operations.md section 4, rest-api.md section 14.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from ironic_rs.rpc.context import RequestContext
from ironic_rs.telemetry.outbox import CAPACITY, Outbox

LEVELS = ("debug", "info", "warning", "error", "critical")
_LIBRARY_GROUP = "oslo_messaging_notifications"
#: What a message tells about who asked: no token, and nothing that came with it.
_TOLD = ("request_id", "global_request_id", "user_id", "user_name", "project_id", "project_name")

_Message = tuple[str, str, Mapping[str, Any], dict[str, Any]]


class Emitter:
    """Sends the notifications of one service of this process.

    :param conf: with ``notification_level`` and ``versioned_notifications_topics``.
    :param service: ``api`` or ``conductor``.
    :param host: of the publisher; default ``[DEFAULT]host``.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        service: str,
        capacity: int = CAPACITY,
        host: str | None = None,
    ) -> None:
        self._conf = conf
        self._service = service
        self._host = host
        self._notifier_of: tuple[int, oslo_messaging.Notifier] | None = None
        self._outbox: Outbox[_Message] = Outbox(
            "notifications", self._send, lambda message: message[0], capacity
        )
        conf.register_opts(_library_options(), group=_LIBRARY_GROUP)

    def wants(self, level: str) -> bool:
        """Tell whether notifications of a level go anywhere."""
        lowest = self._conf.notification_level
        if lowest is None or LEVELS.index(level) < LEVELS.index(lowest):
            return False
        return any(self._conf[_LIBRARY_GROUP].driver)

    def emit(
        self, event_type: str, level: str, payload: Mapping[str, Any], context: RequestContext
    ) -> None:
        """Hand a notification to the thread that sends it; never waits and never fails.

        :param event_type: ``baremetal.<object>.<action>.<status>``.
        :param level: one of :data:`LEVELS`.
        :param payload: plain JSON, without secrets.
        """
        if not self.wants(level):
            return
        told = {name: getattr(context, name) for name in _TOLD}
        self._outbox.put((event_type, level, payload, told))

    def flush(self, timeout: float) -> bool:
        """Wait until all messages are sent, at most ``timeout`` seconds.

        :returns: False when some still wait.
        """
        return self._outbox.flush(timeout)

    def _send(self, message: _Message) -> None:
        event_type, level, payload, told = message
        # Connections do not survive a fork.
        if self._notifier_of is None or self._notifier_of[0] != os.getpid():
            self._notifier_of = (os.getpid(), self._notifier())
        getattr(self._notifier_of[1], _METHODS.get(level, level))(told, event_type, payload)

    def _notifier(self) -> oslo_messaging.Notifier:
        return oslo_messaging.Notifier(
            oslo_messaging.get_notification_transport(self._conf),
            publisher_id=f"ironic-{self._service}.{self._host or self._conf.host}",
            topics=self._conf.versioned_notifications_topics,
        )


_METHODS = {"warning": "warn"}


def _library_options() -> Any:
    from oslo_messaging.notify import notifier

    return notifier._notifier_opts
