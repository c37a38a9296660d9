"""Power sync: one BMC call a node, no SQL for what did not change, care with the rest."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_rs.conductor.flows import power
from ironic_rs.conductor.periodics import power_sync
from ironic_rs.conductor.periodics.power_sync import (
    POWER_ERRORS,
    PowerSync,
    recover_power_failures,
)
from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers import patience
from ironic_rs.rpc.context import admin_context
from tests.unit.conductor.bulk import insert_nodes

MakeNode = Callable[..., models.Node]
ON, OFF = states.POWER_ON, states.POWER_OFF


class Bmc:
    """Machines by node uuid: a state, or the error that their BMC gives."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.default: Any = ON
        self.reads: Counter[str] = Counter()
        self.actions: list[tuple[str, str]] = []
        self.before_read: Callable[[str], None] = lambda uuid: None
        self._lock = threading.Lock()

    def read(self, task: Task) -> str | None:
        uuid = task.node.uuid
        with self._lock:
            self.reads[uuid] += 1
        self.before_read(uuid)
        state = self.state.get(uuid, self.default)
        if isinstance(state, Exception):
            raise state
        value: str | None = state
        return value

    def change(self, task: Task, state: str, timeout: int | None = None) -> None:
        self.actions.append((task.node.uuid, state))
        self.state[task.node.uuid] = state


