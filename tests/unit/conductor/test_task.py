"""Tasks: locks, fences, hand-over to workers, and every way in which those fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes, ports, session
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import RequestContext, admin_context

MakeNode = Callable[..., models.Node]


def acquire(conductor: Conductor, node: models.Node, **kwargs: Any) -> Task:
    kwargs.setdefault("purpose", "test")
    return conductor.tasks.acquire(admin_context(), node.uuid, **kwargs)


def stored(node: models.Node) -> models.Node:
    return nodes.get(node.id)


def fill(conductor: Conductor) -> threading.Event:
    """Occupy every worker until the event is set."""
    gate = threading.Event()
    for pool in (conductor.workers.normal, conductor.workers.reserved):
        assert pool is not None
        for _ in range(pool.size):
            pool.submit(gate.wait, 60)
    return gate


def small_pools() -> None:
    CONF.set_override("workers_pool_size", 40, group="conductor")


# Taking and giving back


def test_exclusive_task_holds_the_lock_until_the_block_ends(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node()
    with acquire(conductor, node) as task:
        assert not task.shared
        assert task.node.reservation == "cond-a"
        assert stored(node).reservation == "cond-a"
        assert task.driver.power is not None
    assert stored(node).reservation is None
    assert len(conductor.tasks.book) == 0


def test_lock_and_release_take_three_statements(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with session.count_statements() as seen, acquire(conductor, node):
        pass
    assert seen.count <= 3, seen.statements


def test_shared_task_takes_one_statement_and_no_lock(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node()
    with acquire(conductor, node), session.count_statements() as seen:
        with acquire(conductor, node, shared=True) as task:
            assert task.shared
        assert seen.count == 1
    with acquire(conductor, node, shared=True) as task, pytest.raises(errors.ExclusiveLockRequired):
        task.save()


def test_lock_by_integer_id(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with conductor.tasks.acquire(admin_context(), node.id, purpose="test") as task:
        assert task.node.uuid == node.uuid
        assert conductor.tasks.book.is_holder(node.uuid, task)
    assert len(conductor.tasks.book) == 0


def test_unknown_node_and_bad_identity(conductor: Conductor) -> None:
    with pytest.raises(errors.NodeNotFound):
        conductor.tasks.acquire(admin_context(), "00000000-0000-4000-8000-000000000000")
    with pytest.raises(errors.InvalidIdentity):
        conductor.tasks.acquire(admin_context(), "some-name")
    assert len(conductor.tasks.book) == 0


def test_second_task_of_the_same_host_is_refused(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with acquire(conductor, node):
        with pytest.raises(errors.NodeLocked, match="cond-a"):
            acquire(conductor, node, retry=False)
        with pytest.raises(errors.NodeLocked):
            conductor.tasks.acquire(admin_context(), node.id, retry=False)
    acquire(conductor, node, retry=False).release()


def test_the_refused_hear_who_holds_the_node_for_what_and_since_when(
    conductor: Conductor, make_conductor: Callable[..., Conductor], make_node: MakeNode
) -> None:
    node = make_node()
    with acquire(conductor, node, purpose="node deployment"):
        with pytest.raises(errors.NodeLocked) as caught:
            acquire(conductor, node, retry=False)
        lock = caught.value.details["lock"]
        assert lock["since"][:4].isdigit()
        assert {**lock, "since": None} == {
            "node": node.uuid,
            "host": "cond-a",
            "operation": "node deployment",
            "since": None,
        }
        # Another conductor knows no more than what the row says.
        with pytest.raises(errors.NodeLocked) as caught:
            acquire(make_conductor("cond-b"), node, retry=False)
        lock = caught.value.details["lock"]
        assert (lock["host"], lock["operation"], lock["since"]) == ("cond-a", None, None)


def test_the_state_of_a_node_tells_what_a_foreign_lock_is_for(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.MANAGEABLE, reservation="cond-b")
    nodes.update(node, {"provision_state": states.CLEANING}, fence=None)
    with pytest.raises(errors.NodeLocked) as caught:
        acquire(conductor, node, retry=False)
    lock = caught.value.details["lock"]
    begun = stored(node).provision_updated_at
    assert begun is not None
    assert (lock["host"], lock["operation"]) == ("cond-b", states.CLEANING)
    assert lock["since"] == begun.isoformat(timespec="seconds")


def test_waits_for_a_task_of_the_same_process(conductor: Conductor, make_node: MakeNode) -> None:
    CONF.set_override("node_locked_retry_attempts", 30, group="conductor")
    node = make_node()
    task = acquire(conductor, node)
    got = []

    def second() -> None:
        with acquire(conductor, node) as other:
            got.append(other.node.extra)

    thread = threading.Thread(target=second)
    thread.start()
    task.node.extra["key"] = "value"
    task.save()
    task.release()
    thread.join(30)
    assert got == [{"key": "value"}]


def test_retries_while_another_host_holds_the_lock(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    CONF.set_override("node_locked_retry_attempts", 5, group="conductor")
    node = make_node()
    nodes.reserve(node.id, "cond-b")
    pauses = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            nodes.release(node.id, "cond-b")

    monkeypatch.setattr("ironic_rs.conductor.lock.time.sleep", sleep)
    with acquire(conductor, node) as task:
        assert not task.shared
    assert len(pauses) == 2


def test_lock_of_another_host_is_reported_with_its_name(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(reservation="cond-b")
    with pytest.raises(errors.NodeLocked, match="cond-b"):
        acquire(conductor, node)
    assert len(conductor.tasks.book) == 0
    assert stored(node).reservation == "cond-b"


@pytest.mark.parametrize(
    "values",
    [{"provision_state": "half-baked"}, {"target_provision_state": "cleaning"}],
)
def test_impossible_states_are_refused_and_the_lock_is_given_back(
    conductor: Conductor, make_node: MakeNode, values: dict[str, str]
) -> None:
    node = make_node()
    nodes.update(node, values, fence=None)
    with pytest.raises(errors.InvalidState):
        acquire(conductor, node)
    assert stored(node).reservation is None


def test_lock_is_given_back_when_the_driver_is_not_enabled(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(driver="ipmi")
    with pytest.raises(errors.DriverNotFound):
        acquire(conductor, node)
    assert stored(node).reservation is None
    with acquire(conductor, node, load_driver=False) as task:
        assert not hasattr(task, "driver")


def test_upgrade_reads_a_fresh_record(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with acquire(conductor, node, shared=True) as task:
        old = task.node
        nodes.update(node, {"extra": {"new": 1}}, fence=None)
        task.upgrade_lock(purpose="more")
        assert task.node is not old
        assert task.node.extra == {"new": 1}
        task.node.extra["new"] = 2
        task.save()
        task.upgrade_lock(purpose="again")
        assert task.node.extra == {"new": 2}
    assert stored(node).reservation is None
    assert stored(node).extra == {"new": 2}


def test_failed_upgrade_leaves_a_shared_task(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(reservation="cond-b")
    with acquire(conductor, node, shared=True) as task:
        with pytest.raises(errors.NodeLocked):
            task.upgrade_lock(retry=False)
        assert task.shared
    assert stored(node).reservation == "cond-b"


def test_downgrade_releases_and_reads_again(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with acquire(conductor, node) as task:
        task.node.extra["unsaved"] = 1
        task.downgrade_lock()
        assert task.shared
        assert task.node.extra == {}
        assert stored(node).reservation is None


def test_deleted_node_is_not_released(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()
    with acquire(conductor, node) as task:
        nodes.destroy(node.id, fence="cond-a")
        task.forget()
    assert "LockLost" not in caplog.text
    assert len(conductor.tasks.book) == 0


def test_ports_are_loaded_when_asked_for(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    ports.create({"node_id": node.id, "address": "52:54:00:00:00:01"})
    with acquire(conductor, node) as task:
        with session.count_statements() as seen:
            assert [port.address for port in task.ports] == ["52:54:00:00:00:01"]
            assert [port.address for port in task.ports] == ["52:54:00:00:00:01"]
            assert list(task.portgroups) == []
        assert seen.count == 2


# Writing


def test_save_writes_only_what_changed(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with acquire(conductor, node) as task:
        nodes.update(node, {"description": "by somebody else"}, fence=None)
        task.node.extra["a"] = {"b": [1]}
        with session.count_statements() as seen:
            task.save()
            task.save()
        assert seen.count == 1
        task.node.extra["a"]["b"].append(2)
        task.save()
    assert stored(node).extra == {"a": {"b": [1, 2]}}
    assert stored(node).description == "by somebody else"


def test_save_and_release_is_one_statement(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(states.DEPLOYWAIT)
    with acquire(conductor, node) as task:
        task.node.extra["a"] = 1
        with session.count_statements() as seen:
            task.save_and_release(touch=True)
        assert seen.count == 1
        assert stored(node).reservation is None
        with pytest.raises(errors.ExclusiveLockRequired):
            task.save()
    assert stored(node).extra == {"a": 1}
    assert stored(node).provision_updated_at is not None


def test_touch_moves_the_time_of_the_state(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    assert stored(node).provision_updated_at is None
    with acquire(conductor, node, shared=True) as task:
        task.touch()
    assert stored(node).provision_updated_at is not None


def test_history_of_an_error_is_also_the_last_error(
    conductor: Conductor, make_node: MakeNode
) -> None:
    CONF.set_override("log_in_db_max_size", 10)
    node = make_node(states.DEPLOYING)
    context = RequestContext(user_id="u1", project_id="p1")
    with conductor.tasks.acquire(context, node.uuid) as task:
        task.history("something broke", "deploying")
        task.history("for your information", "deploying", error=False)
        task.history("", "deploying")
        task.save()
    assert stored(node).last_error == "something "
    rows = history.select(
        ["event", "event_type", "severity", "user", "project", "conductor", "state"],
        {"node_id": node.id},
    )
    assert [dict(row) for row in rows] == [
        {
            "event": "something broke",
            "event_type": "deploying",
            "severity": "ERROR",
            "user": "u1",
            "project": "p1",
            "conductor": "cond-a",
            "state": states.DEPLOYING,
        },
        {
            "event": "for your information",
            "event_type": "deploying",
            "severity": "INFO",
            "user": "u1",
            "project": "p1",
            "conductor": "cond-a",
            "state": states.DEPLOYING,
        },
    ]


def test_history_can_be_switched_off_but_not_the_last_error(
    conductor: Conductor, make_node: MakeNode
) -> None:
    CONF.set_override("node_history", False, group="conductor")
    node = make_node()
    with acquire(conductor, node) as task:
        task.history("broken", "deploying")
        task.save()
    assert stored(node).last_error == "broken"
    assert list(history.select(["event"], {"node_id": node.id})) == []


# Events


def test_event_moves_state_and_target_in_one_save(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.DEPLOYING, last_error="old")
    with acquire(conductor, node) as task:
        with session.count_statements() as seen:
            task.event("wait")
        assert seen.count == 1
    assert stored(node).provision_state == states.DEPLOYWAIT
    assert stored(node).target_provision_state == states.ACTIVE
    assert stored(node).last_error == "old"
    with acquire(conductor, node) as task:
        task.event("fail", last_error="new")
    assert stored(node).last_error == "new"


def test_stable_state_has_no_target(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(states.DEPLOYING)
    with acquire(conductor, node) as task:
        task.event("done")
    assert stored(node).provision_state == states.ACTIVE
    assert stored(node).target_provision_state is None


def test_explicit_target_wins(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(states.MANAGEABLE)
    with acquire(conductor, node) as task:
        task.event("clean", target_state=states.MANAGEABLE)
    assert stored(node).target_provision_state == states.MANAGEABLE


def test_illegal_event_changes_nothing(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(states.AVAILABLE)
    with acquire(conductor, node) as task:
        with pytest.raises(errors.InvalidState, match="'done' is not possible"):
            task.event("done")
        assert task.node.provision_state == states.AVAILABLE
    assert stored(node).provision_state == states.AVAILABLE


def test_event_needs_the_exclusive_lock(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(states.AVAILABLE)
    with acquire(conductor, node, shared=True) as task, pytest.raises(errors.ExclusiveLockRequired):
        task.event("deploy")


def test_event_that_cannot_be_saved_is_undone_in_memory(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.AVAILABLE, last_error="old")
    with acquire(conductor, node) as task:
        nodes.release(node.id, "cond-a")
        with pytest.raises(errors.LockLost):
            task.event("deploy", callback=lambda: None)
        assert task.node.provision_state == states.AVAILABLE
        assert task.node.last_error == "old"
    assert stored(node).provision_state == states.AVAILABLE


# Workers


def test_lock_is_kept_by_the_worker_until_it_ends(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.AVAILABLE, last_error="old")
    gate, running = threading.Event(), threading.Event()
    seen = []

    def work(task: Task, word: str) -> None:
        running.set()
        gate.wait(30)
        seen.append((word, task.node.provision_state, task.context.user_id))
        task.event("done")

    context = RequestContext(user_id="u1", overwrite=False)
    with conductor.tasks.acquire(context, node.uuid) as task:
        task.event("deploy", callback=work, call_args=(task,), call_kwargs={"word": "w"})
    assert running.wait(30)
    assert stored(node).reservation == "cond-a"
    assert stored(node).provision_state == states.DEPLOYING
    assert stored(node).last_error is None
    with pytest.raises(errors.NodeLocked):
        acquire(conductor, node, retry=False)
    gate.set()
    assert conductor.workers.wait(30)
    assert stored(node).reservation is None
    assert stored(node).provision_state == states.ACTIVE
    assert seen == [("w", states.DEPLOYING, "u1")]


def test_worker_is_not_started_when_the_block_fails(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node()
    ran = []
    with pytest.raises(ValueError, match="no"), acquire(conductor, node) as task:
        task.spawn_after(ran.append, 1)
        raise ValueError("no")
    assert conductor.workers.wait(30)
    assert ran == []
    assert stored(node).reservation is None


def test_refused_worker_rolls_back_under_the_lock_and_the_caller_hears_of_it(
    database: None, make_conductor: Callable[..., Conductor], make_node: MakeNode
) -> None:
    small_pools()
    conductor = make_conductor()
    node = make_node(states.AVAILABLE)
    gate = fill(conductor)
    calls = []

    def undo(error: Exception, task: Task, state: str, target: str | None) -> None:
        calls.append((type(error).__name__, state, target, stored(node).reservation))
        task.node.provision_state = state
        task.node.target_provision_state = target
        task.save()

    with (
        pytest.raises(errors.NoFreeConductorWorker),
        acquire(conductor, node) as task,
    ):
        task.event("deploy", callback=lambda: None, error_handler=undo)
    gate.set()
    assert calls == [("NoFreeConductorWorker", states.AVAILABLE, None, "cond-a")]
    assert stored(node).provision_state == states.AVAILABLE
    assert stored(node).reservation is None


def test_error_of_the_roll_back_does_not_hide_the_refusal(
    database: None,
    make_conductor: Callable[..., Conductor],
    make_node: MakeNode,
    caplog: pytest.LogCaptureFixture,
) -> None:
    small_pools()
    conductor = make_conductor()
    node = make_node()
    gate = fill(conductor)

    def undo(error: Exception) -> None:
        raise ValueError("worse")

    with pytest.raises(errors.NoFreeConductorWorker), acquire(conductor, node) as task:
        task.set_spawn_error_hook(undo)
        task.spawn_after(lambda: None)
    gate.set()
    assert "worse" in caplog.text
    assert stored(node).reservation is None


def test_work_not_of_the_api_never_takes_a_reserved_worker(
    database: None, make_conductor: Callable[..., Conductor], make_node: MakeNode
) -> None:
    small_pools()
    conductor = make_conductor()
    node = make_node()
    gate = threading.Event()
    for _ in range(conductor.workers.normal.size):
        conductor.workers.normal.submit(gate.wait, 60)
    with pytest.raises(errors.NoFreeConductorWorker), acquire(conductor, node) as task:
        task.allow_reserved_pool = False
        task.spawn_after(lambda: None)
    with acquire(conductor, node) as task:
        task.spawn_after(lambda: None)
    gate.set()


def test_task_in_a_worker_cannot_be_handed_on(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    caught = []

    def work(task: Task) -> None:
        try:
            task.spawn_after(work)
        except RuntimeError as exc:
            caught.append(exc)

    with acquire(conductor, node) as task:
        task.spawn_after(work, task)
    assert conductor.workers.wait(30)
    assert len(caught) == 1


def crash(conductor: Conductor, node: models.Node, error: Exception, **changes: Any) -> None:
    def work(task: Task) -> None:
        for name, value in changes.items():
            setattr(task.node, name, value)
        raise error

    with acquire(conductor, node) as task:
        task.spawn_after(work, task)
    assert conductor.workers.wait(30)


def test_crash_of_a_worker_is_the_last_error_and_the_lock_is_released(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node()
    crash(conductor, node, KeyError("oops"))
    assert stored(node).reservation is None
    assert stored(node).last_error == "work failed unexpectedly: KeyError: 'oops'"


def test_first_error_is_kept_when_a_worker_crashes(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node()
    crash(conductor, node, errors.RedfishError(error="x"), last_error="the real reason")
    assert stored(node).last_error is None  # nobody saved it, and it is not ours to save
    node = make_node(last_error="the real reason")
    crash(conductor, node, errors.RedfishError(error="x"))
    assert stored(node).last_error == "the real reason"


@pytest.mark.parametrize("state", sorted(states.STUCK_STATES_TREATED_AS_FAIL))
def test_crash_of_a_worker_never_leaves_a_transient_state(
    conductor: Conductor, make_node: MakeNode, state: str
) -> None:
    node = make_node(state, target_power_state=states.POWER_ON)
    crash(conductor, node, errors.RedfishError(error="gone"))
    after = stored(node)
    assert after.provision_state == states.next_state(state, "fail")
    assert after.target_power_state is None
    assert after.reservation is None
    assert "work failed: Redfish exception occurred. Error: gone" in (after.last_error or "")
    assert len(list(history.select(["event"], {"node_id": node.id}))) == 1


def test_crash_in_manual_cleaning_keeps_its_target(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.CLEANING, target_provision_state=states.MANAGEABLE)
    crash(conductor, node, ValueError("x"))
    assert stored(node).provision_state == states.CLEANFAIL
    assert stored(node).target_provision_state == states.MANAGEABLE


def test_worker_may_delete_its_node(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()

    def work(task: Task) -> None:
        nodes.destroy(task.node.id, fence="cond-a")
        task.forget()
        raise ValueError("after the deletion")

    with acquire(conductor, node) as task:
        task.spawn_after(work, task)
    assert conductor.workers.wait(30)
    assert "LockLost" not in caplog.text


# Fences


def steal(node: models.Node, by: str | None = "cond-b") -> None:
    """What other conductors do to a lock of a dead one."""
    nodes.release(node.id, "cond-a")
    if by:
        nodes.reserve(node.id, by)


def test_nothing_is_written_after_the_lock_was_taken_over(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node(states.AVAILABLE)
    with acquire(conductor, node) as task:
        steal(node)
        task.node.extra["a"] = 1
        with pytest.raises(errors.LockLost, match="cond-b"):
            task.save()
        # Once lost it stays lost, whatever happens to the row later.
        nodes.release(node.id, "cond-b")
        nodes.reserve(node.id, "cond-a")
        for action in (
            task.save,
            task.touch,
            task.check_lock,
            task.save_and_release,
            lambda: task.event("deploy"),
            lambda: task.history("x", "y"),
        ):
            with pytest.raises(errors.LockLost):
                action()
    assert stored(node).reservation == "cond-a", "a lost lock is not released"
    assert stored(node).extra == {}
    assert list(history.select(["event"], {"node_id": node.id})) == []


def test_event_and_touch_are_fenced_too(conductor: Conductor, make_node: MakeNode) -> None:
    for action in (
        lambda task: task.event("deploy"),
        lambda task: task.touch(),
        lambda task: task.save_and_release(),
    ):
        node = make_node(states.AVAILABLE)
        with acquire(conductor, node) as task:
            steal(node)
            with pytest.raises(errors.LockLost):
                action(task)
        assert stored(node).provision_state == states.AVAILABLE
        assert stored(node).reservation == "cond-b"


def test_worker_that_lost_its_lock_logs_and_writes_nothing(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node(states.DEPLOYING)

    def work(task: Task) -> None:
        steal(node)
        task.event("done")

    with acquire(conductor, node) as task:
        task.spawn_after(work, task)
    assert conductor.workers.wait(30)
    after = stored(node)
    assert after.provision_state == states.DEPLOYING
    assert after.last_error is None
    assert after.reservation == "cond-b"
    assert "LockLost: the worker on node" in caplog.text
    assert len(conductor.tasks.book) == 0


def test_older_task_of_the_same_host_is_fenced_by_a_newer_one(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()
    old = acquire(conductor, node)
    steal(node, by=None)
    new = acquire(conductor, node, retry=False)
    old.node.extra["from"] = "old"
    with pytest.raises(errors.LockLost, match="newer task"):
        old.save()
    old.release()
    assert stored(node).reservation == "cond-a", "the lock of the newer task"
    new.node.extra["from"] = "new"
    new.save()
    new.release()
    assert stored(node).extra == {"from": "new"}
    assert stored(node).reservation is None
    assert "a new one holds it" in caplog.text


def test_overtaking_a_task_that_lets_go_is_no_loss(
    conductor: Conductor,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The row is free a moment before the book of this process says so."""
    node = make_node()
    overtaking: list[Task] = []
    release = nodes.release

    def overtaken(node_id: int, host: str) -> None:
        release(node_id, host)
        monkeypatch.setattr("ironic_rs.conductor.lock.db_nodes.release", release)
        overtaking.append(acquire(conductor, node, retry=False))

    monkeypatch.setattr("ironic_rs.conductor.lock.db_nodes.release", overtaken)
    acquire(conductor, node).release()
    assert "LockLost" not in caplog.text
    assert conductor.tasks.book.is_holder(node.uuid, overtaking[0])
    assert stored(node).reservation == "cond-a"
    overtaking[0].release()
    assert stored(node).reservation is None
    assert len(conductor.tasks.book) == 0


