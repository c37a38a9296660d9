"""What a conductor is like while it fetches large images: docs/conductor-performance.md.

Nodes are deployed at the same time, each with a sparse image of its own that the conductor
fetches, hashes and serves itself (K10/81).  Meanwhile the age of the conductor's heartbeat,
the latency of the API and power sync of other machines are looked at.  At the end one more
transfer is cancelled by an undeployment.

    python -m tests.benchmarks.images [--images 4] [--gib 20] [--bmcs 100]

The conductor wants images x gib of free disk, but does not fill it.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import requests
from sqlalchemy import create_engine, text

from tests.benchmarks.measures import Measured, head, show
from tests.benchmarks.power_sync import Watch, enroll
from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import HOST, mariadb_database, own_mariadb, wait_until

GIB = 1024**3
#: Default of [conductor]heartbeat_interval, seconds.
HEARTBEAT = 10
#: Default of [conductor]sync_power_state_interval, seconds.
SYNC = 60
#: Machines of which power sync is watched.
WATCHED = 5
#: Seconds between two looks.
PERIOD = 0.1
FIELDS = "uuid,provision_state"


def digest_of_zeros(size: int) -> str:
    """Return the SHA-256 of so many zero bytes."""
    block = bytes(1024**2)
    hasher = hashlib.sha256()
    for _ in range(size // len(block)):
        hasher.update(block)
    return hasher.hexdigest()


class Heartbeat:
    """Reads the age of the newest heartbeat of the only conductor."""

    def __init__(self, address: str) -> None:
        engine = create_engine(address, isolation_level="AUTOCOMMIT")
        self._connection = engine.connect()

    def age(self) -> float:
        """Return seconds."""
        query = "SELECT TIMESTAMPDIFF(MICROSECOND, updated_at, UTC_TIMESTAMP(6)) FROM conductors"
        return float(self._connection.execute(text(query)).scalar_one()) / 1e6


def node(cluster: Cluster) -> str:
    uuid = str(
        cluster.create(
            deploy_interface="direct",
            boot_interface="fake",
            driver_info={"image_download_source": "local"},
        )["uuid"]
    )
    cluster.provide(uuid)
    return uuid


def deploy(cluster: Cluster, uuid: str, url: str, digest: str) -> None:
    info = {"image_source": url, "image_os_hash_algo": "sha256", "image_os_hash_value": digest}
    change = [{"op": "add", "path": "/instance_info", "value": info}]
    cluster.send("PATCH", f"/v1/nodes/{uuid}", change, 200)
    cluster.provision(uuid, "active")


def measure(stack: ExitStack, images: int, gib: float, bmcs: int) -> list[tuple[str, Any]]:
    """Run the benchmark; returns lines of the table."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="images-")))
    sandbox = stack.enter_context(running(Sandbox(folder, 1)))
    sandbox.start()
    # In a process of its own: the one above is busy with sending.
    (folder / "fleet").mkdir()
    fleet = stack.enter_context(running(Sandbox(folder / "fleet", bmcs, "--network=127.92.0.0/16")))
    fleet.start()
    size = int(gib * GIB) // 1024**2 * 1024**2
    urls = []
    for number in range(images + 1):
        with (sandbox.files / f"big-{number}.img").open("wb") as file:
            file.truncate(size)
        urls.append(f"http://{HOST}:{sandbox.files_port}/big-{number}.img")
    started = time.monotonic()
    digest = digest_of_zeros(size)
    hashing = time.monotonic() - started

    server = stack.enter_context(own_mariadb(folder))
    address = stack.enter_context(mariadb_database(server.port))
    options = {
        "DEFAULT": {"debug": False, "enabled_hardware_types": "fake-hardware,redfish"},
        "conductor": {
            "automated_clean": False,
            "sync_power_state_interval": SYNC,
            "sync_local_state_interval": 0,
            "heartbeat_interval": HEARTBEAT,
            "heartbeat_timeout": 60,
        },
        "pxe": {"instance_master_path": folder / "masters", "images_path": folder / "images"},
    }
    cluster = stack.enter_context(running(Cluster(folder, address, "fake://", options)))
    cluster.migrate()
    machines = fleet.machines()
    enroll(address, machines)
    process = cluster.start_all_in_one()
    heartbeat = Heartbeat(address)
    nodes = [node(cluster) for _ in range(images + 1)]
    used = Measured(process.pid)
    watch = Watch(fleet, machines[:WATCHED])
    wait_until(lambda: watch.look() or watch.cycles() >= 2, "power sync runs", timeout=3 * SYNC)

    ages, latencies = [], []
    cpu, begun = used.cpu(), time.monotonic()
    for uuid, url in zip(nodes[:images], urls, strict=False):
        deploy(cluster, uuid, url, digest)
    while True:
        asked = time.monotonic()
        rows = cluster.get("/v1/nodes", driver="fake-hardware", fields=FIELDS)["nodes"]
        latencies.append(time.monotonic() - asked)
        ages.append(heartbeat.age())
        if len(ages) % 10 == 0:
            watch.look()
        states = {row["uuid"]: row["provision_state"] for row in rows}
        if all(states[uuid] != "deploying" for uuid in nodes[:images]):
            break
        time.sleep(PERIOD)
    wall = time.monotonic() - begun
    cpu = used.cpu() - cpu
    assert all(states[uuid] == "wait call-back" for uuid in nodes[:images]), states

    # One more, which nobody wants any more as soon as it has begun.
    deploy(cluster, nodes[images], urls[images], digest)
    wait_until(lambda: list((folder / "masters").glob("*.part/image")), "a transfer has begun")
    asked = time.monotonic()
    cluster.provision(nodes[images], "deleted")
    cluster.wait_state(nodes[images], "available")
    cancelled = time.monotonic() - asked
    assert not list((folder / "masters").glob("*.part")), "nothing is left"

    latencies.sort()
    return [
        ("images, GiB each", f"{images} x {size / GIB:g}"),
        ("hashing alone, MiB/s", f"{size / hashing / 1024**2:.0f}"),
        ("all fetched and hashed, s", f"{wall:.1f}"),
        ("throughput, MiB/s", f"{images * size / wall / 1024**2:.0f}"),
        ("CPU of the service, s", f"{cpu:.1f}"),
        ("peak resident, MiB", used.peak()),
        (f"oldest heartbeat, s (interval {HEARTBEAT})", f"{max(ages):.1f}"),
        ("API, median, ms", f"{statistics.median(latencies) * 1e3:.0f}"),
        ("API, 95 %, ms", f"{latencies[int(len(latencies) * 0.95)] * 1e3:.0f}"),
        ("API, slowest, ms", f"{latencies[-1] * 1e3:.0f}"),
        (f"power sync of {bmcs} others, latest, s (interval {SYNC})", f"{watch.longest():.1f}"),
        ("undeployed in the middle of a transfer, s", f"{cancelled:.2f}"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--gib", type=float, default=20.0)
    parser.add_argument("--bmcs", type=int, default=100)
    arguments = parser.parse_args()
    try:
        with ExitStack() as stack:
            lines = measure(stack, arguments.images, arguments.gib, arguments.bmcs)
    except requests.RequestException as exc:
        sys.exit(f"the service does not answer: {exc}")
    head("", "")
    for name, value in lines:
        show(name, value)


if __name__ == "__main__":
    main()
