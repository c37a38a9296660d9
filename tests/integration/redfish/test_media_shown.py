"""Media that a BMC shows too long, too late or never (field-cases.md K06/48 and 49)."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from ironic_rs.conductor.periodics import timeouts
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.domain import states
from tests.harness.bmc import CD, RESET, ROOT, Answer, Bmc, error

pytestmark = pytest.mark.timeout(120)

ISO = "http://192.0.2.9/boot.iso"
MONITOR = f"{ROOT}/TaskService/Tasks/7"
Run = Callable[..., models.Node]
Enrol = Callable[..., models.Node]


@pytest.fixture
def node(bmc: Bmc, enrol: Enrol) -> models.Node:
    """A machine that the BMC itself fetches its boot ISO for."""
    CONF.set_override("ramdisk_image_download_source", "http", "deploy")
    CONF.set_override("http_url", "http://192.0.2.1:8080", "deploy")
    CONF.set_override("endpoint_override", "http://192.0.2.1:6385", "service_catalog")
    CONF.set_override("deploy_logs_collect", "never", "agent")
    made = enrol(bmc, deploy_iso=ISO)
    nodes.update(made, {"provision_state": states.MANAGEABLE}, fence=None)
    return nodes.get(made.uuid)


@pytest.fixture
def inspect(node: models.Node, run: Run) -> Callable[[], models.Node]:
    """Ask for an inspection; return the node when its ramdisk was asked to boot."""
    return lambda: run(node, "inspect_hardware")


def acts(bmc: Bmc) -> list[str]:
    """What was done to the machine, in order."""
    return [
        "On"
        if request.path == RESET and request.body["ResetType"] == "On"
        else "Off"
        if request.path == RESET
        else request.path.rpartition(".")[2]
        for request in bmc.asked("POST")
    ]


def give_up(conductor: Conductor, node: models.Node) -> models.Node:
    """Let the wait for the ramdisk be over."""
    long_ago = datetime.datetime(2020, 1, 1)
    nodes.update(nodes.get(node.uuid), {"inspection_started_at": long_ago}, fence=None)
    timeouts.check(conductor, timeouts.INSPECT)
    assert conductor.tasks.book.wait_empty(60)
    return nodes.get(node.uuid)


@pytest.mark.parametrize("polling", [True, False])
def test_48_a_slot_that_looks_full_after_the_eject_is_filled_before_each_boot(
    bmc: Bmc, node: models.Node, run: Run, inspect: Callable[[], models.Node], polling: bool
) -> None:
    """Inspect, abort, inspect again with the same URL, which the slot never ceases to show."""
    CONF.set_override("enable_vmedia_insert_polling", polling, "redfish")
    bmc.script("POST", "Cd/.*EjectMedia$", Answer(204))
    for _round in range(2):
        found = inspect()
        assert (found.provision_state, found.last_error) == (states.INSPECTWAIT, None)
        run(node, "do_provisioning_action", action="abort")
        failed = nodes.get(node.uuid)
        nodes.update(failed, {"provision_state": states.MANAGEABLE}, fence=None)
    done = acts(bmc)
    for place, act in enumerate(done):
        if act == "On":
            off = max((n for n in range(place) if done[n] == "Off"), default=0)
            assert "InsertMedia" in done[off:place], done
    assert done.count("InsertMedia") == done.count("On") == 2


def test_48_an_insert_that_meets_the_running_eject_is_tried_again_before_the_boot(
    bmc: Bmc, inspect: Callable[[], models.Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ironic_rs.drivers.redfish.virtual_media.INSERT_RETRY_INTERVAL", 0)
    bmc.tree[CD].update(Inserted=True, Image=ISO)
    bmc.script("POST", "InsertMedia$", Answer(500, error("eject in progress")), times=2)
    assert inspect().provision_state == states.INSPECTWAIT
    assert acts(bmc)[-4:] == ["InsertMedia", "InsertMedia", "InsertMedia", "On"]


#: Ways to accept a medium that never comes, by what the BMC answers.
NEVER = {
    "204": Answer(204),
    "202 with a task that runs on": Answer(202, {}, {"Location": MONITOR}),
}


@pytest.mark.parametrize("answer", NEVER)
def test_49_with_polling_the_operation_fails_in_time_and_nothing_boots(
    bmc: Bmc, inspect: Callable[[], models.Node], answer: str
) -> None:
    CONF.set_override("enable_vmedia_insert_polling", True, "redfish")
    bmc.script("POST", "InsertMedia$", NEVER[answer])
    bmc.tree[MONITOR] = {"Id": "7", "Name": "insert", "TaskState": "Running", "Messages": []}
    failed = inspect()
    assert failed.provision_state == states.INSPECTFAIL
    for text in (failed.uuid, ISO, CD, "is not inserted after 1 s"):
        assert text in str(failed.last_error)
    assert "On" not in acts(bmc)


def test_49_with_polling_the_words_of_the_task_are_told(
    bmc: Bmc, inspect: Callable[[], models.Node]
) -> None:
    CONF.set_override("enable_vmedia_insert_polling", True, "redfish")
    bmc.script("POST", "InsertMedia$", Answer(202, {}, {"Location": MONITOR}))
    bmc.tree[MONITOR] = {
        "Id": "7",
        "Name": "insert",
        "TaskState": "Exception",
        "Messages": [{"MessageId": "Oem.1.0.Unreachable", "Message": "image not reachable"}],
    }
    failed = inspect()
    assert failed.provision_state == states.INSPECTFAIL
    assert "image not reachable" in str(failed.last_error)
    assert "On" not in acts(bmc)


@pytest.mark.parametrize("answer", NEVER)
def test_49_without_polling_the_time_out_tells_that_the_medium_was_not_there(
    bmc: Bmc,
    node: models.Node,
    conductor: Conductor,
    inspect: Callable[[], models.Node],
    answer: str,
) -> None:
    CONF.set_override("enable_vmedia_insert_polling", False, "redfish")
    bmc.script("POST", "InsertMedia$", NEVER[answer])
    assert inspect().provision_state == states.INSPECTWAIT
    assert acts(bmc)[-2:] == ["InsertMedia", "On"], "powered on after the answer only"
    failed = give_up(conductor, node)
    assert failed.provision_state == states.INSPECTFAIL
    assert f"The boot medium was last seen as not inserted in {CD}" in str(failed.last_error)


@pytest.mark.parametrize("polling", [True, False])
def test_49_a_medium_that_is_gone_at_the_end_is_told_as_well(
    bmc: Bmc,
    node: models.Node,
    conductor: Conductor,
    inspect: Callable[[], models.Node],
    polling: bool,
) -> None:
    """It was shown, and the BMC dropped it when the machine was to boot from it."""
    CONF.set_override("enable_vmedia_insert_polling", polling, "redfish")

    def drops(request: Any) -> None:
        if request.body["ResetType"] == "On":
            bmc.tree[CD].update(Inserted=False, Image=None)

    bmc.script("POST", "ComputerSystem.Reset$", drops)
    assert inspect().provision_state == states.INSPECTWAIT
    failed = give_up(conductor, node)
    assert f"The boot medium was last seen as not inserted in {CD}" in str(failed.last_error)


@pytest.mark.parametrize("polling", [True, False])
def test_49_a_medium_that_was_there_is_not_blamed(
    bmc: Bmc,
    node: models.Node,
    conductor: Conductor,
    inspect: Callable[[], models.Node],
    polling: bool,
) -> None:
    CONF.set_override("enable_vmedia_insert_polling", polling, "redfish")
    assert inspect().provision_state == states.INSPECTWAIT
    failed = give_up(conductor, node)
    assert failed.provision_state == states.INSPECTFAIL
    assert "nothing was heard" in str(failed.last_error)
    assert "medium" not in str(failed.last_error)
