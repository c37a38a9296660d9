"""Checks of values on their way into a table."""

import pytest

from ironic_rs.db import models, values
from ironic_rs.domain import errors


def test_an_insert_gets_a_uuid_and_the_object_version():
    row = values.for_insert(models.Port, {"address": "x", "id": 7, "created_at": None})
    assert len(row.pop("uuid")) == 36
    assert row == {"address": "x", "version": "1.16"}
    assert "uuid" not in values.for_insert(models.NodeTrait, {"trait": "x"})
    assert values.for_insert(models.RunbookStep, {})["version"] is None


def test_an_update_gets_the_object_version_and_not_the_times():
    row = values.for_update(models.Node, {"name": "x", "updated_at": None, "created_at": None})
    assert row == {"name": "x", "version": "1.44"}


@pytest.mark.parametrize(
    ("model", "given", "text"),
    [
        (models.Port, {"name": "x" * 256}, "name of ports is longer than 255"),
        (models.Port, {"vendor": "x" * 33}, "vendor of ports is longer than 32"),
        (models.Node, {"description": "\x00"}, "NUL"),
        (models.VolumeTarget, {"boot_index": 2**31}, "out of range"),
        (models.BIOSSetting, {"upper_bound": 2**63}, "out of range"),
        (models.Node, {"colour": 1}, "no column 'colour'"),
    ],
)
def test_what_does_not_fit_names_its_column(model, given, text):
    with pytest.raises(errors.InvalidParameterValue, match=text):
        values.checked(model, given)


def test_what_the_service_says_is_stored_whatever_the_machine_said():
    said = "BMC: a\x00b \ud83d 😀"
    kept = "BMC: a\ufffdb \ufffd 😀"
    for model, name in (
        (models.Node, "last_error"),
        (models.Allocation, "last_error"),
        (models.NodeHistory, "event"),
    ):
        assert values.checked(model, {name: said}) == {name: kept}
        assert values.checked(model, {name: None}) == {name: None}


def test_texts_and_limits_fit():
    given = {"description": "x" * 70000, "name": "x" * 255, "chassis_id": -(2**31)}
    assert values.checked(models.Node, given) == given
    assert values.checked(models.BIOSSetting, {"upper_bound": 2**63 - 1})


def test_text_is_cut():
    assert values.cut("abcdef", 3) == "abc"
    assert values.cut("abc", 0) == "abc"
    assert values.cut(None, 3) is None
    assert values.cut_middle(None) is None
    assert values.cut_middle("short") == "short"
    cut = values.cut_middle("ä" * 100, 60)
    assert len(cut.encode()) <= 60
    assert "removed" in cut
