"""The loop that runs steps of all kinds."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.flows import clean, deploy, service
from ironic_rs.conductor.steps import engine
from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from tests.unit.conductor import flowkit

FLOWS = {"clean": clean.FLOW, "deploy": deploy.FLOW, "service": service.FLOW}
DONE = {"clean": states.AVAILABLE, "deploy": states.ACTIVE, "service": states.ACTIVE}


@pytest.fixture(params=sorted(FLOWS))
def flow(request):
    return FLOWS[request.param]


def running(world, flow, *names, **info):
    """Store a node in the middle of a flow whose plan has these steps."""
    kind = flow.kind
    internal = {kind.steps_key: flowkit.steps(*names), kind.index_key: None, **info}
    return world.node(kind.running, driver_internal_info=internal)


def run(world, flow, node, index=0):
    with world.task(node) as task:
        engine.run(task, flow, index)
    return world.read(node)


def test_steps_run_in_order_and_the_flow_ends(world, flow):
    node = running(world, flow, "raid.a", "bios.b")
    stored = run(world, flow, node)
    assert world.kit.ran == ["raid.a", "bios.b"]
    assert stored.provision_state == DONE[flow.kind.name]
    assert getattr(stored, flow.kind.field) == {}
    assert flow.kind.index_key not in stored.driver_internal_info


def test_a_step_is_saved_as_the_running_one_before_it_runs(world, flow):
    node = running(world, flow, "raid.a", "raid.b")
    seen = []

    def look(task):
        stored = world.read(node)
        field = getattr(stored, flow.kind.field)
        seen.append((field["step"], stored.driver_internal_info[flow.kind.index_key]))

    world.kit.results = {"raid.a": look, "raid.b": look}
    run(world, flow, node)
    assert seen == [("a", 0), ("b", 1)]


def test_a_step_that_goes_on_by_itself_makes_the_flow_wait(world, flow):
    node = running(world, flow, "raid.a", "raid.b")
    world.kit.results["raid.a"] = flow.kind.wait
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.wait
    assert getattr(stored, flow.kind.field)["step"] == "a"
    assert world.kit.ran == ["raid.a"]
    assert stored.reservation is None


def test_any_other_result_fails_the_flow(world, flow):
    node = running(world, flow, "raid.a", "raid.b")
    world.kit.results["raid.a"] = "sure"
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.failed
    assert "'sure'" in stored.last_error
    assert "raid.a" in stored.last_error
    assert world.kit.ran == ["raid.a"]


@pytest.mark.parametrize(
    ("error", "text"),
    [(errors.NetworkError("switch gone"), "switch gone"), (KeyError("disk"), "KeyError: 'disk'")],
)
def test_an_exception_fails_the_flow_with_step_and_reason(world, flow, error, text):
    node = running(world, flow, "raid.a", "raid.b")
    world.kit.results["raid.a"] = error
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.failed
    assert "raid.a" in stored.last_error
    assert text in stored.last_error
    assert world.kit.ran == ["raid.a"]
    assert getattr(stored, flow.kind.field) == {}


def test_secrets_of_step_arguments_stay_out_of_the_error(world, flow):
    node = running(world, flow, "raid.a")
    internal = dict(node.driver_internal_info)
    internal[flow.kind.steps_key] = flowkit.steps("raid.a", args={"password": "hunter2"})
    node = world.node(flow.kind.running, driver_internal_info=internal)
    world.kit.results["raid.a"] = errors.NetworkError("no")
    assert "hunter2" not in run(world, flow, node).last_error


def test_lost_contact_after_a_reboot_means_wait_and_run_the_step_again(world, flow):
    node = running(world, flow, "raid.a", **{flow.kind.reboot_flag: True, "agent_url": "https://x"})
    world.kit.results["raid.a"] = errors.AgentConnectionFailed(reason="rebooting")
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.wait
    assert stored.driver_internal_info[flow.kind.skip_flag] is False


def test_lost_contact_otherwise_is_a_failure(world, flow):
    node = running(world, flow, "raid.a", agent_url="https://x")
    world.kit.results["raid.a"] = errors.AgentConnectionFailed(reason="gone")
    assert run(world, flow, node).provision_state == flow.kind.failed


def test_a_deployment_waits_for_an_agent_that_was_never_heard_of(world):
    node = running(world, deploy.FLOW, "raid.a")
    world.kit.results["raid.a"] = errors.AgentConnectionFailed(reason="unknown")
    assert run(world, deploy.FLOW, node).provision_state == states.DEPLOYWAIT


@pytest.mark.parametrize("flow", [clean.FLOW, service.FLOW], ids=["clean", "service"])
def test_without_an_agent_cleaning_and_servicing_fail(world, flow):
    node = running(world, flow, "raid.a")
    world.kit.results["raid.a"] = errors.AgentConnectionFailed(reason="unknown")
    assert run(world, flow, node).provision_state == flow.kind.failed


def test_a_busy_agent_means_wait_and_run_the_step_again(world, flow):
    node = running(world, flow, "raid.a", agent_url="https://x")
    world.kit.results["raid.a"] = errors.AgentInProgress(node="n", command="c", error="busy")
    stored = run(world, flow, node)
    assert stored.provision_state == flow.kind.wait
    assert stored.driver_internal_info[flow.kind.skip_flag] is False


def test_a_stale_polling_flag_ends_with_its_step(world, flow):
    node = running(world, flow, "raid.a", **{flow.kind.polling_flag: True})
    seen = []
    world.kit.results["raid.a"] = lambda task: seen.append(
        flow.kind.polling_flag in task.node.driver_internal_info
    )
    run(world, flow, node)
    assert seen == [False]


def test_a_flow_that_its_step_has_failed_is_not_failed_again(world):
    node = running(world, deploy.FLOW, "raid.a", "raid.b")

    def give_up(task):
        task.flows.fail("deploy", "the disk is on fire")
        raise errors.InstanceDeployFailure(reason="see above")

    world.kit.results["raid.a"] = give_up
    stored = run(world, deploy.FLOW, node)
    assert stored.provision_state == states.DEPLOYFAIL
    assert stored.last_error.startswith("the disk is on fire. Next: ")
    assert world.kit.ran == ["raid.a"]


def test_the_plan_may_change_while_it_runs(world):
    world.kit.offer("deploy", "deploy.deploy", 100)
    node = running(world, deploy.FLOW, "deploy.deploy", agent_url="https://x")

    def agent_is_here(task):
        world.kit.offer("deploy", "raid.inband", 50)
        task.flows.set_steps("deploy")

    world.kit.results["deploy.deploy"] = agent_is_here
    stored = run(world, deploy.FLOW, node)
    assert world.kit.ran == ["deploy.deploy", "raid.inband"]
    assert stored.provision_state == states.ACTIVE


def test_lost_locks_propagate_untouched(world, flow):
    node = running(world, flow, "raid.a")
    world.kit.results["raid.a"] = errors.LockLost(host="h", node="n", reason="taken")
    with pytest.raises(errors.LockLost), world.task(node) as task:
        engine.run(task, flow, 0)
    stored = world.read(node)
    assert stored.provision_state == flow.kind.running
    assert stored.last_error is None


def test_an_error_of_the_flow_itself_has_an_owner(world, flow, monkeypatch):
    node = running(world, flow, "raid.a")

    def broken(task):
        raise ValueError("bug")

    broken_flow = engine.StepFlow(flow.kind, broken, flow.fail, flow.collect_logs)
    stored = run(world, broken_flow, node)
    assert stored.provision_state == flow.kind.failed
    assert "ValueError: bug" in stored.last_error


def test_w25_the_end_of_a_flow_is_recorded_with_its_steps(world, flow):
    from ironic_rs.db import history

    node = running(world, flow, "raid.a")
    run(world, flow, node)
    rows = history.select(["event_type", "event", "severity"], {"node_id": node.id})
    [row] = [row for row in rows if row["event_type"].endswith("_end")]
    assert "completed" in row["event"]
    assert '"step": "a"' in row["event"]
    assert row["severity"] == "INFO"


def test_w25_waiting_is_not_recorded_as_aborted(world):
    node = running(world, deploy.FLOW, "raid.a")
    world.kit.results["raid.a"] = errors.AgentConnectionFailed(reason="unknown")
    stored = run(world, deploy.FLOW, node)
    assert world.events(node) == []
    assert stored.last_error is None


def test_a_failed_flow_is_recorded_as_aborted_and_keeps_its_error(world, flow):
    node = running(world, flow, "raid.a")
    world.kit.results["raid.a"] = errors.NetworkError("switch gone")
    stored = run(world, flow, node)
    kinds = [kind for kind, _severity in world.events(node)]
    assert any(kind.endswith("_end") for kind in kinds)
    assert "switch gone" in stored.last_error


def test_step_flows_stay_out_of_the_history_when_asked(world, flow):
    CONF.set_override("record_step_flows_in_history", False, group="conductor")
    node = running(world, flow, "raid.a")
    run(world, flow, node)
    assert world.events(node) == []


@pytest.mark.parametrize("event_kind", ["clean"])
def test_logs_are_not_collected_without_a_ramdisk(world, event_kind):
    asked = []
    world.driver.deploy.collect_ramdisk_logs = asked.append
    node = running(world, clean.FLOW, "raid.a", cleaning_disable_ramdisk=True)
    world.kit.results["raid.a"] = errors.NetworkError("no")
    run(world, clean.FLOW, node)
    assert asked == []
