"""Self-healing of steps: bounded, in the history, under the lock, never the step twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.flows import clean
from ironic_rs.conductor.healing import EVENT_TYPE
from ironic_rs.conductor.interrupts import Interrupts
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import history, models, nodes
from ironic_rs.domain import errors, states
from ironic_rs.integrations import healing
from ironic_rs.integrations.healing import Partner
from ironic_rs.rpc.context import admin_context
from tests.harness.sandbox import Sandbox, running
from tests.unit.conductor.flowkit import World, steps


def call(partner: Partner, results: list[str]) -> None:
    """Stand for a client: makes its call again when it may, else fails."""
    while True:
        result = results.pop(0) if results else "ok"
        if result == "ok":
            return
        if not healing.again(partner, "GET /thing", result):
            raise errors.RedfishError(f"the thing said {result}")


def retries(node: models.Node) -> list[str]:
    rows = history.select(["event", "event_type", "severity"], {"node_id": node.id})
    found = [row for row in rows if row["event_type"] == EVENT_TYPE]
    assert {row["severity"] for row in found} <= {"INFO"}
    return [row["event"] for row in found]


@pytest.fixture
def pauses(world: World, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were asked for; they take no time."""
    made: list[float] = []

    def pause(uuid: str, seconds: float) -> bool:
        made.append(seconds)
        return True

    monkeypatch.setattr(world.interrupts, "pause", pause)
    return made


def cleaned(world: World, during: Callable[[Any], None]) -> models.Node:
    """Clean a node with one step that does something, and return the node."""
    world.kit.offer("clean", "deploy.erase", requires_ramdisk=False)
    world.kit.results["deploy.erase"] = during
    node = world.node(states.MANAGEABLE)
    world.call("do_node_clean", node, clean_steps=steps("deploy.erase"), disable_ramdisk=True)
    return world.read(node)


def limits(**values: float) -> None:
    for name, value in values.items():
        CONF.set_override(name, value, group="self_healing")


