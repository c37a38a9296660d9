"""BMCs behind a dead switch among healthy ones (field-cases.md K04/39).

How long things take is measured by tests/benchmarks/black_holes.py; here is what must
hold however slow the host is.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_rs.conductor.periodics.power_sync import PowerSync, recover_power_failures
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.domain import states
from ironic_rs.rpc.context import admin_context
from tests.harness.black_hole import BlackHole
from tests.harness.bmc import SYSTEM, Bmc, Request
from tests.harness.servers import wait_until

pytestmark = pytest.mark.timeout(180)

HEALTHY, DEAD = 12, 4
Run = Callable[..., models.Node]
Enrol = Callable[..., models.Node]


@pytest.fixture
def healthy() -> Iterator[list[Bmc]]:
    made = [Bmc() for _n in range(HEALTHY)]
    yield made
    for bmc in made:
        bmc.close()


@pytest.fixture
def holes() -> Iterator[list[BlackHole]]:
    """Addresses at which nobody answers, not even with a refusal."""
    CONF.set_override("connect_timeout", 1, "redfish")
    CONF.set_override("connection_attempts", 1, "redfish")
    CONF.set_override("power_state_sync_max_retries", 2, "conductor")
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(BlackHole()) for _n in range(DEAD)]


def lost(enrol: Enrol, bmc: Bmc, hole: BlackHole) -> models.Node:
    return enrol(bmc, redfish_address=hole.address)


def asked(bmcs: list[Bmc]) -> list[int]:
    return [len(bmc.asked("GET", f"{SYSTEM}$")) for bmc in bmcs]


def test_39_dead_bmcs_are_a_fault_after_three_cycles_and_probed_slowly_then(
    conductor: Conductor, enrol: Enrol, healthy: list[Bmc], holes: list[BlackHole]
) -> None:
    well = [enrol(bmc) for bmc in healthy]
    dead = [lost(enrol, healthy[0], hole) for hole in holes]
    sync = PowerSync()

    def faults() -> set[tuple[bool, str | None]]:
        return {(n.maintenance, n.fault) for n in (nodes.get(node.uuid) for node in dead)}

    def idle() -> bool:
        return not sync._asked

    for cycle in range(1, 4):
        assert faults() == {(False, None)}
        sync.run(conductor)
        wait_until(idle, "the last of the cycle have given up")
        assert asked(healthy) == [cycle] * HEALTHY, "each healthy one is asked once a cycle"
    assert faults() == {(True, states.FAULT_POWER)}
    for node in dead:
        reason = nodes.get(node.uuid).maintenance_reason or ""
        assert node.uuid in reason
        assert "timed out" in reason

    # From now on only the recovery, at its own slow rate, looks at them.
    sync.run(conductor)
    wait_until(idle, "the cycle is over")
    assert asked(healthy) == [4] * HEALTHY
    assert {nodes.get(node.uuid).fault for node in dead} == {states.FAULT_POWER}
    for hole in holes[1:]:
        hole.open(healthy[0])
    recover_power_failures(conductor)
    assert [nodes.get(node.uuid).fault for node in dead] == [states.FAULT_POWER] + [None] * 3
    assert not any(nodes.get(node.uuid).maintenance for node in well)


def test_39_those_that_hang_keep_nobody_else_waiting(
    conductor: Conductor, enrol: Enrol, healthy: list[Bmc]
) -> None:
    """Each of the healthy is asked, and served, while every one of the others still hangs."""
    over = threading.Event()
    hung = [Bmc() for _n in range(DEAD)]

    def hang(_request: Request) -> None:
        over.wait(60)

    for bmc in hung:
        bmc.script("GET", "", hang)
        enrol(bmc)
    well = [enrol(bmc) for bmc in healthy]
    sync = PowerSync()
    cycles = threading.Thread(target=lambda: [sync.run(conductor) for _cycle in range(2)])
    cycles.start()
    wait_until(lambda: min(asked(healthy)) >= 1, "all healthy ones are asked")
    assert not over.is_set()
    wait_until(lambda: min(asked(healthy)) >= 2, "and in the next cycle as well")
    wanted = {"node_id": well[0].uuid, "new_state": states.POWER_ON}
    conductor.registry.dispatch("change_node_power_state", admin_context(), wanted)

    def served() -> bool:
        node = nodes.get(well[0].uuid)
        return (node.power_state, node.reservation) == (states.POWER_ON, None)

    wait_until(served, "a user is served")
    assert nodes.get(well[0].uuid).last_error is None
    assert not over.is_set()
    assert sum(len(bmc.requests) for bmc in hung) >= DEAD
    assert {nodes.get(node.uuid).fault for node in well} == {None}
    over.set()
    cycles.join(120)
    assert not cycles.is_alive()
    for bmc in hung:
        bmc.close()


@pytest.mark.parametrize("option", ["connect_timeout", "read_timeout"])
def test_39_connecting_and_reading_have_time_outs_of_their_own(
    conductor: Conductor, enrol: Enrol, run: Run, bmc: Bmc, option: str
) -> None:
    """The one that is short ends what hangs; the other would take an hour."""
    CONF.set_override("connection_attempts", 1, "redfish")
    for name in ("connect_timeout", "read_timeout"):
        CONF.set_override(name, 1 if name == option else 3600, "redfish")
    over = threading.Event()
    bmc.script("GET", SYSTEM, lambda _request: over.wait(60) and None)
    with BlackHole() as hole:
        info: dict[str, Any] = {"redfish_address": hole.address} if option[0] == "c" else {}
        node = run(enrol(bmc, **info), "change_node_power_state", new_state=states.POWER_ON)
    over.set()
    assert "timed out" in (node.last_error or "")
    assert node.uuid in (node.last_error or "")
