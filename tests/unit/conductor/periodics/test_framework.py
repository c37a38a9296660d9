"""Scheduling: jittered, never twice at a time; scans: bounded, tolerant, with limits."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_context import context as oslo_context

from ironic_rs.conductor.periodics import tasks as periodic_tasks
from ironic_rs.conductor.periodics.framework import (
    NodeScan,
    Periodic,
    Scheduler,
    StopScan,
    for_each,
    my_rows,
    node_periodic,
    periodic,
    visit_nodes,
)
from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers import decorators
from ironic_rs.rpc.context import RequestContext, admin_context

MakeNode = Callable[..., models.Node]


def at_once(low: float, high: float) -> float:
    """No spread, and first runs at once."""
    return 0.0


class Runs:
    """Counts the runs of a task."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.done = threading.Semaphore(0)
        self.now = self.most = 0
        self.lock = threading.Lock()
        self.gate: threading.Event | None = None

    def __call__(self, conductor: Conductor) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.begun.release()
        if self.gate is not None:
            self.gate.wait(100)
        with self.lock:
            self.now -= 1
        self.done.release()


def test_tasks_run_again_and_again_and_never_twice_at_a_time(conductor: Conductor) -> None:
    runs, other = Runs(), Runs()
    scheduler = Scheduler(
        conductor,
        [Periodic("a", lambda conf: 1, runs), Periodic("b", lambda conf: 1, other)],
        spread=at_once,
    )
    scheduler.start()
    assert scheduler.started
    for _ in range(4):
        assert runs.done.acquire(timeout=30)
        assert other.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert runs.most == other.most == 1


def test_a_run_that_takes_longer_than_its_interval_is_not_overtaken(conductor: Conductor) -> None:
    runs, other = Runs(), Runs()
    runs.gate = threading.Event()
    scheduler = Scheduler(
        conductor,
        [Periodic("slow", lambda conf: 1, runs), Periodic("b", lambda conf: 1, other)],
        spread=at_once,
    )
    scheduler.start()
    assert runs.begun.acquire(timeout=60)
    for _ in range(3):
        assert other.done.acquire(timeout=30)
    assert runs.now == 1
    runs.gate.set()
    assert runs.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert runs.most == 1


def test_interval_of_zero_switches_a_task_off(conductor: Conductor) -> None:
    off, on = Runs(), Runs()
    scheduler = Scheduler(
        conductor,
        [Periodic("off", lambda conf: 0, off), Periodic("on", lambda conf: 1, on)],
        spread=at_once,
    )
    scheduler.start()
    assert on.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert not off.done.acquire(timeout=0)


def test_failure_of_a_run_is_logged_and_it_comes_again(
    conductor: Conductor, caplog: pytest.LogCaptureFixture
) -> None:
    again = threading.Semaphore(0)

    def fail(conductor: Conductor) -> None:
        again.release()
        raise ValueError("bad luck")

    scheduler = Scheduler(conductor, [Periodic("fails", lambda conf: 1, fail)], spread=at_once)
    scheduler.start()
    assert again.acquire(timeout=30)
    assert again.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert "Periodic task fails failed" in caplog.text


def test_task_without_a_free_worker_comes_again_soon(conductor: Conductor) -> None:
    runs = Runs()
    gate = threading.Event()
    for _ in range(conductor.workers.normal.size):
        conductor.workers.normal.submit(gate.wait, 60)
    tried = threading.Event()
    spreads: list[tuple[float, float]] = []

    def spread(low: float, high: float) -> float:
        spreads.append((low, high))
        if (low, high) == (0.9, 1.1):
            tried.set()
        return 0.0

    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 3600, runs)], spread=spread)
    scheduler.start()
    assert tried.wait(30)
    gate.set()
    assert runs.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)


def test_first_run_and_period_are_spread_and_never_late(conductor: Conductor) -> None:
    spreads: list[tuple[float, float]] = []
    ran = Runs()

    def spread(low: float, high: float) -> float:
        spreads.append((low, high))
        return 0.0

    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 1, ran)], spread=spread)
    scheduler.start()
    assert ran.done.acquire(timeout=30)
    assert ran.done.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    first, *later = spreads
    assert first[0] < first[1] == 1.0
    assert later[0][0] < later[0][1] == 1.0


