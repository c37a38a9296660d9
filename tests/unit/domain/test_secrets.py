"""Secrets never leave in clear."""

from __future__ import annotations

import pytest
from oslo_utils import strutils

from ironic_rs.domain import secrets


def test_secret_keys_are_masked_at_any_depth():
    value = {
        "redfish_password": "p",
        "ipmi_address": "1.2.3.4",
        "nested": {"auth_token": "t", "list": [{"secret": 1, "plain": 2}]},
    }
    assert secrets.mask(value) == {
        "redfish_password": "******",
        "ipmi_address": "1.2.3.4",
        "nested": {"auth_token": "******", "list": [{"secret": "******", "plain": 2}]},
    }


def test_secrets_inside_text_are_masked():
    assert "canary" not in secrets.mask_text('{"password": "canary"}')
    assert secrets.mask({"x": "--password canary"}) == {"x": "--password ******"}


def test_text_without_key_words_is_returned_as_it_is():
    text = "Power on failed: timed out"
    assert secrets.mask_text(text) is text


@pytest.mark.parametrize("key", strutils._SANITIZE_KEYS)
def test_every_key_of_the_library_is_known(key):
    assert secrets.is_secret_key(f"my_{key.upper()}_1")


def test_driver_info_hides_snmp_keys():
    masked = secrets.mask_driver_info(
        {"snmp_auth_key": "a", "snmp_priv_key": "b", "snmp_user": "u"}
    )
    assert masked == {"snmp_auth_key": "******", "snmp_priv_key": "******", "snmp_user": "u"}


def test_instance_info_hides_image_url_unless_empty():
    assert secrets.mask_instance_info({"image_url": "http://x", "configdrive": "c"}) == {
        "image_url": "******",
        "configdrive": "******",
    }
    assert secrets.mask_instance_info({"image_url": ""}) == {"image_url": ""}


def test_the_original_is_left_alone():
    value = {"password": "p", "n": {"password": "p"}}
    secrets.mask(value)
    assert value == {"password": "p", "n": {"password": "p"}}


@pytest.mark.parametrize(
    ("stored", "given", "same"),
    [
        ("abc", "abc", True),
        ("abc", "abd", False),
        ("abc", None, False),
        (None, None, False),
        (None, "abc", False),
        ("abc", "\udc80", False),
    ],
)
def test_a_token_matches_only_itself(stored, given, same):
    assert secrets.token_matches({"agent_secret_token": stored}, given) is same
