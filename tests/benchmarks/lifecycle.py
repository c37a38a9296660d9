"""What the life of a fake node costs: docs/conductor-performance.md.

One API process and one conductor over a MariaDB and a RabbitMQ.  All nodes are
managed, provided (with cleaning), deployed and undeployed (with cleaning), each at
the same time; then all are switched off, on and off again.  CPU is that of the
conductor's process; SQL round trips are those that the database counted from all
processes, without what they do at rest.

    python -m tests.benchmarks.lifecycle [--nodes 200] [--requests 16]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from tests.benchmarks.measures import Measured, Statements, head, show
from tests.harness.cluster import Cluster
from tests.harness.servers import mariadb_database, own_mariadb, rabbit_vhost, wait_until

#: Request -> state of the nodes in the end.
LIFE = (
    ("manage", "manageable"),
    ("provide", "available"),
    ("active", "active"),
    ("deleted", "available"),
)


class Site:
    """The product over a database server of its own.

    :ivar idle: SQL round trips a second at rest, of all processes.
    """

    def __init__(self, cluster: Cluster, statements: Statements) -> None:
        self.cluster, self.statements = cluster, statements
        self.name = cluster.database.rpartition("/")[2].partition("?")[0]
        api, conductor = cluster.start_api(), cluster.start_conductor("cond-a")
        self.api, self.conductor = Measured(api.pid), Measured(conductor.pid)
        self.idle = statements.rest(10)

    def wait(self, count: int, state: str) -> None:
        """Wait until that many nodes are in the provision or power state and unlocked."""

        def there() -> bool:
            ((found,),) = self.statements.ask(
                f"SELECT COUNT(*) FROM {self.name}.nodes WHERE reservation IS NULL"
                f" AND target_power_state IS NULL AND '{state}' IN (provision_state, power_state)"
            )
            return int(found) == count

        wait_until(there, f"{count} nodes are {state}", timeout=600)

    def power(self, node: str, target: str) -> None:
        """Ask for a power action (202)."""
        path = f"/v1/nodes/{node}/states/power"
        self.cluster.send("PUT", path, {"target": target}, expect=202)


@contextmanager
def site() -> Iterator[Site]:
    """API and conductor without background work that is not part of a life."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="life-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        cluster = Cluster(
            folder,
            database,
            stack.enter_context(rabbit_vhost()),
            {
                "DEFAULT": {"debug": False, "hash_ring_reset_interval": 15},
                "api": {"api_workers": 1},
                "conductor": {
                    "automated_clean": True,
                    "sync_power_state_interval": 0,
                    "check_provision_state_interval": 60,
                    "sync_local_state_interval": 0,
                    "power_failure_recovery_interval": 0,
                    "heartbeat_interval": 10,
                    "heartbeat_timeout": 60,
                },
            },
        )
        cluster.migrate()
        stack.callback(cluster.stop)
        yield Site(cluster, Statements(server.port))


def run(here: Site, nodes: int, requests: int) -> None:
    """Measure each request on all nodes at the same time, and print it."""
    body = {"driver": "fake-hardware"}
    made = [here.cluster.send("POST", "/v1/nodes", body, 201).json()["uuid"] for _ in range(nodes)]
    head("request", "SQL round trips a node", "conductor CPU a node", "API CPU a node", "time")
    sums = [0.0] * 4
    for target, state in LIFE:
        found = measured(here, lambda uuid, t=target: here.cluster.provision(uuid, t),
                         made, state, requests)  # fmt: skip
        sums = [total + one for total, one in zip(sums, found, strict=True)]
        show(target, *figures(found))
    show("whole life", *figures(sums))
    show("at most", "100", "80 ms", "", "")
    for target in ("power off", "power on", "power off"):
        show(target, *figures(measured(here, lambda uuid, t=target: here.power(uuid, t),
                                       made, target, requests)))  # fmt: skip
    show("at most", "15", "", "", "")
    head("conductor", "")
    show("peak resident size", f"{here.conductor.peak()} MiB")
    show("threads", here.conductor.threads())
    show("SQL round trips at rest, all processes", f"{here.idle:.2f}/s")


def figures(found: list[float]) -> tuple[str, str, str, str]:
    trips, conductor, api, took = found
    return f"{trips:.1f}", f"{conductor * 1000:.1f} ms", f"{api * 1000:.1f} ms", f"{took:.1f} s"


def measured(
    here: Site, ask: Callable[[str], None], made: list[str], state: str, requests: int
) -> list[float]:
    """Return round trips and CPU seconds (conductor, API) a node, and the seconds it took."""
    before = here.statements.total(), here.conductor.cpu(), here.api.cpu()
    started = time.monotonic()
    with ThreadPoolExecutor(requests) as pool:
        list(pool.map(ask, made))
    here.wait(len(made), state)
    took = time.monotonic() - started
    trips = here.statements.total() - before[0] - here.idle * took
    cpu = here.conductor.cpu() - before[1], here.api.cpu() - before[2]
    return [trips / len(made), cpu[0] / len(made), cpu[1] / len(made), took]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--requests", type=int, default=16, help="requests at the same time")
    options = parser.parse_args()
    with site() as here:
        run(here, options.nodes, options.requests)
    print(json.dumps({"python": sys.version.split()[0], "cpus": psutil.cpu_count()}))


if __name__ == "__main__":
    main()
