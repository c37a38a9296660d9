"""Names, UUIDs, MAC addresses and traits (field case K18)."""

from __future__ import annotations

import pytest

from ironic_rs.domain import names

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"


@pytest.mark.parametrize("name", ["node-1", "Node.Example.COM", "a_b~c", "1", "a" * 255, "None"])
def test_unreserved_characters_up_to_255_make_a_name(name):
    assert names.is_valid_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "ü",
        "节点",
        "a/b",
        "a,b",
        "a%2Fb",
        UUID,
        UUID.replace("-", ""),
        "",
        ".",
        "..",
        "a" * 256,
        "a\n",
    ],
)
def test_everything_else_is_no_name(name):
    assert not names.is_valid_name(name)


@pytest.mark.parametrize(
    ("name", "valid"),
    [("host-1.example.com", True), ("Host", False), ("a_b", False), ("a.b_c", True), ("-a", False)],
)
def test_old_versions_want_host_names(name, valid):
    assert names.is_valid_name(name, hostname_only=True) is valid


@pytest.mark.parametrize(
    ("text", "like"),
    [
        (UUID, True),
        (UUID.upper(), True),
        (UUID.replace("-", ""), True),
        (UUID[:-1], False),
        ("x" * 36, False),
        ("1be26c0b_03f2_4d2e_ae87_c02d7f33c123", False),
    ],
)
def test_uuid_likeness(text, like):
    assert names.is_uuid_like(text) is like


@pytest.mark.parametrize(
    ("text", "mac"),
    [
        ("52:54:00:CF:2d:31", "52:54:00:cf:2d:31"),
        ("52-54-00-cf-2d-31", "52:54:00:cf:2d:31"),
        ("52:54-00:cf:2d:31", None),
        ("52:54:00:cf:2d", None),
        ("52:54:00:cf:2d:31\n", None),
    ],
)
def test_mac_addresses_are_normalised(text, mac):
    assert names.normalize_mac(text) == mac


def test_switch_ids_are_macs_or_datapath_ids():
    assert names.normalize_switch_id("0A1b2C3d4E5f6A7b") == "0a1b2c3d4e5f6a7b"
    assert names.normalize_switch_id("0a:1B:2c:3d:4e:5f") == "0a:1b:2c:3d:4e:5f"
    assert names.normalize_switch_id("switch") is None


@pytest.mark.parametrize(
    ("trait", "valid"),
    [
        ("CUSTOM_A1_", True),
        ("CUSTOM_", False),
        ("CUSTOM_a", False),
        ("CUSTOM_A.B", False),
        ("custom_x", False),
        ("HW_CPU_X86_VMX", True),
        ("HW_NOTHING", False),
        ("CUSTOM_" + "A" * 248, True),
        ("CUSTOM_" + "A" * 249, False),
        ("", False),
    ],
)
def test_traits(trait, valid):
    assert names.is_valid_trait(trait, names.standard_traits()) is valid


def test_nul_and_lone_surrogates_can_not_be_stored():
    assert names.is_storable("abc ü 节点 😀")
    assert not names.is_storable("a\x00")
    assert not names.is_storable("a\ud800")
