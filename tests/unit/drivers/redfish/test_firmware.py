"""Firmware versions and updates, at the wire of a scripted BMC."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ironic_rs.conf import CONF
from ironic_rs.db import firmware as db_firmware
from ironic_rs.db import nodes, session
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import firmware_flow, firmware_progress
from ironic_rs.drivers.redfish.firmware import RedfishFirmware
from tests.harness.bmc import MANAGER, Answer, collection, error, link
from tests.harness.database import database, empty_schema  # noqa: F401
from tests.unit.drivers.redfish import updates
from tests.unit.drivers.redfish.updates import ADAPTERS, TASK, URL


@pytest.fixture
def monitor(bmc):
    """The task that an update becomes."""
    return updates.offer(bmc)


@pytest.fixture
def task(make_task, bmc, monitor, database, clock, monkeypatch, config):  # noqa: F811
    config("redfish", firmware_update_required_successes=0)
    for part in (firmware_flow, firmware_progress):
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
    """Run the periodic; returns what it asked of the flows."""
    return lambda: updates.run(task, task.driver.firmware._query_update_status)


class Cards:
    """The network cards of a machine whose BMC gives them new ids at each boot."""

    def __init__(self, bmc, cards):
        self._bmc, self._cards, self._boots = bmc, cards, 0
        self.boot()

    def boot(self):
        """Count the cards anew, from the other end."""
        self._boots += 1
        self._cards.reverse()
        paths = [
            self._show(f"{ADAPTERS}/NIC.{self._boots}.{number}", **card)
            for number, card in enumerate(self._cards)
        ]
        self._bmc.tree[ADAPTERS] = collection(*paths)

    def _show(self, path, macs=(), **more):
        functions = f"{path}/NetworkDeviceFunctions"
        self._bmc.tree[path] = {
            "Id": path.rpartition("/")[2],
            "Name": "Card",
            "Controllers": [{"FirmwarePackageVersion": "7"}, {"FirmwarePackageVersion": "8"}],
            **more,
        }
        if macs:
            self._bmc.tree[path]["NetworkDeviceFunctions"] = link(functions)
            members = [f"{functions}/{number}" for number, _mac in enumerate(macs)]
            self._bmc.tree[functions] = collection(*members)
            for member, ethernet in zip(members, macs, strict=True):
                self._bmc.tree[member] = {"Id": "1", "Name": "f", "Ethernet": ethernet}
        return path


def mac(number, **more):
    return {"PermanentMACAddress": f"AA:BB:CC:00:00:{number:02X}", **more}


ZEROS = {"PermanentMACAddress": "00:00:00:00:00:00", "MACAddress": "aa:bb:cc:00:00:09"}


@pytest.mark.parametrize(
    ("cards", "names"),
    [
        ([{"SerialNumber": "S1"}, {"SerialNumber": " S2 "}], {"nic:S1", "nic:S2"}),
        # Both parts of one card.
        ([{"SerialNumber": "S1"}, {"SerialNumber": "S1"}], {"nic:S1"}),
        (
            [{"macs": [mac(4), mac(3)]}, {"macs": [mac(1), mac(2)]}],
            {"nic:aa:bb:cc:00:00:01", "nic:aa:bb:cc:00:00:03"},
        ),
        (
            [
                {"SerialNumber": "N/A", "macs": [mac(1)]},
                {"SerialNumber": "N/A", "macs": [mac(2)]},
                {"SerialNumber": "0000-0000", "macs": [ZEROS]},
                {"SerialNumber": None, "macs": [{}, mac(5, MACAddress="02:00:00:00:00:01")]},
            ],
            {f"nic:aa:bb:cc:00:00:0{number}" for number in (1, 2, 9, 5)},
        ),
    ],
)
def test_a_card_has_one_row_however_often_its_bmc_counts_anew(task, bmc, cards, names):
    machine = Cards(bmc, list(cards))
    for _boot in range(3):
        task.driver.firmware.cache_firmware_components(task)
        machine.boot()
    rows = {row.component: row for row in db_firmware.of_node(task.node.id)}
    assert set(rows) == {"bios", "bmc", *names}
    assert {rows[name].current_version for name in names} == {"7"}
    with session.count_statements() as seen:
        task.driver.firmware.cache_firmware_components(task)
    assert seen.count == 1


def test_a_card_that_is_listed_twice_is_read_once(task, bmc):
    Cards(bmc, [{}])
    bmc.tree[ADAPTERS]["Members"] *= 2
    other = f"{updates.CHASSIS}b"
    bmc.tree[other] = {**bmc.tree[updates.CHASSIS], "Id": "2"}
    bmc.system["Links"]["Chassis"].append(link(other))
    task.driver.firmware.cache_firmware_components(task)
    names = {row.component for row in db_firmware.of_node(task.node.id)}
    # It has neither serial number nor addresses.
    assert names == {"bios", "bmc", "nic:NIC.1.0"}


def test_parts_of_a_card_with_different_versions_do_not_change_its_row(task, bmc):
    def part(version):
        return {"SerialNumber": "S1", "Controllers": [{"FirmwarePackageVersion": version}]}

    machine = Cards(bmc, [part("8"), part("7")])
    for _boot in range(3):
        task.driver.firmware.cache_firmware_components(task)
        machine.boot()
    row = {row.component: row for row in db_firmware.of_node(task.node.id)}["nic:S1"]
    assert (row.current_version, row.last_version_flashed) == ("7", None)


def test_an_update_of_a_card_is_known_by_its_version_under_another_id(
    task, start, poll, bmc, clock
):
    card = {"SerialNumber": "S1"}
    machine = Cards(bmc, [card])
    bmc.script("POST", "UpdateService", Answer(204))
    bmc._rules.reverse()
    start("nic:S1")
    assert poll() == [states.REBOOT, "touch"]
    machine.boot()
    assert poll() == ["touch"]
    card["Controllers"] = [{"FirmwarePackageVersion": "9"}]
    machine.boot()
    assert poll() == ["resume"]
    rows = {row.component: row for row in db_firmware.of_node(task.node.id)}
    assert (rows["nic:S1"].current_version, len(rows)) == ("9", 3)


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
        [{"component": "bios", "url": "ftp://127.0.0.1/image"}],
        [{"component": "bios", "url": "swift://container/image"}],
        [{"component": "bios", "url": "file:"}],
        [{"component": "bios", "url": "http://[::1/image"}],
        [{"component": "bios", "url": URL, "source": "local"}],
        ["bios"],
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
    assert poll() == ["touch"]
    bmc.tree[MANAGER]["FirmwareVersion"] = "2.0"
    assert poll() == ["touch"]
    clock.skip(CONF.redfish.firmware_update_bmc_version_check_interval)
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


def test_images_are_used_in_the_given_order(task, poll, monitor, bmc, clock):
    settings = [{"component": part, "url": URL, "wait": 1} for part in ("nic:S1", "bios", "bmc")]
    task.driver.firmware.update(task, settings)
    task.node.provision_state = states.SERVICEWAIT
    seen = []
    monitor["TaskState"] = "Completed"
    for _poll in range(9):
        first, *_more = task.node.driver_internal_info.get("redfish_fw_updates") or [None]
        if first and first["component"] not in seen:
            seen.append(first["component"])
        if first and first["component"] == "bmc":
            bmc.tree[MANAGER]["FirmwareVersion"] = "2.0"
        clock.skip(2)
        if poll() == ["resume"]:
            break
    assert seen == ["nic:S1", "bios", "bmc"]
    assert not task.node.driver_internal_info.get("redfish_fw_updates")


#: Component, states that the task shows from look to look, minutes between the looks, and
#: what comes of it.  "gone": 404; "202": as the monitor of a task that goes on; "200": of
#: one that has ended.
LIVES = [
    ("bios", "New Starting Running Completed", 1, "touch reboot touch resume"),
    ("bios", "Completed Completed", 1, "reboot resume"),
    ("bios", "gone new-version", 1, "reboot resume"),
    ("bios", "gone gone gone gone gone gone", 1, "reboot touch touch touch touch fail"),
    ("bios", "Running/200 Completed/202", 1, "reboot resume"),
    ("bios", "Exception", 1, "fail"),
    ("bios", "Cancelled", 1, "fail"),
    ("bios", "Interrupted", 1, "fail"),
    ("bios", "Running Exception", 1, "reboot fail"),
    ("bios", "Pending Pending Running Completed", 10, "reboot touch touch resume"),
    ("nic:S1", "New Starting Running Completed Completed", 0.1, "touch touch touch reboot resume"),
    ("nic:S1", "Completed Completed", 1, "reboot resume"),
    ("nic:S1", "Running/200 Completed/202 Completed/202", 1, "touch reboot resume"),
    ("nic:S1", "Starting Starting Completed", 1, "touch reboot resume"),
    ("nic:S1", "Pending Pending Running Completed", 10, "touch reboot touch resume"),
    ("nic:S1", "Running Cancelled", 1, "touch fail"),
    ("bmc", "New Running new-version", 1, "touch touch resume"),
    (
        "bmc",
        "Completed Completed Completed Completed Completed Completed",
        1.1,
        "touch touch touch touch touch resume",
    ),
    ("bmc", "gone gone new-version", 1, "touch touch resume"),
    ("bmc", "gone gone gone gone gone gone", 1.1, "touch touch touch touch touch fail"),
    ("bmc", "Pending Pending Completed new-version", 10, "touch touch touch resume"),
    ("bmc", "Running Interrupted", 1, "touch fail"),
]


@pytest.mark.parametrize(("component", "life", "minutes", "outcome"), LIVES)
def test_the_life_of_a_task_decides(
    start, poll, bmc, monitor, clock, component, life, minutes, outcome
):
    start(component, wait=1)
    asked = []
    for shown in life.split():
        clock.skip(minutes * 60)
        state, _, status = shown.partition("/")
        if state in ("gone", "new-version"):
            bmc.script("GET", "/Tasks/", Answer(404, error("no such task")), times=1)
            bmc.script("GET", "/Tasks/", Answer(404, error("no such task")), times=1)
        if state == "new-version":
            bmc.system["BiosVersion"] = bmc.tree[MANAGER]["FirmwareVersion"] = "9.9"
        if state not in ("gone", "new-version"):
            monitor["TaskState"] = state
        if status:
            bmc.script("GET", "/Tasks/", Answer(int(status), dict(monitor)), times=1)
        asked.append(poll()[0].replace(states.REBOOT, "reboot"))
        bmc._rules = [rule for rule in bmc._rules if rule.method == "POST"]
    assert " ".join(asked) == outcome


def test_a_conductor_that_dies_with_the_image_handed_over_asks_for_the_version(
    start, poll, bmc, task
):
    """Its last words are that it was about to: the image is not sent twice."""
    start("bios")
    task.node.driver_internal_info["redfish_fw_updates"][0]["task_monitor"] = None
    bmc.forget()
    assert poll() == [states.REBOOT, "touch"]
    bmc.system["BiosVersion"] = "2.0"
    assert poll() == ["resume"]
    assert bmc.asked("POST", "SimpleUpdate") == []


def test_an_update_is_noted_before_the_bmc_gets_its_image(task, bmc):
    noted = []

    def seen(_request):
        noted.extend(task.node.driver_internal_info["redfish_fw_updates"])
        assert task.saves
        return Answer(202, {}, {"Location": TASK})

    bmc.script("POST", "UpdateService", seen)
    bmc._rules.reverse()
    task.driver.firmware.update(task, [{"component": "bios", "url": URL}])
    assert [update["component"] for update in noted] == ["bios"]
    assert noted[0]["versions_before"] == {"bios": "1.0"}


def test_an_image_whose_acceptance_gets_lost_is_not_sent_again(start, poll, bmc):
    bmc.script("POST", "UpdateService", Answer(reset=True))
    bmc._rules.reverse()
    start("bios")
    assert len(bmc.asked("POST", "SimpleUpdate")) == 1
    assert poll() == [states.REBOOT, "touch"]
    bmc.system["BiosVersion"] = "2.0"
    assert poll() == ["resume"]


def test_a_reboot_that_fails_fails_the_step(start, poll, monitor, task):
    start("bios")
    task.flows.errors["power"] = errors.PowerStateFailure(pstate="power on")
    monitor["TaskState"] = "Completed"
    assert poll()[-1] == "fail"
    assert "power on" in task.flows.calls[-1][2]
    assert "redfish_fw_updates" not in task.node.driver_internal_info


def test_a_refusal_of_the_second_image_fails_the_step(task, poll, monitor, bmc):
    settings = [{"component": part, "url": URL} for part in ("bios", "nic:S1")]
    task.driver.firmware.update(task, settings)
    task.node.provision_state = states.SERVICEWAIT
    monitor["TaskState"] = "Completed"
    bmc.script("POST", "UpdateService", Answer(400, error("not an image")))
    bmc._rules.reverse()
    assert poll() == [states.REBOOT, "touch"]
    assert poll() == ["fail"]
    assert "not an image" in task.flows.calls[-1][2]


class TestASteadyBmc:
    """After an update it has to be readable several times in a row."""

    @pytest.fixture(autouse=True)
    def done(self, config, start, monitor, poll):
        config("redfish", firmware_update_required_successes=3)
        start("bios")
        monitor["TaskState"] = "Completed"
        assert poll() == [states.REBOOT, "touch"]

    def test_is_looked_at_with_pauses(self, poll, bmc, clock):
        assert poll() == ["touch"]
        bmc.forget()
        assert poll() == ["touch"]
        assert bmc.asked(path="/Systems/1$") == []
        clock.skip(30)
        assert poll() == ["touch"]
        asked = [str(request) for request in bmc.asked()]
        assert [f"GET {path}" for path in (ADAPTERS, MANAGER)] == sorted(
            path for path in asked if path.endswith(("NetworkAdapters", "Managers/1"))
        )
        clock.skip(30)
        assert poll() == ["resume"]

    @pytest.mark.parametrize("part", [ADAPTERS, MANAGER, "/Systems/1"])
    def test_a_part_that_is_missing_begins_it_anew(self, poll, bmc, clock, part):
        assert poll() == ["touch"]
        clock.skip(30)
        bmc.script("GET", f"{part}$", Answer(404, error("not ready")))
        assert poll() == []
        bmc._rules.pop()
        for _look in range(2):
            clock.skip(30)
            assert poll() == ["touch"]
        clock.skip(30)
        assert poll() == ["resume"]

    def test_one_that_does_not_become_steady_fails_the_step(self, poll, bmc, clock, task):
        assert poll() == ["touch"]
        bmc.script("GET", f"{ADAPTERS}$", Answer(404, error("not ready")))
        clock.skip(470)
        assert poll() == []
        clock.skip(11)
        assert poll() == ["fail"]
        assert "not steadily readable within 480 s" in task.flows.calls[-1][2]
        assert "NetworkAdapters not found" in task.flows.calls[-1][2]

    def test_one_that_comes_and_goes_fails_the_step(self, poll, clock, task):
        assert poll() == ["touch"]
        clock.skip(481)
        assert poll() == ["fail"]
        assert "comes and goes" in task.flows.calls[-1][2]

    @pytest.mark.parametrize(
        "option",
        ["firmware_update_required_successes", "firmware_update_resource_validation_timeout"],
    )
    def test_is_not_asked_for_with_a_zero(self, poll, config, option):
        config("redfish", **{option: 0})
        assert poll() == ["resume"]


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
