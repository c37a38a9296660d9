"""Cases of operators about steps (field-cases.md K12), as users of the API meet them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.steps import reserved
from ironic_rs.domain import states
from ironic_rs.domain.steps import KINDS, SERVICE, StepKind, set_flags
from tests.functional.defects.site import Site, steps
from tests.harness.servers import wait_until

EACH = pytest.mark.parametrize("name", sorted(KINDS))
START = {"clean": states.MANAGEABLE, "deploy": states.AVAILABLE, "service": states.ACTIVE}
TARGET = {"clean": "clean", "deploy": "active", "service": "service"}
END = {"clean": states.MANAGEABLE, "deploy": states.ACTIVE, "service": states.ACTIVE}
PLAN = ("raid.a", "raid.b", "raid.c")


def ask(site: Site, name: str, plan: list[dict[str, Any]], **values: Any) -> str:
    """Start a flow; its worker has ended, or the flow waits."""
    uuid = site.node(START[name], **values)
    if name == "deploy":
        plan = [{"args": {}, **step, "priority": 90 - at} for at, step in enumerate(plan)]
    site.provision(uuid, TARGET[name], **{f"{name}_steps": plan})
    return uuid


def waits_at(site: Site, kind: StepKind, place: int, abortable: bool) -> str:
    """A flow of three steps of which one, which takes its time, is running."""
    for step in PLAN:
        site.kit.offer(kind.name, step, abortable=abortable, requires_ramdisk=False)
    if kind.name == "deploy":
        site.kit.offer("deploy", "deploy.core", 1)
    site.kit.results[PLAN[place]] = kind.wait
    uuid = ask(site, kind.name, steps(*PLAN))
    assert site.shown(uuid)["provision_state"] == kind.wait
    assert site.kit.ran == list(PLAN[: place + 1])
    return uuid


def next_step(site: Site, kind: StepKind, uuid: str) -> dict[str, Any]:
    """What the driver does when the step is over; the flow has gone on on return."""

    def place() -> tuple[str, Any, Any]:
        node = site.stored(uuid)
        return node.provision_state, node.driver_internal_info.get(kind.index_key), node.reservation

    before = place()
    site.cast(kind.name, uuid)
    wait_until(lambda: place()[2] is None and place()[:2] != before[:2], "the flow goes on")
    site.settle()
    return site.shown(uuid)


# K12/84: abort means abort


@EACH
@pytest.mark.parametrize("place", [0, 1, 2])
def test_84_an_abortable_step_is_aborted_now(site: Site, name: str, place: int) -> None:
    kind = KINDS[name]
    uuid = waits_at(site, kind, place, abortable=True)
    node = site.provision(uuid, "abort")
    # An aborted servicing gives the instance back.
    assert node["provision_state"] == (states.ACTIVE if kind is SERVICE else kind.failed)
    assert (node[kind.field], node["maintenance"]) == ({}, False)
    assert "aborted" in node["last_error"]
    assert site.kit.ran == list(PLAN[: place + 1])


@EACH
@pytest.mark.parametrize("place", [0, 1, 2])
def test_84_what_must_not_be_broken_off_ends_first_and_is_no_success(
    site: Site, name: str, place: int
) -> None:
    kind = KINDS[name]
    uuid = waits_at(site, kind, place, abortable=False)
    for _ in range(2):
        node = site.provision(uuid, "abort")
        assert node["provision_state"] == kind.wait, "the second abort is harmless"
    node = next_step(site, kind, uuid)
    assert node["provision_state"] == kind.failed
    assert "aborted" in node["last_error"]
    assert node[kind.field] == {}
    assert site.kit.ran == list(PLAN[: place + 1]), "no step follows"
    if kind is SERVICE:
        assert site.provision(uuid, "abort")["provision_state"] == states.ACTIVE


@EACH
@pytest.mark.parametrize("place", [0, 1, 2])
def test_84_a_held_flow_is_aborted_where_it_stands(site: Site, name: str, place: int) -> None:
    kind = KINDS[name]
    plan = list(PLAN)
    plan.insert(place, "hold")
    for step in PLAN:
        site.kit.offer(kind.name, step, abortable=False, requires_ramdisk=False)
    if name == "deploy":
        site.kit.offer("deploy", "deploy.core", 1)
    uuid = ask(site, name, steps(*plan))
    assert site.shown(uuid)["provision_state"] == kind.hold
    node = site.provision(uuid, "abort")
    assert node["provision_state"] == (states.ACTIVE if kind is SERVICE else kind.failed)
    assert site.kit.ran == list(PLAN[:place])


@pytest.mark.parametrize(
    ("state", "end"),
    [
        (states.CLEANFAIL, None),
        (states.DEPLOYFAIL, None),
        (states.INSPECTFAIL, None),
        (states.RESCUEFAIL, None),
        (states.ADOPTFAIL, None),
        (states.SERVICEFAIL, states.ACTIVE),
        (states.INSPECTWAIT, states.INSPECTFAIL),
        (states.RESCUEWAIT, states.RESCUEFAIL),
    ],
)
def test_84_abort_in_waiting_and_failed_states(site: Site, state: str, end: str | None) -> None:
    site.kit.interfaces["inspect"].abort = lambda task: None
    uuid = site.node(state)
    answer = site.ask(uuid, "abort")
    site.settle()
    assert answer.status == (400 if end is None else 202), answer.body
    assert site.shown(uuid)["provision_state"] == (end or state)
    again = site.ask(uuid, "abort")
    site.settle()
    assert again.status == 400
    assert site.shown(uuid)["provision_state"] == (end or state)


@EACH
def test_84_abort_during_the_transition_is_refused_and_changes_nothing(
    site: Site, name: str
) -> None:
    kind = KINDS[name]
    gate, entered = threading.Event(), threading.Event()

    def slow(task: Any) -> None:
        entered.set()
        assert gate.wait(30)

    for step in PLAN:
        site.kit.offer(name, step, abortable=True, requires_ramdisk=False)
    if name == "deploy":
        site.kit.offer("deploy", "deploy.core", 1)
    site.kit.results[PLAN[1]] = slow
    uuid = site.node(START[name])
    plan = steps(*PLAN)
    if name == "deploy":
        plan = [{"args": {}, **step, "priority": 90 - at} for at, step in enumerate(plan)]
    assert site.ask(uuid, TARGET[name], **{f"{name}_steps": plan}).status == 202
    assert entered.wait(30)
    try:
        answer = site.ask(uuid, "abort")
        assert answer.status in (400, 409), answer.body
        assert site.shown(uuid)["provision_state"] == kind.running
    finally:
        gate.set()
    site.settle()
    node = site.shown(uuid)
    assert (node["provision_state"], node["last_error"]) == (END[name], None)


# K12/86: mixed out-of-band and in-band steps


def counted(site: Site, kind: StepKind) -> list[str]:
    """Count how often the ramdisk is prepared for the steps of a flow."""
    booted: list[str] = []
    deploy = site.kit.interfaces["deploy"]

    def boots(what: str) -> Callable[[Any], str]:
        def prepare(task: Any) -> str:
            booted.append(what)
            task.node.driver_internal_info["agent_url"] = "https://192.0.2.5"
            return kind.wait

        return prepare

    deploy.prepare_cleaning = boots("clean")
    deploy.prepare_service = boots("service")
    return booted


@pytest.mark.parametrize("name", ["clean", "service"])
def test_86_out_of_band_and_in_band_steps_follow_each_other(site: Site, name: str) -> None:
    kind = KINDS[name]
    booted = counted(site, kind)
    flags: list[dict[str, Any]] = []

    def note(task: Any) -> None:
        flags.append(dict(task.node.driver_internal_info))

    def asynchronous(task: Any) -> str:
        note(task)
        set_flags(task.node, polling=True)
        task.save()
        return kind.wait

    def in_band(task: Any) -> str:
        note(task)
        return kind.wait

    for step, needs in (("raid.oob", False), ("bios.oob", False)):
        site.kit.offer(name, step, requires_ramdisk=needs)
    for step in ("deploy.one", "deploy.two"):
        site.kit.offer(name, step)
    site.kit.results = {
        "raid.oob": asynchronous,
        "deploy.one": in_band,
        "bios.oob": note,
        "deploy.two": in_band,
    }
    plan = ["raid.oob", "deploy.one", "bios.oob", "deploy.two"]
    uuid = ask(site, name, steps(*plan))
    assert booted == [name]
    for expected in (plan[:1], plan[:2], plan):
        next_step(site, kind, uuid)
        assert site.kit.ran == expected
    node = next_step(site, kind, uuid)
    assert [info.get(kind.polling_flag) for info in flags] == [None] * 4
    assert booted == [name], "the ramdisk is booted once"
    assert (node["provision_state"], node["last_error"]) == (END[name], None)
    assert kind.polling_flag not in site.stored(uuid).driver_internal_info


@pytest.mark.parametrize("name", ["clean", "service"])
def test_86_only_out_of_band_steps_need_no_ramdisk(site: Site, name: str) -> None:
    kind = KINDS[name]
    booted = counted(site, kind)
    for step in PLAN:
        site.kit.offer(name, step, requires_ramdisk=False)
    site.kit.results["raid.b"] = kind.wait
    uuid = ask(site, name, steps(*PLAN))
    assert site.shown(uuid)["provision_state"] == kind.wait
    node = next_step(site, kind, uuid)
    assert (node["provision_state"], booted) == (END[name], [])
    assert site.kit.ran == list(PLAN)


@EACH
def test_86_a_step_that_reboots_runs_once(site: Site, name: str) -> None:
    kind = KINDS[name]

    def reboots(task: Any) -> str:
        set_flags(task.node, reboot=True, skip_current=True, polling=True)
        task.save()
        return kind.wait

    for step in PLAN:
        site.kit.offer(name, step, requires_ramdisk=False)
    if name == "deploy":
        site.kit.offer("deploy", "deploy.core", 1)
    site.kit.results["raid.b"] = reboots
    uuid = ask(site, name, steps(*PLAN))
    node = next_step(site, kind, uuid)
    assert site.kit.ran[:3] == list(PLAN)
    assert node["provision_state"] == END[name]
    left = site.stored(uuid).driver_internal_info
    assert not {kind.reboot_flag, kind.polling_flag, kind.skip_flag} & set(left)


# K12/88: reserved steps from a failed state


@pytest.fixture
def machine(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the machine is asked for; waiting takes no time and is written down."""
    seen: list[str] = []
    power = site.kit.interfaces["power"]

    def change(task: Any, state: str, timeout: int | None = None) -> None:
        seen.append(state)
        task.node.power_state = states.POWER_TARGET[state]

    power.set_power_state = change
    power.reboot = lambda task, timeout=None: change(task, states.REBOOT)
    monkeypatch.setattr(reserved.time, "sleep", lambda seconds: seen.append(f"wait {seconds:g}"))
    return seen


