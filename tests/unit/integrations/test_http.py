"""TLS contexts and texts of HTTP errors."""

from __future__ import annotations

import ssl

import certifi
import pytest
import requests

from ironic_rs.domain import errors
from ironic_rs.integrations import http


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), ("True", True), ("no", False), (False, False), ("0", False)],
)
def test_trust_settings_are_booleans(value, expected):
    assert http.parse_verify(value, "x") is expected


def test_trust_settings_are_paths(tmp_path):
    assert http.parse_verify(str(tmp_path), "x") == str(tmp_path)
    with pytest.raises(
        errors.InvalidParameterValue, match="[agent]verify_ca.*/nowhere".replace("[", r"\[")
    ):
        http.parse_verify("/nowhere", "[agent]verify_ca")


def test_contexts_are_shared_and_as_strict_as_asked():
    strict = http.context(certifi.where(), "1.3")
    assert strict is http.context(certifi.where(), "1.3")
    assert strict.minimum_version == ssl.TLSVersion.TLSv1_3
    assert strict.verify_mode == ssl.CERT_REQUIRED
    assert http.context(True).minimum_version == ssl.TLSVersion.TLSv1_2
    trusting = http.context(False)
    assert trusting.verify_mode == ssl.CERT_NONE
    assert not trusting.check_hostname


def test_directories_of_certificates_are_accepted(tmp_path):
    assert http.context(str(tmp_path)).verify_mode == ssl.CERT_REQUIRED


def test_ciphers_that_nobody_knows_are_named():
    with pytest.raises(ValueError, match="ROT13"):
        http.context(False, "1.2", "ROT13")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (requests.TooManyRedirects("http://x/?token=s"), "too many redirects"),
        (requests.ReadTimeout("http://x/?token=s"), "no answer in time"),
        (requests.ConnectionError("http://x/?token=s"), "ConnectionError"),
        (requests.exceptions.InvalidURL("http://x/?token=s"), "InvalidURL"),
    ],
)
def test_texts_of_errors_have_no_url(error, text):
    assert http.describe(error) == text


def test_a_refused_connection_is_told():
    with pytest.raises(requests.ConnectionError) as caught:
        requests.get("http://127.0.0.1:1/?token=secret", timeout=5)
    text = http.describe(caught.value)
    assert "refused" in text
    assert "secret" not in text
