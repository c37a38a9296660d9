"""Plans: which steps, in which order, and which one comes next."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.steps import collect, plan
from ironic_rs.conf import CONF
from ironic_rs.db import templates
from ironic_rs.domain import errors, states, steps
from tests.unit.conductor import flowkit


def names(task, kind):
    return [steps.step_id(step) for step in task.node.driver_internal_info[kind.steps_key]]


def test_automated_cleaning_runs_enabled_steps_by_priority_then_interface(world):
    world.kit.offer("clean", "raid.a", 10)
    world.kit.offer("clean", "power.b", 10)
    world.kit.offer("clean", "bios.c", 99)
    world.kit.offer("clean", "deploy.off", 0)
    world.kit.offer("clean", "vendor.send_raw", 50)
    with world.task(world.node()) as task:
        plan.set_cleaning_steps(task)
        assert names(task, steps.CLEAN) == ["bios.c", "power.b", "raid.a"]
        assert task.node.clean_step == {}
        assert task.node.driver_internal_info["clean_step_index"] is None


def test_priorities_can_be_overridden_by_configuration(world):
    world.kit.offer("clean", "raid.a", 10)
    world.kit.offer("clean", "raid.b", 0)
    CONF.set_override(
        "clean_step_priority_override",
        [{"raid.a": "0"}, {"raid.b": "7"}, {"raid.c": ""}, {"raid.d": "x"}],
        group="conductor",
    )
    with world.task(world.node()) as task:
        plan.set_cleaning_steps(task)
        assert names(task, steps.CLEAN) == ["raid.b"]
    assert world.kit.offered["clean"][0]["priority"] == 10, "W48: shared steps are not changed"


def test_verify_steps_follow_their_own_order_and_overrides(world):
    world.kit.offer("verify", "boot.a", 5)
    world.kit.offer("verify", "power.b", 5)
    world.kit.offer("verify", "raid.c", 0)
    world.kit.offer("verify", "bios.d", 3)
    CONF.set_override("verify_step_priority_override", [{"bios.d": "0"}], group="conductor")
    with world.task(world.node()) as task:
        assert [s["step"] for s in collect.verify_steps(task)] == ["b", "a"]


def test_user_steps_replace_template_steps_and_both_replace_the_driver_s(world):
    for name, priority in (("deploy.deploy", 100), ("raid.build", 50), ("bios.set", 40)):
        world.kit.offer("deploy", name, priority)
    templates.create(
        {
            "name": "CUSTOM_T",
            "steps": [
                {"interface": "raid", "step": "build", "args": {}, "priority": 60},
                {"interface": "bios", "step": "set", "args": {}, "priority": 0},
            ],
        }
    )
    node = world.node(
        states.DEPLOYING,
        instance_info={"traits": ["CUSTOM_T", "CUSTOM_OTHER"]},
        driver_internal_info={
            "user_deploy_steps": [
                {"interface": "raid", "step": "build", "args": {"n": 1}, "priority": 120}
            ]
        },
    )
    world.kit.offered["deploy"][1]["argsinfo"] = {"n": {"description": "number"}}
    with world.task(node) as task:
        plan.set_deployment_steps(task)
        assert names(task, steps.DEPLOY) == ["raid.build", "deploy.deploy"]
        assert task.node.driver_internal_info["deploy_steps"][0]["args"] == {"n": 1}


def test_reserved_deploy_steps_take_their_place_by_priority(world):
    world.kit.offer("deploy", "deploy.deploy", 100)
    node = world.node(
        states.DEPLOYING,
        driver_internal_info={
            "user_deploy_steps": [
                {"interface": "deploy", "step": "hold", "args": {}, "priority": 150},
                {"interface": "deploy", "step": "reboot", "args": {}, "priority": 50},
            ]
        },
    )
    with world.task(node) as task:
        plan.set_deployment_steps(task)
        steps_of = task.node.driver_internal_info["deploy_steps"]
        assert [step["step"] for step in steps_of] == ["hold", "deploy", "reboot"]


def test_a_new_plan_keeps_pointing_at_the_running_step(world):
    world.kit.offer("deploy", "deploy.deploy", 100)
    world.kit.offer("deploy", "raid.late", 10)
    node = world.node(states.DEPLOYING, driver_internal_info={"agent_url": "https://x"})
    with world.task(node) as task:
        plan.set_deployment_steps(task)
        task.node.deploy_step = task.node.driver_internal_info["deploy_steps"][0]
        task.node.driver_internal_info["deploy_step_index"] = 0
        world.kit.offer("deploy", "bios.first", 200)
        plan.revalidate_deployment(task)
        assert names(task, steps.DEPLOY) == ["bios.first", "deploy.deploy", "raid.late"]
        assert plan.next_index(task.node, steps.DEPLOY) == 2
        assert task.node.driver_internal_info["steps_validated"] is True


def test_steps_are_not_checked_again_before_there_is_an_agent(world):
    node = world.node(
        states.DEPLOYING,
        driver_internal_info={
            "user_deploy_steps": flowkit.steps("raid.inband", args={}, priority=1)
        },
    )
    with world.task(node) as task:
        plan.revalidate_deployment(task)
        assert "steps_validated" not in task.node.driver_internal_info
        task.node.driver_internal_info["agent_url"] = "https://x"
        with pytest.raises(errors.InvalidParameterValue, match=r"raid\.inband"):
            plan.revalidate_deployment(task)


@pytest.mark.parametrize(
    ("current", "info", "expected"),
    [
        ({}, {}, 0),
        ({"step": "x"}, {}, None),
        ({"step": "x"}, {"clean_step_index": 0}, 1),
        ({"step": "x"}, {"clean_step_index": 0, "skip_current_clean_step": False}, 0),
        ({"step": "x"}, {"clean_step_index": 2}, None),
        ({"step": "x"}, {"clean_step_index": 1, "cleaning_polling": True}, 2),
    ],
)
def test_the_next_position_and_its_flags(world, current, info, expected):
    plan_of_three = [{"step": name} for name in "abc"]
    node = world.node(
        states.CLEANING,
        clean_step=current,
        driver_internal_info={"clean_steps": plan_of_three, **info},
    )
    assert plan.next_index(node, steps.CLEAN) == expected
    assert "skip_current_clean_step" not in node.driver_internal_info
    assert "cleaning_polling" not in node.driver_internal_info


def test_reserved_and_child_steps_need_no_ramdisk():
    reserved = [{"step": "reboot"}, {"step": "wait"}]
    child = [{"step": "x", "execute_on_child_nodes": True, "requires_ramdisk": True}]
    assert not plan.needs_ramdisk(reserved + child)
    assert not plan.needs_ramdisk([{"step": "x", "requires_ramdisk": False}])
    assert plan.needs_ramdisk([*reserved, {"step": "x"}])
