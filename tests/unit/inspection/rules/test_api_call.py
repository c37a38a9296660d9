"""The action api-call against a server that misbehaves on demand."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.inspection.rules import api_call
from ironic_rs.inspection.rules.rule import RuleError


class Server(http.server.ThreadingHTTPServer):
    """Answers with the statuses of ``script``, then for ever with its last one.

    A status of None is no answer at all until the test ends; ``drip`` is a header that
    never ends.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Any] = [200]
        self.seen: list[tuple[str, str | None]] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        return f"http://user:canary@127.0.0.1:{self.server_port}/path?token=canary"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("X-Rule")))
        script = self.server.script
        status = script.pop(0) if len(script) > 1 else script[0]
        if status is None:
            self.server.over.wait(30)
            return
        if status == "drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not self.server.over.wait(0.02):
                self.wfile.write(b"x")
            return
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/again")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(database: str) -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield made
        made.over.set()
        made.shutdown()
        thread.join()


def get(url: str, **more: Any) -> None:
    given = {"headers": None, "proxies": None, "timeout": 5, "retries": 2, "backoff_factor": 0.01}
    api_call.get(url=url, **{**given, **more})


def test_a_good_answer(server: Server) -> None:
    get(server.url, headers={"X-Rule": 5})
    assert server.seen == [("/path?token=canary", "5")]


@pytest.mark.parametrize("status", sorted(api_call.RETRIED))
def test_a_busy_server_is_asked_again(server: Server, status: int) -> None:
    server.script = [status, status, 200]
    get(server.url)
    assert len(server.seen) == 3


def test_a_server_that_stays_busy_fails(server: Server) -> None:
    server.script = [503]
    with pytest.raises(RuleError, match="the server answered 503") as failure:
        get(server.url)
    assert len(server.seen) == 3
    assert "canary" not in str(failure.value)
    assert f"http://127.0.0.1:{server.server_port}/path: " in str(failure.value)


@pytest.mark.parametrize("status", [400, 401, 404, 501])
def test_other_errors_are_final(server: Server, status: int) -> None:
    server.script = [status]
    with pytest.raises(RuleError, match=f"answered {status}"):
        get(server.url)
    assert len(server.seen) == 1


def test_redirects_are_followed_but_not_for_ever(server: Server) -> None:
    server.script = [302, 200]
    get(server.url)
    server.script = [302]
    with pytest.raises(RuleError, match="too many redirects"):
        get(server.url)


@pytest.mark.parametrize("script", [None, "drip"])
def test_a_server_that_does_not_come_to_an_end_is_left(server: Server, script: Any) -> None:
    server.script = [script]
    with pytest.raises(RuleError, match=r"no answer (in time|within)") as failure:
        get(server.url, timeout=0.1, retries=1)
    assert "canary" not in str(failure.value)


def test_nobody_listens() -> None:
    with pytest.raises(RuleError, match=r"http://127\.0\.0\.1:1/: ConnectionError"):
        get("http://127.0.0.1:1/", retries=0)


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://host/x", "file:///etc/passwd", "http://", "http://[", 5]
)
def test_bad_urls(url: Any) -> None:
    with pytest.raises((RuleError, TypeError, AttributeError)):
        get(url)
