"""What counts as the success of a suite."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.harness.suites import Results

RESULTS = Results({"a.one": "success", "a.two": "failure", "b.one": "skip"}, 1.0, "the log")


def test_a_suite_passes_with_exactly_the_named_differences() -> None:
    RESULTS.check(3, {"a.two": "another text", "b.*": "not for us"})
    assert RESULTS.summary("suite") == "suite: 3 tests in 1 s: 1 failure, 1 skip, 1 success"


@pytest.mark.parametrize(
    ("total", "different", "text"),
    [
        (3, {"a.two": "x"}, "skip: b.one"),
        (3, {"b.one": "x"}, "failure: a.two"),
        (3, {"a.two": "x", "b.one": "x", "a.one": "x"}, "no longer different: a.one"),
        (4, {"a.two": "x", "b.one": "x"}, "3 tests were run, not 4"),
    ],
)
def test_everything_else_fails_it(total: int, different: Mapping[str, str], text: str) -> None:
    with pytest.raises(pytest.fail.Exception, match=text) as caught:
        RESULTS.check(total, different)
    assert "the log" in str(caught.value)
