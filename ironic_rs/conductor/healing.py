"""Bounded self-healing: a call that met a passing fault is made again, within the step.

Every retry is in the node's history, after a pause that grows.  The node stays locked in the
pause, and the lock is checked around it.  The pause ends early when the conductor stops (one
last try is made at once) and when the user aborts (none is made).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.integrations import healing
from ironic_rs.integrations.healing import Partner

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

EVENT_TYPE = "self-healing"
_CALLED: Mapping[Partner, str] = {
    Partner.BMC: "BMC",
    Partner.AGENT: "agent",
    Partner.IMAGES: "image server",
}


class Pauses:
    """The pauses that run in one conductor, by node."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, threading.Event] = {}
        self._aborted: set[str] = set()
        self._closed = False

    def pause(self, uuid: str, seconds: float) -> bool:
        """Wait; False when an abort has ended the wait."""
        ended = threading.Event()
        with self._lock:
            if self._closed:
                return True
            self._running[uuid] = ended
        ended.wait(seconds)
        with self._lock:
            del self._running[uuid]
            aborted = uuid in self._aborted
            self._aborted.discard(uuid)
        return not aborted

    def abort(self, uuid: str) -> bool:
        """End the pause of a node for good; False when there is none."""
        with self._lock:
            ended = self._running.get(uuid)
            if ended is None:
                return False
            self._aborted.add(uuid)
            ended.set()
            return True

    def close(self) -> None:
        """End all pauses, and let no new one begin."""
        with self._lock:
            self._closed = True
            for ended in self._running.values():
                ended.set()


class _StepHealer:
    """Decides about the calls of one step, or of the preparation of a flow.

    :param doing: the work, for the texts.
    :param partners: whom calls are repeated to.
    """

    def __init__(self, task: Task, doing: str, partners: frozenset[Partner]) -> None:
        self._task = task
        self._doing = doing
        self._partners = partners
        self._retries: Counter[Partner] = Counter()
        self._over = False

    def again(self, partner: Partner, what: str, error: str) -> bool:
        """Pause, and tell whether to make a call again."""
        option = f"{partner.value}_retries"
        limit = CONF.self_healing[option]
        if self._over or partner not in self._partners or self._retries[partner] >= limit:
            return False
        self._retries[partner] += 1
        number = self._retries[partner]
        seconds = min(CONF.self_healing.backoff * 2 ** (number - 1), CONF.self_healing.max_backoff)
        task = self._task
        uuid = task.node.uuid
        text = (
            f"Node {uuid}, {self._doing}: the {_CALLED[partner]} failed a call ({what}): {error}. "
            f"Retry {number} of {limit} ([self_healing]{option}) in {seconds:g} s."
        )
        LOG.warning("%s", text)
        task.history(text, EVENT_TYPE, error=False)
        task.check_lock()
        pauses = task.conductor.pauses
        if not pauses.pause(uuid, seconds):
            self._over = True
            task.history(
                f"Node {uuid}, {self._doing}: retries were ended by an abort request.",
                EVENT_TYPE,
                error=False,
            )
            return False
        # A stop has come: one last try.
        self._over = task.conductor.stopping.is_set()
        task.check_lock()
        return True


@contextlib.contextmanager
def within(task: Task, doing: str, *, agent: bool = True) -> Iterator[None]:
    """Make calls of the block again as ``[self_healing]`` says.

    :param doing: the work, for the history: ``deploy step deploy.write_image``.
    :param agent: false when it is part of the plan that the agent is away.
    """
    partners = frozenset(Partner) if agent else frozenset(Partner) - {Partner.AGENT}
    with healing.by(_StepHealer(task, doing, partners)):
        yield
