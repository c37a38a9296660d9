"""What power sync of a large fleet costs: docs/conductor-performance.md.

One conductor with the default options over a MariaDB, and sandbox BMCs that take
50 ms for each answer.  Three cycles: the first logs in, the second is the steady
state; in the third ten BMCs are dead and ten take 30 s.

    python -m tests.benchmarks.power_sync [--machines 10000] [--delay 0.05] [--interval 120]

A fleet takes one process for each 2,000 machines, and 20,000 open files each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import insert

from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.db.base import table
from tests.benchmarks.measures import Measured, Statements, head, show
from tests.harness.cluster import Cluster, Sandbox
from tests.harness.servers import mariadb_database, own_mariadb, rabbit_vhost, wait_until

PER_PROCESS = 2000
BAD = 10
SLOW = 30.0
DEAD = 3600.0

Machine = dict[str, Any]


class Fleet:
    """Machines in some sandbox processes."""

    def __init__(self, folder: Path, machines: int, delay: float) -> None:
        self.sandboxes = []
        left = machines
        while left:
            number = len(self.sandboxes)
            own = folder / f"fleet-{number}"
            own.mkdir()
            sandbox = Sandbox(
                own,
                min(left, PER_PROCESS),
                f"--network=127.{80 + number}.0.0/16",
                f"--fault=bmc-delay={delay}",
            )
            left -= min(left, PER_PROCESS)
            self.sandboxes.append(sandbox)

    def start(self) -> None:
        """Start all; in turn, for they need the CPU to themselves."""
        for sandbox in self.sandboxes:
            sandbox.start()

    def stop(self) -> None:
        for sandbox in self.sandboxes:
            sandbox.stop()

    def machines(self) -> list[tuple[Sandbox, Machine]]:
        return [(one, machine) for one in self.sandboxes for machine in one.machines()]

    def counts(self) -> Counter[str]:
        """Return the sums of all counters of the BMCs."""
        found: Counter[str] = Counter()
        for sandbox in self.sandboxes:
            found.update(sandbox.get("/")["counts"])
        return found


class Watch:
    """When power sync was at some healthy machines that nobody else asks."""

    def __init__(self, sandbox: Sandbox, machines: list[dict[str, Any]]) -> None:
        self._sandbox, self._machines = sandbox, machines
        self._seen: dict[str, int] = {}
        self.times: dict[str, list[float]] = {machine["name"]: [] for machine in machines}

    def look(self) -> None:
        for machine in self._machines:
            name = machine["name"]
            paths = self._sandbox.get(f"/machines/{name}/counters")["bmc_paths"]
            count = int(paths.get(f"GET {machine['bmc']['system_id']}", 0))
            if count > self._seen.get(name, 0):
                self.times[name].append(time.monotonic())
            self._seen[name] = count

    def longest(self) -> float:
        """Return the longest time between two looks of power sync at a machine."""
        return max(
            (b - a for times in self.times.values() for a, b in itertools.pairwise(times)),
            default=0.0,
        )

    def first(self) -> float:
        """Return when power sync was first seen at one of them (monotonic)."""
        return min((times[0] for times in self.times.values() if times), default=time.monotonic())

    def cycles(self) -> int:
        return min(len(times) for times in self.times.values())


def enroll(connection: str, machines: list[Machine]) -> None:
    """Write nodes whose state is known already.

    :param connection: SQLAlchemy URL of a migrated database.
    """
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", connection, group="database")
    session.configure()
    interfaces = {
        "bios": "no-bios",
        "boot": "redfish-virtual-media",
        "console": "no-console",
        "deploy": "direct",
        "firmware": "no-firmware",
        "inspect": "redfish",
        "management": "redfish",
        "network": "noop",
        "power": "redfish",
        "raid": "no-raid",
        "rescue": "no-rescue",
        "storage": "noop",
        "vendor": "no-vendor",
    }

    def row(machine: Machine) -> dict[str, Any]:
        bmc = machine["bmc"]
        return {
            "uuid": machine["uuid"],
            "name": machine["name"] + bmc["address"],
            "driver": "redfish",
            "provision_state": "available",
            "power_state": "power off",
            "health": "OK",
            "boot_mode": "uefi",
            "secure_boot": False,
            "conductor_group": "",
            "maintenance": False,
            "driver_info": {
                "redfish_address": bmc["address"],
                "redfish_system_id": bmc["system_id"],
                "redfish_username": bmc["username"],
                "redfish_password": bmc["password"],
            },
            "properties": {"vendor": "known", "cpu_arch": "x86_64"},
            "version": "1.44",
            **{f"{kind}_interface": name for kind, name in interfaces.items()},
        }

    @session.writes
    def write(db: Any) -> None:
        for start in range(0, len(machines), 500):
            db.execute(
                insert(table(models.Node)), [row(one) for one in machines[start : start + 500]]
            )

    write()
    session.dispose()
    CONF.reset()
    CONF.clear()


@dataclass
class Site:
    fleet: Fleet
    cluster: Cluster
    statements: Statements
    conductor: Measured
    bad: list[tuple[Sandbox, Machine]] = field(default_factory=list)

    def requests_to_healthy(self, counts: Counter[str]) -> int:
        """Return the requests so far without those to bad BMCs."""
        return counts["bmc.requests"] - sum(
            int(one.get(f"/machines/{machine['name']}/counters")["counts"]["bmc.requests"])
            for one, machine in self.bad
        )


@contextmanager
def site(count: int, delay: float, interval: int) -> Iterator[Site]:
    """The fleet, its nodes, and a conductor that has just started."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sync-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        fleet = Fleet(folder, count, delay)
        stack.callback(fleet.stop)
        fleet.start()
        cluster = Cluster(
            folder,
            database,
            stack.enter_context(rabbit_vhost()),
            {
                "DEFAULT": {"debug": False, "hash_ring_reset_interval": 15},
                "api": {"api_workers": 1},
                "conductor": {
                    "sync_power_state_interval": interval,
                    "check_provision_state_interval": 60,
                    "sync_local_state_interval": 0,
                    "power_failure_recovery_interval": 0,
                    "heartbeat_interval": 10,
                    "heartbeat_timeout": 60,
                },
            },
        )
        cluster.migrate()
        enroll(database, own_identities(fleet))
        stack.callback(cluster.stop)
        cluster.start_api()
        process = cluster.start_conductor("cond-a")
        yield Site(fleet, cluster, Statements(server.port), Measured(process.pid))


