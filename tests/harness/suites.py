"""Test suites that other projects have released, run against the product as they are.

Nothing of them is kept here: a suite comes from the package index at test time, into a
virtual environment of its own that is kept between runs, in the user's cache.
"""

from __future__ import annotations

import contextlib
import csv
import fcntl
import fnmatch
import hashlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.harness.servers import missing

#: What pip says when it does not get to the index.
_UNREACHABLE = (
    "Failed to establish a new connection",
    "Connection refused",
    "Connection reset",
    "ConnectTimeout",
    "Read timed out",
    "Name or service not known",
    "Temporary failure in name resolution",
)


def cache() -> Path:
    """The folder of environments and released archives (``SUITES_CACHE`` names another)."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(os.environ.get("SUITES_CACHE") or base / "ironic-rs-suites")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Environment:
    """A virtual environment with exactly the packages of a requirements file.

    The folder is named after the file's content and the Python version, so that
    other versions never share one.

    :param requirements: every package with its version; nothing else gets installed.
    """

    def __init__(self, requirements: Path) -> None:
        self.requirements = requirements
        python = ".".join(str(part) for part in sys.version_info[:3])
        key = hashlib.sha256(requirements.read_bytes() + python.encode()).hexdigest()[:12]
        self.folder = cache() / f"{requirements.stem}-{key}"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def packages(self) -> Path:
        """The folder that holds the installed packages."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def make(self) -> Environment:
        """Install what is missing; skip the test when the index can not be reached."""
        done = self.folder / "installed"
        with _locked(self.folder.with_suffix(".lock")):
            if done.exists():
                return self
            shutil.rmtree(self.folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", str(self.folder)], check=True)
            self._pip("install", "--no-deps", "--requirement", str(self.requirements))
            done.touch()
        return self

    def sdist(self, name: str, version: str) -> Path:
        """Return the unpacked source archive of a released package."""
        folder = cache() / f"{name}-{version}"
        with _locked(folder.with_suffix(".lock")):
            if folder.exists():
                return folder
            wanted = ["--no-deps", "--no-binary", ":all:", f"{name}=={version}"]
            fresh = folder.with_suffix(".new")
            shutil.rmtree(fresh, ignore_errors=True)
            self._pip("download", "--dest", str(fresh), *wanted)
            [archive] = fresh.glob("*.tar.gz")
            with tarfile.open(archive) as tar:
                tar.extractall(fresh, filter="data")
            (fresh / archive.name.removesuffix(".tar.gz")).rename(folder)
            shutil.rmtree(fresh)
        return folder

    def _pip(self, *args: str) -> None:
        command = [str(self.bin / "python"), "-m", "pip", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, *args],
            capture_output=True,
            text=True,
            check=False,
            env=environ({}),
        )
        said = done.stdout + done.stderr
        if done.returncode and any(word in said for word in _UNREACHABLE):
            missing(f"the package index can not be reached for {self.requirements.name}")
        assert done.returncode == 0, f"pip {' '.join(args)}\n{said[-4000:]}"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time; others may share the cache."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def environ(more: Mapping[str, str]) -> dict[str, str]:
    """Environment variables without those that choose packages or clouds."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OS_", "PYTHON", "OPENSTACKSDK_", "PYTEST_"))
    }
    return {**kept, **more}


@dataclass(frozen=True)
class Results:
    """What became of the tests of a suite: name -> success, fail, error, skip, xfail."""

    statuses: Mapping[str, str]
    seconds: float
    log: str

    def summary(self, title: str) -> str:
        """One line with the totals."""
        counts = Counter(self.statuses.values())
        parts = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        return f"{title}: {len(self.statuses)} tests in {self.seconds:.0f} s: {parts}"

    def check(self, total: int, different: Mapping[str, str] | None = None) -> None:
        """Fail unless all tests ran and none but the named ones did not pass.

        :param different: name or pattern of tests -> why they do not pass.
        """
        failed = {name for name, status in self.statuses.items() if status != "success"}
        named = {pattern: fnmatch.filter(failed, pattern) for pattern in different or {}}
        rest = failed - {name for names in named.values() for name in names}
        wrong = [f"{self.statuses[name]}: {name}" for name in sorted(rest)]
        wrong += [
            f"no longer different: {pattern}" for pattern, names in named.items() if not names
        ]
        if len(self.statuses) != total:
            wrong.append(f"{len(self.statuses)} tests were run, not {total}")
        if wrong:
            pytest.fail("\n".join([*wrong, "", self.log[-20000:]]), pytrace=False)


def stestr(
    environment: Environment,
    folder: Path,
    tests: Path,
    top: Path,
    env: Mapping[str, str],
    workers: int,
    timeout: float,
) -> Results:
    """Run the tests below ``tests`` in parallel, each class in one process.

    :param folder: the working directory; the log of the run is left there.
    :param top: the folder that module names start from.
    :param timeout: seconds for the whole run, a bound for a hanging one.
    """
    # A home of its own: nothing of the user's configuration counts.
    full = environ({"HOME": str(folder), "OS_TEST_TIMEOUT": "600", **env})
    command = [str(environment.bin / "stestr"), "--parallel-class"]
    command += ["--test-path", str(tests), "--top-dir", str(top)]
    begin = time.monotonic()
    log = folder / "suite.log"
    with log.open("w") as out:
        run = subprocess.Popen(
            [*command, "run", "--concurrency", str(workers)],
            cwd=folder,
            env=full,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            run.wait(timeout)
        except subprocess.TimeoutExpired:
            pytest.fail(f"no end after {timeout:.0f} s\n{log.read_text()[-20000:]}", pytrace=False)
        finally:
            # The workers too; they are gone when all went well.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
    seconds = time.monotonic() - begin
    stream = subprocess.run(
        [*command, "last", "--subunit"], cwd=folder, env=full, capture_output=True, check=False
    ).stdout
    table = subprocess.run(
        [str(environment.bin / "subunit2csv")],
        input=stream,
        env=full,
        capture_output=True,
        check=False,
    ).stdout.decode()
    rows = csv.DictReader(io.StringIO(table))
    statuses = {row["test"]: row["status"] for row in rows}
    return Results(statuses, seconds, log.read_text(errors="replace"))
