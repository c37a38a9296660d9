"""Power actions."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.flows import power
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states

AGENT = {
    "agent_url": "https://x",
    "agent_secret_token": "t",
    "agent_cached_clean_steps": {},
    "agent_verify_ca": "/x",
    "agent_start_attempted": True,
    "keep": 1,
}


def act(world, node, state, timeout=None):
    world.call("change_node_power_state", node, new_state=state, timeout=timeout)
    return world.read(node)


@pytest.mark.parametrize("state", sorted(states.FAILED))
@pytest.mark.parametrize("wanted", [states.POWER_ON, states.POWER_OFF])
def test_what_the_conductor_does_to_a_failed_node_leaves_its_error_alone(
    world, machine, state, wanted
):
    node = world.node(state, power_state=states.POWER_ON, last_error="disk is broken")
    with world.task(node) as task:
        power.node_power_action(task, wanted)
    assert world.read(node).last_error == "disk is broken"


@pytest.fixture
def machine(world):
    """A machine that is what it was told, whatever the record says."""
    seen = {"states": {}, "calls": []}

    def set_state(task, state, timeout=None):
        seen["calls"].append((task.node.name, state, timeout))
        seen["states"][task.node.uuid] = states.POWER_TARGET[state]

    world.driver.power.get_power_state = lambda task: seen["states"].get(
        task.node.uuid, task.node.power_state
    )
    world.driver.power.set_power_state = set_state
    world.driver.power.reboot = lambda task, timeout=None: set_state(task, states.REBOOT, timeout)
    return seen


@pytest.mark.parametrize(
    ("before", "request_", "after"),
    [
        (states.POWER_OFF, states.POWER_ON, states.POWER_ON),
        (states.POWER_ON, states.POWER_OFF, states.POWER_OFF),
        (states.POWER_ON, states.REBOOT, states.POWER_ON),
        (states.POWER_OFF, states.REBOOT, states.POWER_ON),
        (states.POWER_ON, states.SOFT_REBOOT, states.POWER_ON),
        (states.POWER_ON, states.SOFT_POWER_OFF, states.POWER_OFF),
    ],
)
def test_every_request_reaches_its_target(world, machine, before, request_, after):
    node = world.node(power_state=before, last_error="old", driver_internal_info=dict(AGENT))
    stored = act(world, node, request_)
    assert stored.power_state == after
    assert stored.target_power_state is None
    assert stored.last_error is None
    assert stored.reservation is None
    assert stored.driver_internal_info["last_power_state_change"]
    kept = {"keep", "last_power_state_change"}
    if request_ == states.POWER_ON:
        kept |= set(AGENT)
    assert set(stored.driver_internal_info) == kept


def test_a_pregenerated_token_survives(world, machine):
    info = {"agent_secret_token": "t", "agent_secret_token_pregenerated": True}
    stored = act(world, world.node(driver_internal_info=info), states.POWER_OFF)
    assert stored.driver_internal_info["agent_secret_token"] == "t"


def test_a_state_that_is_met_is_only_recorded(world, machine):
    machine["states"] = {}
    node = world.node(power_state=None, driver_internal_info=dict(AGENT))
    machine["states"][node.uuid] = states.POWER_OFF
    stored = act(world, node, states.POWER_OFF)
    assert machine["calls"] == []
    assert stored.power_state == states.POWER_OFF
    assert stored.target_power_state is None
    assert "agent_url" not in stored.driver_internal_info


@pytest.mark.parametrize(
    ("request_", "given", "passed"),
    [
        (states.POWER_OFF, None, None),
        (states.POWER_OFF, 7, 7),
        (states.SOFT_POWER_OFF, None, 600),
        (states.SOFT_REBOOT, None, 600),
        (states.SOFT_REBOOT, 9, 9),
    ],
)
def test_timeouts(world, machine, request_, given, passed):
    act(world, world.node(), request_, given)
    assert machine["calls"][0][2] == passed


def test_a_failed_action_is_recorded_and_no_longer_pending(world):
    def fail(task, state, timeout=None):
        raise errors.RedfishError(error="BMC says no")

    world.driver.power.set_power_state = fail
    node = world.node(power_state=states.POWER_OFF)
    stored = act(world, node, states.POWER_ON)
    assert stored.target_power_state is None
    assert stored.power_state == states.POWER_OFF
    assert "BMC says no" in stored.last_error
    assert "'power on'" in stored.last_error
    assert world.events(node) == [("UNKNOWN", "ERROR")]


def test_a_state_that_can_not_be_read_is_a_failure(world):
    world.driver.power.get_power_state = lambda task: states.POWER_ERROR
    stored = act(world, world.node(), states.POWER_OFF)
    assert stored.target_power_state is None
    assert "error" in stored.last_error


def test_the_error_of_a_failed_flow_survives_a_power_action(world, machine):
    node = world.node(states.DEPLOYFAIL)
    with world.task(node) as task:
        task.node.last_error = "deployment failed"
        task.save()
        power.node_power_action(task, states.POWER_OFF)
    assert world.read(node).last_error == "deployment failed"


def test_volumes_follow_the_power_of_an_active_node(world, machine):
    calls = []
    world.driver.storage.attach_volumes = lambda task: calls.append("attach")

    def detach(task):
        calls.append("detach")
        raise errors.StorageError("busy")

    world.driver.storage.detach_volumes = detach
    node = world.node(states.ACTIVE)
    assert act(world, node, states.POWER_OFF).last_error is None
    act(world, node, states.POWER_ON)
    assert calls == ["detach", "attach"]


def test_w34_a_refused_power_off_is_not_left_pending(world, machine):
    node = world.node(disable_power_off=True)
    with pytest.raises(errors.PowerStateFailure):
        act(world, node, states.POWER_OFF)
    assert world.read(node).target_power_state is None
    with world.task(node) as task, pytest.raises(errors.PowerStateFailure):
        power.node_power_action(task, states.SOFT_POWER_OFF)
    stored = world.read(node)
    assert stored.target_power_state is None
    assert "disable_power_off" in stored.last_error
    assert machine["calls"] == []


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.InvalidParameterValue, "sleeping"),
        (errors.InvalidParameterValue, states.SOFT_REBOOT),
    ],
)
def test_an_unsupported_request_is_refused(world, error, state):
    world.driver.power.get_supported_power_states = lambda task: [states.POWER_ON]
    node = world.node()
    with pytest.raises(error):
        act(world, node, state)
    assert world.read(node).target_power_state is None


def test_a_refused_worker_cancels_the_request(world):
    world.workers.full = True
    node = world.node()
    with pytest.raises(errors.NoFreeConductorWorker):
        act(world, node, states.POWER_OFF)
    stored = world.read(node)
    assert stored.target_power_state is None
    assert stored.power_state == states.POWER_ON
    assert "worker" in stored.last_error


def test_a_lost_lock_stops_the_action_without_a_record(world):
    def lose(task, state, timeout=None):
        raise errors.LockLost(host="h", node="n", reason="taken over")

    world.driver.power.set_power_state = lose
    node = world.node()
    with world.task(node) as task, pytest.raises(errors.LockLost):
        power.node_power_action(task, states.POWER_OFF)
    stored = world.read(node)
    assert stored.last_error is None
    assert stored.target_power_state == states.POWER_OFF


# Parents and children.


@pytest.fixture
def family(world):
    parent = world.node(states.ACTIVE, name="parent")
    children = [
        world.node(states.ACTIVE, name="dpu", parent_node=parent.uuid),
        world.node(
            states.ACTIVE,
            name="own",
            parent_node=parent.uuid,
            driver_info={"has_dedicated_power_supply": "true"},
        ),
    ]
    return parent, *children


@pytest.mark.parametrize("request_", [states.POWER_OFF, states.SOFT_POWER_OFF])
def test_w34_children_go_off_before_their_parent(world, machine, family, request_):
    parent, child, own = family
    act(world, parent, request_)
    assert [call[:2] for call in machine["calls"]] == [
        ("dpu", states.POWER_OFF),
        ("parent", request_),
    ]
    assert world.read(child).power_state == states.POWER_OFF
    assert world.read(own).power_state == states.POWER_ON
    assert world.read(child).reservation is None


@pytest.mark.parametrize("request_", [states.REBOOT, states.SOFT_REBOOT])
def test_w34_children_come_back_after_a_reboot_of_their_parent(world, machine, family, request_):
    parent, child, _ = family
    act(world, parent, request_)
    assert [call[:2] for call in machine["calls"]] == [
        ("dpu", states.POWER_OFF),
        ("parent", request_),
        ("dpu", states.POWER_ON),
    ]
    assert world.read(child).power_state == states.POWER_ON


def test_w34_children_go_off_even_if_the_parent_is_off_already(world, machine, family):
    parent, child, _ = family
    machine["states"][parent.uuid] = states.POWER_OFF
    act(world, parent, states.POWER_OFF)
    assert machine["calls"] == [("dpu", states.POWER_OFF, None)]
    assert world.read(child).power_state == states.POWER_OFF


def test_a_busy_child_refuses_before_anything_is_switched(world, machine, family):
    parent, child, _ = family
    with world.task(child):
        stored = act(world, parent, states.POWER_OFF)
    assert machine["calls"] == []
    assert child.uuid in stored.last_error
    assert stored.power_state == states.POWER_ON


@pytest.mark.parametrize("request_", [states.POWER_ON, states.REBOOT, states.SOFT_REBOOT])
def test_the_parent_is_powered_on_before_its_child(world, machine, family, request_):
    parent, child, _ = family
    machine["states"] = {parent.uuid: states.POWER_OFF, child.uuid: states.POWER_OFF}
    act(world, child, request_)
    assert [call[0] for call in machine["calls"]] == ["parent", "dpu"]
    assert world.read(parent).power_state == states.POWER_ON


def test_a_busy_parent_that_is_off_fails_the_child(world, machine, family):
    parent, child, _ = family
    machine["states"] = {parent.uuid: states.POWER_OFF, child.uuid: states.POWER_OFF}
    with world.task(parent):
        stored = act(world, child, states.POWER_ON)
    assert machine["calls"] == []
    assert parent.uuid in stored.last_error


def test_a_child_with_its_own_supply_does_not_touch_the_parent(world, machine, family):
    parent, _, own = family
    machine["states"] = {parent.uuid: states.POWER_OFF, own.uuid: states.POWER_OFF}
    act(world, own, states.POWER_ON)
    assert [call[0] for call in machine["calls"]] == ["own"]


# Waiting.


@pytest.fixture
def clock(monkeypatch):
    now = {"time": 0.0, "slept": []}

    def sleep(seconds):
        now["slept"].append(seconds)
        now["time"] += seconds

    monkeypatch.setattr("time.sleep", sleep)
    monkeypatch.setattr(power.time, "monotonic", lambda: now["time"])
    return now


def test_polling_slows_down_and_ends_when_the_state_is_reached(world, clock):
    answers = [states.POWER_ON] * 3 + [states.POWER_OFF]
    world.driver.power.get_power_state = lambda task: answers.pop(0)
    with world.task(world.node()) as task:
        assert task.flows.wait_for_power_state(states.POWER_OFF) == states.POWER_OFF
    assert clock["slept"] == [1.0, 1.5, 2.25]


def test_polling_ends_with_a_failure_at_its_deadline(world, clock):
    CONF.set_override("power_state_change_timeout", 10, group="conductor")
    with world.task(world.node()) as task, pytest.raises(errors.PowerStateFailure):
        task.flows.wait_for_power_state(states.POWER_OFF)
    assert clock["time"] == pytest.approx(10)


def test_an_own_timeout_wins(world, clock):
    with world.task(world.node()) as task, pytest.raises(errors.PowerStateFailure):
        task.flows.wait_for_power_state(states.POWER_OFF, 3)
    assert clock["time"] == pytest.approx(3)


def test_work_can_be_done_while_the_node_is_off(world, machine):
    node = world.node(name="n")
    with world.task(node) as task, task.flows.power_off_and_on():
        machine["calls"].append("work")
    assert [c if c == "work" else c[1] for c in machine["calls"]] == [
        states.POWER_OFF,
        "work",
        states.POWER_ON,
    ]


def test_a_node_that_must_not_go_off_is_rebooted_after_the_work(world, machine):
    node = world.node(name="n", disable_power_off=True)
    with world.task(node) as task, task.flows.power_off_and_on():
        machine["calls"].append("work")
    assert [c if c == "work" else c[1] for c in machine["calls"]] == ["work", states.REBOOT]


@pytest.mark.parametrize("request_", [states.REBOOT, states.SOFT_REBOOT])
def test_an_agent_that_is_to_reboot_its_machine_is_not_forgotten_before(world, request_):
    seen = []

    def reboot(task, *args, **kwargs):
        seen.append(dict(task.node.driver_internal_info))

    world.driver.power.reboot = world.driver.power.set_power_state = reboot
    world.driver.power.uses_agent = True
    act(world, world.node(driver_internal_info=dict(AGENT)), request_)
    assert AGENT.items() <= seen[0].items()
