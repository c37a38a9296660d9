"""The list of all periodic tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.periodics import tasks as periodic_tasks
from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import models
from ironic_rs.domain import states
from ironic_rs.drivers import decorators

MakeNode = Callable[..., models.Node]


#: The specification's table: name, group and option of the interval, its default, and
#: what else switches the task off.
TABLE = [
    ("_clean_up_caches", "conductor.cache_clean_up_interval", 3600, {}),
    ("_sync_power_states", "conductor.sync_power_state_interval", 120, {}),
    ("_power_failure_recovery", "conductor.power_failure_recovery_interval", 300, {}),
    (
        "_check_deploy_timeouts",
        "conductor.check_provision_state_interval",
        60,
        {"conductor.deploy_callback_timeout": 0},
    ),
    ("_check_orphan_nodes", "conductor.check_provision_state_interval", 60, {}),
    (
        "_check_cleanwait_timeouts",
        "conductor.check_provision_state_interval",
        60,
        {"conductor.clean_callback_timeout": 0},
    ),
    (
        "_check_rescuewait_timeouts",
        "conductor.check_rescue_state_interval",
        60,
        {"conductor.rescue_callback_timeout": 0},
    ),
    (
        "_check_servicewait_timeouts",
        "conductor.check_provision_state_interval",
        60,
        {"conductor.service_callback_timeout": 0},
    ),
    (
        "_check_inspect_wait_timeouts",
        "conductor.check_provision_state_interval",
        60,
        {"conductor.inspect_wait_timeout": 0},
    ),
    ("_sync_local_state", "conductor.sync_local_state_interval", 180, {}),
    ("_check_orphan_allocations", "conductor.check_allocations_interval", 60, {}),
    (
        "manage_node_history",
        "conductor.node_history_cleanup_interval",
        86400,
        {
            "conductor.node_history_cleanup_batch_count": 0,
            "conductor.node_history_max_entries": 0,
        },
    ),
    ("cleanup_stale_conductors", "conductor.conductor_cleanup_interval", 86400, {}),
    ("_send_sensor_data", "sensor_data.interval", 600, {"sensor_data.send_sensor_data": False}),
    ("_check_time_in_state", "time_in_state.check_interval", 60, {}),
]
#: Intervals that can not be 0.
ALWAYS_ON = {"conductor.check_rescue_state_interval", "sensor_data.interval"}


def override(option: str, value: Any) -> None:
    group, _, name = option.partition(".")
    CONF.set_override(name, value, group=group)


@pytest.fixture
def with_sensors(database: None) -> None:
    override("sensor_data.send_sensor_data", True)


def test_the_tasks_of_the_conductor_are_those_of_the_table(conductor: Conductor) -> None:
    names = [task.name for task in periodic_tasks.of_conductor()]
    assert sorted(names) == sorted(row[0] for row in TABLE)
    collected = [task.name for task in periodic_tasks.collect(conductor)]
    assert len(collected) == len(set(collected))
    assert collected[: len(names)] == names


@pytest.mark.parametrize(("name", "option", "default", "off"), TABLE, ids=str)
def test_interval_of_a_task_is_its_option_and_0_switches_it_off(
    with_sensors: None, name: str, option: str, default: int, off: dict[str, Any]
) -> None:
    (task,) = (task for task in periodic_tasks.of_conductor() if task.name == name)
    assert task.interval(CONF) == default
    override(option, 77)
    assert task.interval(CONF) == 77
    for switch, value in off.items():
        before = CONF[switch.partition(".")[0]][switch.partition(".")[2]]
        override(switch, value)
        assert task.interval(CONF) == 0
        override(switch, before)
    if option in ALWAYS_ON:
        with pytest.raises(ValueError, match="greater than or equal to 1"):
            override(option, 0)
        return
    override(option, 0)
    assert task.interval(CONF) == 0


def test_sensors_are_read_only_where_it_is_asked_for() -> None:
    (task,) = (t for t in periodic_tasks.of_conductor() if t.name == "_send_sensor_data")
    assert task.interval(CONF) == 0


@pytest.mark.parametrize("option", sorted({row[1] for row in TABLE} - ALWAYS_ON))
def test_only_the_tasks_of_an_option_stop_with_it(with_sensors: None, option: str) -> None:
    override(option, 0)
    off = {task.name for task in periodic_tasks.of_conductor() if task.interval(CONF) == 0}
    assert off == {row[0] for row in TABLE if row[1] == option}


def test_periodics_of_interfaces_run_for_nodes_of_exactly_that_class(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    power = conductor.drivers.enabled("power")["fake"]

    class Special(type(power)):  # type: ignore[misc]
        @decorators.node_periodic(
            "special look", lambda conf: 5, filters={"provision_state": states.ACTIVE}
        )
        def look(self, task: Task) -> None:
            seen.append(task.node.uuid)

    class MoreSpecial(Special):
        pass

    special, more = Special(), MoreSpecial()
    monkeypatch.setattr(conductor.drivers, "all_interfaces", lambda: [special, more, special])
    collected = periodic_tasks.collect(conductor)
    found = [task for task in collected if task.name.endswith(".look")]
    assert [task.name for task in found] == ["Special.look", "MoreSpecial.look"]
    assert found[0].interval(CONF) == 5

    node = make_node(states.ACTIVE)
    make_node(states.AVAILABLE)
    build = conductor.drivers.build

    def with_more(node: models.Node) -> Any:
        driver = build(node)
        driver.power = more
        return driver

    monkeypatch.setattr(conductor.drivers, "build", with_more)
    found[0].run(conductor)
    assert seen == []
    found[1].run(conductor)
    assert seen == [node.uuid]


def test_too_many_tasks_for_the_pool_are_warned_of(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(conductor.workers.normal, "size", 2)
    periodic_tasks.collect(conductor)
    assert "workers_pool_size" in caplog.text
