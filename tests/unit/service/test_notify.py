"""Messages to systemd."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from ironic_rs.service import notify


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(tmp_path / "n"))
    sock.settimeout(10)
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
    yield sock
    sock.close()


def test_message_arrives(manager: socket.socket) -> None:
    assert notify.send("READY=1")
    assert manager.recv(100) == b"READY=1"


def test_abstract_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"ironic-rs-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(f"\0{name}")
        sock.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        assert notify.send("STOPPING=1")
        assert sock.recv(100) == b"STOPPING=1"


def test_without_a_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify.send("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify.send("READY=1")


@pytest.mark.parametrize(
    ("usec", "pid", "expected"),
    [
        ("60000000", None, 60.0),
        ("500000", "own", 0.5),
        ("60000000", "1", None),
        ("0", None, None),
        ("soon", None, None),
        (None, None, None),
    ],
)
def test_period_of_the_watchdog(
    monkeypatch: pytest.MonkeyPatch, usec: str | None, pid: str | None, expected: float | None
) -> None:
    for name, value in (("WATCHDOG_USEC", usec), ("WATCHDOG_PID", pid)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, str(os.getpid()) if value == "own" else value)
    assert notify.watchdog_seconds() == expected
