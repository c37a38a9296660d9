"""Each form of ``last_error``: what failed, where, why, and what to do next.

One row for each situation of conductor.md section 11.4.  The other half: errors are not
wiped by work that has nothing to do with them (W14).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from ironic_rs.conductor import advice, failures, recovery
from ironic_rs.conductor.periodics import timeouts
from ironic_rs.conf import CONF
from ironic_rs.db import history, models
from ironic_rs.domain import errors, states
from tests.unit.conductor.flowkit import World, steps

KNOWN = errors.NetworkError("no link")
FOREIGN = KeyError("mac")
#: Each error in the words that last_error has to contain.
ERRORS = [
    pytest.param(KNOWN, "no link", id="known"),
    pytest.param(FOREIGN, "KeyError: 'mac'", id="foreign"),
    pytest.param(RuntimeError(), "RuntimeError", id="silent"),
]

Trigger = Callable[[World, Exception], models.Node]


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@dataclass(frozen=True)
class Form:
    """One situation.

    :param trigger: brings it about on a new node, which it returns.
    :param says: what last_error says beside the error; ``{node}`` is the uuid.
    :param state: where the node ends.
    """

    trigger: Trigger
    says: tuple[str, ...]
    state: str


def deploy_prepare(world: World, error: Exception) -> models.Node:
    world.driver.deploy.prepare = raising(error)
    return deployed(world)


def deployed(world: World) -> models.Node:
    node = world.node(states.AVAILABLE, instance_info={"image_source": "x"})
    world.call("do_node_deploy", node)
    return node


def deploy_step(world: World, error: Exception) -> models.Node:
    world.kit.offer("deploy", "deploy.deploy", 100)
    world.kit.results["deploy.deploy"] = error
    return deployed(world)


def clean_prepare(world: World, error: Exception) -> models.Node:
    world.driver.deploy.prepare_cleaning = raising(error)
    return provided(world)


def provided(world: World) -> models.Node:
    node = world.node(states.MANAGEABLE)
    world.call("do_provisioning_action", node, action="provide")
    return node


def clean_step(world: World, error: Exception) -> models.Node:
    world.driver.deploy.prepare_cleaning = lambda task: None
    world.kit.offer("clean", "raid.delete", 10)
    world.kit.results["raid.delete"] = error
    return provided(world)


def serviced(world: World) -> models.Node:
    node = world.node(states.ACTIVE)
    world.call("do_node_service", node, service_steps=steps("raid.delete"), disable_ramdisk=True)
    return node


def service_step(world: World, error: Exception) -> models.Node:
    world.kit.offer("service", "raid.delete", requires_ramdisk=False)
    world.kit.results["raid.delete"] = error
    return serviced(world)


def tear_down(world: World, error: Exception) -> models.Node:
    world.driver.deploy.tear_down = raising(error)
    node = world.node(states.ACTIVE)
    world.call("do_node_tear_down", node)
    return node


def rescue(world: World, error: Exception) -> models.Node:
    world.driver.rescue.rescue = raising(error)
    node = world.node(states.ACTIVE, instance_info={})
    world.call("do_node_rescue", node, rescue_password="secret")
    return node


def unrescue(world: World, error: Exception) -> models.Node:
    world.driver.rescue.unrescue = raising(error)
    node = world.node(states.RESCUE)
    world.call("do_node_unrescue", node)
    return node


def adopt(world: World, error: Exception) -> models.Node:
    world.driver.deploy.take_over = raising(error)
    node = world.node(states.MANAGEABLE)
    world.call("do_provisioning_action", node, action="adopt")
    return node


def inspect(world: World, error: Exception) -> models.Node:
    world.driver.inspect.inspect_hardware = raising(error)
    node = world.node(states.MANAGEABLE)
    world.call("inspect_hardware", node)
    return node


def verify(world: World, error: Exception) -> models.Node:
    world.driver.power.get_power_state = raising(error)
    node = world.node(states.ENROLL)
    world.call("do_provisioning_action", node, action="manage")
    return node


def verify_step(world: World, error: Exception) -> models.Node:
    world.kit.offer("verify", "management.look", 10)
    world.kit.results["management.look"] = error
    node = world.node(states.ENROLL)
    world.call("do_provisioning_action", node, action="manage")
    return node


def power(world: World, error: Exception) -> models.Node:
    world.driver.power.set_power_state = raising(error)
    node = world.node(states.AVAILABLE)
    world.call("change_node_power_state", node, new_state=states.POWER_OFF)
    return node


def console(world: World, error: Exception) -> models.Node:
    world.driver.console.start_console = raising(error)
    node = world.node(states.ACTIVE)
    world.call("set_console_mode", node, enabled=True)
    return node


def boot_mode(world: World, error: Exception) -> models.Node:
    world.driver.management.set_boot_mode = raising(error)
    node = world.node(states.MANAGEABLE)
    world.call("change_node_boot_mode", node, new_state="uefi")
    return node


def secure_boot(world: World, error: Exception) -> models.Node:
    world.driver.management.set_secure_boot_state = raising(error)
    node = world.node(states.MANAGEABLE)
    world.call("change_node_secure_boot", node, new_state=True)
    return node


def crash(world: World, error: Exception) -> models.Node:
    def do_something() -> None:
        raise error

    node = world.node(states.MANAGEABLE)
    with world.task(node) as task:
        task.event("inspect", callback=do_something)
    return node


FORMS = {
    "deploy: prepare": Form(deploy_prepare, ("prepare", "{node}"), states.DEPLOYFAIL),
    "deploy step": Form(deploy_step, ("deploy.deploy", "{node}"), states.DEPLOYFAIL),
    "clean: prepare": Form(clean_prepare, ("prepare", "{node}"), states.CLEANFAIL),
    "clean step": Form(
        clean_step, ("clean step raid.delete", "'priority': 10", "{node}"), states.CLEANFAIL
    ),
    "service step": Form(service_step, ("service step raid.delete", "{node}"), states.SERVICEFAIL),
    "tear down": Form(tear_down, ("Failed to tear down node {node}",), states.ERROR),
    "rescue": Form(rescue, ("Failed to rescue node {node}",), states.RESCUEFAIL),
    "unrescue": Form(unrescue, ("Failed to unrescue node {node}",), states.UNRESCUEFAIL),
    "adoption": Form(adopt, ("Failed to adopt node {node}",), states.ADOPTFAIL),
    "inspection": Form(inspect, ("Failed to inspect node {node}",), states.INSPECTFAIL),
    "verify": Form(verify, ("Failed to verify node {node}",), states.ENROLL),
    "verify step": Form(verify_step, ("verify step management.look", "{node}"), states.ENROLL),
    "worker crash": Form(crash, ("do_something failed",), states.INSPECTFAIL),
    "power": Form(power, ("'power off'",), states.AVAILABLE),
    "console": Form(console, ("enabling the console of node {node}",), states.ACTIVE),
    "boot mode": Form(boot_mode, ("boot mode to uefi",), states.MANAGEABLE),
    "secure boot": Form(secure_boot, ("secure boot", "True"), states.MANAGEABLE),
}
FLOWS = [name for name, form in FORMS.items() if form.state in {*states.FAILED, states.ENROLL}]


@pytest.mark.parametrize(("error", "text"), ERRORS)
@pytest.mark.parametrize("name", FORMS)
def test_what_failed_where_and_why(world: World, name: str, error: Exception, text: str) -> None:
    form = FORMS[name]
    node = form.trigger(world, error)
    read = world.read(node)
    assert read.provision_state == form.state
    said = str(read.last_error)
    for part in (*form.says, text):
        assert part.format(node=node.uuid) in said
    newest = history.of_node(node.id)[-1]
    assert (newest.event, newest.severity) == (said, "ERROR")


@pytest.mark.parametrize("name", FLOWS)
def test_what_to_do_next(world: World, name: str) -> None:
    node = FORMS[name].trigger(world, KNOWN)
    read = world.read(node)
    assert "Next: mend the cause, " in str(read.last_error)
    assert str(read.last_error).endswith(f"{advice.NEXT[FORMS[name].state]}.")
    assert ("take it out of maintenance" in str(read.last_error)) is bool(read.maintenance)


@pytest.mark.parametrize("state", advice.NEXT)
def test_the_verbs_of_the_advice_are_those_that_the_state_allows(state: str) -> None:
    verbs = re.findall("'([a-z]+)'", advice.NEXT[state])
    assert verbs
    spelled = {"undeploy": "delete"}
    for verb in verbs:
        assert states.is_allowed(state, spelled.get(verb, verb)), verb


def test_every_failed_state_has_advice() -> None:
    assert set(advice.NEXT) == {*states.FAILED, states.ENROLL}


class TestOtherForms:
    def test_an_invalid_step_result(self, world: World) -> None:
        world.kit.offer("deploy", "deploy.deploy", 100)
        world.kit.results["deploy.deploy"] = lambda task: "banana"
        node = deployed(world)
        said = str(world.read(node).last_error)
        for part in ("deploy.deploy", str(node.uuid), "'banana'", "Next: "):
            assert part in said

    def test_no_free_worker(self, world: World) -> None:
        world.workers.full = True
        node = world.node(states.MANAGEABLE)
        with pytest.raises(errors.NoFreeConductorWorker):
            world.call("do_provisioning_action", node, action="provide")
        assert world.read(node).last_error == failures.NO_WORKER

    @pytest.mark.parametrize(
        ("timeout", "state", "failed"),
        [
            (timeouts.DEPLOY, states.DEPLOYWAIT, states.DEPLOYFAIL),
            (timeouts.CLEAN, states.CLEANWAIT, states.CLEANFAIL),
        ],
    )
    def test_a_timeout(
        self, world: World, timeout: timeouts.CallbackTimeout, state: str, failed: str
    ) -> None:
        step = {"interface": "deploy", "step": "write", "priority": 10}
        column = "deploy_step" if state == states.DEPLOYWAIT else "clean_step"
        node = world.node(state, **{column: step})
        with world.task(node, load_driver=False) as task:
            timeouts._expire(task, timeout, {timeout.since: task.node.provision_updated_at}, 60)
        read = world.read(node)
        assert read.provision_state == failed
        for part in (
            "Timeout reached while waiting for callback",
            str(node.uuid),
            "ramdisk",
            "60 s",
            f"[conductor]{timeout.option}",
            "deploy.write",
            f"{advice.NEXT[failed]}.",
        ):
            assert part in str(read.last_error)

    def test_work_that_an_ended_conductor_left(self, world: World) -> None:
        node = world.node(states.DEPLOYING)
        recovery.fail_stray(world, str(node.uuid))  # type: ignore[arg-type]
        read = world.read(node)
        for part in ("'deploying'", "cannot be resumed", world.host, "Next: "):
            assert part in str(read.last_error)

    def test_an_abort_says_so_and_asks_nobody_to_mend_anything(self, world: World) -> None:
        node = world.node(
            states.CLEANWAIT,
            clean_step={"interface": "raid", "step": "delete", "abortable": True},
        )
        world.call("do_provisioning_action", node, action="abort")
        assert world.read(node).last_error == (
            "Cleaning was aborted on request during or after step raid.delete."
        )

    def test_what_goes_wrong_afterwards_is_appended(self, world: World) -> None:
        world.driver.deploy.clean_up = raising(errors.NetworkError("port is stuck"))
        node = deploy_step(world, KNOWN)
        said = str(world.read(node).last_error)
        assert said.index("no link. Afterwards: could not clean up") < said.index("port is stuck")
        assert said.endswith(f"{advice.NEXT[states.DEPLOYFAIL]}.")

    def test_a_power_action_of_the_clean_up_does_not_wipe_the_error(self, world: World) -> None:
        world.driver.deploy.clean_up = lambda task: task.flows.power(states.POWER_OFF)
        node = deploy_step(world, KNOWN)
        read = world.read(node)
        assert read.power_state == states.POWER_OFF
        assert "no link" in str(read.last_error)

    def test_a_huge_error_is_cut_and_keeps_the_advice(self, world: World) -> None:
        CONF.set_override("log_in_db_max_size", 600)
        node = deploy_step(world, errors.NetworkError("x" * 5000))
        said = str(world.read(node).last_error)
        assert len(said) == 600
        assert "x" * 5000 in str(history.of_node(node.id)[-1].event)
        assert said.endswith(f"{advice.NEXT[states.DEPLOYFAIL]}.")


#: Requests that have nothing to do with why a node is in a failed state.
UNRELATED: dict[str, Callable[[World, models.Node], Any]] = {
    "power action": lambda world, node: world.call(
        "change_node_power_state", node, new_state=states.POWER_OFF
    ),
    "power action that has nothing to do": lambda world, node: world.call(
        "change_node_power_state", node, new_state=states.POWER_ON
    ),
    "console": lambda world, node: world.call("set_console_mode", node, enabled=True),
    "boot mode": lambda world, node: world.call("change_node_boot_mode", node, new_state="uefi"),
    "secure boot": lambda world, node: world.call("change_node_secure_boot", node, new_state=True),
}


@pytest.mark.parametrize("state", sorted(states.FAILED))
@pytest.mark.parametrize("name", UNRELATED)
def test_w14_why_a_flow_failed_outlives_unrelated_requests(
    world: World, name: str, state: str
) -> None:
    for method in ("set_boot_mode", "set_secure_boot_state"):
        setattr(world.driver.management, method, lambda *args, **kwargs: None)
    node = world.node(state, last_error="the disk is broken")
    UNRELATED[name](world, node)
    read = world.read(node)
    assert (read.provision_state, read.last_error) == (state, "the disk is broken")


@pytest.mark.parametrize("name", UNRELATED)
def test_elsewhere_a_new_request_begins_with_a_clean_slate(world: World, name: str) -> None:
    for method in ("set_boot_mode", "set_secure_boot_state"):
        setattr(world.driver.management, method, lambda *args, **kwargs: None)
    node = world.node(states.MANAGEABLE, last_error="an older error")
    UNRELATED[name](world, node)
    assert world.read(node).last_error is None
