"""The life of a process: real signals, a scripted service."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.service import process
from ironic_rs.service.process import Process


class Service:
    """Notes what is asked of it; a test hooks into each step."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.on_start: Callable[[], None] = lambda: None
        self.on_stop: Callable[[], None] = lambda: None
        self.health = True

    def start(self) -> None:
        self.on_start()
        self.log.append("start")

    def stop(self, timeout: float | None) -> bool:
        self.log.append(("stop", timeout))
        self.on_stop()
        return True

    def keep_registered(self) -> None:
        self.log.append("keep")

    def reloaded(self) -> None:
        self.log.append("reloaded")

    def healthy(self) -> bool:
        return self.health


class Manager:
    """The systemd of a test: reads messages, and acts on them."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sock.bind(str(path))
        self.messages: list[str] = []
        self.actions: dict[str, Callable[[], None]] = {}
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        while True:
            try:
                text = self.sock.recv(100).decode()
            except OSError:
                return
            self.messages.append(text)
            action = self.actions.pop(text, None)
            if action is not None:
                action()


@pytest.fixture(autouse=True)
def _conf() -> Iterator[None]:
    CONF([], default_config_files=[], default_config_dirs=[])
    yield
    CONF.reset()
    CONF.clear()


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    manager = Manager(tmp_path / "n")
    yield manager
    manager.sock.close()


@pytest.fixture
def service() -> Service:
    return Service()


def send(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def test_ready_after_the_start_and_exit_0_after_sigterm(service: Service, manager: Manager) -> None:
    service.on_start = lambda: service.log.append(list(manager.messages))
    manager.actions["READY=1"] = send(signal.SIGTERM)
    assert Process("test", service, CONF).run() == 0
    assert service.log == [[], "start", ("stop", 60)]
    assert manager.messages[0] == "READY=1"


def test_stopping_is_told_before_the_stop(service: Service, manager: Manager) -> None:
    told = threading.Event()
    manager.actions["READY=1"] = send(signal.SIGTERM)
    manager.actions["STOPPING=1"] = told.set
    service.on_stop = lambda: service.log.append(told.wait(10))
    assert Process("test", service, CONF).run() == 0
    assert service.log[-1] is True


def test_drain_has_its_own_time(service: Service, manager: Manager) -> None:
    manager.actions["READY=1"] = send(signal.SIGUSR2)
    assert Process("test", service, CONF).run() == 0
    assert service.log == ["start", ("stop", 1800)]


@pytest.mark.parametrize(
    ("number", "option", "group"),
    [
        (signal.SIGTERM, "graceful_shutdown_timeout", "conductor"),
        (signal.SIGUSR2, "drain_shutdown_timeout", None),
    ],
)
def test_zero_means_no_limit(
    service: Service, manager: Manager, number: int, option: str, group: str | None
) -> None:
    CONF.set_override(option, 0, group=group)
    manager.actions["READY=1"] = send(number)
    assert Process("test", service, CONF).run() == 0
    assert service.log == ["start", ("stop", None)]


def test_planned_restart_is_announced_to_the_service(service: Service, manager: Manager) -> None:
    def both() -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        while "keep" not in service.log:
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    manager.actions["READY=1"] = both
    assert Process("test", service, CONF).run() == 0
    assert service.log == ["start", "keep", ("stop", 60)]


def test_sighup_takes_over_mutable_options_and_nothing_stops(
    service: Service, manager: Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ironic.conf"
    file.write_text("[conductor]\nheartbeat_timeout = 60\n")
    CONF(["--config-file", str(file)], default_config_files=[], default_config_dirs=[])
    seen: list[int] = []

    def reload(conf: Any) -> bool:
        conf.mutate_config_files()
        seen.append(conf.conductor.heartbeat_timeout)
        return True

    monkeypatch.setattr(process.loading, "reload", reload)

    def change() -> None:
        file.write_text("[conductor]\nheartbeat_timeout = 77\n")
        manager.actions["READY=1"] = send(signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)

    manager.actions["READY=1"] = change
    assert Process("test", service, CONF).run() == 0
    assert seen == [77]
    assert service.log == ["start", "reloaded", ("stop", 60)]
    assert manager.messages[:3] == ["READY=1", "RELOADING=1", "READY=1"]


def test_failed_start_is_exit_1_with_the_reason(
    service: Service, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise errors.NoDriversLoaded(conductor="c")

    service.on_start = fail
    assert Process("test", service, CONF).run() == 1
    assert "no hardware types were loaded" in caplog.text
    assert "Traceback" not in caplog.text
    assert "READY=1" not in manager.messages

    def crash() -> None:
        raise ValueError("a bug")

    service.on_start = crash
    assert Process("test", service, CONF).run() == 1
    assert "Traceback" in caplog.text


def test_sigterm_during_a_start_that_hangs_ends_the_process(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_ABORT_SECONDS", 0.05)
    hang = threading.Event()

    def start() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        hang.wait(60)

    service.on_start = start
    assert Process("test", service, CONF).run() == 0
    assert service.log == []
    hang.set()


def test_sigterm_during_a_start_that_ends_stops_in_order(service: Service) -> None:
    service.on_start = send(signal.SIGTERM)
    assert Process("test", service, CONF).run() == 0
    assert service.log == ["start", ("stop", 60)]


def test_a_reload_and_a_planned_restart_asked_for_during_the_start_come_after_it(
    service: Service, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.loading, "reload", lambda conf: True)
    made = Process("test", service, CONF)
    taken = threading.Event()
    wait = made._wait

    def watched(longest: float = 1.0) -> list[int]:
        numbers = wait(longest)
        if signal.SIGUSR1 in numbers:
            taken.set()
        return numbers

    def start() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert taken.wait(60)

    monkeypatch.setattr(made, "_wait", watched)
    monkeypatch.setattr(service, "keep_registered", send(signal.SIGTERM))
    service.on_start = start
    assert made.run() == 0
    assert service.log == ["start", "reloaded", ("stop", 60)]


def test_second_signal_does_not_cut_the_stop_short(service: Service, manager: Manager) -> None:
    def stop() -> None:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        service.log.append("stopped")

    manager.actions["READY=1"] = send(signal.SIGTERM)
    service.on_stop = stop
    assert Process("test", service, CONF).run() == 0
    assert service.log == ["start", ("stop", 60), "stopped"]


def test_error_of_the_stop_is_logged_and_the_process_ends(
    service: Service, manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    def stop() -> None:
        raise ValueError("a bug in the stop")

    manager.actions["READY=1"] = send(signal.SIGTERM)
    service.on_stop = stop
    assert Process("test", service, CONF).run() == 0
    assert "a bug in the stop" in caplog.text


class TestWatchdog:
    @pytest.fixture(autouse=True)
    def _watchdog(self, manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("WATCHDOG_USEC", "20000")
        monkeypatch.delenv("WATCHDOG_PID", raising=False)

    def test_is_fed_while_starting_running_and_stopping(
        self, service: Service, manager: Manager
    ) -> None:
        fed = {name: threading.Event() for name in ("start", "run", "stop")}
        manager.actions["WATCHDOG=1"] = fed["start"].set
        service.on_start = lambda: service.log.append(fed["start"].wait(10))

        def run() -> None:
            manager.actions["WATCHDOG=1"] = send(signal.SIGTERM)

        def stop() -> None:
            manager.actions["WATCHDOG=1"] = fed["stop"].set
            service.log.append(fed["stop"].wait(10))

        manager.actions["READY=1"] = run
        service.on_stop = stop
        assert Process("test", service, CONF).run() == 0
        assert service.log == [True, "start", ("stop", 60), True]

    def test_is_not_fed_when_the_service_hangs(
        self, service: Service, manager: Manager, caplog: pytest.LogCaptureFixture
    ) -> None:
        logged = threading.Event()

        class Watch:
            def __bool__(self) -> bool:
                logged.set()
                return False

        service.health = Watch()  # type: ignore[assignment]

        def ready() -> None:
            assert logged.wait(10)
            os.kill(os.getpid(), signal.SIGTERM)

        manager.actions["READY=1"] = ready
        assert Process("test", service, CONF).run() == 0
        assert "WATCHDOG=1" not in manager.messages
        assert "the watchdog is not fed" in caplog.text


_PROGRAM = """
import sys, threading
from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.service import process
CONF([], default_config_files=[], default_config_dirs=[])
class Service:
    def start(self): pass
    def stop(self, timeout):
        threading.Thread(target=threading.Event().wait).start()  # nobody ends this one
        return True
    def keep_registered(self): pass
    def reloaded(self): pass
    def healthy(self): return True
def make():
    if "broken" in sys.argv:
        raise errors.IncorrectConfiguration(error="so it is")
    return Service()
class Talking(process.Process):
    def _serve(self):
        print("ready", flush=True)
        return super()._serve()
process.Process = Talking
process.main("test", make, CONF)
"""


def start_process(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 0)])
def test_exit_code_whatever_threads_still_run(number: int, code: int) -> None:
    program = start_process()
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(number)
    program.communicate(timeout=60)
    assert program.returncode == code


def test_service_that_cannot_be_made_is_exit_1() -> None:
    program = start_process("broken")
    _, err = program.communicate(timeout=60)
    assert program.returncode == 1
    assert "so it is" in err
