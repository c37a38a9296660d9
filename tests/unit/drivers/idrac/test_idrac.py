"""What iDRACs do beside the standard, at a scripted BMC."""

from __future__ import annotations

import re

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.idrac import boot as boot_module
from ironic_rs.drivers.idrac.inspect import IDRACInspect
from ironic_rs.drivers.idrac.management import IDRACManagement
from ironic_rs.drivers.idrac.raid import IDRACRAID
from ironic_rs.drivers.redfish import inventory
from ironic_rs.drivers.redfish.sessions import talk
from tests.harness.bmc import MANAGER, ROOT, SYSTEM, Answer, error, link

STEPS = ("clear_job_queue", "reset_idrac", "known_good_state")


def actions(bmc) -> list[str]:
    return [request.path.rpartition(".")[2] for request in bmc.asked("POST", "/Oem/Dell/")]


@pytest.fixture
def management():
    return IDRACManagement()


def test_the_job_queue_is_cleared(bmc, task, management, services):
    management.clear_job_queue(task)
    (request,) = bmc.asked("POST", "DeleteJobQueue")
    assert request.body == {"JobID": "JID_CLEARALL_FORCE"}


def test_a_reset_is_waited_for_until_the_bmc_is_ready_again(bmc, task, management, services, clock):
    looks = []

    def starting(_request):
        looks.append(1)
        if len(looks) < 3:
            return Answer(503, error("starting"), {"Retry-After": "1"})
        services["LCStatus"] = "NotReady" if len(looks) < 5 else "Ready"
        return Answer(200, dict(services))

    bmc.script("POST", "GetRemoteServicesAPIStatus", starting)
    # The rule that is asked first is the one that was made first.
    bmc._rules.insert(0, bmc._rules.pop())
    management.reset_idrac(task)
    assert len(looks) >= 5
    assert actions(bmc)[0] == "iDRACReset"
    assert bmc.requests[-1].path == SYSTEM


def test_a_bmc_that_goes_down_without_an_answer_is_waited_for(bmc, task, management, services):
    bmc.script("POST", "iDRACReset", Answer(close=True))
    bmc._rules.insert(0, bmc._rules.pop())
    management.reset_idrac(task)
    assert len(bmc.asked("POST", "iDRACReset")) == 1
    assert bmc.asked("POST", "GetRemoteServicesAPIStatus")


def test_a_dead_bmc_is_not_waited_for(bmc, task, management, clock):
    bmc.close()
    with pytest.raises(errors.RedfishConnectionError):
        management.reset_idrac(task)
    assert sum(clock.slept) < 60


def test_a_bmc_that_does_not_come_back_fails_the_step(task, management, services):
    services["LCStatus"] = "NotReady"
    with pytest.raises(errors.RedfishError, match="not back after its reset"):
        management.reset_idrac(task)


def test_the_known_good_state_is_a_reset_and_an_empty_queue(bmc, task, management, services):
    management.known_good_state(task)
    done = actions(bmc)
    assert (done[0], done[-1]) == ("iDRACReset", "DeleteJobQueue")


@pytest.mark.parametrize("step", STEPS)
def test_a_bmc_without_these_services_is_left_as_it_is(bmc, task, management, step, caplog):
    getattr(management, step)(task)
    assert bmc.asked("POST") == []
    assert "The BMC of node" in caplog.text


@pytest.mark.parametrize("step", STEPS)
def test_a_refusal_fails_a_cleaning_but_no_verification(bmc, task, management, services, step):
    bmc.script("POST", "DeleteJobQueue|iDRACReset", Answer(400, error("not now")))
    bmc._rules.insert(0, bmc._rules.pop())
    with pytest.raises(errors.RedfishError, match="not now"):
        getattr(management, step)(task)
    task.node.provision_state = states.VERIFYING
    getattr(management, step)(task)


