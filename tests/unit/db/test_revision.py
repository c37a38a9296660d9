"""The revision of a record: what changes it, and what it gives away."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_rs.db import models, nodes, revision
from ironic_rs.domain import errors

NOW = datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC)


def node(**values: Any) -> models.Node:
    record = models.Node(uuid="u", name="n", driver="fake-hardware", **values)
    record.id = 1
    return record


def test_everything_that_the_api_shows_counts() -> None:
    first = revision.of_record(node())
    for change in (
        {"extra": {"a": 1}},
        {"power_state": "power on"},
        {"description": "x"},
        {"traits": ["CUSTOM_A"]},
        {"driver_info": {"redfish_address": "x"}},
        {"protected": True},
    ):
        assert revision.of_record(node(**change)) != first, change
    later = node()
    later.updated_at = NOW
    assert revision.of_record(later) != first


def test_who_works_on_a_node_does_not_count() -> None:
    first = revision.of_record(node())
    assert revision.of_record(node(reservation="h", conductor_affinity=5, version="1.1")) == first


def test_the_order_of_keys_does_not_count() -> None:
    one, other = {"a": 1, "b": 2}, {"b": 2, "a": 1}
    assert revision.of_record(node(extra=one)) == revision.of_record(node(extra=other))


@pytest.mark.parametrize(
    "values",
    [
        {"driver_info": {"ipmi_password": "{}"}},
        {"driver_info": {"snmp_auth_key": "{}"}},
        {"instance_info": {"configdrive": "{}"}},
        {"instance_info": {"image_url": "{}"}},
        {"driver_internal_info": {"agent_secret_token": "{}"}},
        {"extra": {"deep": [{"password": "{}"}]}},
    ],
)
def test_a_secret_can_not_be_guessed_from_it(values: dict[str, Any]) -> None:
    def with_secret(secret: str) -> str:
        text = repr(values).replace("{}", secret)
        return revision.of_record(node(**eval(text)))

    assert with_secret("one") == with_secret("two")


def test_values_that_other_programs_stored_are_no_obstacle() -> None:
    strange = node(extra={"a": 2**70, "b": "\ud800", "c": float("inf")})
    strange.created_at = NOW
    assert len(revision.of_record(strange)) == 24


def test_rows_and_records_agree() -> None:
    record = node(traits=["CUSTOM_A", "CUSTOM_B"])
    row = {name: getattr(record, name) for name in revision.columns(models.Node)}
    row["traits_json"] = '["CUSTOM_B", "CUSTOM_A"]'
    assert nodes.revision_of(row) == revision.of_record(record)


def test_a_condition_that_does_not_hold_names_the_thing() -> None:
    record = node()
    revision.require(record, None)
    revision.require(record, ["x", revision.of_record(record)])
    for condition in ([], ["x"]):
        with pytest.raises(errors.PreconditionFailed, match="The node u is not as any") as caught:
            revision.require(record, condition)
        assert caught.value.code == 412
