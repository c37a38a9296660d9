"""Scans over nodes: bounded, tolerant, with limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_context import context as oslo_context

from ironic_rs.conductor.periodics.framework import (
    NodeScan,
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
from ironic_rs.rpc.context import RequestContext, admin_context

MakeNode = Callable[..., models.Node]


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
