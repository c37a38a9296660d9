"""Compares WSGI servers for the API: docs/wsgi-server.md has the figures and the choice.

Each server runs the same small application in processes of its own, under the same
clients on kept-alive connections, first one process, then two on one socket.

    python tests/benchmarks/wsgi_servers.py [--seconds 4] [--connections 16] [server ...]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil

HOST = "127.0.0.1"
THREADS = 32
SERVERS = ("cheroot", "gunicorn", "waitress", "granian")

SMALL = json.dumps({"nodes": [{"uuid": "x" * 36, "name": "n"}] * 5}).encode()
LARGE = json.dumps({"nodes": [{"uuid": "x" * 36, "name": "n"}] * 10_000}).encode()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    """Answers a small document, a large one, or a small one after a wait."""
    path = environ["PATH_INFO"]
    if path == "/wait":
        time.sleep(float(environ["QUERY_STRING"]))
    body = LARGE if path == "/large" else SMALL
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("200 OK", headers)
    return [body]


# The servers


def serve_cheroot(sock: socket.socket) -> None:
    from ironic_rs.conf import CONF
    from ironic_rs.service.wsgi import WsgiServer

    CONF([], default_config_files=[], default_config_dirs=[])
    server = WsgiServer(application, CONF, sock)
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.stop).start())
    server.wait()


def serve_waitress(sock: socket.socket) -> None:
    import waitress.server

    server = waitress.server.create_server(
        application,
        sockets=[sock],
        threads=THREADS,
        connection_limit=1000,
        clear_untrusted_proxy_headers=True,
    )

    def stop(*_: Any) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    server.run()


def forked(serve: Callable[[socket.socket], None], sock: socket.socket, workers: int) -> None:
    """Run a server in several processes on one socket."""
    pids = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            serve(sock)
            os._exit(0)
        pids.append(pid)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(pid, signal.SIGTERM) for pid in pids])
    for pid in pids:
        os.waitpid(pid, 0)


def serve_gunicorn(sock: socket.socket, workers: int) -> None:
    from gunicorn.app.base import BaseApplication

    class Application(BaseApplication):
        def load_config(self) -> None:
            options = {
                "bind": f"fd://{sock.fileno()}",
                "workers": workers,
                "worker_class": "gthread",
                "threads": THREADS,
                "keepalive": 30,
                "accesslog": None,
                "loglevel": "error",
            }
            for name, value in options.items():
                self.cfg.set(name, value)

        def load(self) -> Any:
            return application

    Application().run()


def serve_granian(port: int, workers: int) -> None:
    from granian import Granian
    from granian.constants import Interfaces

    Granian(
        "wsgi_servers:application",
        address=HOST,
        port=port,
        interface=Interfaces.WSGI,
        workers=workers,
        blocking_threads=THREADS,
        log_access=False,
        log_level="error",
    ).serve()


def serve(name: str, fd: int, workers: int) -> None:
    """Be the server: called in the subprocess."""
    sys.path.insert(0, os.path.dirname(__file__))
    sock = socket.socket(fileno=fd)
    if name == "cheroot":
        forked(serve_cheroot, sock, workers)
    elif name == "waitress":
        forked(serve_waitress, sock, workers)
    elif name == "gunicorn":
        serve_gunicorn(sock, workers)
    else:
        port = sock.getsockname()[1]
        sock.close()
        serve_granian(port, workers)


# The clients


class Connection:
    """One kept-alive connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.sock: socket.socket | None = None
        self.reconnects = -1

    def get(self, path: str) -> None:
        """Send one request and read the whole answer."""
        if self.sock is None:
            self.sock = socket.create_connection((HOST, self.port), timeout=30)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.reconnects += 1
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            part = self.sock.recv(65536)
            if not part:
                raise ConnectionError("closed")
            data += part
        head, _, rest = data.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(head[:50])
        lower = head.lower()
        length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
        left = length - len(rest)
        while left > 0:
            left -= len(self.sock.recv(262144))
        if b"connection: close" in lower:
            self.sock.close()
            self.sock = None


