"""A healer for tests of clients: says yes so often, and writes down what it was asked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from ironic_rs.integrations import healing
from ironic_rs.integrations.healing import Partner


class Healer:
    """Allows ``retries`` retries; ``between`` runs in place of each pause."""

    def __init__(self, retries: int, between: Callable[[], object] = lambda: None) -> None:
        self.left = retries
        self.between = between
        self.asked: list[tuple[Partner, str, str]] = []

    def again(self, partner: Partner, what: str, error: str) -> bool:
        """Allow a retry while there are some left."""
        self.asked.append((partner, what, error))
        if self.left <= 0:
            return False
        self.left -= 1
        self.between()
        return True


@contextlib.contextmanager
def healed(retries: int, between: Callable[[], object] = lambda: None) -> Iterator[Healer]:
    """Let calls of the block be made again."""
    healer = Healer(retries, between)
    with healing.by(healer):
        yield healer