FROM = pytest.mark.parametrize("state", [states.ACTIVE, states.SERVICEFAIL])


def serve(site: Site, state: str, *plan: dict[str, Any]) -> str:
    uuid = site.node(state, last_error="of last week" if state == states.SERVICEFAIL else None)
    site.provision(uuid, "service", service_steps=list(plan))
    return uuid


WAIT = {**steps("wait")[0], "args": {"seconds": 30}}


@FROM
def test_88_hold_holds_and_goes_on(site: Site, machine: list[str], state: str) -> None:
    uuid = serve(site, state, *steps("hold"))
    assert site.shown(uuid)["provision_state"] == states.SERVICEHOLD
    node = site.provision(uuid, "unhold")
    assert (node["provision_state"], node["last_error"]) == (states.ACTIVE, None)


@FROM
def test_88_hold_can_be_aborted(site: Site, machine: list[str], state: str) -> None:
    uuid = serve(site, state, *steps("hold"))
    node = site.provision(uuid, "abort")
    assert node["provision_state"] == states.ACTIVE
    assert "aborted" in node["last_error"]


@FROM
def test_88_a_timed_wait_ends_by_time(site: Site, machine: list[str], state: str) -> None:
    uuid = serve(site, state, WAIT)
    node = site.shown(uuid)
    assert node["provision_state"] == states.ACTIVE
    assert sum(float(line.split()[1]) for line in machine if line.startswith("wait")) == 30


@FROM
def test_88_a_wait_without_time_is_seen_and_goes_on(
    site: Site, machine: list[str], state: str
) -> None:
    uuid = serve(site, state, *steps("wait"))
    assert site.shown(uuid)["provision_state"] == states.SERVICEWAIT
    node = next_step(site, SERVICE, uuid)
    assert node["provision_state"] == states.ACTIVE


@FROM
def test_88_power_steps_act_once(site: Site, machine: list[str], state: str) -> None:
    uuid = serve(site, state, *steps("power_off"), WAIT, *steps("power_on"))
    assert site.shown(uuid)["provision_state"] == states.ACTIVE
    switched = [line for line in machine if not line.startswith("wait")]
    assert switched == [states.POWER_OFF, states.POWER_ON]


@FROM
@pytest.mark.parametrize("verb", ["unhold", "abort"])
def test_88_reboot_then_hold(site: Site, machine: list[str], state: str, verb: str) -> None:
    uuid = serve(site, state, *steps("reboot", "hold"))
    assert site.shown(uuid)["provision_state"] == states.SERVICEHOLD
    assert machine == [states.REBOOT]
    node = site.provision(uuid, verb)
    assert node["provision_state"] == states.ACTIVE
    assert machine.count(states.REBOOT) == 1
