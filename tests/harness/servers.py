"""Databases and brokers for tests.

The running server on the standard port is used for tests that only need one; without
it, one is started from the installed package for the life of the test process.  A test
that restarts its server always has its own.  Without either the test is skipped with
the reason; with ``CI=true`` it fails instead.
"""

from __future__ import annotations

import atexit
import contextlib
import getpass
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

import pytest

HOST = "127.0.0.1"
RABBIT_BIN = "/usr/lib/rabbitmq/bin"


def missing(reason: str) -> None:
    """Skip, or fail where nothing may be skipped for the lack of a server."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must provide this: {reason}")
    pytest.skip(reason)


#: Below the ports that systems give to the clients' ends of connections, so that none of
#: them takes a port between its choice and the start of its server.
_PORTS = range(10_000, 30_000)


def free_port() -> int:
    """Return a TCP port of the loopback that nobody listens on now."""
    for port in random.SystemRandom().sample(_PORTS, 1000):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind((HOST, port))
            return port
    raise AssertionError(f"no free port in {_PORTS}")


def listens(port: int, host: str = HOST) -> bool:
    """Tell whether something accepts connections on the port."""
    with socket.socket() as sock:
        sock.settimeout(1)
        return sock.connect_ex((host, port)) == 0


def wait_until(
    check: Callable[[], object],
    what: str,
    timeout: float = 60,
    interval: float = 0.1,
) -> object:
    """Poll until ``check`` returns something true; return that.

    :param timeout: seconds, a bound for a hanging test, not an expectation.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"after {timeout:.0f} s still not: {what}")
        time.sleep(interval)


def _name() -> str:
    return f"ironic_rs_{uuid.uuid4().hex[:10]}"


@contextlib.contextmanager
def mariadb_database(port: int = 3306) -> Iterator[str]:
    """A fresh database on a MariaDB server; yields its SQLAlchemy URL."""
    if not listens(port):
        port = for_this_process("mariadb", own_mariadb).port
    pymysql = pytest.importorskip("pymysql")
    name = _name()
    with contextlib.closing(pymysql.connect(host=HOST, port=port, user="root")) as conn:
        conn.cursor().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    try:
        yield f"mysql+pymysql://root@{HOST}:{port}/{name}?charset=utf8mb4"
    finally:
        if listens(port):
            with contextlib.closing(pymysql.connect(host=HOST, port=port, user="root")) as conn:
                conn.cursor().execute(f"DROP DATABASE IF EXISTS {name}")


@contextlib.contextmanager
def postgresql_database(port: int = 5432) -> Iterator[str]:
    """A fresh database on a PostgreSQL server; yields its SQLAlchemy URL."""
    if not listens(port):
        port = for_this_process("postgresql", own_postgresql).port
    psycopg = pytest.importorskip("psycopg")
    name, user = _name(), getpass.getuser()
    where = f"host={HOST} port={port} user={user} dbname=postgres"
    with psycopg.connect(where, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}")
    try:
        yield f"postgresql+psycopg://{user}@{HOST}:{port}/{name}"
    finally:
        if listens(port):
            with psycopg.connect(where, autocommit=True) as conn:
                conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextlib.contextmanager
