"""BMCs that misbehave on the wire, one test for each way, through a whole conductor.

Each asks for something as the API does and looks at what an operator sees: the outcome,
``last_error``, that the node is free again and that its worker is.  Field cases 27, 29,
31, 33, 37, 38, 46, 49.
"""

from __future__ import annotations

import itertools
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import models, nodes
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import sessions, transport
from ironic_rs.rpc.context import admin_context
from tests.harness.bmc import (
    CD,
    RESET,
    ROOT,
    SYSTEM,
    Answer,
    Bmc,
    Request,
    collection,
    error,
    link,
    media,
)
from tests.harness.certificates import certificate

pytestmark = pytest.mark.timeout(120)

GET, POST, PATCH = "GET", "POST", "PATCH"
THE_SYSTEM = "Systems/1$"
THE_RESET = "ComputerSystem.Reset$"
ISO = "http://192.0.2.9/boot.iso"
Run = Callable[..., models.Node]
Enrol = Callable[..., models.Node]
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.fixture
def power_on(run: Run) -> Callable[[models.Node], models.Node]:
    return lambda node: run(node, "change_node_power_state", new_state=states.POWER_ON)


PowerOn = Callable[[models.Node], models.Node]


def assert_on(node: models.Node) -> None:
    assert (node.power_state, node.last_error) == (states.POWER_ON, None)


def assert_failed(node: models.Node, bmc: Bmc, *texts: str) -> None:
    """The node is as it was, and its error names node, BMC and reason in one short text."""
    assert node.power_state in (states.POWER_OFF, None)
    assert node.last_error is not None
    for text in (node.uuid, bmc.address, *texts):
        assert text in node.last_error
    assert "Traceback" not in node.last_error
    assert len(node.last_error) < 1000


def test_a_session_that_ends_in_mid_operation_costs_one_login(
    enrol: Enrol, power_on: PowerOn
) -> None:
    bmc = Bmc("session")
    bmc.script(POST, THE_RESET, lambda _request: bmc.sessions.clear(), times=1)
    assert_on(power_on(enrol(bmc)))
    assert (bmc.logins, bmc.refused) == (2, 1)
    assert len(bmc.asked(POST, THE_RESET)) == 2
    bmc.close()


def test_a_session_that_is_refused_for_ever_is_no_login_storm(
    enrol: Enrol, power_on: PowerOn
) -> None:
    bmc = Bmc("session")
    node = enrol(bmc)
    bmc.script(POST, THE_RESET, Answer(401, error("no session", "Base.1.0.NoValidSession")))
    assert_failed(power_on(node), bmc, "Access denied")
    assert bmc.logins <= 3
    bmc.close()


def test_a_busy_bmc_that_says_when_is_asked_again(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn
) -> None:
    bmc.script(POST, THE_RESET, Answer(503, error("busy"), {"Retry-After": "0"}), times=2)
    assert_on(power_on(enrol(bmc)))
    assert len(bmc.asked(POST, THE_RESET)) == 3


def test_a_bmc_that_is_busy_for_ever_is_given_up_at_the_deadline(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn
) -> None:
    busy = Answer(503, error("busy", "Base.1.0.ServiceTemporarilyUnavailable"))
    busy.headers["Retry-After"] = "1"
    CONF.set_override("operation_timeout", 3, "redfish")
    bmc.script(POST, THE_RESET, busy)
    node = power_on(enrol(bmc))
    assert_failed(node, bmc, "503", "ServiceTemporarilyUnavailable", "tries")


