"""The functional tests of python-ironicclient, as last released.

They were last part of the source archive 5.4.0; they drive ``openstack baremetal`` of
the client 5.15.0, since 6.0 renamed keys of its output that they read.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster
from tests.harness.suites import Environment, stestr

TESTS = 108


@pytest.mark.timeout(1800)
def test_the_functional_tests_of_ironicclient(
    service: Cluster, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    environment = Environment(Path(__file__).with_name("cli.txt")).make()
    source = environment.sdist("python-ironicclient", "5.4.0")
    config = tmp_path / "test.conf"
    config.write_text(f"[functional]\nauth_strategy = noauth\nironic_url = {service.url}\n")
    # The tests look for the programs of a tox environment below the working directory.
    (tmp_path / ".tox" / "functional").mkdir(parents=True)
    (tmp_path / ".tox" / "functional" / "bin").symlink_to(environment.bin)
    results = stestr(
        environment,
        tmp_path,
        source / "ironicclient" / "tests" / "functional",
        source,
        {"IRONICCLIENT_TEST_CONFIG": str(config)},
        workers=3,
        timeout=1700,
    )
    tell(results.summary("python-ironicclient 5.4.0 functional"))
    results.check(TESTS)
