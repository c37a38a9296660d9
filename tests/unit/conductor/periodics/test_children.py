"""W01: child nodes take part in every periodic task."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor import recovery
from ironic_rs.conductor.periodics import tasks as periodic_tasks
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes, session
from ironic_rs.domain import states
from ironic_rs.drivers import decorators

MakeNode = Callable[..., models.Node]
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def make_child(make_node: MakeNode) -> MakeNode:
    """Store child nodes that have been in their state for long."""
    parent = make_node(states.MANAGEABLE)

    def make(state: str, **values: Any) -> models.Node:
        node = make_node(state, parent_node=parent.uuid, **values)
        rows = models.Node.__table__
        with session.writer() as connection:
            connection.execute(
                sa.update(rows)
                .where(rows.c.id == node.id)
                .values(provision_updated_at=LONG_AGO, inspection_started_at=LONG_AGO)
            )
        return node

    return make


def run(conductor: Conductor, name: str, times: int = 1) -> None:
    (task,) = (task for task in periodic_tasks.collect(conductor) if task.name == name)
    for _ in range(times):
        task.run(conductor)


@pytest.mark.parametrize(
    ("name", "state", "failed"),
    [
        ("_check_deploy_timeouts", states.DEPLOYWAIT, states.DEPLOYFAIL),
        ("_check_cleanwait_timeouts", states.CLEANWAIT, states.CLEANFAIL),
        ("_check_rescuewait_timeouts", states.RESCUEWAIT, states.RESCUEFAIL),
        ("_check_servicewait_timeouts", states.SERVICEWAIT, states.SERVICEFAIL),
        ("_check_inspect_wait_timeouts", states.INSPECTWAIT, states.INSPECTFAIL),
    ],
)
def test_a_child_that_waits_too_long_fails(
    conductor: Conductor, make_child: MakeNode, name: str, state: str, failed: str
) -> None:
    child = make_child(state)
    run(conductor, name)
    assert nodes.get(child.id).provision_state == failed


def test_power_of_a_child_is_synced(
    conductor: Conductor, make_child: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = make_child(states.MANAGEABLE, power_state=None)
    power = conductor.drivers.enabled("power")["fake"]
    monkeypatch.setattr(type(power), "get_power_state", lambda self, task: states.POWER_OFF)
    run(conductor, "_sync_power_states")
    assert nodes.get(child.id).power_state == states.POWER_OFF


def test_a_child_whose_bmc_is_back_leaves_maintenance(
    conductor: Conductor, make_child: MakeNode
) -> None:
    child = make_child(states.MANAGEABLE, maintenance=True, fault=states.FAULT_POWER)
    run(conductor, "_power_failure_recovery")
    assert nodes.get(child.id).maintenance is False


@pytest.mark.parametrize(
    ("holder", "runs"), [("cond-dead", 1), ("cond-a", 1), (None, 2)], ids=["dead", "own", "nobody"]
)
def test_a_child_without_a_worker_is_settled(
    make_conductor: Callable[..., Conductor],
    make_child: MakeNode,
    holder: str | None,
    runs: int,
) -> None:
    mine = make_conductor("cond-a")
    make_conductor("cond-dead")
    with session.writer() as connection:
        connection.execute(
            sa.text("UPDATE conductors SET updated_at = :at WHERE hostname = 'cond-dead'"),
            {"at": "2020-01-01 00:00:00"},
        )
    mine.ring.reset()
    child = make_child(states.DEPLOYING, reservation=holder)
    run_of = {task.name: task for task in periodic_tasks.collect(mine)}["_check_orphan_nodes"]
    for _ in range(runs):
        run_of.run(mine)
    after = nodes.get(child.id)
    assert (after.provision_state, after.reservation) == (states.DEPLOYFAIL, None)


def test_a_child_with_an_instance_is_taken_over(conductor: Conductor, make_child: MakeNode) -> None:
    child = make_child(states.ACTIVE)
    run(conductor, "_sync_local_state")
    assert nodes.get(child.id).conductor_affinity == conductor.conductor_id


def test_history_of_a_child_is_cut(conductor: Conductor, make_child: MakeNode) -> None:
    child = make_child(states.MANAGEABLE)
    for number in range(3):
        history.create({"node_id": child.id, "event": str(number)})
    CONF.set_override("node_history_max_entries", 1, group="conductor")
    run(conductor, "manage_node_history")
    assert [entry.event for entry in history.of_node(child.id)] == ["2"]


def test_sensors_of_a_child_are_read(
    conductor: Conductor, make_child: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = make_child(states.ACTIVE)
    asked = []

    class Sender:
        goes_anywhere = True

        def __init__(self, conf: Any) -> None: ...
        def conductor(self, host: str, data: Any) -> None: ...
        def node(self, node: models.Node, data: Any) -> None:
            asked.append(node.uuid)

    monkeypatch.setattr("ironic_rs.conductor.periodics.sensors.SensorSender", Sender)
    run(conductor, "_send_sensor_data")
    assert asked == [child.uuid]


def test_consoles_of_children_start_anew(
    conductor: Conductor, make_child: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = make_child(states.ACTIVE, console_enabled=True)
    started = []
    console = conductor.drivers.enabled("console")["fake"]
    monkeypatch.setattr(
        type(console), "start_console", lambda self, task: started.append(task.node.uuid)
    )
    recovery.restart_consoles(conductor)
    assert started == [child.uuid]


def test_a_child_that_stays_too_long_in_its_state_is_told_of(
    conductor: Conductor, make_child: MakeNode
) -> None:
    child = make_child(states.CLEANWAIT)
    run(conductor, "_check_time_in_state")
    (entry,) = history.of_node(child.id)
    assert entry.event_type == "time in state"


def test_periodics_of_drivers_visit_children(
    conductor: Conductor, make_child: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    power = conductor.drivers.enabled("power")["fake"]

    class Watching(type(power)):  # type: ignore[misc]
        @decorators.node_periodic("look", lambda conf: 5, filters={"provision_state": "active"})
        def look(self, task: Any) -> None:
            seen.append(task.node.uuid)

    watching = Watching()
    build = conductor.drivers.build

    def with_watching(node: models.Node) -> Any:
        driver = build(node)
        driver.power = watching
        return driver

    monkeypatch.setattr(conductor.drivers, "all_interfaces", lambda: [watching])
    monkeypatch.setattr(conductor.drivers, "build", with_watching)
    child = make_child(states.ACTIVE)
    run(conductor, "Watching.look")
    assert seen == [child.uuid]
