"""Take-over of nodes with an instance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.periodics.local_state import sync_local_state
from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.db import conductors, models, nodes
from ironic_rs.domain import errors, states

MakeNode = Callable[..., models.Node]


def stored(node: models.Node) -> models.Node:
    return nodes.get(node.id)


@pytest.fixture
def other(conductor: Conductor) -> int:
    """Id of another conductor, which serves nothing."""
    return conductors.register("cond-b", []).id


@pytest.fixture
def prepared(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Uuids of nodes that the deploy interface prepared."""
    seen: list[str] = []
    deploy = conductor.drivers.enabled("deploy")["fake"]
    monkeypatch.setattr(deploy, "prepare", lambda task: seen.append(task.node.uuid))
    return seen


@pytest.mark.parametrize("known", [False, True])
def test_active_node_of_another_conductor_is_prepared_here(
    conductor: Conductor, make_node: MakeNode, prepared: list[str], other: int, known: bool
) -> None:
    node = make_node(states.ACTIVE, conductor_affinity=other if known else None)
    sync_local_state(conductor)
    assert prepared == [node.uuid]
    assert stored(node).conductor_affinity == conductor.conductor_id
    assert stored(node).reservation is None
    sync_local_state(conductor)
    assert prepared == [node.uuid]


@pytest.mark.parametrize(
    "state", [states.RESCUE, states.SERVICEWAIT, states.SERVICEHOLD, states.SERVICEFAIL]
)
def test_other_states_with_an_instance_only_change_their_conductor(
    conductor: Conductor, make_node: MakeNode, prepared: list[str], other: int, state: str
) -> None:
    node = make_node(state, conductor_affinity=other)
    sync_local_state(conductor)
    assert prepared == []
    assert stored(node).conductor_affinity == conductor.conductor_id
    assert stored(node).provision_state == state


@pytest.mark.parametrize(
    ("state", "values"),
    [
        (states.AVAILABLE, {}),
        (states.DEPLOYWAIT, {}),
        (states.ACTIVE, {"maintenance": True}),
        (states.ACTIVE, {"reservation": "cond-b"}),
    ],
)
def test_other_nodes_are_left_alone(
    conductor: Conductor, make_node: MakeNode, other: int, state: str, values: dict[str, Any]
) -> None:
    node = make_node(state, conductor_affinity=other, **values)
    sync_local_state(conductor)
    assert stored(node).conductor_affinity == other


def test_failed_take_over_is_recorded_and_does_not_stop_the_others(
    conductor: Conductor, make_node: MakeNode, other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = make_node(states.ACTIVE, conductor_affinity=other)
    made = [make_node(states.ACTIVE, conductor_affinity=other) for _ in range(20)]
    deploy = conductor.drivers.enabled("deploy")["fake"]

    def prepare(task: Task) -> None:
        if task.node.uuid == bad.uuid:
            raise errors.ImageNotFound(image_id="gone")

    monkeypatch.setattr(deploy, "prepare", prepare)
    sync_local_state(conductor)
    assert {stored(n).conductor_affinity for n in made} == {conductor.conductor_id}
    after = stored(bad)
    assert after.conductor_affinity == other
    assert after.provision_state == states.ACTIVE
    assert "Image gone could not be found" in (after.last_error or "")
    assert after.reservation is None
