"""How long a caller waits for a machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ironic_rs.drivers import patience


def test_the_shorter_time_counts_in_the_block_and_in_this_thread_only() -> None:
    assert patience.limit(60) == 60
    with patience.at_most(10), ThreadPoolExecutor(1) as pool:
        assert (patience.limit(60), patience.limit(5)) == (10, 5)
        assert pool.submit(patience.limit, 60).result() == 60
        with patience.at_most(None):
            assert patience.limit(60) == 60
        assert patience.limit(60) == 10
    assert patience.limit(60) == 60


def test_the_caller_hears_whether_anything_was_shortened() -> None:
    with patience.at_most(10) as allowance:
        patience.limit(10)
        assert not allowance.shortened
        patience.limit(11)
        assert allowance.shortened


def test_whether_the_caller_comes_back_is_told_in_the_block_only():
    assert not patience.comes_back()
    with patience.at_most(None, comes_back=True):
        assert patience.comes_back()
        with patience.at_most(10):
            assert not patience.comes_back()
        assert patience.comes_back()
    assert not patience.comes_back()
