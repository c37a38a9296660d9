"""Booting from virtual media: the ISO is fetched from where the BMC was told."""

from __future__ import annotations

import contextlib
import io
import logging
from pathlib import Path

import pycdlib
import pytest

from ironic_rs.db import models
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import iso_boot as boot_module
from ironic_rs.drivers.redfish.http_boot import RedfishHTTPSBoot
from ironic_rs.drivers.redfish.management import UEFI_HTTP_URL
from ironic_rs.service.image_server import ImageServer
from tests.harness.bmc import CD, FLOPPY, MANAGER, Answer, error, media

PARAMS = {"ipa-api-url": "http://192.0.2.1:6385"}


@pytest.fixture
def site(config, tmp_path):
    """A conductor's host: boot files, a web server, no other image server."""
    images = tmp_path / "images"
    images.mkdir()
    for name in ("kernel", "ramdisk", "esp", "own.iso"):
        (images / name).write_bytes(name.encode() * 1000)
    root = tmp_path / "http"
    server = ImageServer(root, "127.0.0.1", 0)
    config("conductor", file_url_allowed_paths=[str(images)])
    config("conductor", deploy_kernel=f"file://{images}/kernel")
    config("conductor", deploy_ramdisk=f"file://{images}/ramdisk")
    config(None, esp_image=str(images / "esp"))
    config("deploy", http_root=str(root), http_url=f"http://127.0.0.1:{server.port}")
    config("deploy", iso_master_path=str(tmp_path / "masters"))
    config("pxe", tftp_master_path=str(tmp_path / "masters"))
    yield images
    server.stop()


@pytest.fixture
def boot(task, site):
    return task.driver.boot


def published(task) -> Path:
    root = boot_module.CONF.deploy.http_root
    return Path(root) / "redfish" / f"boot-{task.node.uuid}.iso"


def read(path: Path, name: str) -> bytes:
    reader = pycdlib.PyCdlib()
    data = io.BytesIO()
    with contextlib.closing(reader):
        reader.open(str(path))
        reader.get_file_from_iso_fp(data, rr_path=name)
    return data.getvalue()


def parameters(task) -> list[str]:
    config = read(published(task), "/EFI/BOOT/grub.cfg").decode()
    line = next(line for line in config.splitlines() if line.strip().startswith("linux "))
    return line.split()[2:-1]


def changes(bmc) -> list[str]:
    return [
        request.path.rpartition("/")[2]
        for request in bmc.requests
        if request.method in ("POST", "PATCH")
    ]


def test_prepare_ramdisk(bmc, task, boot, caplog):
    caplog.set_level(logging.INFO)
    bmc.system["PowerState"] = "On"
    boot.prepare_ramdisk(task, PARAMS)
    url = bmc.tree[CD]["Image"]
    assert url == f"{boot_module.CONF.deploy.http_url}/redfish/boot-{task.node.uuid}.iso"
    info = task.node.driver_internal_info
    token = info["agent_secret_token"]
    assert info["agent_secret_token_pregenerated"] is True
    assert len(token) >= 32
    found = parameters(task)
    assert found[:2] == ["nofb", "vga=normal"]
    assert {
        "ipa-api-url=http://192.0.2.1:6385",
        f"ipa-agent-token={token}",
        "boot_method=vmedia",
    } <= set(found)
    assert not [word for word in found if word.startswith(("BOOTIF", "ipa-debug"))]
    assert read(published(task), "/vmlinuz") == b"kernel" * 1000
    assert read(published(task), "/initrd") == b"ramdisk" * 1000
    # Media are changed while the machine is off, and the boot order comes last.
    assert changes(bmc) == ["ComputerSystem.Reset", "VirtualMedia.InsertMedia", "1"]
    assert bmc.system["PowerState"] == "Off"
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Cd"
    assert bmc.system["Boot"]["BootSourceOverrideEnabled"] == "Once"
    assert list(published(task).parent.iterdir()) == [published(task)]


def test_the_token_is_new_each_time(task, boot):
    boot.prepare_ramdisk(task, PARAMS)
    first = task.node.driver_internal_info["agent_secret_token"]
    boot.prepare_ramdisk(task, PARAMS)
    assert task.node.driver_internal_info["agent_secret_token"] != first
    assert f"ipa-agent-token={first}" not in parameters(task)