def test_nothing_runs_while_the_conductor_is_fenced(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs()
    asked = threading.Semaphore(0)

    class Fence:
        @property
        def tripped(self) -> bool:
            asked.release()
            return True

    monkeypatch.setattr(conductor, "fence", Fence())
    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 1, runs)], spread=at_once)
    scheduler.start()
    assert asked.acquire(timeout=30)
    assert asked.acquire(timeout=30)
    scheduler.stop()
    assert scheduler.wait(30)
    assert not runs.done.acquire(timeout=0)


def test_stop_waits_for_nothing_and_wait_for_the_running_ones(conductor: Conductor) -> None:
    runs = Runs()
    runs.gate = threading.Event()
    entered = threading.Event()

    def run(conductor: Conductor) -> None:
        entered.set()
        runs(conductor)

    scheduler = Scheduler(conductor, [Periodic("a", lambda conf: 1, run)], spread=at_once)
    scheduler.start()
    assert entered.wait(30)
    scheduler.stop()
    assert not scheduler.wait(0)
    runs.gate.set()
    assert scheduler.wait(30)


def test_decorators_make_tasks(conductor: Conductor, make_node: MakeNode) -> None:
    seen = []

    @periodic(lambda conf: 7)
    def one(conductor: Conductor) -> None:
        seen.append(conductor.host)

    @node_periodic("look", lambda conf: 8, filters={"provision_state": states.ACTIVE})
    def two(task: Task) -> None:
        seen.append(task.node.uuid)

    assert (one.name, one.interval(CONF)) == ("one", 7)
    assert (two.name, two.interval(CONF)) == ("two", 8)
    node = make_node(states.ACTIVE)
    make_node(states.AVAILABLE)
    one.run(conductor)
    two.run(conductor)
    assert seen == ["cond-a", node.uuid]


# Scans


def test_rows_of_other_conductors_are_left_out_by_one_statement(
    make_conductor: Callable[..., Conductor], make_node: MakeNode
) -> None:
    CONF.set_override("hash_ring_reset_interval", 3600)
    first, second = make_conductor("cond-a"), make_conductor("cond-b")
    made = [make_node() for _ in range(40)]
    first.ring.host_for("fake-hardware", "", made[0].uuid)
    second.ring.host_for("fake-hardware", "", made[0].uuid)
    with session.count_statements() as seen:
        mine = {row["uuid"] for row in my_rows(first, ["provision_state"], {})}
        others = {row["uuid"] for row in my_rows(second, [], {})}
    assert seen.count == 2
    assert mine | others == {node.uuid for node in made}
    assert not mine & others
    assert mine and others


def test_children_take_part(conductor: Conductor, make_node: MakeNode) -> None:
    parent = make_node()
    child = make_node(parent_node=parent.uuid)
    assert {row["uuid"] for row in my_rows(conductor, [], {})} == {parent.uuid, child.uuid}


def scan(**kwargs: Any) -> NodeScan:
    kwargs.setdefault("purpose", "test")
    return NodeScan(**kwargs)


def test_each_node_is_visited_with_a_task_of_its_own(
    conductor: Conductor, make_node: MakeNode
) -> None:
    made = {make_node(extra={"n": n}).uuid for n in range(10)}
    seen = []

    def visit(task: Task) -> None:
        seen.append((task.node.uuid, task.shared, task.allow_reserved_pool))

    visit_nodes(conductor, scan(), visit)
    assert sorted(seen) == sorted((uuid, True, False) for uuid in made)
    seen.clear()
    visit_nodes(
        conductor,
        scan(shared=False, columns=["extra"], predicate=lambda row: row["extra"]["n"] == 3),
        visit,
    )
    assert [entry[1:] for entry in seen] == [(False, False)]
    assert all(row["reservation"] is None for row in nodes.select(["reservation"]))