class TestStep:
    @pytest.mark.parametrize("partner", list(Partner))
    def test_by_default_nothing_is_made_again(self, world, pauses, partner):
        node = cleaned(world, lambda task: call(partner, ["503"]))
        assert node.provision_state == states.CLEANFAIL
        assert "the thing said 503" in str(node.last_error)
        assert (pauses, retries(node)) == ([], [])

    @pytest.mark.parametrize("partner", list(Partner))
    def test_a_passing_fault_costs_pauses_and_not_the_step(self, world, pauses, partner):
        limits(**{f"{partner.value}_retries": 3}, backoff=4, max_backoff=10)
        node = cleaned(world, lambda task: call(partner, ["503", "reset", "503"]))
        assert node.provision_state == states.MANAGEABLE
        assert node.last_error is None
        assert world.kit.ran == ["deploy.erase"]
        assert pauses == [4, 8, 10]
        texts = retries(node)
        assert len(texts) == 3
        for number, (text, fault) in enumerate(zip(texts, ["503", "reset", "503"], strict=True)):
            assert "clean step deploy.erase" in text
            assert f"(GET /thing): {fault}. Retry {number + 1} of 3" in text
            assert f"[self_healing]{partner.value}_retries" in text

    def test_the_bound_is_for_the_whole_step(self, world, pauses):
        limits(bmc_retries=2)

        def two_calls(task: Any) -> None:
            call(Partner.BMC, ["503"])
            call(Partner.BMC, ["503", "503"])

        node = cleaned(world, two_calls)
        assert node.provision_state == states.CLEANFAIL
        assert len(retries(node)) == len(pauses) == 2

    def test_each_partner_has_its_own_bound(self, world, pauses):
        limits(bmc_retries=1, image_retries=1)

        def two_calls(task: Any) -> None:
            call(Partner.BMC, ["503"])
            call(Partner.IMAGES, ["503"])

        assert cleaned(world, two_calls).provision_state == states.MANAGEABLE

    def test_the_node_stays_locked_in_the_pause(self, world, monkeypatch):
        limits(bmc_retries=1)
        seen = []

        def pause(uuid: str, seconds: float) -> bool:
            stored = nodes.get(uuid)
            seen.append((stored.reservation, stored.clean_step["step"]))
            return True

        monkeypatch.setattr(world.interrupts, "pause", pause)
        cleaned(world, lambda task: call(Partner.BMC, ["503"]))
        assert seen == [(world.host, "erase")]

    def test_a_lock_that_is_lost_in_the_pause_ends_the_work(self, world, monkeypatch):
        limits(bmc_retries=1)
        calls = []

        def pause(uuid: str, seconds: float) -> bool:
            # Nothing of this conductor may happen any more.
            world.tasks.book.drop(uuid, world.tasks.book.holder(uuid))
            return True

        def during(task: Any) -> None:
            calls.append(1)
            call(Partner.BMC, ["503"])
            calls.append(2)

        monkeypatch.setattr(world.interrupts, "pause", pause)
        node = cleaned(world, during)
        assert calls == [1]
        assert node.provision_state == states.CLEANING

    def test_an_agent_that_reboots_is_not_waited_for_here(self, world, pauses):
        limits(agent_retries=5)

        def during(task: Any) -> None:
            assert not healing.again(Partner.AGENT, "x", "refused")
            raise errors.AgentConnectionFailed(reason="refused")

        world.kit.offer("clean", "deploy.erase")
        world.kit.results["deploy.erase"] = during
        node = world.node(
            states.CLEANING,
            clean_step={},
            target_provision_state=states.MANAGEABLE,
            driver_internal_info={
                "clean_steps": steps("deploy.erase"),
                "cleaning_reboot": True,
            },
        )
        with world.task(node) as task:
            clean.continue_node_clean(task)
        assert world.read(node).provision_state == states.CLEANWAIT
        assert pauses == []

    def test_clean_up_after_a_failure_is_not_drawn_out(self, world, pauses):
        limits(bmc_retries=5)
        asked = []

        def clean_up(task: Any) -> None:
            asked.append(healing.again(Partner.BMC, "x", "503"))

        world.driver.deploy.clean_up = clean_up
        world.kit.offer("deploy", "deploy.deploy", 100)
        world.kit.results["deploy.deploy"] = errors.RedfishError("400")
        node = world.node(states.AVAILABLE, instance_info={"image_source": "x"})
        world.call("do_node_deploy", node)
        assert world.read(node).provision_state == states.DEPLOYFAIL
        assert asked == [False]
        assert pauses == []

    def test_a_stop_of_the_conductor_leaves_one_last_try(self, world, monkeypatch):
        limits(bmc_retries=5)
        tries = []

        def pause(uuid: str, seconds: float) -> bool:
            world.stopping.set()
            return True

        monkeypatch.setattr(world.interrupts, "pause", pause)

        def during(task: Any) -> None:
            while True:
                tries.append(1)
                if not healing.again(Partner.BMC, "x", "503"):
                    raise errors.RedfishError("503")

        assert cleaned(world, during).provision_state == states.CLEANFAIL
        assert len(tries) == 2

    def test_preparations_are_healed_too(self, world, pauses):
        limits(image_retries=1)
        faults = ["503"]
        world.driver.deploy.prepare = lambda task: call(Partner.IMAGES, faults)
        world.kit.offer("deploy", "deploy.deploy", 100)
        node = world.node(states.AVAILABLE, instance_info={"image_source": "x"})
        world.call("do_node_deploy", node)
        assert world.read(node).provision_state == states.ACTIVE
        (text,) = retries(node)
        assert "preparation of the deployment" in text


class TestPauses:
    def test_an_abort_ends_the_pause_of_its_node_only(self):
        pauses = Interrupts()
        with ThreadPoolExecutor(2) as pool:
            one, other = (pool.submit(pauses.pause, uuid, 100) for uuid in ("a", "b"))
            while not pauses.abort("a"):
                pass
            assert one.result(30) is False
            assert not other.done()
            pauses.close()
            assert other.result(30) is True

    def test_there_is_nothing_to_abort_without_a_pause(self):
        pauses = Interrupts()
        assert not pauses.abort("a")
        assert pauses.pause("a", 0) is True
        assert not pauses.abort("a")

    def test_after_a_stop_nothing_pauses(self):
        pauses = Interrupts()
        pauses.close()
        assert pauses.pause("a", 1000) is True


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Sandbox]:
    with running(tmp_path / "sandbox") as fleet:
        yield fleet


