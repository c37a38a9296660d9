"""Power updates to Nova, as its API gets them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import states
from ironic_rs.integrations import keystone, nova
from ironic_rs.rpc.context import RequestContext

SERVER = "11111111-1111-4111-8111-111111111111"


class Compute:
    """As much of Nova as takes external events; it answers once its gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Event()
        self.status = 200
        self.answer: Any = {"events": [{"code": 200}]}
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        compute = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                compute.requests.append((self.path, headers, body))
                compute.entered.set()
                compute.gate.wait(30)
                content = json.dumps(compute.answer).encode()
                self.send_response(compute.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                """Be quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v2.1"


@pytest.fixture
def compute() -> Iterator[Compute]:
    made = Compute()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.05,))
    thread.start()
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("auth_type", "none", "nova")
    CONF.set_override("endpoint_override", made.url, "nova")
    keystone.adapter.cache_clear()
    yield made
    made.gate.set()
    made.server.shutdown()
    made.server.server_close()
    thread.join()
    CONF.reset()
    CONF.clear()
    CONF.clear_override("auth_type", "nova")
    CONF.clear_override("endpoint_override", "nova")
    keystone.adapter.cache_clear()


def tell(
    updates: nova.PowerUpdates, state: str | None = states.POWER_ON, server: str | None = SERVER
) -> None:
    updates.tell(RequestContext(global_request_id="req-global"), server, state)


def test_the_request_is_the_one_that_nova_takes(compute: Compute) -> None:
    updates = nova.PowerUpdates()
    tell(updates, states.POWER_ON)
    tell(updates, states.POWER_OFF)
    assert updates.flush(30)
    (path, headers, body), (_, _, second) = compute.requests
    assert path == "/v2.1/os-server-external-events"
    assert headers["openstack-api-version"] == "compute 2.76"
    assert headers["x-openstack-request-id"] == "req-global"
    assert body == {"events": [{"name": "power-update", "server_uuid": SERVER, "tag": "POWER_ON"}]}
    assert second["events"][0]["tag"] == "POWER_OFF"


@pytest.mark.parametrize("state", [None, states.POWER_ERROR])
def test_other_states_are_not_sent(compute: Compute, state: str | None) -> None:
    updates = nova.PowerUpdates()
    tell(updates, state)
    assert updates.flush(30)
    assert compute.requests == []


def test_nothing_is_sent_for_a_node_without_instance(compute: Compute) -> None:
    updates = nova.PowerUpdates()
    tell(updates, server=None)
    assert updates.flush(30)
    assert compute.requests == []


@pytest.mark.parametrize(
    ("option", "value"), [("send_power_notifications", False), ("auth_type", None)]
)
def test_nothing_is_sent_when_nobody_configured_it(
    compute: Compute, option: str, value: Any
) -> None:
    CONF.set_override(option, value, "nova")
    updates = nova.PowerUpdates()
    tell(updates)
    CONF.clear_override(option, "nova")
    assert updates.flush(30)
    assert compute.requests == []


@pytest.mark.parametrize(
    ("status", "answer", "log"),
    [
        (403, {}, "Nova refused POWER_ON of server"),
        (503, {}, "Nova refused POWER_ON of server"),
        (207, {"events": [{"code": 404}]}, "did not take POWER_ON of server"),
        (200, ["nonsense"], "makes no sense"),
    ],
)
def test_a_refusal_is_logged_once_and_not_repeated(
    compute: Compute, caplog: pytest.LogCaptureFixture, status: int, answer: Any, log: str
) -> None:
    compute.status, compute.answer = status, answer
    updates = nova.PowerUpdates()
    with caplog.at_level(logging.WARNING):
        tell(updates)
        assert updates.flush(30)
    assert log in caplog.text
    assert len(compute.requests) == 1


def test_a_nova_that_is_away_is_logged(compute: Compute, caplog: pytest.LogCaptureFixture) -> None:
    CONF.set_override("endpoint_override", "http://127.0.0.1:9", "nova")
    updates = nova.PowerUpdates()
    tell(updates)
    assert updates.flush(30)
    assert "could not be told of POWER_ON of server" in caplog.text


def test_a_nova_that_hangs_holds_nobody_up(
    compute: Compute, caplog: pytest.LogCaptureFixture
) -> None:
    compute.gate.clear()
    updates = nova.PowerUpdates(capacity=2)
    tell(updates)
    assert compute.entered.wait(30)
    for _ in range(10):
        tell(updates)
    assert "Nova power updates are lost" in caplog.text
    assert not updates.flush(0)
    compute.gate.set()
    assert updates.flush(30)
    assert len(compute.requests) == 3
