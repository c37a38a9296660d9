"""Bounded self-healing: a call that met a passing fault is made again, within the step.

Every retry is in the node's history, after a pause that grows.  The node stays locked in the
pause, and the lock is checked around it.  The pause ends early when the conductor stops (one
last try is made at once) and when the user aborts (none is made).
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.integrations import healing, interruption
from ironic_rs.integrations.healing import Partner

if TYPE_CHECKING:
    from ironic_rs.conductor.interrupts import Work
    from ironic_rs.conductor.task import Task

LOG = logging.getLogger(__name__)

EVENT_TYPE = "self-healing"
_CALLED: Mapping[Partner, str] = {
    Partner.BMC: "BMC",
    Partner.AGENT: "agent",
    Partner.IMAGES: "image server",
}


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
        if not task.conductor.interrupts.pause(uuid, seconds):
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


class _StepWatch:
    """Knows whether one step, or the preparation of a flow, is still wanted."""

    def __init__(self, task: Task, doing: str, work: Work) -> None:
        self._task = task
        self._doing = doing
        self._work = work

    def check(self) -> None:
        """Return when the work may go on."""
        if self._work.aborted:
            raise errors.WorkAborted(node=self._task.node.uuid, what=self._doing)
        self._task.check_lock()

    def stoppable(self, stop: Callable[[], None]) -> contextlib.AbstractContextManager[None]:
        """Have ``stop`` called, by another thread, when the work in the block is to end."""
        return self._task.conductor.interrupts.stoppable(self._work, stop)


@contextlib.contextmanager
def within(task: Task, doing: str, *, agent: bool = True) -> Iterator[None]:
    """Make calls of the block again as ``[self_healing]`` says; a user may break it off.

    :param doing: the work, for the history: ``deploy step deploy.write_image``.
    :param agent: false when it is part of the plan that the agent is away.
    """
    partners = frozenset(Partner) if agent else frozenset(Partner) - {Partner.AGENT}
    node = task.node
    with (
        task.conductor.interrupts.work(node.uuid, node.provision_state) as work,
        healing.by(_StepHealer(task, doing, partners)),
        interruption.by(_StepWatch(task, doing, work)),
    ):
        yield
