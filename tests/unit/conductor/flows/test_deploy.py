"""Deployment and rebuild."""

from __future__ import annotations

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import nodes, traits
from ironic_rs.domain import errors, states
from tests.unit.conductor import flowkit


def deploy(world, node, **kwargs):
    world.call("do_node_deploy", node, **kwargs)
    return world.read(node)


@pytest.fixture(autouse=True)
def core_step(world):
    world.kit.offer("deploy", "deploy.deploy", 100, abortable=True)


def available(world, **values):
    return world.node(states.AVAILABLE, **values)


def test_a_deployment_ends_active(world):
    node = available(world, driver_internal_info={"agent_url": "https://old"})
    stored = deploy(world, node)
    assert stored.provision_state == states.ACTIVE
    assert stored.target_provision_state is None
    assert stored.conductor_affinity == world.conductor_id
    assert stored.deploy_step == {}
    assert stored.driver_internal_info == {"deploy_steps": None}
    assert world.kit.ran == ["deploy.deploy"]
    assert world.events(node) == [("deployment_start", "INFO"), ("deployment_end", "INFO")]


def test_a_deployment_waits_for_the_agent_and_goes_on(world):
    world.kit.results["deploy.deploy"] = states.DEPLOYWAIT
    node = available(world)
    stored = deploy(world, node)
    assert stored.provision_state == states.DEPLOYWAIT
    assert stored.target_provision_state == states.ACTIVE
    world.call("continue_node_deploy", node)
    assert world.read(node).provision_state == states.ACTIVE
    assert world.kit.ran == ["deploy.deploy"], "a step never runs twice"


def test_steps_of_the_user_that_only_the_agent_knows_are_checked_when_it_runs(world):
    world.kit.results["deploy.deploy"] = states.DEPLOYWAIT
    node = available(world)
    wanted = flowkit.steps("raid.inband", args={}, priority=50)
    deploy(world, node, deploy_steps=wanted)
    with world.task(node) as task:
        task.node.driver_internal_info["agent_url"] = "https://x"
        world.kit.offer("deploy", "raid.inband", 0)
        task.flows.resume("deploy")
    assert world.kit.ran == ["deploy.deploy", "raid.inband"]
    assert world.read(node).provision_state == states.ACTIVE


def test_a_step_that_not_even_the_agent_knows_fails_the_deployment(world):
    world.kit.results["deploy.deploy"] = states.DEPLOYWAIT
    node = available(world)
    deploy(world, node, deploy_steps=flowkit.steps("raid.unknown", args={}, priority=50))
    with world.task(node) as task:
        task.node.driver_internal_info["agent_url"] = "https://x"
        task.flows.resume("deploy")
    stored = world.read(node)
    assert stored.provision_state == states.DEPLOYFAIL
    assert "raid.unknown" in stored.last_error


@pytest.mark.parametrize("configdrive", ["aGVsbG8=", "http://host/cd", {"meta_data": {"a": 1}}])
def test_the_config_drive_is_stored(world, configdrive):
    stored = deploy(world, available(world), configdrive=configdrive)
    assert stored.instance_info["configdrive"] == configdrive


@pytest.mark.parametrize("configdrive", [None, "", {}])
def test_no_config_drive_keeps_the_one_of_the_node(world, configdrive):
    node = world.node(states.ACTIVE, instance_info={"configdrive": "old"})
    assert deploy(world, node, rebuild=True, configdrive=configdrive).instance_info == {
        "configdrive": "old"
    }


def test_a_config_drive_that_can_not_be_stored_fails_the_deployment(world, monkeypatch):
    original = nodes.update

    def update(node, given, **kwargs):
        if given.get("instance_info", {}).get("configdrive"):
            raise errors.TemporaryFailure("value too long")
        return original(node, given, **kwargs)

    monkeypatch.setattr(nodes, "update", update)
    monkeypatch.setattr("ironic_rs.conductor.task.outlast", lambda write, check=None: write())
    stored = deploy(world, available(world), configdrive="aGVsbG8=")
    assert stored.provision_state == states.DEPLOYFAIL
    assert "config drive" in stored.last_error
    assert "value too long" in stored.last_error
    assert "configdrive" not in stored.instance_info


@pytest.mark.parametrize(
    ("info", "kind", "whole"),
    [
        ({"image_source": "http://h/i.raw"}, "whole-disk", True),
        ({"image_source": "http://h/i", "kernel": "k", "ramdisk": "r"}, "partition", False),
        ({"image_source": "http://h/i", "image_type": "partition"}, "partition", False),
        ({"image_source": "oci://h/i", "kernel": "k"}, "whole-disk", True),
    ],
)
def test_the_image_type_is_found_out(world, info, kind, whole):
    seen = {}
    world.driver.deploy.prepare = lambda task: seen.update(
        type=task.node.instance_info["image_type"],
        whole=task.node.driver_internal_info["is_whole_disk_image"],
    )
    deploy(world, available(world, instance_info=info))
    assert seen == {"type": kind, "whole": whole}


