"""What a conductor tells the world about its nodes: notifications, and power updates to Nova.

Nothing here fails or delays a flow, and nothing is computed that nobody wants to know.

Source: specification conductor.md section 15, operations.md sections 4 and 5.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ironic_rs.conf import CONF
from ironic_rs.db import records
from ironic_rs.domain import states
from ironic_rs.integrations.nova import PowerUpdates
from ironic_rs.telemetry import payloads
from ironic_rs.telemetry.notifications import Emitter
from ironic_rs.telemetry.payloads import Payload

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

#: Seconds for what still waits when the conductor stops.
FLUSH_SECONDS = 5.0
_FAILURES = frozenset({"fail", "error"})


def _nothing() -> None:
    """Send nothing."""


class News:
    """Tells about the nodes of one conductor.

    :param host: name of the conductor: notifications come from ``ironic-conductor.<host>``.
    """

    def __init__(self, host: str) -> None:
        self.emitter = Emitter(CONF, "conductor", host=host)
        self.nova = PowerUpdates()

    def flush(self, timeout: float = FLUSH_SECONDS) -> None:
        """Wait for what is still to be sent, at most ``timeout`` seconds for each receiver."""
        self.emitter.flush(timeout)
        self.nova.flush(timeout)

    def _ready(
        self, task: Task, payload: Payload, action: str, status: str, **more: Any
    ) -> Callable[[], None]:
        """Return what sends a notification about the node as it is now."""
        level = "error" if status == "error" else "info"
        if not self.emitter.wants(level):
            return _nothing
        event_type = f"baremetal.{payload.subject}.{action}.{status}"
        try:
            made = payload.make({**records.as_dict(task.node), **more})
        except Exception:
            LOG.exception("%s of node %s can not be told", event_type, task.node.uuid)
            return _nothing
        context = task.context
        return lambda: self.emitter.emit(event_type, level, made, context)

    def power_set(self, task: Task, status: str, to_power: str) -> None:
        """Tell of a power action.

        :param status: ``start``, ``end`` or ``error``.
        :param to_power: power state that is aimed at.
        """
        more = {payloads.POWER_TO: to_power}
        self._ready(task, payloads.NODE_POWER, "power_set", status, **more)()

    def power_corrected(self, task: Task, from_power: str | None) -> None:
        """Tell that the machine was found in another power state than the recorded one."""
        more = {payloads.POWER_FROM: from_power}
        ready = self._ready(
            task, payloads.NODE_POWER_CORRECTED, "power_state_corrected", "success", **more
        )
        ready()

    def power_state_changed(self, task: Task) -> None:
        """Tell Nova the power state of a node with an instance."""
        node = task.node
        self.nova.tell(task.context, node.instance_uuid, node.power_state)

    def provision_set(
        self, task: Task, event: str, previous_state: str, previous_target: str | None
    ) -> Callable[[], None]:
        """Return what tells of an event of the state machine that has just been saved."""
        return self._ready(
            task,
            payloads.NODE_PROVISION,
            "provision_set",
            _status(event, previous_state, task.node.provision_state),
            event=event,
            previous_provision_state=previous_state,
            previous_target_provision_state=previous_target,
        )

    @contextlib.contextmanager
    def console(self, task: Task, action: str) -> Iterator[None]:
        """Tell of the start, and of the end or the error, of what the block does.

        :param action: ``console_set``, ``console_restore`` or ``console_stop``.
        """
        self._ready(task, payloads.NODE, action, "start")()
        try:
            yield
        except Exception:
            self._ready(task, payloads.NODE, action, "error")()
            raise
        self._ready(task, payloads.NODE, action, "end")()


def _status(event: str, before: str, after: str) -> str:
    if event in _FAILURES:
        return "error"
    if (before in states.UNSTABLE) == (after in states.UNSTABLE):
        return "success"
    return "start" if after in states.UNSTABLE else "end"
