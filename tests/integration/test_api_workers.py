"""``ironic-rs-api``: several workers on one socket, as real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.harness.servers import HOST, free_port, wait_until

BIN = Path(sys.executable).parent
SECONDS = 60


class Api:
    """One ``ironic-rs-api`` over an empty SQLite database, without conductors."""

    def __init__(self, folder: Path, workers: int, backend: str = "threads") -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.config = folder / "ironic.conf"
        self.log = folder / "api.log"
        self.write(1000)
        self.env = {**os.environ, "IRONIC_RS_BACKEND": backend}
        self.workers = workers
        self.process: subprocess.Popen[bytes] | None = None

    def write(self, max_limit: int) -> None:
        self.config.write_text(
            f"""
[DEFAULT]
auth_strategy = noauth
state_path = {self.folder}
transport_url = fake:/
[api]
host_ip = {HOST}
port = {self.port}
api_workers = {getattr(self, "workers", 2)}
max_limit = {max_limit}
[database]
connection = sqlite:///{self.folder}/ironic.sqlite
"""
        )

    def start(self, **env: str) -> None:
        self.write(1000)
        subprocess.run(
            [BIN / "ironic-rs-dbsync", "--config-file", self.config, "create_schema"],
            check=True,
            capture_output=True,
        )
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [BIN / "ironic-rs-api", "--config-file", self.config],
                stdout=log,
                stderr=log,
                env={**self.env, **env},
            )

    def answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/v1/nodes", timeout=10).status_code == 200
        except requests.ConnectionError:
            return False

    def ready(self) -> bool:
        return "ironic-rs-api is ready" in self.lines_of(self.pid)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def lines_of(self, pid: int) -> str:
        return "\n".join(line for line in self.log.read_text().splitlines() if f" {pid} " in line)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.pid).children()

    def kill(self) -> None:
        if self.process is None:
            return
        family = [*self.children(), psutil.Process(self.pid)] if self.process.poll() is None else []
        for member in family:
            member.kill()
        self.process.wait(SECONDS)


@pytest.fixture
def make_api(tmp_path: Path) -> Iterator[Callable[..., Api]]:
    made: list[Api] = []

    def make(workers: int = 2, **options: Any) -> Api:
        api = Api(tmp_path, workers, **options)
        made.append(api)
        return api

    yield make
    for api in made:
        api.kill()


def run(api: Api, **env: str) -> Api:
    api.start(**env)
    wait_until(api.ready, "the API is ready")
    return api


@pytest.mark.parametrize("backend", ["threads", "eventlet"])
def test_all_workers_serve_the_one_socket(make_api: Callable[..., Api], backend: str) -> None:
    if backend == "eventlet":
        pytest.importorskip("eventlet", reason="the extra eventlet is not installed")
    api = run(make_api(backend=backend))
    workers = [child.pid for child in api.children()]
    assert len(workers) == 2

    def both_served() -> bool:
        assert api.answers()
        return all("GET /v1/nodes" in api.lines_of(pid) for pid in workers)

    wait_until(both_served, "both workers serve")
    assert api.log.read_text().count("is deprecated and will be removed") == (
        1 if backend == "eventlet" else 0
    )


def test_a_worker_that_dies_is_replaced(make_api: Callable[..., Api]) -> None:
    api = run(make_api())
    before = {child.pid for child in api.children()}
    victim = min(before)
    os.kill(victim, signal.SIGKILL)

    def replaced() -> bool:
        now = {child.pid for child in api.children()}
        return len(now) == 2 and victim not in now

    wait_until(replaced, "the worker is replaced")
    wait_until(api.answers, "the API answers")


def test_sighup_changes_options_and_restarts_nothing(make_api: Callable[..., Api]) -> None:
    api = run(make_api())
    before = {child.pid for child in api.children()}
    api.write(max_limit=7)
    os.kill(api.pid, signal.SIGHUP)

    def reloaded() -> bool:
        return all("Configuration reloaded" in api.lines_of(pid) for pid in before)

    wait_until(reloaded, "the workers have reloaded")
    assert {child.pid for child in api.children()} == before
    assert api.answers()


def test_sigterm_ends_all_with_exit_code_0(make_api: Callable[..., Api]) -> None:
    api = run(make_api())
    workers = api.children()
    assert api.process is not None
    api.process.terminate()
    assert api.process.wait(SECONDS) == 0
    assert not any(worker.is_running() for worker in workers)
    assert not api.answers()


def test_workers_do_not_outlive_the_first_process(make_api: Callable[..., Api]) -> None:
    api = run(make_api())
    workers = api.children()
    os.kill(api.pid, signal.SIGKILL)
    wait_until(lambda: not any(worker.is_running() for worker in workers), "the workers end")
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, api.port))


def test_systemd_hears_ready_once_the_workers_serve(
    make_api: Callable[..., Api], tmp_path: Path
) -> None:
    path = tmp_path / "notify.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices:
        notices.bind(str(path))
        notices.settimeout(SECONDS)
        api = make_api()
        api.start(NOTIFY_SOCKET=str(path))
        assert notices.recv(1000) == b"READY=1"
        assert len(api.children()) == 2
        assert api.answers()
        assert api.process is not None
        api.process.terminate()
        assert notices.recv(1000) == b"STOPPING=1"


def test_one_worker_needs_no_second_process(make_api: Callable[..., Api]) -> None:
    api = run(make_api(workers=1))
    assert api.children() == []
    assert api.answers()


def test_a_port_in_use_ends_the_start_with_a_clear_text(make_api: Callable[..., Api]) -> None:
    api = make_api()
    with socket.socket() as sock:
        sock.bind((HOST, api.port))
        sock.listen()
        api.start()
        assert api.process is not None
        assert api.process.wait(SECONDS) == 1
    text = api.log.read_text()
    assert "Address already in use" in text
    assert "Traceback" not in text


def test_wsgi_containers_get_an_application(make_api: Callable[..., Api]) -> None:
    api = make_api()
    api.start()
    api.kill()
    code = "from ironic_rs.wsgi import application; print(callable(application))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**api.env, "IRONIC_CONFIG_FILE": str(api.config)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"
