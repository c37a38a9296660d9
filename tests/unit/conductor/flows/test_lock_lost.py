"""A lost lock is never taken for a failure of the machine."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ironic_rs import conductor
from ironic_rs.conductor import failures
from ironic_rs.domain import errors, states, steps
from tests.unit.conductor import flowkit

ROOM = Path(conductor.__file__).parent
MODULES = [
    *(
        path
        for part in ("flows", "steps", "endpoints")
        for path in sorted(ROOM.glob(f"{part}/*.py"))
    ),
    ROOM / "failures.py",
]


#: Functions that hold no lock that could be lost.
WITHOUT_LOCK = {"_validated", "_driver_worker", "settle", "_record_failure"}


def _names(handler: ast.ExceptHandler) -> set[str]:
    if handler.type is None:
        return {"everything"}
    return {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(handler.type)
        if isinstance(node, ast.Attribute | ast.Name)
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_handler_swallows_a_lost_lock(module):
    tree = ast.parse(module.read_text())
    exempt = {
        id(part)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and function.name in WITHOUT_LOCK
        for part in ast.walk(function)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try) or id(node) in exempt:
            continue
        seen: set[str] = set()
        for handler in node.handlers:
            names = _names(handler)
            if names & {"Exception", "BaseException", "IronicError", "Conflict", "everything"}:
                assert "LockLost" in seen, f"{module.name}:{handler.lineno}"
            seen |= names


def lose(*args, **kwargs):
    raise errors.LockLost(host="other", node="n", reason="it is held by other")


FLOWS = [
    ("manage", states.ENROLL, "power", "get_power_state"),
    ("inspect", states.MANAGEABLE, "inspect", "inspect_hardware"),
    ("provide", states.MANAGEABLE, "deploy", "prepare_cleaning"),
    ("deploy", states.AVAILABLE, "deploy", "prepare"),
    ("undeploy", states.ACTIVE, "deploy", "tear_down"),
    ("service", states.ACTIVE, "deploy", "prepare_service"),
    ("rescue", states.ACTIVE, "rescue", "rescue"),
    ("unrescue", states.RESCUE, "rescue", "unrescue"),
    ("adopt", states.MANAGEABLE, "deploy", "take_over"),
    ("abort", states.CLEANWAIT, "deploy", "tear_down_cleaning"),
    ("abort", states.DEPLOYWAIT, "deploy", "clean_up"),
    ("abort", states.SERVICEWAIT, "deploy", "tear_down_service"),
    ("abort", states.RESCUEWAIT, "rescue", "clean_up"),
]
CALLS = {
    "inspect": ("inspect_hardware", {}),
    "deploy": ("do_node_deploy", {}),
    "undeploy": ("do_node_tear_down", {}),
    "service": ("do_node_service", {"service_steps": flowkit.steps("raid.a")}),
    "rescue": ("do_node_rescue", {"rescue_password": "x"}),
    "unrescue": ("do_node_unrescue", {}),
}


@pytest.mark.parametrize(("verb", "state", "interface", "method"), FLOWS)
def test_w10_a_flow_that_lost_its_node_writes_nothing_more(world, verb, state, interface, method):
    world.kit.offer("service", "raid.a")
    world.kit.offer("deploy", "deploy.deploy", 100)
    node = world.node(state)
    during = {}

    def lost(*args, **kwargs):
        during.update(vars(world.read(node)))
        lose()

    setattr(getattr(world.driver, interface), method, lost)
    call, arguments = CALLS.get(verb, ("do_provisioning_action", {"action": verb}))
    world.call(call, node, **arguments)
    stored = world.read(node)
    assert during, "the driver was not asked"
    assert stored.provision_state == during["provision_state"]
    assert stored.last_error == during["last_error"]
    assert [kind for kind, severity in world.events(node) if severity == "ERROR"] == []


@pytest.mark.parametrize("name", sorted(steps.KINDS))
def test_w10_error_handlers_let_a_lost_lock_through(world, name):
    kind = steps.KINDS[name]
    for method in ("tear_down_cleaning", "tear_down_service", "clean_up"):
        setattr(world.driver.deploy, method, lose)
    node = world.node(kind.wait)
    with world.task(node) as task, pytest.raises(errors.LockLost):
        failures.step_error_handler(task, kind, "first error")
    assert world.read(node).provision_state == kind.wait


@pytest.mark.parametrize(
    ("verb", "state", "first", "then"),
    [
        ("manage", states.ENROLL, ("power", "get_power_state"), "a"),
        ("undeploy", states.ACTIVE, ("deploy", "clean_up"), "deploy.tear_down"),
        ("adopt", states.MANAGEABLE, ("deploy", "prepare"), "deploy.take_over"),
    ],
)
def test_w42_the_next_call_is_not_made_once_the_lock_is_lost(world, verb, state, first, then):
    world.kit.offer("verify", "management.a", 10)
    node = world.node(state)
    made = []
    interface, method = first
    original = getattr(getattr(world.driver, interface), method)

    def losing(task, *args, **kwargs):
        # As after a long freeze: another conductor has the node.
        task._lost = errors.LockLost(host="me", node="n", reason="it is held by other")
        return original(task, *args, **kwargs)

    setattr(getattr(world.driver, interface), method, losing)
    if "." in then:
        interface, method = then.split(".")
        setattr(getattr(world.driver, interface), method, lambda task: made.append(then))
    if verb in CALLS:
        name, arguments = CALLS[verb]
        world.call(name, node, **arguments)
    else:
        world.call("do_provisioning_action", node, action=verb)
    assert (made, world.kit.ran) == ([], [])
