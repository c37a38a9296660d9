"""Each verb of the API in each state, through the RPC method that the API calls.

Which verb is possible where is the specification's table (conductor.md section 2.1,
rest-api.md section 9.3), not the product's.
"""

from __future__ import annotations

import itertools

import pytest

from ironic_rs.db import history
from ironic_rs.domain import steps
from tests.unit.conductor import tablekit
from tests.unit.conductor.flowkit import steps as user_steps

TABLE = tablekit.load("provision_states")
ACTION = "do_provisioning_action"
WANTED = user_steps("raid.a")
PASSWORD = {"rescue_password": "secret"}

#: Verb -> event, RPC method, arguments, and where all goes well.
VERBS = {
    "deploy": ("deploy", "do_node_deploy", {}, "active"),
    "rebuild": ("rebuild", "do_node_deploy", {"rebuild": True}, "active"),
    "deleted": ("delete", "do_node_tear_down", {}, "available"),
    "inspect": ("inspect", "inspect_hardware", {}, "manageable"),
    "clean": ("clean", "do_node_clean", {"clean_steps": WANTED}, "manageable"),
    "service": ("service", "do_node_service", {"service_steps": WANTED}, "active"),
    "rescue": ("rescue", "do_node_rescue", PASSWORD, "rescue"),
    "unrescue": ("unrescue", "do_node_unrescue", {}, "active"),
    "manage": ("manage", ACTION, {"action": "manage"}, "manageable"),
    "provide": ("provide", ACTION, {"action": "provide"}, "available"),
    "adopt": ("adopt", ACTION, {"action": "adopt"}, "active"),
    "abort": ("abort", ACTION, {"action": "abort"}, None),
    "unhold": ("unhold", ACTION, {"action": "unhold"}, None),
}
PAIRS = list(itertools.product(VERBS, TABLE))
LEGAL = [(verb, state) for verb, state in PAIRS if VERBS[verb][0] in TABLE[state]["events"]]
ILLEGAL = [pair for pair in PAIRS if pair not in LEGAL]

#: Possible, and nothing is left to do for a worker.
AT_ONCE = {
    ("manage", "available"),
    ("manage", "cleaning"),
    ("manage", "clean failed"),
    ("manage", "inspect failed"),
    ("manage", "adopt failed"),
    ("abort", "inspect wait"),
}
#: First state after the call where it is not the one of the verb's event: a held flow
#: goes on at once (W04), and an instance is active only when it runs again (W19).
FIRST = {
    ("unhold", "clean hold"): "cleaning",
    ("unhold", "deploy hold"): "deploying",
    ("unhold", "service hold"): "servicing",
    ("abort", "service failed"): "service failed",
}
#: Where the worker ends, where the verb does not say it.
LAST = {
    ("abort", "clean wait"): "clean failed",
    ("abort", "clean hold"): "clean failed",
    ("abort", "wait call-back"): "deploy failed",
    ("abort", "deploy hold"): "deploy failed",
    ("abort", "inspect wait"): "inspect failed",
    ("abort", "rescue wait"): "rescue failed",
    ("abort", "service wait"): "active",
    ("abort", "service hold"): "active",
    ("abort", "service failed"): "active",
    ("unhold", "clean hold"): "available",
    ("unhold", "deploy hold"): "active",
    ("unhold", "service hold"): "active",
}
WITHOUT_MAINTENANCE = {"deploy", "rebuild", "clean", "service", "rescue", "unrescue"}
WITHOUT_PROTECTION = {"rebuild", "deleted"}


def first_state(verb, state):
    return FIRST.get((verb, state)) or TABLE[state]["events"][VERBS[verb][0]]


def last_state(verb, state):
    return LAST.get((verb, state)) or VERBS[verb][3]


def first_target(verb, state):
    """Return the target after the call: manual cleaning is told by it."""
    first = first_state(verb, state)
    if TABLE[first]["stable"]:
        return None
    return "manageable" if verb == "clean" else TABLE[first]["target"]


