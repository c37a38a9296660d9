"""SIGTERM while machines are being deployed (W07, K17/114)."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.harness.cluster import Cluster
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(600)

DEPLOYS = 10


def test_w07_running_deployments_end_and_no_new_work_is_taken(cluster: Cluster) -> None:
    for host in ("c1", "c2"):
        cluster.processes[host].signal(signal.SIGTERM)
        assert cluster.processes[host].wait() == 0
    only = cluster.start_conductor("c1", {"fake": {"deploy_delay": 8}})
    nodes = [cluster.create()["uuid"] for _ in range(DEPLOYS + 1)]
    *busy, idle = nodes
    with ThreadPoolExecutor(DEPLOYS) as users:
        list(users.map(cluster.provide, nodes))
        list(users.map(lambda node: cluster.provision(node, "active"), busy))

    def running() -> set[str]:
        listed = cluster.get("/v1/nodes", fields="uuid,reservation")["nodes"]
        return {node["uuid"] for node in listed if node["reservation"] == "c1"}

    wait_until(lambda: running() >= set(busy), "all deployments run")

    only.signal(signal.SIGTERM)
    cluster.wait_conductor("c1", alive=False)
    refused = cluster.send("PUT", f"/v1/nodes/{idle}/states/provision", {"target": "active"})
    status = only.wait()

    assert refused.status_code in (404, 503), refused.text
    assert status == 0
    for node in busy:
        record = cluster.node(node)
        assert (record["provision_state"], record["reservation"]) == ("active", None)
    assert cluster.node(idle)["provision_state"] == "available"
    cluster.start_conductor("c1")
    cluster.provision(idle, "active")
    cluster.wait_state(idle, "active")
