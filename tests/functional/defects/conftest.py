"""The site of each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.api import app
from ironic_rs.rpc.direct import DirectTransport
from tests.functional.api.conftest import configured, empty_database, services_over
from tests.functional.api.harness import Client
from tests.functional.defects.site import HOST, WAIT, Site, scripted
from tests.harness.scripted import Kit
from tests.unit.drivers.agent_server import AgentServer

__all__ = ["empty_database"]


@pytest.fixture
def conf(empty_database: Path, tmp_path: Path) -> Iterator[Any]:
    """The configuration; a test may override options before it asks for ``site``."""
    with configured(empty_database, tmp_path) as found:
        found.set_override("require_tls", False, group="agent")
        found.set_override("hash_ring_reset_interval", 0)
        found.set_override("node_locked_retry_interval", 1, group="conductor")
        # Few threads: some tests keep all of them busy.
        found.set_override("workers_pool_size", 40, group="conductor")
        yield found


@pytest.fixture
def transport() -> DirectTransport:
    return DirectTransport()


@pytest.fixture
def site(conf: Any, transport: DirectTransport) -> Iterator[Site]:
    """The API and a conductor that answers; it runs periodic tasks only when told to."""
    kit = Kit()
    conductor = scripted(HOST, transport, kit)
    conductor.drivers.load()
    server = transport.serve(HOST, conductor.registry)
    server.start()
    conductor._register(first=True)
    try:
        yield Site(Client(app.build(services_over(conf, transport))), conductor, kit)
    finally:
        server.stop()
        assert server.wait(WAIT)
        conductor.workers.close()
        assert conductor.workers.wait(WAIT)


@pytest.fixture
def agent(conf: Any, empty_database: Path) -> Iterator[AgentServer]:
    """A ramdisk; the site that is asked for later has its deploy interface."""
    conf.set_override("enabled_deploy_interfaces", ["fake", "noop", "custom-agent"])
    conf.set_override("command_wait_interval", 0, group="agent")
    with AgentServer().running() as server:
        yield server


@pytest.fixture
def site_with_agent(agent: AgentServer, site: Site) -> tuple[Site, AgentServer]:
    return site, agent
