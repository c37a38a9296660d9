"""A database, and a node in it that is being inspected."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import nodes
from ironic_rs.domain import states
from tests.harness.database import database, empty_schema  # noqa: F401


@pytest.fixture
def config(database: str) -> Iterator[Callable[..., None]]:  # noqa: F811
    """Override options: ``config("group", name=value)``."""
    overridden: list[tuple[str, str | None]] = []

    def override(group: str | None = None, **options: Any) -> None:
        for name, value in options.items():
            CONF.set_override(name, value, group)
            overridden.append((name, group))

    yield override
    for name, group in overridden:
        CONF.clear_override(name, group)


@pytest.fixture
def task(config: Callable[..., None]) -> SimpleNamespace:
    """What hooks see of a task."""
    node = nodes.create({"driver": "redfish", "provision_state": states.INSPECTING})
    reserved = nodes.reserve(node.id, "conductor-1")
    return SimpleNamespace(
        node=reserved, save=lambda: nodes.save(reserved, fence=reserved.reservation)
    )
