"""The built wheel works in an empty environment, from any directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import servers

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build sdist and, from it, the wheel."""
    place = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "build", "--outdir", str(place), str(ROOT)])
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment; return its directory of programs."""
    place = tmp_path_factory.mktemp("venv")
    run([sys.executable, "-m", "venv", str(place)])
    pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    run([*pip, "--constraint", str(ROOT / "constraints.txt"), str(wheel)])
    return place / "bin"


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a home of its own, without any configuration file."""
    settings = {
        "ENABLED_BOOT_INTERFACES": "fake",
        "ENABLED_HARDWARE_TYPES": "fake-hardware",
        "STATE_PATH": str(tmp_path),
    }
    for kind in ("BIOS", "CONSOLE", "FIRMWARE", "INSPECT", "RAID", "RESCUE", "VENDOR"):
        settings[f"ENABLED_{kind}_INTERFACES"] = f"no-{kind.lower()}"
    for kind in ("DEPLOY", "MANAGEMENT", "POWER"):
        settings[f"ENABLED_{kind}_INTERFACES"] = "fake"
    for kind in ("NETWORK", "STORAGE"):
        settings[f"ENABLED_{kind}_INTERFACES"] = "noop"
    return {
        "HOME": str(tmp_path),
        "OS_API__PORT": str(servers.free_port()),
        "PATH": os.environ["PATH"],
        **{f"OS_DEFAULT__{name}": value for name, value in settings.items()},
    }


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture
def service(programs: Path, elsewhere: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """Run ironic-rs on a new database; yield the URL of its API."""
    run([str(programs / "ironic-rs-dbsync"), "upgrade"], env=elsewhere, cwd="/")
    log = tmp_path / "ironic-rs.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(programs / "ironic-rs")], env=elsewhere, cwd="/", stdout=out, stderr=out
        )
    try:
        port = int(elsewhere["OS_API__PORT"])
        servers.wait_until(
            lambda: servers.listens(port) or process.poll() is not None, "the API listens"
        )
        assert process.poll() is None, log.read_text()
        yield f"http://{servers.HOST}:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 0, log.read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def ask(url: str, method: str = "GET", body: object = None) -> tuple[int, object]:
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "X-OpenStack-Ironic-API-Version": "latest"},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_wheel_holds_the_migrations_and_all_data(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tracked = run(["git", "-C", str(ROOT), "ls-files", "ironic_rs", "alembic"]).split()
    wanted = {name if name.startswith("ironic_rs") else f"ironic_rs/{name}" for name in tracked}
    assert wanted - names == set()
    assert any(name.startswith("ironic_rs/alembic/versions/") for name in names)
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    assert any(
        name.endswith("data/share/ironic-rs/etc/systemd/ironic-rs.service") for name in names
    )


def test_nothing_but_the_package_is_put_into_site_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.startswith("ironic_rs-")} == {"ironic_rs"}


def test_every_console_script_tells_its_version(programs, elsewhere):
    for name in ("", "-api", "-conductor", "-dbsync", "-status"):
        assert run(
            [str(programs / f"ironic-rs{name}"), "--version"], env=elsewhere, cwd="/"
        ).strip()


def test_dbsync_and_the_service_work_from_any_directory(service):
    status, _ = ask(f"{service}/v1/nodes", "POST", {"driver": "fake-hardware", "name": "n"})
    assert status == 201
    status, body = ask(f"{service}/v1/nodes/n")
    assert (status, body["provision_state"]) == (200, "enroll")
