"""A node on a real conductor, and a Networking service over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import models, portgroups, ports
from ironic_rs.drivers.network.flat import FlatNetwork
from ironic_rs.drivers.network.neutron import NeutronNetwork
from ironic_rs.integrations import keystone
from tests.harness.networking import NETWORK, Networking
from tests.unit.conductor.flowkit import World, empty_database, world

__all__ = ["empty_database", "world"]

LINK = {"switch_id": "0a:1b:2c:3d:4e:5f", "port_id": "Ethernet3/1"}


@pytest.fixture
def networking(world: World) -> Iterator[Networking]:
    """The service, configured without authentication."""
    with Networking().running() as service:
        for name, value in {
            "auth_type": "none",
            "endpoint_override": service.url,
            "retries": 0,
            "cleaning_network": NETWORK,
            "provisioning_network": NETWORK,
        }.items():
            CONF.set_override(name, value, "neutron")
        yield service
    keystone.adapter.cache_clear()


@pytest.fixture
def flat(world: World, networking: Networking) -> World:
    """A conductor whose nodes have network interface flat."""
    world.kit.interfaces["network"] = FlatNetwork()
    return world


@pytest.fixture
def neutron(world: World, networking: Networking) -> World:
    """A conductor whose nodes have network interface neutron."""
    world.kit.interfaces["network"] = NeutronNetwork()
    return world


@pytest.fixture
def make_port() -> Callable[..., models.Port]:
    """Store ports with consecutive addresses."""
    count = iter(range(1, 250))

    def make(node: models.Node, **values: Any) -> models.Port:
        address = f"52:54:00:00:00:{next(count):02x}"
        return ports.create({"node_id": node.id, "address": address, **values})

    return make


@pytest.fixture
def make_group() -> Callable[..., models.Portgroup]:
    """Store port groups."""

    def make(node: models.Node, **values: Any) -> models.Portgroup:
        return portgroups.create({"node_id": node.id, "mode": "802.3ad", **values})

    return make
