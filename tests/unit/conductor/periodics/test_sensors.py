"""What sensors tell, as notifications."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_messaging.notify import _impl_test

from ironic_rs.conductor.periodics.sensors import SensorReading
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.domain import errors, states
from ironic_rs.telemetry.sensors import of_types

MakeNode = Callable[..., models.Node]

DATA = {
    "Temperature": {"CPU (0x1)": {"Sensor Reading": "40"}},
    "Fan": {"Fan 1": {"Sensor Reading": "9000"}},
}


@pytest.fixture(autouse=True)
def messages(conductor: Conductor) -> Iterator[list[Any]]:
    """What is sent; the driver of the library for tests keeps it."""
    import oslo_messaging

    oslo_messaging.get_notification_transport(CONF, url="fake://")
    from oslo_messaging.notify import notifier

    CONF.register_opts(notifier._notifier_opts, group="oslo_messaging_notifications")
    CONF.set_override("driver", ["test"], group="oslo_messaging_notifications")
    CONF.set_override("transport_url", "fake://", group="oslo_messaging_notifications")
    CONF.set_override("send_sensor_data", True, group="sensor_data")
    CONF.set_override("enable_for_conductor", False, group="sensor_data")
    _impl_test.reset()
    yield _impl_test.NOTIFICATIONS
    _impl_test.reset()


@pytest.fixture
def read(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers of the machines by uuid (an exception is raised), with a default."""
    answers: dict[str, Any] = {"default": DATA}

    def get_sensors_data(self: Any, task: Any) -> Any:
        answer = answers.get(task.node.uuid, answers["default"])
        if isinstance(answer, Exception):
            raise answer
        return answer(task) if callable(answer) else answer

    management = conductor.drivers.enabled("management")["fake"]
    monkeypatch.setattr(type(management), "get_sensors_data", get_sensors_data)
    return answers


def test_message_of_a_node(
    conductor: Conductor, make_node: MakeNode, read: dict[str, Any], messages: list[Any]
) -> None:
    instance = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    node = make_node(states.ACTIVE, name="n1", instance_uuid=instance)
    SensorReading().run(conductor)
    ((_, message, priority, _),) = messages
    assert priority == "INFO"
    assert message["event_type"] == "hardware.fake-hardware.metrics"
    assert message["publisher_id"] == "ironic-conductor.cond-a"
    payload = message["payload"]
    assert set(payload) == {
        "message_id",
        "instance_uuid",
        "node_uuid",
        "node_name",
        "timestamp",
        "event_type",
        "payload",
    }
    assert (payload["node_uuid"], payload["node_name"]) == (node.uuid, "n1")
    assert payload["instance_uuid"] == instance
    assert payload["event_type"] == "hardware.fake-hardware.metrics.update"
    assert payload["payload"] == DATA
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", payload["timestamp"])


def told(messages: list[Any]) -> set[str]:
    return {message["payload"]["node_uuid"] for _, message, _, _ in messages}


def test_only_machines_in_use_unless_all_are_asked_for_and_none_in_maintenance(
    conductor: Conductor, make_node: MakeNode, read: dict[str, Any], messages: list[Any]
) -> None:
    used, idle = make_node(states.ACTIVE), make_node(states.AVAILABLE)
    make_node(states.ACTIVE, maintenance=True)
    SensorReading().run(conductor)
    assert told(messages) == {used.uuid}
    CONF.set_override("enable_for_undeployed_nodes", True, group="sensor_data")
    messages.clear()
    SensorReading().run(conductor)
    assert told(messages) == {used.uuid, idle.uuid}
    CONF.set_override("enable_for_nodes", False, group="sensor_data")
    messages.clear()
    SensorReading().run(conductor)
    assert messages == []


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(["ALL"], DATA), (["all", "x"], DATA), (["fan"], {"Fan": DATA["Fan"]}), (["Power"], {})],
)
def test_types_are_chosen_in_any_case(wanted: list[str], expected: dict[str, Any]) -> None:
    assert of_types(DATA, wanted) == expected


