"""What of a conductor is measured."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.periodics.framework import Periodic
from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conductor.periodics.scheduler import Scheduler
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context

PREFIX = "ironic.conductor.manager."


@pytest.fixture
def conductor(make_conductor: Callable[..., Conductor]) -> Conductor:
    """Return a conductor that gathers its metrics in memory."""
    CONF.set_override("backend", "collector", group="metrics")
    return make_conductor()


def first_at_once(least: float, most: float) -> float:
    """Spread only the later runs over their interval."""
    return 0.0 if least < 0.5 else most


def names(conductor: Conductor) -> set[str]:
    return {name.removeprefix(PREFIX) for name in conductor.metrics.collected()}


def test_calls_and_the_work_that_they_start(
    conductor: Conductor, make_node: Callable[..., models.Node]
) -> None:
    node = make_node(states.ENROLL)
    arguments: dict[str, Any] = {"node_id": node.uuid, "action": "manage"}
    conductor.registry.dispatch("do_provisioning_action", admin_context(), arguments)
    assert conductor.workers.wait(30)
    assert names(conductor) == {"ConductorManager.do_provisioning_action", "do_node_verify"}


def test_a_refused_call_is_not_measured(
    conductor: Conductor, make_node: Callable[..., models.Node]
) -> None:
    node = make_node(states.ENROLL)
    with pytest.raises(errors.InvalidStateRequested):
        conductor.registry.dispatch(
            "do_provisioning_action", admin_context(), {"node_id": node.uuid, "action": "provide"}
        )
    assert names(conductor) == set()


def test_periodic_tasks_by_name_or_by_class(conductor: Conductor) -> None:
    ran = threading.Semaphore(0)
    tasks = [
        Periodic(name, lambda conf: 3600, lambda conductor: ran.release())
        for name in ("_sync_power_states", "RedfishRAID.poll")
    ]
    scheduler = Scheduler(conductor, tasks, spread=first_at_once)
    scheduler.start()
    for _ in tasks:
        assert ran.acquire(timeout=30)
    scheduler.stop()
    assert conductor.workers.wait(30)
    late = "ConductorManager.PeriodicLateSeconds"
    assert names(conductor) == {
        "ConductorManager._sync_power_states",
        "RedfishRAID.poll",
        f"{late}._sync_power_states",
        f"{late}.RedfishRAID_poll",
    }


def test_power_sync_tells_how_many_nodes_it_looks_at(
    conductor: Conductor, make_node: Callable[..., models.Node]
) -> None:
    for _ in range(3):
        make_node(states.AVAILABLE)
    PowerSync().run(conductor)
    found = conductor.metrics.collected()
    assert found[f"{PREFIX}ConductorManager.PowerSyncNodesCount"]["value"] == 3
    assert found[f"{PREFIX}do_sync_power_state"]["count"] == 3
