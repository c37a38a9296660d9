"""The BMC as the client library of the redfish driver sees it."""

from __future__ import annotations

import contextlib
import http.client
import json
from urllib.parse import urlsplit

import pytest
import sushy
from sushy import auth, exceptions

from ironic_rs.sandbox.faults import Faults
from tests.harness.sandbox import Sandbox


@pytest.fixture
def connect(sandbox: Sandbox):
    """Make clients; a client left open would look for its BMC when it is collected."""
    opened = []

    def make(how=auth.SessionOrBasicAuth, password: str = "password"):
        opened.append(how("admin", password))
        address = sandbox.machine.to_json()["bmc"]["address"]
        return sushy.Sushy(address, auth=opened[-1], server_side_retries=0)

    yield make
    sandbox.machine.faults.update(Faults().to_json())
    for client in opened:
        # Some tests end the sessions themselves.
        with contextlib.suppress(exceptions.HTTPError):
            client.close()
        if isinstance(client, auth.SessionAuth):
            client.reset_session_attrs()


@pytest.fixture
def system(sandbox, connect):
    return connect().get_system(sandbox.machine.spec.system_path)


@pytest.fixture
def raw(sandbox):
    """One kept-alive connection to the BMC."""
    machine = sandbox.machine
    connection = http.client.HTTPConnection(urlsplit(machine.bmc_url).netloc)
    with contextlib.closing(connection):
        yield connection


def cd(system):
    return next(m for m in system.virtual_media.get_members() if "CD" in str(m.media_types))


def test_inspection_data_is_complete(sandbox, system):
    settings, spec = sandbox.settings, sandbox.machine.spec
    assert system.memory_summary.size_gib == settings.memory_gib
    assert system.processors.summary == (settings.cpus, sushy.PROCESSOR_ARCH_x86)
    assert list(system.ethernet_interfaces.summary) == [spec.macs[0]]
    assert system.storage.drives_sizes_bytes == [settings.disk_bytes]
    assert system.simple_storage.disks_sizes_bytes == [settings.disk_bytes]
    storage = system.storage.get_members()[0]
    assert storage.controllers.get_members()[0].identity == "0"
    assert storage.volumes.get_members() == []
    assert system.chassis[0].thermal.temperatures[0].reading_celsius == 41
    assert system.uuid == spec.uuid


def test_a_collection_can_be_expanded(sandbox, system):
    path = f"{sandbox.machine.spec.system_path}/EthernetInterfaces"
    document = system._conn.get(f"{path}?$expand=.($levels=1)").json()
    assert document["Members"][0]["MACAddress"] == sandbox.machine.spec.macs[0]


def test_a_power_request_switches_the_machine(sandbox, system):
    assert system.power_state == sushy.SYSTEM_POWER_STATE_OFF
    system.reset_system(sushy.RESET_ON)
    sandbox.wait(lambda: sandbox.machine.software == "firmware", "power-on")
    system.refresh()
    assert system.power_state == sushy.SYSTEM_POWER_STATE_ON
    system.reset_system(sushy.RESET_GRACEFUL_SHUTDOWN)
    sandbox.wait(lambda: sandbox.machine.power == "Off", "shutdown")


def test_an_unknown_reset_type_is_refused(sandbox, system):
    path = f"{sandbox.machine.spec.system_path}/Actions/ComputerSystem.Reset"
    with pytest.raises(exceptions.BadRequestError, match="ResetType"):
        system._conn.post(path, data={"ResetType": "Explode"})


def test_the_boot_device_can_be_set_once_and_for_ever(system):
    for enabled in (sushy.BOOT_SOURCE_ENABLED_ONCE, sushy.BOOT_SOURCE_ENABLED_CONTINUOUS):
        system.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_CD, enabled=enabled)
        system.refresh()
        assert system.boot.enabled == enabled
        assert system.boot.target == sushy.BOOT_SOURCE_TARGET_CD


def test_media_are_seen_at_system_and_manager(sandbox, system):
    cd(system).insert_media("http://127.0.0.1/boot.iso", inserted=True, write_protected=True)
    at_manager = system.managers[0].virtual_media.get_members()[0]
    assert (at_manager.image, at_manager.inserted) == ("http://127.0.0.1/boot.iso", True)
    with pytest.raises(exceptions.HTTPError):
        cd(system).insert_media("http://127.0.0.1/other.iso")
    at_manager.eject_media()
    assert sandbox.machine.virtual_media["Cd"].inserted is False


def test_bios_settings_wait_for_the_next_boot(sandbox, system):
    system.bios.set_attributes({"NumaGroup": 2}, apply_time=sushy.APPLY_TIME_ON_RESET)
    system.bios.refresh(force=True)
    assert system.bios.pending_attributes == {"NumaGroup": 2}
    assert system.bios.attributes["NumaGroup"] == 1
    system.reset_system(sushy.RESET_ON)
    sandbox.wait(lambda: "nothing to boot" in sandbox.machine.detail, "boot")
    system.bios.refresh(force=True)
    assert system.bios.attributes["NumaGroup"] == 2


def test_secure_boot_needs_uefi(system):
    system.set_system_boot_options(mode=sushy.BOOT_SOURCE_MODE_BIOS)
    with pytest.raises(exceptions.BadRequestError, match="UEFI"):
        system.secure_boot.set_enabled(True)


def test_the_password_is_checked(sandbox, connect):
    with pytest.raises(exceptions.AccessError):
        connect(auth.BasicAuth, "wrong").get_system(sandbox.machine.spec.system_path)
    assert sandbox.machine.counters.counts["bmc.denied"] == 1


