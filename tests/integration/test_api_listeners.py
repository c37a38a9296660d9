"""``ironic-rs-api`` on its listeners, as real processes: TLS, unix socket, IPv6."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.certificates import certificate
from tests.harness.cluster import Process
from tests.harness.servers import free_port, wait_until

BIN = Path(sys.executable).parent


Start = Callable[..., Process]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start an API of two workers with options of ``[api]``."""
    made: list[Process] = []

    def run(**options: Any) -> Process:
        config = tmp_path / "ironic.conf"
        lines = "\n".join(f"{name} = {value}" for name, value in options.items())
        config.write_text(
            f"[DEFAULT]\nauth_strategy = noauth\nstate_path = {tmp_path}\n"
            f"transport_url = fake:/\n[api]\napi_workers = 2\n{lines}\n"
            f"[database]\nconnection = sqlite:///{tmp_path}/ironic.sqlite\n"
        )
        subprocess.run(
            [BIN / "ironic-rs-dbsync", "--config-file", config], check=True, capture_output=True
        )
        process = Process(
            f"api-{len(made)}",
            [str(BIN / "ironic-rs-api"), "--config-file", str(config)],
            tmp_path,
            {},
        )
        made.append(process)
        process.start()
        return process

    yield run
    for process in made:
        process.kill()


def ready(process: Process) -> None:
    wait_until(lambda: "ironic-rs-api is ready" in process.text() or not process.alive, "ready")
    wait_until(lambda: "workers share one socket" in process.text(), process.text()[-2000:])


def test_tls(start: Start, tmp_path: Path) -> None:
    cert_file, key_file = certificate(tmp_path)
    port = free_port()
    process = start(
        host_ip="127.0.0.1", port=port, enable_ssl_api=True, cert_file=cert_file, key_file=key_file
    )
    ready(process)
    context = ssl.create_default_context(cafile=str(cert_file))
    connection = http.client.HTTPSConnection("localhost", port, context=context, timeout=30)
    connection.request("GET", "/v1/nodes")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b'{"nodes":[]}')
    assert connection.sock.version() == "TLSv1.3"
    connection.close()
    old = ssl.create_default_context(cafile=str(cert_file))
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    refused = http.client.HTTPSConnection("localhost", port, context=old, timeout=30)
    with pytest.raises(ssl.SSLError):
        refused.request("GET", "/v1")


@pytest.mark.parametrize(
    ("days", "broken", "text"),
    [
        ((-3, -1), None, "not now: no client would accept it"),
        ((-1, 1), "cert_file", "can not be used"),
        ((-1, 1), "key_file", "key_file"),
    ],
)
def test_unusable_tls_ends_the_start_once_and_clearly(
    start: Start, tmp_path: Path, days: tuple[int, int], broken: str | None, text: str
) -> None:
    cert_file, key_file = certificate(tmp_path, days)
    files = {"cert_file": cert_file, "key_file": key_file}
    if broken is not None:
        files[broken] = Path("/nosuch/file.pem")
    process = start(host_ip="127.0.0.1", port=free_port(), enable_ssl_api=True, **files)
    assert process.wait(60) == 1
    log = process.text()
    assert log.count("cannot start") == 1
    assert text in log
    assert "Traceback" not in log


def asked(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        sock.sendall(b"GET /v1/nodes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        return sock.makefile("rb").read()


def test_114_a_unix_socket_serves_again_after_a_kill(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    killed = start(unix_socket=path, unix_socket_mode="660")
    ready(killed)
    assert path.stat().st_mode & 0o777 == 0o660
    assert asked(path).endswith(b'{"nodes":[]}')
    # Only the first process: its workers find out by themselves.
    killed.signal(signal.SIGKILL)
    assert killed.wait(60) == -signal.SIGKILL
    assert path.exists()
    again = start(unix_socket=path)
    ready(again)
    assert asked(path).endswith(b'{"nodes":[]}')
    again.signal(signal.SIGTERM)
    assert again.wait(60) == 0
    assert not path.exists()


def test_ipv6(start: Start) -> None:
    port = free_port()
    process = start(host_ip="::1", port=port)
    ready(process)
    connection = http.client.HTTPConnection("::1", port, timeout=30)
    connection.request("GET", "/")
    body = connection.getresponse().read().decode()
    assert f'"href":"http://[::1]:{port}/v1/"' in body
    connection.close()
