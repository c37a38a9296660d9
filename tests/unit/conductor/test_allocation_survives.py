"""Allocations outlive their conductors: killed at any write, frozen, or raced.

Whatever happens to the conductor that works on one, it ends active on exactly one
node, or failed with a reason; no node gets two.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor.flows import allocation as flow
from ironic_rs.conductor.periodics.allocations import check_orphan_allocations
from ironic_rs.conductor.periodics.orphans import OrphanCheck
from ironic_rs.conductor.recovery import free_own_locks
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import allocations, models, nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context

MakeNode = Callable[..., models.Node]
MakeConductor = Callable[..., Conductor]
WRITING = ("_transaction", "_statement")


class Killed(BaseException):
    """The process is gone: nothing after it runs, no lock is given back."""


class Death:
    """Lets the process write a number of times, and then do nothing any more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
        self._patch = monkeypatch
        self._left = after
        self.happened = False
        real = session._run

        def run(opened: Any, *args: Any, **kwargs: Any) -> Any:
            if self.happened:
                raise Killed
            result = real(opened, *args, **kwargs)
            if opened.__name__ in WRITING:
                self._left -= 1
                self.happened = self._left <= 0
            return result

        self._patch.setattr(session, "_run", run)

    def over(self) -> None:
        """From here on, others write."""
        self._patch.undo()


def die(host: str) -> None:
    """Make the heartbeat of a registered conductor stale."""
    with session.writer() as connection:
        connection.execute(
            sa.text(
                "UPDATE conductors SET updated_at = datetime('now', '-1 hour') "
                f"WHERE hostname = '{host}'"
            )
        )


