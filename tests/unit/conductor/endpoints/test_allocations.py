"""Creation and deletion of allocations, and the choice of the node."""

from __future__ import annotations

import itertools
import random

import pytest

from ironic_rs.conductor.flows import allocation as flow
from ironic_rs.conf import CONF
from ironic_rs.db import allocations, conductors, nodes, session
from ironic_rs.domain import errors, states

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
PROJECT = "p"


def free(world, **values):
    return world.node(states.AVAILABLE, **{"resource_class": "gold"} | values)


def create(world, node=None, **values):
    """Create an allocation; returns it as stored when the worker is done."""
    arguments = {"node_id": node.uuid} if node is not None else {}
    reply = world.call(
        "create_allocation", allocation={"resource_class": "gold", **values}, **arguments
    )
    return allocations.get(reply["uuid"])


def destroy(world, record):
    world.call("destroy_allocation", allocation_id=record.uuid)


# The flow


def test_a_free_node_is_given_to_the_allocation(world):
    node = free(world, instance_info={"a": 1})
    nodes.set_traits(node.id, ["CUSTOM_A", "CUSTOM_B"])
    made = create(world, traits=["CUSTOM_A"])
    assert (made.state, made.node_id, made.last_error) == ("active", node.id, None)
    stored = world.read(node)
    assert (stored.instance_uuid, stored.allocation_id) == (made.uuid, made.id)
    assert stored.instance_info == {"a": 1, "traits": ["CUSTOM_A"]}
    assert stored.reservation is None
    assert stored.provision_state == states.AVAILABLE


def test_the_answer_is_the_record_before_its_node_is_known(world):
    free(world)
    reply = world.call(
        "create_allocation", allocation={"name": "web", "resource_class": "gold", "owner": "p"}
    )
    created_at = reply.pop("created_at")
    assert created_at.endswith("+00:00")
    assert reply == {
        "uuid": reply["uuid"],
        "name": "web",
        "resource_class": "gold",
        "owner": "p",
        "state": "allocating",
        "node_uuid": None,
        "last_error": None,
        "candidate_nodes": [],
        "traits": [],
        "extra": {},
        "updated_at": None,
    }
    assert allocations.get(reply["uuid"]).conductor_affinity == world.conductor_id


UNSUITABLE = {
    "another class": {"resource_class": "silver"},
    "no class": {"resource_class": None},
    "another state": {"provision_state": states.MANAGEABLE},
    "an instance": {"instance_uuid": UUID},
    "an unknown power state": {"power_state": None},
    "maintenance": {"maintenance": True},
}


@pytest.mark.parametrize("values", UNSUITABLE.values(), ids=UNSUITABLE)
def test_an_unsuitable_node_is_not_taken(world, values):
    node = free(world, **values)
    made = create(world)
    assert (made.state, made.node_id) == ("error", None)
    assert made.last_error == (
        f"Failed to process allocation {made.uuid}: "
        "no available nodes match the resource class gold."
    )
    assert world.read(node).allocation_id is None


def test_a_child_node_is_not_taken(world):
    parent = world.node()
    free(world, parent_node=parent.uuid)
    assert create(world).state == "error"


def test_the_traits_of_the_node_must_include_those_of_the_allocation(world):
    node = free(world)
    nodes.set_traits(node.id, ["CUSTOM_A", "CUSTOM_C"])
    failed = create(world, traits=["CUSTOM_A", "CUSTOM_B"])
    assert failed.state == "error"
    assert "none of the 1 nodes" in failed.last_error
    assert "CUSTOM_A, CUSTOM_B" in failed.last_error
    assert create(world, traits=["CUSTOM_C", "CUSTOM_A", "CUSTOM_A"]).node_id == node.id


def test_only_candidate_nodes_are_taken(world):
    other, wanted = free(world), free(world)
    assert create(world, candidate_nodes=[wanted.uuid]).node_id == wanted.id
    failed = create(world, candidate_nodes=[wanted.uuid])
    assert "are among the 1 candidate nodes" in failed.last_error
    assert world.read(other).instance_uuid is None


@pytest.mark.parametrize("relation", ["owner", "lessee"])
def test_an_allocation_with_an_owner_takes_nodes_of_the_project_only(world, relation):
    free(world)
    free(world, owner="another")
    failed = create(world, owner=PROJECT)
    assert f"belong to project {PROJECT}" in failed.last_error
    own = free(world, **{relation: PROJECT})
    assert create(world, owner=PROJECT).node_id == own.id


