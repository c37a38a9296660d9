"""JSON patch as rest-api.md section 6 describes it."""

from __future__ import annotations

import copy

import pytest

from ironic_rs.domain import errors, fields, patch


def apply(document, *ops):
    return patch.apply(document, patch.validate(list(ops)), fields.NODE)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "array"),
        ("x", "array"),
        ([5], "operation 0: 5 is not an object"),
        ([{"op": "test", "path": "/extra", "value": 1}], "op is 'test'; accepted: add"),
        ([{"op": "move", "path": "/extra", "from": "/a"}], "unknown key 'from'"),
        ([{"op": None, "path": "/extra"}], "op is None"),
        ([{"path": "/extra"}], "op is None"),
        ([{"op": "add", "path": "extra", "value": 1}], "path is 'extra'"),
        ([{"op": "add", "path": "/", "value": 1}], "path is '/'"),
        ([{"op": "add", "path": "/extra/a.b", "value": 1}], "path is"),
        ([{"op": "add", "path": "/extra/a b", "value": 1}], "path is"),
        ([{"op": "add", "path": "/extra/a\n", "value": 1}], "path is"),
        ([{"op": "add", "path": "/extra/~2", "value": 1}], "path is"),
        ([{"op": "add", "path": 5, "value": 1}], "path is 5"),
        ([{"op": "add", "path": "/extra" * 40, "value": 1}], "more than 32 elements"),
        ([{"op": "remove", "path": "/a"}, {"op": "add", "path": "/extra"}], "operation 1: add"),
        ([{"op": "replace", "path": "/extra"}], "needs a value"),
    ],
)
def test_a_malformed_patch_is_refused_with_its_reason(body, reason):
    with pytest.raises(errors.PatchError, match=reason):
        patch.validate(body)


def test_escapes_are_refused_before_their_microversion():
    ops = [{"op": "add", "path": "/extra/a~1b", "value": 1}]
    assert patch.validate(ops) == ops
    with pytest.raises(errors.PatchError):
        patch.validate(ops, escapes=False)


def test_escapes_name_keys_with_slash_and_tilde():
    result = apply({"extra": {}}, {"op": "add", "path": "/extra/a~1b~0c", "value": 1})
    assert result == {"extra": {"a/b~c": 1}}


def test_a_remove_loses_its_value():
    assert patch.validate([{"op": "remove", "path": "/extra", "value": 1}]) == [
        {"op": "remove", "path": "/extra"}
    ]


def test_operations_apply_in_order_and_leave_the_document_alone():
    document = {"extra": {"a": {"b": 1}, "l": [1, 2]}, "name": None}
    before = copy.deepcopy(document)
    result = apply(
        document,
        {"op": "add", "path": "/extra/a/c", "value": {}},
        {"op": "add", "path": "/extra/a/c/d", "value": 2},
        {"op": "replace", "path": "/extra/a/b", "value": 3},
        {"op": "add", "path": "/extra/l/-", "value": 3},
        {"op": "add", "path": "/extra/l/0", "value": 0},
        {"op": "remove", "path": "/extra/l/1"},
        {"op": "add", "path": "/name", "value": "n"},
    )
    assert result == {"extra": {"a": {"b": 3, "c": {"d": 2}}, "l": [0, 2, 3]}, "name": "n"}
    assert document == before


def test_the_patch_itself_is_not_changed_by_a_later_operation_on_its_value():
    ops = patch.validate(
        [
            {"op": "add", "path": "/extra", "value": {"a": {}}},
            {"op": "add", "path": "/extra/a/b", "value": 1},
        ]
    )
    patch.apply({"extra": {}}, ops, fields.NODE)
    assert ops[0]["value"] == {"a": {}}


@pytest.mark.parametrize(
    ("field", "empty"),
    [
        ("extra", {}),
        ("name", None),
        ("automated_clean", None),
        ("conductor_group", ""),
        ("maintenance", False),
        ("protected", False),
    ],
)
def test_removing_a_field_sets_its_empty_value_again_and_again(field, empty):
    remove = {"op": "remove", "path": f"/{field}"}
    assert apply({field: "x"}, remove, remove) == {field: empty}


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ({"op": "remove", "path": "/driver"}, "mandatory"),
        ({"op": "add", "path": "/bogus", "value": 1}, "no field 'bogus'"),
        ({"op": "replace", "path": "/extra/x", "value": 1}, "replace a non-existent object 'x'"),
        ({"op": "remove", "path": "/extra/x"}, "remove a non-existent object 'x'"),
        ({"op": "add", "path": "/extra/x/y", "value": 1}, "no key 'x'"),
        ({"op": "add", "path": "/extra/t/y", "value": 1}, "can not be a part of 'text'"),
        ({"op": "add", "path": "/extra/t/y/z", "value": 1}, "no key 'y'"),
        ({"op": "add", "path": "/extra/l/9", "value": 1}, "1 items and no index '9'"),
        ({"op": "add", "path": "/extra/l/01", "value": 1}, "no index '01'"),
        ({"op": "replace", "path": "/extra/l/-", "value": 1}, "no index '-'"),
        ({"op": "remove", "path": "/extra/l/1"}, "no index '1'"),
        ({"op": "add", "path": "/name/x", "value": 1}, "can not be a part of None"),
    ],
)
def test_an_operation_that_does_not_apply_is_named_with_its_reason(op, reason):
    document = {"driver": "d", "name": None, "extra": {"t": "text", "l": [1]}}
    with pytest.raises(errors.PatchError, match=f"operation 0.*{op['op']}.*{reason}"):
        apply(document, op)


def test_roots_that_can_not_be_patched_are_refused():
    ops = patch.validate([{"op": "add", "path": "/uuid/x", "value": 1}])
    with pytest.raises(errors.PatchError, match=r"'/uuid/x' can not be changed; accepted: extra"):
        patch.check_roots(ops, ["extra"])


def test_values_of_a_path():
    ops = patch.validate(
        [
            {"op": "add", "path": "/name", "value": "a"},
            {"op": "remove", "path": "/name"},
            {"op": "replace", "path": "/name", "value": None},
        ]
    )
    assert patch.values(ops, "/name") == ["a", None]
