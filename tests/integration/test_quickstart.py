"""The first command of the README: everything in one go, again, kept, and interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.servers import wait_until

ROOT = Path(__file__).resolve().parents[2]


class Quickstart:
    """./quickstart with this virtual environment and a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.env = {
            **os.environ,
            "VENV": sys.prefix,
            "QUICKSTART_DIR": str(directory),
        }

    def start(self, *arguments: str, output: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        """In a process group of its own, as a shell with job control starts it."""
        program = [str(ROOT / "quickstart"), "--no-install", "--machines", "2", "--plain"]
        return subprocess.Popen(
            # Tests that run in the background of a shell ignore SIGINT, and so would children.
            ["env", "--default-signal=INT", *program, *arguments],
            env=self.env,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        text, _ = process.communicate(timeout=500)
        assert process.returncode == 0, text[-4000:]
        return text

    def processes(self) -> list[str]:
        """Command lines of everything that still runs for it."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if str(self.directory) in line:
                    found.append(line)
        return found

    def locks(self) -> list[Any]:
        database = sqlite3.connect(self.directory / "state" / "ironic.sqlite")
        with contextlib.closing(database):
            query = "SELECT name FROM nodes WHERE reservation IS NOT NULL"
            return database.execute(query).fetchall()


@pytest.fixture
def quickstart(tmp_path: Path) -> Iterator[Quickstart]:
    made = Quickstart(tmp_path / "quickstart")
    yield made
    made.run("--stop")


@pytest.mark.timeout(900)
def test_it_can_be_kept_used_again_and_stopped(quickstart: Quickstart) -> None:
    first = quickstart.run("--keep")
    assert "All 2 machines are active at one time" in first
    assert "./quickstart --stop" in first
    assert len(quickstart.processes()) == 2

    second = quickstart.run()
    assert "use the service and the sandbox that run" in second
    assert "All 2 machines are available again" in second

    quickstart.run("--stop")
    assert quickstart.processes() == []
    assert quickstart.locks() == []


@pytest.mark.timeout(900)
def test_it_starts_anew_after_being_interrupted(quickstart: Quickstart, tmp_path: Path) -> None:
    log = tmp_path / "output"
    with log.open("w") as output:
        process = quickstart.start(output=output)
        wait_until(lambda: "-> deploying" in log.read_text(), "a deployment is running", 300)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 130
    assert quickstart.processes() == []
    assert quickstart.locks() == []

    text = quickstart.run()
    assert "All 2 machines are available again" in text
    assert quickstart.processes() == []
    assert quickstart.locks() == []
