"""What a heartbeat of the ramdisk sets going.

Source: specification conductor.md sections 8.3 and 8.4, drivers.md section 9.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oslo_log import log
from oslo_utils import timeutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states, steps
from ironic_rs.domain.steps import StepKind
from ironic_rs.drivers import fast_track
from ironic_rs.drivers.agent import inband, rescue

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


@dataclass(frozen=True)
class _Wait:
    """A flow that waits for the agent.

    :param flow: name of the flow, as of :class:`ironic_rs.drivers.contract.Flows`.
    :param label: word used in texts.
    :param states: the states of the flow in which it can still be failed.
    :param kind: of its steps; None for a rescue, which has none.
    """

    flow: str
    label: str
    states: frozenset[str]
    kind: StepKind | None = None


#: State that waits for the agent -> what waits.
_WAITING = {
    kind.wait: _Wait(kind.name, kind.label, frozenset({kind.running, kind.wait}), kind)
    for kind in steps.KINDS.values()
}
_WAITING[states.RESCUEWAIT] = _Wait(
    "rescue", "rescue", frozenset({states.RESCUING, states.RESCUEWAIT})
)


def _is_allowed(task: Task) -> bool:
    """Tell whether a heartbeat means anything in the state of the node."""
    state = task.node.provision_state
    if state in states.HEARTBEAT_ALLOWED:
        return True
    try:
        if fast_track.enabled(task.node) and state in states.FASTTRACK_HEARTBEAT_ALLOWED:
            return True
        return fast_track.able(task)
    except errors.InvalidParameterValue as exc:
        LOG.error("Node %s: heartbeat ignored: %s", task.node.uuid, exc)
        return False


def _list_steps(task: Task, kind: StepKind) -> None:
    """Fetch the steps of the ramdisk.

    :raises AgentInProgress: not now.
    """
    if not inband.refresh(task, kind):
        raise errors.AgentInProgress(
            node=task.node.uuid, command=f"get_{kind.name}_steps", error="it is busy"
        )


class HeartbeatMixin:
    """Heartbeats for deploy interfaces whose ramdisk is the agent."""

    def heartbeat(
        self,
        task: Task,
        callback_url: str,
        agent_version: str | None,
        *,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Record a heartbeat and act on it.

        Never waits for the lock: a heartbeat that is dropped is repaired by the next.
        The record is written once, together with the release of the lock when there
        is nothing to do, or with the first event otherwise.

        :param agent_verify_ca: path of the certificate that the agent has sent.
        """
        if not _is_allowed(task):
            LOG.error(
                "Node %s: heartbeat ignored, nothing waits for an agent in state '%s'",
                task.node.uuid,
                task.node.provision_state,
            )
            return
        try:
            task.upgrade_lock(purpose="heartbeat", retry=False)
        except errors.NodeLocked as exc:
            LOG.warning("Heartbeat dropped, the next one repairs it: %s", exc)
            return
        node = task.node
        info = node.driver_internal_info
        info["agent_url"] = callback_url
        info["agent_version"] = agent_version
        info["agent_last_heartbeat"] = timeutils.utcnow().isoformat(timespec="microseconds")
        if agent_verify_ca:
            info["agent_verify_ca"] = agent_verify_ca
        if agent_status:
            info["agent_status"] = agent_status
        if agent_status_message:
            info["agent_status_message"] = agent_status_message
        wait = _WAITING.get(node.provision_state)
        if wait is None:
            task.save_and_release()
        elif node.maintenance:
            self._in_maintenance(task, wait)
        else:
            self._dispatch(task, wait)

    def _in_maintenance(self, task: Task, wait: _Wait) -> None:
        node = task.node
        if CONF.conductor.allow_provisioning_in_maintenance:
            LOG.warning(
                "Node %s is in maintenance: its heartbeat in state '%s' is only recorded",
                node.uuid,
                node.provision_state,
            )
            task.save_and_release()
        else:
            task.flows.fail(
                wait.flow,
                f"{wait.label.capitalize()} aborted: node {node.uuid} is in maintenance mode",
            )

    def _dispatch(self, task: Task, wait: _Wait) -> None:
        uuid = task.node.uuid
        touch = True
        try:
            acted = self._finish_rescue(task) if wait.kind is None else self._act(task, wait.kind)
        except errors.LockLost:
            raise
        except errors.AgentInProgress as exc:
            LOG.info("Node %s: nothing to do at this heartbeat: %s", uuid, exc)
            # One that is busy for ever must not be waited for longer than a silent one.
            acted = touch = False
        except Exception as exc:
            text = f"Node {uuid}: the heartbeat during {wait.label} failed: {exc}"
            expected = isinstance(exc, errors.IronicError)
            LOG.log(log.ERROR, "%s", text, exc_info=not expected)
            # Something may have moved the flow on, or failed it, before this.
            if task.node.provision_state in wait.states:
                task.flows.fail(wait.flow, text, collect_logs=wait.kind is steps.DEPLOY)
            return
        if not acted:
            task.save_and_release(touch=touch)

    @staticmethod
    def _finish_rescue(task: Task) -> bool:
        rescue.finalize(task)
        task.flows.resume("rescue")
        return True

    def _act(self, task: Task, kind: StepKind) -> bool:
        """Go on with a waiting flow; False when there is nothing to do but wait."""
        node = task.node
        info = node.driver_internal_info
        if kind is steps.DEPLOY:
            if kind.cached_key not in info:
                _list_steps(task, kind)
        elif not getattr(node, kind.field):
            # The first heartbeat: only now it is known what the ramdisk can do.
            _list_steps(task, kind)
            task.flows.start(kind.name)
            return True
        if info.get(kind.polling_flag):
            return False
        if (getattr(node, kind.field) or {}).get("step") in steps.RESERVED:
            # A reserved "wait" step: this heartbeat is all that it waits for, whatever
            # the agent has done before.
            info.pop(kind.reboot_flag, None)
            task.flows.resume(kind.name)
            return True
        return inband.process_next_step(task, kind)