def in_state(table, state, **values):
    """Store a node that came to a state in a usual way."""
    kit = table.world.kit
    kit.offer("deploy", "deploy.deploy", 100)
    kit.offer("clean", "raid.a", 10)
    kit.offer("service", "raid.a")
    info = {"agent_url": "https://192.0.2.7:9999", "agent_secret_token": "t" * 43}
    row = {"last_error": "before", "driver_internal_info": info}
    return table.node(state, **(row | values))


def ask(table, verb, node):
    _, method, args, _ = VERBS[verb]
    with table.scripted({"inspect.abort": None}):
        return table.answer(method, node, **args)


def error_of(answer):
    error = answer.get("error")
    return (error["class"], error["code"]) if error else None


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_a_verb_that_is_possible_is_accepted(table, verb, state):
    world = table.world
    node = in_state(table, state)
    assert error_of(ask(table, verb, node)) is None
    stored = world.read(node)
    assert stored.provision_state == first_state(verb, state)
    assert stored.target_provision_state == first_target(verb, state)
    at_once = (verb, state) in AT_ONCE
    assert len(table.workers.kept) == (0 if at_once else 1)
    assert stored.reservation == (None if at_once else world.host), "the worker has the lock"

    table.workers.run()
    stored = world.read(node)
    assert stored.provision_state == last_state(verb, state)
    assert stored.reservation is None
    assert stored.target_power_state is None


@pytest.mark.parametrize(("verb", "state"), ILLEGAL)
def test_a_verb_that_is_not_possible_is_refused_and_changes_nothing(table, verb, state):
    node = in_state(table, state)
    before = table.rows()
    answer = ask(table, verb, node)
    assert error_of(answer) == ("InvalidStateRequested", 400)
    assert f'"{state}"' in answer["error"]["message"]
    assert node.uuid in answer["error"]["message"]
    assert table.rows() == before
    assert table.workers.kept == []
    assert history.select(["event"], {"node_id": node.id}) == []


@pytest.mark.parametrize(("verb", "state"), [*LEGAL, ("deploy", "enroll"), ("abort", "active")])
def test_a_locked_node_is_told_as_such(table, verb, state):
    node = in_state(table, state, reservation=tablekit.OTHER_HOST)
    before = table.rows()
    assert error_of(ask(table, verb, node)) == ("NodeLocked", 409)
    assert table.rows() == before
    assert table.workers.kept == []


@pytest.mark.parametrize(("verb", "state"), [pair for pair in LEGAL if pair not in AT_ONCE])
def test_without_a_free_worker_the_node_is_as_before_the_call(table, verb, state):
    world = table.world
    info = {"agent_url": "https://x", "agent_secret_token": "t", "image_source": "i"}
    node = in_state(
        table, state, driver_internal_info=info, instance_info={"image_source": "http://i/a"}
    )
    table.workers.full = True
    before = table.rows()["nodes"]
    assert error_of(ask(table, verb, node)) == ("NoFreeConductorWorker", 503)
    told = {"last_error", "updated_at"}
    [old], [new] = before, table.rows()["nodes"]
    changed = {name for name in old if old[name] != new[name]}
    assert changed <= told, {name: (old[name], new[name]) for name in changed - told}
    assert "No free conductor worker" in new["last_error"]
    [entry] = history.select(["severity", "event_type"], {"node_id": node.id})
    assert entry["severity"] == "ERROR"
    # And later it works.
    table.workers.full = False
    assert error_of(ask(table, verb, node)) is None
    table.workers.run()
    assert world.read(node).provision_state == last_state(verb, state)


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_maintenance_refuses_what_touches_the_instance(table, verb, state):
    node = in_state(table, state, maintenance=True)
    before = table.rows()
    answer = ask(table, verb, node)
    if verb in WITHOUT_MAINTENANCE:
        assert error_of(answer) == ("NodeInMaintenance", 400)
        assert table.rows() == before
    elif (verb, state) == ("abort", "service failed"):
        assert error_of(answer) == ("InvalidState", 409)
        assert table.rows() == before
    else:
        assert error_of(answer) is None


