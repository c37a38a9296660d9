"""Worker pools: bounded by what runs, recovering after a burst."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.conductor import workers
from ironic_rs.conductor.workers import BoundedPool, WorkerPools
from ironic_rs.conf import CONF
from ironic_rs.domain import errors


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_submit_runs_the_function_and_returns_its_result() -> None:
    pool = BoundedPool("t", 2)
    assert pool.submit(lambda a, b: a + b, 1, b=2).result(10) == 3


def test_an_exception_of_the_function_is_in_the_future_and_frees_the_worker() -> None:
    pool = BoundedPool("t", 1)

    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        pool.submit(fail).result(10)
    assert pool.wait(10)
    assert pool.submit(lambda: 1).result(10) == 1


def test_no_more_than_size_run_at_a_time_and_none_is_queued(gate: threading.Event) -> None:
    pool = BoundedPool("t", 3)
    futures = [pool.submit(gate.wait) for _ in range(3)]
    with pytest.raises(errors.NoFreeConductorWorker):
        pool.submit(gate.wait)
    gate.set()
    assert all(future.result(10) for future in futures)


def test_pool_accepts_again_after_a_burst_to_the_maximum() -> None:
    pool = BoundedPool("t", 50)
    for _ in range(5):
        gate = threading.Event()
        futures = [pool.submit(gate.wait) for _ in range(50)]
        with pytest.raises(errors.NoFreeConductorWorker):
            pool.submit(gate.wait)
        gate.set()
        for future in futures:
            future.result(10)
        assert pool.wait(10)
    assert pool.threads == 50


def test_idle_threads_end_and_new_ones_start() -> None:
    pool = BoundedPool("t", 20, idle_seconds=0.01)
    gate = threading.Event()
    for _ in range(20):
        pool.submit(gate.wait)
    assert pool.threads == 20
    gate.set()
    assert pool.wait(10)
    gone = threading.Event()
    while pool.threads and not gone.wait(0.01):
        pass
    assert pool.submit(lambda: "again").result(10) == "again"


def test_submissions_racing_with_ending_threads_are_all_run() -> None:
    pool = BoundedPool("t", 4, idle_seconds=0.0005)
    done = []
    lock = threading.Lock()

    def work() -> None:
        with lock:
            done.append(1)

    accepted = 0
    for _ in range(400):
        try:
            pool.submit(work)
            accepted += 1
        except errors.NoFreeConductorWorker:
            assert pool.wait(10)
    assert pool.wait(10)
    assert len(done) == accepted


def test_closed_pool_refuses_new_work_and_lets_running_work_end(gate: threading.Event) -> None:
    pool = BoundedPool("t", 3)
    future = pool.submit(gate.wait)
    pool.submit(lambda: None).result(10)
    pool.close()
    with pytest.raises(errors.NoFreeConductorWorker):
        pool.submit(lambda: None)
    assert not pool.wait(0)
    gate.set()
    assert pool.wait(10)
    assert future.result(10)


def make(total: int, percentage: int, workers: int = 8) -> WorkerPools:
    CONF.set_override("workers_pool_size", total, group="conductor")
    CONF.set_override("reserved_workers_pool_percentage", percentage, group="conductor")
    CONF.set_override("sync_power_state_workers", workers, group="conductor")
    CONF.set_override("periodic_max_workers", workers, group="conductor")
    return WorkerPools(CONF)


@pytest.fixture(autouse=True)
def _defaults() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    yield
    CONF.reset()
    CONF.clear()


@pytest.mark.parametrize(
    ("total", "percentage", "normal", "reserved"),
    [(300, 5, 285, 15), (300, 0, 300, None), (28, 5, 27, 1), (39, 5, 38, 1), (100, 50, 50, 50)],
)
def test_sizes_of_the_pools(total: int, percentage: int, normal: int, reserved: int | None) -> None:
    pools = make(total, percentage)
    assert pools.normal.size == normal
    assert (pools.reserved.size if pools.reserved else None) == reserved


@pytest.mark.parametrize(
    ("total", "found"), [(300, 32), (100, 32), (51, 32), (50, 31), (40, 21), (27, 8), (26, 7)]
)
def test_power_sync_has_as_many_workers_as_the_pool_has_room_for(total: int, found: int) -> None:
    CONF.set_override("workers_pool_size", total, group="conductor")
    CONF.set_override("reserved_workers_pool_percentage", 0, group="conductor")
    if found < 8:
        with pytest.raises(errors.IncorrectConfiguration, match="more than 26"):
            WorkerPools(CONF)
        return
    assert WorkerPools(CONF).sync_workers == found


def test_pool_too_small_for_the_periodic_work_is_refused_with_the_numbers() -> None:
    with pytest.raises(errors.IncorrectConfiguration, match="workers_pool_size = 26"):
        make(26, 0)
    assert make(27, 0).normal.size == 27


def test_one_reserved_worker_works(gate: threading.Event) -> None:
    pools = make(7, 15, workers=1)
    assert pools.reserved is not None
    assert pools.reserved.size == 1
    for _ in range(6):
        pools.normal.submit(gate.wait)
    assert pools.submit(lambda: "reserved").result(10) == "reserved"


def test_reserved_pool_only_for_work_that_may_use_it(gate: threading.Event) -> None:
    pools = make(8, 25, workers=1)
    for _ in range(6):
        pools.submit(gate.wait, reserved_ok=False)
    with pytest.raises(errors.NoFreeConductorWorker):
        pools.submit(gate.wait, reserved_ok=False)
    for _ in range(2):
        pools.submit(gate.wait)
    with pytest.raises(errors.NoFreeConductorWorker):
        pools.submit(gate.wait)


def test_each_visits_all_items_with_a_bounded_number_at_a_time() -> None:
    pools = make(20, 0, workers=1)
    lock = threading.Lock()
    now = most = 0
    seen = []
    barrier = threading.Barrier(4, timeout=10)

    def visit(item: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if item < 4:
            barrier.wait()
        with lock:
            seen.append(item)
            now -= 1

    pools.each(range(50), visit, 4)
    assert sorted(seen) == list(range(50))
    assert most == 4


def test_each_goes_on_in_the_calling_thread_when_no_worker_is_free(
    gate: threading.Event,
) -> None:
    pools = make(6, 0, workers=1)
    for _ in range(6):
        pools.submit(gate.wait)
    seen: list[int] = []
    pools.each(range(5), seen.append, 8)
    assert seen == [0, 1, 2, 3, 4]


def test_an_error_of_one_item_does_not_touch_the_others() -> None:
    pools = make(6, 0, workers=1)
    seen: list[int] = []

    def visit(item: int) -> None:
        if item % 2:
            raise errors.NodeLocked(node=item, host="h") if item == 1 else ValueError(item)
        seen.append(item)

    pools.each(range(6), visit, 2)
    assert sorted(seen) == [0, 2, 4]


def test_each_stops_when_told() -> None:
    pools = make(6, 0, workers=1)
    seen: list[int] = []
    pools.each(range(100), seen.append, 1, stop=lambda: len(seen) == 3)
    assert seen == [0, 1, 2]


def test_who_has_patience_leaves_the_last_items_to_their_workers(gate: threading.Event) -> None:
    pools = make(300, 5)
    seen: list[int] = []

    def visit(item: int) -> None:
        if item == 0:
            assert gate.wait(60)
        seen.append(item)

    left = pools.each(range(20), visit, 4, patience=0.0)
    assert sorted(seen)[:1] != [0]
    gate.set()
    for worker in left:
        worker.result(60)
    assert pools.wait(60)
    assert sorted(seen) == list(range(20))


@pytest.mark.parametrize("patience", [None, 60.0])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_more_workers_than_items_are_started(number: int, patience: float | None) -> None:
    pools = make(300, 5)
    seen: list[int] = []
    pools.each(list(range(number)), seen.append, 8, patience=patience)
    assert sorted(seen) == list(range(number))
    assert pools.normal.threads <= number


def test_one_worker_does_what_needs_no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_GROWTH_SECONDS", 600.0)
    pools = make(300, 5)
    seen: list[int] = []
    assert pools.each(iter(range(1000)), seen.append, 32, patience=60.0) == []
    assert seen == list(range(1000))
    assert pools.normal.threads == 1


def test_workers_that_wait_get_company_up_to_the_limit() -> None:
    pools = make(300, 5)
    together = threading.Barrier(12)
    pools.each(range(24), lambda item: together.wait(60), 12, patience=60.0)
    assert pools.normal.threads == 12


def test_to_wait_for_the_items_themselves_starts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    pools = make(300, 5)
    looked, fetching, enough = [], threading.Event(), threading.Event()
    wait = workers.wait

    def count(*args: Any, **kwargs: Any) -> Any:
        assert fetching.wait(60)
        looked.append(pools.normal.threads)
        if len(looked) > 5:
            enough.set()
        return wait(*args, **kwargs)

    def slow() -> Iterator[int]:
        fetching.set()
        assert enough.wait(60)
        yield 1

    monkeypatch.setattr(workers, "wait", count)
    pools.each(slow(), lambda item: None, 8, patience=60.0)
    assert looked[:6] == [1] * 6


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever works on an item is held up by it."""
    monkeypatch.setattr(workers, "HELD_UP_SECONDS", 0.0)
    monkeypatch.setattr(workers, "_LOOK_SECONDS", 0.01)


