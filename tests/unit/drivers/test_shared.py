"""Boot mode, fast track, ramdisk and storage helpers of drivers."""

from __future__ import annotations

import datetime
from types import SimpleNamespace

import pytest
from oslo_utils import timeutils

from ironic_rs.domain import errors, states
from ironic_rs.drivers import boot_mode, fast_track
from ironic_rs.drivers.agent import ramdisk
from ironic_rs.drivers.fake.machine import FakeManagement
from ironic_rs.drivers.fake.provisioning import FakeBoot, FakeStorage
from ironic_rs.drivers.network.noop import NoopNetwork
from ironic_rs.drivers.storage import boot_volume
from ironic_rs.drivers.storage.external import ExternalStorage
from tests.unit.drivers import kit

UNSUPPORTED = errors.UnsupportedDriverExtension(driver="d", extension="e")


class Management(FakeManagement):
    """A machine with a boot mode that may be fixed."""

    def __init__(self, mode=None, secure=UNSUPPORTED):
        super().__init__()
        self.mode = mode
        self.secure = secure

    def get_boot_mode(self, task):
        if isinstance(self.mode, Exception):
            raise self.mode
        return self.mode

    def set_secure_boot_state(self, task, state):
        if isinstance(self.secure, Exception):
            raise self.secure
        self.secure = state


def task_with(management, **values) -> kit.Task:
    return kit.Task(kit.node(**values), management=management)


UEFI = {"instance_info": {"capabilities": {"boot_mode": "uefi"}}}


def test_a_machine_in_the_wanted_mode_is_left_alone():
    task = task_with(Management("uefi"), **UEFI)
    boot_mode.sync_boot_mode(task)
    assert task.flows.calls == []


def test_a_machine_in_another_mode_is_changed():
    task = task_with(Management("bios"), **UEFI)
    boot_mode.sync_boot_mode(task)
    assert task.flows.calls == [("set_boot_mode", "uefi")]
    assert task.node.boot_mode == "uefi"


def test_a_machine_that_can_not_be_changed_is_an_error():
    task = task_with(Management("bios"), **UEFI)
    task.flows.errors["set_boot_mode"] = UNSUPPORTED
    with pytest.raises(errors.UnsupportedDriverExtension):
        boot_mode.sync_boot_mode(task)


@pytest.mark.parametrize("mode", [None, UNSUPPORTED])
def test_a_machine_of_unknown_mode_is_changed_if_it_can(mode):
    task = task_with(Management(mode), **UEFI)
    boot_mode.sync_boot_mode(task)
    assert task.node.boot_mode == "uefi"
    task = task_with(Management(mode), **UEFI)
    task.flows.errors["set_boot_mode"] = UNSUPPORTED
    boot_mode.sync_boot_mode(task)
    assert task.node.boot_mode is None


def test_a_node_without_a_wish_takes_what_the_machine_has(config):
    task = task_with(Management("bios"))
    boot_mode.sync_boot_mode(task)
    assert task.node.driver_internal_info["deploy_boot_mode"] == "bios"
    assert task.flows.calls == []


def test_a_node_without_a_wish_gets_the_default_on_a_machine_of_unknown_mode(config):
    task = task_with(Management())
    boot_mode.sync_boot_mode(task)
    assert task.node.driver_internal_info["deploy_boot_mode"] == "uefi"
    assert task.flows.calls == [("set_boot_mode", "uefi")]


def test_a_mode_that_the_machine_does_not_know_is_an_error():
    task = task_with(Management("bios"), **UEFI)
    task.flows.errors["set_boot_mode"] = errors.InvalidParameterValue("no")
    with pytest.raises(errors.InvalidParameterValue):
        boot_mode.sync_boot_mode(task)


SECURE = {"instance_info": {"capabilities": {"secure_boot": "true"}}}


def test_secure_boot_is_turned_on_and_off_when_asked_for():
    management = Management(secure=None)
    task = task_with(management, **SECURE)
    boot_mode.configure_secure_boot_if_needed(task)
    assert (management.secure, task.node.secure_boot) == (True, True)
    boot_mode.deconfigure_secure_boot_if_needed(task)
    assert (management.secure, task.node.secure_boot) == (False, False)
    task = task_with(Management(secure=errors.DriverOperationError(reason="x")))
    boot_mode.configure_secure_boot_if_needed(task)
    boot_mode.deconfigure_secure_boot_if_needed(task)
    assert task.saves == 0


def test_secure_boot_that_can_not_be_changed_is_tolerated_and_a_refusal_is_not():
    task = task_with(Management(), **SECURE)
    boot_mode.configure_secure_boot_if_needed(task)
    boot_mode.deconfigure_secure_boot_if_needed(task)
    assert task.node.secure_boot is None
    task = task_with(Management(secure=errors.DriverOperationError(reason="x")), **SECURE)
    with pytest.raises(errors.DriverOperationError):
        boot_mode.configure_secure_boot_if_needed(task)


def ago(seconds: float) -> datetime.datetime:
    return timeutils.utcnow(with_timezone=True) - datetime.timedelta(seconds=seconds)


def quick(**values) -> kit.Task:
    row = {
        "driver_info": {"fast_track": "true"},
        "power_state": states.POWER_ON,
        "provision_state": states.AVAILABLE,
        "driver_internal_info": {
            "agent_url": "http://x",
            "agent_last_heartbeat": ago(10).replace(tzinfo=None).isoformat(),
        },
    }
    storage = values.pop("storage", FakeStorage())
    return kit.Task(kit.node(**row | values), storage=storage)