class TestBoot:
    @pytest.fixture
    def boot(self, task):
        return boot_module.IDRACVirtualMediaBoot()

    @pytest.mark.parametrize(("persistent", "once"), [(False, "Enabled"), (True, "Disabled")])
    def test_the_virtual_cd_becomes_the_boot_device_by_a_request_of_its_own(
        self, bmc, task, boot, services, persistent, once
    ):
        boot.boot_from_iso(task, "http://192.0.2.1/boot.iso", persistent=persistent)
        (request,) = bmc.asked("POST", "ImportSystemConfiguration")
        sent = request.body["ImportBuffer"]
        assert 'FQDD="BMC"' in sent
        assert re.findall(r'#(\w+)">([\w-]+)<', sent) == [
            ("BootOnce", once),
            ("FirstBootDevice", "VCD-DVD"),
        ]
        assert task.flows.calls == []

    def test_without_that_request_the_standard_way_is_taken(self, bmc, task, boot):
        boot.boot_from_iso(task, "http://192.0.2.1/boot.iso", persistent=False)
        assert ("set_boot_device", "cdrom", False) in task.flows.calls

    def test_every_firmware_is_taken(self, bmc, task, boot):
        bmc.tree[ROOT]["Vendor"] = "Dell"
        bmc.tree[MANAGER]["FirmwareVersion"] = "5.0"
        boot.check_machine(task)

    @pytest.mark.parametrize(
        ("state", "told"), [("Exception", "failed: no licence"), ("Running", "did not end in 30 s")]
    )
    def test_a_job_that_fails_or_hangs_fails_the_boot(self, bmc, task, boot, services, state, told):
        path = f"{ROOT}/TaskService/Tasks/JID_1"
        bmc.script("POST", "ImportSystemConfiguration", Answer(202, {}, {"Location": path}))
        bmc._rules.insert(0, bmc._rules.pop())
        bmc.tree[path] = {
            **link(path),
            "Id": "JID_1",
            "Name": "job",
            "TaskState": state,
            "TaskStatus": "Critical" if state == "Exception" else "OK",
            "Messages": [{"MessageId": "X", "Message": "no licence"}],
        }
        with pytest.raises(errors.RedfishError, match=told):
            boot.boot_from_iso(task, "http://192.0.2.1/boot.iso", persistent=False)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"PxeDev1EnDis": "Disabled", "PxeDev1Interface": "NIC2"}, None),
        ({"PxeDev1EnDis": "Enabled", "PxeDev1Interface": "NIC1"}, "aa:bb:cc:00:00:01"),
        ({"PxeDev1EnDis": "Enabled", "PxeDev1Interface": "gone"}, None),
        (
            {
                "PxeDev1EnDis": "Disabled",
                "PxeDev1Interface": "gone",
                "PxeDev2EnDis": "Enabled",
                "PxeDev2Interface": "NIC1",
            },
            "aa:bb:cc:00:00:01",
        ),
    ],
)
def test_the_interface_that_boots_from_the_network_is_told(bmc, task, attributes, expected):
    bmc.system["Bios"] = link(f"{SYSTEM}/Bios")
    bmc.tree[f"{SYSTEM}/Bios"] = {"Id": "Bios", "Name": "BIOS", "Attributes": attributes}
    with talk(task, "testing") as talked:
        found = inventory.collect(task.node, talked)
        IDRACInspect().add_own(task, talked, found)
    assert found.inventory["boot"].get("pxe_interface") == expected


class TestRAID:
    def test_steps_wait_until_the_bmc_is_ready(self, bmc, task, services, clock):
        services["RTStatus"] = "NotReady"
        with pytest.raises(errors.RedfishError, match="not ready for RAID after 300 s"):
            IDRACRAID().delete_configuration(task)
        assert sum(clock.slept) >= 300
        assert task.flows.calls == []

    def test_a_machine_without_ramdisk_is_switched_on_for_them(self, task, services, monkeypatch):
        task.node.clean_step = {"interface": "raid", "step": "delete_configuration"}
        task.node.provision_state = states.CLEANING
        task.node.driver_internal_info["cleaning_disable_ramdisk"] = True
        services["RTStatus"] = "NotReady"
        with pytest.raises(errors.RedfishError, match="not ready"):
            IDRACRAID().delete_configuration(task)
        assert task.flows.calls == [("power", states.POWER_ON)]
