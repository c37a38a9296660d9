"""The provision state machine as one table, and the named sets of states.

Pure data and rules, no I/O.  Every place that asks "may this node do that now?"
asks this module; diagrams and documentation are generated from it.

Source: specification conductor.md section 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ironic_rs.domain import errors

# Provision states, as stored in nodes.provision_state.
ENROLL = "enroll"
MANAGEABLE = "manageable"
AVAILABLE = "available"
ACTIVE = "active"
ERROR = "error"
RESCUE = "rescue"
VERIFYING = "verifying"
DEPLOYING = "deploying"
DEPLOYWAIT = "wait call-back"
DEPLOYFAIL = "deploy failed"
DEPLOYHOLD = "deploy hold"
CLEANING = "cleaning"
CLEANWAIT = "clean wait"
CLEANFAIL = "clean failed"
CLEANHOLD = "clean hold"
DELETING = "deleting"
INSPECTING = "inspecting"
INSPECTFAIL = "inspect failed"
INSPECTWAIT = "inspect wait"
ADOPTING = "adopting"
ADOPTFAIL = "adopt failed"
RESCUING = "rescuing"
RESCUEWAIT = "rescue wait"
RESCUEFAIL = "rescue failed"
UNRESCUING = "unrescuing"
UNRESCUEFAIL = "unrescue failed"
SERVICING = "servicing"
SERVICEWAIT = "service wait"
SERVICEFAIL = "service failed"
SERVICEHOLD = "service hold"

# Words of the API that are not stored by the machine.
DELETED = "deleted"

# Power states and power requests (nodes.power_state, PUT states/power).
POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_REBOOT = "soft rebooting"
SOFT_POWER_OFF = "soft power off"
POWER_ERROR = "error"

#: Final power state that each power request aims at.
POWER_TARGET: Mapping[str, str] = {
    POWER_ON: POWER_ON,
    REBOOT: POWER_ON,
    SOFT_REBOOT: POWER_ON,
    POWER_OFF: POWER_OFF,
    SOFT_POWER_OFF: POWER_OFF,
}

# Faults (nodes.fault), set together with maintenance by the conductor.
FAULT_POWER = "power failure"
FAULT_CLEAN = "clean failure"
FAULT_RESCUE_ABORT = "rescue abort failure"
FAULT_SERVICE = "service failure"

HEALTH_OK = "OK"
HEALTH_WARNING = "Warning"
HEALTH_CRITICAL = "Critical"

ALLOCATING = "allocating"
ALLOCATION_ACTIVE = "active"
ALLOCATION_ERROR = "error"


@dataclass(frozen=True)
class State:
    """One provision state.

    :param meaning: a short text for people.
    :param stable: the node rests here; a reached target is cleared.
    :param target: default target state while the node is in this state.
    :param events: event name -> next state.
    """

    meaning: str
    stable: bool
    target: str | None
    events: Mapping[str, str]


STATES: Mapping[str, State] = {
    ENROLL: State("known, not managed", True, None, {"manage": VERIFYING}),
    MANAGEABLE: State(
        "power verified, not schedulable",
        True,
        None,
        {"adopt": ADOPTING, "clean": CLEANING, "inspect": INSPECTING, "provide": CLEANING},
    ),
    AVAILABLE: State("schedulable", True, None, {"deploy": DEPLOYING, "manage": MANAGEABLE}),
    ACTIVE: State(
        "instance deployed",
        True,
        None,
        {"delete": DELETING, "rebuild": DEPLOYING, "rescue": RESCUING, "service": SERVICING},
    ),
    ERROR: State("tear down failed", True, None, {"delete": DELETING, "rebuild": DEPLOYING}),
    RESCUE: State(
        "running the rescue ramdisk",
        True,
        None,
        {"delete": DELETING, "rescue": RESCUING, "unrescue": UNRESCUING},
    ),
    VERIFYING: State(
        "power credentials being checked", False, MANAGEABLE, {"done": MANAGEABLE, "fail": ENROLL}
    ),
    DEPLOYING: State(
        "conductor is driving the deployment",
        False,
        ACTIVE,
        {"done": ACTIVE, "fail": DEPLOYFAIL, "hold": DEPLOYHOLD, "wait": DEPLOYWAIT},
    ),
    DEPLOYWAIT: State(
        "deployment waits for agent/driver",
        False,
        ACTIVE,
        {
            "abort": DEPLOYFAIL,
            "delete": DELETING,
            "fail": DEPLOYFAIL,
            "hold": DEPLOYHOLD,
            "resume": DEPLOYING,
        },
    ),
    DEPLOYFAIL: State(
        "deployment failed",
        False,
        ACTIVE,
        {"delete": DELETING, "deploy": DEPLOYING, "rebuild": DEPLOYING},
    ),
    DEPLOYHOLD: State(
        "paused by a hold deploy step", False, ACTIVE, {"abort": DEPLOYFAIL, "unhold": DEPLOYWAIT}
    ),
    CLEANING: State(
        "conductor is driving cleaning",
        False,
        AVAILABLE,
        {
            "done": AVAILABLE,
            "fail": CLEANFAIL,
            "hold": CLEANHOLD,
            "manage": MANAGEABLE,
            "wait": CLEANWAIT,
        },
    ),
    CLEANWAIT: State(
        "cleaning waits for agent/driver",
        False,
        AVAILABLE,
        {"abort": CLEANFAIL, "fail": CLEANFAIL, "hold": CLEANHOLD, "resume": CLEANING},
    ),
    CLEANFAIL: State("cleaning failed", False, AVAILABLE, {"manage": MANAGEABLE}),
    CLEANHOLD: State(
        "paused by a hold clean step", False, AVAILABLE, {"abort": CLEANFAIL, "unhold": CLEANWAIT}
    ),
    DELETING: State(
        "instance being torn down", False, AVAILABLE, {"clean": CLEANING, "fail": ERROR}
    ),
    INSPECTING: State(
        "conductor is driving inspection",
        False,
        MANAGEABLE,
        {"done": MANAGEABLE, "fail": INSPECTFAIL, "wait": INSPECTWAIT},
    ),
    INSPECTFAIL: State(
        "inspection failed", False, MANAGEABLE, {"inspect": INSPECTING, "manage": MANAGEABLE}
    ),
    INSPECTWAIT: State(
        "inspection waits for ramdisk data",
        False,
        MANAGEABLE,
        {"abort": INSPECTFAIL, "done": MANAGEABLE, "fail": INSPECTFAIL, "resume": INSPECTING},
    ),
    ADOPTING: State(
        "taking over an externally deployed machine",
        False,
        ACTIVE,
        {"done": ACTIVE, "fail": ADOPTFAIL},
    ),
    ADOPTFAIL: State("adoption failed", False, ACTIVE, {"adopt": ADOPTING, "manage": MANAGEABLE}),
    RESCUING: State(
        "conductor is driving rescue",
        False,
        RESCUE,
        {"done": RESCUE, "fail": RESCUEFAIL, "wait": RESCUEWAIT},
    ),
    RESCUEWAIT: State(
        "rescue waits for agent",
        False,
        RESCUE,
        {"abort": RESCUEFAIL, "delete": DELETING, "fail": RESCUEFAIL, "resume": RESCUING},
    ),
    RESCUEFAIL: State(
        "rescue failed",
        False,
        RESCUE,
        {"delete": DELETING, "rescue": RESCUING, "unrescue": UNRESCUING},
    ),
    UNRESCUING: State(
        "returning from rescue", False, ACTIVE, {"done": ACTIVE, "fail": UNRESCUEFAIL}
    ),
    UNRESCUEFAIL: State(
        "unrescue failed",
        False,
        ACTIVE,
        {"delete": DELETING, "rescue": RESCUING, "unrescue": UNRESCUING},
    ),
    SERVICING: State(
        "conductor is driving service steps",
        False,
        ACTIVE,
        {"done": ACTIVE, "fail": SERVICEFAIL, "hold": SERVICEHOLD, "wait": SERVICEWAIT},
    ),
    SERVICEWAIT: State(
        "servicing waits for agent/driver",
        False,
        ACTIVE,
        {
            "abort": SERVICEFAIL,
            "delete": DELETING,
            "fail": SERVICEFAIL,
            "hold": SERVICEHOLD,
            "resume": SERVICING,
        },
    ),
    SERVICEFAIL: State(
        "servicing failed",
        False,
        ACTIVE,
        {
            "abort": ACTIVE,
            "delete": DELETING,
            "hold": SERVICEHOLD,
            "rescue": RESCUING,
            "service": SERVICING,
            "wait": SERVICEWAIT,
        },
    ),
    SERVICEHOLD: State(
        "paused by a hold service step",
        False,
        ACTIVE,
        {"abort": SERVICEFAIL, "fail": SERVICEFAIL, "service": SERVICING, "unhold": SERVICEWAIT},
    ),
}

STABLE = frozenset({ENROLL, MANAGEABLE, AVAILABLE, ACTIVE, ERROR, RESCUE})
UNSTABLE = frozenset(
    {
        DEPLOYING,
        DEPLOYWAIT,
        CLEANING,
        CLEANWAIT,
        VERIFYING,
        DELETING,
        INSPECTING,
        INSPECTWAIT,
        ADOPTING,
        RESCUING,
        RESCUEWAIT,
        UNRESCUING,
        SERVICING,
        SERVICEWAIT,
    }
)
UPDATE_ALLOWED = frozenset(
    {
        DEPLOYFAIL,
        INSPECTING,
        INSPECTFAIL,
        INSPECTWAIT,
        CLEANFAIL,
        ERROR,
        VERIFYING,
        ADOPTFAIL,
        RESCUEFAIL,
        UNRESCUEFAIL,
        "service",
        SERVICEHOLD,
        SERVICEFAIL,
    }
)
DELETE_ALLOWED = frozenset({MANAGEABLE, ENROLL, ADOPTFAIL})
STUCK_STATES_TREATED_AS_FAIL = frozenset(
    {
        DEPLOYING,
        CLEANING,
        VERIFYING,
        INSPECTING,
        ADOPTING,
        RESCUING,
        UNRESCUING,
        DELETING,
        SERVICING,
    }
)
#: Here and below a servicing is treated as a cleaning is (field case 63).
LOOKUP_ALLOWED = frozenset(
    {
        DEPLOYING,
        DEPLOYWAIT,
        CLEANING,
        CLEANWAIT,
        INSPECTING,
        INSPECTWAIT,
        RESCUING,
        RESCUEWAIT,
        SERVICING,
        SERVICEWAIT,
    }
)
FASTTRACK_LOOKUP_ALLOWED = LOOKUP_ALLOWED | {
    ENROLL,
    MANAGEABLE,
    AVAILABLE,
    DEPLOYHOLD,
    CLEANHOLD,
    SERVICEHOLD,
}
FAILURE = frozenset(
    {ADOPTFAIL, CLEANFAIL, DEPLOYFAIL, INSPECTFAIL, RESCUEFAIL, SERVICEFAIL, UNRESCUEFAIL}
)
#: States that stand for a failure: ``last_error`` tells which, until it is mended.
FAILED = FAILURE | {ERROR}
SERVICING_STATES = frozenset({SERVICEFAIL, SERVICEHOLD, SERVICEWAIT, SERVICING})
INSPECTION_STATES = frozenset({INSPECTFAIL, INSPECTWAIT, INSPECTING})
HEARTBEAT_ALLOWED = frozenset(
    {
        DEPLOYWAIT,
        CLEANWAIT,
        RESCUEWAIT,
        DEPLOYING,
        CLEANING,
        RESCUING,
        DEPLOYHOLD,
        CLEANHOLD,
        SERVICING,
        SERVICEWAIT,
        SERVICEHOLD,
    }
)
FASTTRACK_HEARTBEAT_ALLOWED = frozenset(
    {
        DEPLOYWAIT,
        CLEANWAIT,
        RESCUEWAIT,
        DEPLOYING,
        CLEANING,
        RESCUING,
        DEPLOYHOLD,
        CLEANHOLD,
        SERVICING,
        SERVICEWAIT,
        SERVICEHOLD,
        MANAGEABLE,
        AVAILABLE,
        ENROLL,
    }
)
HEARTBEAT_RECORD_ONLY = frozenset(
    {
        AVAILABLE,
        CLEANHOLD,
        CLEANING,
        DEPLOYHOLD,
        DEPLOYING,
        ENROLL,
        MANAGEABLE,
        RESCUING,
        SERVICEHOLD,
        SERVICING,
    }
)
SYNC_EXCLUDED = frozenset({DEPLOYWAIT, CLEANWAIT, SERVICEWAIT, ENROLL, ADOPTFAIL})
PXE_BOOT_RETRY = frozenset({DEPLOYWAIT, CLEANWAIT, SERVICEWAIT, RESCUEWAIT})
ABORTABLE_BY_VERB = frozenset(
    {
        CLEANWAIT,
        CLEANHOLD,
        RESCUEWAIT,
        INSPECTWAIT,
        DEPLOYWAIT,
        DEPLOYHOLD,
        SERVICEWAIT,
        SERVICEHOLD,
        SERVICEFAIL,
    }
)
CONTINUE_INSPECTION = frozenset({INSPECTWAIT})
RESCUE_CLEANUP_ON_TEARDOWN = frozenset({RESCUEWAIT, RESCUE, UNRESCUEFAIL, RESCUEFAIL})
UPDATE_NODE_INTERFACES_ALLOWED = frozenset({ENROLL, INSPECTING, INSPECTWAIT, MANAGEABLE, AVAILABLE})
UPDATE_PORT_CONNECTIVITY_ALLOWED = frozenset({ENROLL, INSPECTING, INSPECTWAIT, MANAGEABLE})
CONCURRENT_DEPLOY_COUNTED = frozenset({DEPLOYING, DEPLOYWAIT})
CONCURRENT_CLEAN_COUNTED = frozenset({DELETING, CLEANING, CLEANWAIT})


#: API verbs of PUT states/provision -> machine event.
VERBS: Mapping[str, str] = {
    "active": "deploy",
    "deploy": "deploy",
    "deleted": "delete",
    "undeploy": "delete",
    "manage": "manage",
    "provide": "provide",
    "inspect": "inspect",
    "abort": "abort",
    "clean": "clean",
    "adopt": "adopt",
    "rescue": "rescue",
    "unrescue": "unrescue",
    "unhold": "unhold",
    "service": "service",
}


def next_state(state: str, event: str) -> str:
    """Return the state that ``event`` leads to from ``state``.

    :raises InvalidState: unknown state, or the event is illegal there.
    """
    row = STATES.get(state)
    if row is None:
        raise errors.InvalidState(f"Unknown provision state '{state}'.")
    try:
        return row.events[event]
    except KeyError:
        allowed = ", ".join(sorted(row.events)) or "none"
        raise errors.InvalidState(
            f"Event '{event}' is not possible in provision state '{state}' "
            f"(possible there: {allowed})."
        ) from None


def is_allowed(state: str | None, event: str) -> bool:
    """Tell whether ``event`` is legal in ``state``."""
    row = STATES.get(state or "")
    return row is not None and event in row.events


def advance(
    state: str, target: str | None, event: str, target_state: str | None = None
) -> tuple[str, str | None]:
    """Apply one event by the target rule (conductor.md section 2.2).

    :param state: current provision state.
    :param target: current target provision state.
    :param target_state: explicit target, wins over the default; must be stable.
    :returns: (new state, new target).
    :raises InvalidState: illegal event, unknown state, or a target not stable.
    """
    if target_state is not None:
        row = STATES.get(target_state)
        if row is None or not row.stable:
            raise errors.InvalidState(
                f"Target state '{target_state}' is not a stable provision state."
            )
    new = next_state(state, event)
    new_target = None if target == new else target
    if STATES[new].target is not None:
        new_target = STATES[new].target
    if target_state is not None:
        new_target = target_state
    if STATES[new].stable:
        new_target = None
    return new, new_target
