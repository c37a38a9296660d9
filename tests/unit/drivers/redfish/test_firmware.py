"""Firmware versions and updates, at the wire of a scripted BMC."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import firmware as db_firmware
from ironic_rs.db import nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import firmware as module
from ironic_rs.drivers.redfish import firmware_progress
from ironic_rs.drivers.redfish.firmware import RedfishFirmware
from tests.harness.bmc import MANAGER, Answer, collection, error, link
from tests.harness.database import database, empty_schema  # noqa: F401

ROOT = "/redfish/v1"
SERVICE = f"{ROOT}/UpdateService"
TASK = f"{ROOT}/TaskService/Tasks/1"
CHASSIS = f"{ROOT}/Chassis/1"
URL = "http://127.0.0.1/image.bin"


@pytest.fixture
def monitor(bmc):
    """The task that an update becomes."""
    bmc.tree[ROOT]["UpdateService"] = link(SERVICE)
    action = f"{SERVICE}/Actions/UpdateService.SimpleUpdate"
    bmc.tree[SERVICE] = {
        "Id": "UpdateService",
        "Name": "Update service",
        "Actions": {"#UpdateService.SimpleUpdate": {"target": action}},
    }
    bmc.tree[TASK] = {
        "Id": "1",
        "Name": "Update",
        "TaskState": "Running",
        "TaskStatus": "OK",
        "Messages": [],
    }
    bmc.script("POST", "SimpleUpdate", Answer(202, {}, {"Location": TASK}))
    bmc.system["BiosVersion"] = "1.0"
    bmc.system["Links"] = {"Chassis": [link(CHASSIS)], "ManagedBy": [link(MANAGER)]}
    bmc.tree[CHASSIS] = {
        "Id": "1",
        "Name": "Chassis",
        "ChassisType": "RackMount",
        "NetworkAdapters": link(f"{CHASSIS}/NetworkAdapters"),
    }
    bmc.tree[f"{CHASSIS}/NetworkAdapters"] = collection()
    return bmc.tree[TASK]


@pytest.fixture
def task(make_task, bmc, monitor, database, clock, monkeypatch):  # noqa: F811
    for part in (module, firmware_progress):
        monkeypatch.setattr(part, "time", clock)
    task = make_task(bmc, service_step={"step": "x"}, provision_state=states.SERVICING)
    record = nodes.create({"driver": "redfish", "driver_info": task.node.driver_info})
    task.node.id = record.id
    task.node.driver_internal_info["service_disable_ramdisk"] = True
    task.driver.firmware = RedfishFirmware()
    return task


@pytest.fixture
def start(task):
    """Start the update of a component, as the step does, and let the node wait."""

    def begin(component: str, wait: int | None = None) -> None:
        setting = {"component": component, "url": URL} | ({"wait": wait} if wait else {})
        assert task.driver.firmware.update(task, [setting]) == states.SERVICEWAIT
        task.node.provision_state = states.SERVICEWAIT
        task.flows.calls.clear()

    return begin


@pytest.fixture
def poll(task):
    """Run the periodic; returns what it asked of the flows, a reboot as one call."""

    def run() -> list[str]:
        task.flows.calls.clear()
        task.shared = True
        task.driver.firmware._query_update_status(task)
        return [
            call[1] if call[0] == "power" else call[0]
            for call in task.flows.calls
            if call[0] in ("resume", "fail", "touch")
            or (call[0] == "power" and call[1] == states.REBOOT)
        ]

    return run


def test_a_card_has_one_row_whatever_its_id_is(task, bmc):
    def card(number, **more):
        path = f"{CHASSIS}/NetworkAdapters/{number}"
        bmc.tree[path] = {
            "Id": f"Card{number}",
            "Name": "Card",
            "Controllers": [{"FirmwarePackageVersion": "7"}, {"FirmwarePackageVersion": "8"}],
            **more,
        }
        return path

    firmware = task.driver.firmware
    adapters = f"{CHASSIS}/NetworkAdapters"
    bmc.tree[adapters] = collection(card(1, SerialNumber="S1"), card(2))
    firmware.cache_firmware_components(task)
    bmc.tree[adapters] = collection(card(3, SerialNumber="S1"), card(4, SerialNumber="S1"), card(2))
    firmware.cache_firmware_components(task)
    rows = {row.component: row for row in db_firmware.of_node(task.node.id)}
    assert set(rows) == {"bios", "bmc", "nic:S1", "nic:Card2"}
    assert rows["nic:S1"].current_version == "7"
    with session.count_statements() as seen:
        firmware.cache_firmware_components(task)
    assert seen.count == 1


def test_a_machine_that_shows_no_version_is_told(task, bmc):
    del bmc.system["BiosVersion"], bmc.system["Links"]
    with pytest.raises(errors.UnsupportedDriverExtension):
        task.driver.firmware.cache_firmware_components(task)


@pytest.mark.parametrize(
    "settings",
    [
        [],
        None,
        [{"component": "bios"}],
        [{"component": "disk", "url": URL}],
        [{"component": "nic:", "url": URL}],
        [{"component": "bios", "url": "file:///etc/passwd"}],
        [{"component": "bios", "url": URL, "wait": 0}],
        [{"component": "bios", "url": URL, "more": 1}],
        [{"component": "bios", "url": URL}, {"component": "bmc", "url": "x"}],
    ],
)
def test_malformed_settings_are_refused_before_the_bmc_is_asked(task, bmc, settings):
    with pytest.raises(errors.InvalidParameterValue):
        task.driver.firmware.update(task, settings)
    assert bmc.requests == []


def test_a_refusal_of_the_bmc_fails_the_step_with_its_words(task, bmc):
    bmc.script("POST", "UpdateService", Answer(400, error("not an image")))
    bmc._rules.reverse()
    with pytest.raises(errors.RedfishError, match="not an image"):
        task.driver.firmware.update(task, [{"component": "bios", "url": URL}])
    assert "redfish_fw_updates" not in task.node.driver_internal_info


def test_a_bios_update_reboots_once_and_ends_with_its_task(start, poll, monitor, task):
    start("bios")
    monitor["TaskState"] = "New"
    assert poll() == ["touch"]
    monitor["TaskState"] = "Starting"
    assert poll() == [states.REBOOT, "touch"]
    assert poll() == ["touch"]
    monitor["TaskState"] = "Completed"
    assert poll() == ["resume"]
    assert "redfish_fw_updates" not in task.node.driver_internal_info


def test_a_bios_update_that_is_complete_at_once_still_needs_its_reboot(start, poll, monitor):
    start("bios")
    monitor["TaskState"] = "Completed"
    assert poll() == [states.REBOOT, "touch"]
    assert poll() == ["resume"]


def test_a_card_in_starting_is_rebooted_for_after_a_while(start, poll, monitor, clock):
    start("nic:S1")
    assert poll() == ["touch"]
    monitor["TaskState"] = "Starting"
    assert poll() == ["touch"]
    clock.skip(31)
    assert poll() == [states.REBOOT, "touch"]
    monitor["TaskState"] = "Completed"
    assert poll() == ["resume"]


@pytest.mark.parametrize("component", ["bios", "bmc", "nic:S1"])
@pytest.mark.parametrize("state", ["Exception", "Cancelled", "Interrupted", "Killed", "Suspended"])
def test_a_task_that_fails_fails_the_step_of_its_kind(start, poll, monitor, task, component, state):
    start(component, wait=1)
    task.node.driver_internal_info["redfish_fw_updates"][0]["wait"] = 0
    monitor.update(TaskState=state, Messages=[{"MessageId": "X.1", "Message": "bad signature"}])
    assert poll() == ["fail"]
    (call,) = task.flows.calls
    assert call[1] == "service"
    assert "bad signature" in call[2]
    assert "redfish_fw_updates" not in task.node.driver_internal_info


def test_completed_and_critical_is_no_success(start, poll, monitor):
    start("bios")
    monitor.update(TaskState="Completed", TaskStatus="Critical")
    assert poll() == ["fail"]


@pytest.mark.parametrize("gone", ["task", "no task at all"])
def test_a_task_that_vanishes_is_success_only_with_a_new_version(start, poll, bmc, clock, gone):
    if gone == "task":
        start("bios")
        del bmc.tree[TASK]
    else:
        bmc.script("POST", "UpdateService", Answer(204))
        bmc._rules.reverse()
        start("bios")
    assert poll() == [states.REBOOT, "touch"]
    assert poll() == ["touch"]
    bmc.system["BiosVersion"] = "2.0"
    assert poll() == ["resume"]


def test_a_task_that_vanishes_without_a_new_version_fails(start, poll, bmc, clock, task):
    start("bios")
    del bmc.tree[TASK]
    assert poll() == [states.REBOOT, "touch"]
    clock.skip(301)
    assert poll() == ["fail"]
    assert "version is still 1.0" in task.flows.calls[0][2]


def test_a_bmc_is_left_alone_and_then_known_by_its_version(start, poll, bmc, clock, monitor):
    start("bmc")
    bmc.forget()
    assert poll() == ["touch"]
    assert bmc.requests == []
    clock.skip(301)
    bmc.script("GET", "", Answer(close=True), times=1)
    bmc.script("GET", "/Tasks", Answer(404, error("gone")))
    poll()
    assert poll() == ["touch"]
    bmc.tree[MANAGER]["FirmwareVersion"] = "2.0"
    assert poll() == ["resume"]


def test_the_next_image_follows_the_first(task, poll, monitor, bmc):
    settings = [{"component": part, "url": URL} for part in ("bios", "nic:S1")]
    task.driver.firmware.update(task, settings)
    task.node.provision_state = states.SERVICEWAIT
    monitor["TaskState"] = "Completed"
    assert poll() == [states.REBOOT, "touch"]
    assert poll() == ["touch"]
    (left,) = task.node.driver_internal_info["redfish_fw_updates"]
    assert left["component"] == "nic:S1"
    assert len(bmc.asked("POST", "SimpleUpdate")) == 2


def test_updates_without_end_are_given_up(start, poll, clock, task):
    start("bios")
    clock.skip(7201)
    assert poll() == ["fail"]
    assert "7200 s" in task.flows.calls[0][2]


def test_a_silent_bmc_is_asked_again_later(start, poll, bmc, task):
    start("nic:S1")
    bmc.script("GET", "", Answer(close=True))
    assert poll() == []
    assert task.node.driver_internal_info["redfish_fw_updates"]


def test_updates_of_a_failed_flow_are_forgotten(start, task):
    start("bios")
    task.node.provision_state = states.SERVICEFAIL
    task.driver.firmware._query_update_failed(task)
    info = task.node.driver_internal_info
    assert not [key for key in info if key.startswith("redfish_fw_")]


def test_the_nodes_to_look_at(config):
    found = {method.__name__: mark for mark, method in RedfishFirmware().periodics()}
    assert found["_query_update_status"].filters == {
        "reserved": False,
        "provision_state_in": [states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT],
    }
    assert found["_query_update_failed"].filters == {
        "reserved": False,
        "provision_state_in": [states.CLEANFAIL, states.DEPLOYFAIL, states.SERVICEFAIL],
        "maintenance": True,
    }
    node = SimpleNamespace(driver_internal_info={"redfish_fw_updates": [{}]})
    for mark in found.values():
        assert mark.interval(CONF) == 60
        assert mark.predicate(node)


def test_the_steps_are_the_published_ones(config):
    firmware = RedfishFirmware()
    for kind, ramdisk in (("clean", True), ("deploy", None), ("service", False)):
        (step,) = getattr(firmware, f"{kind}_steps")
        assert (step["step"], step["priority"], step["abortable"]) == ("update", 0, False)
        assert step.get("requires_ramdisk") is ramdisk
        assert {name: about["required"] for name, about in step["argsinfo"].items()} == {
            "settings": True
        }
