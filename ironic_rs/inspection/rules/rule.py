"""A rule, as the engine sees it, and what goes wrong with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class RuleError(Exception):
    """A condition can not be judged, or an action can not be done."""


@dataclass(frozen=True)
class Rule:
    """A rule of the database or of the built-in file.

    :param sensitive: nothing of what it holds may be told.
    """

    uuid: str
    priority: int
    phase: str
    sensitive: bool
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]
