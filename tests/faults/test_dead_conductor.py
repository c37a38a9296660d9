"""kill -9 of a conductor in the middle of everything: the survivor settles each node.

Source: specification conductor.md sections 6, 7 and 17 (W08, W09), field-cases.md K03.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.harness.cluster import FAST, Cluster, Sandbox
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(900)

#: Fake interfaces that take for ever on the victim, and only there.
SLOW = {"fake": {"deploy_delay": 3600, "vendor_delay": 3600, "inspect_delay": 3600}}

#: What the survivor has to wait for before it may act, seconds.
BOUND = (
    FAST["conductor"]["heartbeat_timeout"]
    + FAST["DEFAULT"]["hash_ring_reset_interval"]
    + FAST["conductor"]["check_provision_state_interval"]
)


@dataclass
class Scene:
    """Nodes of the victim, by the state that the kill found them in."""

    nodes: dict[str, str] = field(default_factory=dict)
    settled: dict[str, float] = field(default_factory=dict)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)


def enroll_on_victim(cluster: Cluster, sandbox: Sandbox, number: int) -> str:
    machine = sandbox.machines()[number]
    while True:
        node = sandbox.enroll(cluster, machine)
        if cluster.node(node["uuid"])["conductor"] == "c1":
            return str(node["uuid"])
        cluster.send("DELETE", f"/v1/nodes/{node['uuid']}", expect=204)


def wait_for(cluster: Cluster, uuid: str, state: str) -> None:
    wait_until(
        lambda: cluster.node(uuid)["provision_state"] == state,
        f"{uuid} is {state}: {cluster.node(uuid)}",
    )


def errors(cluster: Cluster, uuid: str) -> list[str]:
    """Return the errors in the history of a node."""
    history = cluster.get(f"/v1/nodes/{uuid}/history", detail=True)["history"]
    return [row["event"] for row in history if row["severity"] == "ERROR"]


@pytest.fixture(scope="module")
def scene(cluster: Cluster, sandbox: Sandbox) -> Iterator[Scene]:
    """All seven situations at one time; then the victim dies and is not missed."""
    scene = Scene()
    # Power sync clears an error of a power action that is over: not before it is looked at.
    cluster.processes["c2"].signal(15)
    assert cluster.processes["c2"].wait() == 0
    cluster.start_conductor("c2", {"conductor": {"sync_power_state_interval": 3600}})
    machines = [machine["name"] for machine in sandbox.machines()]

    # Nodes of fake hardware become ready while everything is quick.
    for state in ("deploying", "cleaning", "inspecting"):
        scene.nodes[state] = cluster.create("c1")["uuid"]
    cluster.provide(scene.nodes["deploying"])
    cluster.manage(scene.nodes["cleaning"])
    cluster.manage(scene.nodes["inspecting"])
    for number, state in enumerate(("verifying", "powering", "clean wait", "wait call-back")):
        scene.nodes[state] = enroll_on_victim(cluster, sandbox, number)
    cluster.manage(scene.nodes["powering"])
    cluster.manage(scene.nodes["clean wait"])
    cluster.provide(scene.nodes["wait call-back"])

    # The victim comes back slow: the same host name, and nothing ever ends.
    cluster.processes["c1"].signal(15)
    assert cluster.processes["c1"].wait() == 0
    victim = cluster.start_conductor("c1", SLOW)
    wait_until(
        lambda: all(cluster.node(n)["conductor"] == "c1" for n in scene.nodes.values()),
        "the ring gives the nodes back to c1",
    )

    sandbox.faults(machines[0], bmc_delay=20)
    sandbox.faults(machines[1], power_stuck=True)
    sandbox.faults(machines[2], agent_silent=True)
    sandbox.faults(machines[3], agent_silent=True)
    cluster.provision(scene.nodes["deploying"], "active")
    cluster.provision(scene.nodes["cleaning"], "provide")
    cluster.provision(scene.nodes["inspecting"], "inspect")
    cluster.provision(scene.nodes["clean wait"], "provide")
    cluster.provision(scene.nodes["wait call-back"], "active")
    for state in ("deploying", "cleaning", "inspecting", "clean wait", "wait call-back"):
        wait_for(cluster, scene.nodes[state], state)
    power = f"/v1/nodes/{scene.nodes['powering']}/states/power"
    cluster.send("PUT", power, {"target": "power on"}, expect=202)
    wait_until(
        lambda: cluster.node(scene.nodes["powering"])["target_power_state"] == "power on",
        "the power request is on its way",
    )
    cluster.provision(scene.nodes["verifying"], "manage")
    wait_for(cluster, scene.nodes["verifying"], "verifying")
    for state in ("deploying", "cleaning", "inspecting", "verifying", "powering"):
        assert cluster.node(scene.nodes[state])["reservation"] == "c1", state

    victim.kill()
    sandbox.heal()
    killed = time.monotonic()

    def settle() -> bool:
        for state, uuid in scene.nodes.items():
            node = cluster.node(uuid)
            moved = node["provision_state"] != state or state in ("clean wait", "wait call-back")
            if state == "powering":
                moved = node["target_power_state"] is None
            if state not in scene.settled and node["reservation"] is None and moved:
                scene.settled[state] = time.monotonic() - killed
                scene.found[state] = node
        return len(scene.settled) == len(scene.nodes)

    wait_until(settle, f"all are settled, so far {scene.settled}", timeout=BOUND + 60)
    for state, seconds in scene.settled.items():
        print(f"{state}: settled {seconds:.1f} s after the kill (bound {BOUND} s)")
    yield scene


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("deploying", "deploy failed"),
        ("cleaning", "clean failed"),
        ("inspecting", "inspect failed"),
        ("verifying", "enroll"),
        ("powering", "manageable"),
        ("clean wait", "clean wait"),
        ("wait call-back", "wait call-back"),
    ],
)
def test_w09_the_survivor_releases_the_lock_and_settles_the_node(
    scene: Scene, state: str, expected: str
) -> None:
    node = scene.found[state]

    assert node["reservation"] is None
    assert node["provision_state"] == expected


@pytest.mark.parametrize("state", ["deploying", "cleaning", "inspecting", "verifying", "powering"])
def test_an_interrupted_node_says_what_happened(scene: Scene, cluster: Cluster, state: str) -> None:
    assert errors(cluster, scene.nodes[state])
    assert scene.found[state]["last_error"]


def test_a_pending_power_action_is_given_up_not_repeated(scene: Scene, cluster: Cluster) -> None:
    node = cluster.node(scene.nodes["powering"])

    assert node["target_power_state"] is None
    assert "power" in scene.found["powering"]["last_error"]
    assert any("power" in text for text in errors(cluster, scene.nodes["powering"]))


@pytest.mark.parametrize(
    ("state", "expected"), [("clean wait", "available"), ("wait call-back", "active")]
)
def test_a_waiting_node_goes_on_with_the_survivor(
    scene: Scene, cluster: Cluster, sandbox: Sandbox, state: str, expected: str
) -> None:
    name = cluster.node(scene.nodes[state])["name"]
    sandbox.post(f"/machines/{name}/actions/restart-agent")

    cluster.wait_state(scene.nodes[state], expected)


def test_the_failed_nodes_can_be_used_again(scene: Scene, cluster: Cluster) -> None:
    cluster.manage(scene.nodes["verifying"])
    cluster.provision(scene.nodes["deploying"], "deleted")
    cluster.wait_state(scene.nodes["deploying"], "available")


def test_the_restarted_conductor_takes_part_again(scene: Scene, cluster: Cluster) -> None:
    cluster.start_conductor("c1")
    node = cluster.create("c1")

    cluster.provide(node["uuid"])

    assert cluster.node(node["uuid"])["conductor"] == "c1"