def rabbit_vhost(port: int = 5672, own: OwnRabbit | None = None) -> Iterator[str]:
    """A fresh virtual host on a RabbitMQ server; yields its transport URL."""
    if own is None and not listens(port):
        own = for_this_process("rabbitmq", own_rabbit)
    port = own.port if own else port
    name = _name()
    _rabbitmqctl(own, "add_vhost", name)
    try:
        _rabbitmqctl(own, "set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        yield f"rabbit://guest:guest@{HOST}:{port}/{name}"
    finally:
        if listens(port):
            _rabbitmqctl(own, "delete_vhost", name)


def _rabbitmqctl(own: OwnRabbit | None, *args: str) -> None:
    if own is None:
        program, env = _program("rabbitmqctl", "/usr/sbin/rabbitmqctl"), {}
    else:
        # Debian's wrapper changes the user and with it the cookie.
        program, env = f"{RABBIT_BIN}/rabbitmqctl", own.env
    done = subprocess.run(
        [program, "-q", *args],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )
    if done.returncode != 0:
        missing(f"rabbitmqctl {args[0]}: {done.stdout}{done.stderr}")


class OwnServer:
    """A server process of this test's own, which can be stopped and started again."""

    def __init__(self, command: list[str], port: int, log: Path, env: dict[str, str]) -> None:
        self.command, self.port, self.log, self.env = command, port, log, env
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until the port answers."""
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command,
                stdout=out,
                stderr=out,
                env={**os.environ, **self.env},
                start_new_session=True,
            )
        wait_until(
            lambda: listens(self.port),
            f"{self.command[0]} listens, see {self.log}",
            timeout=120,
        )

    def stop(self, sig: int = signal.SIGKILL) -> None:
        """Stop the whole process group and wait for its end."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, sig)
        self.process.wait(timeout=120)
        wait_until(lambda: not listens(self.port), f"port {self.port} is closed", timeout=60)
        self.process = None


_kept = contextlib.ExitStack()
_own: dict[str, OwnServer] = {}
atexit.register(_kept.close)

Server = TypeVar("Server", bound=OwnServer)


def for_this_process(
    kind: str, make: Callable[[Path], contextlib.AbstractContextManager[Server]]
) -> Server:
    """Start a server once; it ends with the test process."""
    if kind not in _own:
        folder = Path(_kept.enter_context(tempfile.TemporaryDirectory(prefix=f"{kind}-")))
        _own[kind] = _kept.enter_context(make(folder))
    return cast("Server", _own[kind])


def _program(name: str, *places: str) -> str:
    found = shutil.which(name) or next((p for p in places if Path(p).exists()), None)
    if found is None:
        missing(f"{name} is not installed")
    return str(found)


@contextlib.contextmanager
def own_mariadb(folder: Path) -> Iterator[OwnServer]:
    """A MariaDB server with its data under ``folder``, on a port of its own."""
    install = _program("mariadb-install-db")
    daemon = _program("mariadbd", "/usr/sbin/mariadbd")
    data, port, user = folder / "mariadb", free_port(), getpass.getuser()
    subprocess.run(
        [
            install,
            "--no-defaults",
            f"--datadir={data}",
            f"--user={user}",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    server = OwnServer(
        [
            daemon,
            "--no-defaults",
            f"--datadir={data}",
            f"--socket={folder / 'db.sock'}",
            f"--pid-file={folder / 'db.pid'}",
            f"--port={port}",
            f"--bind-address={HOST}",
            f"--user={user}",
            "--innodb-buffer-pool-size=32M",
        ],
        port,
        folder / "mariadb.log",
        {},
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def own_postgresql(folder: Path) -> Iterator[OwnServer]:
    """A PostgreSQL server with its data under ``folder``, on a port of its own."""
    bins = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    initdb = _program("initdb", *(str(place / "initdb") for place in reversed(bins)))
    daemon = _program("postgres", *(str(place / "postgres") for place in reversed(bins)))
    data, port = folder / "data", free_port()
    prefix: list[str] = []
    if os.getuid() == 0:
        # PostgreSQL refuses to run as root.
        shutil.chown(folder, "postgres")
        prefix = ["runuser", "-u", "postgres", "--"]
    subprocess.run(
        [*prefix, initdb, "-D", str(data), "-A", "trust", "-U", getpass.getuser(), "--no-sync"],
        check=True,
        capture_output=True,
        timeout=120,
        cwd="/",
    )
    server = OwnServer(
        [
            *prefix,
            daemon,
            "-D",
            str(data),
            "-p",
            str(port),
            "-k",
            str(folder),
            "-c",
            f"listen_addresses={HOST}",
            "-c",
            "max_connections=300",
        ],
        port,
        folder / "postgresql.log",
        {},
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


class OwnRabbit(OwnServer):
    """A RabbitMQ node of this test's own."""

    def start(self) -> None:
        """Start and wait until the broker serves."""
        super().start()
        _rabbitmqctl(self, "await_startup", "--timeout", "100")


@contextlib.contextmanager
def own_rabbit(folder: Path) -> Iterator[OwnRabbit]:
    """A RabbitMQ node with its data under ``folder``, on ports of its own."""
    program = _program(f"{RABBIT_BIN}/rabbitmq-server")
    port = free_port()
    (folder / "enabled_plugins").write_text("[].\n")
    server = OwnRabbit(
        [program],
        port,
        folder / "rabbit.log",
        {
            "HOME": str(folder),  # a cookie of its own
            "RABBITMQ_NODENAME": f"{_name()}@localhost",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
            "RABBITMQ_CONFIG_FILE": str(folder / "none"),
            "RABBITMQ_PID_FILE": str(folder / "rabbit.pid"),
        },
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()