def test_the_node_of_the_same_name_comes_first(world):
    for number in range(8):
        free(world, name=f"n{number}")
    for name in ("n5", "n2"):
        made = create(world, name=name)
        assert nodes.get(made.node_id).name == name
    assert create(world, name="absent").state == "active"


def test_other_nodes_come_in_random_order(world, monkeypatch):
    for number in range(6):
        free(world, name=f"n{number}")
    record = allocations.create({"resource_class": "gold", "name": "n3"})
    monkeypatch.setattr(flow.random, "shuffle", random.Random(1).shuffle)
    orders = {tuple(row["name"] for row in flow.candidates(record)) for _ in range(10)}
    assert len(orders) > 1
    assert {order[0] for order in orders} == {"n3"}


@pytest.fixture
def pauses(world, monkeypatch):
    """Seconds waited between two rounds, without waiting."""
    slept = []
    monkeypatch.setattr(world.stopping, "wait", slept.append)
    CONF.set_override("node_locked_retry_attempts", 3, group="conductor")
    CONF.set_override("node_locked_retry_interval", 7, group="conductor")
    return slept


def test_a_locked_node_is_tried_again_and_others_are_not_waited_for(world, pauses):
    busy, idle = free(world, name="web"), free(world)
    with world.task(busy):
        assert create(world, name="web").node_id == idle.id
        assert pauses == []
        failed = create(world)
        assert pauses == [7, 7]
        assert "1 suitable nodes are locked" in failed.last_error
    assert create(world).node_id == busy.id


def test_a_node_that_becomes_free_between_two_rounds_is_taken(world, monkeypatch, pauses):
    node = free(world)
    task = world.task(node)
    monkeypatch.setattr(world.stopping, "wait", lambda seconds: task.release())
    assert create(world).node_id == node.id


def test_a_conductor_that_stops_leaves_the_rest_to_others(world, pauses, monkeypatch):
    node = free(world)
    monkeypatch.setattr(world.stopping, "wait", lambda seconds: True)
    with world.task(node):
        assert create(world).state == "allocating"


CHANGES = {
    "state": {"provision_state": states.MANAGEABLE},
    "instance": {"instance_uuid": UUID},
    "maintenance": {"maintenance": True},
    "class": {"resource_class": "silver"},
    "owner": {"owner": "another"},
}


@pytest.mark.parametrize("values", CHANGES.values(), ids=CHANGES)
def test_a_node_is_looked_at_again_under_its_lock(world, monkeypatch, values):
    node = free(world, owner=PROJECT)
    found = flow.candidates

    def outdated(allocation):
        rows = found(allocation)
        nodes.update(node, values, fence=None)
        return rows

    monkeypatch.setattr(flow, "candidates", outdated)
    failed = create(world, owner=PROJECT)
    assert failed.last_error.endswith("all suitable nodes were taken.")
    assert world.read(node).allocation_id is None
    assert world.read(node).reservation is None


def test_a_node_that_loses_its_traits_or_vanishes_is_left_out(world, monkeypatch):
    first, second, third = (free(world) for _ in range(3))
    for node in (first, second, third):
        nodes.set_traits(node.id, ["CUSTOM_A"])
    found = flow.candidates

    def outdated(allocation):
        rows = sorted(found(allocation), key=lambda row: row["id"])
        nodes.set_traits(first.id, [])
        nodes.destroy(second.id)
        return rows

    monkeypatch.setattr(flow, "candidates", outdated)
    assert create(world, traits=["CUSTOM_A"]).node_id == third.id


def test_an_allocation_that_is_deleted_meanwhile_takes_no_node(world, monkeypatch, caplog):
    node = free(world)
    found = flow.candidates

    def outdated(allocation):
        rows = found(allocation)
        allocations.destroy(allocation.id)
        return rows

    monkeypatch.setattr(flow, "candidates", outdated)
    reply = world.call("create_allocation", allocation={"resource_class": "gold"})
    with pytest.raises(errors.AllocationNotFound):
        allocations.get(reply["uuid"])
    assert world.read(node).instance_uuid is None
    assert world.read(node).reservation is None
    assert not world.allocating


def test_the_uuid_of_another_instance_is_no_allocation_s(world):
    world.node(instance_uuid=UUID)
    free(world)
    assert "already associated" in create(world, uuid=UUID).last_error


def test_an_unexpected_error_is_recorded(world, monkeypatch, caplog):
    def broken(allocation):
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(flow, "candidates", broken)
    made = create(world)
    assert (made.state, made.last_error) == (
        "error",
        "Unexpected error: ZeroDivisionError: by zero",
    )


