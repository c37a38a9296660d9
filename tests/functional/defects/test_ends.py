"""How flows end: aborts, time-outs, tear-down, inspection, verification
(W15, W16, W18, W19, W24, W32, W47)."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from tests.functional.defects.site import WAIT, Site, age, steps

INSTANCE = {"image_source": "http://i/image", "root_gb": 1}
#: What an event says that the state of the node does not know.
ILLEGAL = "is not possible in provision state"


def fail(text: str = "no answer") -> Any:
    """A method of a driver that fails."""

    def method(task: Any, *args: Any, **kwargs: Any) -> None:
        raise errors.RedfishError(error=text)

    return method


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.exc_info]


# Aborts and time-outs


def test_w15_a_deploy_timeout_ends_without_a_second_failure(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = site.node(states.DEPLOYWAIT, instance_info=INSTANCE)
    age(uuid, 100_000)

    site.tick("_check_deploy_timeouts")

    node = site.shown(uuid)
    assert node["provision_state"] == states.DEPLOYFAIL
    assert node["last_error"].startswith("Timeout reached while waiting for callback")
    assert tracebacks(caplog) == []
    assert ILLEGAL not in caplog.text


def test_w15_a_failed_clean_up_after_a_deploy_abort_is_only_recorded(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.kit.interfaces["deploy"].clean_up = fail("no way to the BMC")
    uuid = site.node(states.DEPLOYWAIT)

    node = site.provision(uuid, "abort")

    assert node["provision_state"] == states.DEPLOYFAIL
    assert "aborted on request" in node["last_error"]
    assert "no way to the BMC" in node["last_error"]
    assert ILLEGAL not in caplog.text
    assert node["reservation"] is None


def test_w16_an_aborted_held_deployment_keeps_its_instance(site: Site) -> None:
    torn_down: list[str] = []
    site.kit.interfaces["deploy"].tear_down = lambda task: torn_down.append("instance")
    uuid = site.node(
        states.DEPLOYHOLD,
        deploy_step=steps("hold")[0],
        instance_info=INSTANCE,
        instance_uuid="00000000-0000-4000-8000-00000000000a",
    )
    network = site.kit.interfaces["network"]
    network.vif_list = lambda task: [{"id": "vif"}]
    network.vif_detach = lambda task, vif: torn_down.append(vif)

    node = site.provision(uuid, "abort")

    assert (node["provision_state"], node["target_provision_state"]) == ("deploy failed", "active")
    assert torn_down == []
    assert node["instance_info"] == INSTANCE
    assert node["instance_uuid"] == "00000000-0000-4000-8000-00000000000a"
    assert "aborted on request" in node["last_error"]
    site.kit.offer("deploy", "deploy.deploy", 80)
    assert site.provision(uuid, "active")["provision_state"] == states.ACTIVE


@pytest.mark.parametrize("place", [states.SERVICEWAIT, states.SERVICEHOLD, states.SERVICEFAIL])
def test_w19_an_aborted_servicing_is_active_only_when_it_is_over(site: Site, place: str) -> None:
    begun, go = threading.Event(), threading.Event()

    def tear_down(task: Any) -> None:
        begun.set()
        go.wait(WAIT)

    site.kit.interfaces["deploy"].tear_down_service = tear_down
    step = {**steps("raid.a")[0], "abortable": True}
    uuid = site.node(place, service_step=step)

    assert site.ask(uuid, "abort").status == 202

    assert begun.wait(WAIT)
    meanwhile = site.shown(uuid)["provision_state"]
    go.set()
    site.settle()
    assert meanwhile == states.SERVICEFAIL, "not active while a worker still tears down"
    node = site.shown(uuid)
    assert node["provision_state"] == states.ACTIVE
    assert node["service_step"] == {}


def test_w19_an_abort_that_fails_leaves_no_active_node_in_maintenance(site: Site) -> None:
    site.kit.interfaces["deploy"].tear_down_service = fail("no way to the BMC")
    step = {**steps("raid.a")[0], "abortable": True}
    uuid = site.node(states.SERVICEWAIT, service_step=step)

    node = site.provision(uuid, "abort")

    assert node["provision_state"] == states.SERVICEFAIL
    assert node["service_step"] == {}
    assert "no way to the BMC" in node["last_error"]


# Tear-down and rebuild


def allocated(site: Site, **values: Any) -> str:
    """An active node with an instance that came by an allocation."""
    uuid = site.node(states.AVAILABLE, resource_class="gold", **values)
    answer = site.api.post("/v1/allocations", {"resource_class": "gold", "name": "a"})
    assert answer.status == 201, answer.body
    site.settle()
    site.kit.offer("deploy", "deploy.deploy", 80)
    site.api.patch(
        f"/v1/nodes/{uuid}", [{"op": "add", "path": "/instance_info/image_source", "value": "x"}]
    )
    node = site.provision(uuid, "active")
    assert (node["provision_state"], node["allocation_uuid"]) == (
        states.ACTIVE,
        answer.body["uuid"],
    )
    return uuid


@pytest.mark.parametrize("broken", ["tear_down", "clean_up"])
def test_w18_a_failed_tear_down_forgets_nothing(site: Site, broken: str) -> None:
    uuid = allocated(site)
    detached: list[str] = []
    network = site.kit.interfaces["network"]
    network.vif_list = lambda task: [{"id": "vif"}]
    network.vif_detach = lambda task, vif: detached.append(vif)
    setattr(site.kit.interfaces["deploy"], broken, fail("volume is busy"))
    before = site.shown(uuid)

    node = site.provision(uuid, "deleted")

    assert node["provision_state"] == states.ERROR
    assert "volume is busy" in node["last_error"]
    for field in ("instance_info", "instance_uuid", "allocation_uuid", "instance_name"):
        assert node[field] == before[field], field
    assert site.api.get("/v1/allocations/a").status == 200
    assert detached == []
    delattr(site.kit.interfaces["deploy"], broken)
    node = site.provision(uuid, "deleted")
    assert node["provision_state"] == states.AVAILABLE
    assert (node["instance_info"], node["instance_uuid"]) == ({}, None)
    assert site.api.get("/v1/allocations/a").status == 404
    assert detached == ["vif"]


def test_w18_an_unexpected_error_with_a_vif_fails_once(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(task: Any) -> None:
        raise OSError("no route to Neutron")

    site.kit.interfaces["network"].vif_list = broken
    uuid = site.node(states.ACTIVE, instance_info=INSTANCE)

    node = site.provision(uuid, "deleted")

    assert node["provision_state"] == states.ERROR
    assert "no route to Neutron" in node["last_error"]
    assert ILLEGAL not in caplog.text
    failures = [row for row in site.history(uuid) if row["severity"] == "ERROR"]
    assert len(failures) == 1


def test_w18_without_a_runbook_the_cleaning_after_it_fails(site: Site) -> None:
    CONF.set_override("automated_cleaning_step_source", "runbook", group="conductor")
    uuid = site.node(states.ACTIVE, instance_info=INSTANCE)

    node = site.provision(uuid, "deleted")

    assert node["provision_state"] == states.CLEANFAIL
    assert "runbook" in node["last_error"]
    assert node["instance_info"] == {}, "the instance is gone"
    assert node["reservation"] is None


@pytest.mark.parametrize("target", ["rebuild", "active"])
def test_w24_a_node_without_image_information_can_be_rebuilt(site: Site, target: str) -> None:
    site.kit.offer("deploy", "deploy.deploy", 80)
    uuid = site.node(states.ACTIVE if target == "rebuild" else states.DEPLOYFAIL)

    node = site.provision(uuid, target)

    assert (node["provision_state"], node["last_error"]) == (states.ACTIVE, None)


# Inspection and verification


@pytest.mark.parametrize(
    "error",
    [
        errors.UnsupportedDriverExtension(driver="fake-hardware", extension="inspection"),
        errors.HardwareInspectionFailure(error="no answer"),
        OSError("no route"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_w32_an_inspection_that_fails_leaves_no_inspecting_node(
    site: Site, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def inspect(task: Any) -> None:
        raise error

    site.kit.interfaces["inspect"].inspect_hardware = inspect
    uuid = site.node(states.MANAGEABLE)

    node = site.provision(uuid, "inspect")

    assert node["provision_state"] == states.INSPECTFAIL
    assert node["last_error"]
    assert ILLEGAL not in caplog.text


def test_w32_an_inspection_that_its_driver_has_failed_is_not_failed_twice(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    def inspect(task: Any) -> None:
        task.event("fail", last_error="the driver says no")
        raise errors.HardwareInspectionFailure(error="the driver says no")

    site.kit.interfaces["inspect"].inspect_hardware = inspect
    uuid = site.node(states.MANAGEABLE)

    with caplog.at_level(logging.WARNING):
        node = site.provision(uuid, "inspect")

    assert node["provision_state"] == states.INSPECTFAIL
    assert "the driver says no" in node["last_error"]
    assert ILLEGAL not in caplog.text
    assert tracebacks(caplog) == []


@pytest.mark.parametrize("broken", ["validate", "get_power_state"])
def test_w47_no_step_touches_a_machine_whose_power_can_not_be_read(site: Site, broken: str) -> None:
    site.kit.offer("verify", "management.reset_bmc", 10)
    setattr(site.kit.interfaces["power"], broken, fail("wrong password"))
    uuid = site.enroll()

    node = site.provision(uuid, "manage")

    assert node["provision_state"] == states.ENROLL
    assert "wrong password" in node["last_error"]
    assert site.kit.ran == []


def test_w47_no_step_runs_after_one_that_failed(site: Site) -> None:
    site.kit.offer("verify", "management.a", 10)
    site.kit.offer("verify", "management.b", 5)
    site.kit.results["management.a"] = errors.RedfishError(error="step a is broken")
    uuid = site.enroll()

    node = site.provision(uuid, "manage")

    assert site.kit.ran == ["management.a"]
    assert node["provision_state"] == states.ENROLL
    assert "step a is broken" in node["last_error"]
