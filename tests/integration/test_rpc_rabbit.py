"""Calls over a real RabbitMQ, and without one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.rpc import messaging
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.messaging import MessagingTransport
from ironic_rs.rpc.registry import Registry
from tests.harness import servers
from tests.harness.rpc import HOST, Endpoint, Relay, check_calls_casts_and_errors


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("node_locked_retry_interval", 0, group="conductor")
    yield
    CONF.reset()
    CONF.clear()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with servers.rabbit_vhost() as url:
        yield url


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
def open_transport() -> Iterator[Callable[[str], MessagingTransport]]:
    made: list[MessagingTransport] = []

    def make(url: str) -> MessagingTransport:
        made.append(MessagingTransport(CONF, url))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@contextlib.contextmanager
def serving(transport: MessagingTransport, endpoint: Endpoint, host: str = HOST) -> Iterator[None]:
    server = transport.serve(host, Registry([endpoint]))
    server.start()
    try:
        yield
    finally:
        server.stop()
        assert server.wait(30)


def test_calls_casts_and_errors(
    url: str, endpoint: Endpoint, open_transport: Callable[[str], MessagingTransport]
) -> None:
    client = open_transport(url)
    with serving(open_transport(url), endpoint):
        check_calls_casts_and_errors(client, HOST, endpoint)


def test_many_calls_at_a_time(
    url: str, endpoint: Endpoint, open_transport: Callable[[str], MessagingTransport]
) -> None:
    client = open_transport(url)

    def call(number: int) -> Any:
        return client.call(HOST, "echo", {"value": number}, admin_context())

    with serving(open_transport(url), endpoint), ThreadPoolExecutor(40) as pool:
        assert list(pool.map(call, range(200))) == list(range(200))


def test_a_config_drive_of_the_largest_size_passes(
    url: str, endpoint: Endpoint, open_transport: Callable[[str], MessagingTransport]
) -> None:
    client = open_transport(url)
    with serving(open_transport(url), endpoint):
        blob = "x" * (64 * 1024 * 1024)
        assert client.call(HOST, "size", {"blob": blob}, admin_context()) == len(blob)


def test_conductors_have_queues_of_their_own(
    url: str, open_transport: Callable[[str], MessagingTransport]
) -> None:
    first, second = Endpoint(), Endpoint()
    client = open_transport(url)
    with serving(open_transport(url), first, "one"), serving(open_transport(url), second, "two"):
        client.call("two", "echo", {}, admin_context())
    assert (first.calls, second.calls) == (0, 1)


def test_conductor_that_does_not_answer(
    url: str, open_transport: Callable[[str], MessagingTransport]
) -> None:
    client = open_transport(url)
    with pytest.raises(errors.ServiceUnavailable, match="did not answer") as caught:
        client.call("nobody-here", "echo", {}, admin_context(), timeout=0.2)
    assert caught.value.code == 503


def test_method_of_a_newer_release_is_refused_by_the_pin(
    url: str, open_transport: Callable[[str], MessagingTransport]
) -> None:
    CONF.set_override("pin_release_version", "2025.2")
    with pytest.raises(errors.IncorrectConfiguration, match=r"needs version 1\.62"):
        open_transport(url).call(HOST, "echo", {}, admin_context(), version="1.62")


def test_unreachable_broker_is_an_answer_and_nothing_is_sent_later(
    url: str,
    endpoint: Endpoint,
    open_transport: Callable[[str], MessagingTransport],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(messaging, "CONNECT_SECONDS", 0.1)
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    relay = Relay((parts.hostname, parts.port))
    client = open_transport(url.replace(f":{parts.port}/", f":{relay.port}/"))
    with serving(open_transport(url), endpoint):
        for _ in range(3):
            with pytest.raises(errors.ServiceUnavailable, match="cannot be reached") as caught:
                client.call(HOST, "echo", {}, admin_context())
            assert caught.value.code == 503
        relay.join()
        answered = servers.wait_until(
            lambda: _try(lambda: client.call(HOST, "echo", {"value": 1}, admin_context())),
            "the first call after the broker came",
        )
        assert answered == 1
        assert endpoint.calls == 1, "refused calls were sent after all"
    relay.cut()


def test_calls_work_again_after_the_broker_was_away(
    url: str, endpoint: Endpoint, open_transport: Callable[[str], MessagingTransport]
) -> None:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    relay = Relay((parts.hostname, parts.port))
    relay.join()
    through = url.replace(f":{parts.port}/", f":{relay.port}/")
    client = open_transport(through)
    with serving(open_transport(through), endpoint):
        assert client.call(HOST, "echo", {"value": 1}, admin_context()) == 1
        relay.cut()
        with pytest.raises(errors.ServiceUnavailable, match="cannot be used") as caught:
            client.call(HOST, "echo", {"value": 2}, admin_context())
        assert caught.value.code == 503
        relay.join()
        servers.wait_until(
            lambda: _try(
                lambda: client.call(HOST, "echo", {"value": 3}, admin_context(), timeout=2)
            ),
            "a call after the broker came back",
        )
    relay.cut()


def test_server_stops_while_the_broker_is_away(
    url: str, endpoint: Endpoint, open_transport: Callable[[str], MessagingTransport]
) -> None:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    relay = Relay((parts.hostname, parts.port))
    relay.join()
    transport = open_transport(url.replace(f":{parts.port}/", f":{relay.port}/"))
    server = transport.serve(HOST, Registry([endpoint]))
    server.start()
    relay.cut()
    server.stop()
    assert server.wait(None)


def test_server_waits_for_the_broker(
    url: str, endpoint: Endpoint, open_transport: Callable[[str], MessagingTransport]
) -> None:
    parts = urlsplit(url)
    assert parts.hostname and parts.port
    relay = Relay((parts.hostname, parts.port))
    transport = open_transport(url.replace(f":{parts.port}/", f":{relay.port}/"))
    server = transport.serve(HOST, Registry([endpoint]))
    starter = threading.Thread(target=server.start, daemon=True)
    starter.start()
    starter.join(0.5)
    assert starter.is_alive()
    relay.join()
    starter.join(60)
    assert not starter.is_alive()
    assert open_transport(url).call(HOST, "echo", {"value": 7}, admin_context()) == 7
    server.stop()
    assert server.wait(30)
    relay.cut()


def test_unknown_driver_in_the_url_is_a_clear_error() -> None:
    with pytest.raises(errors.IncorrectConfiguration, match="transport_url"):
        MessagingTransport(CONF, "carrier-pigeon://")


def _try(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except errors.ServiceUnavailable:
        return None
