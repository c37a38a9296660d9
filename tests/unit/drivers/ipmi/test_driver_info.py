"""driver_info of a node with an IPMI BMC."""

from __future__ import annotations

import shutil

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.ipmi.driver_info import Bridge, parse, validate
from tests.unit.drivers import kit

INFO = {"ipmi_address": "192.0.2.7", "ipmi_username": "admin", "ipmi_password": "secret"}
SINGLE = {
    "ipmi_bridging": "single",
    "ipmi_target_channel": "7",
    "ipmi_target_address": "0x72",
}
DUAL = SINGLE | {
    "ipmi_bridging": "dual",
    "ipmi_transit_channel": 0,
    "ipmi_transit_address": "0x82",
    "ipmi_local_address": "0x20",
}


@pytest.fixture
def program(monkeypatch):
    """The program is on the conductor."""
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def node(**info):
    return kit.node(driver_info=INFO | info)


def test_defaults():
    target = parse(node())
    assert str(target) == "192.0.2.7:623"
    assert target.privilege == "ADMINISTRATOR"
    assert target.suites == ()
    assert target.needs_program is None
    assert target.disable_boot_timeout is True
    assert target.force_boot_device is False


def test_a_password_is_never_shown():
    assert "secret" not in repr(parse(node(ipmi_hex_kg_key="0a0b")))
    assert "0a0b" not in repr(parse(node(ipmi_hex_kg_key="0a0b")))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8::10", "2001:db8::10"),
        ("[2001:db8::10]", "2001:db8::10"),
        ("bmc-1.example.org", "bmc-1.example.org"),
        ("BMC-1.Example.org.", "BMC-1.Example.org"),
        ("bmc_1", "bmc_1"),
        (" [2001:DB8::0:10] ", "2001:db8::10"),
    ],
)
def test_addresses(given, expected):
    assert parse(node(ipmi_address=given)).address == expected


@pytest.mark.parametrize(
    "address",
    ["a b", "-x", "10.0.0.999", "10.0.0", "http://bmc", "a..b", "x" * 300, 7, ["a"], "a/b", "ä"],
)
def test_what_is_no_address_is_named(address):
    with pytest.raises(errors.InvalidParameterValue, match="ipmi_address is"):
        parse(node(ipmi_address=address))


@pytest.mark.parametrize(
    "address",
    ["https://[2001:db8::10]", "https://[2001:db8::10]:8443/", "[2001:db8::10]:623", "[2001:db8::"],
)
def test_a_port_or_a_url_is_no_ipv6_address(address):
    with pytest.raises(errors.InvalidParameterValue, match="ipmi_port") as raised:
        parse(node(ipmi_address=address))
    assert address in str(raised.value)


@pytest.mark.parametrize("address", ["fe80::1%eth0", "[fe80::1%eth0]", "fe80::1%1"])
def test_a_zone_of_one_host_is_refused(address):
    with pytest.raises(errors.InvalidParameterValue, match="zone identifier"):
        parse(node(ipmi_address=address))


def test_a_missing_address_is_named():
    with pytest.raises(errors.MissingParameterValue, match="ipmi_address"):
        parse(kit.node(driver_info={}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ipmi_port", "623x"),
        ("ipmi_port", 0),
        ("ipmi_port", 70000),
        ("ipmi_port", True),
        ("ipmi_port", -1),
        ("ipmi_priv_level", "ROOT"),
        ("ipmi_priv_level", 4),
        ("ipmi_protocol_version", "3.0"),
        ("ipmi_cipher_suite", "abc"),
        ("ipmi_cipher_suite", -1),
        ("ipmi_cipher_suite", []),
        ("ipmi_hex_kg_key", "abc"),
        ("ipmi_hex_kg_key", "zz"),
        ("ipmi_hex_kg_key", "00" * 21),
        ("ipmi_bridging", "triple"),
        ("ipmi_bridging", ["dual"]),
        ("ipmi_username", "x" * 17),
        ("ipmi_username", "a\0b"),
        ("ipmi_password", "x" * 21),
        ("ipmi_force_boot_device", "perhaps"),
        ("ipmi_disable_boot_timeout", "perhaps"),
    ],
)
def test_what_is_not_acceptable_is_named(key, value):
    with pytest.raises(errors.InvalidParameterValue, match=key):
        parse(node(**{key: value}))


