"""Runs the declarative tests: each file of ``gabbits`` is a sequence of requests."""

from __future__ import annotations

import unittest
from pathlib import Path

import pytest
from gabbi import driver

from tests.functional.api import fixtures

GABBITS = Path(__file__).parent / "gabbits"


@pytest.mark.parametrize("name", sorted(path.stem for path in GABBITS.glob("*.yaml")))
def test_exchanges(name: str, empty_database: Path) -> None:
    fixtures.Current.empty_database = empty_database
    suites = driver.build_tests(
        str(GABBITS),
        unittest.TestLoader(),
        intercept=fixtures.CurrentApplication,
        fixture_module=fixtures,
        response_handlers=[fixtures.FaultHandler],
        test_loader_name="api",
    )
    # gabbi names the class of each request <file>_<request>.
    (suite,) = [s for s in suites if type(s._tests[0]).__name__.startswith(f"{name}_")]
    result = unittest.TestResult()
    suite.run(result)
    problems = [*result.errors, *result.failures]
    assert not problems, "\n\n".join(
        f"{test.test_data['name']}: {text.splitlines()[-1]}\n{getattr(test, 'output', '')}"
        for test, text in problems
    )
    assert result.testsRun