@pytest.mark.parametrize("state", ["absent", None, "Resetting", "off"])
def test_a_power_state_that_is_no_state_is_unknown(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn, conductor: Conductor, state: str | None
) -> None:
    bmc.obeys = False
    if state == "absent":
        del bmc.system["PowerState"]
    else:
        bmc.system["PowerState"] = state
    node = enrol(bmc)
    failed = power_on(node)
    # The request is sent all the same, and waited for in vain.
    assert len(bmc.asked(POST, THE_RESET)) == 1
    assert "power on" in (failed.last_error or "")
    sync = PowerSync()
    for _cycle in range(3):
        sync.run(conductor)
    stored = nodes.get(node.uuid)
    assert stored.power_state in (states.POWER_OFF, None)
    assert (stored.maintenance, stored.fault) == (False, None)


@pytest.mark.parametrize("state", [None, "Resetting", "off"])
def test_a_machine_whose_power_state_is_unknown_can_be_enrolled(
    bmc: Bmc, enrol: Enrol, run: Run, state: str | None
) -> None:
    bmc.system["PowerState"] = state
    node = enrol(bmc)
    nodes.update(node, {"provision_state": states.ENROLL, "power_state": None}, fence=None)
    stored = run(node, "do_provisioning_action", action="manage")
    assert (stored.provision_state, stored.power_state) == (states.MANAGEABLE, None)
    assert (stored.last_error, stored.maintenance) == (None, False)


def test_missing_and_null_fields_do_not_stop_what_does_not_need_them(
    bmc: Bmc, enrol: Enrol, run: Run, power_on: PowerOn
) -> None:
    for name in ("Status", "Boot", "SecureBoot", "MemorySummary", "Links", "IndicatorLED"):
        bmc.system[name] = None
    for name in ("Manufacturer", "Model", "SerialNumber", "UUID", "Processors", "VirtualMedia"):
        del bmc.system[name]
    node = enrol(bmc)
    assert_on(power_on(node))
    with pytest.raises(errors.IronicError, match=str(node.uuid)):
        run(node, "set_boot_device", device="pxe")
    assert nodes.get(node.uuid).reservation is None


def test_a_flapping_power_state_ends_at_the_wanted_one(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn
) -> None:
    shown = itertools.chain(["Off", None, "Off", "PoweringOff"], itertools.cycle(["On", "Off"]))
    CONF.set_override("power_state_change_timeout", 20, "conductor")
    bmc.script(GET, THE_SYSTEM, lambda _r: Answer(200, {**bmc.system, "PowerState": next(shown)}))
    assert_on(power_on(enrol(bmc)))
    assert len(bmc.asked(POST, THE_RESET)) == 1


def test_a_boot_override_that_does_not_stick_is_set_before_each_power_on(
    bmc: Bmc, enrol: Enrol, run: Run, power_on: PowerOn
) -> None:
    bmc.script(PATCH, THE_SYSTEM, Answer(204))
    node = enrol(bmc)
    stored = run(node, "set_boot_device", device="pxe", persistent=True)
    assert stored.driver_internal_info["redfish_boot_device"] == "pxe"
    assert_on(power_on(node))
    changes = [str(r) for r in bmc.requests if r.method in (PATCH, POST)]
    assert changes == [f"PATCH {SYSTEM}", f"PATCH {SYSTEM}", f"POST {RESET}"]


def test_an_etag_that_is_outdated_is_read_again(bmc: Bmc, enrol: Enrol, run: Run) -> None:
    current = ['"1"']
    bmc.script(GET, THE_SYSTEM, lambda _r: Answer(200, bmc.system, {"ETag": current[0]}))

    def strict(request: Request) -> Answer | None:
        if len(bmc.asked(PATCH)) == 1:
            current[0] = '"2"'
        fits = request.headers.get("if-match") == current[0]
        return None if fits else Answer(412, error("changed"))

    bmc.script(PATCH, THE_SYSTEM, strict)
    run(enrol(bmc), "set_boot_device", device="pxe")
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Pxe"