def test_locked_gone_and_failing_nodes_end_only_their_own_turn(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    make_node(reservation="cond-b")
    bad, worse, good = make_node(), make_node(), make_node()
    seen = []

    def visit(task: Task) -> None:
        if task.node.uuid == bad.uuid:
            raise errors.RedfishError(error="no answer")
        if task.node.uuid == worse.uuid:
            raise ValueError("bug")
        seen.append(task.node.uuid)

    visit_nodes(conductor, scan(shared=False), visit)
    assert seen == [good.uuid]
    assert "no answer" in caplog.text
    assert all(row["reservation"] in (None, "cond-b") for row in nodes.select(["reservation"]))


def test_limit_counts_only_nodes_that_were_worked_on(
    conductor: Conductor, make_node: MakeNode
) -> None:
    for _ in range(12):
        make_node()
    accepted = []
    lock = threading.Lock()

    def visit(task: Task) -> bool:
        with lock:
            if task.node.id % 2:
                return False
            accepted.append(task.node.id)
        return True

    visit_nodes(conductor, scan(limit=3), visit)
    assert len(accepted) == 3


@pytest.mark.parametrize("error", [StopScan("enough"), errors.NoFreeConductorWorker()])
def test_a_visit_can_end_the_run(
    conductor: Conductor, make_node: MakeNode, error: Exception
) -> None:
    for _ in range(20):
        make_node()
    seen = []

    def visit(task: Task) -> None:
        seen.append(task.node.id)
        raise error

    visit_nodes(conductor, scan(workers=1), visit)
    assert len(seen) == 1


def test_loops_end_when_the_conductor_stops_or_is_fenced(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def visit(item: int) -> None:
        seen.append(item)
        conductor.stopping.set()

    for_each(conductor, range(100), visit, workers=1)
    assert seen == [0]
    conductor.stopping.clear()
    monkeypatch.setattr(conductor, "fence", SimpleNamespace(tripped=True))
    for_each(conductor, range(100), visit, workers=1)
    assert seen == [0]


def test_log_lines_of_one_loop_share_a_request_id_of_their_own(conductor: Conductor) -> None:
    RequestContext(user_id="somebody")
    for _ in range(20):
        conductor.workers.submit(RequestContext, user_id="somebody else").result(30)
    seen: list[tuple[str | None, str]] = []

    def look(item: int) -> None:
        current = oslo_context.get_current()
        assert current is not None
        seen.append((current.user_id, current.request_id))

    run = admin_context()
    run.update_store()
    for_each(conductor, range(40), look)
    assert set(seen) == {(None, run.request_id)}


# The list


def test_all_tasks_are_collected(conductor: Conductor) -> None:
    names = [task.name for task in periodic_tasks.collect(conductor)]
    assert len(names) == len(set(names))
    assert set(names) >= {
        "_sync_power_states",
        "_power_failure_recovery",
        "_check_deploy_timeouts",
        "_check_cleanwait_timeouts",
        "_check_orphan_nodes",
        "_sync_local_state",
    }


def test_intervals_follow_the_configuration(conductor: Conductor) -> None:
    group = CONF.conductor
    expected = {
        "_sync_power_states": group.sync_power_state_interval,
        "_power_failure_recovery": group.power_failure_recovery_interval,
        "_check_deploy_timeouts": group.check_provision_state_interval,
        "_check_orphan_nodes": group.check_provision_state_interval,
        "_sync_local_state": group.sync_local_state_interval,
    }
    found = {task.name: task.interval(CONF) for task in periodic_tasks.collect(conductor)}
    assert {name: found[name] for name in expected} == expected


def test_periodics_of_interfaces_run_for_nodes_of_exactly_that_class(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    power = conductor.drivers.enabled("power")["fake"]

    class Special(type(power)):  # type: ignore[misc]
        @decorators.node_periodic(
            "special look", lambda conf: 5, filters={"provision_state": states.ACTIVE}
        )
        def look(self, task: Task) -> None:
            seen.append(task.node.uuid)

    class MoreSpecial(Special):
        pass

    special, more = Special(), MoreSpecial()
    monkeypatch.setattr(conductor.drivers, "all_interfaces", lambda: [special, more, special])
    collected = periodic_tasks.collect(conductor)
    found = [task for task in collected if task.name.endswith(".look")]
    assert [task.name for task in found] == ["Special.look", "MoreSpecial.look"]
    assert found[0].interval(CONF) == 5

    node = make_node(states.ACTIVE)
    make_node(states.AVAILABLE)
    build = conductor.drivers.build

    def with_more(node: models.Node) -> Any:
        driver = build(node)
        driver.power = more
        return driver

    monkeypatch.setattr(conductor.drivers, "build", with_more)
    found[0].run(conductor)
    assert seen == []
    found[1].run(conductor)
    assert seen == [node.uuid]


def test_too_many_tasks_for_the_pool_are_warned_of(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(conductor.workers.normal, "size", 2)
    periodic_tasks.collect(conductor)
    assert "workers_pool_size" in caplog.text
