"""Steps of the conductor itself, holding, waiting and going on (W02 to W05, W20, W25, W26)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.steps import reserved
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.domain.steps import KINDS
from ironic_rs.rpc import casts
from tests.functional.defects.site import Site, steps

EACH = pytest.mark.parametrize("kind", sorted(KINDS))
#: kind -> (state to start from, target of the request, state at the end).
FLOW = {
    "clean": (states.MANAGEABLE, "clean", states.MANAGEABLE),
    "deploy": (states.AVAILABLE, "active", states.ACTIVE),
    "service": (states.ACTIVE, "service", states.ACTIVE),
}


def offer(site: Site, kind: str, *names: str) -> None:
    for name in names:
        site.kit.offer(kind, name)
    if kind == "deploy":
        site.kit.offer("deploy", "deploy.core", 1)


def ordered(kind: str, plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Deploy steps are ordered by priority, the others as they are given."""
    if kind != "deploy":
        return plan
    return [{"args": {}, **step, "priority": 90 - n} for n, step in enumerate(plan)]


def run(site: Site, kind: str, plan: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    """Ask for a flow with these steps; return the node once no worker has it."""
    begin, target, _ = FLOW[kind]
    uuid = site.node(begin, **values)
    return site.provision(uuid, target, **{f"{kind}_steps": ordered(kind, plan)})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the conductor would have slept, second by second of each wait."""
    slept: list[float] = []
    monkeypatch.setattr(reserved.time, "sleep", slept.append)
    return slept


def watch(site: Site) -> list[str]:
    """Record what the machine is asked for, power actions included, in order."""
    seen: list[str] = []
    power = site.kit.interfaces["power"]
    original = site.kit.run

    def step(task: Any, what: dict[str, Any]) -> Any:
        seen.append(f"{what['interface']}.{what['step']}")
        return original(task, what)

    def change(task: Any, state: str, timeout: int | None = None) -> None:
        seen.append(state)
        task.node.power_state = states.POWER_TARGET[state]

    site.kit.run = step  # type: ignore[method-assign]
    power.set_power_state = change
    power.reboot = lambda task, timeout=None: change(task, states.REBOOT)
    return seen


@EACH
def test_w02_steps_of_the_conductor_run_in_their_place(
    site: Site, pauses: list[float], kind: str
) -> None:
    offer(site, kind, "raid.first", "raid.second")
    seen = watch(site)
    plan = [
        *steps("power_off", "raid.first", "power_on"),
        *steps("wait", args={"seconds": 7}),
        *steps("raid.second", "reboot"),
    ]

    node = run(site, kind, plan)

    assert seen[:5] == ["power off", "raid.first", "power on", "raid.second", "rebooting"]
    assert sum(pauses) == 7
    assert (node["provision_state"], node["last_error"]) == (FLOW[kind][2], None)


@pytest.mark.parametrize("kind", ["clean", "service"])
def test_w02_steps_of_the_conductor_in_a_runbook_run(site: Site, kind: str) -> None:
    offer(site, kind, "raid.first")
    seen = watch(site)
    plan = steps("power_off", "raid.first", "power_on")
    numbered = [{**step, "args": {}, "order": number} for number, step in enumerate(plan)]
    answer = site.api.post("/v1/runbooks", {"name": "CUSTOM_R", "steps": numbered})
    assert answer.status == 201, answer.body
    begin, target, end = FLOW[kind]
    uuid = site.node(begin)
    for owner in ("runbooks/CUSTOM_R", f"nodes/{uuid}"):
        site.api.put(f"/v1/{owner}/traits", {"traits": ["CUSTOM_R"]})

    node = site.provision(uuid, target, runbook="CUSTOM_R")

    assert seen == ["power off", "raid.first", "power on"]
    assert node["provision_state"] == end


@EACH
def test_w02_steps_on_child_nodes_run_in_their_place(site: Site, kind: str) -> None:
    offer(site, kind, "raid.first", "raid.second")
    begin = FLOW[kind][0]
    parent = site.node(begin)
    children = [site.node(states.ACTIVE, parent_node=parent) for _ in range(2)]
    site.node(states.ACTIVE)
    on_children = {"execute_on_child_nodes": True}
    plan = [*steps("raid.first"), *steps("bios.apply", **on_children), *steps("raid.second")]

    node = site.provision(parent, FLOW[kind][1], **{f"{kind}_steps": ordered(kind, plan)})

    ran = site.kit.ran_on[:4]
    assert ran[0] == (parent, "raid.first")
    assert sorted(ran[1:3]) == sorted((child, "bios.apply") for child in children)
    assert ran[3] == (parent, "raid.second")
    assert node["provision_state"] == FLOW[kind][2]


@EACH
@pytest.mark.parametrize(("asked", "slept"), [(3, 3), (10_000, 30)])
def test_w03_a_wait_step_goes_on_with_the_next_step(
    site: Site, pauses: list[float], kind: str, asked: int, slept: int
) -> None:
    offer(site, kind, "raid.next")

    node = run(site, kind, [*steps("wait", args={"seconds": asked}), *steps("raid.next")])

    assert sum(pauses) == slept, "never longer than the limit"
    assert site.kit.ran[0] == "raid.next"
    assert (node["provision_state"], node["reservation"]) == (FLOW[kind][2], None)


@EACH
def test_w03_a_wait_step_may_be_the_last_one(site: Site, pauses: list[float], kind: str) -> None:
    offer(site, kind)

    node = run(site, kind, steps("wait", args={"seconds": 1}))

    assert (node["provision_state"], node["reservation"]) == (FLOW[kind][2], None)


@EACH
def test_w04_unhold_goes_on_at_once_without_a_heartbeat(site: Site, kind: str) -> None:
    offer(site, kind, "raid.next")
    holders: list[str | None] = []
    site.kit.results["raid.next"] = lambda task: holders.append(
        site.stored(str(task.node.uuid)).reservation
    )
    held = run(site, kind, steps("hold", "raid.next"))
    assert held["provision_state"] == KINDS[kind].hold
    assert site.kit.ran == []

    node = site.provision(held["uuid"], "unhold")

    assert site.kit.ran[0] == "raid.next"
    assert holders == ["cond-a"], "the lock is kept"
    assert (node["provision_state"], node["last_error"]) == (FLOW[kind][2], None)


@EACH
def test_w04_unhold_leads_over_steps_that_pause_again(site: Site, kind: str) -> None:
    offer(site, kind, "raid.next")
    plan = steps("hold", "raid.next", "hold")
    held = run(site, kind, plan if kind != "deploy" else [plan[0], plan[1]])

    again = site.provision(held["uuid"], "unhold")

    if kind != "deploy":
        assert again["provision_state"] == KINDS[kind].hold
        again = site.provision(held["uuid"], "unhold")
    assert again["provision_state"] == FLOW[kind][2]


def test_w05_manual_cleaning_ends_manageable_after_every_pause(
    site: Site, pauses: list[float]
) -> None:
    offer(site, "clean", "raid.next")
    plan = [*steps("hold"), *steps("wait", args={"seconds": 1}), *steps("raid.next")]

    node = run(site, "clean", plan)

    assert node["provision_state"] == states.CLEANHOLD
    assert node["target_provision_state"] == states.MANAGEABLE
    node = site.provision(node["uuid"], "unhold")
    assert site.kit.ran == ["raid.next"]
    assert node["provision_state"] == states.MANAGEABLE


def test_w05_a_wait_for_the_ramdisk_keeps_the_target(site: Site) -> None:
    offer(site, "clean", "raid.next")

    node = run(site, "clean", steps("wait", "raid.next"))

    assert node["provision_state"] == states.CLEANWAIT
    assert node["target_provision_state"] == states.MANAGEABLE
    site.cast("clean", node["uuid"])
    node = site.becomes(node["uuid"], provision_state=states.MANAGEABLE)
    assert site.kit.ran == ["raid.next"]


def test_w20_a_servicing_that_runs_is_not_continued_a_second_time(site: Site) -> None:
    plan = {"service_steps": steps("raid.a", "raid.b"), "service_step_index": 0}
    uuid = site.node(states.SERVICING, service_step=steps("raid.a")[0], driver_internal_info=plan)
    before = site.shown(uuid)

    with pytest.raises(errors.InvalidStateRequested, match=r"continue servicing.*servicing"):
        site.conductor.registry.dispatch("continue_node_service", site.context, {"node_id": uuid})

    assert site.shown(uuid) == before
    assert site.kit.ran == []


def lost_by_reboot(kind: str) -> Callable[[Any], None]:
    """A step that reboots the machine and then can not reach its ramdisk."""
    calls: list[str] = []

    def step(task: Any) -> None:
        calls.append(kind)
        if len(calls) == 1:
            task.node.driver_internal_info[KINDS[kind].reboot_flag] = True
            raise errors.AgentConnectionFailed(reason="it boots")

    return step


def busy(kind: str) -> list[Any]:
    """The ramdisk runs something else: the step is tried again with the next heartbeat."""
    return [errors.AgentInProgress(reason="busy"), None]


@EACH
@pytest.mark.parametrize("pause", [busy, lost_by_reboot])
def test_w25_a_pausing_flow_is_not_told_as_aborted(
    site: Site, kind: str, pause: Callable[[str], Any]
) -> None:
    CONF.set_override("record_step_flows_in_history", True, group="conductor")
    offer(site, kind, "raid.first")
    site.kit.results["raid.first"] = pause(kind)

    node = run(site, kind, steps("raid.first"))

    assert node["provision_state"] == KINDS[kind].wait
    assert node["last_error"] is None, "an error would switch fast track off"
    events = [row["event"] for row in site.history(node["uuid"])]
    assert not any("aborted" in event for event in events)
    site.cast(kind, node["uuid"])
    node = site.becomes(node["uuid"], provision_state=FLOW[kind][2])
    assert site.kit.ran[:2] == ["raid.first", "raid.first"]


@EACH
@pytest.mark.parametrize("outcome", ["completed", "aborted"])
def test_w25_the_end_of_a_flow_is_recorded_with_its_steps(
    site: Site, kind: str, outcome: str
) -> None:
    CONF.set_override("record_step_flows_in_history", True, group="conductor")
    offer(site, kind, "raid.first")
    if outcome == "aborted":
        site.kit.results["raid.first"] = errors.RedfishError(error="no disk")

    node = run(site, kind, steps("raid.first"))

    ends = [row for row in site.history(node["uuid"]) if row["event_type"].endswith("_end")]
    assert len(ends) == 1
    assert outcome in ends[0]["event"]
    assert '"step": "first"' in ends[0]["event"]


def test_w26_casts_to_locked_nodes_hold_up_nobody_else(site: Site) -> None:
    offer(site, "clean", "raid.next")

    def waiting() -> str:
        return str(run(site, "clean", steps("wait", "raid.next"))["uuid"])

    busy, free = [waiting() for _ in range(casts.THREADS + 1)], waiting()
    with contextlib.ExitStack() as stack:
        for uuid in busy:
            stack.enter_context(site.held(uuid))
            site.cast("clean", uuid)
        site.cast("clean", free)

        site.becomes(free, provision_state=states.MANAGEABLE)

        assert {site.shown(uuid)["provision_state"] for uuid in busy} == {states.CLEANWAIT}
    for uuid in busy:
        site.becomes(uuid, provision_state=states.MANAGEABLE)
