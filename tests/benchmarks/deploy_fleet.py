"""What deployments at the same time cost: docs/conductor-performance.md.

Sandbox machines with Redfish BMCs, virtual media and agents over TLS, deployed by real
conductors over a MariaDB and a RabbitMQ.  All machines are asked for at once; the
benchmark ends with an error unless all become active with the bytes of the image.

    python -m tests.benchmarks.deploy_fleet [--machines 500] [--conductors 2]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import requests

from tests.benchmarks.measures import Measured, Statements, head, show
from tests.harness.cluster import VERSION, Cluster, Sandbox
from tests.harness.servers import mariadb_database, own_mariadb, rabbit_vhost, wait_until

REQUESTS = 8
#: Seconds between two tries of a request that finds no worker, or a node locked.
RETRY = 1.0

Item = TypeVar("Item")


@dataclass
class Site:
    sandbox: Sandbox
    cluster: Cluster
    statements: Statements
    conductors: list[Measured]
    api: Measured
    idle: float = 0.0

    @property
    def table(self) -> str:
        """The nodes in the database."""
        return self.cluster.database.rpartition("/")[2].partition("?")[0] + ".nodes"


@contextmanager
def site(machines: int, conductors: int, debug: bool) -> Iterator[Site]:
    """The machines, an API of two processes, and the conductors."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        sandbox = Sandbox(folder, machines, "--heartbeat-gap=2", image_mib=3)
        stack.callback(sandbox.stop)
        sandbox.start()
        options = sandbox.options()
        # Agents heartbeat when a command has ended; apart from that at their normal rate.
        del options["api"]
        options["DEFAULT"] = {"debug": debug, "hash_ring_reset_interval": 15}
        options["conductor"] |= {
            "automated_clean": False,
            "sync_power_state_interval": 120,
            "check_provision_state_interval": 60,
            "sync_local_state_interval": 180,
            "power_failure_recovery_interval": 300,
            "heartbeat_interval": 10,
            "heartbeat_timeout": 60,
        }
        cluster = Cluster(folder, database, stack.enter_context(rabbit_vhost()), options)
        cluster.migrate()
        stack.callback(cluster.stop)
        api = cluster.start_api()
        processes = [cluster.start_conductor(f"cond-{number}") for number in range(conductors)]
        yield Site(
            sandbox,
            cluster,
            Statements(server.port),
            [Measured(process.pid) for process in processes],
            Measured(api.pid),
        )


def at_once(work: Callable[[requests.Session, Item], Any], items: Sequence[Item]) -> None:
    """Call for all items, some at a time, each with a kept connection."""
    local = threading.local()

    def one(item: Item) -> None:
        if not hasattr(local, "http"):
            local.http = requests.Session()
            local.http.headers["X-OpenStack-Ironic-API-Version"] = VERSION
        work(local.http, item)

    with ThreadPoolExecutor(REQUESTS) as pool:
        list(pool.map(one, items))


def send(http: requests.Session, method: str, url: str, body: Any) -> Any:
    """Send a request until it is accepted: 409 and 503 ask to try again."""
    while True:
        answer = http.request(method, url, json=body, timeout=120)
        if answer.status_code not in (409, 503):
            assert answer.ok, f"{method} {url}: {answer.status_code} {answer.text}"
            return answer.json() if answer.content else None
        time.sleep(RETRY)


class Peaks:
    """Watches the conductors while something goes on."""

    def __init__(self, conductors: list[Measured]) -> None:
        self._conductors = conductors
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.threads = [0] * len(conductors)

    def __enter__(self) -> Peaks:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            for place, conductor in enumerate(self._conductors):
                self.threads[place] = max(self.threads[place], conductor.threads())


def states(here: Site) -> Counter[str]:
    """Return the provision states; only nodes without a lock are in ``active``."""
    rows = here.statements.ask(
        f"SELECT provision_state, reservation IS NULL, COUNT(*) FROM {here.table} GROUP BY 1, 2"
    )
    found: Counter[str] = Counter()
    for state, free, count in rows:
        found[state if free else f"{state}, locked"] += count
    return found


