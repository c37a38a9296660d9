"""What a conductor costs at rest: docs/conductor-performance.md, section "At rest".

One conductor with the default intervals over a MariaDB of its own and a RabbitMQ, and a
fleet of fake machines that need nothing.  The window is so long that each periodic
task runs in it; those that run each hour or day run once in it as well, so they are
counted many times over.  CPU is the time of the process: other load on the machine
hardly matters.

    python -m tests.benchmarks.conductor_rest [--nodes 10000] [--seconds 330] [--sensors]
"""

from __future__ import annotations

import argparse
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from tests.benchmarks import rest_fleet
from tests.benchmarks.measures import Measured, Statements, head, show
from tests.harness.cluster import FAST, Cluster, Process
from tests.harness.servers import mariadb_database, own_mariadb, rabbit_vhost, wait_until

#: Intervals of an hour or more, set to the length of the window.
RARE = ("cache_clean_up_interval", "node_history_cleanup_interval", "conductor_cleanup_interval")
_LINE = re.compile(
    r"Periodic task (\S+) every (\S+) s, .*?(?:took ([\d.]+) s, late by ([\d.]+) s, )?"
    r"(\d+) runs, (\d+) failed"
)


@dataclass
class Doing:
    """How a periodic task is doing, as the conductor logs it."""

    interval: float
    took: float
    late: float
    runs: int
    failed: int


def defaults() -> dict[str, dict[str, Any]]:
    """Return the options that the harness makes quick, as they are by default."""
    CONF([], default_config_files=[], default_config_dirs=[])
    found: dict[str, dict[str, Any]] = {
        "conductor": {name: CONF.conductor[name] for name in FAST["conductor"]},
        "DEFAULT": {
            "hash_ring_reset_interval": CONF.hash_ring_reset_interval,
            "debug": False,
        },
    }
    CONF.reset()
    return found


@contextmanager
def site(nodes: int, seconds: int, sensors: bool) -> Iterator[tuple[Process, Statements]]:
    """A conductor that has just started; its database is asked by nobody else."""
    options = defaults()
    options["conductor"] |= dict.fromkeys(RARE, seconds)
    options["api"] = {"api_workers": 1}
    if sensors:
        options["sensor_data"] = {"send_sensor_data": True, "interval": seconds}
        options["oslo_messaging_notifications"] = {"driver": "messagingv2"}
        options["metrics"] = {"backend": "collector"}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rest-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        broker = stack.enter_context(rabbit_vhost())
        cluster = Cluster(folder, database, broker, options)
        cluster.migrate()
        rest_fleet.fill(database, nodes)
        stack.callback(cluster.stop)
        api = cluster.start_api()
        conductor = cluster.start_conductor("cond-a")
        api.kill()
        settle(database)
        yield conductor, Statements(server.port)


def settle(database: str) -> None:
    """Let all nodes belong to the conductor: it has been running for long."""
    CONF.set_override("connection", database, group="database")
    session.configure()
    rows = models.Node.__table__
    ids = sa.select(models.Conductor.__table__.c.id).scalar_subquery()
    with session.writer() as connection:
        connection.execute(sa.update(rows).values(conductor_affinity=ids))
    session.dispose()
    CONF.reset()


def ask(conductor: Process) -> Mapping[str, Doing]:
    """Have the conductor log how its periodic tasks are doing."""
    before = len(conductor.text())
    conductor.signal(signal.SIGHUP)

    def told() -> dict[str, Doing] | None:
        found = {
            name: Doing(float(every), float(took or 0), float(late or 0), int(runs), int(failed))
            for name, every, took, late, runs, failed in _LINE.findall(conductor.text()[before:])
        }
        return found if "cleanup_stale_conductors" in found else None

    found = wait_until(told, "the conductor tells how it is doing", timeout=60)
    assert isinstance(found, dict)
    return found


def main() -> None:
    """Print the costs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=330, help="length of the window")
    parser.add_argument("--sensors", action="store_true", help="send sensor data as well")
    args = parser.parse_args()
    with site(args.nodes, args.seconds, args.sensors) as (conductor, statements):
        process = Measured(conductor.pid)
        # What is found out once, such as the health of all machines, is no rest.
        wait_until(
            lambda: ask(conductor)["_sync_power_states"].runs >= 1,
            "the first power sync is over",
            timeout=600,
            interval=5,
        )
        before, started = ask(conductor), time.monotonic()
        cpu, trips = process.cpu(), statements.total()
        threads: list[int] = []
        resident: list[int] = []
        while time.monotonic() - started < args.seconds:
            time.sleep(1)
            threads.append(process.threads())
            resident.append(process.resident())
        took = time.monotonic() - started
        cpu, trips = process.cpu() - cpu, statements.total() - trips
        after = ask(conductor)
        head("nodes", "seconds", "CPU", "SQL/s", "RSS", "peak RSS", "threads", "most threads")
        show(
            args.nodes,
            f"{took:.0f}",
            f"{cpu / took:.2%}",
            f"{trips / took:.2f}",
            f"{sorted(resident)[len(resident) // 2]} MiB",
            f"{process.peak()} MiB",
            sorted(threads)[len(threads) // 2],
            max(threads),
        )
        print()
        head("periodic task", "interval", "runs in the window", "last took", "late by", "failed")
        for name, now in after.items():
            show(
                name,
                f"{now.interval:g} s",
                now.runs - before[name].runs,
                f"{now.took:.2f} s",
                f"{now.late:.1f} s",
                now.failed,
            )
        idle = [name for name, now in after.items() if now.runs == before[name].runs]
        if idle:
            raise SystemExit(f"not in the window: {', '.join(idle)}; take more --seconds")


if __name__ == "__main__":
    main()
