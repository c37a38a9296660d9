"""Checks of user and template steps."""

from __future__ import annotations

import pytest

from ironic_rs.conductor.steps import validate
from ironic_rs.domain import errors, steps
from tests.unit.conductor import flowkit

RESERVED = ("power_on", "power_off", "reboot", "hold", "wait")


def checked(world, kind, wanted, **kwargs):
    with world.task(world.node()) as task:
        return validate.validate(task, kind, wanted, source="the request", **kwargs)


@pytest.mark.parametrize("kind", steps.KINDS.values(), ids=lambda kind: kind.name)
def test_w02_reserved_and_child_steps_stay_in_place_and_order(world, kind):
    world.kit.offer(kind.name, "raid.build", 10)
    wanted = flowkit.steps("hold", "raid.build", *RESERVED, args={}, priority=5)
    wanted.insert(2, {**wanted[1], "step": "unknown", "execute_on_child_nodes": True})
    result = checked(world, kind, wanted)
    assert [step["step"] for step in result] == [step["step"] for step in wanted]


def test_an_unknown_step_is_refused_by_name(world):
    with pytest.raises(errors.InvalidParameterValue, match=r"does not support clean step raid\.no"):
        checked(world, steps.CLEAN, flowkit.steps("raid.no"))


def test_a_step_unknown_before_the_agent_runs_is_left_out(world):
    wanted = flowkit.steps("raid.no", args={}, priority=3)
    assert checked(world, steps.DEPLOY, wanted, skip_missing=True) == []


def test_all_problems_are_told_at_once(world):
    world.kit.offer(
        "clean", "raid.build", argsinfo={"disks": {"description": "which", "required": True}}
    )
    wanted = [
        {"interface": "raid", "step": "build", "args": {"colour": "red"}},
        {"interface": "bios", "step": "gone"},
        {"interface": "deploy", "step": "wait", "args": {"seconds": "soon"}},
        {"interface": "deploy", "step": "hold", "execute_on_child_nodes": True},
    ]
    with pytest.raises(errors.InvalidParameterValue) as caught:
        checked(world, steps.CLEAN, wanted)
    text = str(caught.value)
    for part in ("unexpected arguments: colour", "disks (which)", "bios.gone", "seconds", "hold"):
        assert part in text


def test_a_step_that_needs_the_ramdisk_is_refused_without_one(world):
    world.kit.offer("clean", "raid.build", requires_ramdisk=True)
    world.kit.offer("clean", "bios.reset", requires_ramdisk=False)
    wanted = flowkit.steps("raid.build", "bios.reset")
    with pytest.raises(errors.InvalidParameterValue, match=r"raid\.build needs a ramdisk"):
        checked(world, steps.CLEAN, wanted, disable_ramdisk=True)


def test_w22_checked_steps_know_whether_they_need_the_ramdisk(world):
    world.kit.offer("service", "raid.build", requires_ramdisk=False, abortable=True, priority=7)
    [step] = checked(world, steps.SERVICE, flowkit.steps("raid.build"))
    assert step["requires_ramdisk"] is False
    assert step["abortable"] is True
    assert step["priority"] == 7


def test_w23_a_digit_string_is_a_priority_of_a_deploy_step(world):
    world.kit.offer("deploy", "raid.build", 10)
    [step] = checked(world, steps.DEPLOY, flowkit.steps("raid.build", args={}, priority="42"))
    assert step["priority"] == 42


def test_the_core_deploy_step_can_only_be_disabled(world):
    world.kit.offer("deploy", "deploy.deploy", 100)
    off = flowkit.steps("deploy.deploy", args={}, priority=0)
    assert checked(world, steps.DEPLOY, off)
    with pytest.raises(errors.InvalidParameterValue, match="only disabled"):
        checked(world, steps.DEPLOY, flowkit.steps("deploy.deploy", args={}, priority=90))


def test_deploy_steps_must_differ(world):
    world.kit.offer("deploy", "raid.build", 10)
    wanted = flowkit.steps("raid.build", "raid.build", args={}, priority=5)
    with pytest.raises(errors.InvalidParameterValue, match=r"duplicate steps: raid\.build"):
        checked(world, steps.DEPLOY, wanted)


def test_w48_the_driver_s_own_step_is_never_changed(world):
    world.kit.offer("clean", "raid.build", 10)
    before = dict(world.kit.offered["clean"][0])
    [step] = checked(world, steps.CLEAN, flowkit.steps("raid.build"))
    step["abort_after"] = True
    assert world.kit.offered["clean"][0] == before


def test_a_disallowed_step_is_refused_before_anything_happens(world):
    with pytest.raises(errors.StepNotAllowed, match=r"vendor\.send_raw"):
        validate.refuse_disallowed(steps.CLEAN, flowkit.steps("raid.x", "vendor.send_raw"))
