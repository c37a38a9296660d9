"""Deploy interface autodetect: it chooses once, and is put back at the end."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.autodetect import AutodetectDeploy
from ironic_rs.drivers.agent.direct import DirectDeploy
from ironic_rs.drivers.agent.ramdisk_deploy import RamdiskDeploy
from tests.unit.drivers import kit
from tests.unit.drivers.agent.doubles import Boot

ISO = {"boot_iso": "http://192.0.2.1/x.iso", "ironic_ramdisk_deploy": True}
IMAGE = {"image_source": "http://192.0.2.1/x.img", "image_checksum": "d" * 64}


def task_of(state=states.AVAILABLE, **values: Any) -> kit.Task:
    boot = Boot()
    boot.capabilities = ("ramdisk_boot",)
    row = {"provision_state": state, "deploy_interface": "autodetect"} | values
    task = kit.Task(kit.node(**row), deploy=AutodetectDeploy(), boot=boot)
    interfaces = {"ramdisk": RamdiskDeploy(), "direct": DirectDeploy()}
    task.driver.find = lambda interface_type, name: interfaces[name]
    return task


@pytest.fixture(autouse=True)
def options(config):
    # oslo.config remembers that an option was overridden when the override is gone.
    CONF._get_opt_info("autodetect_deploy_interfaces").pop("location", None)
    config(None, enabled_deploy_interfaces=["autodetect", "direct", "ramdisk"])


@pytest.mark.parametrize(
    ("info", "name", "kind"), [(ISO, "ramdisk", RamdiskDeploy), (IMAGE, "direct", DirectDeploy)]
)
def test_the_interface_that_fits_takes_over_and_is_put_back(info, name, kind):
    task = task_of(instance_info=info)
    task.driver.deploy.switch_interface(task)
    assert task.node.deploy_interface == name
    assert type(task.driver.deploy) is kind
    assert task.saves == 0
    # What is chosen stays for the next flow, after a restart too.
    task.driver.deploy.switch_interface(task)
    assert task.node.deploy_interface == name
    task.driver.deploy.restore_interface(task)
    assert task.node.deploy_interface == "autodetect"
    assert "original_deploy_interface" not in task.node.driver_internal_info


def test_a_node_without_an_instance_gets_the_last(config):
    config(None, autodetect_deploy_interfaces=["direct", "ramdisk"])
    task = task_of()
    task.driver.deploy.switch_interface(task)
    assert task.node.deploy_interface == "direct"
    config(None, autodetect_deploy_interfaces=["ramdisk"])
    task = task_of(instance_info=IMAGE)
    task.driver.deploy.switch_interface(task)
    assert task.node.deploy_interface == "ramdisk"


def test_validation_is_that_of_the_chosen_interface():
    task = task_of(instance_info={**ISO})
    task.driver.deploy.validate(task)
    task.driver.boot.capabilities = ()
    with pytest.raises(errors.InvalidParameterValue, match="can not boot a ramdisk"):
        task.driver.deploy.validate(task)
    task.node.instance_info = {"image_source": "http://x/y"}
    with pytest.raises(errors.MissingParameterValue, match="image_checksum"):
        task.driver.deploy.validate(task)
    assert task.node.deploy_interface == "autodetect"
    assert isinstance(task.driver.deploy, AutodetectDeploy)


@pytest.mark.parametrize(
    "operation",
    [
        "deploy",
        "tear_down",
        "prepare",
        "clean_up",
        "take_over",
        "prepare_cleaning",
        "tear_down_cleaning",
        "prepare_service",
        "tear_down_service",
    ],
)
def test_nothing_is_done_before_an_interface_is_chosen(operation):
    task = task_of()
    with pytest.raises(errors.InstanceDeployFailure, match="has not chosen"):
        getattr(task.driver.deploy, operation)(task)


@pytest.mark.parametrize(
    ("names", "match"),
    [(["direct", "ansible"], "names ansible"), ([], "names none")],
)
def test_what_it_chooses_from_must_be_enabled(config, names, match):
    config(None, autodetect_deploy_interfaces=names)
    with pytest.raises(errors.InvalidParameterValue, match=match):
        AutodetectDeploy()


def test_of_the_built_in_names_what_is_not_there_does_not_count(config):
    config(None, enabled_deploy_interfaces=["autodetect", "direct", "bootc"])
    task = task_of(instance_info=ISO)
    task.driver.deploy.switch_interface(task)
    assert task.node.deploy_interface == "direct"


def test_heartbeats_are_understood(agent):
    task = task_of(states.CLEANWAIT, maintenance=True)
    task.shared = True
    task.driver.deploy.heartbeat(task, agent.url, "13.0")
    assert task.node.driver_internal_info["agent_url"] == agent.url
