"""The embedded HTTP server, over real sockets of this process."""

from __future__ import annotations

import datetime
import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from oslo_config import cfg

from ironic_rs.api.body import read
from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.httpd import server as http_server
from ironic_rs.service import wsgi

Environ = dict[str, Any]


class Application:
    """Echoes requests; ``/wait`` answers when ``go`` is set."""

    def __init__(self) -> None:
        self.waiting = threading.Event()
        self.go = threading.Event()
        self.seen: list[Environ] = []

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> list[bytes]:
        self.seen.append(environ)
        if environ["PATH_INFO"] == "/wait":
            self.waiting.set()
            assert self.go.wait(30)
        body = read(environ, 10**6) or environ["PATH_INFO"].encode()
        start_response("200 OK", [("Content-Length", str(len(body)))])
        return [body]


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("host_ip", "127.0.0.1", group="api")
    CONF.set_override("port", 0, group="api")
    yield CONF
    CONF.reset()
    CONF.clear()


@pytest.fixture
def app() -> Application:
    return Application()


@pytest.fixture
def serve(conf: cfg.ConfigOpts, app: Application) -> Iterator[Callable[..., wsgi.WsgiServer]]:
    servers: list[wsgi.WsgiServer] = []

    def start(sock: socket.socket | None = None) -> wsgi.WsgiServer:
        server = wsgi.WsgiServer(app, conf, sock)
        servers.append(server)
        server.start()
        return server

    yield start
    app.go.set()
    for server in servers:
        server.stop(5)


def port_of(server: wsgi.WsgiServer) -> int:
    return int(server.url.rsplit(":", 1)[1])


def get(port: int, path: str = "/x") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path)
    body = connection.getresponse().read()
    connection.close()
    return body


def test_connections_are_kept_alive(serve: Callable[..., wsgi.WsgiServer]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(serve()), timeout=30)
    for path in ("/a", "/b"):
        connection.request("GET", path)
        assert connection.getresponse().read() == path.encode()
        used = connection.sock
    assert used is not None
    connection.close()


def test_bodies_come_whole_also_in_chunks(serve: Callable[..., wsgi.WsgiServer]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(serve()), timeout=30)
    connection.request("POST", "/", body=b"x" * 100_000)
    assert connection.getresponse().read() == b"x" * 100_000
    connection.request("POST", "/", body=iter([b"ab", b"c" * 70_000]), encode_chunked=True)
    assert connection.getresponse().read() == b"ab" + b"c" * 70_000
    connection.close()


def test_silent_connections_take_no_thread(serve: Callable[..., wsgi.WsgiServer]) -> None:
    port = port_of(serve())
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(wsgi.THREADS * 2)]
    assert get(port) == b"/x"
    for sock in idle:
        sock.close()


def test_two_servers_share_one_socket(
    conf: cfg.ConfigOpts, serve: Callable[..., wsgi.WsgiServer]
) -> None:
    shared = wsgi.listen(conf)
    first, second = serve(shared.dup()), serve(shared.dup())
    port = shared.getsockname()[1]
    assert port_of(first) == port_of(second) == port
    assert [get(port) for _ in range(20)] == [b"/x"] * 20
    assert first.stop(5)
    assert get(port) == b"/x"
    shared.close()


def test_a_stop_lets_running_requests_end(
    serve: Callable[..., wsgi.WsgiServer], app: Application
) -> None:
    server = serve()
    answers: list[bytes] = []
    port = port_of(server)
    client = threading.Thread(target=lambda: answers.append(get(port, "/wait")))
    client.start()
    assert app.waiting.wait(30)
    stopped: list[bool] = []
    stopper = threading.Thread(target=lambda: stopped.append(server.stop(30)))
    stopper.start()
    app.go.set()
    for thread in (client, stopper):
        thread.join(30)
    assert answers == [b"/wait"]
    assert stopped == [True]
    assert server.wait(0)
    assert not server.serving
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1)


def test_a_stop_gives_up_on_requests_that_do_not_end(
    serve: Callable[..., wsgi.WsgiServer], app: Application
) -> None:
    server = serve()

    def ask() -> None:
        with pytest.raises((OSError, http.client.HTTPException)):
            get(port_of(server), "/wait")

    client = threading.Thread(target=ask, daemon=True)
    client.start()
    assert app.waiting.wait(30)
    assert server.stop(0) is False
    assert server.stop(0) is True


def test_unix_socket_with_its_mode(
    conf: cfg.ConfigOpts, serve: Callable[..., wsgi.WsgiServer], tmp_path: Path
) -> None:
    path = tmp_path / "api.sock"
    conf.set_override("unix_socket", str(path), group="api")
    conf.set_override("unix_socket_mode", 0o660, group="api")
    server = serve()
    assert path.stat().st_mode & 0o777 == 0o660
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert sock.makefile("rb").read().endswith(b"/x")
    server.stop(5)
    assert not path.exists()
    # A socket that was left behind is no obstacle.
    socket.socket(socket.AF_UNIX).bind(str(path))
    serve()