def test_a_conductor_that_can_not_work_leaves_it_to_a_later_look(world, monkeypatch):
    node = free(world)
    world.fence.check_new_work = raises(errors.TemporaryFailure("fenced"))
    made = create(world)
    assert (made.state, made.conductor_affinity) == ("allocating", world.conductor_id)
    del world.fence.check_new_work
    flow.resume(world, world.context, made)
    assert allocations.get(made.id).node_id == node.id


def raises(error):
    def fail(*args):
        raise error

    return fail


def test_long_errors_are_cut(world, monkeypatch):
    monkeypatch.setattr(flow, "candidates", raises(ValueError("x" * 10000)))
    assert len(create(world).last_error) == CONF.log_in_db_max_size


def test_w45_nothing_is_left_behind_when_no_worker_is_free(world):
    world.workers.full = True
    for _ in range(2):
        with pytest.raises(errors.NoFreeConductorWorker):
            world.call("create_allocation", allocation={"resource_class": "gold", "name": "web"})
    assert allocations.select(["uuid"]) == []
    assert not world.allocating


def test_names_and_uuids_are_unique(world):
    create(world, name="web", uuid=UUID)
    with pytest.raises(errors.AllocationDuplicateName):
        create(world, name="web")
    with pytest.raises(errors.AllocationAlreadyExists):
        create(world, uuid=UUID)


def test_an_allocation_costs_few_statements(world):
    for number in range(20):
        nodes.set_traits(free(world, name=f"n{number}").id, ["CUSTOM_A"])
    with session.count_statements() as counted:
        create(world, traits=["CUSTOM_A"], name="n7")
    # insert and read back; candidates; lock and read; both rows; release; the test reads.
    assert counted.count <= 11, counted.statements


# Nodes that are in use already


def used(world, **values):
    return world.node(states.ACTIVE, **{"resource_class": "gold", "name": "n"} | values)


def test_a_node_in_use_gets_its_allocation_at_once(world):
    node = used(world, instance_uuid=UUID)
    reply = world.call(
        "create_allocation", node, allocation={"resource_class": "gold", "name": "web"}
    )
    assert (reply["uuid"], reply["state"], reply["node_uuid"]) == (UUID, "active", node.uuid)
    made = allocations.get(UUID)
    assert (made.state, made.node_id) == ("active", node.id)
    stored = world.read(node)
    assert (stored.allocation_id, stored.instance_uuid) == (made.id, UUID)
    assert (stored.provision_state, stored.reservation) == (states.ACTIVE, None)


def test_a_node_without_instance_gets_one(world):
    node = used(world)
    reply = world.call("create_allocation", node, allocation={"resource_class": None})
    assert world.read(node).instance_uuid == reply["uuid"]
    # It lends its resource class.
    assert reply["resource_class"] == "gold"
    assert allocations.get(reply["uuid"]).resource_class == "gold"


REFUSED = {
    "state": ({"provision_state": states.AVAILABLE}, {}, "'available', not 'active'"),
    "maintenance": ({"maintenance": True}, {}, "in maintenance"),
    "class": ({"resource_class": "silver"}, {}, "resource class is silver, gold"),
    "traits": ({}, {"traits": ["CUSTOM_A"]}, "CUSTOM_A"),
    "candidates": ({}, {"candidate_nodes": [UUID]}, "candidate"),
}


@pytest.mark.parametrize(("values", "asked", "text"), REFUSED.values(), ids=REFUSED)
def test_a_bad_backfill_is_refused_and_leaves_nothing_behind(world, values, asked, text):
    node = used(world, **values)
    with pytest.raises(errors.InvalidParameterValue, match=text) as caught:
        create(world, node, **asked)
    assert caught.value.code == 400
    assert allocations.select(["uuid"]) == []
    assert world.read(node).instance_uuid is None


def test_a_node_of_another_instance_is_refused(world):
    node = used(world, instance_uuid=UUID)
    with pytest.raises(errors.NodeAssociated):
        create(world, node, uuid="00000000-0000-4000-8000-000000000001")
    other = used(world, name="other")
    with pytest.raises(errors.InstanceAssociated):
        create(world, other, uuid=UUID)
    create(world, node)
    with pytest.raises(errors.AllocationAlreadyExists):
        create(world, node)
    assert [row["uuid"] for row in allocations.select(["uuid"])] == [UUID]
    assert world.read(other).allocation_id is None


def test_a_locked_node_is_not_filled(world):
    node = used(world)
    with world.task(node), pytest.raises(errors.NodeLocked):
        create(world, node)
    assert allocations.select(["uuid"]) == []


# Deletion


