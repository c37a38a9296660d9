"""A conductor that was frozen past the time-out writes nothing to what it lost (W10, W42)."""

from __future__ import annotations

import signal

import pytest

from tests.harness.cluster import Cluster
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(600)


def test_w42_a_frozen_conductor_writes_nothing_to_the_nodes_that_it_lost(cluster: Cluster) -> None:
    cluster.processes["c1"].signal(signal.SIGTERM)
    assert cluster.processes["c1"].wait() == 0
    victim = cluster.start_conductor("c1", {"fake": {"deploy_delay": 3}})
    node = cluster.create("c1")["uuid"]
    cluster.provide(node)
    cluster.provision(node, "active")
    wait_until(lambda: cluster.node(node)["provision_state"] == "deploying", "it deploys")

    victim.signal(signal.SIGSTOP)
    lost = cluster.wait_state(node, "deploy failed")
    victim.signal(signal.SIGCONT)

    wait_until(
        lambda: any("LockLost" in line and node in line for line in victim.text().splitlines()),
        "the worker of the frozen conductor notices that its lock is lost",
    )
    cluster.wait_conductor("c1")
    now = cluster.node(node)
    assert now == lost
    # It is a conductor like any other again.
    cluster.provide(cluster.create("c1")["uuid"])