def test_fast_track_needs_everything_to_be_right(config):
    assert fast_track.in_use(quick())
    internal = quick().node.driver_internal_info
    for values in (
        {"driver_info": {}},
        {"driver_info": {"fast_track": "no"}},
        {"last_error": "x"},
        {"provision_state": states.SERVICING},
        {"driver_internal_info": internal | {"redfish_fw_updates": [1]}},
        {"driver_internal_info": internal | {"firmware_updates": [1]}},
        {"driver_internal_info": internal | {"agent_url": None}},
        {"driver_internal_info": internal | {"agent_last_heartbeat": "yesterday"}},
        {"driver_internal_info": internal | {"agent_last_heartbeat": ago(999).isoformat()}},
        {"power_state": states.POWER_OFF},
    ):
        assert not fast_track.in_use(quick(**values)), values
    config("deploy", fast_track=True)
    assert fast_track.in_use(quick(driver_info={}))


def test_fast_track_is_a_boolean():
    with pytest.raises(errors.InvalidParameterValue, match="fast_track"):
        fast_track.enabled(quick(driver_info={"fast_track": "sure"}).node)


def test_an_inspection_that_just_ended_is_a_sign_of_life(config):
    task = quick(driver_internal_info={}, inspection_finished_at=ago(10))
    assert fast_track.agent_is_alive(task.node)
    assert not fast_track.agent_is_alive(task.node, timeout=5)
    inspecting = quick(
        provision_state=states.INSPECTWAIT,
        driver_internal_info={"agent_last_heartbeat": ago(1).isoformat()},
    )
    assert fast_track.agent_is_alive(inspecting.node)


@pytest.mark.parametrize(
    ("state", "internal", "disabled"),
    [
        (states.CLEANING, {"cleaning_disable_ramdisk": True}, True),
        (states.CLEANWAIT, {}, False),
        (states.SERVICING, {"service_disable_ramdisk": True}, True),
        (states.SERVICING, {"cleaning_disable_ramdisk": True}, False),
        (states.DEPLOYING, {"cleaning_disable_ramdisk": True}, False),
    ],
)
def test_flows_may_do_without_a_ramdisk(state, internal, disabled):
    assert (
        ramdisk.disabled(kit.node(provision_state=state, driver_internal_info=internal)) is disabled
    )


def test_a_step_without_a_ramdisk_only_reboots(config):
    task = kit.Task(
        kit.node(
            provision_state=states.CLEANING,
            clean_step={"interface": "bios", "step": "x"},
            driver_internal_info={"cleaning_disable_ramdisk": True},
        )
    )
    assert ramdisk.reboot_to_finish_step(task) == states.CLEANWAIT
    assert task.flows.calls == [("power", states.REBOOT)]


def test_a_running_ramdisk_is_stopped_before_it_is_booted_again(config):
    config("service_catalog", endpoint_override="http://api")
    task = quick(provision_state=states.DEPLOYING, deploy_step={"interface": "bios", "step": "x"})
    assert ramdisk.reboot_to_finish_step(task) == states.DEPLOYWAIT
    assert task.flows.calls == [("power", states.POWER_OFF), ("power", states.REBOOT)]


class IscsiBoot(FakeBoot):
    capabilities = ("iscsi_volume_boot",)


@pytest.fixture
def volumes(monkeypatch):
    """The volume targets of the node."""
    targets: list[SimpleNamespace] = []
    monkeypatch.setattr("ironic_rs.db.volumes.targets_of_node", lambda _id: list(targets))
    monkeypatch.setattr("ironic_rs.db.volumes.destroy_target", targets.remove)
    return targets


def volume(index="0", kind="iscsi") -> SimpleNamespace:
    return SimpleNamespace(uuid=f"v{index}", boot_index=index, volume_type=kind)


def test_external_storage_boots_from_a_volume_when_no_image_is_asked_for(volumes):
    storage = ExternalStorage()
    task = kit.Task(kit.node(), storage=storage)
    assert storage.should_write_image(task)
    volumes.append(volume())
    assert not storage.should_write_image(task)
    storage.validate(task)
    task.node.instance_info = {"image_source": "x"}
    assert storage.should_write_image(task)


def test_external_storage_needs_a_boot_interface_that_can(volumes):
    volumes.append(volume())
    task = kit.Task(kit.node(), storage=ExternalStorage(), boot=IscsiBoot())
    with pytest.raises(errors.InvalidParameterValue, match="ipxe_boot"):
        task.driver.storage.validate(task)


def test_the_boot_volume_is_remembered_and_forgotten(volumes):
    volumes.extend([volume("1"), volume("0")])
    task = kit.Task(kit.node(properties={"capabilities": "iscsi_boot:true"}), boot=IscsiBoot())
    boot_volume.remember(task)
    assert task.node.driver_internal_info == {"boot_from_volume": "v0"}
    boot_volume.forget(task.node)
    assert task.node.driver_internal_info == {}
    assert volumes == []
    boot_volume.remember(task)
    assert task.node.driver_internal_info == {}


@pytest.mark.parametrize("kind", ["iscsi", "fibre_channel", "floppy"])
def test_a_boot_volume_that_the_node_can_not_boot_from_is_an_error(volumes, kind):
    volumes.append(volume(kind=kind))
    with pytest.raises(errors.StorageError, match=kind):
        boot_volume.remember(kit.Task(kit.node()))


def test_the_noop_network_needs_no_power():
    assert NoopNetwork().need_power_on(kit.Task(kit.node())) is False
