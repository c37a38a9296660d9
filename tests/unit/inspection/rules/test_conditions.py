"""Conditions of rules, one operator after the other."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.inspection.rules import conditions
from ironic_rs.inspection.rules.interpolation import Scope
from ironic_rs.inspection.rules.rule import RuleError

INVENTORY = {
    "cpu": {"count": 4, "architecture": "x86_64"},
    "interfaces": [{"name": "eth0", "ipv4_address": "10.1.2.3"}],
    "empty": {},
    "none": None,
}


@pytest.fixture
def scope(task):
    return Scope(task.node, INVENTORY, {"flag": True})


def holds(scope, op, args, **more):
    return conditions.hold([{"op": op, "args": args, **more}], scope)


CASES = [
    ("eq", {"values": ["{inventory[cpu][architecture]}", "x86_64"]}, True),
    ("eq", {"values": ["{inventory[cpu][count]}", 4]}, False),
    ("eq", {"values": ["{inventory[cpu][count]}", 4], "force_strings": True}, True),
    ("eq", {"values": [1, 1, 2]}, False),
    ("eq", {"values": [{"a": 1}, {"a": 1}]}, True),
    ("eq", {"values": [1]}, True),
    ("eq", {"values": []}, True),
    ("eq", [["{node.driver}", "redfish"]], True),
    ("eq", ["{node.driver}", "redfish"], True),
    ("eq", ["{node.driver}", "ipmi"], False),
    ("eq", [[1, "1"], True], True),
    ("lt", {"values": [1, 2, 3]}, True),
    ("lt", {"values": [1, 3, 2]}, False),
    ("lt", {"values": [1, 1]}, False),
    ("lt", {"values": ["a", "b"]}, True),
    ("gt", {"values": [3, 2.5, 1]}, True),
    ("gt", {"values": [10, 9], "force_strings": True}, False),
    ("is-empty", {"value": ""}, True),
    ("is-empty", {"value": []}, True),
    ("is-empty", {"value": {}}, True),
    ("is-empty", {"value": None}, True),
    ("is-empty", {"value": "None"}, True),
    ("is-empty", {"value": 0}, False),
    ("is-empty", {"value": False}, False),
    ("is-empty", {"value": "{inventory[empty]}"}, True),
    ("is-empty", {"value": "{inventory[none]}"}, True),
    ("is-empty", {"value": "{inventory[missing][key]}"}, True),
    ("is-empty", {"value": "{node.bogus}"}, True),
    ("is-empty", {"value": "{inventory[cpu][count]}"}, False),
    ("is-empty", {"value": "{malformed"}, False),
    ("in-net", {"address": "{inventory[interfaces][0][ipv4_address]}", "subnet": "10.1/16"}, None),
    ("in-net", {"address": "10.1.2.3", "subnet": "10.1.0.0/16"}, True),
    ("in-net", {"address": "10.1.2.3", "subnet": "10.1.2.200/16"}, True),
    ("in-net", {"address": "10.2.2.3", "subnet": "10.1.0.0/16"}, False),
    ("in-net", {"address": "2001:db8::1", "subnet": "2001:db8::/32"}, True),
    ("in-net", {"address": "2001:db8::1", "subnet": "10.0.0.0/8"}, False),
    ("in-net", {"address": None, "subnet": "10.0.0.0/8"}, False),
    ("in-net", {"address": "{inventory[bmc]}", "subnet": "10.0.0.0/8"}, False),
    ("in-net", {"address": "10.1.2.3", "subnet": "everywhere"}, None),
    ("matches", {"value": "abc", "regex": "a.c"}, True),
    ("matches", {"value": "abcd", "regex": "a.c"}, False),
    ("matches", {"value": "xabc", "regex": "a.c"}, False),
    ("matches", {"value": "ac", "regex": "a|ab"}, False),
    ("matches", {"value": 42, "regex": "[0-9]{2}"}, True),
    ("matches", {"value": "{inventory[cpu][architecture]}", "regex": "x86.*"}, True),
    ("matches", {"value": "a{i}b\\{e}{}", "regex": r"a{i}[{b]\\\{e}{}"}, True),
    ("matches", {"value": "aaa", "regex": "a{,3}"}, True),
    ("matches", {"value": "{item}", "regex": "{item}"}, True),
    ("contains", {"value": "xabcx", "regex": "a.c"}, True),
    ("contains", {"value": "xyz", "regex": "a.c"}, False),
    ("contains", {"value": "x", "regex": "("}, None),
    ("one-of", {"value": 4, "values": [4, 8]}, True),
    ("one-of", {"value": "{inventory[cpu][count]}", "values": [4, 8]}, False),
    ("one-of", {"value": "{inventory[cpu][count]}", "values": ["4", "8"]}, True),
    ("one-of", {"value": "a", "values": "abc"}, True),
    ("one-of", {"value": "a"}, False),
    ("one-of", {"value": 1, "values": 1}, None),
    ("is-none", {"value": None}, True),
    ("is-none", {"value": "{inventory[none]}"}, False),
    ("is-none", {"value": ""}, False),
    *(("is-true", {"value": v}, True) for v in (True, 1, -1, 0.5, "yes", "True", "TRUE")),
    *(("is-true", {"value": v}, False) for v in (False, 0, "no", "1", "on", None, [], {})),
    *(("is-false", {"value": v}, True) for v in (False, 0, 0.0, "no", "False", None)),
    *(("is-false", {"value": v}, False) for v in (True, 1, "yes", "", "0", [])),
    ("is-true", {"value": "{plugin_data[flag]}"}, True),
]


@pytest.mark.parametrize(("op", "args", "result"), CASES, ids=repr)
def test_operators(scope, op, args, result):
    if result is None:
        with pytest.raises((RuleError, errors.InvalidParameterValue)):
            holds(scope, op, args)
        return
    assert holds(scope, op, args) is result
    assert holds(scope, f"!{op}", args) is not result
    assert holds(scope, f"! {op}", args) is not result


def test_what_can_not_be_compared_fails_with_the_operator(scope):
    with pytest.raises(RuleError, match=r"condition lt: .*not supported"):
        holds(scope, "lt", {"values": [1, "x"]})


@pytest.mark.parametrize("args", [{}, {"value": 1, "more": 2}, [], [1, 2, 3], "x", None])
def test_stored_rules_with_bad_arguments_fail(scope, args):
    with pytest.raises(errors.InvalidParameterValue):
        holds(scope, "matches", args)


def test_all_conditions_must_hold_and_none_do(scope):
    good = {"op": "is-true", "args": {"value": True}}
    bad = {"op": "is-true", "args": {"value": False}}
    assert conditions.hold([], scope)
    assert conditions.hold([good, good], scope)
    assert not conditions.hold([good, bad], scope)


TRUE, FALSE = "yes", "no"


@pytest.mark.parametrize(
    ("loop", "multiple", "result"),
    [
        ([TRUE, FALSE], None, True),
        ([FALSE, FALSE], None, False),
        ([FALSE, TRUE], "any", True),
        ([], "any", False),
        ([TRUE, TRUE], "all", True),
        ([TRUE, FALSE], "all", False),
        ([], "all", True),
        ([FALSE, TRUE], "first", True),
        ([FALSE, FALSE], "first", False),
        ([], "first", False),
        ([FALSE, TRUE], "last", True),
        ([TRUE, FALSE], "last", False),
        ([], "last", False),
    ],
)
def test_loops(scope, loop, multiple, result):
    more = {"loop": loop} | ({} if multiple is None else {"multiple": multiple})
    assert holds(scope, "is-true", {"value": "{item}"}, **more) is result


def test_each_pass_of_a_loop_is_inverted(scope):
    args, loop = {"value": "{item}"}, [TRUE, FALSE]
    assert holds(scope, "!is-true", args, loop=loop, multiple="any")
    assert not holds(scope, "!is-true", args, loop=loop, multiple="all")


def test_an_object_is_one_pass(scope):
    args = {"values": ["{item[a]}", 1]}
    assert holds(scope, "eq", args, loop={"a": 1})
    assert not holds(scope, "eq", args, loop={"a": 2})


def test_loops_compare_texts(scope):
    # Numbers would be: 10 > 9.
    assert not holds(scope, "gt", {"values": [10, 9]}, loop=[0])


def test_loops_fill_in_all_arguments_and_their_items(scope):
    args = {"value": "x86_64", "regex": "{item}"}
    assert holds(scope, "matches", args, loop=["arm.*", "{inventory[cpu][architecture]}"])


def test_an_endless_search_is_stopped(scope, monkeypatch):
    monkeypatch.setattr(conditions, "SEARCH_TIMEOUT", 0.05)
    with pytest.raises(RuleError, match="took more than"):
        holds(scope, "matches", {"value": "a" * 60 + "b", "regex": "(?:a|aa)+$"})
