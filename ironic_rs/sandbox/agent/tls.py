"""Automatic TLS of the agent: a self-signed certificate for each start."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = timedelta(days=30)
_ALLOWED_CLOCK_SKEW = timedelta(hours=1)
_VERSIONS = {
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}


@dataclass(frozen=True)
class ServerTls:
    """A server context and the certificate (PEM) that a client has to trust."""

    context: ssl.SSLContext
    certificate: str


def make(
    name: str, address: str, folder: Path, minimum: str | None, ciphers: str | None
) -> ServerTls:
    """Make key, certificate and server context (blocking, a few milliseconds).

    :param name: common name; ``address`` is the only subject alternative name.
    :param folder: the library loads keys from files only; they are removed again.
    :param minimum: ``1.1``, ``1.2`` or ``1.3``; ``ciphers`` for TLS up to 1.2.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.now(UTC) - _ALLOWED_CLOCK_SKEW
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + _LIFETIME)
        .add_extension(alternative, critical=True)
        .sign(key, hashes.SHA512())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS.get(minimum or "1.2", ssl.TLSVersion.TLSv1_2)
    if ciphers:
        context.set_ciphers(ciphers)
    path = folder / "agent.pem"
    try:
        path.touch(mode=0o600)
        path.write_bytes(private + pem)
        context.load_cert_chain(path)
    finally:
        path.unlink(missing_ok=True)
    return ServerTls(context, pem.decode())
