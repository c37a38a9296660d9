"""Records know what changed since they were stored."""

import datetime

import pytest

from ironic_rs.db import records
from ironic_rs.db.models import DeployTemplate, InspectionRule, Node, Port, Runbook


def stored(model=Node, **values):
    """A clean record, as a query makes it."""
    row = {column.name: None for column in model.__table__.columns}
    fresh = model()
    return records.build(model, {**row, **records.as_dict(fresh), **values})


def test_a_record_made_by_hand_has_the_defaults_of_its_columns():
    node = Node(uuid="x", driver="fake-hardware")
    assert (node.extra, node.maintenance, node.conductor_group) == ({}, False, "")
    assert (node.id, node.name, node.automated_clean, node.traits) == (None, None, None, [])
    assert Port().available_for_dynamic_portgroup is True
    assert Port(node_uuid="n").node_uuid == "n"
    assert DeployTemplate(name="x").steps == []
    assert Runbook(name="x", traits=["a"]).traits == ["a"]
    assert InspectionRule().conditions == []


def test_two_records_share_no_default():
    one, other = Node(), Node()
    one.extra["a"] = 1
    one.traits.append("a")
    assert (other.extra, other.traits) == ({}, [])


def test_an_unknown_attribute_is_refused():
    with pytest.raises(TypeError, match="Node has no colour"):
        Node(colour="red")


def test_nothing_changed_in_a_record_just_read():
    assert records.changes(stored(extra={"a": [1]}, name="x")) == {}


def test_assignments_and_changes_in_place_are_found():
    node = stored(extra={"a": [1]}, properties={"b": 1}, name="x")
    node.name = "y"
    node.extra["a"].append(2)
    node.properties = {"b": 1}
    assert records.changes(node) == {"name": "y", "extra": {"a": [1, 2]}}


def test_the_order_of_keys_is_no_change_and_the_type_of_a_value_is():
    node = stored(extra={"a": 1, "b": 2}, maintenance=False)
    node.extra = {"b": 2, "a": 1}
    assert records.changes(node) == {}
    node.extra["a"] = True
    assert "extra" in records.changes(node)


def test_a_change_that_is_taken_back_is_none():
    node = stored(extra={"a": 1}, power_state="power on")
    node.power_state, node.extra["b"] = "power off", 2
    node.power_state = "power on"
    del node.extra["b"]
    assert records.changes(node) == {}


def test_all_of_a_record_never_stored_is_changed():
    assert set(records.changes(Node(name="x"))) == set(Node.__table__.columns.keys())


def test_clean_columns_are_no_changes_and_others_stay():
    node = stored()
    node.name, node.owner = "x", "y"
    records.mark_clean(node, ["name"])
    assert records.changes(node) == {"owner": "y"}
    records.mark_clean(node)
    assert records.changes(node) == {}


def test_the_stored_value_is_known_after_a_change():
    node = stored(provision_state="active")
    node.provision_state = "deleting"
    assert records.original(node, "provision_state") == "active"
    records.mark_clean(node)
    assert records.original(node, "provision_state") == "deleting"
    assert records.original(Node(), "name") is None


def test_values_of_the_database_are_applied_clean():
    node = stored()
    now = datetime.datetime.now(datetime.UTC)
    records.apply(node, {"updated_at": now})
    assert node.updated_at == now
    assert records.changes(node) == {}


def test_a_clone_is_independent():
    node = stored(extra={"a": [1]})
    node.traits = ["CUSTOM_A"]
    twin = records.clone(node)
    twin.extra["a"].append(2)
    twin.traits.append("CUSTOM_B")
    twin.name = "x"
    assert (node.extra, node.traits, node.name) == ({"a": [1]}, ["CUSTOM_A"], None)
    assert records.changes(node) == {}
    assert set(records.changes(twin)) == {"extra", "name"}
    assert records.clone(Node(name="y")).name == "y"


def test_an_interface_of_the_instance_overrides_the_nodes_own():
    node = Node(deploy_interface="direct", instance_info={"deploy_interface": "ramdisk"})
    assert node.get_interface("deploy") == "ramdisk"
    node.instance_info["deploy_interface"] = None
    assert node.get_interface("deploy") == "direct"
    assert node.get_interface("boot") is None


def test_a_record_shows_its_identity_and_no_secrets():
    node = Node(uuid="u", name="n", driver_info={"ipmi_password": "secret"})
    assert repr(node) == "<Node uuid=u name=n>"
