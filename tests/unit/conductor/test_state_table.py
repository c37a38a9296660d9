"""Each event in each state, on a stored node under its lock.

The table of facts is the specification's (conductor.md section 2), not the product's.
"""

from __future__ import annotations

import datetime
import itertools

import pytest

from ironic_rs.db import history, nodes, session
from ironic_rs.domain import errors, states
from tests.unit.conductor import tablekit

TABLE = tablekit.load("provision_states")
STABLE = [name for name, row in TABLE.items() if row["stable"]]
EVENTS = sorted({event for row in TABLE.values() for event in row["events"]})
LEGAL = [(state, event) for state, row in TABLE.items() for event in row["events"]]
ILLEGAL = [pair for pair in itertools.product(TABLE, EVENTS) if pair not in LEGAL]
LONG_AGO = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)


def stored_node(table, state, **values):
    row = {
        "last_error": "before",
        "provision_updated_at": LONG_AGO,
        "inspection_started_at": LONG_AGO,
        "inspection_finished_at": LONG_AGO,
    }
    return table.node(state, **(row | values))


def target_after(state):
    """Return the target that a node has after it has reached a state."""
    return None if TABLE[state]["stable"] else TABLE[state]["target"]


def inspection_after(old, new):
    """Return which of (started, finished) are set, and whether they moved."""
    if new == "inspecting":
        return ("now", None)
    if old in ("inspecting", "inspect wait") and new == "manageable":
        return (None, "now")
    if old in ("inspecting", "inspect wait") and new == "inspect failed":
        return (None, "as before")
    return ("as before", "as before")


def moment(value):
    if value is None:
        return None
    return "as before" if value == LONG_AGO else "now"


def test_the_table_of_the_product_is_the_one_of_the_specification():
    assert {
        name: {"stable": row.stable, "target": row.target, "events": dict(row.events)}
        for name, row in states.STATES.items()
    } == TABLE
    assert len(TABLE) == 30
    assert len(LEGAL) == 93


SETS = tablekit.load("provision_state_sets")
#: Where a servicing, or a hold, was forgotten in the published sets (field case 63).
FORGOTTEN = {
    "LOOKUP_ALLOWED": {"servicing"},
    "FASTTRACK_LOOKUP_ALLOWED": {"deploy hold", "clean hold"},
    "SYNC_EXCLUDED": {"service wait"},
    "PXE_BOOT_RETRY": {"service wait"},
}


@pytest.mark.parametrize("name", SETS)
def test_the_named_sets_are_those_of_the_specification(name):
    assert getattr(states, name) == set(SETS[name]) | FORGOTTEN.get(name, set())


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_a_legal_event_leads_where_the_table_says(table, state, event):
    world, new = table.world, TABLE[state]["events"][event]
    node = stored_node(table, state)
    with session.count_statements() as seen, world.task(node) as task:
        before = seen.count
        task.event(event)
        assert seen.count - before == 1, "one save"
    stored = world.read(node)
    assert stored.provision_state == new
    assert stored.target_provision_state == target_after(new)
    assert stored.last_error == "before", "kept when nothing is said about it"
    assert stored.provision_updated_at > LONG_AGO
    inspection = (moment(stored.inspection_started_at), moment(stored.inspection_finished_at))
    assert inspection == inspection_after(state, new)
    assert stored.reservation is None
    assert history.select(["event"], {"node_id": node.id}) == []


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_an_event_can_bring_an_error(table, state, event):
    world = table.world
    node = stored_node(table, state)
    with world.task(node) as task:
        task.event(event, last_error="broken")
    assert world.read(node).last_error == "broken"


@pytest.mark.parametrize("error", [None, "broken"])
@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_an_event_with_a_worker_is_saved_before_the_worker_begins(table, state, event, error):
    world, new = table.world, TABLE[state]["events"][event]
    node = stored_node(table, state)
    seen = []

    def work():
        row = world.read(node)
        seen.append((row.provision_state, row.last_error, row.reservation))

    with world.task(node) as task:
        task.event(event, callback=work, last_error=error)
        assert seen == []
    stored = world.read(node)
    assert stored.provision_state == new
    assert stored.target_provision_state == target_after(new)
    assert stored.last_error == error, "cleared unless an error comes with the event"
    assert stored.reservation == world.host, "the worker has the lock"
    table.workers.run()
    assert seen == [(new, error, world.host)]


@pytest.mark.parametrize(("state", "event"), LEGAL)
def test_an_event_without_a_free_worker_is_undone(table, state, event):
    world = table.world
    node = stored_node(table, state)
    told = []
    table.workers.full = True
    with pytest.raises(errors.NoFreeConductorWorker), world.task(node) as task:
        task.event(
            event,
            callback=lambda: None,
            error_handler=lambda exc, held, *old: told.append((held.node.uuid, *old)),
        )
    assert told == [(node.uuid, state, node.target_provision_state)]
    assert world.read(node).reservation is None


@pytest.mark.parametrize(
    ("state", "event"),
    [(old, event) for old, event in LEGAL if not TABLE[TABLE[old]["events"][event]]["stable"]],
)
def test_an_explicit_target_wins_over_the_default(table, state, event):
    world = table.world
    default = TABLE[TABLE[state]["events"][event]]["target"]
    other = "active" if default == "manageable" else "manageable"
    node = stored_node(table, state)
    with world.task(node) as task:
        task.event(event, target_state=other)
    assert world.read(node).target_provision_state == other


@pytest.mark.parametrize("target", [name for name in TABLE if name not in STABLE] + ["deleted"])
def test_a_target_that_is_no_place_to_rest_is_refused(table, target):
    world = table.world
    node = stored_node(table, "manageable")
    before = table.rows()
    with world.task(node) as task, pytest.raises(errors.InvalidState, match="stable"):
        task.event("clean", target_state=target)
    assert table.rows() == before


@pytest.mark.parametrize(("state", "event"), ILLEGAL)
def test_an_illegal_event_changes_nothing(table, state, event):
    world = table.world
    node = stored_node(table, state)
    before = table.rows()
    with world.task(node) as task:
        with pytest.raises(errors.InvalidState, match=f"'{event}'.*'{state}'") as refused:
            task.event(event, callback=lambda: None, last_error="x")
        task.save()
    assert refused.value.code == 409
    assert table.rows() == before
    assert table.workers.kept == []


@pytest.mark.parametrize(
    "values",
    [{"provision_state": "deleted"}, {"target_provision_state": "clean wait"}],
    ids=["unknown state", "target that is not stable"],
)
def test_a_node_that_can_not_be_in_the_table_is_not_taken(table, values):
    node = stored_node(table, "manageable")
    nodes.update(node, values, fence=None)
    before = table.rows()
    with pytest.raises(errors.InvalidState):
        table.world.task(node)
    assert table.rows() == before