@pytest.mark.usefixtures("impatient")
def test_items_that_hold_up_their_workers_hold_up_nobody_else(gate: threading.Event) -> None:
    pools = make(300, 5)
    rest = threading.Semaphore(0)

    def visit(item: int) -> None:
        if item < 20:
            assert gate.wait(60)
        else:
            rest.release()

    loop = threading.Thread(target=pools.each, args=(range(40), visit, 4))
    loop.start()
    for _ in range(20):
        assert rest.acquire(timeout=60)
    gate.set()
    loop.join(60)
    assert not loop.is_alive()


@pytest.mark.usefixtures("impatient")
def test_held_up_workers_are_at_most_half_of_the_pool(gate: threading.Event) -> None:
    pools = make(300, 5)
    half = pools.normal.size // 2
    entered = threading.Semaphore(0)

    def visit(item: int) -> None:
        entered.release()
        assert gate.wait(60)

    loop = threading.Thread(target=pools.each, args=(range(300), visit, 4))
    loop.start()
    for _ in range(half):
        assert entered.acquire(timeout=60)
    assert not entered.acquire(timeout=0.1)
    assert pools.normal.threads == half
    gate.set()
    loop.join(60)
    assert not loop.is_alive()


def test_as_many_as_asked_for_when_nobody_is_held_up() -> None:
    pools = make(300, 5)
    pools.each(range(500), lambda item: None, 4)
    assert pools.normal.threads <= 4
