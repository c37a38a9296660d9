"""How long nodes are in their states: told truthfully, measured, and reported once."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor.periodics.time_in_state import EVENT_TYPE, OPTIONS, TimeInState
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF, time_in_state
from ironic_rs.db import history, models, nodes, session
from ironic_rs.db.base import table
from ironic_rs.domain import state_since, states
from ironic_rs.rpc.context import admin_context

MakeNode = Callable[..., models.Node]
PREFIX = "ironic.conductor.manager.ConductorManager."


@pytest.fixture
def conductor(make_conductor: Callable[..., Conductor]) -> Iterator[Conductor]:
    """Return a conductor that gathers its metrics in memory."""
    CONF.set_override("backend", "collector", group="metrics")
    for option in OPTIONS.values():
        CONF.set_override(option, 100, group="time_in_state")
    yield make_conductor()


def since(node: models.Node, seconds: float) -> None:
    """Let the last change of the node's state be so many seconds ago."""
    row = table(models.Node)
    when = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    with session.writer() as connection:
        connection.execute(
            sa.update(row)
            .where(row.c.id == node.id)
            .values(provision_updated_at=when, updated_at=row.c.updated_at)
        )


def reports(node: models.Node) -> list[str]:
    rows = history.select(["event", "event_type"], {"node_id": node.id})
    return [row["event"] for row in rows if row["event_type"] == EVENT_TYPE]


def heartbeat(conductor: Conductor, node: models.Node) -> None:
    """What a heartbeat does to the times of a waiting node."""
    with conductor.tasks.acquire(admin_context(), node.uuid, purpose="heartbeat") as task:
        task.save_and_release(touch=True)


def shown(node: models.Node) -> datetime.datetime | None:
    """Return since when the node is in its state, as its record tells."""
    read = nodes.get(node.id)
    names = ("driver_internal_info", "provision_state", "provision_updated_at", "created_at")
    return state_since.of({name: getattr(read, name) for name in names})