@pytest.fixture
def bmc(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> Bmc:
    bmc = Bmc()
    interface = conductor.drivers.enabled("power")["fake"]
    monkeypatch.setattr(interface, "get_power_state", bmc.read)
    monkeypatch.setattr(interface, "set_power_state", bmc.change)
    return bmc


@pytest.fixture
def sync(conductor: Conductor, bmc: Bmc) -> Callable[[], None]:
    """Run one cycle; the same object each time."""
    syncer = PowerSync()
    return lambda: syncer.run(conductor)


def stored(node: models.Node) -> models.Node:
    return nodes.get(node.id)


DEAD = errors.RedfishConnectionError(node="n", error="no route")


def test_a_thousand_unchanged_nodes_take_two_statements_and_one_call_each(
    conductor: Conductor, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
) -> None:
    CONF.set_override("hash_ring_reset_interval", 3600)
    template = make_node(power_state=ON)
    rows = [
        {"driver": "fake-hardware", "provision_state": states.ACTIVE, "power_state": ON}
        for _ in range(999)
    ]
    insert_nodes(rows)
    conductor.ring.host_for("fake-hardware", "", template.uuid)
    with session.count_statements() as seen:
        sync()
    assert seen.count <= 3, seen.statements
    assert len(bmc.reads) == 1000
    assert set(bmc.reads.values()) == {1}


@pytest.mark.parametrize(
    "values",
    [
        {"provision_state": states.ENROLL},
        {"provision_state": states.CLEANWAIT},
        {"provision_state": states.DEPLOYWAIT},
        {"provision_state": states.ADOPTFAIL},
        {"maintenance": True},
        {"target_power_state": OFF},
        {"reservation": "cond-b"},
        {"driver_internal_info": {"redfish_fw_updates": [1]}},
        {"driver_internal_info": {"firmware_updates": [1]}},
    ],
)
def test_nodes_that_power_sync_keeps_away_from(
    bmc: Bmc, sync: Callable[[], None], make_node: MakeNode, values: dict[str, Any]
) -> None:
    node = make_node(**{"state": values.get("provision_state", states.ACTIVE), **values})
    bmc.default = OFF
    sync()
    assert bmc.reads[node.uuid] == 0
    assert stored(node).power_state == ON


def test_children_are_synced(bmc: Bmc, sync: Callable[[], None], make_node: MakeNode) -> None:
    parent = make_node(states.ACTIVE)
    child = make_node(states.ACTIVE, parent_node=parent.uuid)
    sync()
    assert bmc.reads[child.uuid] == 1


def test_first_known_state_is_stored(
    bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
) -> None:
    node = make_node(states.ACTIVE, power_state=None)
    sync()
    assert stored(node).power_state == ON
    assert stored(node).reservation is None
    assert bmc.actions == []


def test_node_without_credentials_is_no_failure(
    conductor: Conductor,
    bmc: Bmc,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = make_node(states.AVAILABLE, power_state=None)

    def validate(task: Task) -> None:
        raise errors.MissingParameterValue(err="redfish_address")

    monkeypatch.setattr(conductor.drivers.enabled("power")["fake"], "validate", validate)
    syncer = PowerSync()
    syncer.run(conductor)
    assert bmc.reads[node.uuid] == 0
    assert syncer.failures == {}


def test_unknown_state_of_a_bmc_that_answers_is_no_failure(
    conductor: Conductor, bmc: Bmc, make_node: MakeNode
) -> None:
    node = make_node(states.ACTIVE)
    bmc.default = None
    syncer = PowerSync()
    for _ in range(6):
        syncer.run(conductor)
    assert syncer.failures == {}
    assert stored(node).power_state == ON
    assert not stored(node).maintenance


def test_machine_is_put_into_the_stored_state(
    bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
) -> None:
    node = make_node(states.ACTIVE)
    bmc.state[node.uuid] = OFF
    sync()
    assert bmc.actions == [(node.uuid, ON)]
    assert stored(node).power_state == ON
    assert stored(node).target_power_state is None
    assert stored(node).reservation is None


@pytest.mark.parametrize("how", ["option", "driver", "node"])
def test_state_of_the_machine_is_recorded_where_it_may_not_be_changed(
    conductor: Conductor,
    bmc: Bmc,
    make_node: MakeNode,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    node = make_node(states.ACTIVE, disable_power_off=how == "node")
    if how == "option":
        CONF.set_override("force_power_state_during_sync", False, group="conductor")
    elif how == "driver":
        interface = conductor.drivers.enabled("power")["fake"]
        monkeypatch.setattr(interface, "supports_power_sync", lambda task: False)
    bmc.state[node.uuid] = OFF
    PowerSync().run(conductor)
    assert bmc.actions == []
    assert stored(node).power_state == OFF


def test_action_that_ended_after_the_reading_is_not_undone(
    conductor: Conductor, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
) -> None:
    """Reading "off", then a user powers on, then power sync takes the lock."""
    node = make_node(states.ACTIVE, power_state=ON)
    bmc.state[node.uuid] = OFF
    real_upgrade = Task.upgrade_lock
    done = []

    def upgrade(task: Task, *args: Any, **kwargs: Any) -> None:
        if not done:
            done.append(1)
            with conductor.tasks.acquire(admin_context(), node.uuid) as other:
                power.node_power_action(other, ON)
        real_upgrade(task, *args, **kwargs)

    Task.upgrade_lock = upgrade  # type: ignore[method-assign]
    try:
        sync()
    finally:
        Task.upgrade_lock = real_upgrade  # type: ignore[method-assign]
    assert bmc.actions == [(node.uuid, ON)], "only the user's"
    assert stored(node).power_state == ON


def test_node_locked_for_the_correction_is_left_to_the_next_cycle(
    bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
) -> None:
    node, other = make_node(states.ACTIVE), make_node(states.ACTIVE)
    bmc.state[node.uuid] = bmc.state[other.uuid] = OFF
    bmc.before_read = lambda uuid: (
        nodes.update(node, {"reservation": "cond-b"}, fence=None) and None
        if uuid == node.uuid
        else None
    )
    sync()
    assert bmc.actions == [(other.uuid, ON)]
    assert stored(node).reservation == "cond-b"


class TestGivingUp:
    def test_fourth_failure_in_a_row_sets_the_fault(
        self, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
    ) -> None:
        node = make_node(states.ACTIVE)
        bmc.default = DEAD
        for _ in range(3):
            sync()
            assert not stored(node).maintenance
        sync()
        after = stored(node)
        assert after.maintenance
        assert after.fault == states.FAULT_POWER
        assert after.power_state is None
        assert after.reservation is None
        assert "no route" in (after.last_error or "")
        assert after.maintenance_reason == after.last_error
        (entry,) = history.select(["event_type", "severity"], {"node_id": node.id})
        assert dict(entry) == {"event_type": "monitoring", "severity": "ERROR"}
        reads = bmc.reads[node.uuid]
        sync()
        assert bmc.reads[node.uuid] == reads, "no longer asked every cycle"

    def test_an_answer_in_between_begins_anew(
        self, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
    ) -> None:
        node = make_node(states.ACTIVE)
        for _ in range(3):
            bmc.default = DEAD
            for _ in range(3):
                sync()
            bmc.default = ON
            sync()
        assert not stored(node).maintenance

    def test_machine_that_cannot_be_set_is_given_up_with_its_real_state(
        self,
        conductor: Conductor,
        bmc: Bmc,
        sync: Callable[[], None],
        make_node: MakeNode,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        node = make_node(states.ACTIVE)
        bmc.state[node.uuid] = OFF

        def refuse(task: Task, state: str, timeout: int | None = None) -> None:
            raise errors.RedfishError(error="refused")

        interface = conductor.drivers.enabled("power")["fake"]
        monkeypatch.setattr(interface, "set_power_state", refuse)
        for _ in range(3):
            sync()
            assert not stored(node).maintenance
        sync()
        after = stored(node)
        assert after.maintenance
        assert after.fault == states.FAULT_POWER
        assert after.power_state == OFF
        assert "expected was 'power on'" in (after.maintenance_reason or "")

    def test_error_state_of_the_bmc_counts_as_failure_and_is_never_stored(
        self, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
    ) -> None:
        node = make_node(states.ACTIVE)
        bmc.default = states.POWER_ERROR
        for _ in range(4):
            sync()
        assert stored(node).fault == states.FAULT_POWER
        assert stored(node).power_state is None

    def test_maintenance_of_an_operator_gets_no_fault(
        self, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
    ) -> None:
        node = make_node(states.ACTIVE)
        bmc.default = DEAD
        for _ in range(3):
            sync()

        def operator(uuid: str) -> None:
            nodes.update(node, {"maintenance": True, "maintenance_reason": "disk swap"}, fence=None)

        bmc.before_read = operator
        sync()
        assert stored(node).fault is None
        assert stored(node).maintenance_reason == "disk swap"

    def test_dead_machines_come_last_where_there_is_one_worker(
        self, conductor: Conductor, bmc: Bmc, make_node: MakeNode
    ) -> None:
        conductor.workers.sync_workers = 1
        dead = [make_node(states.ACTIVE) for _ in range(3)]
        alive = [make_node(states.ACTIVE) for _ in range(3)]
        for node in dead:
            bmc.state[node.uuid] = DEAD
        order: list[str] = []
        bmc.before_read = order.append
        syncer = PowerSync()
        syncer.run(conductor)
        assert order == [node.uuid for node in dead + alive]
        order.clear()
        syncer.run(conductor)
        assert order == [node.uuid for node in alive + dead]


class TestSlowBmcs:
    """A slow or dead BMC delays only itself (W38)."""

    @pytest.fixture
    def gate(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
        """What slow BMCs wait for; a cycle has no patience with them."""
        monkeypatch.setattr(power_sync, "PATIENCE", 0.0)
        gate = threading.Event()
        yield gate
        gate.set()

    def test_a_cycle_ends_without_those_that_do_not_answer_and_the_next_skips_them(
        self, conductor: Conductor, bmc: Bmc, make_node: MakeNode, gate: threading.Event
    ) -> None:
        slow = {make_node(states.ACTIVE).uuid for _ in range(3)}
        quick = [make_node(states.ACTIVE).uuid for _ in range(20)]
        bmc.before_read = lambda uuid: (gate.wait(60) and None) if uuid in slow else None
        conductor.workers.sync_workers = 4
        syncer = PowerSync()
        syncer.run(conductor)
        syncer.run(conductor)
        reads = Counter(bmc.reads)
        gate.set()
        assert conductor.workers.wait(60)
        assert {reads[uuid] for uuid in quick} == {2}
        assert {reads[uuid] for uuid in slow} == {1}
        syncer.run(conductor)
        assert conductor.workers.wait(60)
        assert {bmc.reads[uuid] for uuid in slow} == {2}

    def test_each_cycle_counts_a_dead_one_that_was_still_being_asked_when_it_began(
        self, conductor: Conductor, bmc: Bmc, make_node: MakeNode, gate: threading.Event
    ) -> None:
        """K04/39: a fault after so many cycles, although a look takes longer than one."""
        dead = make_node(states.ACTIVE).uuid
        quick = [make_node(states.ACTIVE).uuid for _ in range(5)]
        bmc.state[dead] = DEAD
        bmc.before_read = lambda uuid: (gate.wait(60) and None) if uuid == dead else None
        conductor.workers.sync_workers = 3
        syncer = PowerSync()
        syncer.run(conductor)
        syncer.run(conductor)
        assert syncer.failures == {}
        gate.set()
        assert conductor.workers.wait(60)
        assert syncer.failures == {dead: 2}
        assert bmc.reads[dead] == 2
        assert {bmc.reads[uuid] for uuid in quick} == {2}

    def test_a_worker_that_is_free_at_last_goes_on_in_the_cycle_that_runs_by_then(
        self,
        conductor: Conductor,
        bmc: Bmc,
        make_node: MakeNode,
        gate: threading.Event,
    ) -> None:
        slow = make_node(states.ACTIVE).uuid
        quick = [make_node(states.ACTIVE).uuid for _ in range(6)]
        held, rest = threading.Event(), threading.Event()

        def read(uuid: str) -> None:
            if uuid == slow:
                gate.wait(60)
            elif bmc.reads[quick[0]] == 2:
                if uuid == quick[0]:
                    held.set()
                    rest.wait(60)
                elif uuid == quick[-1]:
                    rest.set()

        bmc.before_read = read
        conductor.workers.sync_workers = 2
        syncer = PowerSync()
        syncer.run(conductor)
        second = threading.Thread(target=syncer.run, args=(conductor,))
        second.start()
        assert held.wait(60)
        gate.set()
        assert rest.wait(60), "the only worker of the second cycle is held up"
        second.join(60)
        assert conductor.workers.wait(60)
        assert bmc.reads == {slow: 1} | dict.fromkeys(quick, 2)

    def test_known_ones_start_first_and_take_a_quarter_of_the_workers_at_most(
        self,
        conductor: Conductor,
        bmc: Bmc,
        make_node: MakeNode,
        gate: threading.Event,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(power_sync, "PATIENCE", 60.0)
        quick = [make_node(states.ACTIVE).uuid for _ in range(20)]
        slow = [make_node(states.ACTIVE).uuid for _ in range(5)]
        for uuid in slow:
            bmc.state[uuid] = DEAD
        conductor.workers.sync_workers = 8
        syncer = PowerSync()
        syncer.run(conductor)
        order: list[str] = []
        together: list[int] = []

        def read(uuid: str) -> None:
            order.append(uuid)
            if uuid == quick[10]:
                # The eight workers can not have taken all of the others yet.
                together.append(len(set(order) & set(slow)))
            if uuid == quick[-1]:
                gate.set()
            elif uuid in slow:
                gate.wait(60)

        bmc.before_read = read
        syncer.run(conductor)
        assert set(order[:2]) <= set(slow)
        assert together == [2]
        assert sorted(order) == sorted(quick + slow)

    def test_all_hurry_at_first_and_those_that_need_time_get_it_in_the_same_cycle(
        self, conductor: Conductor, bmc: Bmc, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(power_sync, "QUICK_SECONDS", -1.0)
        quick, slow, dead = (make_node(states.ACTIVE).uuid for _ in range(3))
        times: dict[str, list[float]] = {}

        def read(uuid: str) -> None:
            seconds = patience.limit(60.0)
            times.setdefault(uuid, []).append(seconds)
            if uuid == slow and seconds < 30:
                raise DEAD

        bmc.before_read = read
        bmc.state[dead] = DEAD
        conductor.workers.sync_workers = 4
        syncer = PowerSync()
        syncer.run(conductor)
        assert conductor.workers.wait(60)
        assert times == {quick: [10.0], slow: [10.0, 60.0], dead: [10.0, 60.0]}
        assert syncer.failures == {dead: 1}
        times.clear()
        syncer.run(conductor)
        assert conductor.workers.wait(60)
        assert times[dead] == [60.0], "known by now"
        assert syncer.failures == {dead: 2}
        assert patience.limit(60.0) == 60.0

    def test_a_correction_is_given_all_its_time(
        self, conductor: Conductor, bmc: Bmc, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        node = make_node(states.ACTIVE)
        bmc.state[node.uuid] = OFF
        seen: list[float] = []
        change = bmc.change

        def changed(task: Task, state: str, timeout: int | None = None) -> None:
            seen.append(patience.limit(60.0))
            change(task, state, timeout)

        interface = conductor.drivers.enabled("power")["fake"]
        monkeypatch.setattr(interface, "set_power_state", changed)
        PowerSync().run(conductor)
        assert seen == [60.0]

    def test_those_without_a_turn_come_first_in_the_next_cycle(
        self, conductor: Conductor, bmc: Bmc, make_node: MakeNode
    ) -> None:
        CONF.set_override("power_state_sync_max_retries", 9, group="conductor")
        dead = [make_node(states.ACTIVE).uuid for _ in range(3)]
        bmc.default = DEAD
        conductor.workers.sync_workers = 1
        syncer = PowerSync()
        syncer.run(conductor)
        CONF.set_override("sync_power_state_interval", -1, group="conductor")
        alive = make_node(states.ACTIVE).uuid
        bmc.state[alive] = ON
        conductor.workers.sync_workers = 2
        turns: Counter[str] = Counter()
        bmc.before_read = lambda uuid: turns.update([uuid])
        for _ in range(6):
            syncer.run(conductor)
        assert turns[alive] == 6
        assert all(turns[uuid] >= 1 for uuid in dead), turns


class TestLastError:
    def test_power_error_is_cleared_when_the_state_is_right(
        self, conductor: Conductor, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
    ) -> None:
        node = make_node(states.ACTIVE)
        bmc.state[node.uuid] = DEAD
        with (
            conductor.tasks.acquire(admin_context(), node.uuid) as task,
            pytest.raises(errors.RedfishConnectionError),
        ):
            power.node_power_action(task, OFF)
        assert (stored(node).last_error or "").startswith(POWER_ERRORS)
        bmc.state[node.uuid] = ON
        sync()
        assert stored(node).last_error is None
        assert len(list(history.select(["event"], {"node_id": node.id}))) == 1

    def test_abort_at_the_restart_is_a_power_error(
        self, bmc: Bmc, sync: Callable[[], None], make_node: MakeNode
    ) -> None:
        node = make_node(states.ACTIVE, reservation="cond-a", target_power_state=OFF)
        nodes.clear_own("cond-a")
        sync()
        assert stored(node).last_error is None

    @pytest.mark.parametrize(
        ("state", "error"),
        [
            (states.ACTIVE, "Failed to deploy: image is broken"),
            (states.DEPLOYFAIL, "Failed to change power state to 'power on'"),
            (states.INSPECTFAIL, "Timeout"),
        ],
    )
    def test_other_errors_and_failed_states_keep_theirs(
        self,
        bmc: Bmc,
        sync: Callable[[], None],
        make_node: MakeNode,
        state: str,
        error: str,
    ) -> None:
        node = make_node(state, last_error=error)
        sync()
        assert bmc.reads[node.uuid] == 1
        assert stored(node).last_error == error


class TestRecovery:
    @pytest.fixture
    def faulty(self, make_node: MakeNode) -> models.Node:
        return make_node(
            states.ACTIVE,
            power_state=None,
            maintenance=True,
            fault=states.FAULT_POWER,
            maintenance_reason="Power sync of node was given up",
            last_error="Power sync of node was given up",
        )

    def test_node_that_answers_again_leaves_maintenance(
        self, conductor: Conductor, bmc: Bmc, faulty: models.Node
    ) -> None:
        bmc.default = OFF
        recover_power_failures(conductor)
        after = stored(faulty)
        assert not after.maintenance
        assert after.fault is None
        assert after.maintenance_reason is None
        assert after.last_error is None
        assert after.power_state == OFF
        assert after.reservation is None

    @pytest.mark.parametrize("answer", [DEAD, states.POWER_ERROR, None, ValueError("bug")])
    def test_node_that_does_not_answer_stays(
        self, conductor: Conductor, bmc: Bmc, faulty: models.Node, answer: Any
    ) -> None:
        bmc.default = answer
        recover_power_failures(conductor)
        assert stored(faulty).maintenance
        assert stored(faulty).fault == states.FAULT_POWER

    @pytest.mark.parametrize(
        "values",
        [
            {"fault": None},
            {"fault": states.FAULT_CLEAN},
            {"provision_state": states.ENROLL},
            {"target_power_state": ON},
            {"reservation": "cond-b"},
        ],
    )
    def test_other_maintenance_is_never_cleared(
        self, conductor: Conductor, bmc: Bmc, faulty: models.Node, values: dict[str, Any]
    ) -> None:
        nodes.update(faulty, values, fence=None)
        recover_power_failures(conductor)
        assert stored(faulty).maintenance
        assert bmc.reads[faulty.uuid] == 0

    def test_maintenance_set_by_an_operator_meanwhile_wins(
        self, conductor: Conductor, bmc: Bmc, faulty: models.Node
    ) -> None:
        bmc.before_read = lambda uuid: (
            nodes.update(faulty, {"fault": None, "maintenance_reason": "mine"}, fence=None) and None
        )
        recover_power_failures(conductor)
        assert stored(faulty).maintenance
        assert stored(faulty).maintenance_reason == "mine"
