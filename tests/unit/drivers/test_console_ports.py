"""Ports of this host for consoles."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.drivers.console import ports

HOST = "127.0.0.1"


@pytest.fixture(autouse=True)
def options() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("socat_address", HOST, "console")
    yield
    CONF.clear()
    CONF.reset()


def server(port: int = 0) -> socket.socket:
    """Listen as socat does."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((HOST, port))
    made.listen(1)
    return made


def test_a_port_is_free_unless_something_listens() -> None:
    with closing(server()) as other:
        port = other.getsockname()[1]
        assert not ports.is_free(port)
    assert ports.is_free(port)


def test_a_look_at_a_port_does_not_keep_a_console_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """K07/56: who waits for socat looks at the very moment when it begins to listen."""
    with closing(server()) as other:
        port = other.getsockname()[1]
    begun = []
    leave = socket.socket.__exit__

    def meanwhile(sock: socket.socket, *args: Any) -> None:
        monkeypatch.undo()
        begun.append(server(port))
        leave(sock, *args)

    monkeypatch.setattr(socket.socket, "__exit__", meanwhile)
    assert ports.is_free(port)
    assert not ports.is_free(port)
    begun[0].close()
