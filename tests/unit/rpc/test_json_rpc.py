"""Calls by JSON-RPC over HTTP (conductor.md section 1.1, auxiliary.md section 14).

Server and client are the real ones, on sockets of this host.
"""

from __future__ import annotations

import http.client
import json
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc import json_client
from ironic_rs.rpc import transport as rpc_transport
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.json_client import JsonRpcTransport
from ironic_rs.rpc.json_server import JsonRpcServer
from ironic_rs.rpc.registry import RPC_VERSION, Registry
from tests.harness import keystone
from tests.harness.certificates import certificate
from tests.harness.rpc import Endpoint, Relay, check_calls_casts_and_errors
from tests.harness.servers import HOST, free_port

Serve = Callable[[Endpoint], str]


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("node_locked_retry_interval", 0, group="conductor")
    CONF.set_override("auth_strategy", "noauth")
    CONF.set_override("host_ip", HOST, group="json_rpc")
    CONF.set_override("port", free_port(), group="json_rpc")
    yield
    CONF.reset()
    CONF.clear()
    CONF.clear_default("auth_type", group="json_rpc")


@pytest.fixture
def client() -> Iterator[JsonRpcTransport]:
    made = JsonRpcTransport(CONF)
    yield made
    made.close()


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve an endpoint; returns the name of the conductor."""
    running: list[JsonRpcServer] = []

    def start(endpoint: Endpoint) -> str:
        transport = JsonRpcTransport(CONF)
        server = transport.serve(HOST, Registry([endpoint]))
        server.start()
        running.append(server)
        return transport.identity(HOST)

    yield start
    for server in running:
        server.stop()
        assert server.wait(30)


def exchange(body: bytes, method: str = "POST", **headers: str) -> tuple[int, Any, Any]:
    """Send a request as it is; return status, document and headers."""
    connection = http.client.HTTPConnection(HOST, CONF.json_rpc.port, timeout=30)
    connection.request(method, "/", body, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None, answer.headers


def request(method: str = "echo", **more: Any) -> dict[str, Any]:
    params = {"context": {}, "rpc.version": "1.0", **more.pop("params", {})}
    return {"jsonrpc": "2.0", "method": method, "params": params, "id": "req-1", **more}


def test_calls_casts_and_errors(client: JsonRpcTransport, serve: Serve) -> None:
    endpoint = Endpoint()
    host = serve(endpoint)
    check_calls_casts_and_errors(client, host, endpoint)


def test_many_calls_share_kept_connections(
    client: JsonRpcTransport, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Any] = []
    plain = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        if address[1] == CONF.json_rpc.port:
            opened.append(address)
        plain(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    host = serve(Endpoint())

    def call(number: int) -> Any:
        return client.call(host, "echo", {"value": number}, admin_context())

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(100))) == list(range(100))
    assert 1 <= len(opened) <= 8


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    client: JsonRpcTransport, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = serve(Endpoint())
    seen = threading.local()

    def peer() -> int:
        plain = json_client._FreshPool._put_conn

        def put(pool: Any, conn: Any) -> None:
            seen.port = conn.sock.getsockname()[1]
            plain(pool, conn)

        with monkeypatch.context() as patch:
            patch.setattr(json_client._FreshPool, "_put_conn", put)
            client.call(host, "echo", {}, admin_context())
        return int(seen.port)

    first = peer()
    assert peer() == first
    monkeypatch.setattr(json_client, "IDLE_SECONDS", -1.0)
    assert peer() != first


def test_a_config_drive_of_the_largest_size_passes(client: JsonRpcTransport, serve: Serve) -> None:
    host = serve(Endpoint())
    blob = "x" * (64 * 1024 * 1024)
    assert client.call(host, "size", {"blob": blob}, admin_context()) == len(blob)
    status, document, _ = exchange(b"x" * (66 * 1024 * 1024))
    assert (status, document["error"]["code"]) == (413, 413)


def test_what_the_api_takes_is_not_too_deep_for_a_call(
    client: JsonRpcTransport, serve: Serve
) -> None:
    host = serve(Endpoint())
    value: Any = 1
    for _ in range(CONF.api.max_json_body_depth):
        value = {"a": value}
    patch = [{"op": "add", "path": "/extra", "value": value}]
    assert client.call(host, "echo", {"value": patch}, admin_context()) == patch


NO_CALLS: list[tuple[Any, int, str]] = [
    (b"{", -32700, "not valid JSON"),
    (b"[]", -32600, "no batches"),
    (b"7", -32600, "one request"),
    ({"method": "echo", "id": 1}, -32600, "jsonrpc"),
    (request(method=7), -32600, "method"),
    (request(params={"value": json.loads("[" * 40 + "]" * 40)}), -32600, "too deep"),
    (request("hidden"), -32601, "hidden"),
    (request("_exposed"), -32601, "_exposed"),
    ({**request(), "params": [1]}, -32602, "by name"),
    ({**request(), "params": {"value": 1}}, -32602, "context"),
    (request(params={"rpc.version": "9.1"}), -32601, "RPC version 9.1"),
    (request(params={"rpc.version": 7}), -32601, "RPC version 7"),
    (request(params={"rpc.version": "1.999"}), -32601, RPC_VERSION),
]


def test_what_is_no_call_is_refused_by_its_code(serve: Serve) -> None:
    endpoint = Endpoint()
    serve(endpoint)
    for body, code, text in NO_CALLS:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        status, document, _ = exchange(raw)
        assert (status, document["jsonrpc"], document["error"]["code"]) == (200, "2.0", code), raw
        assert text in document["error"]["message"]
        assert "data" not in document["error"]
    assert endpoint.calls == 0


def test_wire_form(serve: Serve) -> None:
    serve(Endpoint())
    raw = json.dumps(request(params={"value": 1})).encode()
    status, document, headers = exchange(raw)
    assert (status, document) == (200, {"jsonrpc": "2.0", "id": "req-1", "result": 1})
    assert headers["Content-Type"] == "application/json"
    failed = exchange(json.dumps(request("fail", params={"foreign": False})).encode())[1]["error"]
    assert (failed["code"], failed["data"]["class"]) == (409, "NodeLocked")
    notified = request(params={"value": 1})
    del notified["id"]
    assert exchange(json.dumps(notified).encode())[:2] == (204, None)
    for method in ("GET", "PUT", "DELETE"):
        status, document, headers = exchange(raw, method)
        assert (status, document["error"]["code"], headers["Allow"]) == (405, 405, "POST")


def test_conductor_that_does_not_answer(client: JsonRpcTransport) -> None:
    silent = socket.create_server((HOST, CONF.json_rpc.port))
    with pytest.raises(errors.ServiceUnavailable, match="may still carry it out") as caught:
        client.call(client.identity(HOST), "echo", {}, admin_context(), timeout=0.2)
    assert caught.value.code == 503
    silent.close()
    with pytest.raises(errors.ServiceUnavailable, match="was not sent"):
        client.call(client.identity(HOST), "echo", {}, admin_context())


def test_a_connection_that_breaks_during_a_call(client: JsonRpcTransport, serve: Serve) -> None:
    serve(Endpoint())
    relay = Relay((HOST, CONF.json_rpc.port))
    relay.join()
    host = f"{HOST}:{relay.port}"
    assert client.call(host, "echo", {"value": 1}, admin_context()) == 1
    relay.cut()
    with pytest.raises(errors.ServiceUnavailable):
        client.call(host, "echo", {"value": 2}, admin_context())
    relay.join()
    assert client.call(host, "echo", {"value": 3}, admin_context()) == 3
    relay.cut()


def test_what_answers_is_no_conductor(client: JsonRpcTransport) -> None:
    server = keystone.Keystone()
    server.start()
    try:
        host = server.url.removeprefix("http://").removesuffix("/v3")
        with pytest.raises(errors.IronicError, match="HTTP status"):
            client.call(host, "echo", {}, admin_context())
    finally:
        server.stop()


def test_running_calls_end_before_the_server_has_stopped(client: JsonRpcTransport) -> None:
    endpoint = Endpoint()
    server = client.serve(HOST, Registry([endpoint]))
    server.start()
    host = client.identity(HOST)
    replies: list[Any] = []
    thread = threading.Thread(
        target=lambda: replies.append(client.call(host, "slow", {}, admin_context()))
    )
    thread.start()
    assert endpoint.entered.wait(30)
    server.stop()
    with pytest.raises(errors.ServiceUnavailable, match="is stopping"):
        client.call(host, "echo", {}, admin_context())
    endpoint.gate.set()
    assert server.wait(30)
    thread.join(30)
    assert replies == ["done"]
    with pytest.raises(errors.ServiceUnavailable, match="was not sent"):
        client.call(host, "echo", {}, admin_context())


def test_method_of_a_newer_release_is_refused_by_the_pin(client: JsonRpcTransport) -> None:
    CONF.set_override("pin_release_version", "2025.2")
    with pytest.raises(errors.IncorrectConfiguration, match=r"needs version 1\.62"):
        client.call(HOST, "echo", {}, admin_context(), version="1.62")


def test_port_in_use(client: JsonRpcTransport, serve: Serve) -> None:
    serve(Endpoint())
    with pytest.raises(errors.ConfigInvalid, match=r"\[json_rpc\]host_ip .* in use"):
        client.serve(HOST, Registry([]))


@pytest.mark.parametrize(
    ("host", "port", "name", "url"),
    [
        ("cond-a", 8089, "cond-a", "http://cond-a:8089"),
        ("cond-a", 8090, "cond-a:8090", "http://cond-a:8090"),
        ("fd00::1", 8089, "fd00::1", "http://[fd00::1]:8089"),
        ("fd00::1", 8090, "[fd00::1]:8090", "http://[fd00::1]:8090"),
    ],
)
def test_names_and_addresses(
    client: JsonRpcTransport, host: str, port: int, name: str, url: str
) -> None:
    CONF.set_override("port", port, group="json_rpc")
    assert client.identity(host) == name
    assert client._url(name) == url


def basic(folder: Path, password: str, given: str) -> None:
    users = folder / "users"
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()
    users.write_text(f"ironic:{hashed}\n")
    CONF.set_override("auth_strategy", "http_basic", group="json_rpc")
    CONF.set_override("http_basic_auth_user_file", str(users), group="json_rpc")
    file = folder / "own.conf"
    file.write_text(f"[json_rpc]\nusername = ironic\npassword = {given}\n")
    CONF.reload_config_files()
    CONF(["--config-file", str(file)], default_config_dirs=[])


@pytest.mark.parametrize("right", [True, False])
def test_http_basic(tmp_path: Path, serve: Serve, right: bool) -> None:
    basic(tmp_path, "secret", "secret" if right else "other")
    endpoint = Endpoint()
    host = serve(endpoint)
    client = JsonRpcTransport(CONF)
    if right:
        assert client.call(host, "echo", {"value": 1}, admin_context()) == 1
    else:
        with pytest.raises(errors.IronicError, match="here do not fit its auth_str"):
            client.call(host, "echo", {}, admin_context())
    assert exchange(b"{}")[0] == 401
    assert endpoint.calls == int(right)
    client.close()


def test_a_user_file_that_is_missing_ends_the_start(client: JsonRpcTransport) -> None:
    CONF.set_override("auth_strategy", "http_basic", group="json_rpc")
    CONF.set_override("http_basic_auth_user_file", "/nosuch/file", group="json_rpc")
    with pytest.raises(errors.IncorrectConfiguration, match=r"\[json_rpc\]http_basic_auth_user_f"):
        client.serve(HOST, Registry([]))


def test_keystone_needs_credentials() -> None:
    CONF.set_override("auth_strategy", "keystone")
    with pytest.raises(errors.IncorrectConfiguration, match=r"\[json_rpc\]auth_type"):
        JsonRpcTransport(CONF)


def test_keystone_lets_allowed_roles_in(serve: Serve) -> None:
    with keystone.running() as known, keystone.configured(CONF, known):
        known.tokens["service-token"] = keystone.token("admin", system=True)
        known.tokens["member"] = keystone.token("member", project="p")
        CONF.set_override("auth_section", keystone.GROUP, group="json_rpc")
        endpoint = Endpoint()
        host = serve(endpoint)
        client = JsonRpcTransport(CONF)
        assert client.call(host, "echo", {"value": 1}, admin_context()) == 1
        raw = json.dumps(request()).encode()
        forged = {"X-Roles": "admin", "X-Identity-Status": "Confirmed"}
        refused = exchange(raw, **{"X-Auth-Token": "member"}, **forged)
        assert (refused[0], refused[1]["error"]["code"]) == (403, 403)
        assert exchange(raw, **forged)[0] == 401
        assert exchange(raw, **{"X-Auth-Token": "unknown"})[0] == 401
        known.broken = True
        assert exchange(raw, **{"X-Auth-Token": "new"})[0] == 503
        assert endpoint.calls == 1
        client.close()


def test_tls(tmp_path: Path, serve: Serve) -> None:
    cert_file, key_file = certificate(tmp_path)
    for name, value in {
        "use_ssl": True,
        "client_use_ssl": True,
        "cert_file": str(cert_file),
        "key_file": str(key_file),
        "cafile": str(cert_file),
        "host_ip": "127.0.0.1",
    }.items():
        CONF.set_override(name, value, group="json_rpc")
    serve(Endpoint())
    host = f"localhost:{CONF.json_rpc.port}"
    client = JsonRpcTransport(CONF)
    assert client.call(host, "echo", {"value": 1}, admin_context()) == 1
    client.close()
    CONF.clear_override("cafile", group="json_rpc")
    stranger = JsonRpcTransport(CONF)
    with pytest.raises(errors.ServiceUnavailable, match="was not sent"):
        stranger.call(host, "echo", {}, admin_context())
    stranger.close()
    CONF.set_override("insecure", True, group="json_rpc")
    CONF.set_override("tls_min_version", "1.3", group="json_rpc")
    trusting = JsonRpcTransport(CONF)
    assert trusting.call(host, "echo", {"value": 2}, admin_context()) == 2
    trusting.close()
    CONF.clear_override("insecure", group="json_rpc")
    CONF.set_override("cafile", str(cert_file), group="json_rpc")
    strict = JsonRpcTransport(CONF)
    assert strict.call(host, "echo", {"value": 3}, admin_context()) == 3
    other_name = f"127.0.0.1:{CONF.json_rpc.port}"
    with pytest.raises(errors.ServiceUnavailable, match="was not sent"):
        strict.call(other_name, "echo", {}, admin_context())
    strict.close()


def test_unix_socket_left_behind_does_not_block_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "rpc.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    CONF.set_override("unix_socket", str(path), group="json_rpc")
    transport = JsonRpcTransport(CONF)
    server = transport.serve(HOST, Registry([Endpoint()]))
    server.start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(path))
        body = json.dumps(request(params={"value": 5})).encode()
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
        sock.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
        assert sock.makefile("rb").read().endswith(b'"result":5}')
    server.stop()
    assert server.wait(30)
    assert not path.exists()


@pytest.mark.parametrize("names_only", [True, False])
def test_arguments_are_logged_on_request_and_without_secrets(
    client: JsonRpcTransport, serve: Serve, caplog: pytest.LogCaptureFixture, names_only: bool
) -> None:
    CONF.set_override("debug_log_request_id_only", names_only, group="json_rpc")
    host = serve(Endpoint())
    value = {"redfish_password": "very-secret", "redfish_address": "bmc-7"}
    with caplog.at_level(logging.DEBUG):
        client.call(host, "echo", {"value": value}, admin_context())
    assert ("bmc-7" in caplog.text) is not names_only
    assert "very-secret" not in caplog.text


def test_configuration_chooses_the_transport() -> None:
    CONF.set_override("rpc_transport", "json-rpc")
    try:
        assert isinstance(rpc_transport.get(), JsonRpcTransport)
    finally:
        rpc_transport.reset()
