"""What is left of the cases of operators: K04/29, K04/31, K06/48, K06/49, K06/50."""

from __future__ import annotations

import email.utils
import itertools

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import connector
from ironic_rs.drivers.redfish.power import RedfishPower
from tests.harness.bmc import CD, Answer, Bmc, error

power = RedfishPower()

URL = "http://192.0.2.9/boot.iso"


@pytest.fixture
def management(task):
    return task.driver.management


def change(task, what: str) -> None:
    management = task.driver.management
    if what == "reset":
        task.driver.power.set_power_state(task, states.POWER_ON)
    elif what == "boot":
        management.set_boot_device(task, "pxe")
    elif what == "insert":
        management.attach_virtual_media(task, "cdrom", URL)
    else:
        management.detach_virtual_media(task, ["cdrom"])


WRITES = {
    "reset": ("POST", "ComputerSystem.Reset$"),
    "boot": ("PATCH", "Systems/1$"),
    "insert": ("POST", "InsertMedia$"),
    "eject": ("POST", "EjectMedia$"),
}


class TestBusyWrites:
    """K04/29: a busy BMC is waited for at writes as at reads."""

    @pytest.fixture(autouse=True)
    def something_to_eject(self, bmc):
        bmc.tree[CD].update(Inserted=True, Image="http://192.0.2.9/old.iso")

    @pytest.mark.parametrize("what", WRITES)
    def test_a_write_is_sent_again_after_the_time_that_the_bmc_names(self, bmc, task, clock, what):
        busy = Answer(503, error("busy"), {"Retry-After": "3"})
        bmc.script(*WRITES[what], busy, times=2)
        change(task, what)
        assert clock.slept[:2] == [3, 3]
        assert len(bmc.asked(*WRITES[what])) == 3

    @pytest.mark.parametrize("what", WRITES)
    def test_busy_for_ever_ends_at_the_deadline(self, bmc, task, clock, what):
        busy = Answer(503, error("busy", "Base.1.0.ServiceTemporarilyUnavailable"))
        bmc.script(*WRITES[what], busy)
        with pytest.raises(errors.IronicError, match="503") as raised:
            change(task, what)
        text = str(raised.value)
        assert "ServiceTemporarilyUnavailable" in text
        assert task.node.uuid in text

    @pytest.mark.parametrize("what", WRITES)
    def test_the_time_may_be_a_date_and_is_capped(self, bmc, task, clock, what):
        date = email.utils.formatdate(clock.time() + 3600, usegmt=True)
        bmc.script(*WRITES[what], Answer(503, error("busy"), {"Retry-After": date}), times=1)
        change(task, what)
        assert clock.slept[0] == connector.MAX_BUSY_WAIT


def test_sessions_that_are_dropped_all_the_time_are_renewed_each_time(make_task):
    """K04/31: every third read finds all sessions gone."""
    bmc = Bmc("session")
    count = itertools.count(1)

    def drops(request):
        if "x-auth-token" in request.headers and next(count) % 3 == 0:
            bmc.sessions.clear()

    bmc.script("GET", "", drops)
    task = make_task(bmc)
    for _read in range(12):
        assert power.get_power_state(task) == states.POWER_OFF
    assert 3 <= bmc.logins <= 8
    assert not bmc.asked("GET", "") or all(
        "authorization" not in request.headers for request in bmc.requests
    )
    bmc.close()


def test_a_slot_that_still_looks_full_is_filled_all_the_same(bmc, task, management):
    """K06/48: after the eject the BMC goes on showing the same image as inserted."""
    bmc.tree[CD].update(Inserted=True, Image=URL)
    bmc.script("POST", "EjectMedia", Answer(204))
    management.attach_virtual_media(task, "cdrom", URL)
    actions = [request.path.rpartition(".")[2] for request in bmc.asked("POST", "VirtualMedia")]
    assert actions == ["EjectMedia", "InsertMedia"]


def test_an_insert_that_meets_the_running_eject_is_tried_again(bmc, task, management, clock):
    """K06/48: 5xx while the eject runs."""
    bmc.tree[CD].update(Inserted=True, Image=URL)
    bmc.script("POST", "InsertMedia", Answer(500, error("eject in progress")), times=2)
    management.attach_virtual_media(task, "cdrom", URL)
    assert len(bmc.asked("POST", "InsertMedia")) == 3
    assert bmc.tree[CD]["Inserted"] is True


@pytest.mark.parametrize("seconds", [10, 40])
def test_an_insert_that_shows_late_is_waited_for_with_polling(
    bmc, task, management, clock, config, seconds
):
    """K06/49: inserted after a while, within the time for it."""
    config("redfish", enable_vmedia_insert_polling=True)

    def late(_request):
        bmc.tree[CD]["Inserted"] = bool(bmc.tree[CD]["Image"]) and sum(clock.slept) >= seconds

    bmc.script("GET", "Cd$", late)
    management.attach_virtual_media(task, "cdrom", URL)
    assert sum(clock.slept) == seconds


def needs_all(request):
    boot = request.body["Boot"]
    names = ("Enabled", "Target", "Mode")
    if all(f"BootSourceOverride{name}" in boot for name in names):
        return None
    return Answer(400, error("the whole object, please"))


def refuses_mode(request):
    boot = request.body["Boot"]
    if "BootSourceOverrideTarget" in boot and "BootSourceOverrideMode" in boot:
        return Answer(400, error("no mode with a target"))
    return None


def refuses_none(request):
    if request.body["Boot"].get("BootSourceOverrideTarget") == "None":
        return Answer(400, error("None is no target"))
    return None


@pytest.mark.parametrize("mood", [needs_all, refuses_mode, refuses_none])
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("manufacturer", [None, "Contoso"])
def test_boot_device_and_mode_in_turn_whatever_the_bmc_wants(
    bmc, task, management, mood, persistent, manufacturer
):
    """K06/50."""
    bmc.system["Manufacturer"] = manufacturer
    bmc.script("PATCH", "Systems/1$", mood)
    management.set_boot_device(task, "pxe", persistent=persistent)
    management.set_boot_mode(task, "bios")
    management.set_boot_device(task, "disk", persistent=persistent)
    assert management.get_boot_device(task) == {"boot_device": "disk", "persistent": persistent}
    assert management.get_boot_mode(task) == "bios"
    assert "redfish_boot_device" not in task.node.driver_internal_info


def test_a_medium_that_is_accepted_and_not_shown_is_kept_in_mind(bmc, task, management):
    """K06/49: without polling the wait for the ramdisk ends with it."""
    bmc.script("POST", "InsertMedia", Answer(204), times=1)
    management.attach_virtual_media(task, "cdrom", URL)
    assert task.node.driver_internal_info["boot_medium_not_shown"] == CD
    management.attach_virtual_media(task, "cdrom", URL)
    assert "boot_medium_not_shown" not in task.node.driver_internal_info


def test_a_slot_that_cannot_be_read_after_the_insert_is_no_failure(bmc, task, management):
    def breaks(_request):
        bmc.script("GET", "Cd$", Answer(404, error("just now")))

    bmc.script("POST", "InsertMedia", breaks)
    management.attach_virtual_media(task, "cdrom", URL)
    assert "boot_medium_not_shown" not in task.node.driver_internal_info
