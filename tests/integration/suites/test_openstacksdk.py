"""The functional tests of openstacksdk, as released."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cluster import Cluster
from tests.harness.suites import Environment, stestr

TESTS = 96
#: The clouds that the tests use, by who they are.
CLOUDS = ("devstack", "devstack-alt", "devstack-admin", "devstack-system-admin")


@pytest.mark.timeout(1800)
def test_the_functional_tests_of_openstacksdk(
    service: Cluster, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    environment = Environment(Path(__file__).with_name("sdk.txt")).make()
    cloud = {
        "auth_type": "none",
        "auth": {"endpoint": service.url},
        "baremetal_endpoint_override": service.url,
        "has_compute": False,
        "has_image": False,
    }
    clouds = tmp_path / "clouds.yaml"
    clouds.write_text(json.dumps({"clouds": dict.fromkeys(CLOUDS, cloud)}))
    results = stestr(
        environment,
        tmp_path,
        environment.packages / "openstack" / "tests" / "functional" / "baremetal",
        environment.packages,
        {"OS_CLIENT_CONFIG_FILE": str(clouds)},
        workers=4,
        timeout=1700,
    )
    tell(results.summary("openstacksdk 4.22.0 functional"))
    results.check(TESTS)
