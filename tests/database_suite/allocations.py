"""Allocations: binding, failing, taking over and deleting them."""

from __future__ import annotations

import uuid

import pytest

from ironic_rs.db import allocations, conductors, nodes
from ironic_rs.domain import errors
from tests.database_suite.conductors import let_die
from tests.database_suite.setup import in_threads, make_node

HOST = "cond-a"


def pending(**values):
    """Store an allocation that waits for a node."""
    return allocations.create({"resource_class": "gold", **values})


@pytest.mark.usefixtures("db")
class TestAllocations:
    def test_a_node_is_bound_and_freed(self):
        node = make_node(instance_info={"a": 1})
        request = pending(name="one", traits=["CUSTOM_A"])
        assert request.state == "allocating"
        allocations.bind(request, node.id)
        bound = allocations.get(request.uuid)
        assert (bound.state, bound.node_id) == ("active", node.id)
        assert allocations.get_by_ident("one").id == request.id
        held = nodes.get(node.id)
        assert held.instance_uuid == request.uuid
        assert held.allocation_id == request.id
        assert held.instance_info == {"a": 1, "traits": ["CUSTOM_A"]}
        (row,) = nodes.select(["allocation_uuid"])
        assert row["allocation_uuid"] == request.uuid
        for filters in (
            {"node_id": node.id},
            {"state": "active"},
            {"resource_class": "gold"},
            {"owner": None},
        ):
            assert len(allocations.select(["id"], filters)) == 1
        assert allocations.destroy(request.uuid)
        freed = nodes.get(node.id)
        assert (freed.instance_uuid, freed.allocation_id) == (None, None)
        with pytest.raises(errors.AllocationNotFound):
            allocations.get(request.id)
        with pytest.raises(errors.AllocationNotFound):
            allocations.destroy(request.id)

    def test_a_node_that_lets_go_of_its_allocation_takes_it_along_or_keeps_it(self):
        node, request = make_node(), pending()
        allocations.bind(request, node.id)
        other = pending()
        held = nodes.get(node.id)
        held.allocation_id = held.instance_uuid = None
        held.provision_state = "cleaning"
        with pytest.raises(errors.LockLost):
            nodes.save(held, fence=HOST)
        assert nodes.get(node.id).allocation_id == request.id
        assert allocations.get(request.id).node_id == node.id
        nodes.reserve(node.id, HOST)
        nodes.save(held, fence=HOST)
        freed = nodes.get(node.id)
        assert (freed.allocation_id, freed.provision_state) == (None, "cleaning")
        assert [row["id"] for row in allocations.select(["id"])] == [other.id]

    def test_a_node_with_another_instance_is_refused_and_nothing_is_written(self):
        node = make_node(instance_uuid=str(uuid.uuid4()))
        request = pending()
        with pytest.raises(errors.NodeAssociated):
            allocations.bind(request, node.id)
        make_node(instance_uuid=request.uuid)
        with pytest.raises(errors.InstanceAssociated):
            allocations.bind(request, make_node().id)
        with pytest.raises(errors.NodeNotFound):
            allocations.bind(request, 12345)
        stored = allocations.get(request.id)
        assert (stored.node_id, stored.state) == (None, "allocating")

    def test_the_fence_is_the_lock_of_the_node(self):
        node, request = make_node(), pending()
        with pytest.raises(errors.LockLost):
            allocations.bind(request, node.id, fence=HOST)
        with pytest.raises(errors.LockLost):
            allocations.create_bound({}, node.id, fence=HOST)
        assert [row["state"] for row in allocations.select(["state"])] == ["allocating"]
        nodes.reserve(node.id, HOST)
        allocations.bind(request, node.id, fence=HOST)
        nodes.release(node.id, HOST)
        with pytest.raises(errors.LockLost):
            allocations.destroy(request.id, fence=HOST)
        nodes.reserve(node.id, HOST)
        assert allocations.destroy(request.id, fence=HOST)

    def test_only_its_conductor_settles_an_allocation_and_only_once(self):
        node, other = make_node(), make_node()
        request = pending(conductor_affinity=1)
        stale = allocations.get(request.id)
        assert allocations.take_over(request.id, 1, 2)
        with pytest.raises(errors.AllocationLost):
            allocations.bind(stale, node.id)
        assert not allocations.fail(stale, "too late")
        mine = allocations.get(request.id)
        allocations.bind(mine, node.id)
        for late in (mine, stale):
            with pytest.raises(errors.AllocationLost):
                allocations.bind(late, other.id)
            assert not allocations.fail(late, "too late")
        assert nodes.get(other.id).instance_uuid is None
        assert allocations.get(request.id).last_error is None
        allocations.destroy(request.id)
        with pytest.raises(errors.AllocationNotFound):
            allocations.bind(mine, other.id)
        assert not allocations.fail(mine, "too late")

    def test_many_at_once_take_each_node_once(self):
        free = [make_node() for _ in range(3)]
        requests = [pending() for _ in range(9)]

        def take(place):
            allocations.bind(requests[place], free[place % 3].id)

        results = in_threads(9, take)
        refused = [r for r in results if r is not None]
        assert len(refused) == 6
        assert all(isinstance(r, errors.NodeAssociated) for r in refused)
        bound = allocations.select(["node_id"], {"state": "active"})
        assert {row["node_id"] for row in bound} == {node.id for node in free}

    def test_uniqueness(self):
        first = pending(name="one")
        with pytest.raises(errors.AllocationDuplicateName):
            pending(name="one")
        with pytest.raises(errors.AllocationAlreadyExists):
            pending(uuid=first.uuid)

    def test_a_failure_is_recorded(self):
        first = pending()
        assert allocations.fail(first, "no node")
        stored = allocations.get(first.id)
        assert (stored.state, stored.last_error) == ("error", "no node")

    def test_a_node_in_use_gets_an_active_one(self):
        node = make_node(instance_uuid=str(uuid.uuid4()))
        made = allocations.create_bound({"uuid": node.instance_uuid, "name": "web"}, node.id)
        assert (made.state, made.node_id) == ("active", node.id)
        assert nodes.get(node.id).allocation_id == made.id
        with pytest.raises(errors.NodeAssociated):
            allocations.create_bound({"name": "other"}, node.id)
        assert [row["name"] for row in allocations.select(["name"])] == ["web"]

    def test_changes_by_what_is_stored_are_not_lost(self):
        request = pending(extra={"a": 0})

        def add(place):
            allocations.change(
                request.id, lambda record: {"extra": {**record.extra, f"k{place}": place}}
            )

        assert in_threads(8, add) == [None] * 8
        assert len(allocations.get(request.id).extra) == 9
        unchanged = allocations.change(request.uuid, lambda record: {})
        assert unchanged.updated_at == allocations.get(request.id).updated_at
        with pytest.raises(errors.AllocationNotFound):
            allocations.change(str(uuid.uuid4()), lambda record: {})

    def test_deletion_can_be_limited_to_those_without_a_node(self):
        free, bound = pending(), pending()
        allocations.bind(bound, make_node().id)
        assert allocations.destroy(free.id, bound=False)
        assert not allocations.destroy(bound.id, bound=False)
        assert [row["id"] for row in allocations.select(["id"])] == [bound.id]

    def test_an_orphan_is_taken_over_once(self):
        old, new = conductors.register("old", []), conductors.register("new", [])
        request = pending(conductor_affinity=old.id)
        assert allocations.take_over(request.id, old.id, new.id)
        assert not allocations.take_over(request.id, old.id, new.id)
        assert allocations.get(request.id).conductor_affinity == new.id
        nobody_s = pending()
        assert allocations.take_over(nobody_s.id, None, new.id)
        assert not allocations.take_over(nobody_s.id, None, new.id)

    def test_unattended_are_one_s_own_and_those_of_the_dead_and_unknown(self):
        mine, alive = conductors.register("mine", []), conductors.register("alive", [])
        dead = conductors.register("dead", [])
        made = {
            affinity: pending(conductor_affinity=affinity).id
            for affinity in (mine.id, alive.id, dead.id, 4711, None)
        }
        pending(conductor_affinity=dead.id, state="active")
        let_die("dead")
        found = {record.id for record in allocations.unattended(mine.id)}
        assert found == {made[affinity] for affinity in (mine.id, dead.id, 4711, None)}
        assert {record.id for record in allocations.unattended(None)} == found - {made[mine.id]}
