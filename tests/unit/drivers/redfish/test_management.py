"""Boot device, boot mode and the rest, at a scripted BMC."""

from __future__ import annotations

import datetime

import pytest

from ironic_rs.domain import errors, states
from tests.harness.bmc import MANAGER, SYSTEM, Answer, error, link


@pytest.fixture
def management(task):
    return task.driver.management


def patches(bmc, path="Systems/1$"):
    return [request.body for request in bmc.asked("PATCH", path)]


def boot(**values):
    return {"Boot": {f"BootSourceOverride{name}": value for name, value in values.items()}}


def test_the_first_request_names_what_changes(bmc, task, management):
    management.set_boot_device(task, "pxe", persistent=True)
    management.set_boot_device(task, "disk", persistent=True)
    assert patches(bmc) == [boot(Target="Pxe", Enabled="Continuous"), boot(Target="Hdd")]
    assert management.get_boot_device(task) == {"boot_device": "disk", "persistent": True}
    management.set_boot_device(task, "cdrom")
    assert management.get_boot_device(task) == {"boot_device": "cdrom", "persistent": False}


def test_a_bmc_that_wants_the_whole_object_gets_it(bmc, task, management):
    whole = {"BootSourceOverrideTarget", "BootSourceOverrideEnabled", "BootSourceOverrideMode"}

    def picky(request):
        return None if set(request.body["Boot"]) == whole else Answer(400, error("incomplete"))

    bmc.script("PATCH", "Systems/1$", picky)
    management.set_boot_device(task, "pxe")
    assert patches(bmc)[-1] == boot(Target="Pxe", Enabled="Once", Mode="UEFI")
    management.set_boot_mode(task, "bios")
    assert patches(bmc)[-1] == boot(Target="Pxe", Enabled="Once", Mode="Legacy")


def test_a_vendor_known_for_it_gets_the_whole_object_at_once(bmc, task, management):
    task.node.properties["vendor"] = "AMI"
    del bmc.system["Boot"]["BootSourceOverrideMode"]
    management.set_boot_device(task, "pxe")
    assert patches(bmc) == [boot(Target="Pxe", Enabled="Once", Mode="UEFI")]


def test_values_are_not_invented_for_other_vendors(bmc, task, management):
    del bmc.system["Boot"]["BootSourceOverrideMode"]
    bmc.system["Boot"]["BootSourceOverrideEnabled"] = "Once"
    bmc.script("PATCH", "Systems/1$", Answer(400, error("no")), times=1)
    management.set_boot_device(task, "pxe")
    assert patches(bmc) == [boot(Target="Pxe"), boot(Target="Pxe", Enabled="Once")]


def test_enabled_is_not_sent_with_target_none(bmc, task, management):
    bmc.system["Boot"]["BootSourceOverrideEnabled"] = "Once"
    bmc.script("PATCH", "Systems/1$", Answer(400, error("no")), times=1)
    with pytest.raises(errors.RedfishError):
        management.set_boot_mode(task, "bios")
    assert patches(bmc) == [boot(Mode="Legacy")]


def test_a_bmc_that_forgets_the_device_is_told_before_each_boot(bmc, task, management):
    def refuses_continuous(request):
        if request.body["Boot"].get("BootSourceOverrideEnabled") == "Continuous":
            return Answer(400, error("Continuous is not supported"))
        return None

    bmc.script("PATCH", "Systems/1$", refuses_continuous)
    management.set_boot_device(task, "disk", persistent=True)
    assert bmc.system["Boot"]["BootSourceOverrideEnabled"] == "Once"
    assert task.node.driver_internal_info["redfish_boot_device"] == "disk"
    assert task.saves == 1
    management.set_boot_device(task, "pxe")
    assert "redfish_boot_device" not in task.node.driver_internal_info


