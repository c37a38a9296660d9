"""Health, vendor and boot mode are remembered by the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.periodics import observed
from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.rpc.context import admin_context

MakeNode = Callable[..., models.Node]


class Management:
    """Answers of the management interface; errors are raised."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "get_node_health": "OK",
            "detect_vendor": "Example",
            "get_boot_mode": "uefi",
            "get_secure_boot_state": True,
        }
        self.asked: list[str] = []

    def ask(self, name: str) -> Any:
        self.asked.append(name)
        answer = self.answers[name]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def management(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> Management:
    management = Management()
    interface = conductor.drivers.enabled("management")["fake"]
    for name in management.answers:
        monkeypatch.setattr(interface, name, lambda task, name=name: management.ask(name))
    return management


def look(conductor: Conductor, node: models.Node) -> models.Node:
    with conductor.tasks.view(admin_context(), nodes.get(node.id)) as task:
        observed.remember(task)
    return nodes.get(node.id)


def test_everything_is_recorded_once(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    node = look(conductor, make_node(states.ACTIVE))
    assert (node.health, node.boot_mode, node.secure_boot) == ("OK", "uefi", True)
    assert node.properties == {"vendor": "Example"}
    assert node.reservation is None
    management.asked.clear()
    record = nodes.get(node.id)
    with session.count_statements() as seen, conductor.tasks.view(admin_context(), record) as task:
        observed.remember(task)
    assert seen.count == 0
    assert management.asked == ["get_node_health", "get_boot_mode"]


def test_change_of_health_is_in_the_history_and_no_error(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    node = look(conductor, make_node(states.ACTIVE))
    management.answers["get_node_health"] = "Critical"
    node = look(conductor, node)
    assert node.health == "Critical"
    assert node.last_error is None
    rows = history.select(["event", "event_type", "severity"], {"node_id": node.id})
    assert [tuple(dict(row).values()) for row in rows] == [
        ("Health changed from unknown to OK", "monitoring", "INFO"),
        ("Health changed from OK to Critical", "monitoring", "INFO"),
    ]


def test_secure_boot_is_read_again_when_the_boot_mode_changed(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    node = look(conductor, make_node(states.ACTIVE))
    management.answers["get_boot_mode"] = "bios"
    management.answers["get_secure_boot_state"] = False
    node = look(conductor, node)
    assert (node.boot_mode, node.secure_boot) == ("bios", False)


def test_vendor_of_the_operator_is_kept(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    node = look(conductor, make_node(states.ACTIVE, properties={"vendor": "mine"}))
    assert node.properties == {"vendor": "mine"}
    assert "detect_vendor" not in management.asked


@pytest.mark.parametrize(
    "error", [errors.RedfishError(error="x"), ValueError("bug"), "unsupported"]
)
def test_what_is_not_told_changes_nothing(
    conductor: Conductor, management: Management, make_node: MakeNode, error: Any
) -> None:
    if error == "unsupported":
        error = errors.UnsupportedDriverExtension(driver="d", extension="e")
    node = make_node(states.ACTIVE, health="OK", boot_mode="bios", secure_boot=True)
    management.answers = dict.fromkeys(management.answers, error)
    after = look(conductor, node)
    assert (after.health, after.boot_mode, after.secure_boot) == ("OK", "bios", True)


def test_strange_health_is_ignored_and_monitoring_can_be_off(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    management.answers["get_node_health"] = "Splendid"
    node = look(conductor, make_node(states.ACTIVE))
    assert node.health is None
    CONF.set_override("enable_health_monitoring", False, group="conductor")
    management.answers["get_node_health"] = "OK"
    assert look(conductor, node).health is None


def test_locked_node_is_left_to_the_next_cycle(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    node = make_node(states.ACTIVE, reservation="cond-b")
    assert look(conductor, node).health is None
    nodes.release(node.id, "cond-b")
    assert look(conductor, node).health == "OK"


def test_power_sync_does_it(
    conductor: Conductor, management: Management, make_node: MakeNode
) -> None:
    node = make_node(states.ACTIVE)
    PowerSync().run(conductor)
    assert nodes.get(node.id).health == "OK"
    assert nodes.get(node.id).power_state == states.POWER_ON
