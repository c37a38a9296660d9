"""No node stays locked or in a transient state when its worker is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_rs.conductor import recovery
from ironic_rs.conductor.periodics import orphans
from ironic_rs.conductor.periodics.orphans import OrphanCheck
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import conductors, history, models, nodes, session
from ironic_rs.domain import errors, states, steps
from ironic_rs.rpc.context import admin_context

MakeNode = Callable[..., models.Node]
STUCK = sorted(states.STUCK_STATES_TREATED_AS_FAIL)


def stored(node: models.Node) -> models.Node:
    return nodes.get(node.id)


def die(host: str) -> None:
    """Make a registered conductor look dead."""
    conductors.register(host, ["fake-hardware"], update_existing=True)
    with session.writer() as connection:
        connection.execute(
            sa.text(
                "UPDATE conductors SET updated_at = datetime('now', '-1 hour') "
                f"WHERE hostname = '{host}'"
            )
        )


def entries(node: models.Node) -> list[tuple[str, str]]:
    rows = history.select(["event_type", "severity"], {"node_id": node.id})
    return [(row["event_type"], row["severity"]) for row in rows]


class TestDeadConductor:
    @pytest.mark.parametrize("state", STUCK)
    @pytest.mark.parametrize("maintenance", [False, True])
    def test_every_transient_state_is_failed_with_a_reason(
        self, conductor: Conductor, make_node: MakeNode, state: str, maintenance: bool
    ) -> None:
        die("cond-b")
        node = make_node(state, reservation="cond-b", maintenance=maintenance)
        OrphanCheck().run(conductor)
        after = stored(node)
        assert after.reservation is None
        assert after.provision_state == states.next_state(state, "fail")
        assert "aborted" in (after.last_error or "")
        assert ("takeover", "ERROR") in entries(node)

    def test_text_names_the_state_and_the_conductor(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        die("cond-b")
        node = make_node(states.DEPLOYING, reservation="cond-b")
        OrphanCheck().run(conductor)
        text = stored(node).last_error or ""
        assert "'deploying'" in text
        assert "cond-b" in text

    def test_pending_power_action_is_aborted(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        die("cond-b")
        node = make_node(states.AVAILABLE, reservation="cond-b", target_power_state=states.POWER_ON)
        OrphanCheck().run(conductor)
        after = stored(node)
        assert after.reservation is None
        assert after.target_power_state is None
        assert after.provision_state == states.AVAILABLE
        assert (after.last_error or "").startswith("Pending power operation was aborted")

    def test_the_power_state_is_unknown_after_an_aborted_power_action(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        die("cond-b")
        pending = make_node(
            states.DELETING, reservation="cond-b", target_power_state=states.POWER_OFF
        )
        quiet = make_node(states.DELETING, reservation="cond-b")
        OrphanCheck().run(conductor)
        assert stored(pending).power_state is None
        assert stored(quiet).power_state == states.POWER_ON

    def test_resting_node_is_only_released(self, conductor: Conductor, make_node: MakeNode) -> None:
        die("cond-b")
        waiting = make_node(states.DEPLOYWAIT, reservation="cond-b")
        OrphanCheck().run(conductor)
        after = stored(waiting)
        assert after.reservation is None
        assert after.provision_state == states.DEPLOYWAIT
        assert after.last_error is None

    def test_failed_cleaning_is_cleaned_up_and_keeps_its_target(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        die("cond-b")
        node = make_node(
            states.CLEANING,
            target_provision_state=states.MANAGEABLE,
            reservation="cond-b",
            clean_step={"interface": "deploy", "step": "erase"},
            driver_internal_info={"clean_steps": [1], "clean_step_index": 0},
        )
        OrphanCheck().run(conductor)
        after = stored(node)
        assert after.provision_state == states.CLEANFAIL
        assert after.target_provision_state == states.MANAGEABLE
        assert after.maintenance
        assert after.fault == states.FAULT_CLEAN
        assert after.clean_step == {}
        assert after.reservation is None
        assert "cond-b" in (after.last_error or "")

    def test_driver_that_is_not_enabled_here_does_not_matter(
        self, conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die("cond-b")
        node = make_node(states.CLEANING, reservation="cond-b")

        def build(node: models.Node) -> Any:
            raise errors.IncompatibleInterface(
                interface_type="power", interface_impl="x", hardware_type="y"
            )

        monkeypatch.setattr(conductor.drivers, "build", build)
        OrphanCheck().run(conductor)
        assert stored(node).provision_state == states.CLEANFAIL
        assert stored(node).reservation is None

    def test_live_conductor_is_left_alone(
        self, make_conductor: Callable[..., Conductor], make_node: MakeNode
    ) -> None:
        first = make_conductor("cond-a")
        make_conductor("cond-b")
        node = make_node(states.DEPLOYING, reservation="cond-b")
        check = OrphanCheck()
        check.run(first)
        check.run(first)
        assert stored(node).reservation == "cond-b"
        assert stored(node).provision_state == states.DEPLOYING

    def test_own_late_heartbeat_is_only_warned_of(
        self, conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        node = make_node(states.DEPLOYING)
        task = conductor.tasks.acquire(admin_context(), node.uuid)
        die("cond-a")
        die("cond-b")
        orphans.take_over_dead_locks(conductor)
        assert "heartbeat of this conductor cond-a is late" in caplog.text
        assert stored(node).reservation == "cond-a"
        task.release()

    def test_node_locked_by_somebody_meanwhile_does_not_end_the_pass(
        self, conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        CONF.set_override("periodic_max_workers", 1, group="conductor")
        die("cond-b")
        made = [make_node(states.DEPLOYING, reservation="cond-b") for _ in range(3)]
        real = nodes.take_over_lock

        def take_over_lock(node_id: int, dead: str, host: str) -> bool:
            return real(node_id, dead, "cond-c" if node_id == made[0].id else host)

        monkeypatch.setattr(orphans.db_nodes, "take_over_lock", take_over_lock)
        OrphanCheck().run(conductor)
        assert stored(made[0]).reservation == "cond-c"
        assert [stored(node).provision_state for node in made[1:]] == [states.DEPLOYFAIL] * 2

    def test_a_survivor_that_dies_before_it_settles_the_node_leaves_it_locked(
        self, conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die("cond-b")
        node = make_node(states.AVAILABLE, reservation="cond-b", target_power_state="power on")
        monkeypatch.setattr(conductor.tasks, "adopt", lambda *_: None)
        orphans.take_over_dead_locks(conductor)
        # So the next one finds it by its own death, pending power action included.
        assert stored(node).reservation == "cond-a"

    def test_lock_released_by_another_conductor_is_not_touched(
        self, conductor: Conductor, make_node: MakeNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        die("cond-b")
        node = make_node(states.DEPLOYING, reservation="cond-b")
        monkeypatch.setattr(orphans.db_nodes, "take_over_lock", lambda *_: False)
        orphans.take_over_dead_locks(conductor)
        assert stored(node).provision_state == states.DEPLOYING


class TestOwnLocks:
    def test_lock_that_no_task_holds_is_settled(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(states.DEPLOYING, reservation="cond-a")
        resting = make_node(states.ACTIVE, reservation="cond-a")
        OrphanCheck().run(conductor)
        assert stored(node).provision_state == states.DEPLOYFAIL
        assert "without recording the result" in (stored(node).last_error or "")
        assert stored(node).reservation is None
        assert stored(resting).reservation is None
        assert stored(resting).last_error is None

    def test_lock_in_use_is_left_alone(self, conductor: Conductor, make_node: MakeNode) -> None:
        node = make_node(states.DEPLOYING)
        check = OrphanCheck()
        with conductor.tasks.acquire(admin_context(), node.uuid) as task:
            check.run(conductor)
            check.run(conductor)
            task.event("done")
        assert stored(node).provision_state == states.ACTIVE

    def test_node_owned_by_another_ring_member_is_settled_too(
        self, make_conductor: Callable[..., Conductor], make_node: MakeNode
    ) -> None:
        first = make_conductor("cond-a")
        make_conductor("cond-b")
        made = [make_node(states.DEPLOYING, reservation="cond-a") for _ in range(20)]
        OrphanCheck().run(first)
        assert {stored(node).provision_state for node in made} == {states.DEPLOYFAIL}


class TestStrays:
    @pytest.mark.parametrize("state", STUCK)
    def test_transient_state_without_a_lock_is_failed_at_the_second_sight(
        self, conductor: Conductor, make_node: MakeNode, state: str
    ) -> None:
        node = make_node(state)
        check = OrphanCheck()
        check.run(conductor)
        assert stored(node).provision_state == state
        check.run(conductor)
        assert stored(node).provision_state == states.next_state(state, "fail")
        assert "cannot be resumed by conductor cond-a" in (stored(node).last_error or "")
        assert entries(node) == [("transition", "ERROR")]

    def test_power_action_without_a_lock_is_aborted_at_the_second_sight(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(
            states.ACTIVE, power_state=states.POWER_OFF, target_power_state=states.POWER_ON
        )
        check = OrphanCheck()
        check.run(conductor)
        assert stored(node).target_power_state == states.POWER_ON
        check.run(conductor)
        after = stored(node)
        assert after.target_power_state is None
        assert after.power_state is None  # power sync finds out, and undoes nothing
        assert after.provision_state == states.ACTIVE
        assert "'power on' cannot be resumed by conductor cond-a" in (after.last_error or "")
        assert entries(node) == [("transition", "ERROR")]

    def test_state_that_moved_between_the_passes_is_left_alone(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = make_node(states.DEPLOYING)
        check = OrphanCheck()
        check.run(conductor)
        with conductor.tasks.acquire(admin_context(), node.uuid) as task:
            task.event("wait")
            task.event("resume")
        check.run(conductor)
        assert stored(node).provision_state == states.DEPLOYING
        check.run(conductor)
        assert stored(node).provision_state == states.DEPLOYFAIL


class TestStart:
    def test_own_locks_of_an_earlier_life_are_cleared(
        self, conductor: Conductor, make_node: MakeNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        powering = make_node(
            states.AVAILABLE, reservation="cond-a", target_power_state=states.POWER_ON
        )
        similar = make_node(states.AVAILABLE, reservation="cond-a2")
        recovery.free_own_locks(conductor)
        assert stored(powering).reservation is None
        assert stored(powering).target_power_state is None
        assert "Pending power operation" in (stored(powering).last_error or "")
        assert stored(similar).reservation == "cond-a2"
        assert powering.uuid in caplog.text

    def test_all_stuck_nodes_are_failed_however_many(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        made = [make_node(state) for state in STUCK for _ in range(3)]
        locked = make_node(states.DEPLOYING, reservation="cond-b")
        recovery.fail_stuck_at_start(conductor)
        for node in made:
            after = stored(node)
            assert after.provision_state == states.next_state(node.provision_state, "fail")
            assert after.reservation is None
        assert stored(locked).provision_state == states.DEPLOYING

    def test_nodes_of_other_conductors_are_left_alone(
        self, make_conductor: Callable[..., Conductor], make_node: MakeNode
    ) -> None:
        first = make_conductor("cond-a")
        make_conductor("cond-b")
        made = [make_node(states.DEPLOYING) for _ in range(20)]
        recovery.fail_stuck_at_start(first)
        failed = {n.uuid for n in made if stored(n).provision_state == states.DEPLOYFAIL}
        rows = nodes.select(["uuid", "driver", "conductor_group"])
        mine = {row["uuid"] for row in first.ring.owned("cond-a", rows)}
        assert failed == mine
        assert 0 < len(failed) < 20


STEP = {"interface": "raid", "step": "a"}
RUNNING = {kind.running: kind for kind in steps.KINDS.values()}


class TestRunningStep:
    """The step that died with its conductor is over: no later flow takes it for its own."""

    def _interrupted(self, make_node: MakeNode, state: str, **values: Any) -> models.Node:
        kind = RUNNING[state]
        info = {kind.steps_key: [STEP], kind.index_key: 0, kind.reboot_flag: True}
        return make_node(state, driver_internal_info=info, **{kind.field: STEP}, **values)

    def _check(self, node: models.Node, kind: steps.StepKind) -> None:
        after = stored(node)
        assert after.provision_state == kind.failed
        assert getattr(after, kind.field) == {}
        left = after.driver_internal_info
        assert kind.index_key not in left
        assert kind.reboot_flag not in left

    @pytest.mark.parametrize("state", RUNNING)
    def test_at_start(self, conductor: Conductor, make_node: MakeNode, state: str) -> None:
        node = self._interrupted(make_node, state)
        recovery.fail_stuck_at_start(conductor)
        self._check(node, RUNNING[state])

    @pytest.mark.parametrize("state", RUNNING)
    @pytest.mark.parametrize("driver", ["fake-hardware", "of-another-conductor"])
    def test_after_a_take_over(
        self, conductor: Conductor, make_node: MakeNode, state: str, driver: str
    ) -> None:
        node = self._interrupted(make_node, state, reservation=conductor.host, driver=driver)
        orphans.adopt_own_locks(conductor)
        self._check(node, RUNNING[state])

    def test_a_machine_in_the_middle_of_a_clean_step_goes_into_maintenance(
        self, conductor: Conductor, make_node: MakeNode
    ) -> None:
        node = self._interrupted(make_node, states.CLEANING, reservation=conductor.host)
        orphans.adopt_own_locks(conductor)
        after = stored(node)
        assert (after.maintenance, after.fault) == (True, states.FAULT_CLEAN)