def test_a_unix_socket_in_use_is_left_to_its_process(
    conf: cfg.ConfigOpts,
    serve: Callable[..., wsgi.WsgiServer],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "api.sock"
    conf.set_override("unix_socket", str(path), group="api")
    serve()
    inode = path.stat().st_ino
    monkeypatch.setattr(http_server, "ORPHAN_SECONDS", 0)
    with pytest.raises(errors.ConfigInvalid, match=r"unix_socket .*api.sock: another process"):
        wsgi.listen(conf)
    assert path.stat().st_ino == inode


@pytest.mark.parametrize(
    ("name", "reason"), [("file", "in use"), ("no/such", "No such file"), ("x" * 120, "too long")]
)
def test_a_unix_socket_that_can_not_be_made_is_named(
    conf: cfg.ConfigOpts, tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "file").write_text("of somebody")
    conf.set_override("unix_socket", str(tmp_path / name), group="api")
    with pytest.raises(errors.ConfigInvalid, match=rf"(?s)\[api\]unix_socket .*{reason}"):
        wsgi.listen(conf)
    assert (tmp_path / "file").read_text() == "of somebody"


def test_a_port_in_use_is_named(
    conf: cfg.ConfigOpts, serve: Callable[..., wsgi.WsgiServer]
) -> None:
    conf.set_override("port", port_of(serve()), group="api")
    with pytest.raises(errors.ConfigInvalid, match=r"port \d+: Address already in use"):
        wsgi.listen(conf)


# TLS


def make_certificate(tmp_path: Path, first_day: int = -1, last_day: int = 1) -> tuple[str, str]:
    """Write a self-signed certificate for localhost, and its key; days count from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now + datetime.timedelta(days=first_day))
        .not_valid_after(now + datetime.timedelta(days=last_day))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_file, key_file = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_file.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(cert_file), str(key_file)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Files of a certificate and of its key."""
    return make_certificate(tmp_path)


@pytest.fixture
def tls(conf: cfg.ConfigOpts, certificate: tuple[str, str]) -> ssl.SSLContext:
    conf.set_override("enable_ssl_api", True, group="api")
    conf.set_override("cert_file", certificate[0], group="api")
    conf.set_override("key_file", certificate[1], group="api")
    return ssl.create_default_context(cafile=certificate[0])


def test_tls(serve: Callable[..., wsgi.WsgiServer], tls: ssl.SSLContext, app: Application) -> None:
    server = serve()
    assert server.url.startswith("https://")
    connection = http.client.HTTPSConnection("localhost", port_of(server), context=tls, timeout=30)
    for _ in range(2):
        connection.request("POST", "/", body=b"x" * 50_000)
        assert connection.getresponse().read() == b"x" * 50_000
    connection.close()
    assert app.seen[0]["wsgi.url_scheme"] == "https"


def test_a_stalled_handshake_stops_nobody(
    serve: Callable[..., wsgi.WsgiServer], tls: ssl.SSLContext
) -> None:
    server = serve()
    stalled = socket.create_connection(("127.0.0.1", port_of(server)))
    stalled.sendall(b"\x16\x03\x01")
    connection = http.client.HTTPSConnection("localhost", port_of(server), context=tls, timeout=10)
    connection.request("GET", "/x")
    assert connection.getresponse().read() == b"/x"
    connection.close()
    stalled.close()


def test_the_minimum_tls_version_counts(
    serve: Callable[..., wsgi.WsgiServer], tls: ssl.SSLContext
) -> None:
    server = serve()
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    connection = http.client.HTTPSConnection("localhost", port_of(server), context=tls, timeout=10)
    with pytest.raises(ssl.SSLError):
        connection.request("GET", "/x")


@pytest.mark.parametrize("option", ["cert_file", "key_file", "server_tls_ciphers"])
def test_unusable_tls_options_are_named(
    conf: cfg.ConfigOpts, tls: ssl.SSLContext, app: Application, option: str
) -> None:
    conf.set_override(option, "/nothing", group="api")
    with pytest.raises(errors.ConfigInvalid, match=r"/nothing|server_tls_ciphers"):
        wsgi.WsgiServer(app, conf)


def test_tls_needs_a_certificate(conf: cfg.ConfigOpts, app: Application) -> None:
    conf.set_override("enable_ssl_api", True, group="api")
    with pytest.raises(errors.ConfigInvalid, match="cert_file"):
        wsgi.WsgiServer(app, conf)


@pytest.mark.parametrize(("first", "last"), [(-2, -1), (1, 2)])
def test_a_certificate_that_is_not_valid_now_ends_the_start(
    conf: cfg.ConfigOpts, app: Application, tmp_path: Path, first: int, last: int
) -> None:
    cert_file, key_file = make_certificate(tmp_path, first, last)
    conf.set_override("enable_ssl_api", True, group="api")
    conf.set_override("cert_file", cert_file, group="api")
    conf.set_override("key_file", key_file, group="api")
    with pytest.raises(errors.ConfigInvalid, match=r"cert_file .* is valid from .* not now"):
        wsgi.WsgiServer(app, conf)


def test_a_file_that_is_no_certificate_is_named(
    conf: cfg.ConfigOpts, tls: ssl.SSLContext, app: Application, tmp_path: Path
) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    conf.set_override("cert_file", str(junk), group="api")
    with pytest.raises(errors.ConfigInvalid, match=r"\[api\]cert_file .*junk.pem can not be used"):
        wsgi.WsgiServer(app, conf)


def test_the_key_of_another_certificate_is_refused(
    conf: cfg.ConfigOpts, tls: ssl.SSLContext, app: Application, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    conf.set_override("key_file", make_certificate(tmp_path / "other")[1], group="api")
    with pytest.raises(errors.ConfigInvalid, match="key_file"):
        wsgi.WsgiServer(app, conf)


def test_ipv6(conf: cfg.ConfigOpts, serve: Callable[..., wsgi.WsgiServer]) -> None:
    conf.set_override("host_ip", "::1", group="api")
    server = serve()
    assert re.fullmatch(r"http://\[::1\]:\d+", server.url)
    connection = http.client.HTTPConnection("::1", port_of(server), timeout=30)
    connection.request("GET", "/x")
    assert connection.getresponse().read() == b"/x"
    connection.close()
