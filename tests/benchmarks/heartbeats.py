"""What the heartbeats of many agents cost: docs/conductor-performance.md.

Nodes in clean wait, each with an agent of its own port and certificate file that runs
a step and heartbeats at its normal rate (0.3 to 0.6 of ramdisk_heartbeat_timeout).  A
heartbeat counts as lost unless it is accepted and the conductor asks the agent what
has become of the step.

    python -m tests.benchmarks.heartbeats [--agents 1000] [--seconds 300]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import psutil
from aiohttp import web
from sqlalchemy import insert

from ironic_rs.conf import CONF
from ironic_rs.db import models, session
from ironic_rs.db.base import table
from ironic_rs.sandbox.agent import tls
from tests.benchmarks import rest_fleet
from tests.benchmarks.measures import Measured, Statements, head, show
from tests.harness.cluster import VERSION, Cluster
from tests.harness.servers import HOST, mariadb_database, own_mariadb, rabbit_vhost

TOKEN = "t" * 43
#: Default of [api]ramdisk_heartbeat_timeout, seconds; agents wait a part of it.
TIMEOUT = 300.0
RATE = (0.3, 0.6)
STEP = {"interface": "deploy", "step": "erase_devices", "priority": 10, "args": {}}
COMMANDS = json.dumps(
    {
        "commands": [
            {
                "id": "1",
                "command_name": "execute_clean_step",
                "command_status": "RUNNING",
                "command_error": None,
                "command_result": None,
            }
        ]
    }
).encode()
#: Seconds after the last heartbeat in which the conductor may come back to its agent.
GRACE = 30.0


def enroll(connection: str, agents: int) -> None:
    """Write nodes that wait for the end of an in-band clean step."""
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("connection", connection, group="database")
    session.configure()
    interfaces = {**rest_fleet.INTERFACES, "deploy": "direct"}

    def row(number: int) -> dict[str, Any]:
        return {
            "uuid": rest_fleet.uuid_of("node", number),
            "driver": "fake-hardware",
            "provision_state": "clean wait",
            "target_provision_state": "available",
            "power_state": "power on",
            "conductor_group": "",
            "maintenance": False,
            "clean_step": STEP,
            "driver_internal_info": {
                "agent_secret_token": TOKEN,
                "clean_steps": [STEP],
                "clean_step_index": 0,
                "agent_cached_clean_steps": {"deploy": [STEP]},
                "agent_cached_clean_steps_refreshed": "2026-01-02 03:04:05",
                "agent_step_sent": "deploy.erase_devices",
            },
            "version": "1.44",
            **{f"{kind}_interface": name for kind, name in interfaces.items()},
        }

    @session.writes
    def write(db: Any) -> None:
        for start in range(0, agents, 500):
            rows = [row(number) for number in range(start, min(start + 500, agents))]
            db.execute(insert(table(models.Node)), rows)

    write()
    session.dispose()
    CONF.reset()
    CONF.clear()


@dataclass
class Agent:
    """One agent: where it listens, and what happened to it."""

    node: str
    sent: int = 0
    asked: int = 0
    connections: int = 0
    latencies: list[float] = field(default_factory=list)
    refused: Counter[int] = field(default_factory=Counter)


class Agents:
    """All agents in one event loop."""

    def __init__(self, url: str, number: int, folder: Path) -> None:
        self.url = url
        self.agents = [Agent(rest_fleet.uuid_of("node", place)) for place in range(number)]
        self._tls = tls.make("agent", HOST, folder, None, None)
        self._servers: list[asyncio.Server] = []

    async def run(self, seconds: float) -> None:
        """Serve and heartbeat for some time, then wait until the conductor has come back."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as http:
            end = time.monotonic() + seconds
            await asyncio.gather(*(self._live(http, agent, end) for agent in self.agents))
            until = time.monotonic() + GRACE
            while self.lost() and time.monotonic() < until:
                await asyncio.sleep(0.1)
        for server in self._servers:
            server.close()

    async def _live(self, http: aiohttp.ClientSession, agent: Agent, end: float) -> None:
        callback = f"https://{HOST}:{await self._serve(agent)}"
        body = {
            "callback_url": callback,
            "agent_version": "13.0.0",
            "agent_token": TOKEN,
            "agent_verify_ca": self._tls.certificate,
        }
        url = f"{self.url}/v1/heartbeat/{agent.node}"
        headers = {"X-OpenStack-Ironic-API-Version": VERSION}
        # They are somewhere in their interval when one starts to look.
        pause = random.uniform(0, TIMEOUT * RATE[1])
        while time.monotonic() + pause < end:
            await asyncio.sleep(pause)
            agent.sent += 1
            started = time.perf_counter()
            async with http.post(url, json=body, headers=headers) as answer:
                await answer.read()
            agent.latencies.append(time.perf_counter() - started)
            if answer.status != 202:
                agent.refused[answer.status] += 1
            pause = TIMEOUT * random.uniform(*RATE)

    async def _serve(self, agent: Agent) -> int:
        async def answer(_request: web.BaseRequest) -> web.Response:
            agent.asked += 1
            return web.Response(body=COMMANDS, content_type="application/json")

        class Server(web.Server):
            def connection_made(self, *args: Any) -> None:
                agent.connections += 1
                super().connection_made(*args)

        server = Server(answer, access_log=None, keepalive_timeout=3600.0)
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(server, HOST, 0, ssl=self._tls.context)
        self._servers.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    def lost(self) -> int:
        """Return how many heartbeats were refused or not acted on (yet)."""
        return sum(
            max(agent.sent - agent.asked, sum(agent.refused.values())) for agent in self.agents
        )


