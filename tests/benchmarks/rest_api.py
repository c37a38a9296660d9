"""What requests of the REST API cost, beside their floor: docs/rest-performance.md.

One API process and one conductor over a MariaDB and a RabbitMQ, with a fleet of
nodes in the database; beside it, on the same HTTP server, the same rows by raw SQL
and orjson (pages) or with a bare Pecan controller around that (single reads).
CPU is that of the serving process alone, SQL round trips are those that the
database counted in all processes.

    python -m tests.benchmarks.rest_api [--nodes 1000] [--seconds 5] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import requests

from tests.benchmarks import rest_fleet, rest_floor
from tests.benchmarks.measures import Measured, Statements, head, show
from tests.harness.cluster import VERSION, Cluster
from tests.harness.servers import (
    HOST,
    free_port,
    listens,
    mariadb_database,
    own_mariadb,
    rabbit_vhost,
    wait_until,
)

HEADERS = {"X-OpenStack-Ironic-API-Version": VERSION}
NOVA_FIELDS = f"{rest_floor.NOVA},traits"


@dataclass(frozen=True)
class Read:
    """One kind of read request and its floor.

    :param allowed: CPU that the product may take, in floors.
    """

    name: str
    path: str
    floor: str
    allowed: float


def reads(count: int) -> tuple[Read, ...]:
    """Return the reads that are measured; pages have ``count`` documents."""
    one, name = rest_fleet.uuid_of("node", 7), rest_fleet.name_of(7)
    return (
        Read("nodes, default", f"/v1/nodes?limit={count}", f"/nodes/short?limit={count}", 2),
        Read(
            "nodes, Nova's fields",
            f"/v1/nodes?limit={count}&fields={NOVA_FIELDS}",
            f"/nodes/nova?limit={count}",
            2,
        ),
        Read("nodes, detail", f"/v1/nodes/detail?limit={count}", f"/nodes/detail?limit={count}", 2),
        Read("ports, detail", f"/v1/ports/detail?limit={count}", f"/ports?limit={count}", 2),
        Read("node by uuid", f"/v1/nodes/{one}", f"/pecan/node/{one}", 2.5),
        Read("node by name", f"/v1/nodes/{name}", f"/pecan/node/{name}", 2.5),
    )


class Served(Measured):
    """A serving process and where it listens."""

    def __init__(self, url: str, pid: int) -> None:
        super().__init__(pid)
        self.url = url


@dataclass
class Found:
    """One measurement."""

    cpu: float
    rate: float
    p50: float
    p99: float


def load(served: Served, path: str, connections: int, seconds: float) -> Found:
    """Send one request over and over on kept-alive connections."""
    latencies: list[list[float]] = [[] for _ in range(connections)]
    sessions = [requests.Session() for _ in range(connections)]
    failures: list[Exception] = []
    for session in sessions:  # opened, and what is made once is made
        session.headers.update(HEADERS)
        session.get(served.url + path, timeout=60).raise_for_status()
    end = time.monotonic() + seconds

    def run(place: int) -> None:
        try:
            while time.monotonic() < end:
                started = time.perf_counter()
                sessions[place].get(served.url + path, timeout=60).raise_for_status()
                latencies[place].append(time.perf_counter() - started)
        except Exception as exc:
            failures.append(exc)

    before, started = served.cpu(), time.perf_counter()
    threads = [threading.Thread(target=run, args=(n,)) for n in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    used, took = served.cpu() - before, time.perf_counter() - started
    if failures:
        raise failures[0]
    done = sorted(value for values in latencies for value in values)
    return Found(
        used / len(done) * 1000,
        len(done) / took,
        statistics.median(done) * 1000,
        done[int(len(done) * 0.99)] * 1000,
    )


@contextmanager
def services(nodes: int) -> Iterator[tuple[Cluster, Served, Served, Statements]]:
    """The product and the floor over one database with the fleet."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rest-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        vhost = stack.enter_context(rabbit_vhost())
        cluster = Cluster(
            folder,
            database,
            vhost,
            {
                "DEFAULT": {"debug": False},
                "api": {"api_workers": 1},
                "conductor": {
                    "sync_power_state_interval": 0,
                    "heartbeat_interval": 10,
                    "heartbeat_timeout": 60,
                },
            },
        )
        cluster.migrate()
        rest_fleet.fill(database, nodes)
        stack.callback(cluster.stop)
        api = cluster.start_api()
        cluster.start_conductor("cond-a")
        port = free_port()
        where = f"{HOST}:{server.port}/{database.rpartition('/')[2].partition('?')[0]}"
        floor = subprocess.Popen(
            [sys.executable, rest_floor.__file__, "--port", str(port), "--database", where]
        )
        stack.callback(floor.wait)
        stack.callback(floor.terminate)
        wait_until(lambda: listens(port), "the floor listens")
        yield (
            cluster,
            Served(cluster.url, api.pid),
            Served(f"http://{HOST}:{port}", floor.pid),
            Statements(server.port),
        )


