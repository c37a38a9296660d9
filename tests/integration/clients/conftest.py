"""One service and one machine for all tests of clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openstack
import pytest
from openstack.connection import Connection

from tests.harness.client import Baremetal
from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import wait_until

#: Small, so that clients have to follow the links to further pages.
PAGE = 4


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running(Sandbox(tmp_path_factory.mktemp("sandbox"), 1)) as fleet:
        fleet.start()
        yield fleet


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Iterator[Cluster]:
    folder: Path = tmp_path_factory.mktemp("service")
    options = sandbox.options()
    options["api"]["max_limit"] = PAGE
    database = f"sqlite:///{folder}/ironic.sqlite"
    with running(Cluster(folder, database, "fake://", options)) as cluster:
        cluster.migrate()
        cluster.start_all_in_one()
        yield cluster


@pytest.fixture
def page() -> int:
    """How many rows the service answers at most."""
    return PAGE


@pytest.fixture
def cluster(service: Cluster) -> Iterator[Cluster]:
    """The service, without nodes and chassis before and after each test."""
    yield service
    query = {"include_children": True, "fields": "uuid,parent_node"}
    while nodes := service.get("/v1/nodes", **query)["nodes"]:
        for node in sorted(nodes, key=lambda node: node["parent_node"] is None):
            path = f"/v1/nodes/{node['uuid']}"
            wait_until(lambda p=path: service.get(p)["reservation"] is None, "the lock is free")
            service.send("PUT", f"{path}/maintenance", expect=202)
            service.send("DELETE", path, expect=204)
    for name in ("chassis", "deploy_templates", "runbooks", "inspection_rules"):
        while rows := service.get(f"/v1/{name}")[name]:
            for row in rows:
                service.send("DELETE", f"/v1/{name}/{row['uuid']}", expect=204)


@pytest.fixture
def cli(cluster: Cluster) -> Baremetal:
    return Baremetal(cluster.url)


@pytest.fixture(scope="package")
def connection(service: Cluster) -> Connection:
    return openstack.connect(
        auth_type="none",
        baremetal_endpoint_override=service.url,
        load_yaml_config=False,
        load_envvars=False,
    )


@pytest.fixture
def sdk(connection: Connection, cluster: Cluster) -> Any:
    return connection.baremetal