@dataclass
class Site:
    cluster: Cluster
    folder: Path
    statements: Statements
    conductor: Measured
    api: Measured


@contextmanager
def site(agents: int) -> Iterator[Site]:
    """API and conductor with the default options, and the nodes."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="beats-")))
        server = stack.enter_context(own_mariadb(folder))
        database = stack.enter_context(mariadb_database(server.port))
        cluster = Cluster(
            folder,
            database,
            stack.enter_context(rabbit_vhost()),
            {
                "DEFAULT": {"debug": False, "hash_ring_reset_interval": 15},
                "conductor": {
                    "sync_power_state_interval": 120,
                    "check_provision_state_interval": 60,
                    "sync_local_state_interval": 180,
                    "power_failure_recovery_interval": 300,
                    "heartbeat_interval": 10,
                    "heartbeat_timeout": 60,
                },
            },
        )
        cluster.migrate()
        enroll(database, agents)
        stack.callback(cluster.stop)
        api = cluster.start_api()
        process = cluster.start_conductor("cond-a")
        yield Site(cluster, folder, Statements(server.port), Measured(process.pid),
                   Measured(api.pid))  # fmt: skip


def measure(here: Site, number: int, seconds: float) -> bool:
    """Let the agents live, print what it cost; true when nothing was lost."""
    idle = here.statements.rest(10)
    agents = Agents(here.cluster.url, number, here.folder)
    trips, cpu = here.statements.total(), here.conductor.cpu()
    started = time.monotonic()
    asyncio.run(agents.run(seconds))
    took = time.monotonic() - started
    trips = here.statements.total() - trips
    cpu = here.conductor.cpu() - cpu
    found = sorted(value for agent in agents.agents for value in agent.latencies)
    sent = len(found)
    refused = sum((agent.refused for agent in agents.agents), Counter())
    head("heartbeats", f"of {number} agents in {took:.0f} s")
    show("sent", f"{sent}, {sent / took:.1f}/s")
    show("refused, by status", dict(refused) or "none")
    show("lost", agents.lost())
    show("p50 of the call", f"{found[sent // 2] * 1000:.1f} ms")
    show("p99 of the call", f"{found[int(sent * 0.99)] * 1000:.1f} ms")
    show("longest call", f"{found[-1] * 1000:.1f} ms")
    show("SQL round trips a heartbeat, all processes", f"{(trips - idle * took) / sent:.1f}")
    show("conductor CPU a heartbeat", f"{cpu / sent * 1000:.1f} ms")
    heard = sum(agent.sent > 0 for agent in agents.agents)
    connections = sum(agent.connections for agent in agents.agents)
    show("connections to an agent", f"{connections / heard:.2f}")
    show("peak resident size of the conductor", f"{here.conductor.peak()} MiB")
    show("threads of the conductor", here.conductor.threads())
    return agents.lost() == 0


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=300)
    options = parser.parse_args()
    with site(options.agents) as here:
        complete = measure(here, options.agents, options.seconds)
    print(json.dumps({"python": sys.version.split()[0], "cpus": psutil.cpu_count()}))
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
