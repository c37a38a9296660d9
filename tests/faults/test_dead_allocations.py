"""kill -9 of conductors while they look for nodes: every allocation gets one.

Source: specification conductor.md section 13.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.cluster import Cluster
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(600)

NUMBER = 6
#: They wait for locked nodes as long as a test lasts, and look for orphans often.
PATIENT = {"conductor": {"node_locked_retry_attempts": 600, "check_allocations_interval": 2}}
#: What holds a node here never ends.
SLOW = {**PATIENT, "fake": {"vendor_delay": 3600}}


def restart(cluster: Cluster, host: str, options: dict[str, Any]) -> None:
    cluster.processes[host].signal(15)
    cluster.processes[host].wait()
    cluster.start_conductor(host, options)


def prepare(cluster: Cluster) -> str:
    """Bring a node of c1 to available."""
    uuid = str(cluster.create("c1", resource_class="gold")["uuid"])
    path = f"/v1/nodes/{uuid}"
    cluster.send("PUT", f"{path}/states/power", {"target": "power off"}, expect=202)
    wait_until(lambda: cluster.node(uuid)["power_state"] == "power off", "it is off")
    cluster.provide(uuid)
    return uuid


@pytest.fixture
def waiting(cluster: Cluster) -> Iterator[list[str]]:
    """Allocations that wait for nodes which c1 holds; yields the uuids of the nodes."""
    nodes = [prepare(cluster) for _ in range(NUMBER)]
    for host, options in (("c1", SLOW), ("c2", PATIENT)):
        restart(cluster, host, options)
    for uuid in nodes:
        wait_until(lambda n=uuid: cluster.node(n)["conductor"] == "c1", "c1 has it back")
        call = f"/v1/nodes/{uuid}/vendor_passthru/second_method"
        cluster.send("POST", call, {"bar": "kazoo"}, expect=202)
        assert cluster.node(uuid)["reservation"] == "c1"
    for _ in nodes:
        cluster.send("POST", "/v1/allocations", {"resource_class": "gold"}, expect=201)
    yield nodes
    for row in allocations(cluster):
        cluster.send("DELETE", f"/v1/allocations/{row['uuid']}", expect=204)
    for uuid in nodes:
        cluster.send("DELETE", f"/v1/nodes/{uuid}", expect=204)


def allocations(cluster: Cluster) -> list[dict[str, Any]]:
    return list(cluster.get("/v1/allocations")["allocations"])


def settled(cluster: Cluster) -> bool:
    return all(row["state"] != "allocating" for row in allocations(cluster))


def check(cluster: Cluster, nodes: list[str]) -> None:
    """Each allocation has a node of its own."""
    rows = allocations(cluster)
    assert [row["last_error"] for row in rows] == [None] * NUMBER
    assert {row["node_uuid"] for row in rows} == set(nodes)
    for row in rows:
        node = cluster.node(row["node_uuid"])
        assert (node["instance_uuid"], node["allocation_uuid"]) == (row["uuid"], row["uuid"])
        assert node["reservation"] is None


def test_the_other_conductor_goes_on_with_those_of_a_dead_one(
    cluster: Cluster, waiting: list[str]
) -> None:
    assert {row["state"] for row in allocations(cluster)} == {"allocating"}
    cluster.processes["c1"].kill()
    wait_until(lambda: settled(cluster), "all allocations are settled")
    check(cluster, waiting)
    cluster.start_conductor("c1")


def test_after_the_death_of_all_the_first_one_that_is_back_goes_on(
    cluster: Cluster, waiting: list[str]
) -> None:
    for host in ("c1", "c2"):
        cluster.processes[host].kill()
    assert {row["state"] for row in allocations(cluster)} == {"allocating"}
    cluster.start_conductor("c1", PATIENT)
    wait_until(lambda: settled(cluster), "all allocations are settled")
    check(cluster, waiting)
    cluster.start_conductor("c2")