def test_an_image_source_may_be_a_directory(world):
    stored = deploy(world, available(world, instance_info={"image_source": "http://h/tree/"}))
    assert stored.driver_internal_info["is_source_a_path"] is True
    assert "image_type" not in stored.instance_info


def test_a_node_without_an_agent_yet_waits_and_prepares_again(world):
    answers = [errors.AgentConnectionFailed(reason="no"), None]

    def prepare(task):
        answer = answers.pop(0)
        if answer:
            raise answer

    world.driver.deploy.prepare = prepare
    node = available(world)
    assert deploy(world, node).provision_state == states.DEPLOYWAIT
    world.call("continue_node_deploy", node)
    assert world.read(node).provision_state == states.ACTIVE
    assert answers == []


@pytest.mark.parametrize(
    ("error", "text"),
    [(errors.NetworkError("no switch"), "no switch"), (KeyError("x"), "unexpected KeyError")],
)
def test_a_failing_preparation_fails_the_deployment_without_clean_up(world, error, text):
    cleaned = []

    def prepare(task):
        raise error

    world.driver.deploy.prepare = prepare
    world.driver.deploy.clean_up = cleaned.append
    stored = deploy(world, available(world))
    assert stored.provision_state == states.DEPLOYFAIL
    assert text in stored.last_error
    assert cleaned == []


def test_a_driver_without_steps_fails_the_deployment(world):
    world.kit.offered["deploy"].clear()
    stored = deploy(world, available(world))
    assert stored.provision_state == states.DEPLOYFAIL
    assert "no deploy steps" in stored.last_error


def test_a_failed_step_is_cleaned_up_after(world):
    cleaned = []
    world.kit.results["deploy.deploy"] = errors.NetworkError("first")
    world.driver.deploy.clean_up = cleaned.append
    stored = deploy(world, available(world))
    assert len(cleaned) == 1
    assert stored.provision_state == states.DEPLOYFAIL
    assert stored.maintenance is False


def test_a_failing_clean_up_is_appended_to_the_first_error(world):
    def clean_up(task):
        raise errors.NetworkError("second")

    world.kit.results["deploy.deploy"] = errors.NetworkError("first")
    world.driver.deploy.clean_up = clean_up
    text = deploy(world, available(world)).last_error
    assert text.index("first") < text.index("second")


def test_a_wanted_console_is_started_again(world):
    started = []
    world.driver.console.start_console = started.append
    deploy(world, available(world, console_enabled=True))
    assert len(started) == 1


def test_a_console_that_does_not_start_does_not_fail_the_deployment(world):
    def start(task):
        raise OSError("no")

    world.driver.console.start_console = start
    stored = deploy(world, available(world, console_enabled=True))
    assert stored.provision_state == states.ACTIVE
    assert stored.console_enabled is False
    assert "console" in stored.last_error


# Requests.


def test_w24_a_node_without_image_information_can_be_rebuilt(world):
    assert deploy(world, world.node(states.ACTIVE), rebuild=True).provision_state == states.ACTIVE


def test_a_rebuild_forgets_what_the_image_service_said(world):
    info = {
        "image_source": "glance://1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
        "kernel": "k",
        "ramdisk": "r",
        "boot_iso": "i",
        "root_gb": 10,
    }
    stored = deploy(world, world.node(states.ACTIVE, instance_info=info), rebuild=True)
    assert set(stored.instance_info) == {"image_source", "root_gb", "image_type"}


@pytest.mark.parametrize(
    ("values", "kwargs", "error"),
    [
        ({"state": states.MANAGEABLE}, {}, errors.InvalidStateRequested),
        ({"state": states.AVAILABLE, "maintenance": True}, {}, errors.NodeInMaintenance),
        ({"state": states.AVAILABLE}, {"rebuild": True}, errors.InvalidStateRequested),
        (
            {"state": states.ACTIVE, "protected": True},
            {"rebuild": True},
            errors.NodeProtected,
        ),
        (
            {"state": states.AVAILABLE},
            {"deploy_steps": [{"interface": "vendor", "step": "send_raw", "args": {}}]},
            errors.StepNotAllowed,
        ),
        (
            {"state": states.AVAILABLE, "instance_info": {"traits": ["CUSTOM_A"]}},
            {},
            errors.InstanceDeployFailure,
        ),
        (
            {"state": states.AVAILABLE, "instance_info": {"traits": "CUSTOM_A"}},
            {},
            errors.InstanceDeployFailure,
        ),
    ],
)
def test_a_refused_deployment_leaves_the_node_as_it_was(world, values, kwargs, error):
    node = world.node(**values)
    with pytest.raises(error):
        deploy(world, node, **kwargs)
    stored = world.read(node)
    assert stored.provision_state == node.provision_state
    assert stored.instance_info == node.instance_info
    assert stored.driver_internal_info == node.driver_internal_info
    assert stored.reservation is None


