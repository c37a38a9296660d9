"""Broker and database restart in the middle of a deployment: it ends, never sticks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import servers
from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import OwnServer, wait_until

pytestmark = pytest.mark.timeout(900)

MACHINES = 4
TRANSIENT = ("deploying", "wait call-back")


@pytest.fixture(scope="module")
def place(
    folder: Path, sandbox: Sandbox
) -> Iterator[tuple[Cluster, Sandbox, OwnServer, OwnServer]]:
    """A cluster on a broker and a database of its own."""
    with contextlib.ExitStack() as stack:
        mariadb = stack.enter_context(servers.own_mariadb(folder))
        rabbit = stack.enter_context(servers.own_rabbit(folder))
        database = stack.enter_context(servers.mariadb_database(mariadb.port))
        transport = stack.enter_context(servers.rabbit_vhost(own=rabbit))
        cluster = stack.enter_context(
            running(Cluster(folder, database, transport, sandbox.options()))
        )
        cluster.migrate()
        cluster.start_api()
        for host in ("c1", "c2"):
            cluster.start_conductor(host)
        for machine in sandbox.machines()[:MACHINES]:
            node = sandbox.enroll(cluster, machine)
            cluster.provide(node["uuid"])
        yield cluster, sandbox, mariadb, rabbit


def deploy_all(cluster: Cluster, sandbox: Sandbox) -> list[str]:
    """Start the deployments; returns when they are on their way."""
    nodes = [node["uuid"] for node in cluster.get("/v1/nodes")["nodes"]]
    for node in nodes:
        # The last tear-down has emptied it.
        patch = [{"op": "add", "path": "/instance_info", "value": sandbox.instance_info()}]
        cluster.send("PATCH", f"/v1/nodes/{node}", patch, 200)
        cluster.provision(node, "active")
    wait_until(
        lambda: all(cluster.node(node)["provision_state"] in TRANSIENT for node in nodes),
        "all deployments are on their way",
    )
    return nodes


def end_of(cluster: Cluster, nodes: list[str]) -> dict[str, str]:
    """Wait for the end of each deployment; a failed one must have a reason."""
    ends = {}
    for node in nodes:
        record = cluster.wait_state(node, "active", "deploy failed", timeout=240)
        ends[node] = record["provision_state"]
        assert record["provision_state"] == "active" or record["last_error"]
    return ends


def undeploy(cluster: Cluster, nodes: list[str]) -> None:
    for node in nodes:
        cluster.provision(node, "deleted")
    for node in nodes:
        cluster.wait_state(node, "available", timeout=240)


@pytest.mark.parametrize("which", ["broker", "database"])
def test_deployments_survive_a_restart_of_the(
    which: str, place: tuple[Cluster, Sandbox, OwnServer, OwnServer]
) -> None:
    cluster, sandbox, mariadb, rabbit = place
    server = rabbit if which == "broker" else mariadb
    sandbox.faults(agent_step_seconds=1)
    nodes = deploy_all(cluster, sandbox)

    server.stop()
    server.start()

    for host in ("c1", "c2"):
        cluster.wait_conductor(host)
    ends = end_of(cluster, nodes)
    print(f"{which}: {ends}")
    sandbox.heal()
    undeploy(cluster, nodes)
