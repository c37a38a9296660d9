"""Sending notifications: handed to a thread, so that nobody ever waits for the broker.

An :class:`Emitter` belongs to one service of a process.  ``emit`` puts a message into a
bounded queue and returns; one thread sends what is in it, in order, and waits there for a
broker that is away.  When the queue is full messages are dropped, and the log tells how many.

Source: specification operations.md section 4, rest-api.md section 14.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Mapping
from typing import Any

import oslo_messaging
from oslo_config import cfg

from ironic_rs.rpc.context import RequestContext

LOG = logging.getLogger(__name__)

LEVELS = ("debug", "info", "warning", "error", "critical")
#: Messages that wait for the broker; more are dropped.
CAPACITY = 1000
_LIBRARY_GROUP = "oslo_messaging_notifications"
#: What a message tells about who asked: no token, and nothing that came with it.
_TOLD = ("request_id", "global_request_id", "user_id", "user_name", "project_id", "project_name")
#: Seconds between two lines of the log about dropped messages.
_QUIET = 60.0

_Message = tuple[str, str, Mapping[str, Any], dict[str, Any]]


class Emitter:
    """Sends the notifications of one service of this process.

    :param conf: with ``notification_level`` and ``versioned_notifications_topics``.
    :param service: ``api`` or ``conductor``.
    """

    def __init__(self, conf: cfg.ConfigOpts, service: str, capacity: int = CAPACITY) -> None:
        self._conf = conf
        self._service = service
        self._capacity = capacity
        self._lock = threading.Lock()
        self._queue: queue.Queue[_Message] = queue.Queue(capacity)
        self._pid: int | None = None
        self._dropped = 0
        self._told_at = 0.0
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
        try:
            self._start()
            self._queue.put_nowait((event_type, level, payload, told))
        except queue.Full:
            self._drop(event_type)
        except Exception:
            LOG.exception("The notification %s is lost", event_type)

    def flush(self, timeout: float) -> bool:
        """Wait until all messages are sent, at most ``timeout`` seconds.

        :returns: False when some still wait.
        """
        deadline = time.monotonic() + timeout
        with self._queue.all_tasks_done:
            while self._queue.unfinished_tasks:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._queue.all_tasks_done.wait(left)
        return True

    def _drop(self, event_type: str) -> None:
        with self._lock:
            self._dropped += 1
            now = time.monotonic()
            if self._told_at and now - self._told_at < _QUIET:
                return
            self._told_at, number = now, self._dropped
            self._dropped = 0
        LOG.warning(
            "%d notifications are lost, %s the last of them: %d wait for the broker already",
            number,
            event_type,
            self._capacity,
        )

    def _start(self) -> None:
        """Start the thread of this process: a fork has none, nor its parent's messages."""
        if self._pid == os.getpid():
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._queue = queue.Queue(self._capacity)
            threading.Thread(
                target=self._work, args=(self._queue,), name="notifications", daemon=True
            ).start()
            self._pid = os.getpid()

    def _work(self, messages: queue.Queue[_Message]) -> None:
        notifier: Any = None
        while True:
            event_type, level, payload, told = messages.get()
            try:
                if notifier is None:
                    notifier = self._notifier()
                getattr(notifier, _METHODS.get(level, level))(told, event_type, payload)
            except Exception as exc:
                LOG.warning("The notification %s could not be sent: %s", event_type, exc)
            finally:
                messages.task_done()

    def _notifier(self) -> oslo_messaging.Notifier:
        return oslo_messaging.Notifier(
            oslo_messaging.get_notification_transport(self._conf),
            publisher_id=f"ironic-{self._service}.{self._conf.host}",
            topics=self._conf.versioned_notifications_topics,
        )


_METHODS = {"warning": "warn"}


def _library_options() -> Any:
    from oslo_messaging.notify import notifier

    return notifier._notifier_opts
