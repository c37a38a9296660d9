"""What the periodic tasks of a conductor cost the database while nothing happens."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.periodics import tasks as periodic_tasks
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import session
from ironic_rs.domain import states
from tests.unit.conductor.bulk import insert_nodes

#: SQL statements of one run over 1,000 nodes that need nothing.
COSTS = {
    "_clean_up_caches": 0,
    # Which nodes, and their records.
    "_sync_power_states": 2,
    "_power_failure_recovery": 1,
    "_check_deploy_timeouts": 1,
    "_check_cleanwait_timeouts": 1,
    "_check_rescuewait_timeouts": 1,
    "_check_servicewait_timeouts": 1,
    "_check_inspect_wait_timeouts": 1,
    # Dead conductors, own locks, nodes in a transient state.
    "_check_orphan_nodes": 3,
    "_sync_local_state": 1,
    "_check_orphan_allocations": 1,
    "manage_node_history": 1,
    "cleanup_stale_conductors": 1,
    "_send_sensor_data": 0,
    "_check_time_in_state": 1,
}


@pytest.fixture
def quiet(conductor: Conductor) -> Conductor:
    """A conductor of 1,000 nodes, a third of them in use, all as they should be."""
    CONF.set_override("hash_ring_reset_interval", 3600)
    insert_nodes(
        {
            "driver": "fake-hardware",
            "provision_state": states.ACTIVE if number % 3 == 0 else states.AVAILABLE,
            "power_state": states.POWER_ON if number % 3 == 0 else states.POWER_OFF,
            "conductor_affinity": conductor.conductor_id,
            "maintenance": False,
            "health": "OK",
        }
        for number in range(1000)
    )
    # First contact: what the machines tell is recorded once.
    for task in periodic_tasks.of_conductor():
        task.run(conductor)
    return conductor


def test_statements_of_each_periodic_over_1000_unchanged_nodes(quiet: Conductor) -> None:
    found = {}
    for task in periodic_tasks.of_conductor():
        with session.count_statements() as seen:
            task.run(quiet)
        found[task.name] = seen.count
    assert found == COSTS


def test_no_periodic_asks_the_ring_more_than_its_cache_knows(
    quiet: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hashes(*args: object, **kwargs: object) -> None:
        raise AssertionError("a node is hashed again")

    monkeypatch.setattr("tooz.hashring.HashRing.get_nodes", hashes)
    for task in periodic_tasks.of_conductor():
        task.run(quiet)