def test_deletion_frees_the_node(world):
    node = free(world)
    made = create(world)
    destroy(world, made)
    stored = world.read(node)
    assert (stored.instance_uuid, stored.allocation_id) == (None, None)
    with pytest.raises(errors.AllocationNotFound):
        destroy(world, made)


def test_deletion_of_one_without_a_node_takes_no_lock(world):
    made = create(world)
    assert made.state == "error"
    destroy(world, made)
    assert allocations.select(["uuid"]) == []


def test_a_locked_node_keeps_its_allocation(world):
    node = free(world)
    made = create(world)
    with world.task(node), pytest.raises(errors.NodeLocked):
        destroy(world, made)
    assert allocations.get(made.id).node_id == node.id


MOVING = {
    states.ACTIVE: None,
    states.DEPLOYING: states.ACTIVE,
    states.DEPLOYWAIT: states.ACTIVE,
    states.DELETING: states.AVAILABLE,
}


@pytest.mark.parametrize("state", MOVING)
def test_the_allocation_of_a_node_in_use_stays_unless_in_maintenance(world, state):
    node = free(world)
    made = create(world)
    nodes.update(
        node, {"provision_state": state, "target_provision_state": MOVING[state]}, fence=None
    )
    with pytest.raises(errors.InvalidState, match=f"'{state}'"):
        destroy(world, made)
    assert world.read(node).instance_uuid == made.uuid
    nodes.update(node, {"maintenance": True}, fence=None)
    destroy(world, made)
    assert world.read(node).instance_uuid is None


@pytest.mark.parametrize("state", [states.AVAILABLE, states.DEPLOYFAIL, states.ERROR])
def test_the_allocation_of_a_node_that_rests_can_go(world, state):
    node = free(world)
    made = create(world)
    nodes.update(node, {"provision_state": state, "target_provision_state": "active"}, fence=None)
    if state == states.AVAILABLE:
        nodes.update(node, {"target_provision_state": None}, fence=None)
    destroy(world, made)
    assert world.read(node).instance_uuid is None


def test_w30_the_driver_is_not_needed_for_a_deletion(world):
    node = free(world)
    made = create(world)
    nodes.update(node, {"driver": "not-here"}, fence=None)
    destroy(world, made)
    assert world.read(node).instance_uuid is None


def test_an_allocation_that_gets_its_node_meanwhile_is_deleted_under_the_lock(world, monkeypatch):
    node = free(world)
    waiting = allocations.create(
        {"resource_class": "gold", "conductor_affinity": world.conductor_id}
    )
    real, once = allocations.destroy, itertools.count()

    def late(*args, **kwargs):
        if next(once) == 0:
            flow.resume(world, world.context, waiting)
        return real(*args, **kwargs)

    monkeypatch.setattr(allocations, "destroy", late)
    destroy(world, waiting)
    stored = world.read(node)
    assert (stored.instance_uuid, stored.allocation_id, stored.reservation) == (None, None, None)


def test_an_allocation_whose_node_is_gone_can_be_deleted(world):
    record = allocations.create({"state": "active", "node_id": 12345})
    destroy(world, record)
    assert allocations.select(["uuid"]) == []


def test_an_allocation_goes_with_its_node(world):
    node = free(world)
    made = create(world)
    nodes.update(node, {"maintenance": True}, fence=None)
    world.call("destroy_node", node)
    with pytest.raises(errors.AllocationNotFound):
        allocations.get(made.id)


# Unattended ones


def test_only_what_nobody_works_on_is_unattended(world):
    mine = allocations.create({"conductor_affinity": world.conductor_id})
    allocations.create({"conductor_affinity": world.conductor_id, "state": "active"})
    unknown = allocations.create({})
    unregistered = allocations.create({"conductor_affinity": 4711})
    other = conductors.register("other", [])
    allocations.create({"conductor_affinity": other.id})
    found = {record.uuid for record in allocations.unattended(world.conductor_id)}
    assert found == {mine.uuid, unknown.uuid, unregistered.uuid}


def test_what_a_thread_works_on_is_not_resumed(world):
    free(world)
    record = allocations.create({"resource_class": "gold"})
    assert world.allocating.claim(record.uuid, "somebody")
    flow.resume(world, world.context, record)
    assert allocations.get(record.id).state == "allocating"


def test_what_another_conductor_took_over_first_is_left_to_it(world):
    free(world)
    record = allocations.create({"resource_class": "gold"})
    other = conductors.register("other", [])
    allocations.take_over(record.id, None, other.id)
    flow.resume(world, world.context, record)
    assert allocations.get(record.id).state == "allocating"
    assert not world.allocating
