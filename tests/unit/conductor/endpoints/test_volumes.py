"""Volume connectors and targets."""

from __future__ import annotations

import pytest

from ironic_rs.db import volumes
from ironic_rs.domain import errors, states


@pytest.fixture
def node(world):
    return world.node(power_state=states.POWER_OFF)


def connector(node, **values):
    row = {"node_id": node.id, "type": "iqn", "connector_id": "iqn.2017-07.org:1"}
    return volumes.create_connector(row | values)


def target(node, **values):
    row = {"node_id": node.id, "volume_type": "iscsi", "boot_index": 0, "volume_id": "v1"}
    return volumes.create_target(row | values)


def op(path, value):
    return {"op": "replace", "path": path, "value": value}


def update(world, node, record, *operations):
    if isinstance(record, volumes.VolumeTarget):
        world.call("update_volume_target", node, target_id=record.uuid, patch=list(operations))
        return volumes.get_target(record.uuid)
    world.call("update_volume_connector", node, connector_id=record.uuid, patch=list(operations))
    return volumes.get_connector(record.uuid)


def destroy(world, node, record):
    if isinstance(record, volumes.VolumeTarget):
        world.call("destroy_volume_target", node, target_id=record.uuid)
    else:
        world.call("destroy_volume_connector", node, connector_id=record.uuid)


KINDS = pytest.mark.parametrize("make", [connector, target])


@KINDS
def test_a_patch_changes_one_of_a_node_that_is_off(world, node, make):
    record = make(node)
    stored = update(world, node, record, op("/extra", {"a": 1}))
    assert stored.extra == {"a": 1}
    assert world.read(node).reservation is None
    before = stored.updated_at
    assert update(world, node, record, op("/extra", {"a": 1})).updated_at == before


def test_every_column_can_change(world, node):
    stored = update(
        world, node, target(node), op("/boot_index", "1"), op("/properties/a", 1) | {"op": "add"}
    )
    assert (stored.boot_index, stored.properties) == (1, {"a": 1})
    stored = update(world, node, connector(node), op("/type", "wwnn"), op("/connector_id", "x"))
    assert (stored.type, stored.connector_id) == ("wwnn", "x")


@KINDS
@pytest.mark.parametrize("power", [states.POWER_ON, None])
def test_nothing_changes_while_the_node_may_be_on(world, make, power):
    node = world.node(power_state=power)
    record = make(node)
    with pytest.raises(errors.InvalidStateRequested) as caught:
        update(world, node, record, op("/extra", {"a": 1}))
    assert caught.value.code == 400


@KINDS
def test_one_moves_to_another_node(world, node, make):
    other = world.node()
    assert update(world, node, make(node), op("/node_id", other.id)).node_id == other.id


@KINDS
def test_the_columns_of_the_service_itself_stay(world, node, make):
    record = make(node)
    for path in ("/uuid", "/id", "/created_at", "/nothing"):
        with pytest.raises(errors.PatchError):
            update(world, node, record, op(path, "x"))


def test_duplicates_are_refused(world, node):
    connector(node, connector_id="a")
    target(node, boot_index=1)
    with pytest.raises(errors.VolumeConnectorTypeAndIdAlreadyExists):
        update(world, node, connector(node), op("/connector_id", "a"))
    with pytest.raises(errors.VolumeTargetBootIndexAlreadyExists):
        update(world, node, target(node), op("/boot_index", 1))


@KINDS
def test_one_of_another_node_is_not_found(world, node, make):
    record = make(world.node(power_state=states.POWER_OFF))
    with pytest.raises(errors.NotFound):
        update(world, node, record)
    with pytest.raises(errors.NotFound):
        destroy(world, node, record)


@KINDS
@pytest.mark.parametrize(
    ("state", "power", "allowed"),
    [
        (states.ACTIVE, states.POWER_OFF, True),
        (states.AVAILABLE, states.POWER_OFF, True),
        (states.MANAGEABLE, states.POWER_ON, True),
        (states.ENROLL, None, True),
        (states.ADOPTFAIL, states.POWER_ON, True),
        (states.ACTIVE, states.POWER_ON, False),
        (states.AVAILABLE, states.POWER_ON, False),
        (states.AVAILABLE, None, False),
    ],
)
def test_deletion_needs_a_node_that_is_off_or_not_in_use(world, make, state, power, allowed):
    node = world.node(state, power_state=power)
    record = make(node)
    if not allowed:
        with pytest.raises(errors.InvalidStateRequested):
            destroy(world, node, record)
        return
    destroy(world, node, record)
    with pytest.raises(errors.NotFound):
        destroy(world, node, record)


@KINDS
def test_a_locked_node_is_not_touched(world, node, make):
    record = make(node)
    with world.task(node):
        with pytest.raises(errors.NodeLocked):
            update(world, node, record)
        with pytest.raises(errors.NodeLocked):
            destroy(world, node, record)
