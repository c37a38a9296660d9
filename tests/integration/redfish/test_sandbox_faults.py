"""The faults of simulated BMCs, one test each, through a whole conductor.

What an operator can try with ``ironic-rs-sandbox`` (docs/sandbox.md) and what comes of
it: the outcome, a clear ``last_error``, and a worker that is free again.  How requests
look in detail is in test_redfish_faults.py, at BMCs that a test scripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import INTERFACE_TYPES as KINDS
from ironic_rs.sandbox.faults import Faults
from tests.harness.sandbox import Sandbox, running

pytestmark = pytest.mark.timeout(120)

ON, OFF = states.POWER_ON, states.POWER_OFF
ISO = "http://192.0.2.9/boot.iso"
RESET = "^POST .*ComputerSystem.Reset$"
SYSTEM = "^GET .*/Systems/[^/]+$"
Run = Callable[..., models.Node]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running(tmp_path_factory.mktemp("sandbox")) as started:
        yield started


class Bench:
    """A node on a simulated machine."""

    def __init__(self, fleet: Sandbox, run: Run, **info: Any) -> None:
        self.fleet, self.run, self.machine = fleet, run, fleet.machine
        shown = self.machine.to_json()["bmc"]
        driver_info = {
            "redfish_address": shown["address"],
            "redfish_system_id": shown["system_id"],
            "redfish_username": shown["username"],
            "redfish_password": shown["password"],
            **info,
        }
        row = {
            **{f"{kind}_interface": CONF[f"enabled_{kind}_interfaces"][0] for kind in KINDS},
            "driver": "redfish",
            "provision_state": states.AVAILABLE,
            "power_state": OFF,
            "driver_info": driver_info,
        }
        self.node = nodes.create(row)

    def faults(self, **values: Any) -> None:
        self.fleet.call(self.machine.faults.update, values)

    def power(self, state: str = ON) -> models.Node:
        return self.run(self.node, "change_node_power_state", new_state=state)

    def attach(self) -> models.Node:
        return self.run(
            self.node,
            "attach_virtual_media",
            device_type="cdrom",
            image_url=ISO,
            image_download_source="http",
        )

    def asked(self, path: str) -> int:
        return sum(n for shown, n in self.machine.counters.bmc_paths.items() if path in shown)

    def is_on(self, node: models.Node) -> None:
        assert (node.power_state, node.last_error) == (ON, None)
        assert self.machine.power == "On"

    def failed(self, node: models.Node, *texts: str) -> None:
        assert node.last_error is not None
        for text in (node.uuid, self.machine.bmc_url, *texts):
            assert text in node.last_error
        assert "Traceback" not in node.last_error
        assert len(node.last_error) < 1000


@pytest.fixture
def bench(fleet: Sandbox, run: Run) -> Iterator[Bench]:
    machine = fleet.machine

    def at_rest() -> None:
        machine.faults.update(Faults().to_json())
        machine.reset("ForceOff")
        machine.counters.reset()
        for medium in machine.virtual_media.values():
            medium.eject()
        machine.boot.enabled, machine.boot.target = "Disabled", "None"

    fleet.call(at_rest)
    fleet.wait(lambda: machine.power == "Off", "the machine is off")
    yield Bench(fleet, run)
    fleet.call(at_rest)


def test_a_session_that_ends_in_mid_operation(bench: Bench) -> None:
    bench.is_on(bench.power())
    bench.power(OFF)
    bench.fleet.call(bench.fleet.fleet.bmcs.expire_sessions, bench.machine)
    bench.is_on(bench.power())
    assert bench.machine.counters.counts["bmc.sessions"] == 2


def test_busy_with_a_time_to_come_back(bench: Bench) -> None:
    bench.faults(bmc_status=503, bmc_retry_after=0, bmc_times=2, bmc_only=RESET)
    bench.is_on(bench.power())


def test_busy_for_ever(bench: Bench) -> None:
    CONF.set_override("operation_timeout", 2, "redfish")
    bench.faults(
        bmc_status=503, bmc_retry_after=1, bmc_only=RESET, bmc_message_id="ServiceShuttingDown"
    )
    bench.failed(bench.power(), "503", "ServiceShuttingDown", "tries")


@pytest.mark.parametrize("how", ["bmc_omit", "bmc_null"])
def test_missing_and_null_fields(bench: Bench, how: str) -> None:
    names = "Boot Status Manufacturer Model SerialNumber SKU MemorySummary SecureBoot Links Bios"
    bench.faults(**{how: names}, bmc_only=SYSTEM)
    bench.is_on(bench.power())
    with pytest.raises(errors.IronicError, match=bench.node.uuid):
        bench.run(bench.node, "set_boot_device", device="pxe")


@pytest.mark.parametrize("shown", ["null", "Resetting", "off"])
def test_a_power_state_that_is_none(bench: Bench, conductor: Conductor, shown: str) -> None:
    bench.faults(power_lie=shown)
    failed = bench.power()
    assert "power on" in (failed.last_error or "")
    assert bench.machine.power == "On", "the request is sent all the same"
    sync = PowerSync()
    for _cycle in range(3):
        sync.run(conductor)
    after = nodes.get(bench.node.uuid)
    assert (after.maintenance, after.fault) == (False, None)
    assert after.power_state in (OFF, None)


def test_a_flapping_power_state(bench: Bench) -> None:
    CONF.set_override("power_state_change_timeout", 20, "conductor")
    bench.faults(power_lie="Off null Off On")
    node = bench.power()
    assert (node.power_state, node.last_error) == (ON, None)
    assert bench.machine.counters.counts["bmc.reset.On"] == 1


def test_a_boot_override_that_does_not_stick(bench: Bench) -> None:
    bench.faults(boot_forgets=True)
    bench.run(bench.node, "set_boot_device", device="pxe", persistent=True)
    bench.is_on(bench.power())
    assert bench.asked(f"PATCH {bench.machine.spec.system_path}") == 2, "set again before the boot"


@pytest.mark.parametrize("mood", ["strict", "outdated"])
def test_etags(bench: Bench, mood: str) -> None:
    bench.faults(bmc_etags=mood)
    for device, target in (("pxe", "Pxe"), ("disk", "Hdd")):
        bench.run(bench.node, "set_boot_device", device=device)
        assert bench.machine.boot.target == target


def test_an_etag_that_never_fits(bench: Bench) -> None:
    bench.faults(bmc_status=412, bmc_message_id="PreconditionFailed", bmc_only="^PATCH ")
    with pytest.raises(errors.RedfishError, match=r"412.*PreconditionFailed"):
        bench.run(bench.node, "set_boot_device", device="pxe")


def test_several_slots_with_odd_types(bench: Bench) -> None:
    bench.faults(media_slots="CD! null - USBStick Foo CD+DVD+Foo DVD")
    assert bench.attach().last_error is None
    slots = bench.machine.media_slots()
    assert [name for name, slot in slots.items() if slot.inserted] == ["Slot6"]
    bench.run(bench.node, "detach_virtual_media", device_types=["cdrom"])
    assert not slots["Slot6"].inserted


def test_slots_of_which_none_will_do(bench: Bench) -> None:
    bench.faults(media_slots="CD! DVD! USBStick")
    failed = bench.attach()
    for text in (failed.uuid, ISO, "Slot1: it has no insert action", "Slot2: it has no insert"):
        assert text in (failed.last_error or "")


def test_a_medium_that_is_accepted_and_lost(bench: Bench) -> None:
    CONF.set_override("enable_vmedia_insert_polling", True, "redfish")
    bench.faults(media_lost=True)
    failed = bench.attach()
    assert "is not inserted after 1 s" in (failed.last_error or "")


def test_a_collection_with_a_thousand_members(bench: Bench) -> None:
    bench.faults(bmc_systems=999, bmc_page=100)
    nodes.update(bench.node, {"driver_info": _without_system(bench.node)}, fence=None)
    bench.failed(bench.power(), "1000 systems", "redfish_system_id", "and 990 more")
    assert bench.asked("GET /redfish/v1/Systems") == 10
    assert bench.machine.power == "Off"


def _without_system(node: models.Node) -> dict[str, Any]:
    return {key: value for key, value in node.driver_info.items() if key != "redfish_system_id"}


def test_two_systems_behind_one_bmc(bench: Bench) -> None:
    bench.faults(bmc_systems=1)
    other = Bench(bench.fleet, bench.run, redfish_system_id="/redfish/v1/Systems/other-1")
    assert other.power().last_error is None
    assert (bench.machine.power, bench.machine.other_systems) == ("Off", {"other-1": "On"})
    bench.is_on(bench.power())
    other.power(OFF)
    assert (bench.machine.power, bench.machine.other_systems) == ("On", {"other-1": "Off"})


@pytest.mark.parametrize("how", ["bmc_reset", "bmc_drop"])
def test_a_broken_connection(bench: Bench, how: str) -> None:
    bench.faults(**{how: True}, bmc_only=SYSTEM, bmc_times=1)
    bench.is_on(bench.power())
    bench.power(OFF)
    bench.faults(**{how: True}, bmc_only=RESET, bmc_times=None)
    bench.failed(bench.power(), "No answer")
    assert bench.machine.counters.counts["bmc.reset.On"] == 1, "and no second request arrived"


@pytest.mark.parametrize("body", ["<html>login</html>", "[]", '{"Power'])
def test_a_body_that_is_not_json(bench: Bench, body: str) -> None:
    bench.faults(bmc_body=body, bmc_only=SYSTEM)
    bench.failed(bench.power())
    assert bench.machine.power == "Off"


def test_an_answer_that_never_ends(bench: Bench) -> None:
    CONF.set_override("operation_timeout", 2, "redfish")
    bench.faults(bmc_endless=True, bmc_only=SYSTEM)
    bench.failed(bench.power(), "timed out")


def test_self_signed_tls_and_ipv6(run: Run, tmp_path: Path) -> None:
    with running(tmp_path / "tls", bmc_tls=True, bmc_ipv6=True) as fleet:
        bench = Bench(fleet, run)
        assert bench.machine.bmc_url.startswith("https://[::1]:")
        bench.failed(bench.power(), "certificate verify failed")
        certificate = bench.machine.to_json()["bmc"]["certificate"]
        trusting = Bench(fleet, run, redfish_verify_ca=certificate)
        trusting.is_on(trusting.power())
        trusting.power(OFF)
        careless = Bench(fleet, run, redfish_verify_ca=False)
        careless.is_on(careless.power())
        careless.power(OFF)
