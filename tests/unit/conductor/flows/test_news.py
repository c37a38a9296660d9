"""What the conductor tells of its nodes, by notifications and to Nova."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest

from ironic_rs.conductor.flows import console
from ironic_rs.conductor.periodics import power_sync
from ironic_rs.conf import CONF
from ironic_rs.db import nodes
from ironic_rs.domain import errors, states
from ironic_rs.telemetry.payloads import Payload
from tests.unit.conductor.flowkit import World

INSTANCE = "11111111-1111-4111-8111-111111111111"
Message = tuple[str, str, dict[str, Any]]


class Told:
    """What was sent since the last look, and what Nova was to be told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.messages: list[Message] = []
        self.nova: list[tuple[str, str]] = []
        self.publishers: set[str] = set()

    def look(self) -> list[Message]:
        assert self._world.news.emitter.flush(30)
        found, self.messages[:] = list(self.messages), []
        return found

    def types(self) -> list[str]:
        """Return event types without their beginning, with the level where it is not info."""
        return [
            kind.removeprefix("baremetal.node.") + ("" if level == "INFO" else f" {level}")
            for kind, level, _ in self.look()
        ]


@pytest.fixture
def told(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    made = Told(world)

    def notify(
        self: Any, ctxt: Any, event_type: str, payload: Any, priority: str, *_: Any, **__: Any
    ) -> None:
        made.publishers.add(self.publisher_id)
        made.messages.append((event_type, priority, json.loads(json.dumps(payload))))

    def tell(context: Any, server: str | None, power_state: str | None) -> None:
        if server:
            made.nova.append((server, str(power_state)))

    monkeypatch.setattr(oslo_messaging.Notifier, "_notify", notify)
    monkeypatch.setattr(world.news.nova, "tell", tell)
    CONF.set_override("notification_level", "info")
    CONF.set_override("driver", ["noop"], group="oslo_messaging_notifications")
    yield made
    CONF.clear_override("driver", group="oslo_messaging_notifications")


def data(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = message[2]["ironic_object.data"]
    return found


class TestProvisionState:
    def test_a_flow_tells_of_each_of_its_events(self, world, told):
        node = world.node(states.ENROLL, power_state=None)
        world.driver.power.get_power_state = lambda task: states.POWER_ON
        world.call("do_provisioning_action", node, action="manage")
        messages = told.look()
        assert [message[0].removeprefix("baremetal.node.") for message in messages] == [
            "provision_set.start",
            "provision_set.end",
            "power_state_corrected.success",
        ]
        start, end, corrected = messages
        assert start[2]["ironic_object.name"] == "NodeSetProvisionStatePayload"
        assert start[2]["ironic_object.version"] == "1.18"
        shown = data(start)
        assert (shown["uuid"], shown["event"]) == (node.uuid, "manage")
        assert (shown["provision_state"], shown["target_provision_state"]) == (
            states.VERIFYING,
            states.MANAGEABLE,
        )
        assert shown["previous_provision_state"] == states.ENROLL
        assert shown["previous_target_provision_state"] is None
        assert data(end)["previous_provision_state"] == states.VERIFYING
        assert data(end)["provision_state"] == states.MANAGEABLE
        assert corrected[2]["ironic_object.name"] == "NodeCorrectedPowerStatePayload"
        assert data(corrected)["from_power"] is None
        assert data(corrected)["power_state"] == states.POWER_ON
        assert told.publishers == {"ironic-conductor.host-1"}

    def test_a_failure_is_told_as_an_error(self, world, told):
        node = world.node(states.ENROLL)
        world.driver.power.get_power_state = lambda task: states.POWER_ERROR
        world.call("do_provisioning_action", node, action="manage")
        assert told.types() == ["provision_set.start", "provision_set.error ERROR"]

    def test_steps_between_transient_states_are_a_success(self, world, told):
        node = world.node(states.CLEANING, target_provision_state=states.AVAILABLE)
        with world.task(node) as task:
            task.event("wait")
        assert told.types() == ["provision_set.success"]

    def test_work_that_finds_no_worker_is_not_told(self, world, told):
        node = world.node(states.ENROLL)
        world.workers.full = True
        with pytest.raises(errors.NoFreeConductorWorker):
            world.call("do_provisioning_action", node, action="manage")
        assert told.types() == []

    def test_no_secret_is_in_a_message(self, world, told):
        node = world.node(
            states.MANAGEABLE,
            driver_info={"redfish_password": "canary"},
            instance_info={"configdrive": "canary", "image_url": "http://canary"},
            driver_internal_info={"agent_secret_token": "canary"},
        )
        with world.task(node) as task:
            task.event("inspect")
        (message,) = told.look()
        assert "canary" not in json.dumps(message)
        assert data(message)["driver_internal_info"]["agent_secret_token"] == "******"

    @pytest.mark.parametrize("level", [None, "error"])
    def test_what_nobody_wants_is_not_even_made(self, world, told, monkeypatch, level):
        CONF.set_override("notification_level", level)

        def make(self: Payload, values: Any) -> Any:
            raise AssertionError("a payload was made")

        monkeypatch.setattr(Payload, "make", make)
        node = world.node(states.ENROLL)
        world.call("do_provisioning_action", node, action="manage")
        assert world.read(node).provision_state == states.MANAGEABLE
        assert told.types() == []

    def test_what_can_not_be_told_does_not_break_the_flow(self, world, told, monkeypatch, caplog):
        monkeypatch.setattr(Payload, "make", lambda self, values: 1 / 0)
        node = world.node(states.ENROLL)
        world.call("do_provisioning_action", node, action="manage")
        assert world.read(node).provision_state == states.MANAGEABLE
        assert "can not be told" in caplog.text


class TestPower:
    def call(self, world: World, node: Any, state: str) -> None:
        world.call("change_node_power_state", node, new_state=state)

    def test_an_action_is_told_and_nova_learns_the_new_state(self, world, told):
        node = world.node(states.ACTIVE, instance_uuid=INSTANCE)
        self.call(world, node, states.POWER_OFF)
        messages = told.look()
        assert [message[0] for message in messages] == [
            "baremetal.node.power_set.start",
            "baremetal.node.power_set.end",
        ]
        assert {message[2]["ironic_object.name"] for message in messages} == {
            "NodeSetPowerStatePayload"
        }
        assert [data(message)["to_power"] for message in messages] == [states.POWER_OFF] * 2
        assert [data(message)["power_state"] for message in messages] == [
            states.POWER_ON,
            states.POWER_OFF,
        ]
        assert told.nova == [(INSTANCE, states.POWER_OFF)]

    def test_an_action_that_had_nothing_to_do_ends_without_news_for_nova(self, world, told):
        node = world.node(states.ACTIVE, instance_uuid=INSTANCE)
        self.call(world, node, states.POWER_ON)
        assert told.types() == ["power_set.start", "power_set.end"]
        assert told.nova == []

    def test_a_failed_action(self, world, told, monkeypatch):
        def fail(*args: Any, **kwargs: Any) -> None:
            raise errors.PowerStateFailure("the BMC said no")

        monkeypatch.setattr(world.driver.power, "set_power_state", fail)
        node = world.node(states.ACTIVE, instance_uuid=INSTANCE)
        self.call(world, node, states.POWER_OFF)
        assert told.types() == ["power_set.start", "power_set.error ERROR"]
        assert told.nova == []

    def sync(self, world: World, node: Any, real: str) -> None:
        world.driver.power.get_power_state = lambda task: real
        with world.tasks.view(world.context, nodes.get(node.id)) as task:
            power_sync.PowerSync()._sync(task, hurried=False)

    def test_power_sync_tells_what_it_took_over_once(self, world, told):
        CONF.set_override("force_power_state_during_sync", False, group="conductor")
        node = world.node(states.ACTIVE, instance_uuid=INSTANCE)
        self.sync(world, node, states.POWER_OFF)
        (message,) = told.look()
        assert message[0] == "baremetal.node.power_state_corrected.success"
        assert (data(message)["from_power"], data(message)["power_state"]) == (
            states.POWER_ON,
            states.POWER_OFF,
        )
        assert told.nova == [(INSTANCE, states.POWER_OFF)]
        self.sync(world, node, states.POWER_OFF)
        assert told.types() == []
        assert len(told.nova) == 1

    def test_the_first_state_is_told(self, world, told):
        node = world.node(states.ACTIVE, instance_uuid=INSTANCE, power_state=None)
        self.sync(world, node, states.POWER_ON)
        assert told.types() == ["power_state_corrected.success"]
        assert told.nova == [(INSTANCE, states.POWER_ON)]


class TestConsole:
    def test_a_switch_is_told(self, world, told):
        node = world.node(states.ACTIVE)
        world.call("set_console_mode", node, enabled=True)
        messages = told.look()
        assert [message[0].rpartition("node.")[2] for message in messages] == [
            "console_set.start",
            "console_set.end",
        ]
        assert [data(message)["console_enabled"] for message in messages] == [False, True]
        assert messages[0][2]["ironic_object.name"] == "NodePayload"
        assert world.read(node).console_enabled is True

    def test_a_console_that_does_not_come_back(self, world, told, monkeypatch):
        def fail(task: Any) -> None:
            raise errors.ConsoleError("no port is free")

        monkeypatch.setattr(world.driver.console, "start_console", fail)
        node = world.node(states.ACTIVE, console_enabled=True)
        with world.task(node) as task:
            console.restart(task, "takeover")
            task.save()
        assert told.types() == ["console_restore.start", "console_restore.error ERROR"]
        assert world.read(node).console_enabled is False

    def test_tear_down_and_deletion_stop_it(self, world, told):
        node = world.node(states.ACTIVE, console_enabled=True)
        world.call("do_node_tear_down", node)
        kinds = told.types()
        assert [kind for kind in kinds if kind.startswith("console")] == [
            "console_stop.start",
            "console_stop.end",
        ]
        gone = world.node(states.MANAGEABLE, console_enabled=True)
        world.call("destroy_node", gone)
        assert told.types() == ["console_set.start", "console_set.end"]
