"""Waits that are over."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor.periodics import timeouts
from ironic_rs.conductor.periodics.timeouts import (
    CLEAN,
    DEPLOY,
    INSPECT,
    RESCUE,
    SERVICE,
    TIMEOUTS,
    CallbackTimeout,
)
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes, session
from ironic_rs.domain import errors, states
from tests.unit.conductor.bulk import insert_nodes

LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
MakeNode = Callable[..., models.Node]
EACH = pytest.mark.parametrize("timeout", TIMEOUTS, ids=lambda timeout: timeout.state)


def stored(node: models.Node) -> models.Node:
    return nodes.get(node.id)


def waited(node: models.Node, seconds: int) -> None:
    with session.writer() as connection:
        connection.execute(
            sa.text(
                f"UPDATE nodes SET provision_updated_at = datetime('now', '-{seconds} seconds'), "
                f"inspection_started_at = datetime('now', '-{seconds} seconds') "
                f"WHERE id = {node.id}"
            )
        )


@EACH
def test_a_medium_that_was_not_shown_is_part_of_the_reason(
    conductor: Conductor, make_node: MakeNode, timeout: CallbackTimeout
) -> None:
    slot = "/redfish/v1/Systems/1/VirtualMedia/Cd"
    node = make_node(timeout.state, driver_internal_info={"boot_medium_not_shown": slot})
    waited(node, 1801)
    timeouts.check(conductor, timeout)
    assert f"last seen as not inserted in {slot}" in (stored(node).last_error or "")


@EACH
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
    failed = states.STATES[after.provision_state]
    assert after.target_provision_state == failed.target
    (entry,) = history.of_node(node.id)
    assert entry.severity == "ERROR"


@EACH
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


@EACH
def test_no_limit(conductor: Conductor, make_node: MakeNode, timeout: CallbackTimeout) -> None:
    CONF.set_override(timeout.option, 0, group="conductor")
    node = make_node(timeout.state)
    waited(node, 999_999)
    timeouts.check(conductor, timeout)
    assert stored(node).provision_state == timeout.state


@EACH
def test_the_whole_backlog_is_worked_off_in_one_run(
    conductor: Conductor, timeout: CallbackTimeout
) -> None:
    """W39: not eight nodes a minute."""
    insert_nodes(
        {
            "driver": "fake-hardware",
            "provision_state": timeout.state,
            "target_provision_state": states.STATES[timeout.state].target,
            "provision_updated_at": LONG_AGO,
            "inspection_started_at": LONG_AGO,
            "driver_info": {"number": number},
        }
        for number in range(100)
    )
    timeouts.check(conductor, timeout)
    rows = nodes.select(["provision_state", "reservation"])
    assert {(row["provision_state"], row["reservation"]) for row in rows} == {
        (states.next_state(timeout.state, "fail"), None)
    }


@EACH
def test_oldest_first_and_never_more_at_a_time_than_the_option_says(
    conductor: Conductor,
    make_node: MakeNode,
    timeout: CallbackTimeout,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    CONF.set_override("periodic_max_workers", 1, group="conductor")
    for number in range(4):
        waited(make_node(timeout.state), 2000 + 60 * number)
    order = []
    reserve = nodes.reserve

    def note(ident: Any, host: str) -> models.Node:
        node = reserve(ident, host)
        order.append(node.id)
        return node

    monkeypatch.setattr("ironic_rs.conductor.lock.db_nodes.reserve", note)
    timeouts.check(conductor, timeout)
    assert order == [4, 3, 2, 1]


def test_a_machine_that_hangs_holds_up_nobody_else(
    conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, *others = [make_node(states.RESCUEWAIT) for _ in range(20)]
    for node in (stuck, *others):
        waited(node, 1801)
    gate, rest = threading.Event(), threading.Semaphore(0)

    def clean_up(self: Any, task: Any) -> None:
        if task.node.id == stuck.id:
            assert gate.wait(60)
        else:
            rest.release()

    rescue = conductor.drivers.enabled("rescue")["fake"]
    monkeypatch.setattr(type(rescue), "clean_up", clean_up)
    run = threading.Thread(target=timeouts.check, args=(conductor, RESCUE))
    run.start()
    try:
        for _ in others:
            assert rest.acquire(timeout=60)
    finally:
        gate.set()
        run.join(60)
    assert {stored(node).provision_state for node in (stuck, *others)} == {states.RESCUEFAIL}


def test_rescue_that_never_came_is_powered_off_and_its_password_forgotten(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(
        states.RESCUEWAIT,
        driver_internal_info={"agent_url": "https://192.0.2.1:9999"},
        instance_info={"rescue_password": "secret", "image_source": "x"},
    )
    waited(node, 1801)
    timeouts.check(conductor, RESCUE)
    after = stored(node)
    assert (after.provision_state, after.target_provision_state) == (
        states.RESCUEFAIL,
        states.RESCUE,
    )
    assert after.power_state == states.POWER_OFF
    assert "agent_url" not in after.driver_internal_info


def test_servicing_that_hangs_in_a_step_puts_the_node_into_maintenance(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.SERVICEWAIT, service_step={"interface": "raid", "step": "apply"})
    waited(node, 1801)
    timeouts.check(conductor, SERVICE)
    after = stored(node)
    assert (after.provision_state, after.target_provision_state) == (
        states.SERVICEFAIL,
        states.ACTIVE,
    )
    assert (after.maintenance, after.fault) == (True, states.FAULT_SERVICE)
    assert "raid.apply" in (after.last_error or "")
    assert after.service_step == {}


def test_inspection_is_measured_from_its_start_and_forgets_it(
    conductor: Conductor, make_node: MakeNode
) -> None:
    node = make_node(states.INSPECTWAIT)
    waited(node, 1801)
    # Something else wrote the state since: that is no sign of the ramdisk.
    nodes.touch_provisioning(node.id)
    timeouts.check(conductor, INSPECT)
    after = stored(node)
    assert after.provision_state == states.INSPECTFAIL
    assert after.inspection_started_at is None
    assert "inspection ramdisk" in (after.last_error or "")


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