@pytest.mark.parametrize("verb", ["provide"])
def test_maintenance_refuses_provisioning_where_the_operator_wants_that(table, verb):
    node = in_state(table, "manageable", maintenance=True)
    before = table.rows()
    with tablekit.configured({("conductor", "allow_provisioning_in_maintenance"): False}):
        assert error_of(ask(table, verb, node)) == ("NodeInMaintenance", 400)
    assert table.rows() == before


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_a_protected_node_keeps_its_instance(table, verb, state):
    node = in_state(table, state, protected=True)
    before = table.rows()
    answer = ask(table, verb, node)
    if verb in WITHOUT_PROTECTION:
        assert error_of(answer) == ("NodeProtected", 403)
        assert table.rows() == before
    else:
        assert error_of(answer) is None


@pytest.mark.parametrize(("verb", "state"), LEGAL)
def test_a_retired_node_never_becomes_available(table, verb, state):
    world = table.world
    node = in_state(table, state, retired=True)
    before = table.rows()
    answer = ask(table, verb, node)
    if verb == "provide":
        assert error_of(answer) == ("NodeIsRetired", 400)
        assert table.rows() == before
        return
    assert error_of(answer) is None
    table.workers.run()
    assert world.read(node).provision_state != "available"


# Machine events that are no verbs.

EVENTS = sorted({event for row in TABLE.values() for event in row["events"]})
OWN = {row[0] for row in VERBS.values() if row[1] == ACTION}


@pytest.mark.parametrize(
    ("event", "state"),
    [(event, state) for event in EVENTS if event not in OWN for state in TABLE],
)
def test_no_event_leaves_a_node_in_a_transient_state_without_a_worker(table, event, state):
    node = in_state(table, state)
    before = table.rows()
    answer = table.answer(ACTION, node, action=event)
    new = TABLE[state]["events"].get(event)
    if new is None or new in RUNNING:
        assert error_of(answer) == ("InvalidStateRequested", 400)
        assert table.rows() == before
    else:
        assert error_of(answer) is None
        assert table.world.read(node).provision_state == new
    assert table.workers.kept == []


RUNNING = {
    "verifying",
    "deploying",
    "cleaning",
    "deleting",
    "inspecting",
    "adopting",
    "rescuing",
    "unrescuing",
    "servicing",
}

# Going on with a flow that waits.


@pytest.mark.parametrize("kind", steps.KINDS.values(), ids=list(steps.KINDS))
@pytest.mark.parametrize("state", TABLE)
def test_a_flow_goes_on_only_where_it_waits(table, kind, state):
    world = table.world
    plan = {kind.steps_key: WANTED, kind.index_key: 0, "agent_url": "x", "steps_validated": True}
    node = in_state(table, state, driver_internal_info=plan, **{kind.field: WANTED[0]})
    before = table.rows()
    answer = table.answer(f"continue_node_{kind.name}", node)
    if state != kind.wait and (kind.name, state) != ("deploy", "deploying"):
        assert error_of(answer) == ("InvalidStateRequested", 400)
        assert table.rows() == before
        assert table.workers.kept == []
        return
    assert error_of(answer) is None
    assert world.read(node).provision_state == kind.running
    table.workers.run()
    stored = world.read(node)
    assert stored.provision_state == {"clean": "available"}.get(kind.name, "active")
    assert stored.reservation is None


@pytest.mark.parametrize("kind", steps.KINDS.values(), ids=list(steps.KINDS))
@pytest.mark.parametrize("target", ["available", "manageable"])
def test_w13_a_flow_that_gets_no_worker_waits_on(table, kind, target):
    plan = {kind.steps_key: WANTED, kind.index_key: 0}
    node = in_state(
        table,
        kind.wait,
        driver_internal_info=plan,
        target_provision_state=target if kind.name == "clean" else "active",
        **{kind.field: WANTED[0]},
    )
    table.workers.full = True
    [before] = table.rows()["nodes"]
    answer = table.answer(f"continue_node_{kind.name}", node)
    assert error_of(answer) == ("NoFreeConductorWorker", 503)
    [after] = table.rows()["nodes"]
    for name in ("provision_state", "target_provision_state", "reservation", kind.field):
        assert after[name] == before[name]
    assert after["driver_internal_info"] == plan