def test_an_etag_that_never_fits_is_an_error(bmc: Bmc, enrol: Enrol, run: Run) -> None:
    bmc.script(PATCH, THE_SYSTEM, Answer(412, error("changed", "Base.1.0.PreconditionFailed")))
    node = enrol(bmc)
    with pytest.raises(errors.RedfishError, match=r"412.*PreconditionFailed") as raised:
        run(node, "set_boot_device", device="pxe")
    assert node.uuid in str(raised.value)
    assert nodes.get(node.uuid).reservation is None


def slots(bmc: Bmc, *kinds: Any) -> list[str]:
    """Give the system these slots: their media types."""
    paths = [f"{SYSTEM}/VirtualMedia/{n}" for n in range(len(kinds))]
    bmc.tree[f"{SYSTEM}/VirtualMedia"] = collection(*paths)
    for path, types in zip(paths, kinds, strict=True):
        bmc.tree[path] = {**media(path), "MediaTypes": types}
    return paths


def attach(run: Run, node: models.Node) -> models.Node:
    return run(
        node,
        "attach_virtual_media",
        device_type="cdrom",
        image_url=ISO,
        image_download_source="http",
    )


def test_of_several_odd_slots_the_first_usable_one_is_taken(
    bmc: Bmc, enrol: Enrol, run: Run
) -> None:
    paths = slots(bmc, ["CD"], None, [], ["USBStick"], ["CD"], ["CD", "DVD", "Foo"], ["DVD"])
    bmc.tree[paths[0]]["Actions"] = {}
    bmc.script(POST, "VirtualMedia/4/", Answer(405, error("local only")))
    bmc.script(POST, "VirtualMedia/5/", Answer(400, error("no such medium")))
    node = enrol(bmc)
    assert attach(run, node).last_error is None
    assert [bmc.tree[path]["Inserted"] for path in paths] == [False] * 6 + [True]
    run(node, "detach_virtual_media", device_types=["cdrom"])
    assert bmc.tree[paths[6]]["Inserted"] is False


def test_when_no_slot_is_usable_each_reason_is_told(bmc: Bmc, enrol: Enrol, run: Run) -> None:
    paths = slots(bmc, ["CD"], ["DVD"], ["USBStick"])
    bmc.tree[paths[0]]["Actions"] = None
    bmc.script(POST, "VirtualMedia/1/", Answer(400, error("image too large")))
    failed = attach(run, enrol(bmc))
    for text in (failed.uuid, ISO, paths[0], "no insert action", paths[1], "image too large"):
        assert text in (failed.last_error or "")


MONITOR = f"{ROOT}/TaskService/Tasks/7"


def test_a_task_that_vanishes_is_judged_by_what_it_was_to_do(
    bmc: Bmc, enrol: Enrol, run: Run
) -> None:
    CONF.set_override("enable_vmedia_insert_polling", True, "redfish")

    def accepted(_request: Request) -> Answer:
        bmc.tree[CD]["Image"] = ISO
        return Answer(202, {}, {"Location": MONITOR})

    bmc.script(POST, "Cd/.*InsertMedia", accepted)
    node = enrol(bmc)
    failed = attach(run, node)
    assert bmc.asked(GET, "Tasks/7$")
    assert "is not inserted after 1 s" in (failed.last_error or "")

    bmc.script(GET, "Tasks/7$", lambda _r: bmc.tree[CD].update(Inserted=True))
    CONF.set_override("vmedia_insert_timeout", 20, "redfish")
    assert attach(run, node).last_error is None


def test_a_task_that_ends_with_an_exception_tells_why(bmc: Bmc, enrol: Enrol, run: Run) -> None:
    CONF.set_override("enable_vmedia_insert_polling", True, "redfish")
    bmc.script(POST, "InsertMedia", Answer(202, {}, {"Location": MONITOR}))
    bmc.tree[MONITOR] = {
        "Id": "7",
        "Name": "insert",
        "TaskState": "Exception",
        "Messages": [{"MessageId": "Oem.1.0.Unreachable", "Message": "image not reachable"}],
    }
    failed = attach(run, enrol(bmc))
    for text in (failed.uuid, ISO, "image not reachable"):
        assert text in (failed.last_error or "")


