"""Trust settings, against a BMC with a certificate of its own."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish.power import RedfishPower
from tests.harness.bmc import Answer, Bmc

power = RedfishPower()


def certificate(directory: Path, address: str = "127.0.0.1", days: int = 1) -> Path:
    """Write a self-signed certificate with its key; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "bmc")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False
        )
        .sign(key, hashes.SHA256())
    )
    path = directory / f"{address}-{days}.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def serve(path: Path, maximum: ssl.TLSVersion | None = None) -> Bmc:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    if maximum is not None:
        context.maximum_version = maximum
    return Bmc(context=context)


@pytest.fixture
def trusted(tmp_path):
    path = certificate(tmp_path)
    bmc = serve(path)
    yield bmc, str(path)
    bmc.close()


def test_a_trusted_certificate_is_accepted_on_one_connection(trusted, make_task):
    bmc, path = trusted
    task = make_task(bmc, driver_info={"redfish_verify_ca": path})
    for _read in range(3):
        assert power.get_power_state(task) == states.POWER_OFF
    assert bmc.connections == 1


@pytest.mark.parametrize("value", [True, "true", None])
def test_an_unknown_certificate_is_refused_at_once(trusted, make_task, clock, value):
    task = make_task(trusted[0], driver_info={"redfish_verify_ca": value})
    with pytest.raises(errors.RedfishConnectionError, match=r"(?i)certificate"):
        power.get_power_state(task)
    assert clock.slept == []


@pytest.mark.parametrize("value", [False, "no"])
def test_no_verification_is_none_whatever_the_environment_says(
    trusted, make_task, monkeypatch, value
):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/etc/hostname")
    task = make_task(trusted[0], driver_info={"redfish_verify_ca": value})
    assert power.get_power_state(task) == states.POWER_OFF


def test_the_environment_may_name_the_trust_store(trusted, make_task, monkeypatch):
    bmc, path = trusted
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", path)
    assert power.get_power_state(make_task(bmc)) == states.POWER_OFF


@pytest.mark.parametrize(("address", "days"), [("127.0.0.2", 1), ("127.0.0.1", -1)])
def test_a_wrong_name_or_an_expired_certificate_is_refused(tmp_path, make_task, address, days):
    path = certificate(tmp_path, address, days)
    bmc = serve(path)
    with pytest.raises(errors.RedfishConnectionError, match=r"(?i)certificate"):
        power.get_power_state(make_task(bmc, driver_info={"redfish_verify_ca": str(path)}))
    bmc.close()


def test_the_trust_of_one_node_is_not_that_of_another(trusted, make_task):
    bmc, path = trusted
    trusting = make_task(bmc, driver_info={"redfish_verify_ca": path})
    assert power.get_power_state(trusting) == states.POWER_OFF
    with pytest.raises(errors.RedfishConnectionError):
        power.get_power_state(make_task(bmc))
    assert power.get_power_state(trusting) == states.POWER_OFF


def test_a_certificate_that_was_exchanged_is_noticed_on_the_next_connection(tmp_path, make_task):
    first = certificate(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(first)
    bmc = Bmc("session", context=context)
    task = make_task(bmc, driver_info={"redfish_verify_ca": str(first)})
    assert power.get_power_state(task) == states.POWER_OFF
    context.load_cert_chain(certificate(other))
    bmc.script("GET", "Systems/1$", Answer(close=True), times=1)
    bmc.forget()
    with pytest.raises(errors.RedfishConnectionError, match=r"(?i)certificate"):
        power.get_power_state(task)
    # Neither the token nor the password went to whoever has the other one.
    assert len(bmc.requests) == 1
    bmc.close()


def test_the_least_tls_version_holds(tmp_path, make_task):
    path = certificate(tmp_path)
    bmc = serve(path, maximum=ssl.TLSVersion.TLSv1_2)
    info = {"redfish_verify_ca": str(path)}
    assert power.get_power_state(make_task(bmc, driver_info=info)) == states.POWER_OFF
    strict = make_task(bmc, driver_info={**info, "redfish_tls_minimum_version": "1.3"})
    with pytest.raises(errors.RedfishConnectionError):
        power.get_power_state(strict)
    bmc.close()


def test_ciphers_that_are_none_are_a_wrong_parameter(trusted, make_task):
    task = make_task(trusted[0], driver_info={"redfish_tls_ciphers": "no-such-cipher"})
    with pytest.raises(errors.InvalidParameterValue, match="no-such-cipher"):
        power.get_power_state(task)
