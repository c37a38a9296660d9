"""Nova's driver of this API as a client: ``programs/test_nova_driver.py`` in Nova's environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster
from tests.harness.suites import Environment, stestr

TESTS = 10


@pytest.mark.timeout(1800)
def test_the_driver_of_nova(service: Cluster, tmp_path: Path, tell: Callable[[str], None]) -> None:
    here = Path(__file__).parent
    environment = Environment(here / "nova.txt").make()
    results = stestr(
        environment,
        tmp_path,
        here / "programs",
        here / "programs",
        {"BAREMETAL_URL": service.url, "WORK": str(tmp_path)},
        workers=3,
        timeout=1700,
    )
    tell(results.summary("driver of nova 34.0.0"))
    results.check(TESTS)
