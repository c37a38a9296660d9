"""The API in WSGI containers, with the samples of ``etc/wsgi``, beside a real conductor.

Several processes of several threads, MariaDB and RabbitMQ, as a site runs them.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
import requests

from tests.harness.cluster import Cluster, Process
from tests.harness.servers import HOST, free_port, mariadb_database, rabbit_vhost, wait_until

ETC = Path(__file__).resolve().parents[2] / "etc" / "wsgi"
PROCESSES, THREADS = 2, 4
HEADERS = {"X-OpenStack-Ironic-API-Version": "1.115"}


def sample(cluster: Cluster, name: str, config: Path, **values: Any) -> Path:
    """Copy a sample, with the place of the configuration and some values changed."""
    text = (ETC / name).read_text().replace("/etc/ironic/ironic.conf", str(config))
    text = text.replace("0.0.0.0:6385", f"{HOST}:{cluster.port}")
    for option, value in values.items():
        text, number = re.subn(rf"^{option} = .*$", f"{option} = {value}", text, flags=re.M)
        assert number == 1, option
    path = cluster.folder / name
    path.write_text(text)
    return path


def gunicorn(cluster: Cluster, config: Path) -> list[str]:
    path = sample(cluster, "gunicorn.conf.py", config, workers=PROCESSES, threads=THREADS)
    return [sys.executable, "-m", "gunicorn", "-c", str(path), "ironic_rs.wsgi:application"]


def gunicorn_preloaded(cluster: Cluster, config: Path) -> list[str]:
    """Loaded in the first process, then forked."""
    return [*gunicorn(cluster, config), "--preload"]


def uwsgi(cluster: Cluster, config: Path) -> list[str]:
    path = sample(
        cluster,
        "uwsgi.ini",
        config,
        processes=PROCESSES,
        threads=THREADS,
        virtualenv=sys.prefix,
    )
    code = "import sys, pyuwsgi; pyuwsgi.run(sys.argv[1:])"
    return [sys.executable, "-c", code, "--ini", str(path)]


CONTAINERS = {"gunicorn": gunicorn, "gunicorn --preload": gunicorn_preloaded, "uwsgi": uwsgi}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A database and a bus, later a conductor; the API comes with each test."""
    pytest.importorskip("gunicorn")
    pytest.importorskip("pyuwsgi")
    folder = tmp_path_factory.mktemp("containers")
    with mariadb_database() as database, rabbit_vhost() as transport:
        made = Cluster(folder, database, transport)
        made.migrate()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(params=CONTAINERS, ids=str)
def container(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Process]:
    """A container that serves."""
    cluster.port = free_port()
    cluster.url = f"http://{HOST}:{cluster.port}"
    make: Callable[[Cluster, Path], list[str]] = CONTAINERS[request.param]
    config = cluster.config("container", {})
    name = re.sub(r"\W+", "-", request.param)
    # As a module of Python, uWSGI comes too late to set the environment of its sample.
    env = {"OS_IRONIC_RS_CONFIG_FILES": str(config)} if request.param == "uwsgi" else {}
    process = Process(name, make(cluster, config), cluster.folder, env)
    process.start()
    try:
        cluster.wait_api(process)
        if "cond-a" not in cluster.processes:
            # It serves all containers; that it is there, the first of them tells.
            cluster.start_conductor("cond-a")
        yield process
    finally:
        process.kill()


def served_by(process: Process) -> set[int]:
    """Return the processes that have a line about a request in the log."""
    workers = {child.pid for child in psutil.Process(process.pid).children(recursive=True)}
    text = process.text()
    return {pid for pid in workers if re.search(rf" {pid} .*ironic_rs.api.requests", text)}


def test_requests_go_through_all_processes_and_threads(
    container: Process, cluster: Cluster
) -> None:
    name = f"n-{container.name}"
    created = requests.post(
        f"{cluster.url}/v1/nodes",
        json={"driver": "fake-hardware", "name": name},
        headers=HEADERS,
        timeout=60,
    )
    assert created.status_code == 201, created.text
    url = f"{cluster.url}/v1/nodes/{name}"

    def patch(place: int) -> int:
        body = [{"op": "add", "path": f"/extra/k{place}", "value": place}]
        return requests.patch(url, json=body, headers=HEADERS, timeout=60).status_code

    with ThreadPoolExecutor(PROCESSES * THREADS) as pool:
        answers = Counter(pool.map(patch, range(24)))
        reads = Counter(
            pool.map(
                lambda _: requests.get(url, headers=HEADERS, timeout=60).status_code, range(60)
            )
        )
    assert set(answers) <= {200, 409}
    assert reads == {200: 60}
    stored = requests.get(url, headers=HEADERS, timeout=60).json()["extra"]
    assert len(stored) == answers[200] > 0
    wait_until(lambda: len(served_by(container)) == PROCESSES, "all processes have served")
    power = requests.put(
        f"{url}/states/power", json={"target": "power on"}, headers=HEADERS, timeout=60
    )
    assert power.status_code == 202, power.text


def test_bodies_without_a_length_and_errors_come_as_elsewhere(
    container: Process, cluster: Cluster
) -> None:
    chunked = requests.post(
        f"{cluster.url}/v1/chassis",
        data=iter([b'{"description": ', b'"in chunks"}']),
        headers={**HEADERS, "Content-Type": "application/json"},
        timeout=60,
    )
    if container.name == "uwsgi":
        # It does not put chunks together: refused, not taken for an empty body.
        assert (chunked.status_code, chunked.json()["errorcode"]) == (411, "length_required")
    else:
        assert (chunked.status_code, chunked.json()["description"]) == (201, "in chunks")
    missing = requests.get(f"{cluster.url}/v1/nodes/nosuch", headers=HEADERS, timeout=60)
    assert missing.headers["X-OpenStack-Ironic-Error-Code"] == "node_not_found"
    large = requests.post(
        f"{cluster.url}/v1/nodes", data=b"x" * (1024 * 1024 + 1), headers=HEADERS, timeout=60
    )
    assert large.status_code == 413


def test_a_container_stops_in_order(container: Process, cluster: Cluster) -> None:
    assert container.popen is not None
    children = psutil.Process(container.pid).children(recursive=True)
    container.signal(signal.SIGTERM)
    assert container.wait(60) == 0
    assert not any(child.is_running() for child in children)


def test_a_bad_configuration_ends_the_start_of_gunicorn(cluster: Cluster, tmp_path: Path) -> None:
    cluster.port = free_port()
    bad = tmp_path / "bad.conf"
    bad.write_text("[api]\nport = nonsense\n")
    shutil.copy(ETC / "gunicorn.conf.py", tmp_path)
    done = subprocess.run(
        gunicorn(cluster, bad), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "nonsense" in done.stderr
