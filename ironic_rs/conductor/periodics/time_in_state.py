"""How long nodes are in the states that they should leave by themselves.

One query a run tells the metrics, and which nodes are overdue.  A node is reported once for
each stay in a state: in the log and in its history, with what is known of the reason.  Nothing
is done to it: that is up to the time-outs, and to whoever reads the report.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ironic_rs.conductor import history
from ironic_rs.conductor.periodics.framework import my_rows
from ironic_rs.conf import CONF
from ironic_rs.db import history as db_history
from ironic_rs.db.listing import Row
from ironic_rs.domain import state_since, states

if TYPE_CHECKING:
    from ironic_rs.conductor.service import Conductor

LOG = logging.getLogger(__name__)

EVENT_TYPE = "time in state"
_COLUMNS = (
    "database_time",
    "provision_state",
    "target_provision_state",
    "provision_updated_at",
    "created_at",
    "driver_internal_info",
    "reservation",
    "maintenance",
    "clean_step",
    "deploy_step",
    "service_step",
)
#: Option of [time_in_state] of each state.
OPTIONS: Mapping[str, str] = {
    states.VERIFYING: "verifying",
    states.INSPECTING: "inspecting",
    states.INSPECTWAIT: "inspect_wait",
    states.ADOPTING: "adopting",
    states.CLEANING: "cleaning",
    states.CLEANWAIT: "clean_wait",
    states.DEPLOYING: "deploying",
    states.DEPLOYWAIT: "wait_call_back",
    states.DELETING: "deleting",
    states.RESCUING: "rescuing",
    states.RESCUEWAIT: "rescue_wait",
    states.UNRESCUING: "unrescuing",
    states.SERVICING: "servicing",
    states.SERVICEWAIT: "service_wait",
}
#: States in which the machine is to call, not the conductor to act.
_WAITING = frozenset(
    {
        states.CLEANWAIT,
        states.DEPLOYWAIT,
        states.INSPECTWAIT,
        states.RESCUEWAIT,
        states.SERVICEWAIT,
    }
)
#: A stay in a state: which node, which state, since when.
_Stay = tuple[int, str, datetime.datetime]


class TimeInState:
    """One conductor's look at its nodes; remembers what it has reported."""

    def __init__(self) -> None:
        self._reported: set[_Stay] = set()

    def run(self, conductor: Conductor) -> None:
        """Look once: one query, and two statements more when there is something to report."""
        rows = my_rows(conductor, _COLUMNS, {"provision_state_in": sorted(states.UNSTABLE)})
        stays = {stay: row for row in rows if (stay := _stay(row)) is not None}
        _measure(conductor, stays)
        overdue = {stay: row for stay, row in stays.items() if _is_overdue(stay, row)}
        news = [stay for stay in overdue if stay not in self._reported]
        if news:
            _report(conductor, [(stay, overdue[stay]) for stay in news])
        self._reported = set(overdue)


def _report(conductor: Conductor, found: Sequence[tuple[_Stay, Row]]) -> None:
    # Another conductor, or this one before its restart, may have done it.
    known = db_history.newest_of_type([stay[0] for stay, _ in found], EVENT_TYPE)
    entries = []
    for (node_id, state, since), row in found:
        before = known.get(node_id)
        if before is not None and before >= since:
            continue
        seconds = int(_age(since, row))
        text = _text(row, seconds)
        LOG.warning("%s", text)
        entries.append(
            {
                "node_id": node_id,
                "conductor": conductor.host,
                "event": text,
                "event_type": EVENT_TYPE,
                "severity": "INFO",
                "state": state,
                "target_provision_state": row["target_provision_state"],
                "duration_seconds": seconds,
            }
        )
    if entries and history.is_kept():
        db_history.create_all(entries)


def _stay(row: Row) -> _Stay | None:
    since = state_since.of(row)
    return None if since is None else (row["id"], row["provision_state"], since)


def _expected(state: str) -> int:
    return int(CONF.time_in_state[OPTIONS[state]])


def _age(since: datetime.datetime, row: Row) -> float:
    age: datetime.timedelta = row["database_time"] - since
    return max(age.total_seconds(), 0.0)


def _is_overdue(stay: _Stay, row: Row) -> bool:
    _, state, since = stay
    expected = _expected(state)
    return expected > 0 and _age(since, row) > expected


def _measure(conductor: Conductor, stays: Mapping[_Stay, Row]) -> None:
    """Tell how many nodes are in each state, and since when the first of them."""
    ages: dict[str, list[float]] = {state: [] for state in sorted(states.UNSTABLE)}
    for (_, state, since), row in stays.items():
        ages[state].append(_age(since, row))
    for state, found in ages.items():
        conductor.metrics.gauge("ConductorManager.NodesInState", len(found), state=state)
        conductor.metrics.gauge(
            "ConductorManager.OldestInStateSeconds", max(found, default=0.0), state=state
        )


def _text(row: Row, seconds: int) -> str:
    """Return what is known of a node that should have left its state."""
    state = row["provision_state"]
    said = [
        f"Node {row['uuid']} has been in state '{state}' for {seconds} s, longer than the "
        f"{_expected(state)} s that are expected ([time_in_state]{OPTIONS[state]})."
    ]
    step = row["clean_step"] or row["deploy_step"] or row["service_step"]
    if step:
        said.append(f"Running step: {step.get('interface')}.{step.get('step')}.")
    holder = row["reservation"]
    said.append(f"It is locked by conductor {holder}." if holder else "It is not locked.")
    if row["maintenance"]:
        said.append("It is in maintenance, so no time-out ends the state.")
    if state in _WAITING:
        heard = (row["driver_internal_info"] or {}).get("agent_last_heartbeat")
        said.append(
            f"Its ramdisk was last heard of at {heard}."
            if heard
            else "Nothing was heard of its ramdisk since the machine was last powered off."
        )
        said.append("Look at the console of the machine and at its network; 'abort' ends the wait.")
    else:
        said.append(f"Look at the log of conductor {holder or 'that owns it'} for this node.")
    return " ".join(said)
