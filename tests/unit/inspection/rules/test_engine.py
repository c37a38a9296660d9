"""Rules as a whole: order, saving, masking, failures."""

from __future__ import annotations

import pytest

from ironic_rs.db import inspection_rules, nodes, session
from ironic_rs.domain import errors
from ironic_rs.inspection.rules import engine

INVENTORY = {"cpu": {"count": 4}, "bmc_password": "canary"}


def add(*rule_actions, priority=0, conditions=(), **more):
    given = {"actions": list(rule_actions), "conditions": list(conditions), "priority": priority}
    return inspection_rules.create({**given, **more})


def put(path, value):
    return {"op": "set-attribute", "args": {"path": path, "value": value}}


def when(*values):
    return {"op": "eq", "args": {"values": list(values)}}


def stored(task):
    return nodes.get(task.node.id)


@pytest.fixture
def apply(task):
    def call(plugin_data=None):
        engine.apply(task, INVENTORY, {} if plugin_data is None else plugin_data)
        return stored(task)

    return call


def test_without_rules_nothing_is_written(task, apply):
    with session.count_statements() as counted:
        apply()
    assert [s for s in counted.statements if s.startswith("UPDATE")] == []
    assert stored(task).updated_at == task.node.updated_at


def test_higher_priorities_come_first_and_are_seen_by_those_after(apply):
    add(put("extra/order", "{node.extra[order]} low"), priority=1)
    add(put("extra/order", "{node.extra[order]} middle, the second"), priority=5)
    add(put("extra/order", "high"), priority=9)
    add(put("extra/order", "{node.extra[order]} third"), priority=5)
    assert apply().extra == {"order": "high middle, the second third low"}


def test_conditions_see_what_rules_before_did(apply):
    data = {}
    add({"op": "set-plugin-data", "args": ["a", "x"]}, priority=2)
    add(put("extra/seen", True), conditions=[when("{plugin_data[a]}", "x")], priority=1)
    add(put("extra/unseen", True), conditions=[when("{plugin_data[a]}", "y")], priority=1)
    assert apply(data).extra == {"seen": True}
    assert data == {"a": "x"}


def test_each_rule_that_applies_costs_one_statement(task, apply):
    for number in range(3):
        add(put(f"extra/a{number}", 1), put(f"extra/b{number}", 1))
    add(put("extra/never", 1), conditions=[when(1, 2)])
    with session.count_statements() as counted:
        engine.apply(task, INVENTORY, {})
    assert counted.count == 1 + 3, counted.statements


def test_rules_of_other_phases_are_left_alone(apply):
    add(put("extra/a", 1), phase="other")
    assert apply().extra == {}


def test_fail_keeps_what_the_rule_did_before(task, apply):
    add(put("extra/a", 1), {"op": "fail", "args": {"msg": "enough of {node.driver}"}}, priority=1)
    add(put("extra/b", 1))
    with pytest.raises(errors.HardwareInspectionFailure, match="enough of redfish"):
        apply()
    assert stored(task).extra == {"a": 1}


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (put("provision_state", "active"), "'provision_state'"),
        ({"op": "del-attribute", "args": ["extra/missing"]}, "action del-attribute.*'missing'"),
        ({"op": "set-port-attribute", "args": ["x", "extra/a", 1]}, "Port x"),
        ({"op": "fly", "args": []}, "KeyError: 'fly'"),
        ({"op": "fail"}, "KeyError: 'args'"),
        ({"op": "fail", "args": {}}, "lacks the argument.* msg"),
    ],
)
def test_failures_name_the_rule(task, apply, action, text):
    rule = add(action)
    with pytest.raises(errors.HardwareInspectionFailure) as failure:
        apply()
    assert str(failure.value).startswith(
        f"Failed to apply rule {rule.uuid} to node {task.node.uuid}: "
    )
    failure.match(text)
    assert "canary" not in str(failure.value)


def test_failures_of_sensitive_rules_do_not_tell_why(apply):
    rule = add(put("canary", 1), sensitive=True)
    with pytest.raises(errors.HardwareInspectionFailure, match=rule.uuid) as failure:
        apply()
    assert "canary" not in str(failure.value)


@pytest.mark.parametrize("later", [[], [{"op": "fail", "args": {"msg": "x"}}]])
def test_what_can_not_be_stored_is_put_back(task, apply, later):
    nodes.create({"driver": "redfish", "name": "taken"})
    task.node.description = "unsaved"
    add(put("name", "taken"), put("extra/a", 1), *later)
    with pytest.raises(errors.HardwareInspectionFailure):
        apply()
    # Whoever records the failure can save.
    task.save()
    after = stored(task)
    assert (after.name, after.extra, after.description) == (None, {}, "unsaved")


def test_a_lost_lock_is_no_failure_of_the_rule(task, apply):
    add(put("extra/a", 1))
    nodes.update(stored(task), {"reservation": "other"}, fence=None)
    with pytest.raises(errors.LockLost):
        apply()


@pytest.mark.parametrize(
    ("option", "sensitive", "shown"),
    [
        ("always", False, "***"),
        ("always", True, "***"),
        ("sensitive", False, "***"),
        ("sensitive", True, "canary"),
        ("never", False, "canary"),
    ],
)
def test_secrets_are_masked_as_the_option_says(config, apply, option, sensitive, shown):
    config("inspection_rules", mask_secrets=option)
    add(put("extra/secret", "{inventory[bmc_password]}"), sensitive=sensitive)
    assert apply().extra == {"secret": shown}


def test_rules_of_the_file_are_mixed_in(config, apply, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(
        """
- priority: 20000
  actions:
    - {op: set-attribute, args: {path: extra/order, value: first}}
- priority: 5
  actions:
    - {op: set-attribute, args: {path: extra/order, value: "{node.extra[order]} last"}}
"""
    )
    config("inspection_rules", built_in_rules=str(file))
    add(put("extra/order", "{node.extra[order]} stored"), priority=5)
    assert apply().extra == {"order": "first stored last"}


def test_a_failing_rule_of_the_file_is_named_by_its_place(config, apply, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text("- actions: [{op: del-attribute, args: [extra/x]}]")
    config("inspection_rules", built_in_rules=str(file))
    with pytest.raises(errors.HardwareInspectionFailure, match=r"00000000-0000-0000-0000-0{12} to"):
        apply()


def test_a_missing_file_fails_the_inspection(config, apply, tmp_path):
    config("inspection_rules", built_in_rules=str(tmp_path / "none.yaml"))
    with pytest.raises(errors.ConfigInvalid, match=r"built_in_rules: .*none\.yaml"):
        apply()