def load(port: int, path: str, connections: int, seconds: float) -> dict[str, float]:
    """Send requests on all connections for some seconds."""
    end = time.monotonic() + seconds
    latencies: list[list[float]] = [[] for _ in range(connections)]
    opened = [Connection(port) for _ in range(connections)]
    failures: list[Exception] = []

    def run(place: int) -> None:
        try:
            while time.monotonic() < end:
                started = time.perf_counter()
                opened[place].get(path)
                latencies[place].append(time.perf_counter() - started)
        except Exception as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = sorted(value for values in latencies for value in values)
    if failures or not done:
        raise RuntimeError(f"{len(failures)} connections failed: {failures[:1]}")
    return {
        "requests": len(done),
        "rate": len(done) / seconds,
        "p50": statistics.median(done) * 1000,
        "p99": done[int(len(done) * 0.99)] * 1000,
        "reconnects": sum(c.reconnects for c in opened),
    }


# Measuring


def tree(pid: int) -> list[psutil.Process]:
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


def cpu(pid: int) -> float:
    return sum(p.cpu_times().user + p.cpu_times().system for p in tree(pid))


class Running:
    """One server under test."""

    def __init__(self, name: str, workers: int) -> None:
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((HOST, 0))
        sock.listen(1024)
        self.port = sock.getsockname()[1]
        command = [sys.executable, __file__, "--serve", name, str(sock.fileno()), str(workers)]
        self.process = subprocess.Popen(
            command, pass_fds=(sock.fileno(),), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        sock.close()
        for _ in range(200):
            try:
                Connection(self.port).get("/small")
                break
            except OSError:
                time.sleep(0.1)
        time.sleep(0.5)

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            for process in tree(self.process.pid):
                process.kill()


def measure(name: str, workers: int, connections: int, seconds: float) -> None:
    server = Running(name, workers)
    try:
        for path in ("/small", "/large"):
            before = cpu(server.process.pid)
            found = load(server.port, path, connections, seconds)
            used = (cpu(server.process.pid) - before) / found["requests"] * 1e6
            row(name, workers, path, found, used)
        memory = max(p.memory_info().rss for p in tree(server.process.pid)) / 2**20
        print(f"| {name} | {workers} | memory of the largest process | {memory:.0f} MiB | | | | |")
        print(f"| {name} | {workers} | 200 silent connections | {silent(server)} | | | | |")
        print(f"| {name} | {workers} | stop with a request running | {graceful(server)} | | | | |")
    finally:
        server.stop()


def row(name: str, workers: int, path: str, found: dict[str, float], used: float) -> None:
    print(
        f"| {name} | {workers} | {path[1:]} | {found['rate']:.0f}/s | {found['p50']:.2f} ms "
        f"| {found['p99']:.2f} ms | {used:.0f} µs | {found['reconnects']:.0f} |",
        flush=True,
    )


def silent(server: Running) -> str:
    """Open connections that send nothing, then see how long a request takes."""
    idle = [socket.create_connection((HOST, server.port)) for _ in range(200)]
    started = time.perf_counter()
    try:
        Connection(server.port).get("/small")
        return f"answer after {(time.perf_counter() - started) * 1000:.0f} ms"
    except OSError as exc:
        return f"no answer: {exc}"
    finally:
        for sock in idle:
            sock.close()


def graceful(server: Running) -> str:
    """Stop the server while it works on a request."""
    outcome: list[str] = []

    def request() -> None:
        try:
            Connection(server.port).get("/wait?1.5")
            outcome.append("answered")
        except OSError as exc:
            outcome.append(f"lost ({exc})")

    thread = threading.Thread(target=request)
    thread.start()
    time.sleep(0.5)
    started = time.perf_counter()
    server.process.terminate()
    try:
        code = server.process.wait(20)
        ended = f"exit {code} after {time.perf_counter() - started:.1f} s"
    except subprocess.TimeoutExpired:
        ended = "does not end"
    thread.join()
    return f"{outcome[0]}, {ended}"


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("servers", nargs="*", default=SERVERS)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--connections", type=int, default=16)
    options = parser.parse_args()
    versions = {name: importlib.metadata.version(name) for name in options.servers}
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, {versions}")
    print("| server | processes | request | rate | p50 | p99 | server CPU | reconnects |")
    print("|---|---|---|---|---|---|---|---|")
    for name in options.servers:
        for workers in (1, 2):
            measure(name, workers, options.connections, options.seconds)


if __name__ == "__main__":
    main()
