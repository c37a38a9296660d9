"""A conductor with the redfish driver, without periodic work, and nodes on scripted BMCs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.domain import states
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.drivers.redfish import sessions
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from tests.harness.bmc import SYSTEM, Bmc
from tests.harness.database import database, empty_schema
from tests.harness.servers import wait_until

__all__ = ["database", "empty_schema"]


@pytest.fixture
def conductor(database: str) -> Iterator[Conductor]:
    """A conductor with the redfish driver and short deadlines, without periodic work."""
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("enabled_hardware_types", ["redfish"])
    enabled = {
        "boot": "redfish-virtual-media",
        "deploy": "direct",
        "management": "redfish",
        "power": "redfish",
        "inspect": "agent",
        "network": "noop",
        "rescue": "agent",
        "storage": "noop",
    }
    for kind in INTERFACE_TYPES:
        CONF.set_override(f"enabled_{kind}_interfaces", [enabled.get(kind, f"no-{kind}")])
    options: dict[str, dict[str, Any]] = {
        "redfish": {
            "connection_attempts": 2,
            "connection_retry_interval": 1,
            "vmedia_insert_timeout": 1,
            "vmedia_insert_poll_interval": 1,
        },
        "conductor": {"power_state_change_timeout": 2, "power_state_sync_max_retries": 1},
    }
    for group, values in options.items():
        for name, value in values.items():
            CONF.set_override(name, value, group)
    made = Conductor("host-1", DirectTransport())
    made.drivers.load()
    made._register()
    made.ring.reset()
    yield made
    made.workers.close()
    assert made.workers.wait(30)
    sessions.close_all()
    CONF.reset()
    CONF.clear()


@pytest.fixture
def bmc() -> Iterator[Bmc]:
    made = Bmc()
    yield made
    made.close()


@pytest.fixture
def enrol(conductor: Conductor) -> Callable[..., models.Node]:
    """Store a node on a BMC; keywords go into its driver_info."""

    def make(bmc: Bmc, **info: Any) -> models.Node:
        driver_info = {"redfish_address": bmc.address, "redfish_system_id": SYSTEM, **info}
        if bmc.auth != "none":
            driver_info |= {"redfish_username": bmc.username, "redfish_password": bmc.password}
        return nodes.create(
            {
                "driver": "redfish",
                "provision_state": states.AVAILABLE,
                "power_state": states.POWER_OFF,
                "driver_info": driver_info,
                **{
                    f"{kind}_interface": CONF[f"enabled_{kind}_interfaces"][0]
                    for kind in INTERFACE_TYPES
                },
            }
        )

    return make


@pytest.fixture
def run(conductor: Conductor) -> Callable[..., models.Node]:
    """Call as the API does, and return the node when its worker has been freed."""

    def call(node: models.Node, method: str, **arguments: Any) -> models.Node:
        wire = json.loads(json.dumps({"node_id": node.uuid, **arguments}))
        conductor.registry.dispatch(method, admin_context(), wire)
        pools = [pool for pool in (conductor.workers.normal, conductor.workers.reserved) if pool]
        wait_until(lambda: not any(pool.busy for pool in pools), "the worker is free")
        stored = nodes.get(node.uuid)
        assert stored.reservation is None
        assert stored.target_power_state is None
        return stored

    return call