def measure_reads(product: Served, floor: Served, wanted: Sequence[Read], seconds: float) -> None:
    head("request", "connections", "CPU", "floor", "ratio", "allowed", "rate", "floor",
         "p50", "p99")  # fmt: skip
    for read in wanted:
        for connections in (1, 8):
            below = load(floor, read.floor, connections, seconds)
            found = load(product, read.path, connections, seconds)
            show(
                read.name,
                connections,
                f"{found.cpu:.2f} ms",
                f"{below.cpu:.2f} ms",
                f"{found.cpu / below.cpu:.2f}",
                read.allowed,
                f"{found.rate:.0f}/s",
                f"{below.rate:.0f}/s",
                f"{found.p50:.1f} ms",
                f"{found.p99:.1f} ms",
            )


def measure_round_trips(cluster: Cluster, statements: Statements, repeat: int = 20) -> None:
    """Round trips in all processes, by request; the targets beside them."""
    node = rest_fleet.uuid_of("node", 1)
    made = iter(range(10**6))

    def create_port() -> None:
        number = next(made)
        address = f"02:00:00:{number >> 16:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
        cluster.send("POST", "/v1/ports", {"node_uuid": node, "address": address}, 201)

    extra = [{"op": "add", "path": "/extra/note", "value": "x"}]
    doomed = iter(
        [
            cluster.send("POST", "/v1/nodes", {"driver": "fake-hardware"}, 201).json()["uuid"]
            for _ in range(repeat)
        ]
    )
    idle = statements.rest(12)
    kinds: tuple[tuple[str, int, Callable[[], Any]], ...] = (
        ("one node", 2, lambda: cluster.get(f"/v1/nodes/{node}")),
        ("page of nodes, default", 5, lambda: cluster.get("/v1/nodes")),
        ("page of nodes, detail", 5, lambda: cluster.get("/v1/nodes/detail")),
        ("page of ports, detail", 5, lambda: cluster.get("/v1/ports/detail")),
        ("PATCH of a node", 12, lambda: cluster.send("PATCH", f"/v1/nodes/{node}", extra, 200)),
        ("create a port", 10, create_port),
        (
            "set traits",
            10,
            lambda: cluster.send(
                "PUT",
                f"/v1/nodes/{node}/traits",
                {"traits": [f"CUSTOM_{uuid.uuid4().hex[:8]}".upper()]},
                204,
            ),
        ),
        (
            "delete a node",
            14,
            lambda: cluster.send("DELETE", f"/v1/nodes/{next(doomed)}", None, 204),
        ),
        (
            "create a node",
            14,
            lambda: cluster.send("POST", "/v1/nodes", {"driver": "fake-hardware"}, 201),
        ),
    )
    head("request", "SQL round trips", "at most")
    for name, allowed, action in kinds:
        show(name, f"{statements.of(action, repeat, idle):.1f}", allowed)
    show("at rest, API and conductor", f"{idle:.2f}/s", "")


def measure_memory(product: Served, count: int) -> None:
    """Peak memory after pages in turn, and after 30 at once."""
    before = product.peak()
    session = requests.Session()
    session.headers.update(HEADERS)
    url = f"{product.url}/v1/nodes/detail?limit={count}"
    for _ in range(50):
        answer = session.get(url, timeout=60)
    in_turn = product.peak()
    threads = [
        threading.Thread(target=lambda: requests.get(url, headers=HEADERS, timeout=120))
        for _ in range(30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    head("peak resident size of the API process", "MiB")
    show("before", before)
    show(f"50 detail pages in turn ({rest_fleet.sizes(answer.content)})", in_turn)
    show("30 detail pages at once", product.peak())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", nargs="*", default=["reads", "trips", "memory"])
    options = parser.parse_args()
    with services(options.nodes) as (cluster, product, floor, statements):
        cluster.get("/v1/drivers")
        if "memory" in options.only:
            measure_memory(product, options.nodes)
            print()
        if "trips" in options.only:
            measure_round_trips(cluster, statements)
            print()
        if "reads" in options.only:
            measure_reads(product, floor, reads(options.nodes), options.seconds)
    print(json.dumps({"python": sys.version.split()[0], "cpus": psutil.cpu_count()}))


if __name__ == "__main__":
    main()
