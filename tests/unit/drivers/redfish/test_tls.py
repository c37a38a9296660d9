"""Trust settings (K04/38), against BMCs with certificates of all kinds."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import ssl
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish.power import RedfishPower
from tests.harness.bmc import Answer, Bmc

power = RedfishPower()


Key = ec.EllipticCurvePrivateKey


def signed(
    address: str, days: int, key: Key, issuer: str, issuer_key: Key, *, ca: bool = False
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(
            x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ca" if ca else "bmc")])
        )
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=10))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False
        )
        .add_extension(x509.BasicConstraints(ca, None), True)
        .sign(issuer_key, hashes.SHA256())
    )


def write(path: Path, key: Key, *certificates: x509.Certificate) -> Path:
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path.write_bytes(
        b"".join(one.public_bytes(pem) for one in certificates)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    return path


def certificate(directory: Path, address: str = "127.0.0.1", days: int = 1) -> Path:
    """Write a self-signed certificate with its key; return the file."""
    key = ec.generate_private_key(ec.SECP256R1())
    path = directory / f"{address}-{days}.pem"
    return write(path, key, signed(address, days, key, "bmc", key))


def certificate_of_a_ca(directory: Path) -> tuple[Path, Path]:
    """Return the files of a certificate with its key, and of its issuer."""
    key, ca_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = signed("127.0.0.3", 1, ca_key, "ca", ca_key, ca=True)
    authority = directory / "ca.pem"
    authority.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    path = directory / "of-ca.pem"
    return write(path, key, signed("127.0.0.1", 1, key, "ca", ca_key)), authority


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


def name_hash(common_name: str) -> str:
    """By what OpenSSL finds a certificate in a directory: see X509_NAME_hash."""
    text = b"\x0c" + bytes([len(common_name)]) + common_name.encode()
    pair = b"\x06\x03\x55\x04\x03" + text
    sequence = b"\x30" + bytes([len(pair)]) + pair
    name = b"\x31" + bytes([len(sequence)]) + sequence
    digest = hashlib.sha1(name, usedforsecurity=False).digest()
    return digest[:4][::-1].hex()


#: What is trusted, by the way to say so -> the BMCs that are accepted.
EVERYBODY = {"self-signed", "of the CA", "wrong name", "expired"}


@pytest.fixture(scope="module")
def bmcs(tmp_path_factory: pytest.TempPathFactory):
    """BMCs by the kind of their certificate; files and directories by what is in them."""
    folder = tmp_path_factory.mktemp("certificates")
    of_ca, ca = certificate_of_a_ca(folder)
    files = {
        "self-signed": certificate(folder),
        "of the CA": of_ca,
        "wrong name": certificate(folder, "127.0.0.2"),
        "expired": certificate(folder, days=-1),
    }
    stores = {"<ca>": ca, **{f"<{kind}>": path for kind, path in files.items()}}
    directory = folder / "directory"
    directory.mkdir()
    (directory / f"{name_hash('ca')}.0").write_bytes(ca.read_bytes())
    empty = folder / "empty"
    empty.mkdir()
    stores |= {"<directory>": directory, "<empty directory>": empty}
    made = {kind: serve(path) for kind, path in files.items()}
    yield made, {name: str(path) for name, path in stores.items()}
    for bmc in made.values():
        bmc.close()


@pytest.mark.parametrize("environment", [None, "<ca>", "/etc/hostname"])
@pytest.mark.parametrize(
    ("value", "accepted"),
    [
        (False, EVERYBODY),
        ("false", EVERYBODY),
        ("False", EVERYBODY),
        ("no", EVERYBODY),
        ("0", EVERYBODY),
        (True, set()),
        ("True", set()),
        ("yes", set()),
        (None, set()),
        ("<ca>", {"of the CA"}),
        ("<directory>", {"of the CA"}),
        ("<empty directory>", set()),
        ("<self-signed>", {"self-signed"}),
        ("<wrong name>", set()),
        ("<expired>", set()),
    ],
    ids=str,
)
def test_who_is_trusted(bmcs, make_task, monkeypatch, value, accepted, environment):
    """Whatever the environment says: it stands in for a plain yes alone."""
    bmc_of, stores = bmcs
    if environment is not None:
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", stores.get(environment, environment))
        if value in (True, "True", "yes", None):
            accepted = {"of the CA"} if environment == "<ca>" else set()
    found = set()
    for kind, bmc in bmc_of.items():
        task = make_task(bmc, driver_info={"redfish_verify_ca": stores.get(value, value)})
        try:
            assert power.get_power_state(task) == states.POWER_OFF
            found.add(kind)
        except errors.RedfishConnectionError as exc:
            assert "certificate" in str(exc).lower()
        except errors.InvalidParameterValue as exc:
            # The environment names what is no trust store.
            assert environment == "/etc/hostname"
            assert "TLS settings" in str(exc)
    assert found == accepted


def test_the_environment_may_name_the_trust_store(trusted, make_task, monkeypatch):
    bmc, path = trusted
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", path)
    assert power.get_power_state(make_task(bmc)) == states.POWER_OFF


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


@pytest.mark.parametrize("verified", [True, False])
def test_a_bmc_that_speaks_tls_1_0_only_is_refused_with_the_reason(
    tmp_path, make_task, clock, verified
):
    path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.load_cert_chain(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1
    bmc = Bmc(context=context)
    info = {"redfish_verify_ca": str(path) if verified else False}
    with pytest.raises(errors.RedfishConnectionError, match=r"(?i)version|protocol") as raised:
        power.get_power_state(make_task(bmc, driver_info=info))
    assert bmc.address in str(raised.value)
    # It is no silence, and does not pass: nobody waits for it.
    assert clock.slept == []
    bmc.close()


def test_an_account_without_password_logs_in_with_the_empty_one(tmp_path, make_task, monkeypatch):
    monkeypatch.setattr(Bmc, "password", "")
    path = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    bmc = Bmc("session", context=context)
    info = {"redfish_verify_ca": str(path), "redfish_password": None}
    assert power.get_power_state(make_task(bmc, driver_info=info)) == states.POWER_OFF
    assert bmc.logins == 1
    bmc.close()


def test_ciphers_that_are_none_are_a_wrong_parameter(trusted, make_task):
    task = make_task(trusted[0], driver_info={"redfish_tls_ciphers": "no-such-cipher"})
    with pytest.raises(errors.InvalidParameterValue, match="no-such-cipher"):
        power.get_power_state(task)