def test_the_same_iso_url_is_ejected_and_inserted_again(bmc, task, boot):
    boot.prepare_ramdisk(task, PARAMS)
    bmc.forget()
    boot.prepare_ramdisk(task, PARAMS)
    actions = [name for name in changes(bmc) if name.startswith("VirtualMedia")]
    assert actions == ["VirtualMedia.EjectMedia", "VirtualMedia.InsertMedia"]


def test_a_machine_that_must_stay_on_stays_on(bmc, task, boot):
    bmc.system["PowerState"] = "On"
    task.node.disable_power_off = True
    boot.prepare_ramdisk(task, PARAMS)
    boot.clean_up_ramdisk(task)
    assert bmc.asked("POST", "Reset") == []


@pytest.mark.parametrize(
    "state", [states.ACTIVE, states.MANAGEABLE, states.AVAILABLE, states.ADOPTING]
)
def test_states_without_ramdisk_need_nothing(bmc, task, boot, state):
    task.node.provision_state = state
    boot.prepare_ramdisk(task, PARAMS)
    assert bmc.requests == []


def test_network_interface_and_debugging_go_to_the_ramdisk(task, boot, caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    ports = [models.Port(address=f"aa:bb:cc:00:00:0{n}", internal_info={}) for n in range(3)]
    task.ports = ports
    monkeypatch.setattr(
        task.driver.network, "get_current_vif", lambda _task, port: port is ports[1] and "vif"
    )
    boot.prepare_ramdisk(task, PARAMS)
    assert {"BOOTIF=aa:bb:cc:00:00:01", "ipa-debug=1"} <= set(parameters(task))


def test_outside_of_the_provisioning_network_another_url_is_told(task, boot, config):
    config("deploy", external_callback_url="https://public.example.org/baremetal/")
    callback = {"ipa-inspection-callback-url": "http://192.0.2.1/v1/continue_inspection"}
    boot.prepare_ramdisk(task, {**PARAMS, **callback})
    assert {
        "ipa-api-url=https://public.example.org/baremetal",
        "ipa-inspection-callback-url=https://public.example.org/baremetal/v1/continue_inspection",
    } <= set(parameters(task))


def test_network_data_goes_into_the_iso(task, boot, config):
    task.node.network_data = {"links": [{"id": "a"}]}
    boot.prepare_ramdisk(task, PARAMS)
    name = "/openstack/latest/network_data.json"
    assert read(published(task), name) == b'{"links": [{"id": "a"}]}'
    config("inspector", force_dhcp=True)
    task.node.provision_state = states.INSPECTING
    boot.prepare_ramdisk(task, PARAMS)
    with pytest.raises(pycdlib.pycdlibexception.PyCdlibInvalidInput):
        read(published(task), name)


def test_files_and_parameters_of_the_node_go_first(task, boot, site):
    (site / "mine").write_bytes(b"mine")
    task.node.driver_info.update(
        deploy_kernel=f"file://{site}/mine",
        deploy_ramdisk=f"file://{site}/mine",
        kernel_append_params="quiet %default%",
    )
    boot.prepare_ramdisk(task, PARAMS)
    assert read(published(task), "/vmlinuz") == b"mine"
    assert parameters(task)[:3] == ["quiet", "nofb", "vga=normal"]


@pytest.mark.parametrize("key", ["deploy_iso", "redfish_deploy_iso"])
def test_a_prebuilt_iso_is_published_as_it_is(bmc, task, boot, site, key):
    task.node.driver_info[key] = f"file://{site}/own.iso"
    boot.prepare_ramdisk(task, PARAMS)
    assert published(task).read_bytes() == b"own.iso" * 1000
    assert bmc.tree[CD]["Image"].endswith(published(task).name)
    # Nothing can be put into it, so there is no token in it either.
    assert "agent_secret_token" not in task.node.driver_internal_info


def test_a_prebuilt_iso_may_be_left_to_the_bmc(bmc, task, boot, config):
    config("deploy", ramdisk_image_download_source="http")
    task.node.driver_info["deploy_iso"] = "https://images.example.org/x.iso"
    boot.prepare_ramdisk(task, PARAMS)
    assert bmc.tree[CD]["Image"] == "https://images.example.org/x.iso"
    assert not published(task).exists()


def test_the_url_for_the_bmc_may_be_another(bmc, task, boot):
    task.node.driver_info["external_http_url"] = "http://outside:81/x"
    boot.prepare_ramdisk(task, PARAMS)
    assert bmc.tree[CD]["Image"] == f"http://outside:81/x/redfish/{published(task).name}"


def test_clean_up_powers_off_before_it_ejects(bmc, task, boot):
    boot.prepare_ramdisk(task, PARAMS)
    bmc.system["PowerState"] = "On"
    bmc.forget()
    boot.clean_up_ramdisk(task)
    assert changes(bmc) == ["ComputerSystem.Reset", "VirtualMedia.EjectMedia"]
    assert not published(task).exists()
    boot.clean_up_ramdisk(task)


def test_clean_up_removes_the_iso_even_if_the_bmc_fails(bmc, task, boot):
    boot.prepare_ramdisk(task, PARAMS)
    bmc.script("GET", "VirtualMedia", Answer(500, error("broken")))
    with pytest.raises(errors.RedfishError):
        boot.clean_up_instance(task)
    assert not published(task).exists()


def test_prepare_instance_boots_from_disk_for_good(bmc, task, boot):
    boot.prepare_ramdisk(task, PARAMS)
    boot.prepare_instance(task)
    assert bmc.tree[CD]["Inserted"] is False
    assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Hdd"
    assert bmc.system["Boot"]["BootSourceOverrideEnabled"] == "Continuous"
    assert not published(task).exists()


def test_the_boot_mode_is_brought_in_line(bmc, task, boot):
    task.node.properties["capabilities"] = "boot_mode:uefi"
    bmc.system["Boot"]["BootSourceOverrideMode"] = "Legacy"
    boot.prepare_ramdisk(task, PARAMS)
    assert bmc.system["Boot"]["BootSourceOverrideMode"] == "UEFI"


def test_secure_boot_is_turned_on_and_off_again(bmc, task, boot):
    task.node.instance_info["capabilities"] = {"secure_boot": "true"}
    boot.prepare_instance(task)
    assert task.driver.management.get_secure_boot_state(task) is True
    boot.clean_up_instance(task)
    assert task.driver.management.get_secure_boot_state(task) is False


class TestFastTrack:
    @pytest.fixture(autouse=True)
    def running(self, bmc, task, monkeypatch):
        bmc.system["PowerState"] = "On"
        bmc.tree[CD]["Inserted"] = True
        monkeypatch.setattr(boot_module.fast_track, "in_use", lambda _task: True)

    def test_a_running_ramdisk_is_left_alone(self, bmc, task, boot):
        boot.prepare_ramdisk(task, PARAMS)
        boot.clean_up_ramdisk(task)
        assert changes(bmc) == []
        assert bmc.tree[CD]["Inserted"] is True

    def test_without_medium_it_is_booted_anew(self, bmc, task, boot):
        bmc.tree[CD]["Inserted"] = False
        boot.prepare_ramdisk(task, PARAMS)
        assert "VirtualMedia.InsertMedia" in changes(bmc)


class TestValidate:
    def test_passes_with_kernel_and_ramdisk(self, bmc, task, boot):
        boot.validate(task)
        boot.validate_inspection(task)
        task.node.driver_info["rescue_kernel"] = "http://192.0.2.1/kernel"
        task.node.driver_info["rescue_ramdisk"] = "http://192.0.2.1/ramdisk"
        boot.validate_rescue(task)
        assert bmc.requests == []

    def test_an_inspection_needs_what_a_deployment_boots(self, task, boot, config):
        config("conductor", deploy_kernel=None)
        with pytest.raises(errors.MissingParameterValue, match="deploy_kernel"):
            boot.validate_inspection(task)

    def test_a_rescue_needs_a_ramdisk_of_its_own(self, task, boot):
        with pytest.raises(errors.MissingParameterValue, match="rescue_kernel"):
            boot.validate_rescue(task)
        task.node.driver_info["rescue_iso"] = "http://192.0.2.1/rescue.iso"
        boot.validate_rescue(task)

    def test_passes_with_an_iso_alone(self, task, boot, config):
        config("conductor", deploy_kernel=None)
        config(None, esp_image=None)
        task.node.driver_info["deploy_iso"] = "http://192.0.2.1/x.iso"
        boot.validate(task)

    def test_passes_without_web_server_when_the_bmc_fetches_the_iso(self, task, boot, config):
        config("deploy", http_url=None, ramdisk_image_download_source="http")
        task.node.driver_info["deploy_iso"] = "http://192.0.2.1/x.iso"
        boot.validate(task)
        task.node.driver_info["deploy_iso"] = "file:///x.iso"
        with pytest.raises(errors.MissingParameterValue, match="http_url"):
            boot.validate(task)

    @pytest.mark.parametrize(
        ("option", "complaint"),
        [
            (("conductor", "deploy_kernel"), "no ramdisk to boot"),
            ((None, "esp_image"), "no EFI boot loader"),
            (("deploy", "http_url"), "http_url"),
        ],
    )
    def test_what_is_missing_is_told(self, task, boot, config, option, complaint):
        group, name = option
        config(group, **{name: None})
        with pytest.raises(errors.MissingParameterValue, match=complaint):
            boot.validate(task)

    def test_no_efi_loader_is_needed_for_bios(self, task, boot, config):
        config(None, esp_image=None)
        task.node.properties["capabilities"] = "boot_mode:bios"
        boot.validate(task)

    @pytest.mark.parametrize(
        ("info", "complaint"),
        [
            ({"kernel_append_params": 'a="b'}, "kernel_append_params"),
            ({"redfish_address": ""}, "redfish_address"),
            ({"vmedia_transport_protocol": "NFS"}, "NFS is not offered"),
            ({"vmedia_transport_protocol": "HTTPS"}, "published by HTTP"),
        ],
    )
    def test_what_is_wrong_is_told(self, task, boot, info, complaint):
        task.node.driver_info.update(info)
        with pytest.raises(errors.InvalidParameterValue, match=complaint):
            boot.validate(task)

    def test_instances_boot_from_the_disk_or_an_iso_only(self, task, boot):
        task.node.deploy_interface = "anaconda"
        with pytest.raises(errors.InvalidParameterValue, match="local disk or from an ISO"):
            boot.validate(task)


@pytest.mark.parametrize(
    ("version", "refused"), [("7.10.30", False), ("6.0", False), ("5.1", True), (None, True)]
)
def test_old_dell_machines_need_another_interface(bmc, task, boot, version, refused):
    task.node.properties["vendor"] = "Dell Inc."
    bmc.tree[MANAGER]["FirmwareVersion"] = version
    if refused:
        with pytest.raises(errors.InvalidParameterValue, match="idrac-redfish-virtual-media"):
            boot.prepare_ramdisk(task, PARAMS)
    else:
        boot.prepare_ramdisk(task, PARAMS)


def test_the_protocol_is_sent_only_when_asked_for(bmc, task, boot):
    task.node.driver_info["vmedia_transport_protocol"] = "http"
    boot.prepare_ramdisk(task, PARAMS)
    assert bmc.asked("POST", "InsertMedia")[0].body["TransferProtocolType"] == "HTTP"
    assert task.node.driver_internal_info["vmedia_transport_protocol"] == "HTTP"


def test_a_protocol_that_the_bmc_does_not_know_is_refused(bmc, task, boot, config):
    config("deploy", http_url="https://127.0.0.1:1")
    bmc.tree[CD] = media(CD, "CD")
    task.node.driver_info["vmedia_transport_protocol"] = "HTTPS"
    with pytest.raises(errors.InvalidParameterValue, match="its BMC knows: HTTP"):
        boot.prepare_ramdisk(task, PARAMS)
    action = bmc.tree[CD]["Actions"]["#VirtualMedia.InsertMedia"]
    action["TransferProtocolType@Redfish.AllowableValues"] = ["HTTPS", "NFS"]
    boot.prepare_ramdisk(task, PARAMS)


def test_changes_need_the_exclusive_lock(task, boot):
    task.shared = True
    for method in (boot.clean_up_ramdisk, boot.prepare_instance, boot.clean_up_instance):
        with pytest.raises(errors.ExclusiveLockRequired):
            method(task)
    with pytest.raises(errors.ExclusiveLockRequired):
        boot.prepare_ramdisk(task, PARAMS)


def test_how_isos_are_published(boot):
    settings = boot.image_publisher_settings
    assert (settings.image_subdir, settings.file_permission) == ("redfish", 0o644)
    assert set(boot.get_properties()) == {"deploy_kernel", "deploy_ramdisk", "deploy_iso"}


class TestInstanceWithoutDisk:
    """Deploy interface ramdisk: the instance is an ISO."""

    @pytest.fixture
    def instance(self, task, boot, site):
        task.node.deploy_interface = "ramdisk"
        return task

    @pytest.mark.parametrize(
        ("info", "error_class", "complaint"),
        [
            ({}, errors.MissingParameterValue, "no kernel and no ramdisk"),
            ({"kernel": "file:///k"}, errors.MissingParameterValue, "no ramdisk"),
            ({"boot_iso": "gopher://x/y"}, errors.InvalidParameterValue, "boot_iso.*gopher"),
            (
                {"boot_iso": "http://x/y", "image_source": "http://x/z"},
                errors.InvalidParameterValue,
                "both image_source and boot_iso",
            ),
            (
                {"boot_iso": "http://x/y", "ramdisk_image_download_source": "carrier"},
                errors.InvalidParameterValue,
                "carrier",
            ),
        ],
    )
    def test_what_is_wrong_is_told(self, instance, boot, info, error_class, complaint):
        instance.node.instance_info = info
        with pytest.raises(error_class, match=complaint):
            boot.validate(instance)

    @pytest.mark.parametrize("cleaned", [True, False])
    def test_our_ramdisk_is_needed_for_cleaning_alone(self, instance, boot, config, cleaned):
        config("conductor", deploy_kernel=None, automated_clean=cleaned)
        instance.node.instance_info = {"boot_iso": "http://192.0.2.1/x.iso"}
        if cleaned:
            with pytest.raises(errors.MissingParameterValue, match="deploy_kernel"):
                boot.validate(instance)
        else:
            boot.validate(instance)

    def test_an_iso_is_published_and_stays_the_boot_device(self, bmc, instance, boot, site):
        instance.node.instance_info = {"boot_iso": f"file://{site}/own.iso"}
        boot.validate(instance)
        boot.prepare_instance(instance)
        assert published(instance).read_bytes() == (site / "own.iso").read_bytes()
        assert bmc.tree[CD]["Image"].endswith(f"/redfish/boot-{instance.node.uuid}.iso")
        assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Cd"
        assert bmc.system["Boot"]["BootSourceOverrideEnabled"] == "Continuous"
        assert bmc.tree[FLOPPY]["Inserted"] is False

        boot.clean_up_instance(instance)
        assert bmc.tree[CD]["Inserted"] is False
        assert not published(instance).exists()

    @pytest.mark.parametrize("place", ["option", "instance"])
    def test_a_bmc_fetches_an_iso_itself_where_that_is_wanted(
        self, bmc, instance, boot, config, place
    ):
        url = f"{boot_module.CONF.deploy.http_url}/elsewhere.iso"
        info = {"boot_iso": url}
        if place == "option":
            config("deploy", ramdisk_image_download_source="http")
        else:
            info["ramdisk_image_download_source"] = "http"
        instance.node.instance_info = info
        boot.prepare_instance(instance)
        assert bmc.tree[CD]["Image"] == url

    def test_kernel_and_ramdisk_become_an_iso_without_anything_of_ours(self, instance, boot, site):
        instance.node.instance_info = {
            "kernel": f"file://{site}/kernel",
            "ramdisk": f"file://{site}/ramdisk",
            "ramdisk_kernel_arguments": "console=ttyS1\nrd.shell",
        }
        boot.validate(instance)
        boot.prepare_instance(instance)
        found = parameters(instance)
        assert found[:3] == ["root=/dev/ram0", "text", "console=ttyS1rd.shell"]
        assert not [word for word in found if word.startswith(("ipa-", "boot_method"))]
        assert read(published(instance), "/vmlinuz") == b"kernel" * 1000

    def test_the_config_drive_comes_as_a_stick_and_goes_with_the_instance(
        self, bmc, instance, boot, site
    ):
        instance.node.instance_info = {
            "boot_iso": f"file://{site}/own.iso",
            "configdrive": {"meta_data": {"hostname": "h"}},
        }
        boot.prepare_instance(instance)
        name = f"configdrive-{instance.node.uuid}.img"
        assert bmc.tree[FLOPPY]["Image"].endswith(f"/redfish/{name}")
        drive = published(instance).with_name(name)
        assert b"hostname" in read(drive, "/openstack/latest/meta_data.json")

        boot.clean_up_instance(instance)
        assert bmc.tree[FLOPPY]["Inserted"] is False
        assert list(published(instance).parent.iterdir()) == []

    def test_a_bmc_without_a_slot_for_the_config_drive_fails_the_deployment(
        self, bmc, instance, boot, site
    ):
        bmc.tree[FLOPPY]["MediaTypes"] = ["Floppy"]
        instance.node.instance_info = {
            "boot_iso": f"file://{site}/own.iso",
            "configdrive": {"meta_data": {}},
        }
        with pytest.raises(errors.InstanceDeployFailure, match="no slot for a USB stick"):
            boot.prepare_instance(instance)


def test_a_finished_rescue_stays_on_when_its_medium_goes(bmc, task, boot):
    bmc.system["PowerState"] = "On"
    bmc.tree[CD]["Inserted"] = True
    task.node.provision_state = states.RESCUING
    boot.clean_up_ramdisk(task)
    assert bmc.system["PowerState"] == "On"
    assert bmc.tree[CD]["Inserted"] is False


class TestHTTPS:
    """The firmware loads the ISO itself: no virtual media are touched."""

    @pytest.fixture
    def boot(self, bmc, task, site):
        bmc.system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"].append("UefiHttp")
        bmc.system["Boot"]["HttpBootUri"] = None
        task.node.boot_interface = "redfish-https"
        task.node.properties["capabilities"] = "boot_mode:uefi"
        return RedfishHTTPSBoot()

    def test_the_ramdisk_is_booted_once_from_its_url(self, bmc, task, boot):
        boot.prepare_ramdisk(task, PARAMS)
        shown = bmc.system["Boot"]
        url = f"{boot_module.CONF.deploy.http_url}/redfish/boot-{task.node.uuid}.iso"
        assert shown["HttpBootUri"] == url
        assert shown["BootSourceOverrideTarget"] == "UefiHttp"
        assert shown["BootSourceOverrideEnabled"] == "Once"
        assert "boot_method=vmedia" in parameters(task)
        assert bmc.asked("POST", "VirtualMedia") == []
        assert UEFI_HTTP_URL not in task.node.driver_internal_info

    def test_clean_up_leaves_the_power_alone_and_removes_the_iso(self, bmc, task, boot):
        boot.prepare_ramdisk(task, PARAMS)
        task.flows.calls.clear()
        boot.clean_up_ramdisk(task)
        assert [call for call in task.flows.calls if call[0] == "power"] == []
        assert not published(task).exists()

    def test_the_instance_boots_from_its_disk(self, bmc, task, boot):
        boot.prepare_ramdisk(task, PARAMS)
        boot.prepare_instance(task)
        assert bmc.system["Boot"]["BootSourceOverrideTarget"] == "Hdd"
        assert not bmc.system["Boot"].get("HttpBootUri")

    def test_an_instance_that_is_an_iso_is_booted_for_good(self, bmc, task, boot, site):
        task.node.instance_info.update(
            boot_iso=f"file://{site}/own.iso",
            capabilities={"boot_option": "ramdisk"},
            ramdisk_image_download_source="local",
        )
        task.node.deploy_interface = "ramdisk"
        boot.prepare_instance(task)
        assert bmc.system["Boot"]["HttpBootUri"].startswith("http://127.0.0.1")
        assert bmc.system["Boot"]["BootSourceOverrideEnabled"] == "Continuous"
        boot.clean_up_instance(task)
        assert not published(task).exists()

    def test_a_machine_is_refused_whose_firmware_knows_no_such_boot(self, bmc, task, boot):
        boot.validate(task)
        bmc.system["Boot"]["BootSourceOverrideTarget@Redfish.AllowableValues"] = ["Pxe", "Hdd"]
        with pytest.raises(errors.UnsupportedHardwareFeature, match="UefiHttp"):
            boot.validate(task)

    def test_a_machine_is_refused_that_boots_by_bios(self, task, boot):
        task.node.properties["capabilities"] = "boot_mode:bios"
        with pytest.raises(errors.InvalidParameterValue, match="boot mode uefi"):
            boot.validate(task)

    def test_a_running_ramdisk_is_left_alone(self, bmc, task, boot, monkeypatch):
        monkeypatch.setattr(boot_module.fast_track, "in_use", lambda _task: True)
        boot.prepare_ramdisk(task, PARAMS)
        boot.clean_up_ramdisk(task)
        assert bmc.asked("PATCH") == []
