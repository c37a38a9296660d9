"""Actions of rules, one after the other, on a database."""

from __future__ import annotations

import logging

import pytest

from ironic_rs.db import nodes, ports
from ironic_rs.domain import errors
from ironic_rs.inspection.rules import actions
from ironic_rs.inspection.rules.interpolation import Scope
from ironic_rs.inspection.rules.rule import RuleError

INVENTORY = {"cpu": {"count": 4}, "bmc_address": "10.0.0.1"}
FAILURES = (RuleError, errors.InvalidParameterValue)


@pytest.fixture
def run(task):
    data = {"flag": "on"}

    def call(op, args, **more):
        scope = Scope(task.node, INVENTORY, data)
        actions.run({"op": op, "args": args, **more}, actions.Target(task.node, data), scope)
        return task.node

    call.data = data
    return call


def test_fail_says_what_the_rule_says(run):
    with pytest.raises(errors.HardwareInspectionFailure, match=r"only 4 CPUs in redfish\Z"):
        run("fail", {"msg": "only {inventory[cpu][count]} CPUs in {node.driver}"})


@pytest.mark.parametrize("level", ["debug", "info", "warning", "error", "critical"])
def test_log(run, task, caplog, level):
    task.node.driver_info = {"redfish_password": "canary"}
    caplog.set_level(logging.DEBUG)
    run("log", {"msg": "{inventory[cpu][count]} {node.driver_info}", "level": level})
    (record,) = [r for r in caplog.records if "inspection rule" in r.getMessage()]
    assert record.levelname == level.upper()
    assert "rule: 4" in record.getMessage()
    assert "canary" not in record.getMessage()


def test_log_at_no_level(run):
    with pytest.raises(FAILURES):
        run("log", {"msg": "x", "level": "loud"})
    run("log", ["x"])


@pytest.mark.parametrize(
    ("path", "value", "field", "result"),
    [
        ("extra/a", 1, "extra", {"old": [1], "a": 1}),
        ("/extra/a/b.c", "{inventory[cpu][count]}", "extra", {"old": [1], "a": {"b.c": "4"}}),
        ("extra.a.b", {"{node.driver}": 1}, "extra", {"old": [1], "a": {"b": {"redfish": 1}}}),
        ("extra", {"new": 1}, "extra", {"new": 1}),
        ("extra", None, "extra", {}),
        ("description", "of {node.driver}", "description", "of redfish"),
        ("resource_class", None, "resource_class", None),
        ("automated_clean", "no", "automated_clean", False),
        ("conductor_group", "Rack", "conductor_group", "rack"),
        ("name", "n1", "name", "n1"),
        ("driver_info/redfish_address", "https://{inventory[bmc_address]}", "driver_info", None),
    ],
)
def test_set_attribute(run, task, path, value, field, result):
    task.node.extra = {"old": [1]}
    node = run("set-attribute", {"path": path, "value": value})
    if field == "driver_info":
        result = {"redfish_address": "https://10.0.0.1"}
    assert getattr(node, field) == result


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("provision_state", "active"),
        ("reservation", "me"),
        ("uuid", "x"),
        ("id", 1),
        ("driver_internal_info/agent_url", "x"),
        ("chassis_uuid", None),
        ("_sa_instance_state", None),
        ("bogus/a", 1),
        ("extra/old/a", 1),
        ("extra/a//b", 1),
        ("", 1),
        ("/", 1),
        (5, 1),
        ("extra", []),
        ("driver", None),
        ("driver", ""),
        ("description", {}),
        ("description/x", 1),
        ("automated_clean", "perhaps"),
        ("name", "a b"),
        ("name", "states"),
        ("resource_class", "x" * 300),
    ],
)
def test_attributes_that_can_not_be_set(run, task, path, value):
    task.node.extra = {"old": [1]}
    with pytest.raises(FAILURES):
        run("set-attribute", {"path": path, "value": value})


def test_extend_attribute(run, task):
    task.node.extra = {"old": [1], "text": "x"}
    run("extend-attribute", {"path": "extra/old", "value": 2})
    run("extend-attribute", {"path": "extra/old", "value": 2})
    run("extend-attribute", {"path": "extra/old", "value": 1, "unique": True})
    node = run("extend-attribute", {"path": "extra/new/list", "value": "{node.driver}"})
    assert node.extra == {"old": [1, 2, 2], "text": "x", "new": {"list": ["redfish"]}}
    for path in ("extra/text", "description", "extra"):
        with pytest.raises(FAILURES):
            run("extend-attribute", {"path": path, "value": 1})


def test_del_attribute(run, task):
    task.node.extra = {"a": {"b": 1}}
    task.node.description = "x"
    node = run("del-attribute", {"path": "extra/a/b"})
    run("del-attribute", {"path": "description"})
    assert (node.extra, node.description) == ({"a": {}}, None)
    for path in ("extra/a/b", "extra/x/y", "driver"):
        with pytest.raises(FAILURES):
            run("del-attribute", {"path": path})