def test_basic_authentication_opens_no_session(sandbox, connect):
    connect(auth.BasicAuth).get_system(sandbox.machine.spec.system_path)
    assert sandbox.machine.counters.counts["bmc.sessions"] == 0
    assert sandbox.machine.counters.counts["bmc.basic_auth"] == 1


def test_a_client_gets_over_expired_sessions(sandbox, system):
    assert sandbox.call(sandbox.fleet.bmcs.expire_sessions, sandbox.machine) == 1
    system.refresh(force=True)
    assert sandbox.machine.counters.counts["bmc.sessions"] == 2


def test_sessions_end_by_themselves(sandbox, system):
    sandbox.machine.faults.update({"session-lifetime": 0})
    with pytest.raises(exceptions.AccessError):
        system.refresh(force=True)


def test_a_closed_session_is_gone(sandbox, connect):
    connect(auth.SessionAuth)._auth.close()
    assert sandbox.fleet.bmcs._bmcs[0].sessions == {}


def test_sessions_are_limited(sandbox, raw):
    body = json.dumps({"UserName": "admin", "Password": "password"})
    answers = []
    for _ in range(sandbox.settings.session_limit + 1):
        raw.request("POST", "/redfish/v1/SessionService/Sessions", body)
        with raw.getresponse() as response:
            answers.append(response.status)
            response.read()
    assert answers == [201] * sandbox.settings.session_limit + [503]


def test_connections_are_counted_apart_from_requests(sandbox, raw):
    bmc = sandbox.machine
    for _ in range(3):
        raw.request("GET", "/redfish/v1/")
        assert json.loads(raw.getresponse().read())["RedfishVersion"]
    assert bmc.counters.counts["bmc.connections"] == 1
    assert bmc.counters.counts["bmc.requests"] == 3
    assert bmc.counters.bmc_paths == {"GET /redfish/v1/": 3}


def test_a_failing_bmc_names_a_time_to_retry(sandbox, raw):
    bmc = sandbox.machine
    bmc.faults.update({"bmc_status": 503, "bmc_retry_after": 7, "bmc_times": 1})
    raw.request("GET", "/redfish/v1/")
    response = raw.getresponse()
    assert (response.status, response.headers["Retry-After"]) == (503, "7")
    assert "error" in json.loads(response.read())
    raw.request("GET", "/redfish/v1/")
    assert raw.getresponse().status == 200


def test_a_fault_hits_only_the_requests_it_is_meant_for(sandbox, system):
    sandbox.machine.faults.update({"bmc_status": 500, "bmc_only": "^POST .*Reset$"})
    system.refresh(force=True)
    with pytest.raises(exceptions.ServerSideError):
        system.reset_system(sushy.RESET_ON)


def test_a_dropped_connection_gives_no_answer(sandbox, raw):
    bmc = sandbox.machine
    bmc.faults.update({"bmc_drop": True})
    raw.request("GET", "/redfish/v1/")
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        raw.getresponse()


def test_a_stuck_power_switch_accepts_and_does_nothing(sandbox, system):
    sandbox.machine.faults.update({"power_stuck": True})
    system.reset_system(sushy.RESET_ON)
    system.refresh(force=True)
    assert system.power_state == sushy.SYSTEM_POWER_STATE_OFF
    assert sandbox.machine.counters.counts["bmc.reset.On"] == 1


def test_a_bmc_can_lie_about_power(sandbox, system):
    sandbox.machine.faults.update({"power_lie": "On"})
    system.refresh(force=True)
    assert system.power_state == sushy.SYSTEM_POWER_STATE_ON
    assert sandbox.machine.power == "Off"


def test_what_is_not_there_is_404_and_what_cannot_be_done_405(sandbox, system):
    with pytest.raises(exceptions.ResourceNotFoundError):
        system._conn.get("/redfish/v1/Systems/another")
    with pytest.raises(exceptions.HTTPError) as caught:
        system._conn.patch("/redfish/v1/Chassis/Tray", data={"AssetTag": "x"})
    assert caught.value.status_code == 405


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"Boot": 1}', b'{"Boot": {"BootOrder": ["x"]}}'])
def test_a_malformed_change_is_400(sandbox, system, raw, body):
    bmc = sandbox.machine
    token = system._conn._session.headers["X-Auth-Token"]
    raw.request("PATCH", bmc.spec.system_path, body, {"X-Auth-Token": token})
    assert raw.getresponse().status == 400


@pytest.mark.parametrize(("end", "version"), [("gone", "2.0"), ("lost", "1.0.0")])
def test_an_update_reads_its_image_and_shows_scripted_states(
    sandbox, connect, system, end, version
):
    sandbox.machine.faults.update({"update-states": f"New Running Pending {end}"})
    root = connect()
    # What is in an image does not matter: the service root will do.
    url = f"{sandbox.machine.bmc_url}/redfish/v1/?x=/bios-2.0.bin"
    uri = root.get_update_service().simple_update(url).task_monitor_uri
    update = sandbox.machine.firmware.tasks[-1]
    sandbox.wait(lambda: update["sha256"], "the image is read")
    states = [
        json.loads(root._conn.get(uri).content)["TaskState"]
        for _look in ("first", "second", "third")
    ]
    assert states == ["New", "Running", "Pending"]
    for _look in ("first", "second"):
        with pytest.raises(exceptions.ResourceNotFoundError):
            root.get_task_monitor(uri)
    system.refresh()
    assert system.bios_version == version
    sandbox.machine.firmware.versions["bios"] = "1.0.0"
