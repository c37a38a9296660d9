"""What a machine has been asked, counted for tests and load figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


class Counters:
    """Counts of one machine, by name.

    Names in use: ``bmc.requests``, ``bmc.connections``, ``bmc.sessions``,
    ``bmc.basic_auth``, ``bmc.denied``, ``bmc.faults``, ``bmc.reset.<type>``,
    ``bmc.insert``, ``bmc.eject``; ``agent.boots``, ``agent.lookups``,
    ``agent.heartbeats``, ``agent.requests``, ``agent.command.<name>``,
    ``agent.step.<interface>.<step>``; ``machine.boots``.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.bmc_paths: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        self.counts[name] += amount

    def reset(self) -> None:
        """Start anew; connections and sessions that are open stay open."""
        self.counts.clear()
        self.bmc_paths.clear()

    def to_json(self) -> dict[str, Any]:
        """``{"counts": {name: n}, "bmc_paths": {"METHOD /path": n}}``."""
        return {
            "counts": dict(sorted(self.counts.items())),
            "bmc_paths": dict(sorted(self.bmc_paths.items())),
        }


def total(all_counters: Iterable[Counters]) -> dict[str, int]:
    """Sum of the counts of several machines."""
    result: Counter[str] = Counter()
    for counters in all_counters:
        result.update(counters.counts)
    return dict(sorted(result.items()))