def own_identities(fleet: Fleet) -> list[Machine]:
    """Return the machines; those of different processes would have the same UUIDs."""
    found = []
    for place, (_, machine) in enumerate(fleet.machines()):
        found.append({**machine, "uuid": f"{place:08x}{machine['uuid'][8:]}"})
    return found


@dataclass
class Seen:
    counts: Counter[str]
    asked: int
    cpu: float
    trips: int
    at: float


def look(here: Site) -> Seen:
    at = time.monotonic()
    counts = here.fleet.counts()
    asked = here.requests_to_healthy(counts)
    return Seen(counts, asked, here.conductor.cpu(), here.statements.total(), at)


def cycle(here: Site, wanted: int, interval: int) -> tuple[Seen, Seen]:
    """Wait for the next cycle; return what was before it and when it had done its work.

    :param wanted: requests after which the cycle has looked at all healthy machines.
    """
    last = [look(here)]

    def idle() -> bool:
        before, last[0] = last[0], look(here)
        # What a bad one is asked between two questions of ours is taken for another's.
        return last[0].asked <= before.asked + len(here.bad)

    time.sleep(3)
    wait_until(idle, "the last cycle is over", timeout=600, interval=3)
    before = last[0]

    def begun() -> bool:
        nonlocal before
        before = last[0]
        return not idle()

    wait_until(begun, "power sync begins", timeout=2 * interval + 60, interval=0.5)

    def done() -> Seen | None:
        now = look(here)
        return now if now.asked - before.asked >= wanted else None

    found = wait_until(done, "power sync has been at all machines", timeout=600, interval=0.5)
    assert isinstance(found, Seen)
    return before, found


def report(name: str, here: Site, machines: int, before: Seen, after: Seen) -> None:
    show(
        name,
        f"{after.at - before.at:.1f} s",
        after.asked - before.asked,
        after.counts["bmc.sessions"] - before.counts["bmc.sessions"],
        after.counts["bmc.connections"] - before.counts["bmc.connections"],
        after.trips - before.trips,
        f"{(after.cpu - before.cpu) / machines * 1000:.2f} ms",
        f"{here.conductor.resident()} MiB",
        here.conductor.threads(),
    )


def spoil(here: Site, machines: list[tuple[Sandbox, Machine]]) -> None:
    """Let ten BMCs never answer, and ten after 30 s; all over the fleet."""
    step = max(len(machines) // (2 * BAD), 1)
    here.bad = machines[::step][: 2 * BAD]
    values = [DEAD] * BAD + [SLOW] * BAD
    jobs: list[Callable[[], None]] = [
        lambda s=sandbox, m=machine, v=value: s.faults(m["name"], bmc_delay=v)
        for (sandbox, machine), value in zip(here.bad, values, strict=False)
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda job: job(), jobs))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=0.05, help="seconds for each answer")
    parser.add_argument("--interval", type=int, default=120, help="sync_power_state_interval")
    parser.add_argument("--cycles", type=int, default=3, help="cycles with bad BMCs")
    options = parser.parse_args()
    count = options.machines
    with site(count, options.delay, options.interval) as here:
        machines = here.fleet.machines()
        head("cycle", "time", "requests", "log-ins", "connections", "SQL round trips",
             "conductor CPU a node", "resident", "threads")  # fmt: skip
        # Service root, session, system.
        report("first, with log-ins", here, count, *cycle(here, 3 * count, options.interval))
        report("steady", here, count, *cycle(here, count, options.interval))
        spoil(here, machines)
        good = count - len(here.bad)
        for number in range(options.cycles):
            name = f"the others, {BAD} dead and {BAD} slow beside them: {number + 1}"
            report(name, here, good, *cycle(here, good, options.interval))
        show("at most", "60 s", count, 0, 0, "", "4 ms", "", "")
    print(json.dumps({"python": sys.version.split()[0], "cpus": psutil.cpu_count()}))


if __name__ == "__main__":
    main()