class TestSince:
    def test_signs_of_life_do_not_move_it(self, conductor: Conductor, make_node: MakeNode) -> None:
        node = make_node(states.CLEANWAIT)
        since(node, 1000)
        entered = nodes.get(node.id).provision_updated_at
        for _ in range(3):
            heartbeat(conductor, node)
        read = nodes.get(node.id)
        assert entered is not None
        assert read.provision_updated_at is not None
        assert read.provision_updated_at > entered
        assert shown(node) == entered
        assert read.driver_internal_info[state_since.KEY] == {
            "state": states.CLEANWAIT,
            "time": entered.isoformat(),
        }

    def test_the_next_state_begins_anew(self, conductor: Conductor, make_node: MakeNode) -> None:
        node = make_node(states.CLEANWAIT)
        since(node, 1000)
        heartbeat(conductor, node)
        # Back in the same state: another stay.
        for event in ("resume", "wait"):
            with conductor.tasks.acquire(admin_context(), node.uuid) as task:
                task.event(event)
        read = nodes.get(node.id)
        assert state_since.KEY not in read.driver_internal_info
        assert shown(node) == read.provision_updated_at

    def test_a_sign_of_life_costs_no_statement_more(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(states.CLEANWAIT)
        since(node, 1000)
        task = conductor.tasks.acquire(admin_context(), node.uuid)
        with task, session.count_statements() as seen:
            task.save_and_release(touch=True)
        assert seen.count == 1, seen.statements

    @pytest.mark.parametrize(
        "left_behind",
        [
            {"state": states.DEPLOYWAIT, "time": "2001-01-01T00:00:00+00:00"},
            {"state": states.CLEANWAIT, "time": "yesterday"},
            {"state": states.CLEANWAIT},
            "nonsense",
        ],
    )
    def test_what_makes_no_sense_is_not_believed(
        self, conductor: Conductor, make_node: MakeNode, left_behind: Any
    ) -> None:
        node = make_node(states.CLEANWAIT, driver_internal_info={state_since.KEY: left_behind})
        since(node, 1000)
        assert shown(node) == nodes.get(node.id).provision_updated_at

    def test_a_node_that_never_moved_is_as_old_as_its_record(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(states.ENROLL)
        assert shown(node) == nodes.get(node.id).created_at


class TestReport:
    def test_an_overdue_node_is_reported_once(
        self, conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        node = make_node(
            states.CLEANWAIT,
            reservation="cond-b",
            clean_step={"interface": "deploy", "step": "erase_devices"},
            driver_internal_info={"agent_last_heartbeat": "2026-11-30T01:00:00"},
        )
        since(node, 500)
        look = TimeInState()
        with caplog.at_level(logging.WARNING):
            look.run(conductor)
            look.run(conductor)
        (text,) = reports(node)
        assert caplog.text.count(text) == 1
        for part in (
            str(node.uuid),
            "'clean wait'",
            "100 s that are expected ([time_in_state]clean_wait)",
            "Running step: deploy.erase_devices.",
            "locked by conductor cond-b",
            "last heard of at 2026-11-30T01:00:00",
            "'abort' ends the wait",
        ):
            assert part in text
        (entry,) = history.select(
            ["severity", "state", "duration_seconds", "conductor"], {"node_id": node.id}
        )
        assert (entry["severity"], entry["state"]) == ("INFO", states.CLEANWAIT)
        assert entry["conductor"] == conductor.host
        assert 500 <= entry["duration_seconds"] < 1000
        # It is no error of the node.
        assert nodes.get(node.id).last_error is None

    def test_neither_a_restart_nor_a_take_over_reports_it_again(
        self, make_conductor: Callable[..., Conductor], conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(states.DELETING)
        since(node, 500)
        TimeInState().run(conductor)
        TimeInState().run(conductor)
        assert len(reports(node)) == 1

    def test_a_new_stay_is_reported_again(self, conductor: Conductor, make_node: MakeNode) -> None:
        node = make_node(states.CLEANWAIT)
        since(node, 500)
        look = TimeInState()
        look.run(conductor)
        for event in ("resume", "wait"):
            with conductor.tasks.acquire(admin_context(), node.uuid) as task:
                task.event(event)
        look.run(conductor)
        assert len(reports(node)) == 1
        CONF.set_override("clean_wait", 1, group="time_in_state")
        # The first report is older than the second stay, by the clock of the database.
        row = table(models.NodeHistory)
        with session.writer() as connection:
            long_ago = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
            connection.execute(sa.update(row).values(created_at=long_ago))
        since(node, 400)
        look.run(conductor)
        assert len(reports(node)) == 2

    @pytest.mark.parametrize("state", sorted(set(states.STATES) - states.UNSTABLE))
    def test_a_node_may_rest_as_long_as_it_likes(
        self, conductor: Conductor, make_node: MakeNode, state: str
    ) -> None:
        node = make_node(state)
        since(node, 10**6)
        TimeInState().run(conductor)
        assert reports(node) == []

    @pytest.mark.parametrize("state", sorted(states.UNSTABLE))
    def test_each_transient_state_has_its_own_time(
        self, conductor: Conductor, make_node: MakeNode, state: str
    ) -> None:
        option = OPTIONS[state]
        node = make_node(state)
        since(node, 500)
        CONF.set_override(option, 10_000, group="time_in_state")
        TimeInState().run(conductor)
        CONF.set_override(option, 0, group="time_in_state")
        TimeInState().run(conductor)
        assert reports(node) == []
        CONF.set_override(option, 400, group="time_in_state")
        TimeInState().run(conductor)
        (text,) = reports(node)
        assert f"[time_in_state]{option}" in text

    def test_signs_of_life_do_not_hide_a_node_that_is_overdue(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(states.DEPLOYWAIT)
        since(node, 500)
        heartbeat(conductor, node)
        TimeInState().run(conductor)
        assert len(reports(node)) == 1

    def test_with_the_history_off_the_log_tells_it(
        self, conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        CONF.set_override("node_history", False, group="conductor")
        node = make_node(states.DELETING)
        since(node, 500)
        TimeInState().run(conductor)
        assert reports(node) == []
        assert f"Node {node.uuid} has been in state 'deleting'" in caplog.text


class TestCost:
    def test_one_query_for_all_nodes_and_two_statements_for_all_reports(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        CONF.set_override("hash_ring_reset_interval", 1000)
        look = TimeInState()
        for _ in range(20):
            since(make_node(states.DELETING), 5)
        look.run(conductor)
        with session.count_statements() as quiet:
            look.run(conductor)
        assert quiet.count == 1, quiet.statements
        late = [make_node(states.DEPLOYING) for _ in range(20)]
        for node in late:
            since(node, 500)
        with session.count_statements() as busy:
            look.run(conductor)
        assert busy.count == 3, busy.statements
        assert all(len(reports(node)) == 1 for node in late)
        with session.count_statements() as told:
            look.run(conductor)
        assert told.count == 1, told.statements


def test_the_metrics_tell_how_many_and_how_old(conductor: Conductor, make_node: MakeNode) -> None:
    for seconds in (5, 50):
        since(make_node(states.DEPLOYWAIT), seconds)
    make_node(states.ACTIVE)
    TimeInState().run(conductor)
    found = conductor.metrics.collected()
    assert found[f"{PREFIX}NodesInState.wait_call_back"]["value"] == 2
    assert 50 <= found[f"{PREFIX}OldestInStateSeconds.wait_call_back"]["value"] < 500
    assert found[f"{PREFIX}NodesInState.cleaning"]["value"] == 0
    assert found[f"{PREFIX}OldestInStateSeconds.cleaning"]["value"] == 0
    counted = [name for name in found if name.startswith(f"{PREFIX}NodesInState.")]
    assert len(counted) == len(states.UNSTABLE)


def test_every_transient_state_has_an_expected_time() -> None:
    assert set(OPTIONS) == set(time_in_state.EXPECTED) == set(states.UNSTABLE)
    defaults = {option.dest: option.default for option in time_in_state.OPTS}
    assert all(defaults[option] > 0 for option in OPTIONS.values())
