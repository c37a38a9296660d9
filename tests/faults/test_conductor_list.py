"""The list of conductors tells the truth: who stopped, who died, who is gone for good.

Source: specification conductor.md sections 7 and 14, field case 23.
"""

from __future__ import annotations

import signal
from typing import Any

import pytest
import sqlalchemy as sa

from tests.harness.cluster import Cluster
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(600)

#: Conductors are removed after a minute, which the least value of the option.
QUICK = {"conductor": {"conductor_cleanup_interval": 1, "conductor_cleanup_timeout": 60}}
#: Nobody else serves the group, so that nobody takes over what it holds.
LONELY = {"conductor": {"conductor_group": "lonely"}, "fake": {"deploy_delay": 3600}}


def alive(cluster: Cluster) -> dict[str, bool]:
    return {row["hostname"]: row["alive"] for row in cluster.get("/v1/conductors")["conductors"]}


def let_time_pass(cluster: Cluster, host: str) -> None:
    """Make the last sign of life of a conductor two minutes old."""
    engine = sa.create_engine(cluster.database)
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE conductors SET updated_at = UTC_TIMESTAMP() - INTERVAL 2 MINUTE "
                "WHERE hostname = :host"
            ),
            {"host": host},
        )
    engine.dispose()


def test_the_list_of_conductors_tells_the_truth(cluster: Cluster) -> None:
    cluster.processes["c1"].signal(signal.SIGTERM)
    assert cluster.processes["c1"].wait() == 0
    cluster.start_conductor("c1", QUICK)
    cluster.start_conductor("c3", LONELY)
    held: dict[str, Any] = cluster.create(conductor_group="lonely")
    cluster.provide(held["uuid"])
    cluster.provision(held["uuid"], "active")
    wait_until(
        lambda: cluster.node(held["uuid"])["reservation"] == "c3", "the deployment holds the node"
    )
    assert alive(cluster) == {"c1": True, "c2": True, "c3": True}

    # A clean stop is seen at once, without any time-out.
    cluster.processes["c2"].signal(signal.SIGTERM)
    assert cluster.processes["c2"].wait() == 0
    assert alive(cluster) == {"c1": True, "c2": False, "c3": True}

    # A death is seen after heartbeat_timeout.
    cluster.processes["c3"].kill()
    wait_until(lambda: not alive(cluster)["c3"], "c3 counts as dead")
    assert alive(cluster) == {"c1": True, "c2": False, "c3": False}

    # After conductor_cleanup_timeout they go, but not who holds a node.
    let_time_pass(cluster, "c2")
    let_time_pass(cluster, "c3")
    wait_until(lambda: "c2" not in alive(cluster), "c2 is removed")
    said = "Conductor c3 is gone and stays in the list while it holds 1 nodes"
    wait_until(lambda: said in cluster.processes["c1"].text(), "c1 says why c3 stays")
    assert alive(cluster) == {"c1": True, "c3": False}
    assert cluster.node(held["uuid"])["reservation"] == "c3"

    # Who comes back is in the list as if nothing had been, and settles what it held.
    cluster.start_conductor("c3", LONELY)
    cluster.start_conductor("c2")
    node = cluster.wait_state(held["uuid"], "deploy failed")
    assert node["reservation"] is None
    assert alive(cluster) == {"c1": True, "c2": True, "c3": True}
