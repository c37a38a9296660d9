"""Deploy interface ramdisk: the instance boots, the agent is not asked for anything."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.ramdisk_deploy import RamdiskDeploy
from tests.unit.drivers import kit
from tests.unit.drivers.agent.doubles import Boot, Network

ISO = {"boot_iso": "http://192.0.2.1/x.iso"}


@pytest.fixture(autouse=True)
def no_volumes(config, monkeypatch):
    """Nodes without volume targets, and without a database to look for them."""
    monkeypatch.setattr("ironic_rs.db.volumes.targets_of_node", lambda _id: [])


def task_of(state=states.DEPLOYING, **values: Any) -> kit.Task:
    calls: list[str] = []
    boot = Boot(calls)
    boot.capabilities = ("ramdisk_boot",)
    row: dict[str, Any] = {"provision_state": state, "instance_info": dict(ISO)}
    task = kit.Task(
        kit.node(**row | values), deploy=RamdiskDeploy(), boot=boot, network=Network(calls)
    )
    record = task.flows._call

    def in_order(*call: Any) -> None:
        calls.append(call[1])
        record(*call)

    task.flows._call = in_order  # type: ignore[method-assign]
    return task


@pytest.mark.parametrize(
    ("info", "supported"),
    [
        ({}, False),
        (ISO, False),
        ({"ironic_ramdisk_deploy": True}, False),
        ({"ironic_ramdisk_deploy": "true", **ISO}, True),
        ({"ironic_ramdisk_deploy": True, "kernel": "k"}, False),
        ({"ironic_ramdisk_deploy": True, "kernel": "k", "ramdisk": "r"}, True),
        ({"ironic_ramdisk_deploy": "no", **ISO}, False),
    ],
)
def test_it_is_chosen_only_when_it_is_asked_for(info, supported):
    task = task_of(states.AVAILABLE, instance_info=info)
    assert task.driver.deploy.supports_deploy(task) is supported


def test_the_boot_interface_must_be_able_to(monkeypatch):
    task = task_of(states.AVAILABLE)
    task.driver.deploy.validate(task)
    task.node.instance_info["capabilities"] = {"boot_mode": "coreboot"}
    with pytest.raises(errors.InvalidParameterValue, match="coreboot"):
        task.driver.deploy.validate(task)
    task.driver.boot.capabilities = ("pxe_boot",)
    with pytest.raises(errors.InvalidParameterValue, match="can not boot a ramdisk"):
        task.driver.deploy.validate(task)


def test_a_deployment_boots_the_instance_in_its_networks():
    task = task_of()
    task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == ["power off"]
    assert task.driver.deploy.deploy(task) is None
    assert task.driver.boot.calls[1:] == [
        "power off",
        "configure_tenant_networks",
        "prepare_instance",
        "power on",
    ]


@pytest.mark.parametrize("state", [states.ACTIVE, states.UNRESCUING, states.ADOPTING])
def test_a_node_with_its_instance_is_taken_over(state):
    task = task_of(state)
    task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == ["prepare_instance"]


def test_nothing_is_prepared_in_a_rescue():
    task = task_of(states.RESCUE)
    task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == []


@pytest.mark.parametrize("able", [True, False])
def test_a_config_drive_that_can_not_be_given_is_told(caplog, able):
    task = task_of(instance_info={**ISO, "configdrive": "x"})
    if able:
        task.driver.boot.capabilities = ("ramdisk_boot", "ramdisk_boot_configdrive")
    task.driver.deploy.deploy(task)
    assert ("config drive" in caplog.text) is not able