def wait(here: Site, wanted: str, count: int, limit: float) -> None:
    """Wait until all nodes are in a state; tell how far they are on standard error.

    :raises SystemExit: a node failed, or the time is over.
    """
    end, shown = time.monotonic() + limit, time.monotonic()
    while True:
        found = states(here)
        if found[wanted] == count:
            return
        failed = sum(number for state, number in found.items() if "fail" in state)
        if failed or time.monotonic() > end:
            errors = here.statements.ask(
                f"SELECT last_error, COUNT(*) FROM {here.table} GROUP BY 1 LIMIT 10"
            )
            raise SystemExit(f"not all are {wanted}: {dict(found)}; errors: {errors}")
        if time.monotonic() - shown > 15:
            shown = time.monotonic()
            print(dict(found), file=sys.stderr, flush=True)
        time.sleep(0.5)


def prepare(here: Site) -> list[str]:
    """Enroll the machines and make them available; return the UUIDs of the nodes."""
    url, found = here.cluster.url, []

    def enroll(http: requests.Session, machine: dict[str, Any]) -> None:
        node = send(http, "POST", f"{url}/v1/nodes", here.sandbox.node(machine))
        for mac in machine["macs"]:
            port = {"node_uuid": node["uuid"], "address": mac}
            send(http, "POST", f"{url}/v1/ports", port)
        found.append(node["uuid"])

    machines = here.sandbox.machines()
    at_once(enroll, machines)
    for target, state in (("manage", "manageable"), ("provide", "available")):
        ask(here, found, target)
        wait(here, state, len(found), 600)
    return found


def ask(here: Site, nodes: list[str], target: str) -> None:
    """Ask for a provision action on all nodes."""

    def one(http: requests.Session, uuid: str) -> None:
        path = f"{here.cluster.url}/v1/nodes/{uuid}/states/provision"
        send(http, "PUT", path, {"target": target})

    at_once(one, nodes)


def deploy(here: Site, nodes: list[str], limit: float) -> None:
    """Deploy all nodes and print what it took."""
    here.idle = here.statements.rest(10)
    before = here.statements.total(), [one.cpu() for one in here.conductors], here.api.cpu()
    started = time.monotonic()
    with Peaks(here.conductors) as peaks:
        ask(here, nodes, "active")
        asked = time.monotonic() - started
        wait(here, "active", len(nodes), limit)
    took, count = time.monotonic() - started, len(nodes)
    trips = here.statements.total() - before[0] - here.idle * took
    cpu = [one.cpu() - old for one, old in zip(here.conductors, before[1], strict=True)]
    head("deployment of", f"{count} machines by {len(here.conductors)} conductors")
    show("all accepted after", f"{asked:.1f} s")
    show("all active after", f"{took:.1f} s")
    show("SQL round trips a deployment, all processes", f"{trips / count:.1f}")
    show("conductor CPU a deployment", f"{sum(cpu) / count * 1000:.0f} ms")
    show("cores in use by a conductor", ", ".join(f"{one / took:.2f}" for one in cpu))
    show("peak resident size of a conductor", sizes([one.peak() for one in here.conductors]))
    show("most threads of a conductor", ", ".join(str(one) for one in peaks.threads))
    show("SQL round trips a second at rest", f"{here.idle:.2f}")


def sizes(found: Sequence[int]) -> str:
    return ", ".join(f"{one} MiB" for one in found)


def verify(here: Site) -> None:
    """Wait until all machines run what was deployed: the bytes of the image are checked."""

    def all_run() -> bool:
        return set(here.sandbox.get("/")["software"]) == {"instance"}

    wait_until(all_run, "all machines run their instance", timeout=120)
    show("all machines run the instance", "yes")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=500)
    parser.add_argument("--conductors", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for all to be active")
    parser.add_argument("--debug", action="store_true", help="debug logs of the services")
    options = parser.parse_args()
    with site(options.machines, options.conductors, options.debug) as here:
        deploy(here, prepare(here), options.timeout)
        verify(here)
    print(json.dumps({"python": sys.version.split()[0], "cpus": psutil.cpu_count()}))


if __name__ == "__main__":
    main()