def test_nothing_is_sent_where_nothing_is_left(
    conductor: Conductor, make_node: MakeNode, read: dict[str, Any], messages: list[Any]
) -> None:
    make_node(states.ACTIVE)
    CONF.set_override("data_types", ["Power"], group="sensor_data")
    SensorReading().run(conductor)
    CONF.set_override("data_types", ["ALL"], group="sensor_data")
    read["default"] = {}
    SensorReading().run(conductor)
    assert messages == []


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        (errors.FailedToGetSensorData(node="n", error="no answer"), "WARNING"),
        (ValueError("nonsense"), "WARNING"),
        (errors.UnsupportedDriverExtension(driver="d", extension="sensors"), "DEBUG"),
        (NotImplementedError(), "DEBUG"),
    ],
)
def test_a_machine_that_fails_is_logged_and_holds_up_nobody(
    conductor: Conductor,
    make_node: MakeNode,
    read: dict[str, Any],
    messages: list[Any],
    caplog: pytest.LogCaptureFixture,
    answer: Exception,
    level: str,
) -> None:
    caplog.set_level("DEBUG")
    bad, good = make_node(states.ACTIVE), make_node(states.ACTIVE)
    read[bad.uuid] = answer
    SensorReading().run(conductor)
    assert told(messages) == {good.uuid}
    assert [r.levelname for r in caplog.records if bad.uuid in r.getMessage()] == [level]


def test_as_many_machines_at_a_time_as_the_option_says_and_no_sql_for_each(
    conductor: Conductor, make_node: MakeNode, read: dict[str, Any], messages: list[Any]
) -> None:
    CONF.set_override("workers", 3, group="sensor_data")
    CONF.set_override("hash_ring_reset_interval", 3600)
    all_in = threading.Barrier(3)

    def meet(task: Any) -> Any:
        all_in.wait(60)
        return DATA

    read["default"] = meet
    made = {make_node(states.ACTIVE).uuid for _ in range(9)}
    conductor.ring.host_for("fake-hardware", "", "x")
    with session.count_statements() as seen:
        SensorReading().run(conductor)
    assert told(messages) == made
    assert seen.count == 2


def test_a_reading_that_takes_too_long_leaves_the_rest_to_the_next_one(
    conductor: Conductor,
    make_node: MakeNode,
    read: dict[str, Any],
    messages: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    CONF.set_override("workers", 1, group="sensor_data")
    first, second, third = (make_node(states.ACTIVE) for _ in range(3))
    now = [0.0]
    monkeypatch.setattr("ironic_rs.conductor.periodics.sensors.time.monotonic", lambda: now[0])

    def slow(task: Any) -> Any:
        now[0] += 200
        return DATA

    read["default"] = slow
    reading = SensorReading()
    reading.run(conductor)
    assert [m["payload"]["node_uuid"] for _, m, _, _ in messages] == [first.uuid, second.uuid]
    assert "1 of 3 nodes" in caplog.text
    reading.run(conductor)
    assert messages[2][1]["payload"]["node_uuid"] == third.uuid


def test_no_machine_is_asked_when_nobody_listens(
    conductor: Conductor,
    make_node: MakeNode,
    read: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    CONF.set_override("driver", [], group="oslo_messaging_notifications")
    node = make_node(states.ACTIVE)
    asked = []
    read[node.uuid] = lambda task: asked.append(task) or DATA
    SensorReading().run(conductor)
    assert asked == []
    assert "oslo_messaging_notifications" in caplog.text


def test_message_of_the_conductor(
    make_conductor: Callable[..., Conductor], messages: list[Any]
) -> None:
    CONF.set_override("enable_for_conductor", True, group="sensor_data")
    CONF.set_override("backend", "collector", group="metrics")
    conductor = make_conductor("cond-a")
    conductor.metrics.gauge("ConductorManager.PowerSyncNodesCount", 7)
    SensorReading().run(conductor)
    ((_, message, _, _),) = messages
    assert message["event_type"] == "ironic.metrics"
    payload = message["payload"]
    assert set(payload) == {"message_id", "timestamp", "hostname", "event_type", "payload"}
    assert payload["hostname"] == "cond-a"
    assert payload["event_type"] == "ironic.metrics.update"
    assert payload["payload"] == {
        "ironic.conductor.manager.ConductorManager.PowerSyncNodesCount": {
            "type": "gauge",
            "value": 7,
        }
    }


def test_a_conductor_that_gathers_no_metrics_sends_none(
    conductor: Conductor, messages: list[Any]
) -> None:
    CONF.set_override("enable_for_conductor", True, group="sensor_data")
    SensorReading().run(conductor)
    assert messages == []