def test_release_of_a_lost_lock_is_logged_and_touches_nothing(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()
    with acquire(conductor, node):
        steal(node)
    assert "LockLost" in caplog.text
    assert stored(node).reservation == "cond-b"


class TestSelfFence:
    @pytest.fixture
    def clock(self, conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> list[float]:
        now = [conductor.fence.now()]
        monkeypatch.setattr(conductor.fence, "_clock", lambda: now[0])
        conductor.fence.beat(now[0])
        return now

    def test_no_new_work_while_the_heartbeat_is_not_recorded(
        self, conductor: Conductor, make_node: MakeNode, clock: list[float]
    ) -> None:
        node = make_node()
        clock[0] += 61
        with pytest.raises(errors.TemporaryFailure):
            acquire(conductor, node)
        with acquire(conductor, node, shared=True) as task:
            assert task.shared, "reading is harmless"
            with pytest.raises(errors.TemporaryFailure):
                task.upgrade_lock()
        assert stored(node).reservation is None

    def test_saves_are_refused_while_the_heartbeat_is_not_recorded(
        self, conductor: Conductor, make_node: MakeNode, clock: list[float]
    ) -> None:
        node = make_node()
        with acquire(conductor, node) as task:
            clock[0] += 61
            task.node.extra["a"] = 1
            with session.count_statements() as seen:
                with pytest.raises(errors.LockLost, match="heartbeat"):
                    task.save()
                with pytest.raises(errors.LockLost):
                    task.history("x", "y")
            assert seen.count == 0
        assert stored(node).extra == {}

    def test_after_an_interruption_a_lock_that_is_still_ours_works_on(
        self, conductor: Conductor, make_node: MakeNode, clock: list[float]
    ) -> None:
        node = make_node()
        with acquire(conductor, node) as task:
            clock[0] += 61
            conductor.fence.beat(clock[0])
            task.node.extra["a"] = 1
            with session.count_statements() as seen:
                task.save()
            assert seen.count == 2, "it is looked up once"
            task.node.extra["a"] = 2
            with session.count_statements() as seen:
                task.save()
            assert seen.count == 1
        assert stored(node).extra == {"a": 2}

    def test_after_an_interruption_a_lost_lock_is_noticed_before_anything_is_written(
        self, conductor: Conductor, make_node: MakeNode, clock: list[float]
    ) -> None:
        node = make_node()
        with acquire(conductor, node) as task:
            steal(node)
            clock[0] += 61
            conductor.fence.beat(clock[0])
            with pytest.raises(errors.LockLost, match="held by cond-b"):
                task.history("x", "y")
            with pytest.raises(errors.LockLost):
                task.check_lock()
        assert list(history.select(["event"], {"node_id": node.id})) == []

    def test_worker_stopped_by_the_fence_leaves_the_node_locked_for_the_orphan_check(
        self,
        conductor: Conductor,
        make_node: MakeNode,
        clock: list[float],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        node = make_node(states.DEPLOYING)

        def work(task: Task) -> None:
            clock[0] += 61
            task.event("done")

        with acquire(conductor, node) as task:
            task.spawn_after(work, task)
        assert conductor.workers.wait(30)
        assert stored(node).reservation == "cond-a"
        assert stored(node).provision_state == states.DEPLOYING
        assert not conductor.tasks.book.is_held(node.uuid)
        assert "LockLost" in caplog.text


# The database is away


def test_save_outlasts_a_database_that_is_away(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node()
    real = nodes.save
    failures = [errors.ServiceUnavailable("away"), errors.TemporaryFailure("locked")]

    def save(*args: Any, **kwargs: Any) -> None:
        if failures:
            raise failures.pop()
        real(*args, **kwargs)

    monkeypatch.setattr("ironic_rs.conductor.task.db_nodes.save", save)
    monkeypatch.setattr("ironic_rs.conductor.outage.time.sleep", lambda _: None)
    with acquire(conductor, node) as task:
        task.node.extra["a"] = 1
        task.save()
    assert stored(node).extra == {"a": 1}


def test_release_without_an_answer_is_not_repeated_on_the_lock_of_a_newer_task(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node()
    newer: list[Task] = []
    real = nodes.release

    def release(node_id: int, host: str) -> None:
        real(node_id, host)
        if not newer:
            newer.append(acquire(conductor, node, retry=False))
            raise errors.ServiceUnavailable("it may or may not have been stored")

    monkeypatch.setattr("ironic_rs.conductor.lock.db_nodes.release", release)
    monkeypatch.setattr("ironic_rs.conductor.outage.time.sleep", lambda _: None)
    acquire(conductor, node).release()
    assert stored(node).reservation == "cond-a"
    assert conductor.tasks.book.is_holder(node.uuid, newer[0])
    newer[0].release()
    assert stored(node).reservation is None


def test_lock_that_cannot_be_released_is_left_for_the_orphan_check(
    conductor: Conductor,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = make_node()

    def release(*args: Any) -> None:
        raise errors.ServiceUnavailable("away")

    monkeypatch.setattr("ironic_rs.conductor.outage.OUTAGE_SECONDS", 0)
    with acquire(conductor, node), monkeypatch.context() as patch:
        patch.setattr("ironic_rs.conductor.lock.db_nodes.release", release)
        conductor.tasks.book._holders[node.uuid].release()  # type: ignore[attr-defined]
    assert stored(node).reservation == "cond-a"
    assert not conductor.tasks.book.is_held(node.uuid)


# Tasks made otherwise


def test_view_takes_no_statement(conductor: Conductor, make_node: MakeNode) -> None:
    node = nodes.get(make_node().id)
    with session.count_statements() as seen, conductor.tasks.view(admin_context(), node) as task:
        assert task.driver.power.get_power_state(task) == states.POWER_ON
    assert seen.count == 0


def test_adopt_takes_a_lock_of_this_host_that_nobody_holds(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(reservation="cond-a")
    task = conductor.tasks.adopt(admin_context(), node.uuid, node.id)
    assert task is not None
    with task:
        with pytest.raises(errors.NodeLocked):
            acquire(conductor, node, retry=False)
        task.node.extra["a"] = 1
        task.save()
    assert stored(node).reservation is None
    assert stored(node).extra == {"a": 1}


def test_adopt_leaves_locks_in_use_alone(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node()
    with acquire(conductor, node):
        assert conductor.tasks.adopt(admin_context(), node.uuid, node.id) is None
    assert conductor.tasks.adopt(admin_context(), node.uuid, node.id) is None
    foreign = make_node(reservation="cond-b")
    assert conductor.tasks.adopt(admin_context(), foreign.uuid, foreign.id) is None
    assert len(conductor.tasks.book) == 0


def test_purposes_are_logged(
    conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ironic_rs.conductor.lock")
    with acquire(conductor, make_node(), purpose="node update"):
        pass
    assert "locked for: node update" in caplog.text
    assert "s: node update" in caplog.text
