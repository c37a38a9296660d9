"""What has to hold after a conductor died: the invariants of the crash tests."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ironic_rs.domain import states
from tests.harness.crash.flows import ALLOCATION, FLOWS, INSTANCE_INFO, VIF, Flow
from tests.harness.crash.site import Machine, Site, text_of

#: States in which a node rests, or waits for its machine or its operator.
SETTLED = frozenset(states.STATES) - states.STUCK_STATES_TREATED_AS_FAIL
#: The instance is gone, or on its way to be forgotten.
_AFTER_TEAR_DOWN = frozenset(
    {states.AVAILABLE, states.MANAGEABLE, states.CLEANWAIT, states.CLEANFAIL, states.CLEANHOLD}
)


def goal(flow: Flow, picture: dict[str, Any], power: str) -> list[str]:
    """Tell in what the node differs from the goal of its flow."""
    wrong = []
    if picture["provision_state"] != flow.goal:
        wrong.append(
            f"the goal {flow.goal!r} is not reached: {picture['provision_state']!r}, "
            f"last_error {picture['last_error']!r}"
        )
    if flow.power_goal and power != flow.power_goal:
        wrong.append(f"the machine is {power!r}, not {flow.power_goal!r}")
    if picture["power_state"] != power:
        wrong.append(f"recorded as {picture['power_state']!r}, but the machine is {power!r}")
    if flow.name == "allocation":
        wrong += _allocated(picture)
    return wrong


def _allocated(picture: dict[str, Any]) -> list[str]:
    rows = picture["allocations"]
    if len(rows) != 1 or rows[0]["state"] != "active" or not rows[0]["node_id"]:
        return [f"the allocation is not active: {rows}"]
    if picture["instance_uuid"] != ALLOCATION or picture["allocation_id"] is None:
        return ["the node does not know of its allocation"]
    return []


def judge(flow: Flow, site: Site, dead: Collection[str]) -> list[str]:
    """Recover from the death of others; return what is wrong then.

    :param dead: who died; nobody: the conductor itself did, and starts again.
    """
    killed = site.picture()
    machine = site.machine
    switched = _switched(machine)
    wrong = _at_the_kill(machine, killed)
    site.take_over(dead)
    try:
        settled = site.come_to_rest()
    except AssertionError as exc:
        return [*wrong, str(exc)]
    wrong += _settled(flow, machine.power(), killed, settled)
    if not wrong:
        ended = site.come_to_rest() if site.go_on_waiting() else settled
        wrong += _settled(flow, machine.power(), killed, ended)
        wrong += _once(machine) + _kept(flow, machine, ended)
        same = settled["provision_state"] == ended["provision_state"]
        if machine.only_switched_on_request and same and switched != _switched(machine):
            wrong.append("recovery switched the machine")
    if not wrong:
        try:
            wrong = _again(flow, site)
        except Exception as exc:
            wrong = [f"it can not be used again: {text_of(exc)}"]
    if wrong:
        wrong.append(f"killed {killed}; settled {settled}; calls {dict(machine.calls())}")
    return wrong


def _at_the_kill(machine: Machine, killed: dict[str, Any]) -> list[str]:
    unknown = killed["target_power_state"] is not None or killed["power_state"] is None
    if unknown or killed["power_state"] == machine.power():
        return []
    if killed["power_state"] == states.POWER_ON and not machine.only_switched_on_request:
        return []  # Its own operating system halted it.
    return [
        f"the database says that the machine is {killed['power_state']!r} and that nothing "
        f"is pending, but it is {machine.power()!r}"
    ]


def _settled(flow: Flow, power: str, killed: dict[str, Any], now: dict[str, Any]) -> list[str]:
    wrong = []
    state = now["provision_state"]
    if now["reservation"] is not None:
        wrong.append(f"locked by {now['reservation']!r}")
    if state not in SETTLED:
        wrong.append(f"stuck in {state!r}")
    if now["target_power_state"] is not None:
        wrong.append(f"a power action is pending for ever: {now['target_power_state']!r}")
    unwatched = now["maintenance"] or state in states.SYNC_EXCLUDED
    if now["power_state"] != power and not unwatched:
        wrong.append(f"recorded as {now['power_state']!r}, but the machine is {power!r}")
    failed = state in states.FAILURE or state == states.ERROR
    given_up = killed["provision_state"] != state and state == states.ENROLL
    if (failed or given_up) and not now["last_error"]:
        wrong.append(f"{state!r} without a last_error")
    if failed and not now["history"]:
        wrong.append(f"{state!r} without a word in the history")
    if any(row["state"] == "allocating" for row in now["allocations"]):
        wrong.append(f"nobody looks for a node: {now['allocations']}")
    if flow.name == "allocation" and now["allocations"]:
        wrong += _allocated(now)
    return wrong


def _switched(machine: Machine) -> int:
    return sum(number for name, number in machine.calls().items() if name.startswith("power "))


def _once(machine: Machine) -> list[str]:
    return [
        f"{name} ran {number} times"
        for name, number in machine.calls().items()
        if name.startswith("step ") and number > 1
    ]


def _kept(flow: Flow, machine: Machine, now: dict[str, Any]) -> list[str]:
    """Look for the instance: all of it is there, or it was taken off as a whole."""
    if not flow.instance:
        return []
    wrong = []
    rows = [row["uuid"] for row in now["allocations"]]
    if flow.name == "undeploy" and now["provision_state"] in _AFTER_TEAR_DOWN:
        for name in ("instance_uuid", "instance_info", "allocation_id", "vif"):
            if now[name]:
                wrong.append(f"{name} is left behind: {now[name]!r}")
        if rows:
            wrong.append(f"allocations are left behind: {rows}")
        return wrong
    if now["instance_uuid"] != ALLOCATION:
        wrong.append(f"instance_uuid is lost: {now['instance_uuid']!r}")
    if not INSTANCE_INFO.keys() <= now["instance_info"].keys():
        wrong.append(f"instance_info is lost: {now['instance_info']}")
    if rows != [ALLOCATION] or now["allocation_id"] is None:
        wrong.append(f"the allocation is lost: {rows}, of the node {now['allocation_id']}")
    if now["vif"] != VIF and not _detached(flow, machine):
        wrong.append(f"the VIF is lost: {now['vif']!r}")
    return wrong


def _detached(flow: Flow, machine: Machine) -> bool:
    """Tell whether the VIF was taken off, which is the end of taking an instance off."""
    if machine.only_switched_on_request:
        return machine.calls()["network.vif_detach"] > 0
    return flow.name == "undeploy" and machine.power() == states.POWER_OFF


def _again(flow: Flow, site: Site) -> list[str]:
    """Ask for the flow again: a node is never lost to a crash."""
    ended = site.picture()
    machine = site.machine
    if not goal(flow, ended, machine.power()):
        return []
    site.leave_maintenance()
    machine.forget_calls()
    torn_down = flow.name == "undeploy" and ended["provision_state"] in _AFTER_TEAR_DOWN
    (FLOWS["clean"] if torn_down else flow).request(site)
    wrong = goal(flow, site.picture(), machine.power())
    return [f"asked again, {text}" for text in wrong] + _once(machine)
