"""What driver_info may say of a BMC."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.drivers.redfish.driver_info import ConnectionKey, parse_driver_info
from tests.unit.drivers import kit


def parse(**info):
    return parse_driver_info(kit.node(driver_info={"redfish_address": "https://bmc", **info}))


@pytest.mark.parametrize(
    ("address", "expected", "prefix"),
    [
        ("https://bmc.example.org", "https://bmc.example.org", "/redfish/v1/"),
        ("bmc.example.org", "https://bmc.example.org", "/redfish/v1/"),
        ("http://bmc:8000/", "http://bmc:8000", "/redfish/v1/"),
        ("https://bmc/some/where", "https://bmc", "/some/where/"),
        ("192.0.2.7", "https://192.0.2.7", "/redfish/v1/"),
        ("https://[2001:db8::10]", "https://[2001:db8::10]", "/redfish/v1/"),
        ("https://[2001:db8::10]:8443/", "https://[2001:db8::10]:8443", "/redfish/v1/"),
        ("[2001:db8::10]", "https://[2001:db8::10]", "/redfish/v1/"),
        ("2001:db8::10", "https://[2001:db8::10]", "/redfish/v1/"),
        ("2001:db8::10/root", "https://[2001:db8::10]", "/root/"),
        ("[2001:db8::10]:8443/", "https://[2001:db8::10]:8443", "/redfish/v1/"),
        ("http://2001:db8::10", "http://[2001:db8::10]", "/redfish/v1/"),
        ("https://2001:db8::10/root/", "https://[2001:db8::10]", "/root/"),
    ],
)
def test_addresses(address, expected, prefix):
    key = parse(redfish_address=address).key
    assert (key.address, key.root_prefix) == (expected, prefix)


@pytest.mark.parametrize(
    ("address", "complaint"),
    [
        (5, "must be a string"),
        ("ftp://bmc", "must have the form"),
        ("https://", "must have the form"),
        ("https://[2001:db8::10", "not a URL"),
        ("https://bmc:port", "not a URL"),
        ("https://a b", "no valid host"),
        ("fe80::1%eth0", "zone identifier"),
        ("[fe80::1%eth0]", "zone identifier"),
        ("https://fe80::1%25eth0/", "zone identifier"),
        ("https://[fe80::1%25eth0]", "zone identifier"),
        ("https://me:secret@bmc", "must not contain credentials"),
    ],
)
def test_bad_addresses_are_told_with_the_node(address, complaint):
    with pytest.raises(errors.InvalidParameterValue, match=complaint) as raised:
        parse(redfish_address=address)
    assert kit.UUID in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("address", [None, ""])
def test_a_missing_address(address):
    with pytest.raises(errors.MissingParameterValue, match="redfish_address"):
        parse(redfish_address=address)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, True),
        (True, True),
        (False, False),
        ("True", True),
        ("false", False),
        ("no", False),
        ("/", "/"),
    ],
)
def test_trust_choices(value, expected):
    assert parse(redfish_verify_ca=value).key.verify_ca == expected


@pytest.mark.parametrize("value", ["", "/does/not/exist", 3, []])
def test_bad_trust_choices(value):
    with pytest.raises(errors.InvalidParameterValue, match="redfish_verify_ca"):
        parse(redfish_verify_ca=value)


@pytest.mark.parametrize("value", [None, True, "yes"])
def test_the_option_says_whom_to_trust_when_the_node_only_says_yes(config, value):
    config("redfish", verify_ca="/")
    assert parse(redfish_verify_ca=value).key.verify_ca == "/"
    assert parse(redfish_verify_ca="no").key.verify_ca is False


@pytest.mark.parametrize(
    "info",
    [
        {"redfish_auth_type": "digest"},
        {"redfish_auth_type": 1},
        {"redfish_tls_minimum_version": "1.0"},
        {"redfish_tls_ciphers": 5},
        {"redfish_system_id": 1},
        {"redfish_username": 1},
        {"redfish_password": ["x"]},
        {"firmware_update_unresponsive_bmc_wait": "soon"},
        {"firmware_update_unresponsive_bmc_wait": -1},
    ],
    ids=str,
)
def test_other_bad_values(info):
    with pytest.raises(errors.InvalidParameterValue, match=next(iter(info))):
        parse(**info)


def test_the_system_path_is_quoted_once():
    assert parse(redfish_system_id="/redfish/v1/Systems/a b").system_id.endswith("a%20b")
    assert parse(redfish_system_id="/redfish/v1/Systems/a%20b").system_id.endswith("a%20b")


def test_every_setting_of_a_connection_makes_another_key():
    first = parse().key
    for info in (
        {"redfish_username": "u"},
        {"redfish_username": "u", "redfish_password": "p"},
        {"redfish_verify_ca": False},
        {"redfish_auth_type": "basic"},
        {"redfish_tls_minimum_version": "1.3"},
        {"redfish_tls_ciphers": "HIGH"},
        {"redfish_address": "https://bmc/other"},
    ):
        assert parse(**info).key != first
    assert parse(redfish_system_id="/x").key == first


@pytest.mark.parametrize(
    "nothing", [{}, {"redfish_password": None}, {"redfish_password": ""}], ids=str
)
def test_an_account_without_password_has_the_empty_one(nothing):
    assert parse(redfish_username="u", **nothing).key.password == ""
    assert parse(**{k: v for k, v in nothing.items() if v is None}).key.password is None


@pytest.mark.parametrize("password", ["p", ""])
def test_a_password_needs_its_account(password):
    with pytest.raises(errors.MissingParameterValue, match="redfish_username"):
        parse(redfish_password=password)


def test_a_key_does_not_show_the_password():
    assert "hidden" not in repr(ConnectionKey("https://bmc", password="hidden"))