class TestAtTheWire:
    """A real conductor with its threads, and a simulated machine that has a fault."""

    @pytest.fixture
    def conductor(self, make_conductor: Callable[..., Conductor]) -> Conductor:
        CONF.set_override("enabled_power_interfaces", ["fake", "redfish"])
        # Within one operation the client does not try again.
        CONF.set_override("connection_attempts", 1, group="redfish")
        CONF.set_override("operation_timeout", 1, group="redfish")
        limits(bmc_retries=2, backoff=0.01)
        return make_conductor()

    def clean(self, conductor: Conductor, sandbox: Sandbox) -> models.Node:
        bmc = sandbox.machine.to_json()["bmc"]
        node = nodes.create(
            {
                "driver": "fake-hardware",
                "driver_info": {
                    "redfish_address": bmc["address"],
                    "redfish_system_id": bmc["system_id"],
                    "redfish_username": bmc["username"],
                    "redfish_password": bmc["password"],
                    "redfish_verify_ca": False,
                },
                "provision_state": states.MANAGEABLE,
                "power_state": states.POWER_OFF,
                "power_interface": "redfish",
            }
        )
        conductor.registry.dispatch(
            "do_node_clean",
            admin_context(),
            {"node_id": node.uuid, "clean_steps": steps("power_on"), "disable_ramdisk": True},
        )
        return node

    def test_a_busy_bmc_is_outlasted(self, conductor: Conductor, sandbox: Sandbox) -> None:
        fault = {"bmc_status": 503, "bmc_times": 2, "bmc_only": "POST .*Reset"}
        sandbox.call(sandbox.machine.faults.update, fault)
        node = self.clean(conductor, sandbox)
        assert conductor.workers.wait(60)
        read = nodes.get(node.id)
        assert (read.provision_state, read.last_error) == (states.MANAGEABLE, None)
        assert read.power_state == states.POWER_ON
        assert len(retries(node)) == 2

    def test_a_lasting_fault_fails_the_step_after_the_last_retry(
        self, conductor: Conductor, sandbox: Sandbox
    ) -> None:
        sandbox.call(sandbox.machine.faults.update, {"bmc_status": 503, "bmc_only": "POST .*Reset"})
        node = self.clean(conductor, sandbox)
        assert conductor.workers.wait(60)
        read = nodes.get(node.id)
        assert read.provision_state == states.CLEANFAIL
        assert "503" in str(read.last_error)
        assert read.reservation is None
        assert len(retries(node)) == 2

    def test_a_refusal_fails_the_step_at_once(self, conductor: Conductor, sandbox: Sandbox) -> None:
        sandbox.call(sandbox.machine.faults.update, {"bmc_status": 400, "bmc_only": "POST .*Reset"})
        node = self.clean(conductor, sandbox)
        assert conductor.workers.wait(60)
        assert nodes.get(node.id).provision_state == states.CLEANFAIL
        assert retries(node) == []

    def test_an_abort_ends_the_wait_and_fails_the_step(
        self, conductor: Conductor, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limits(backoff=1000, max_backoff=1000)
        waits = threading.Event()
        original = Interrupts.pause

        def pause(self: Interrupts, uuid: str, seconds: float) -> bool:
            waits.set()
            return original(self, uuid, seconds)

        monkeypatch.setattr(Interrupts, "pause", pause)
        sandbox.call(sandbox.machine.faults.update, {"bmc_status": 503, "bmc_only": "POST .*Reset"})
        node = self.clean(conductor, sandbox)
        assert waits.wait(60)
        abort: dict[str, Any] = {"node_id": node.uuid, "action": "abort"}
        while True:
            try:
                conductor.registry.dispatch("do_provisioning_action", admin_context(), abort)
                break
            except errors.NodeLocked:
                # It is about to begin to wait.
                continue
        assert conductor.workers.wait(60)
        read = nodes.get(node.id)
        assert read.provision_state == states.CLEANFAIL
        assert "503" in str(read.last_error)
        assert "ended by an abort request" in retries(node)[-1]
