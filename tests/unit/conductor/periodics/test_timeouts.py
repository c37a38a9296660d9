"""Waits that are over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor.periodics import timeouts
from ironic_rs.conductor.periodics.timeouts import CLEAN, DEPLOY, CallbackTimeout
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes, session
from ironic_rs.domain import errors, states

MakeNode = Callable[..., models.Node]
BOTH = pytest.mark.parametrize("timeout", [DEPLOY, CLEAN], ids=["deploy", "clean"])


def stored(node: models.Node) -> models.Node:
    return nodes.get(node.id)


def waited(node: models.Node, seconds: int) -> None:
    with session.writer() as connection:
        connection.execute(
            sa.text(
                f"UPDATE nodes SET provision_updated_at = datetime('now', '-{seconds} seconds') "
                f"WHERE id = {node.id}"
            )
        )


@BOTH
def test_node_that_waited_too_long_fails_with_the_reason(
    conductor: Conductor, make_node: MakeNode, timeout: CallbackTimeout
) -> None:
    node = make_node(timeout.state)
    waited(node, 1801)
    timeouts.check(conductor, timeout)
    after = stored(node)
    assert after.provision_state == states.next_state(timeout.state, "fail")
    assert after.reservation is None
    assert "Timeout reached while waiting for callback" in (after.last_error or "")
    assert node.uuid in (after.last_error or "")
    assert timeout.option in (after.last_error or "")


@BOTH
@pytest.mark.parametrize(
    ("values", "seconds"),
    [({}, 1700), ({"maintenance": True}, 9999), ({"reservation": "cond-b"}, 9999)],
)
def test_other_nodes_are_left_alone(
    conductor: Conductor,
    make_node: MakeNode,
    timeout: CallbackTimeout,
    values: dict[str, Any],
    seconds: int,
) -> None:
    node = make_node(timeout.state, **values)
    waited(node, seconds)
    timeouts.check(conductor, timeout)
    assert stored(node).provision_state == timeout.state


@BOTH
def test_no_limit(conductor: Conductor, make_node: MakeNode, timeout: CallbackTimeout) -> None:
    CONF.set_override(timeout.option, 0, group="conductor")
    node = make_node(timeout.state)
    waited(node, 999_999)
    timeouts.check(conductor, timeout)
    assert stored(node).provision_state == timeout.state


def test_the_whole_backlog_is_worked_off_in_one_run(
    conductor: Conductor, make_node: MakeNode
) -> None:
    made = [make_node(states.DEPLOYWAIT) for _ in range(25)]
    for node in made:
        waited(node, 1801)
    timeouts.check(conductor, DEPLOY)
    assert {stored(node).provision_state for node in made} == {states.DEPLOYFAIL}


def test_heartbeat_between_the_query_and_the_lock_wins(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(states.DEPLOYWAIT)
    waited(node, 1801)
    reserve = nodes.reserve

    def late_heartbeat(ident: Any, host: str) -> models.Node:
        nodes.touch_provisioning(node.id)
        return reserve(ident, host)

    monkeypatch.setattr("ironic_rs.conductor.lock.db_nodes.reserve", late_heartbeat)
    timeouts.check(conductor, DEPLOY)
    assert stored(node).provision_state == states.DEPLOYWAIT
    assert stored(node).reservation is None


def test_state_that_moved_between_the_query_and_the_lock_is_left_alone(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(states.DEPLOYWAIT)
    waited(node, 1801)
    reserve = nodes.reserve

    def moved(ident: Any, host: str) -> models.Node:
        nodes.update(node, {"provision_state": states.DEPLOYHOLD}, fence=None)
        return reserve(ident, host)

    monkeypatch.setattr("ironic_rs.conductor.lock.db_nodes.reserve", moved)
    timeouts.check(conductor, DEPLOY)
    assert stored(node).provision_state == states.DEPLOYHOLD


def test_manual_cleaning_keeps_its_target(conductor: Conductor, make_node: MakeNode) -> None:
    node = make_node(
        states.CLEANWAIT,
        target_provision_state=states.MANAGEABLE,
        clean_step={"interface": "raid", "step": "create_configuration"},
    )
    waited(node, 1801)
    timeouts.check(conductor, CLEAN)
    after = stored(node)
    assert after.provision_state == states.CLEANFAIL
    assert after.target_provision_state == states.MANAGEABLE
    assert after.fault == states.FAULT_CLEAN
    assert "raid.create_configuration" in (after.last_error or "")


def test_node_whose_driver_cannot_be_loaded_does_not_wait_for_ever(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = make_node(states.DEPLOYWAIT)
    waited(node, 1801)

    def build(node: models.Node) -> Any:
        raise errors.DriverNotFound(driver_name="gone")

    monkeypatch.setattr(conductor.drivers, "build", build)
    timeouts.check(conductor, DEPLOY)
    assert stored(node).provision_state == states.DEPLOYFAIL
    assert "gone" in (stored(node).last_error or "")
