"""Notifications over a real RabbitMQ, as a consumer gets them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import oslo_messaging
import pytest

from ironic_rs.conductor.periodics.sensors import SensorReading
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.domain import states
from ironic_rs.rpc.context import RequestContext
from ironic_rs.telemetry import payloads
from ironic_rs.telemetry.notifications import Emitter
from tests.harness import servers
from tests.unit.conductor.conftest import conductor, database, make_conductor, make_node
from tests.unit.conductor.flowkit import empty_database

__all__ = ["conductor", "database", "empty_database", "make_conductor", "make_node"]

TOPIC = "ironic_versioned_notifications"


@pytest.fixture
def conf() -> Iterator[Any]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("notification_level", "info")
    CONF.set_override("host", "api-1")
    yield CONF
    CONF.reset()
    CONF.clear()


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what the emitters of a test have opened, whose vhost is gone by then.

    Such a connection looks for it for ever, and logs that into the tests that follow.
    """
    opened: list[Any] = []
    get = oslo_messaging.get_notification_transport

    def recorded(*args: Any, **kwargs: Any) -> Any:
        opened.append(get(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(oslo_messaging, "get_notification_transport", recorded)
    yield
    for transport in opened:
        transport.cleanup()


def emitter_for(conf: Any, url: str) -> Emitter:
    made = Emitter(conf, "api")
    conf.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    conf.set_override("transport_url", url, group="oslo_messaging_notifications")
    return made


def receive(url: str, queue: str) -> dict[str, Any]:
    """Take one message from a queue."""
    with kombu.Connection(url.replace("rabbit://", "amqp://")) as connection:
        channel = connection.channel()
        message = servers.wait_until(
            lambda: channel.basic_get(queue, no_ack=True), f"a message is in {queue}"
        )
    inner: dict[str, Any] = json.loads(json.loads(message.body)["oslo.message"])
    return inner


def test_a_consumer_gets_envelope_and_payload(conf: Any) -> None:
    with servers.rabbit_vhost() as url:
        emitter = emitter_for(conf, url)
        context = RequestContext(auth_token="canary", user_id="u")
        payload = payloads.PORT.make({"uuid": "u-1", "address": "52:54:00:00:00:01"})
        emitter.emit("baremetal.port.create.end", "info", payload, context)
        emitter.emit("baremetal.port.create.error", "error", payload, context)
        assert emitter.flush(60)
        info = receive(url, f"{TOPIC}.info")
        error = receive(url, f"{TOPIC}.error")
    assert info["publisher_id"] == "ironic-api.api-1"
    assert (info["event_type"], info["priority"]) == ("baremetal.port.create.end", "INFO")
    assert info["payload"] == payload
    assert (error["event_type"], error["priority"]) == ("baremetal.port.create.error", "ERROR")
    assert "canary" not in json.dumps([info, error])


def test_a_broker_that_comes_back_gets_what_waited(conf: Any, tmp_path: Path) -> None:
    with servers.own_rabbit(tmp_path) as own, servers.rabbit_vhost(own=own) as url:
        emitter = emitter_for(conf, url)
        emitter.emit("baremetal.port.create.start", "info", {"n": -1}, RequestContext())
        assert emitter.flush(60)
        own.stop()
        for number in range(4):
            emitter.emit("baremetal.port.create.end", "info", {"n": number}, RequestContext())
        assert not emitter.flush(0)
        own.start()
        assert emitter.flush(110)
        # The queue itself went with the broker; what was sent since is in the new one.
        numbers = [receive(url, f"{TOPIC}.info")["payload"]["n"] for _ in range(4)]
        assert numbers == [0, 1, 2, 3]


def test_a_consumer_follows_a_node_through_a_flow_of_the_conductor(
    conductor: Conductor,
    make_node: Any,
) -> None:
    node = make_node(states.ENROLL, driver_info={"redfish_password": "canary"})
    with servers.rabbit_vhost() as url:
        CONF.set_override("notification_level", "info")
        for name, value in (("driver", ["messagingv2"]), ("transport_url", url)):
            CONF.set_override(name, value, group="oslo_messaging_notifications")
        try:
            context = RequestContext(auth_token="canary", user_id="u")
            conductor.registry.dispatch(
                "do_provisioning_action", context, {"node_id": node.uuid, "action": "manage"}
            )
            assert conductor.workers.wait(60)
            assert conductor.news.emitter.flush(60)
            start, end = (receive(url, f"{TOPIC}.info") for _ in range(2))
        finally:
            for name in ("driver", "transport_url"):
                CONF.clear_override(name, group="oslo_messaging_notifications")
    assert [one["event_type"] for one in (start, end)] == [
        "baremetal.node.provision_set.start",
        "baremetal.node.provision_set.end",
    ]
    assert start["publisher_id"] == f"ironic-conductor.{conductor.host}"
    shown = end["payload"]["ironic_object.data"]
    assert (shown["uuid"], shown["provision_state"]) == (node.uuid, states.MANAGEABLE)
    assert (shown["event"], shown["previous_provision_state"]) == ("done", states.VERIFYING)
    assert "canary" not in json.dumps([start, end])


@pytest.fixture
def sensors(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the machines of the conductor tell."""
    told: dict[str, Any] = {"Fan": {"1": {"reading": 9000}}}
    management = conductor.drivers.enabled("management")["fake"]
    monkeypatch.setattr(type(management), "get_sensors_data", lambda self, task: told)
    CONF.set_override("send_sensor_data", True, group="sensor_data")
    return told


def test_a_collector_gets_what_sensors_tell(
    conductor: Conductor, make_node: Any, sensors: dict[str, Any]
) -> None:
    node = make_node(states.ACTIVE, name="n1")
    with servers.rabbit_vhost() as url:
        emitter_for(CONF, url)
        SensorReading().run(conductor)
        message = receive(url, "notifications.info")
    assert message["event_type"] == "hardware.fake-hardware.metrics"
    assert message["payload"]["node_uuid"] == node.uuid
    assert message["payload"]["payload"] == sensors