def at_once(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Run work in the caller's thread, so that it dies with it."""
    kwargs.pop("reserved_ok", None)
    future: Future[Any] = Future()
    future.set_result(fn(*args, **kwargs))
    return future


def call(conductor: Conductor, method: str, **arguments: Any) -> Any:
    return conductor.registry.dispatch(method, admin_context(), arguments)


def free(make_node: MakeNode, **values: Any) -> models.Node:
    return make_node(states.AVAILABLE, **{"resource_class": "gold"} | values)


def consistent() -> list[Any]:
    """Check what must hold whatever happened; return the allocations."""
    found = allocations.select(["id", "uuid", "state", "node_id", "last_error"])
    bound = [row["node_id"] for row in found if row["node_id"] is not None]
    assert len(bound) == len(set(bound))
    for row in found:
        if row["state"] == "active":
            node = nodes.get(row["node_id"])
            assert (node.instance_uuid, node.allocation_id) == (row["uuid"], row["id"])
        else:
            assert row["node_id"] is None
    for node in nodes.select(["instance_uuid", "allocation_uuid"]):
        assert node["instance_uuid"] == node["allocation_uuid"]
    return list(found)


def locks_first(conductor: Conductor) -> None:
    OrphanCheck().run(conductor)
    check_orphan_allocations(conductor)


def allocations_first(conductor: Conductor) -> None:
    check_orphan_allocations(conductor)
    OrphanCheck().run(conductor)
    check_orphan_allocations(conductor)


WRITES = range(1, 6)


@pytest.fixture
def pair(
    make_conductor: MakeConductor, monkeypatch: pytest.MonkeyPatch
) -> tuple[Conductor, Conductor]:
    """(the one that is going to die, the one that lives)."""
    victim, survivor = make_conductor("cond-a"), make_conductor("cond-b")
    monkeypatch.setattr(victim.workers, "submit", at_once)
    return victim, survivor


def kill(
    victim: Conductor, monkeypatch: pytest.MonkeyPatch, after: int, method: str, **arguments: Any
) -> bool:
    """Run a method on a conductor that dies after so many writes; tell whether it did."""
    with monkeypatch.context() as patch:
        death = Death(patch, after)
        with contextlib.suppress(Killed):
            call(victim, method, **arguments)
        death.over()
    die(victim.host)
    return death.happened


@pytest.mark.parametrize("recovery", [locks_first, allocations_first])
@pytest.mark.parametrize("writes", WRITES)
def test_killed_after_any_write_another_conductor_goes_on(
    pair: tuple[Conductor, Conductor],
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
    recovery: Callable[[Conductor], None],
) -> None:
    victim, survivor = pair
    make_node(states.MANAGEABLE)
    node = free(make_node)
    kill(
        victim,
        monkeypatch,
        writes,
        "create_allocation",
        allocation={"resource_class": "gold", "name": "web"},
    )
    consistent()
    recovery(survivor)
    (row,) = consistent()
    # One write stores the allocation; whatever is cut off after it is made up for.
    assert (row["state"], row["node_id"]) == ("active", node.id)
    assert nodes.get(node.id).reservation is None


def test_all_writes_of_an_allocation_were_cut_off_in_turn(
    pair: tuple[Conductor, Conductor], make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(make_node)
    arguments = {"allocation": {"resource_class": "gold"}}
    assert not kill(pair[0], monkeypatch, WRITES[-1], "create_allocation", **arguments)


@pytest.mark.parametrize("writes", WRITES)
def test_killed_after_any_write_without_a_node_it_fails_with_a_reason(
    pair: tuple[Conductor, Conductor], monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    victim, survivor = pair
    kill(victim, monkeypatch, writes, "create_allocation", allocation={"resource_class": "gold"})
    locks_first(survivor)
    (row,) = consistent()
    assert row["state"] == "error"
    assert "no available nodes" in row["last_error"]


@pytest.mark.parametrize("writes", WRITES)
def test_killed_after_any_write_of_a_backfill_all_or_nothing_is_there(
    pair: tuple[Conductor, Conductor],
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
) -> None:
    victim, survivor = pair
    node = make_node(states.ACTIVE, resource_class="gold")
    arguments = {"allocation": {"resource_class": "gold"}, "node_id": node.uuid}
    kill(victim, monkeypatch, writes, "create_allocation", **arguments)
    locks_first(survivor)
    assert [row["state"] for row in consistent()] in ([], ["active"])
    assert nodes.get(node.id).reservation is None


@pytest.mark.parametrize("writes", WRITES)
def test_killed_after_any_write_of_a_deletion_all_or_nothing_is_there(
    pair: tuple[Conductor, Conductor],
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
) -> None:
    victim, survivor = pair
    node = free(make_node)
    uuid = call(victim, "create_allocation", allocation={"resource_class": "gold"})["uuid"]
    kill(victim, monkeypatch, writes, "destroy_allocation", allocation_id=uuid)
    locks_first(survivor)
    assert [row["state"] for row in consistent()] in ([], ["active"])
    assert nodes.get(node.id).reservation is None


@pytest.mark.parametrize("writes", WRITES)
def test_killed_after_any_write_the_conductor_goes_on_when_it_is_started_again(
    make_conductor: MakeConductor,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
) -> None:
    victim = make_conductor("cond-a")
    monkeypatch.setattr(victim.workers, "submit", at_once)
    node = free(make_node)
    arguments = {"allocation": {"resource_class": "gold"}}
    kill(victim, monkeypatch, writes, "create_allocation", **arguments)
    again = make_conductor("cond-a")
    assert again.conductor_id == victim.conductor_id
    free_own_locks(again)
    again._resume_allocations()
    assert again.workers.wait(30)
    (row,) = consistent()
    assert row["node_id"] == node.id


@pytest.mark.parametrize("writes", WRITES)
def test_a_survivor_that_is_killed_as_well_leaves_it_to_the_next(
    make_conductor: MakeConductor,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    writes: int,
) -> None:
    first, second, third = (make_conductor(host) for host in ("cond-a", "cond-b", "cond-c"))
    for conductor in (first, second):
        monkeypatch.setattr(conductor.workers, "submit", at_once)
    node = free(make_node)
    kill(first, monkeypatch, 2, "create_allocation", allocation={"resource_class": "gold"})
    with monkeypatch.context() as patch:
        death = Death(patch, writes)
        with contextlib.suppress(Killed):
            allocations_first(second)
        death.over()
    die(second.host)
    locks_first(third)
    (row,) = consistent()
    assert row["node_id"] == node.id


def test_a_frozen_conductor_that_wakes_up_binds_no_second_node(
    make_conductor: MakeConductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen, survivor = make_conductor("cond-a"), make_conductor("cond-b")
    monkeypatch.setattr(frozen.workers, "submit", at_once)
    first, second = free(make_node, name="web"), free(make_node)
    real = allocations.bind

    def asleep(allocation: models.Allocation, node_id: int, **kwargs: Any) -> None:
        if kwargs["fence"] != frozen.host or node_id != first.id:
            real(allocation, node_id, **kwargs)
            return
        # It has the lock and is about to write, for an hour.
        die(frozen.host)
        nodes.update(first, {"maintenance": True}, fence=None)
        allocations_first(survivor)
        real(allocation, node_id, **kwargs)

    monkeypatch.setattr(flow.db_allocations, "bind", asleep)
    call(frozen, "create_allocation", allocation={"resource_class": "gold", "name": "web"})
    (row,) = consistent()
    assert row["node_id"] == second.id
    assert nodes.get(first.id).instance_uuid is None


def test_a_frozen_conductor_does_not_fail_what_another_one_has_settled(
    make_conductor: MakeConductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen, survivor = make_conductor("cond-a"), make_conductor("cond-b")
    monkeypatch.setattr(frozen.workers, "submit", at_once)
    real = allocations.fail

    def asleep(allocation: models.Allocation, reason: str) -> bool:
        die(frozen.host)
        free(make_node)
        check_orphan_allocations(survivor)
        return real(allocation, reason)

    monkeypatch.setattr(flow.db_allocations, "fail", asleep)
    call(frozen, "create_allocation", allocation={"resource_class": "gold"})
    (row,) = consistent()
    assert row["state"] == "active"


def test_a_conductor_whose_database_was_away_comes_back_to_it(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor.workers, "submit", at_once)
    node = free(make_node)

    def away(*args: Any, **kwargs: Any) -> None:
        raise errors.ServiceUnavailable("The database cannot be reached, please retry.")

    with monkeypatch.context() as patch:
        patch.setattr(flow.db_nodes, "select", away)
        call(conductor, "create_allocation", allocation={"resource_class": "gold"})
    (row,) = consistent()
    assert row["state"] == "allocating"
    check_orphan_allocations(conductor)
    (row,) = consistent()
    assert row["node_id"] == node.id


def test_one_that_fails_does_not_end_the_pass(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    CONF.set_override("periodic_max_workers", 1, group="conductor")
    free(make_node)
    for name in ("a", "b"):
        allocations.create({"name": name, "resource_class": "gold"})
    real = allocations.take_over

    def broken(allocation_id: int, *args: Any) -> bool:
        if allocations.get(allocation_id).name == "a":
            raise ZeroDivisionError
        return real(allocation_id, *args)

    monkeypatch.setattr(flow.db_allocations, "take_over", broken)
    check_orphan_allocations(conductor)
    assert {row["state"] for row in consistent()} == {"allocating", "active"}


@pytest.mark.timeout(120)
def test_twenty_at_once_take_exactly_the_five_nodes_there_are(
    make_conductor: MakeConductor, make_node: MakeNode
) -> None:
    conductors = [make_conductor("cond-a"), make_conductor("cond-b")]
    free_nodes = [free(make_node) for _ in range(5)]
    start = threading.Barrier(20)

    def ask(number: int) -> None:
        start.wait()
        call(
            conductors[number % 2],
            "create_allocation",
            allocation={"resource_class": "gold", "name": f"a{number}"},
        )

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for conductor in conductors:
        assert conductor.workers.wait(60)
    found = consistent()
    assert len(found) == 20
    bound = {row["node_id"] for row in found if row["state"] == "active"}
    assert bound == {node.id for node in free_nodes}
    failed = [row for row in found if row["state"] == "error"]
    assert len(failed) == 15
    assert all(row["last_error"] for row in failed)
    assert not any(node["reservation"] for node in nodes.select(["reservation"]))
