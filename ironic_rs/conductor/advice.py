"""What to do next: the end of the text of each error that leaves a node in a failed state.

Source: specification conductor.md section 11.4; the verbs are those that the state machine
allows in the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ironic_rs.conf import CONF
from ironic_rs.domain import states

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models

#: Failed state -> what users may do there, as the verbs of the API.
NEXT: Mapping[str, str] = {
    states.ENROLL: "'manage' the node again",
    states.DEPLOYFAIL: "'deploy' the node again, or 'undeploy' it",
    states.CLEANFAIL: "'manage' the node",
    states.INSPECTFAIL: "'inspect' the node again, or 'manage' it",
    states.ADOPTFAIL: "'adopt' the node again, or 'manage' it",
    states.RESCUEFAIL: "'rescue' the node again, or 'unrescue' it",
    states.UNRESCUEFAIL: "'unrescue' the node again",
    states.SERVICEFAIL: "'service' the node again, or 'abort' to return to the instance",
    states.ERROR: "'undeploy' the node again",
}


def _failed_state(state: str) -> str:
    """Return the state that a failure in ``state`` leads to."""
    if state in states.FAILED:
        return state
    return states.STATES[state].events.get("fail", state)


def _advice(node: models.Node) -> str:
    state = _failed_state(node.provision_state)
    verbs = NEXT.get(state)
    if verbs is None or (state == states.ENROLL and node.provision_state == state):
        return ""
    free = "take it out of maintenance, then " if node.maintenance else ""
    return f" Next: mend the cause, {free}{verbs}."


def advised(node: models.Node, text: str, *, room: int | None = None) -> str:
    """Return the text of an error with what to do next.

    :param node: in the failed state, or in the one that is about to fail.
    :param room: most characters; the text is cut, not the advice.  None: no limit.
    """
    advice = _advice(node)
    if not advice or text.endswith(advice):
        return text if room is None else text[:room]
    if not text.endswith("."):
        text = f"{text}."
    if room is not None:
        text = text[: max(room - len(advice), 0)].rstrip()
        advice = advice[:room]
    return f"{text}{advice}"


def last_error(node: models.Node, text: str) -> str:
    """Return the text with what to do next, as ``last_error`` may hold it."""
    return advised(node, text, room=CONF.log_in_db_max_size)


def tell(task: Task, text: str, event_type: str) -> None:
    """Record why a flow fails, and what to do next: in full in the history (not saved)."""
    task.history(advised(task.node, text), event_type)
    task.node.last_error = last_error(task.node, text)
