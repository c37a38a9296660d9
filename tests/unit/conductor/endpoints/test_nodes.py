"""Creation, change, validation and deletion of nodes."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import allocations, history, nodes, ports, traits
from ironic_rs.domain import errors, states

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
OTHER = "2be26c0b-03f2-4d2e-ae87-c02d7f33c123"


def create(world, **values):
    uuid = world.call("create_node", node={"driver": "fake-hardware"} | values)["uuid"]
    return nodes.get(uuid)


def op(name, path, value=None):
    return {"op": name, "path": path} | ({} if name == "remove" else {"value": value})


def update(world, node, *operations, **kwargs):
    world.call("update_node", node, patch=list(operations), **kwargs)
    return world.read(node)


def test_a_new_node_gets_default_interfaces(world):
    node = create(world, uuid=UUID, extra={"a": 1})
    assert node.uuid == UUID
    assert node.extra == {"a": 1}
    assert node.provision_state == states.ENROLL
    assert (node.power_interface, node.network_interface, node.bios_interface) == (
        "fake",
        "noop",
        "no-bios",
    )


def test_an_override_of_the_instance_needs_no_default_beside_it(world):
    node = create(world, instance_info={"deploy_interface": "fake"})
    assert node.deploy_interface is None


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"driver": "unknown"}, errors.DriverNotFound),
        ({"power_interface": "unknown"}, errors.InterfaceNotFoundInEntrypoint),
        ({"instance_info": {"power_interface": "x"}}, errors.InterfaceNotFoundInEntrypoint),
        ({"uuid": UUID, "parent_node": UUID}, errors.InvalidParameterValue),
        ({"parent_node": OTHER}, errors.InvalidParameterValue),
    ],
)
def test_a_bad_node_is_refused(world, values, error):
    with pytest.raises(error):
        create(world, **values)
    assert nodes.select(["id"]) == []


def test_uuid_and_name_are_unique(world):
    create(world, uuid=UUID, name="a")
    with pytest.raises(errors.NodeAlreadyExists):
        create(world, uuid=UUID)
    with pytest.raises(errors.DuplicateName):
        create(world, name="a")


# Changes.


def test_w11_a_patch_is_applied_to_the_record_as_it_is_under_the_lock(world):
    node = world.node(extra={"a": 1})
    update(world, node, op("add", "/extra/b", 2))
    # Somebody who has read the node before this sends the next patch.
    stored = update(world, node, op("add", "/extra/c", 3))
    assert stored.extra == {"a": 1, "b": 2, "c": 3}


def test_w11_what_the_conductor_writes_can_not_be_patched(world):
    node = world.node(driver_internal_info={"keep": 1})
    for path in ("/driver_internal_info/x", "/reservation", "/provision_state"):
        with pytest.raises(errors.PatchError):
            update(world, node, op("add", path, "1"))
    assert world.read(node).driver_internal_info == {"keep": 1}


def test_true_and_one_are_different_values(world):
    node = world.node(extra={"a": True})
    assert update(world, node, op("replace", "/extra/a", 1)).extra["a"] is not True


def test_an_update_is_one_statement_besides_the_lock(world):
    from ironic_rs.db import session

    node = world.node()
    with session.count_statements() as seen:
        update_only = {"patch": [op("add", "/extra/b", 2)]}
        world.call("update_node", node, **update_only)
    assert seen.count == 4, seen.statements


@pytest.mark.parametrize(
    ("path", "value"),
    [("/driver_info", 5), ("/maintenance", "perhaps"), ("/name", 5), ("/extra", [])],
)
def test_values_of_the_wrong_type_are_refused(world, path, value):
    with pytest.raises((errors.InvalidParameterValue, errors.PatchError)):
        update(world, world.node(), op("replace", path, value))


def test_leaving_maintenance_clears_reason_and_fault(world):
    node = world.node(maintenance=True, maintenance_reason="x", fault=states.FAULT_POWER)
    stored = update(world, node, op("replace", "/maintenance", False))
    assert (stored.maintenance, stored.maintenance_reason, stored.fault) == (False, None, None)


@pytest.mark.parametrize("state", [states.ACTIVE, states.RESCUE])
def test_protection_is_for_deployed_nodes(world, state):
    node = world.node(state)
    stored = update(
        world, node, op("add", "/protected", True), op("add", "/protected_reason", "db")
    )
    assert (stored.protected, stored.protected_reason) == (True, "db")
    stored = update(world, node, op("remove", "/protected"))
    assert (stored.protected, stored.protected_reason) == (False, None)
    with pytest.raises(errors.InvalidState):
        update(world, world.node(states.AVAILABLE), op("add", "/protected", True))
    with pytest.raises(errors.InvalidParameterValue):
        update(world, node, op("add", "/protected_reason", "db"))


def test_retirement_is_not_for_available_nodes(world):
    node = world.node(states.ACTIVE)
    stored = update(world, node, op("add", "/retired", True), op("add", "/retired_reason", "old"))
    assert (stored.retired, stored.retired_reason) == (True, "old")
    stored = update(world, node, op("replace", "/retired", False))
    assert stored.retired_reason is None
    with pytest.raises(errors.InvalidState):
        update(world, world.node(states.AVAILABLE), op("add", "/retired", True))
    with pytest.raises(errors.InvalidParameterValue):
        update(world, node, op("add", "/retired_reason", "old"))


ALLOWED = states.UPDATE_NODE_INTERFACES_ALLOWED


@pytest.mark.parametrize("state", sorted(ALLOWED))
def test_interfaces_change_where_that_is_safe(world, state):
    stored = update(
        world,
        world.node(state, driver_internal_info={"original_deploy_interface": "x"}),
        op("replace", "/deploy_interface", "fake"),
        op("replace", "/console_interface", "fake"),
    )
    assert stored.console_interface == "fake"
    assert "original_deploy_interface" not in stored.driver_internal_info


def test_interfaces_stay_while_something_runs(world):
    node = world.node(states.ACTIVE, console_interface="no-console")
    with pytest.raises(errors.InvalidState):
        update(world, node, op("replace", "/console_interface", "fake"))
    node = world.node(states.ACTIVE, console_interface="no-console", maintenance=True)
    stored = update(world, node, op("replace", "/console_interface", "fake"))
    assert stored.console_interface == "fake"


def test_a_removed_interface_returns_to_its_default(world):
    node = world.node(storage_interface="noop")
    assert update(world, node, op("remove", "/storage_interface")).storage_interface == "fake"


def test_an_unknown_interface_or_driver_is_refused(world):
    node = world.node()
    with pytest.raises(errors.InterfaceNotFoundInEntrypoint):
        update(world, node, op("replace", "/power_interface", "unknown"))
    with pytest.raises(errors.DriverNotFound):
        update(world, node, op("replace", "/driver", "unknown"))


def test_a_new_driver_can_reset_the_interfaces(world):
    node = world.node(driver="old-driver", storage_interface="noop", console_interface="fake")
    stored = update(
        world,
        node,
        op("replace", "/driver", "fake-hardware"),
        op("replace", "/console_interface", "fake"),
        reset_interfaces=True,
    )
    assert (stored.storage_interface, stored.console_interface) == ("fake", "fake")


def test_the_resource_class_stays_while_something_runs(world):
    node = world.node(states.ACTIVE, resource_class="a", maintenance=True)
    with pytest.raises(errors.InvalidState):
        update(world, node, op("replace", "/resource_class", "b"))
    node = world.node(states.ACTIVE)
    assert update(world, node, op("add", "/resource_class", "b")).resource_class == "b"


def test_an_instance_is_claimed_by_one(world):
    node = world.node(states.AVAILABLE)
    assert update(world, node, op("add", "/instance_uuid", UUID)).instance_uuid == UUID
    update(world, node, op("add", "/instance_uuid", UUID))
    with pytest.raises(errors.NodeAssociated):
        update(world, node, op("replace", "/instance_uuid", OTHER))
    with pytest.raises(errors.InstanceAssociated):
        update(world, world.node(), op("add", "/instance_uuid", UUID))
    assert update(world, node, op("remove", "/instance_uuid")).instance_uuid is None


def test_the_allocation_goes_with_the_instance_where_that_is_safe(world):
    def allocated(state):
        node = world.node(state)
        allocation = allocations.create(
            {"uuid": UUID, "state": "active", "resource_class": "r", "node_id": node.id}
        )
        nodes.update(node, {"allocation_id": allocation.id, "instance_uuid": UUID}, fence=None)
        return node, allocation

    node, allocation = allocated(states.ACTIVE)
    with pytest.raises(errors.InvalidState):
        update(world, node, op("remove", "/instance_uuid"))
    assert world.read(node).instance_uuid == UUID
    update(world, node, op("replace", "/maintenance", True))
    stored = update(world, node, op("remove", "/instance_uuid"))
    assert (stored.instance_uuid, stored.allocation_id) == (None, None)
    with pytest.raises(errors.AllocationNotFound):
        allocations.get(allocation.id)


def test_loops_of_parents_are_refused(world):
    a = world.node(name="a")
    b = world.node(name="b", parent_node=a.uuid)
    c = world.node(name="c", parent_node=b.uuid)
    for child, parent in ((a, a), (a, c), (a, OTHER)):
        uuid = parent if isinstance(parent, str) else parent.uuid
        with pytest.raises(errors.InvalidParameterValue):
            update(world, child, op("add", "/parent_node", uuid))
    assert update(world, c, op("replace", "/parent_node", a.uuid)).parent_node == a.uuid


@pytest.mark.parametrize("value", [17, ["web"], {"a": 1}, "x" * 256, ""])
def test_a_display_name_that_is_no_name_is_left_alone(world, value):
    node = world.node(state=states.ACTIVE)
    stored = update(world, node, op("add", "/instance_info", {"display_name": value}))
    assert stored.instance_name is None


def test_a_display_name_fills_an_empty_instance_name(world):
    node = world.node()
    stored = update(world, node, op("add", "/instance_info", {"display_name": "web"}))
    assert stored.instance_name == "web"
    stored = update(world, node, op("add", "/instance_info", {"display_name": "db"}))
    assert stored.instance_name == "web"


def test_a_locked_node_is_not_changed(world):
    node = world.node()
    with world.task(node), pytest.raises(errors.NodeLocked):
        update(world, node, op("add", "/extra/a", 1))
    assert world.read(node).extra == {}


# Deletion.


def test_a_deleted_node_takes_everything_with_it(world):
    node = world.node()
    ports.create({"node_id": node.id, "address": "52:54:00:cf:2d:31"})
    traits.set_traits(node.id, ["CUSTOM_A"])
    history.create({"node_id": node.id, "event": "x"})
    world.call("destroy_node", node)
    with pytest.raises(errors.NodeNotFound):
        world.read(node)
    assert ports.select(["id"]) == []
    assert not world.tasks.book.is_held(node.uuid)
    with pytest.raises(errors.NodeNotFound):
        world.call("destroy_node", node)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"instance_uuid": UUID}, errors.NodeAssociated),
        ({"protected": True}, errors.NodeProtected),
        ({"protected": True, "maintenance": True}, errors.NodeProtected),
        ({"state": states.ACTIVE}, errors.InvalidState),
        ({"state": states.CLEANWAIT}, errors.InvalidState),
    ],
)
def test_a_node_in_use_is_not_deleted(world, values, error):
    node = world.node(**values)
    with pytest.raises(error):
        world.call("destroy_node", node)
    assert world.read(node).reservation is None


def test_maintenance_allows_deletion_in_any_state(world):
    node = world.node(states.CLEANFAIL, maintenance=True, instance_uuid=UUID)
    world.call("destroy_node", node)
    with pytest.raises(errors.NodeNotFound):
        world.read(node)


def test_deleting_available_nodes_can_be_forbidden(world):
    CONF.set_override("allow_deleting_available_nodes", False, group="conductor")
    node = world.node(states.AVAILABLE)
    with pytest.raises(errors.InvalidState):
        world.call("destroy_node", node)


def test_a_parent_goes_after_its_children(world):
    parent = world.node()
    child = world.node(parent_node=parent.uuid)
    with pytest.raises(errors.InvalidState, match=child.uuid):
        world.call("destroy_node", parent)
    world.call("destroy_node", child)
    world.call("destroy_node", parent)


def test_a_running_console_is_stopped_before_deletion(world):
    stopped = []

    def stop(task):
        stopped.append(task)
        raise OSError("no")

    world.driver.console.stop_console = stop
    world.call("destroy_node", world.node(console_enabled=True))
    assert len(stopped) == 1


# Validation.


def test_every_interface_is_validated_by_itself(world):
    def refuse(task):
        raise errors.MissingParameterValue("no address")

    def broken(task):
        raise OSError("no")

    world.driver.power.validate = refuse
    world.driver.raid.validate = broken
    result = world.call("validate_driver_interfaces", world.node())
    assert set(result) == {
        "boot",
        "deploy",
        "management",
        "network",
        "power",
        "bios",
        "console",
        "firmware",
        "inspect",
        "raid",
        "rescue",
        "storage",
    }
    assert result["boot"] == {"result": True}
    assert result["power"] == {"result": False, "reason": "no address"}
    assert "Unexpected error, OSError" in result["raid"]["reason"]
    assert result["bios"]["result"] is False


def test_traits_of_the_instance_are_part_of_deploy_validation(world):
    node = world.node(instance_info={"traits": ["CUSTOM_A"]})
    result = world.call("validate_driver_interfaces", node)["deploy"]
    assert result["result"] is False
    assert "CUSTOM_A" in result["reason"]


def test_validation_works_while_the_node_is_locked(world):
    node = world.node()
    with world.task(node):
        assert world.call("validate_driver_interfaces", node)["deploy"] == {"result": True}


# Traits.


def test_traits_are_added_replaced_and_removed(world):
    node = world.node()
    world.call("add_node_traits", node, traits=["CUSTOM_A", "CUSTOM_B"])
    world.call("add_node_traits", node, traits=["CUSTOM_A"])
    assert world.read(node).traits == ["CUSTOM_A", "CUSTOM_B"]
    world.call("add_node_traits", node, traits=["CUSTOM_C"], replace=True)
    assert world.read(node).traits == ["CUSTOM_C"]
    with pytest.raises(errors.NodeTraitNotFound):
        world.call("remove_node_traits", node, traits=["CUSTOM_A"])
    world.call("remove_node_traits", node, traits=None)
    assert world.read(node).traits == []
    with pytest.raises(errors.InvalidParameterValue):
        world.call("add_node_traits", node, traits=[f"CUSTOM_{n}" for n in range(51)])


# While a flow is on its way: the API has looked at the node before the lock.

ON_THE_WAY = sorted(
    name for name, row in states.STATES.items() if row.target and name not in states.UPDATE_ALLOWED
)


@pytest.mark.parametrize("state", ON_THE_WAY)
def test_a_node_that_is_on_its_way_meanwhile_is_not_changed(world, state):
    node = world.node(state)
    with pytest.raises(errors.InvalidState) as refused:
        update(world, node, op("add", "/extra/a", 1))
    assert refused.value.code == 409
    assert world.read(node).extra == {}


@pytest.mark.parametrize("state", [states.DEPLOYWAIT, states.CLEANWAIT])
def test_maintenance_can_be_set_and_cleared_at_any_time(world, state):
    node = world.node(state)
    on = [op("replace", "/maintenance", True), op("replace", "/maintenance_reason", "x")]
    stored = update(world, node, *on)
    assert (stored.maintenance, stored.maintenance_reason) == (True, "x")
    assert update(world, node, op("replace", "/maintenance", False)).maintenance is False


def test_in_maintenance_the_instance_can_be_taken_off_at_any_time(world):
    node = world.node(states.DEPLOYWAIT, maintenance=True, instance_uuid=UUID)
    assert update(world, node, op("remove", "/instance_uuid")).instance_uuid is None


@pytest.mark.parametrize("state", [states.DEPLOYFAIL, states.INSPECTWAIT, states.SERVICEHOLD])
def test_where_changes_are_allowed_they_still_are(world, state):
    assert update(world, world.node(state), op("add", "/extra/a", 1)).extra == {"a": 1}
