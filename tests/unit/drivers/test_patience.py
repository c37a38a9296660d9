"""How long a caller waits for a machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ironic_rs.drivers import patience


def test_the_shorter_time_counts_in_the_block_and_in_this_thread_only() -> None:
    assert (patience.limit(60), patience.short()) == (60, False)
    with patience.at_most(10), ThreadPoolExecutor(1) as pool:
        assert (patience.limit(60), patience.limit(5), patience.short()) == (10, 5, True)
        assert pool.submit(patience.limit, 60).result() == 60
        with patience.at_most(None):
            assert (patience.limit(60), patience.short()) == (60, False)
        assert patience.limit(60) == 10
    assert patience.limit(60) == 60