def test_a_task_is_looked_for_at_the_bmc_whatever_host_its_location_names(
    bmc: Bmc, enrol: Enrol, run: Run
) -> None:
    """It may be the BMC's own name behind a proxy; its token must not go elsewhere."""
    CONF.set_override("enable_vmedia_insert_polling", True, "redfish")
    other = Bmc()
    location = f"{other.address}{MONITOR}"
    bmc.script(POST, "InsertMedia", Answer(202, {}, {"Location": location}))
    message = {"MessageId": "Oem.1.0.Unreachable", "Message": "image not reachable"}
    bmc.tree[MONITOR] = {
        "Id": "7",
        "Name": "insert",
        "TaskState": "Exception",
        "Messages": [message],
    }
    failed = attach(run, enrol(bmc))
    assert "image not reachable" in (failed.last_error or "")
    assert other.requests == []
    other.close()


def test_a_self_signed_certificate_is_refused_unless_trusted(
    tmp_path: Path, enrol: Enrol, power_on: PowerOn
) -> None:
    trusted, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(trusted, key)
    bmc = Bmc(context=context)
    assert_failed(power_on(enrol(bmc)), bmc, "certificate verify failed")
    assert bmc.requests == []
    named = bmc.address.replace("127.0.0.1", "localhost")
    assert_on(power_on(enrol(bmc, redfish_address=named, redfish_verify_ca=str(trusted))))
    bmc.system["PowerState"] = "Off"
    assert_on(power_on(enrol(bmc, redfish_verify_ca=False)))
    bmc.close()


@pytest.mark.parametrize(
    "info",
    [
        {"redfish_verify_ca": "/does/not/exist"},
        {"redfish_verify_ca": ""},
        {"redfish_address": "fe80::1%eth0"},
        {"redfish_password": "alone"},
    ],
    ids=str,
)
def test_settings_that_can_not_work_are_refused_before_anything_is_sent(
    bmc: Bmc, conductor: Conductor, enrol: Enrol, run: Run, info: dict[str, str]
) -> None:
    node = enrol(bmc, **info)
    with pytest.raises(errors.IronicError, match="redfish_") as raised:
        run(node, "change_node_power_state", new_state=states.POWER_ON)
    assert raised.value.code == 400
    assert node.uuid in str(raised.value)
    stored = nodes.get(node.uuid)
    assert (stored.reservation, stored.target_power_state) == (None, None)
    assert bmc.requests == []
    told = conductor.registry.dispatch(
        "validate_driver_interfaces", admin_context(), {"node_id": node.uuid}
    )
    assert told["power"]["result"] is False
    assert "redfish_" in told["power"]["reason"]


def test_a_bmc_at_an_ipv6_address_is_driven_as_any_other(
    enrol: Enrol, run: Run, power_on: PowerOn
) -> None:
    bmc = Bmc("session", host="::1")
    node = enrol(bmc)
    assert_on(power_on(node))
    assert attach(run, node).last_error is None
    assert bmc.tree[CD]["Image"] == ISO
    assert {request.headers["host"] for request in bmc.requests} == {
        bmc.address.removeprefix("http://")
    }
    bmc.system["PowerState"] = "Off"
    bmc.script(POST, THE_RESET, Answer(400, error("fan failure")))
    assert f"of node {node.uuid} at {bmc.address}: " in (power_on(node).last_error or "")
    bmc.close()


def test_a_collection_with_a_thousand_members_is_no_hindrance(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn
) -> None:
    paths = [f"{ROOT}/Systems/{n}" for n in range(1000)]
    bmc.tree[f"{ROOT}/Systems"] = collection(*paths)
    bmc.tree[paths[777]] = bmc.system
    failed = power_on(enrol(bmc, redfish_system_id=None))
    assert_failed(failed, bmc, "1000 systems", "redfish_system_id", "and 990 more")
    bmc.forget()
    assert_on(power_on(enrol(bmc, redfish_system_id=paths[777])))
    assert {request.path for request in bmc.requests} <= {ROOT, paths[777], RESET}


