"""The field tables agree with the specification and check values."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors, fields

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"


def test_the_node_document_has_69_fields_and_22_at_the_first_version():
    assert len(fields.NODE.names("D")) == 69
    assert len([f for f in fields.NODE.rows if f.since == 1 and f.detailed]) == 22


@pytest.mark.parametrize(
    ("table", "listed"),
    [
        (
            fields.NODE,
            {"uuid", "name", "instance_uuid", "maintenance", "power_state", "provision_state"},
        ),
        (fields.PORT, {"uuid", "address"}),
        (fields.PORTGROUP, {"uuid", "address", "name"}),
        (fields.CHASSIS, {"uuid", "description"}),
        (fields.CONDUCTOR, {"hostname", "conductor_group", "alive"}),
        (fields.RUNBOOK, {"uuid", "name"}),
    ],
)
def test_short_lists(table, listed):
    assert set(table.names("L")) - {"links"} == listed


PATCHABLE_NODE_FIELDS = """
automated_clean bios_interface boot_interface chassis_uuid conductor_group console_interface
deploy_interface description disable_power_off driver driver_info extra firmware_interface
inspect_interface instance_info instance_name instance_uuid lessee maintenance
management_interface name network_data network_interface owner parent_node power_interface
properties protected protected_reason raid_interface rescue_interface resource_class retired
retired_reason shard storage_interface vendor_interface
"""


def test_patchable_fields_of_a_node():
    assert set(fields.NODE.names("P")) == set(PATCHABLE_NODE_FIELDS.split())


@pytest.mark.parametrize(
    ("column", "value", "stored"),
    [
        ("maintenance", "True", True),
        ("maintenance", None, False),
        ("automated_clean", None, None),
        ("conductor_group", None, ""),
        ("extra", None, {}),
        ("description", None, None),
        ("name", "n", "n"),
        ("chassis_id", 5, 5),
    ],
)
def test_values_are_converted_for_the_record(column, value, stored):
    assert fields.check_values("node", {column: value}) == {column: stored}


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("maintenance", "maybe", r"Invalid value 'maybe' of field 'maintenance' of the node"),
        ("maintenance", 2, "accepted: true or false"),
        ("extra", [], "accepted: a JSON object, or null"),
        ("extra", "x", "JSON object"),
        ("driver", None, "'driver' of the node can not be null"),
        ("driver", "", "1 to 255"),
        ("name", 5, "a string of at most 255 characters"),
        ("name", "a\x00", "string"),
        ("name", "a\ud800", "string"),
        ("resource_class", "x" * 81, "at most 80"),
        ("description", "x" * 4097, "at most 4096"),
        ("instance_name", "", "1 to 255"),
        ("instance_uuid", "x", "a UUID"),
    ],
)
def test_bad_values_are_refused_with_field_value_and_what_is_accepted(column, value, text):
    with pytest.raises(errors.InvalidParameterValue, match=text):
        fields.check_values("node", {column: value})


def test_create_bodies_are_checked_for_keys_and_values():
    assert fields.PORT.check_create({"address": "AA:bb:cc:dd:ee:ff", "uuid": UUID.upper()}) == {
        "address": "aa:bb:cc:dd:ee:ff",
        "uuid": UUID,
    }
    with pytest.raises(errors.InvalidParameterValue, match=r"Unexpected.*bogus; accepted: uuid"):
        fields.PORT.check_create({"address": "aa:bb:cc:dd:ee:ff", "bogus": 1})
    with pytest.raises(errors.MissingParameterValue, match="address"):
        fields.PORT.check_create({})


@pytest.mark.parametrize("value", [10**30, 1.5, True, "x", "9" * 5000, [], None])
def test_integers_must_fit(value):
    with pytest.raises(errors.InvalidParameterValue):
        fields.check_values("volume target", {"boot_index": value})


@pytest.mark.parametrize("value", ["a" * 10000, "ü" * 100])
def test_long_values_are_shown_shortened(value):
    assert len(fields.show(value)) < 100
