"""Live progress of a run: a table on a terminal, lines elsewhere."""

from __future__ import annotations

import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.table import Table

from ironic_rs.sandbox.lifecycle.client import NodeView

# More machines than this are shown as sums.
_ROWS = 40
_SUM_INTERVAL = 2.0
_BUSY = "yellow"
_STYLES = {"active": "bold green", "available": "green", "manageable": "cyan", "enroll": "dim"}


@dataclass(frozen=True)
class StageTiming:
    """How long a stage took, in seconds: in all, and until each node was there."""

    name: str
    total: float
    nodes: Sequence[float]


class Progress(Protocol):
    """Where a run reports to."""

    def __enter__(self) -> Progress: ...

    def __exit__(self, *_exc: object) -> None: ...

    def stage(self, name: str) -> None:
        """A stage begins."""

    def update(self, nodes: Mapping[str, NodeView], software: Mapping[str, str]) -> None:
        """New states; ``software`` is what the machines run, by name."""

    def note(self, text: str) -> None:
        """A line for the reader."""

    def timings(self, stages: Sequence[StageTiming]) -> None:
        """The figures at the end."""


class Lines:
    """One line for each change (for sums, when there are many machines)."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout
        self._begin = time.monotonic()
        self._states: dict[str, str] = {}
        self._shown: Counter[str] = Counter()
        self._next_sum = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._sums(force=True)

    def stage(self, name: str) -> None:
        self._sums(force=True)
        self._print(f"== {name}")

    def update(self, nodes: Mapping[str, NodeView], software: Mapping[str, str]) -> None:
        for name in sorted(nodes):
            state, old = nodes[name].state, self._states.get(name)
            if state != old:
                self._states[name] = state
                if len(nodes) <= _ROWS:
                    self._print(f"{name}: {old} -> {state}" if old else f"{name}: {state}")
        self._sums(force=False)

    def note(self, text: str) -> None:
        self._print(text)

    def timings(self, stages: Sequence[StageTiming]) -> None:
        self._sums(force=True)
        for line in timing_lines(stages):
            print(line, file=self._stream, flush=True)

    def _sums(self, *, force: bool) -> None:
        now = time.monotonic()
        counted = Counter(self._states.values())
        if len(self._states) <= _ROWS or counted == self._shown:
            return
        if force or now >= self._next_sum:
            self._next_sum = now + _SUM_INTERVAL
            self._shown = counted
            self._print(", ".join(f"{state} {count}" for state, count in sorted(counted.items())))

    def _print(self, text: str) -> None:
        elapsed = time.monotonic() - self._begin
        print(f"{elapsed:7.1f}s  {text}", file=self._stream, flush=True)


class LiveTable:
    """A table that updates in place."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        self._begin = time.monotonic()
        self._stage = ""
        self._nodes: Mapping[str, NodeView] = {}
        self._software: Mapping[str, str] = {}
        self._since: dict[str, tuple[str, float]] = {}
        self._live = Live(get_renderable=self._render, console=self._console, refresh_per_second=8)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._live.stop()

    def stage(self, name: str) -> None:
        self._stage = name

    def update(self, nodes: Mapping[str, NodeView], software: Mapping[str, str]) -> None:
        self._nodes, self._software = nodes, software
        now = time.monotonic()
        for name, node in nodes.items():
            if self._since.get(name, ("", 0.0))[0] != node.state:
                self._since[name] = (node.state, now)

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False)

    def timings(self, stages: Sequence[StageTiming]) -> None:
        for line in timing_lines(stages):
            self._console.print(line, highlight=False)

    def _render(self) -> Table:
        elapsed = time.monotonic() - self._begin
        table = Table(title=f"{self._stage}   {elapsed:.0f} s", title_justify="left", expand=False)
        if len(self._nodes) > _ROWS:
            self._fill_sums(table)
        else:
            self._fill_rows(table)
        return table

    def _fill_rows(self, table: Table) -> None:
        for column in ("machine", "provision state", "target", "power", "runs", "since"):
            table.add_column(column, justify="right" if column == "since" else "left")
        now = time.monotonic()
        for name in sorted(self._nodes):
            node = self._nodes[name]
            table.add_row(
                name,
                f"[{_style(node.state)}]{node.state}",
                node.target or "",
                node.power or "",
                self._software.get(name, ""),
                f"{now - self._since[name][1]:.0f} s",
            )

    def _fill_sums(self, table: Table) -> None:
        table.add_column("provision state")
        table.add_column("machines", justify="right")
        for state, count in sorted(Counter(node.state for node in self._nodes.values()).items()):
            table.add_row(f"[{_style(state)}]{state}", str(count))


def _style(state: str) -> str:
    if state.endswith("failed") or state == "error":
        return "bold red"
    return _STYLES.get(state, _BUSY)


def timing_lines(stages: Sequence[StageTiming]) -> list[str]:
    """The timings as a text table: seconds in all, and of the nodes."""
    lines = [f"{'stage':<12}{'in all':>9}{'first':>9}{'median':>9}{'last':>9}   seconds"]
    for stage in stages:
        row = f"{stage.name:<12}{stage.total:>9.1f}"
        if stage.nodes:
            median = statistics.median(stage.nodes)
            row += f"{min(stage.nodes):>9.1f}{median:>9.1f}{max(stage.nodes):>9.1f}"
        lines.append(row)
    lines.append(f"{'sum':<12}{sum(stage.total for stage in stages):>9.1f}")
    return lines


def choose(plain: bool) -> Progress:
    """The table if standard output is a terminal and lines are not asked for."""
    if plain or not sys.stdout.isatty():
        return Lines()
    return LiveTable()
