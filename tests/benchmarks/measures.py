"""What the benchmarks measure with: CPU and memory of a process, round trips of a database."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pymysql

from tests.harness.servers import HOST


class Measured:
    """A process and what it used."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    def cpu(self) -> float:
        """Return the seconds of CPU so far, user and system."""
        times = self._process.cpu_times()
        return float(times.user + times.system)

    def peak(self) -> int:
        """Return the largest resident size so far, in MiB."""
        return self._status("VmHWM") // 1024

    def resident(self) -> int:
        """Return the resident size now, in MiB."""
        return self._status("VmRSS") // 1024

    def threads(self) -> int:
        """Return the number of threads now."""
        return int(self._process.num_threads())

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0])


class Statements:
    """Counts what a MariaDB server of its own was asked.

    Each message of a client that is answered is one round trip: a statement, and
    ``COMMIT`` and ``ROLLBACK``.  ``BEGIN`` is not sent by the product: a connection
    that is not in autocommit begins with its first statement.
    """

    def __init__(self, port: int) -> None:
        self._connection = pymysql.connect(host=HOST, port=port, user="root", autocommit=True)
        self._own = 0

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement that is not counted; return its rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            self._own += 1
            return list(cursor.fetchall())

    def total(self) -> int:
        """Return the round trips of the others so far."""
        ((_, value),) = self.ask("SHOW GLOBAL STATUS LIKE 'Questions'")
        return int(value) - self._own

    def rest(self, seconds: float) -> float:
        """Return the round trips per second of services that have nothing to do."""
        before = self.total()
        time.sleep(seconds)
        return (self.total() - before) / seconds

    def of(self, action: Callable[[], Any], repeat: int, idle: float) -> float:
        """Return the round trips of one call of the action, without those at rest."""
        before, started = self.total(), time.monotonic()
        for _ in range(repeat):
            action()
        took = time.monotonic() - started
        return (self.total() - before - idle * took) / repeat


def show(*cells: Any) -> None:
    """Print a row of a table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells: Any) -> None:
    """Print the head of a table."""
    show(*cells)
    show(*["---"] * len(cells))