def test_two_systems_behind_one_bmc_do_not_meet(bmc: Bmc, enrol: Enrol, power_on: PowerOn) -> None:
    other, other_reset = f"{ROOT}/Systems/2", f"{ROOT}/Systems/2/Actions/ComputerSystem.Reset"
    bmc.tree[f"{ROOT}/Systems"] = collection(SYSTEM, other)
    bmc.tree[other] = {
        **bmc.system,
        **link(other),
        "Id": "2",
        "Actions": {"#ComputerSystem.Reset": {"target": other_reset}},
    }
    bmc.script(POST, "Systems/2/.*Reset$", Answer(400, error("fan failure")))
    first, second = enrol(bmc), enrol(bmc, redfish_system_id=other)
    assert_failed(power_on(second), bmc, "fan failure")
    assert_on(power_on(first))
    assert nodes.get(second.uuid).power_state == states.POWER_OFF
    assert sessions.session_count() == 1
    assert bmc.connections == 1
    unnamed = power_on(enrol(bmc, redfish_system_id=None))
    assert_failed(unnamed, bmc, "has 2 systems", f"{SYSTEM}, {other}")


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_reset_connection_is_looked_after_and_the_request_not_repeated(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn, carried_out: bool
) -> None:
    def breaks(_request: Request) -> Answer:
        if carried_out:
            bmc.system["PowerState"] = "On"
        return Answer(reset=True)

    bmc.script(POST, THE_RESET, breaks)
    bmc.script(GET, THE_SYSTEM, Answer(reset=True), times=1)
    node = power_on(enrol(bmc))
    assert len(bmc.asked(POST, THE_RESET)) == 1
    if carried_out:
        assert_on(node)
    else:
        assert_failed(node, bmc, "No answer", "reset by peer")


@pytest.mark.parametrize("body", [b"<html>login</html>", b"", b"[]", b'{"Power'], ids=str)
def test_a_body_that_is_not_json_is_told_as_such(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn, body: bytes
) -> None:
    bmc.script(GET, THE_SYSTEM, Answer(200, body))
    assert_failed(power_on(enrol(bmc)), bmc)
    assert bmc.asked(POST, THE_RESET) == []


def test_a_body_that_is_not_json_does_not_spoil_what_was_done(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn
) -> None:
    def odd(_request: Request) -> Answer:
        bmc.system["PowerState"] = "On"
        return Answer(200, b"<html>done</html>")

    bmc.script(POST, THE_RESET, odd)
    assert_on(power_on(enrol(bmc)))


def test_an_answer_that_never_ends_frees_the_worker_at_the_deadline(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn
) -> None:
    over = threading.Event()

    def drip() -> Iterator[bytes]:
        yield JSON_HEAD + b"Content-Length: 1000000\r\n\r\n"
        while not over.wait(0.05):
            yield b" "

    bmc.script(GET, THE_SYSTEM, lambda _request: Answer(raw=drip()))
    CONF.set_override("operation_timeout", 3, "redfish")
    failed = power_on(enrol(bmc))
    over.set()
    assert_failed(failed, bmc, "timed out")


def test_an_answer_without_end_fills_no_memory(
    bmc: Bmc, enrol: Enrol, power_on: PowerOn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "LONGEST_ANSWER", 1024**2)

    def flood(_request: Request) -> Answer:
        return Answer(raw=itertools.chain([JSON_HEAD + b"\r\n"], itertools.repeat(b" " * 65536)))

    bmc.script(GET, THE_SYSTEM, flood)
    assert_failed(power_on(enrol(bmc)), bmc, "longer than 1 MiB")