def test_capabilities(run, task):
    assert "capabilities" not in run("unset-capability", {"name": "a"}).properties
    run("set-capability", {"name": "a", "value": "{inventory[cpu][count]}"})
    run("set-capability", {"name": "b", "value": 1})
    node = run("set-capability", {"name": "a", "value": "x:y"})
    assert node.properties["capabilities"] == "b:1,a:x:y"
    node.properties["capabilities"] = "a:1,b:2, a :3,odd"
    assert run("unset-capability", {"name": "a"}).properties["capabilities"] == "b:2,odd"
    for name, value in (("a,b", "1"), ("a", "1,b:2"), ("", "1"), ("a:b", "1"), (5, "1")):
        with pytest.raises(FAILURES):
            run("set-capability", {"name": name, "value": value})
    task.node.properties["capabilities"] = ["a"]
    with pytest.raises(FAILURES):
        run("set-capability", {"name": "a", "value": 1})


def test_traits(run, task):
    def stored():
        return nodes.get(task.node.id).traits

    run("add-trait", {"name": "CUSTOM_CPUS_{inventory[cpu][count]}"})
    run("add-trait", {"name": "CUSTOM_B"})
    run("add-trait", {"name": "CUSTOM_B"})
    assert stored() == task.node.traits == ["CUSTOM_B", "CUSTOM_CPUS_4"]
    run("remove-trait", {"name": "CUSTOM_B"})
    run("remove-trait", {"name": "CUSTOM_B"})
    assert stored() == task.node.traits == ["CUSTOM_CPUS_4"]
    for name in ("custom", "", 5, "CUSTOM_" + "X" * 300):
        with pytest.raises(FAILURES):
            run("add-trait", {"name": name})


def test_the_fifty_first_trait_fails(run):
    for number in range(50):
        run("add-trait", {"name": f"CUSTOM_{number}"})
    with pytest.raises(errors.InvalidParameterValue, match="50 traits"):
        run("add-trait", {"name": "CUSTOM_X"})


def test_plugin_data(run):
    run("set-plugin-data", {"path": "a.b/c", "value": "{plugin_data[flag]}"})
    run("set-plugin-data", {"path": "flag", "value": 1, "plugin_data": {}})
    run("extend-plugin-data", ["a.list", 1])
    run("extend-plugin-data", ["a.list", 1, True])
    assert run.data == {"flag": 1, "a": {"b/c": "on", "list": [1]}}
    run("unset-plugin-data", {"path": "a.b/c"})
    run("unset-plugin-data", {"path": "a.bogus"})
    run("unset-plugin-data", {"path": "bogus.x.y"})
    # Nothing but the key itself goes.
    run("unset-plugin-data", {"path": "a.list"})
    run("unset-plugin-data", {"path": "flag"})
    assert run.data == {"a": {}}
    for path in ("", "a..b", 5):
        with pytest.raises(FAILURES):
            run("set-plugin-data", {"path": path, "value": 1})
    run.data["text"] = "x"
    for op in ("set-plugin-data", "extend-plugin-data"):
        with pytest.raises(FAILURES):
            run(op, {"path": "text.y", "value": 1})
    with pytest.raises(FAILURES):
        run("extend-plugin-data", {"path": "text", "value": 1})


def test_ports(run, task):
    made = ports.create({"node_id": task.node.id, "address": "52:54:00:00:00:01"})
    uuid = made.uuid

    def port():
        return ports.get(uuid)

    run("set-port-attribute", [uuid, "extra/cpus", "{inventory[cpu][count]}"])
    run(
        "set-port-attribute",
        {"port_id": "{item}", "path": "pxe_enabled", "value": "no"},
        loop=[uuid],
    )
    run("set-port-attribute", [uuid, "local_link_connection.port_id", "eth1"])
    run("extend-port-attribute", [uuid, "extra/list", 1])
    run("extend-port-attribute", [uuid, "extra/list", 1, True])
    assert port().extra == {"cpus": "4", "list": [1]}
    assert port().pxe_enabled is False
    assert port().local_link_connection == {"port_id": "eth1"}
    run("del-port-attribute", [uuid, "extra/cpus"])
    run("del-port-attribute", [uuid, "local_link_connection"])
    assert (port().extra, port().local_link_connection) == ({"list": [1]}, {})
    for path, value in (("node_uuid", uuid), ("id", 1), ("address", "x"), ("name", "a b")):
        with pytest.raises(FAILURES):
            run("set-port-attribute", [uuid, path, value])
    with pytest.raises(FAILURES):
        run("del-port-attribute", [uuid, "address"])


def test_ports_of_other_nodes_are_not_found(run, task):
    other = nodes.create({"driver": "redfish"})
    theirs = ports.create({"node_id": other.id, "address": "52:54:00:00:00:02"})
    unknown = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
    for port_id in (theirs.uuid, unknown, "x", str(theirs.id)):
        with pytest.raises(errors.PortNotFound):
            run("set-port-attribute", [port_id, "extra/a", 1])


def test_loops(run):
    node = run(
        "set-attribute",
        {"path": "extra/{item[key]}", "value": "{item[value]}"},
        loop=[{"key": "a", "value": 1}, {"key": "b", "value": 2}],
    )
    run("extend-attribute", ["extra/list", "{item[c]}"], loop={"c": 3})
    run("fail", {"msg": "never"}, loop=[])
    assert node.extra == {"a": "1", "b": "2", "list": ["3"]}
