"""What BMCs behind a dead switch cost the others: docs/conductor-performance.md.

One conductor over a MariaDB, with the time-outs and the retries of the defaults and a
recovery of power failures every few seconds; of 300 BMCs 60 drop every attempt
to connect.  Users make 20 calls a second on healthy nodes, every other one asks a BMC.
Printed: how late power sync is at healthy machines, how long users wait, and when the
dead ones have become faults.

    python -m tests.benchmarks.black_holes [--machines 300] [--dead 60] [--interval 60]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil

from tests.benchmarks.measures import head, show
from tests.benchmarks.power_sync import Watch, enroll
from tests.harness.black_hole import BlackHole
from tests.harness.cluster import Cluster, Sandbox
from tests.harness.servers import mariadb_database, own_mariadb, rabbit_vhost, wait_until

RATE = 20.0
WATCHED = 10


class Users:
    """Calls on healthy nodes, at a fixed rate."""

    def __init__(self, cluster: Cluster, uuids: list[str]) -> None:
        self._cluster, self._uuids = cluster, uuids
        self.seconds: dict[str, list[float]] = {"node": [], "boot device": []}
        self.errors = 0
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(32)
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        number = 0
        while not self._over.wait(1 / RATE):
            uuid = self._uuids[number % len(self._uuids)]
            self._pool.submit(self._call, uuid, "boot device" if number % 2 else "node")
            number += 1

    def _call(self, uuid: str, what: str) -> None:
        path = f"/v1/nodes/{uuid}" + ("/management/boot_device" if what != "node" else "")
        began = time.monotonic()
        try:
            self._cluster.get(path)
        except Exception:
            self.errors += 1
        self.seconds[what].append(time.monotonic() - began)


def percentile(values: list[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1] if len(values) > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=300)
    parser.add_argument("--dead", type=int, default=60)
    parser.add_argument("--interval", type=int, default=60, help="sync_power_state_interval")
    parser.add_argument("--cycles", type=int, default=6)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holes-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        sandbox = Sandbox(folder, options.machines, "--network=127.90.0.0/16")
        stack.callback(sandbox.stop)
        sandbox.start()
        machines = sandbox.machines()
        dead, healthy = machines[: options.dead], machines[options.dead :]
        for number, machine in enumerate(dead):
            hole = stack.enter_context(BlackHole(f"127.91.0.{number + 1}"))
            machine["bmc"]["address"] = hole.address
        conductor = {
            "sync_power_state_interval": options.interval,
            "power_state_sync_max_retries": 2,
            "sync_local_state_interval": 0,
        }
        cluster = Cluster(
            folder,
            database,
            stack.enter_context(rabbit_vhost()),
            {"DEFAULT": {"debug": False}, "conductor": conductor},
        )
        cluster.migrate()
        # Dead ones anywhere among the others.
        enroll(database, random.Random(1).sample(machines, len(machines)))
        stack.callback(cluster.stop)
        cluster.start_api()
        cluster.start_conductor("cond-a")
        users = Users(cluster, [machine["uuid"] for machine in healthy[:-WATCHED]])
        watch = Watch(sandbox, healthy[-WATCHED:])
        faults = 0.0
        users.start()
        stack.callback(users.stop)

        def over() -> bool:
            nonlocal faults
            watch.look()
            if not faults and _all_lost(cluster, len(dead)):
                faults = time.monotonic() - watch.first()
            return watch.cycles() >= options.cycles and bool(faults)

        wait_until(over, "all cycles are over", timeout=options.interval * 20, interval=1)
        head("", "calls", "errors", "p50", "p95", "longest")
        for what, values in users.seconds.items():
            figures = (percentile(values, 50), percentile(values, 95), max(values))
            texts = [f"{value * 1000:.0f} ms" for value in figures]
            show(what, len(values), users.errors, *texts)
        show(
            "power sync",
            watch.cycles(),
            "",
            "",
            "",
            f"{watch.longest() - options.interval:.0f} s late at most",
        )
        after = f"{faults:.0f} s after the first cycle began"
        show("faults of the dead", len(dead), "", "", "", after)
    print(json.dumps({"python": sys.version.split()[0], "cpus": psutil.cpu_count()}))


def _all_lost(cluster: Cluster, wanted: int) -> bool:
    found = cluster.get("/v1/nodes", fault="power failure", fields="uuid", limit=1000)["nodes"]
    return len(found) == wanted


if __name__ == "__main__":
    main()
