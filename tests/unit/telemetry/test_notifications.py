"""Notifications never hold anybody up, and never tell a secret."""

from __future__ import annotations

import datetime
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.rpc.context import RequestContext
from ironic_rs.telemetry import payloads
from ironic_rs.telemetry.notifications import Emitter


class Broker:
    """Takes messages once its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.entered = threading.Event()
        self.sent: list[tuple[str, dict[str, Any], str, Any]] = []
        self.failure: Exception | None = None

    def __getattr__(self, level: str) -> Any:
        def send(context: dict[str, Any], event_type: str, payload: Any) -> None:
            self.entered.set()
            self.gate.wait(30)
            if self.failure is not None:
                raise self.failure
            self.sent.append((level, context, event_type, payload))

        return send


@pytest.fixture
def broker() -> Iterator[Broker]:
    made = Broker()
    yield made
    made.gate.set()


@pytest.fixture
def emitter(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Emitter]:
    CONF([], default_config_files=[], default_config_dirs=[])
    made = Emitter(CONF, "api", capacity=3)
    CONF.set_override("notification_level", "info")
    CONF.set_override("driver", ["messagingv2"], group="oslo_messaging_notifications")
    monkeypatch.setattr(Emitter, "_notifier", lambda self: broker)
    yield made
    CONF.reset()
    CONF.clear()


@pytest.mark.parametrize(
    ("lowest", "sent"),
    [
        (None, ()),
        ("debug", ("debug", "info", "warning", "error")),
        ("warning", ("warning", "error")),
        ("critical", ()),
    ],
)
def test_levels(emitter: Emitter, lowest: str | None, sent: tuple[str, ...]) -> None:
    CONF.set_override("notification_level", lowest)
    wanted = [level for level in ("debug", "info", "warning", "error") if emitter.wants(level)]
    assert tuple(wanted) == sent


def test_without_a_driver_nothing_is_wanted(emitter: Emitter) -> None:
    CONF.set_override("driver", [], group="oslo_messaging_notifications")
    assert not emitter.wants("error")


def test_messages_are_sent_in_order_without_the_token(emitter: Emitter, broker: Broker) -> None:
    broker.gate.set()
    context = RequestContext(
        auth_token="canary", user_id="u", request_id="req-1", auth_token_info={"token": "canary"}
    )
    for number in range(3):
        emitter.emit(f"baremetal.x.{number}", "info", {"n": number}, context)
    assert emitter.flush(30)
    assert [message[2] for message in broker.sent] == [f"baremetal.x.{n}" for n in range(3)]
    assert broker.sent[0][1]["user_id"] == "u"
    assert broker.sent[0][1]["request_id"] == "req-1"
    assert "canary" not in repr(broker.sent)


def test_a_broker_that_does_not_answer_holds_nobody_up(
    emitter: Emitter, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    emitter.emit("first", "info", {}, RequestContext())
    assert broker.entered.wait(30)
    # Three wait, the rest is dropped; the calls return although nothing is taken.
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            emitter.emit(f"later.{number}", "info", {}, RequestContext())
    assert "notifications are lost" in caplog.text
    assert caplog.text.count("notifications are lost") == 1
    assert not emitter.flush(0)
    broker.gate.set()
    assert emitter.flush(30)
    assert [message[2] for message in broker.sent] == ["first", "later.0", "later.1", "later.2"]


def test_a_message_that_can_not_be_sent_is_logged_and_the_next_one_goes_out(
    emitter: Emitter, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.gate.set()
    broker.failure = RuntimeError("no broker")
    emitter.emit("lost", "error", {}, RequestContext())
    assert emitter.flush(30)
    assert "lost could not be sent: no broker" in caplog.text
    broker.failure = None
    emitter.emit("kept", "error", {}, RequestContext())
    assert emitter.flush(30)
    assert [message[2] for message in broker.sent] == ["kept"]


# Payloads


def data(payload: payloads.Payload, **values: Any) -> dict[str, Any]:
    made: dict[str, Any] = payload.make(values)["ironic_object.data"]
    return made


def test_the_form_is_that_of_versioned_objects() -> None:
    made = payloads.PORT.make({"uuid": "u", "address": "52:54:00:00:00:01"})
    assert set(made) == {
        "ironic_object.name",
        "ironic_object.namespace",
        "ironic_object.version",
        "ironic_object.data",
    }
    assert made["ironic_object.name"] == "PortCRUDPayload"
    assert (made["ironic_object.namespace"], made["ironic_object.version"]) == ("ironic", "1.8")
    assert made["ironic_object.data"]["address"] == "52:54:00:00:00:01"
    assert made["ironic_object.data"]["name"] is None


@pytest.mark.parametrize(
    "time",
    [
        datetime.datetime(2026, 11, 29, 12, 0, 1, 5, tzinfo=datetime.UTC),
        datetime.datetime(2026, 11, 29, 12, 0, 1),
    ],
)
def test_times_have_whole_seconds_and_a_z(time: datetime.datetime) -> None:
    assert data(payloads.PORT, created_at=time)["created_at"] == "2026-11-29T12:00:01Z"


def test_secrets_are_masked() -> None:
    node = data(
        payloads.NODE_CRUD,
        driver_info={"redfish_password": "canary", "snmp_auth_key": "canary", "address": "a"},
        instance_info={"image_url": "canary", "configdrive": "canary", "x": 1},
        clean_step={"args": {"password": "canary"}},
        extra={"deep": [{"secret_token": "canary"}]},
    )
    assert "canary" not in repr(node)
    assert (node["driver_info"]["address"], node["instance_info"]["x"]) == ("a", 1)
    target = data(payloads.VOLUME_TARGET, properties={"auth_password": "canary"})
    assert list(target["properties"]) == ["redacted_contents"]
    step = {"interface": "deploy", "step": "s", "args": {"password": "canary"}, "order": 1, "id": 7}
    steps = data(payloads.RUNBOOK, steps=[step])["steps"]
    assert steps == [
        {"interface": "deploy", "step": "s", "args": {"password": "******"}, "order": 1}
    ]


def test_a_sensitive_rule_tells_nothing_of_what_it_does() -> None:
    values = {"actions": [{"op": "x"}], "conditions": [{"op": "y"}]}
    open_rule = data(payloads.INSPECTION_RULE, sensitive=False, **values)
    assert open_rule["actions"] == [{"op": "x"}]
    rule = data(payloads.INSPECTION_RULE, sensitive=True, **values)
    assert list(rule["actions"]) == list(rule["conditions"]) == ["redacted_contents"]
