"""Fixtures of the driver tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conf import CONF
from tests.unit.drivers.agent_server import AgentServer, make_certificate


@pytest.fixture
def config() -> Iterator[Callable[..., None]]:
    """Override options: ``config("group", name=value)``."""
    CONF([], default_config_files=[], default_config_dirs=[])
    overridden: list[tuple[str, str | None]] = []

    def override(group: str | None = None, **options: Any) -> None:
        for name, value in options.items():
            CONF.set_override(name, value, group)
            overridden.append((name, group))

    yield override
    for name, group in overridden:
        CONF.clear_override(name, group)


@pytest.fixture
def agent(config: Callable[..., None]) -> Iterator[AgentServer]:
    """An agent over HTTP, and options that make waiting short."""
    config(
        "agent",
        command_wait_interval=0,
        post_deploy_get_power_state_retry_interval=0,
        command_timeout=20,
    )
    with AgentServer().running() as server:
        yield server


@pytest.fixture
def tls_agent(config: Callable[..., None], tmp_path: Path) -> Iterator[tuple[AgentServer, Path]]:
    """An agent over HTTPS, with its certificate."""
    certificate = make_certificate(tmp_path)
    with AgentServer(certificate, tls=True).running() as server:
        yield server, certificate