def test_failed_validation_is_the_caller_s_mistake(world):
    def refuse(task):
        raise errors.MissingParameterValue("image_source is missing")

    world.driver.deploy.validate = refuse
    with pytest.raises(errors.InstanceDeployFailure, match="image_source is missing") as caught:
        deploy(world, available(world))
    assert caught.value.code == 400


def test_traits_of_the_instance_must_be_traits_of_the_node(world):
    node = available(world, instance_info={"traits": ["CUSTOM_A"]})
    traits.set_traits(node.id, ["CUSTOM_A", "CUSTOM_B"])
    assert deploy(world, node).provision_state == states.ACTIVE


def test_a_disallowed_boot_mode_is_refused(world):
    CONF.set_override("disallowed_deployment_boot_modes", ["bios"], group="conductor")
    with pytest.raises(errors.BootModeNotAllowed):
        deploy(world, available(world, properties={"capabilities": "boot_mode:bios"}))


def test_no_more_deployments_than_allowed(world):
    CONF.set_override("max_concurrent_deploy", 1, group="conductor")
    world.node(states.DEPLOYWAIT, conductor_group="other")
    with pytest.raises(errors.ConcurrentActionLimit):
        deploy(world, available(world))
    CONF.set_override("max_concurrent_per_conductor_group", True, group="conductor")
    assert deploy(world, available(world)).provision_state == states.ACTIVE


def test_a_refused_worker_leaves_the_state_and_says_why(world):
    world.workers.full = True
    node = available(world)
    with pytest.raises(errors.NoFreeConductorWorker):
        deploy(world, node)
    stored = world.read(node)
    assert stored.provision_state == states.AVAILABLE
    assert stored.target_provision_state is None
    assert "worker" in stored.last_error
    assert stored.reservation is None


@pytest.mark.parametrize(
    ("source", "info", "lessee"),
    [
        ("instance", {"project_id": "p1"}, "p1"),
        ("instance", {}, None),
        ("request", {}, "caller"),
        ("none", {"project_id": "p1"}, None),
    ],
)
def test_the_node_is_leased_to_the_project_it_is_deployed_for(world, source, info, lessee):
    CONF.set_override("automatic_lessee_source", source, group="conductor")
    world.context.project_id = "caller"
    stored = deploy(world, available(world, instance_info=info))
    assert stored.lessee == lessee
    assert bool(stored.driver_internal_info.get("automatic_lessee")) == (lessee is not None)


def test_an_existing_lessee_stays(world):
    node = available(world, lessee="p0", instance_info={"project_id": "p1"})
    assert deploy(world, node).lessee == "p0"


# Going on.


def test_w13_without_a_worker_a_flow_goes_back_to_waiting(world):
    world.kit.results["deploy.deploy"] = states.DEPLOYWAIT
    node = available(world)
    deploy(world, node)
    world.workers.full = True
    with pytest.raises(errors.NoFreeConductorWorker):
        world.call("continue_node_deploy", node)
    stored = world.read(node)
    assert stored.provision_state == states.DEPLOYWAIT
    assert stored.target_provision_state == states.ACTIVE


def test_a_driver_may_ask_to_go_on_before_its_step_has_returned(world):
    node = world.node(
        states.DEPLOYING,
        deploy_step={"interface": "deploy", "step": "deploy"},
        driver_internal_info={
            "deploy_steps": flowkit.steps("deploy.deploy"),
            "deploy_step_index": 0,
        },
    )
    world.call("continue_node_deploy", node)
    assert world.read(node).provision_state == states.ACTIVE


def test_set_failed_state_powers_off_and_keeps_its_error(world):
    node = world.node(states.DEPLOYWAIT, deploy_step={"interface": "deploy", "step": "x"})
    with world.task(node) as task:
        task.flows.fail("deploy", "the agent says no", collect_logs=True)
    stored = world.read(node)
    assert stored.provision_state == states.DEPLOYFAIL
    assert stored.power_state == states.POWER_OFF
    assert stored.last_error.startswith("the agent says no. Next: ")


def test_w15_a_deployment_that_has_failed_already_is_only_recorded(world):
    from ironic_rs.conductor import failures

    node = world.node(states.DEPLOYFAIL, deploy_step={"step": "x"})
    with world.task(node) as task:
        failures.deploying_error_handler(task, "timeout waiting for callback")
    stored = world.read(node)
    assert stored.provision_state == states.DEPLOYFAIL
    assert stored.last_error.startswith("timeout waiting for callback. Next: ")
    assert stored.deploy_step == {}
