"""The in-process book of locks."""

from __future__ import annotations

import threading

from ironic_rs.conductor.lockbook import LockBook


def test_one_holder_at_a_time() -> None:
    book = LockBook()
    assert book.claim("n", "a")
    assert not book.claim("n", "b")
    assert book.is_holder("n", "a")
    assert not book.is_holder("n", "b")
    book.drop("n", "a")
    assert not book.is_held("n")
    assert book.claim("n", "b")


def test_dropping_what_another_one_holds_does_nothing() -> None:
    book = LockBook()
    book.claim("n", "a")
    book.drop("n", "b")
    book.drop("m", "b")
    assert book.is_holder("n", "a")


def test_hold_by_decision_of_the_database_names_who_lost() -> None:
    book = LockBook()
    assert book.hold("n", "a") is None
    assert book.hold("n", "a") is None
    assert book.hold("n", "b") == "a"
    assert not book.is_holder("n", "a")
    book.drop("n", "a")
    assert book.is_holder("n", "b")


def test_waiters_get_their_turn_in_order() -> None:
    book = LockBook()
    book.claim("n", "first")
    order: list[int] = []
    ready = threading.Semaphore(0)

    def wait(number: int) -> None:
        ready.release()
        assert book.claim("n", number, timeout=30)
        order.append(number)
        book.drop("n", number)

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        ready.acquire()
        while len(book._waiters.get("n", ())) <= number:
            pass
    book.drop("n", "first")
    for thread in threads:
        thread.join(30)
    assert order == [0, 1, 2, 3, 4]
    assert len(book) == 0
    assert not book._waiters


def test_a_waiter_whose_time_is_over_leaves_the_line() -> None:
    book = LockBook()
    book.claim("n", "a")
    assert not book.claim("n", "b", timeout=0.01)
    book.drop("n", "a")
    assert len(book) == 0


def test_wait_empty() -> None:
    book = LockBook()
    assert book.wait_empty(0)
    book.claim("n", "a")
    assert not book.wait_empty(0.01)
    threading.Timer(0.01, book.drop, ("n", "a")).start()
    assert book.wait_empty(30)