def test_numbers_may_be_text_and_text_numbers():
    target = parse(node(ipmi_port="16230", ipmi_password=12345, ipmi_cipher_suite="3"))
    assert (target.port, target.password, target.suites) == (16230, "12345", ("3",))


def test_an_ipv6_address_is_shown_in_brackets():
    assert str(parse(node(ipmi_address="2001:db8::1", ipmi_port=1))) == "[2001:db8::1]:1"


def test_kg_is_bytes():
    assert parse(node(ipmi_hex_kg_key="0A0b")).kg == b"\x0a\x0b"


def test_configured_cipher_suites_are_tried_from_the_strongest(config):
    config("ipmi", cipher_suite_versions=["3", "17"])
    target = parse(node())
    assert target.suites == ("17", "3")
    assert not target.suite_fixed
    assert target.needs_program is None
    assert parse(node(ipmi_cipher_suite=3)).suites == ("3",)


@pytest.mark.parametrize(
    ("info", "why"),
    [
        ({"ipmi_protocol_version": "1.5"}, "ipmi_protocol_version is 1.5"),
        ({"ipmi_protocol_version": 1.5}, "ipmi_protocol_version is 1.5"),
        ({"ipmi_cipher_suite": 8}, "the cipher suite is 8"),
        (SINGLE, "ipmi_bridging is single"),
        (DUAL, "ipmi_bridging is dual"),
    ],
)
def test_what_the_built_in_client_does_not_know_needs_the_program(info, why, monkeypatch, config):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(errors.InvalidParameterValue, match=rf"{why}.*not installed"):
        validate(node(**info))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert validate(node(**info)).needs_program == why
    config("ipmi", use_ipmitool="never")
    with pytest.raises(errors.InvalidParameterValue, match=rf"{why}.*'never'"):
        validate(node(**info))


def test_the_program_can_be_used_for_all(config, program):
    config("ipmi", use_ipmitool="always")
    assert validate(node()).needs_program == "[ipmi]use_ipmitool is 'always'"


def test_a_cipher_suite_has_no_meaning_with_version_1_5():
    with pytest.raises(errors.InvalidParameterValue, match="no meaning"):
        parse(node(ipmi_protocol_version="1.5", ipmi_cipher_suite=3))


def test_addresses_of_bridging():
    assert parse(node(**DUAL)).bridge == Bridge("7", "0x72", "0", "0x82", "0x20")
    # What single bridging does not use is left out.
    only = DUAL | {"ipmi_bridging": "single"}
    assert parse(node(**only)).bridge == Bridge("7", "0x72", local_address="0x20")


@pytest.mark.parametrize("key", sorted(set(DUAL) - {"ipmi_bridging", "ipmi_local_address"}))
def test_missing_addresses_of_bridging_are_named(key):
    info = {name: value for name, value in DUAL.items() if name != key}
    with pytest.raises(errors.MissingParameterValue, match=f"dual bridging needs {key} "):
        parse(node(**info))


def test_an_address_of_bridging_is_a_byte():
    with pytest.raises(errors.InvalidParameterValue, match="ipmi_target_address is '0x100'"):
        parse(node(**SINGLE | {"ipmi_target_address": "0x100"}))


def test_missing_credentials_are_warned_of(caplog):
    validate(kit.node(driver_info={"ipmi_address": "192.0.2.7"}))
    assert "ipmi_username is not set" in caplog.text
    assert "ipmi_password is not set" in caplog.text