@pytest.mark.parametrize(
    "shown",
    [
        {"BootSourceOverrideEnabled": "Once"},
        {"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None"},
        {"BootSourceOverrideTarget": "Hdd"},
    ],
    ids=str,
)
def test_a_persistent_device_that_does_not_stick_is_set_before_each_boot(
    bmc, task, management, shown
):
    def forgets(request):
        bmc.system["Boot"].update(request.body["Boot"], **shown)
        return Answer(204)

    bmc.script("PATCH", "Systems/1$", forgets)
    management.set_boot_device(task, "pxe", persistent=True)
    assert task.node.driver_internal_info["redfish_boot_device"] == "pxe"
    task.driver.power.set_power_state(task, states.POWER_ON)
    assert patches(bmc)[-1]["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    order = [str(r) for r in bmc.requests if r.method in ("PATCH", "POST")]
    assert order[-2].startswith("PATCH") and order[-1].endswith("ComputerSystem.Reset")


def test_a_persistent_device_that_sticks_is_left_alone(bmc, task, management):
    management.set_boot_device(task, "pxe", persistent=True)
    assert "redfish_boot_device" not in task.node.driver_internal_info
    assert len(patches(bmc)) == 1


def test_a_device_that_cannot_be_read_back_is_taken_as_set(bmc, task, management):
    def breaks(_request):
        bmc.script("GET", "Systems/1$", Answer(404, error("just now")))

    bmc.script("PATCH", "Systems/1$", breaks)
    management.set_boot_device(task, "pxe", persistent=True)
    assert "redfish_boot_device" not in task.node.driver_internal_info


def test_a_machine_in_post_is_waited_for(bmc, task, management, clock):
    busy = Answer(400, error("no", "iLO.2.14.UnableToModifyDuringSystemPOST"))
    bmc.script("PATCH", "Systems/1$", busy, times=4)
    management.set_boot_device(task, "pxe")
    assert clock.slept == [5, 10, 20, 30]
    assert len(patches(bmc)) == 5


def test_a_machine_in_post_for_ever_is_an_error(bmc, task, management, clock, config):
    config("redfish", post_boot_retry_attempts=2)
    bmc.script("PATCH", "Systems/1$", Answer(400, error("x", "UnableToModifyDuringSystemPOST")))
    with pytest.raises(errors.RedfishError, match="UnableToModifyDuringSystemPOST"):
        management.set_boot_device(task, "pxe")


@pytest.mark.parametrize(
    ("tag", "accepts"),
    [
        ('W/"123"', {'"123"'}),
        ('W/"123"', {'W/"123"'}),
        ('""', {None}),
        ('"123"', {None}),
        (None, {None}),
    ],
)
def test_moods_about_etags(bmc, task, management, tag, accepts):
    headers = {"ETag": tag} if tag else {}
    bmc.script("GET", "Systems/1$", lambda _request: Answer(200, bmc.system, headers))

    def check(request):
        given = request.headers.get("if-match")
        return None if given in accepts else Answer(412, error("precondition"))

    bmc.script("PATCH", "Systems/1$", check)
    management.set_boot_device(task, "pxe")
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Pxe"


@pytest.mark.parametrize("without", [412, 428])
def test_a_system_that_changed_meanwhile_is_read_again(bmc, task, management, without):
    current = ['"1"']
    bmc.script("GET", "Systems/1$", lambda _r: Answer(200, bmc.system, {"ETag": current[0]}))

    def strict(request):
        given = request.headers.get("if-match")
        if len(bmc.asked("PATCH")) == 1:
            current[0] = '"2"'
        if given is None:
            return Answer(without, error("If-Match is needed"))
        return None if given == current[0] else Answer(412, error("changed"))

    bmc.script("PATCH", "Systems/1$", strict)
    management.set_boot_device(task, "pxe")
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Pxe"


def test_preconditions_that_never_hold_are_an_error(bmc, task, management):
    bmc.script("PATCH", "Systems/1$", Answer(412, error("changed", "Base.1.0.PreconditionFailed")))
    with pytest.raises(errors.RedfishError, match=r"412.*PreconditionFailed"):
        management.set_boot_device(task, "pxe")
    assert len(bmc.asked("PATCH")) <= 6


def test_a_system_without_boot_object(bmc, task, management):
    del bmc.system["Boot"]
    assert management.get_boot_device(task) == {"boot_device": None, "persistent": None}
    with pytest.raises(errors.UnsupportedHardwareFeature, match="boot device override"):
        management.set_boot_device(task, "pxe")
    assert management.get_boot_mode(task) is None
    assert "pxe" in management.get_supported_boot_devices(task)


@pytest.mark.parametrize(
    "shown",
    [{}, {"BootSourceOverrideTarget": None}, {"BootSourceOverrideEnabled": "Disabled"}],
    ids=str,
)
def test_a_partial_boot_object(bmc, task, management, shown):
    bmc.system["Boot"] = shown
    assert management.get_boot_device(task)["boot_device"] is None
    management.set_boot_device(task, "pxe")
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Pxe"


@pytest.mark.parametrize(("device", "complaint"), [("tape", "unknown"), ("uefihttp", "UEFI_HTTP")])
def test_a_device_that_the_machine_does_not_have(task, management, device, complaint):
    with pytest.raises(errors.InvalidParameterValue, match=complaint):
        management.set_boot_device(task, device)


def test_the_url_of_http_boot_is_passed_on_once(bmc, task, management):
    bmc.system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"].append("UefiHttp")
    bmc.system["Boot"]["HttpBootUri"] = None
    task.node.driver_internal_info["redfish_uefi_http_url"] = "http://192.0.2.1/x.iso"
    management.set_boot_device(task, "uefihttp")
    assert bmc.system["Boot"]["HttpBootUri"] == "http://192.0.2.1/x.iso"
    assert "redfish_uefi_http_url" not in task.node.driver_internal_info


def test_supermicro_boots_virtual_media_from_a_usb_cd(bmc, task, management):
    bmc.system["Manufacturer"] = "Supermicro"
    bmc.system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"].append("UsbCd")
    task.node.properties["vendor"] = "Supermicro"
    management.set_boot_device(task, "cdrom")
    assert patches(bmc)[0] == boot(Target="UsbCd", Enabled="Once")
    assert management.get_boot_device(task)["boot_device"] == "cdrom"


def test_a_boot_mode_that_takes_effect_at_once(bmc, task, management):
    management.set_boot_mode(task, "bios")
    assert patches(bmc) == [boot(Mode="Legacy")]
    assert management.get_boot_mode(task) == "bios"
    assert task.flows.calls == []


def test_a_boot_mode_that_needs_a_reboot(bmc, task, management, clock):
    wanted = []

    def pending(request):
        wanted.append(request.body["Boot"]["BootSourceOverrideMode"])
        return Answer(204)

    def booted(_request):
        if wanted and len(clock.slept) >= 3:
            bmc.system["Boot"]["BootSourceOverrideMode"] = wanted[-1]

    bmc.script("PATCH", "Systems/1$", pending)
    bmc.script("GET", "Systems/1$", booted)
    management.set_boot_mode(task, "bios")
    assert [call for call in task.flows.calls if call[0] == "power"] == [
        ("power", states.REBOOT),
        ("power", states.POWER_OFF),
    ]
    assert clock.slept == [15, 15, 15]


def test_a_boot_mode_that_never_comes(bmc, task, management, config):
    config("redfish", boot_mode_config_timeout=60)
    bmc.script("PATCH", "Systems/1$", Answer(204))
    with pytest.raises(errors.RedfishError, match=r"boot mode 'bios'.*60 s"):
        management.set_boot_mode(task, "bios")


def test_a_boot_mode_is_not_waited_for_when_configured_so(bmc, task, management, config):
    config("redfish", boot_mode_config_timeout=0)
    bmc.script("PATCH", "Systems/1$", Answer(204))
    management.set_boot_mode(task, "bios")
    assert task.flows.calls == []


def test_a_machine_without_boot_modes(bmc, task, management):
    del bmc.system["Boot"]["BootSourceOverrideMode"]
    bmc.script("PATCH", "Systems/1$", Answer(400, error("unknown property")))
    with pytest.raises(errors.UnsupportedDriverExtension):
        management.set_boot_mode(task, "uefi")


def test_a_mode_that_is_refused(bmc, task, management):
    bmc.script("PATCH", "Systems/1$", Answer(400, error("only UEFI here")))
    with pytest.raises(errors.RedfishError, match="only UEFI here"):
        management.set_boot_mode(task, "bios")
    with pytest.raises(errors.InvalidParameterValue, match="sideways"):
        management.set_boot_mode(task, "sideways")


def test_what_follows_a_power_read_costs_nothing(bmc, task, management):
    task.driver.power.get_power_state(task)
    bmc.forget()
    assert management.get_boot_mode(task) == "uefi"
    assert management.get_node_health(task) == "OK"
    assert management.detect_vendor(task) == "Contoso"
    assert bmc.requests == []


def test_a_change_makes_old_readings_void(bmc, task, management):
    task.driver.power.get_power_state(task)
    management.set_boot_mode(task, "bios")
    assert management.get_boot_mode(task) == "bios"


@pytest.mark.parametrize(
    ("status", "expected"),
    [({"Health": "Warning"}, "Warning"), ({"Health": "Fine"}, None), ({}, None), (None, None)],
    ids=str,
)
def test_health(bmc, task, management, status, expected):
    bmc.system["Status"] = status
    assert management.get_node_health(task) == expected


def test_the_vendor_of_the_service_root_goes_first(bmc, task, management):
    bmc.tree["/redfish/v1"]["Vendor"] = "HPE"
    assert management.detect_vendor(task) == "HPE"


class TestSecureBoot:
    def test_is_read_with_one_more_get(self, bmc, task, management):
        task.driver.power.get_power_state(task)
        bmc.forget()
        assert management.get_secure_boot_state(task) is False
        assert [str(request) for request in bmc.requests] == [f"GET {SYSTEM}/SecureBoot"]

    def test_is_set_and_waited_for(self, bmc, task, management):
        management.set_secure_boot_state(task, True)
        assert management.get_secure_boot_state(task) is True
        bmc.forget()
        management.set_secure_boot_state(task, True)
        assert bmc.asked("PATCH") == []

    def test_needs_uefi(self, bmc, task, management):
        bmc.system["Boot"]["BootSourceOverrideMode"] = "Legacy"
        with pytest.raises(errors.RedfishError, match="boot mode bios"):
            management.set_secure_boot_state(task, True)

    @pytest.mark.parametrize("gap", ["link", "resource"])
    def test_a_machine_without_it(self, bmc, task, management, gap):
        if gap == "link":
            del bmc.system["SecureBoot"]
        else:
            del bmc.tree[f"{SYSTEM}/SecureBoot"]
        with pytest.raises(errors.UnsupportedDriverExtension):
            management.get_secure_boot_state(task)
        with pytest.raises(errors.UnsupportedDriverExtension):
            management.set_secure_boot_state(task, True)

    def test_a_missing_licence_leaves_it_unknown(self, bmc, task, management):
        refusal = Answer(403, error("no", "Base.OemLicenseNotPassed"))
        bmc.script("GET", "SecureBoot", refusal)
        assert management.get_secure_boot_state(task) is None

    def test_keys(self, bmc, task, management):
        target = f"{SYSTEM}/SecureBoot/Actions/ResetKeys"
        bmc.tree[f"{SYSTEM}/SecureBoot"]["Actions"] = {"#SecureBoot.ResetKeys": {"target": target}}
        bmc.script("POST", "ResetKeys", Answer(204))
        management.reset_secure_boot_keys_to_default(task)
        management.clear_secure_boot_keys(task)
        assert [request.body["ResetKeysType"] for request in bmc.asked("POST")] == [
            "ResetAllKeysToDefault",
            "DeleteAllKeys",
        ]


class TestClock:
    def test_is_left_alone_unless_configured(self, bmc, task, management):
        management.verify_bmc_clock(task)
        assert bmc.requests == []

    def test_is_set_when_it_is_off(self, bmc, task, management, config):
        def running(_request):
            if bmc.asked("PATCH", "Managers"):
                bmc.tree[MANAGER]["DateTime"] = datetime.datetime.now(datetime.UTC).isoformat(
                    timespec="seconds"
                )

        config("redfish", enable_verify_bmc_clock=True)
        bmc.script("GET", "Managers/1$", running)
        management.verify_bmc_clock(task)
        management.verify_bmc_clock(task)
        assert len(bmc.asked("PATCH", "Managers")) == 1
        assert "." not in bmc.tree[MANAGER]["DateTime"]

    def test_that_cannot_be_set_fails_verification(self, bmc, task, management, config):
        config("redfish", enable_verify_bmc_clock=True)
        bmc.script("PATCH", "Managers", Answer(204))
        with pytest.raises(errors.NodeVerifyFailure, match="shows 2020"):
            management.verify_bmc_clock(task)

    def test_that_is_no_time_fails_verification(self, bmc, task, management, config):
        config("redfish", enable_verify_bmc_clock=True)
        bmc.tree[MANAGER]["DateTime"] = "yesterday"
        with pytest.raises(errors.NodeVerifyFailure, match="yesterday"):
            management.verify_bmc_clock(task)

    def test_can_be_set_to_a_given_time(self, bmc, task, management):
        management.set_bmc_clock(task, "2030-05-05T10:00:00+00:00", "+02:00")
        assert patches(bmc, "Managers") == [
            {"DateTime": "2030-05-05T10:00:00+00:00", "DateTimeLocalOffset": "+02:00"}
        ]
        with pytest.raises(errors.InvalidParameterValue, match="soon"):
            management.set_bmc_clock(task, "soon")


def test_mac_addresses_of_enabled_interfaces(bmc, task, management):
    assert management.get_mac_addresses(task) == ["aa:bb:cc:00:00:01"]
    bmc.tree[f"{SYSTEM}/EthernetInterfaces/1"]["MACAddress"] = "50:06:01:60:3b:de:00:01"
    assert management.get_mac_addresses(task) == []
    del bmc.system["EthernetInterfaces"]
    assert management.get_mac_addresses(task) == []


def test_an_nmi(bmc, task, management):
    management.inject_nmi(task)
    assert [request.body for request in bmc.asked("POST", "Reset")] == [{"ResetType": "Nmi"}]


class TestIndicators:
    def test_are_found_read_and_set(self, bmc, task, management):
        uuid = bmc.system["UUID"]
        found = management.get_supported_indicators(task)
        light = {"readonly": False, "states": ["blinking", "off", "on"]}
        assert found == {"system": {uuid: light}}
        assert management.get_indicator_state(task, "system", uuid) == "off"
        management.set_indicator_state(task, "system", uuid, "on")
        assert bmc.system["IndicatorLED"] == "Lit"
        assert management.get_indicator_state(task, "system", uuid) == "on"

    def test_unknown_ones_are_told(self, bmc, task, management):
        uuid = bmc.system["UUID"]
        with pytest.raises(errors.MissingParameterValue, match="nothing"):
            management.get_indicator_state(task, "system", "nothing")
        with pytest.raises(errors.MissingParameterValue, match="nic"):
            management.get_indicator_state(task, "nic", uuid)
        with pytest.raises(errors.InvalidParameterValue, match="purple"):
            management.set_indicator_state(task, "system", uuid, "purple")


class TestSensors:
    def test_a_bmc_without_sensors(self, task, management):
        with pytest.raises(errors.FailedToGetSensorData, match="no sensors"):
            management.get_sensors_data(task)

    def test_are_read_part_by_part(self, bmc, task, management):
        chassis = "/redfish/v1/Chassis/1"
        bmc.system["Links"]["Chassis"] = [link(chassis)]
        bmc.tree[chassis] = {
            "Id": "c",
            "Name": "c",
            "ChassisType": "Rack",
            "Thermal": link(f"{chassis}/Thermal"),
            "Power": link(f"{chassis}/Power"),
        }
        bmc.tree[f"{chassis}/Thermal"] = {
            "Fans": [{"MemberId": "0", "Reading": 2100, "ReadingUnits": "RPM"}],
            "Temperatures": [
                {"MemberId": "1", "ReadingCelsius": 41, "Status": {"Health": "OK"}},
            ],
        }
        found = management.get_sensors_data(task)
        assert found["Fan"]["0@c"]["reading_units"] == "RPM"
        assert found["Temperature"]["1@c"]["reading_celsius"] == 41
        assert found["Temperature"]["1@c"]["health"] == "OK"
        assert found["Power"] == {}
        assert found["Extra"]["Manufacturer"] == "Contoso"


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("set_boot_device", ("pxe",)),
        ("set_boot_mode", ("uefi",)),
        ("set_secure_boot_state", (True,)),
        ("inject_nmi", ()),
        ("set_indicator_state", ("system", "x", "on")),
        ("attach_virtual_media", ("cdrom", "http://192.0.2.1/x")),
        ("detach_virtual_media", ()),
    ],
)
def test_changes_need_the_exclusive_lock(task, management, method, args):
    task.shared = True
    with pytest.raises(errors.ExclusiveLockRequired):
        getattr(management, method)(task, *args)
