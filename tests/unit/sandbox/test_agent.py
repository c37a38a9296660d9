"""The simulated agent from boot to power off, as API and conductor see it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import tarfile
import urllib.error

import pytest

from ironic_rs.sandbox import demo
from tests.harness.ramdisk_api import NODE, TOKEN, Conductor


@pytest.fixture
def image(api):
    """image_info of a demo image that the double serves."""
    digest = demo.make_image(api.directory / "demo.img", 4)
    return {
        "id": "demo.img",
        "urls": [f"{api.url}/demo.img"],
        "disk_format": "raw",
        "stream_raw_images": True,
        "os_hash_algo": "sha256",
        "os_hash_value": digest,
    }


@pytest.mark.parametrize("loader", ["grub", "isolinux"])
def test_it_boots_looks_up_and_heartbeats(bench, api, loader):
    bench.insert(loader=loader)
    bench.power("On")
    heartbeat = api.heartbeat()
    assert api.lookups == [{"addresses": ",".join(bench.machine.spec.macs), "version": "1.62"}]
    assert heartbeat["path"] == f"/v1/heartbeat/{NODE}"
    assert heartbeat["version"] == "1.68"
    assert heartbeat["agent_token"] == TOKEN
    assert heartbeat["agent_version"]
    assert bench.machine.boot.enabled == "Disabled"


def test_the_conductor_reaches_it_with_the_pinned_certificate(bench, api):
    conductor = bench.boot()
    assert conductor.url.startswith("https://")
    assert conductor.request("GET", "/v1/status")[1]["version"]
    assert conductor.commands() == []


def test_each_boot_makes_a_new_certificate(bench, api):
    bench.insert()
    bench.power("On")
    first = api.heartbeat()
    bench.insert()
    bench.power("ForceRestart")
    assert api.heartbeat()["agent_verify_ca"] != first["agent_verify_ca"]


def test_the_minimum_tls_version_comes_from_the_lookup(bench, api):
    api.config["tls_min_version"] = "1.3"
    conductor = bench.boot()
    conductor._context.maximum_version = conductor._context.minimum_version = 0x0303
    with pytest.raises((OSError, urllib.error.URLError)):
        conductor.commands()


def test_an_old_api_gets_plain_http_and_no_certificate(bench, api):
    api.version = "1.61"
    bench.insert()
    bench.power("On")
    heartbeat = api.heartbeat()
    assert heartbeat["callback_url"].startswith("http://")
    assert "agent_verify_ca" not in heartbeat
    assert "agent_token" not in heartbeat
    assert heartbeat["version"] == "1.61"


def test_the_token_of_the_lookup_is_taken(bench, api):
    del bench.parameters["ipa-agent-token"]
    api.token_answer = "L" * 43
    bench.insert()
    bench.power("On")
    assert api.heartbeat()["agent_token"] == "L" * 43


def test_the_token_may_be_in_a_file_of_the_medium(bench, api):
    del bench.parameters["ipa-agent-token"]
    api.token_answer = "******"
    bench.insert(
        files={"etc/ironic-python-agent.d/token.conf": b"[DEFAULT]\nagent_token = " + b"F" * 43}
    )
    bench.power("On")
    assert api.heartbeat()["agent_token"] == "F" * 43


def test_without_a_token_it_gives_up(bench, api):
    del bench.parameters["ipa-agent-token"]
    api.token_answer = "******"
    bench.insert()
    bench.power("On")
    bench.sandbox.wait(
        lambda: bench.machine.agent and "token" in bench.machine.agent.state, "failed agent"
    )
    assert bench.machine.power == "On"
    assert api.heartbeats.empty()


def test_it_repeats_a_failed_lookup_and_a_refused_heartbeat(bench, api):
    api.lookup_answers = [404, 409, 503]
    api.heartbeat_answers = [409]
    bench.boot()
    api.heartbeat()
    assert len(api.lookups) == 4


def test_inspection_data_come_with_what_collectors_found(bench, api):
    bench.parameters["ipa-inspection-callback-url"] = f"{api.url}/v1/continue_inspection"
    bench.boot()
    (data,) = api.inspections
    assert data["error"] is None
    assert data["root_disk"] == data["inventory"]["disks"][0]
    assert data["configuration"]["collectors"] == ["default", "logs"]
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(data["logs"]))) as archive:
        assert archive.getnames() == ["agent.log"]
    assert data["inventory"]["interfaces"][0]["ipv4_address"] == "198.18.0.1"


def test_inspection_data_are_sent_again_while_the_api_is_busy(bench, api):
    api.inspection_answers = [409, 500]
    bench.parameters["ipa-inspection-callback-url"] = f"{api.url}/v1/continue_inspection"
    bench.boot()
    assert len(api.inspections) == 3


def test_inspection_data_that_are_refused_are_not_sent_again(bench, api):
    api.inspection_answers = [404]
    bench.parameters["ipa-inspection-callback-url"] = f"{api.url}/v1/continue_inspection"
    bench.boot()
    assert len(api.inspections) == 1


def test_a_collector_that_does_not_exist_is_an_error_of_the_inspection(bench, api):
    bench.parameters["ipa-inspection-callback-url"] = f"{api.url}/v1/continue_inspection"
    bench.parameters["ipa-inspection-collectors"] = "default,crystal-ball"
    bench.boot()
    assert "crystal-ball" in api.inspections[0]["error"]


def test_it_sends_inspection_data_first(bench, api):
    bench.parameters["ipa-inspection-callback-url"] = f"{api.url}/v1/continue_inspection"
    bench.boot()
    interfaces = api.inspections[0]["inventory"]["interfaces"]
    assert [item["mac_address"] for item in interfaces] == list(bench.machine.spec.macs)
    assert api.inspections[0]["version"] is None
    assert api.lookups[0]["node_uuid"] == NODE


def test_commands_need_the_token(bench):
    conductor = bench.boot()
    for token in ("", "wrong"):
        status, error = conductor.request("GET", f"/v1/commands/?agent_token={token}")
        assert (status, error["faultcode"]) == (401, "Client")
    assert conductor.request("GET", "/")[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "clean"}, 400),
        ({"name": "nodot", "params": {}}, 400),
        ({"name": "clean.unknown", "params": {}}, 400),
        ({"name": "standby.sync", "params": []}, 400),
        ({"name": "unknown.command", "params": {}}, 404),
    ],
)
def test_bad_commands_are_refused(bench, body, status):
    conductor = bench.boot()
    path = f"/v1/commands/?agent_token={TOKEN}"
    answer, error = conductor.request("POST", path, body)
    assert answer == status
    assert set(error) == {"faultcode", "faultstring"}
    assert conductor.commands() == []


def test_unknown_parameters_give_a_type_error(bench):
    result = bench.boot().command("standby.sync", surplus=1)
    assert result["command_status"] == "FAILED"
    assert result["command_error"]["type"] == "TypeError"


@pytest.mark.parametrize("kind", ["clean", "deploy", "service"])
def test_it_lists_its_steps(bench, kind):
    result = bench.boot().command(f"{kind}.get_{kind}_steps", wait=True, node={}, ports=[])
    listed = result["command_result"]
    assert listed["hardware_manager_version"] == {"generic_hardware_manager": "1.2"}
    steps = listed[f"{kind}_steps"]["GenericHardwareManager"]
    assert all({"step", "interface", "priority"} <= set(step) for step in steps)
    if kind == "clean":
        priorities = {step["step"]: step["priority"] for step in steps}
        assert priorities["erase_devices_metadata"] == 99
        assert priorities["erase_devices"] == 10


def test_a_step_of_another_version_is_a_mismatch(bench):
    result = bench.boot().command(
        "clean.execute_clean_step",
        wait=True,
        step={"interface": "deploy", "step": "erase_devices"},
        node={},
        ports=[],
        clean_version={"generic_hardware_manager": "0.1"},
    )
    assert result["command_status"] == "CLEAN_VERSION_MISMATCH"


def test_an_unknown_step_fails(bench):
    result = bench.boot().step("clean", "deploy", "polish")
    assert result["command_status"] == "FAILED"
    assert "polish" in result["command_error"]["details"]


def test_it_writes_and_verifies_an_image(bench, image):
    conductor = bench.boot()
    result = conductor.step("deploy", "deploy", "write_image", image_info=image)
    assert result["command_status"] == "SUCCEEDED"
    assert result["command_result"]["deploy_step"]["step"] == "write_image"
    assert bench.machine.disk.digest() == image["os_hash_value"]
    uuids = conductor.command("standby.get_partition_uuids")["command_result"]
    assert uuids["root uuid"] and uuids["efi system partition uuid"]
    assert conductor.command("image.install_bootloader", wait=True, root_uuid=None)[
        "command_status"
    ] == ("SUCCEEDED")


def test_other_checksums_are_verified_too(bench, api, image):
    content = (api.directory / "demo.img").read_bytes()
    sha512 = hashlib.sha512(content).hexdigest()
    plain = {key: image[key] for key in ("id", "urls", "disk_format")}
    conductor = bench.boot()
    for extra in ({"checksum": sha512}, {"os_hash_algo": "sha512", "os_hash_value": sha512}):
        result = conductor.step("deploy", "deploy", "write_image", image_info={**plain, **extra})
        assert result["command_status"] == "SUCCEEDED"
    md5 = hashlib.md5(content).hexdigest()
    result = conductor.step(
        "deploy", "deploy", "write_image", image_info={**plain, "checksum": md5}
    )
    assert "MD5 is not enabled" in result["command_error"]["details"]


def test_a_wrong_checksum_fails_and_the_disk_does_not_boot(bench, image):
    image["os_hash_value"] = "0" * 64
    result = bench.boot().step("deploy", "deploy", "write_image", image_info=image)
    assert result["command_error"]["type"] == "ImageChecksumError"
    assert bench.machine.disk.why_not_bootable() == "no image was written to the disk"


def test_damage_on_the_way_is_found(bench, image):
    bench.machine.faults.update({"agent_checksum_mismatch": True})
    result = bench.boot().step("deploy", "deploy", "write_image", image_info=image)
    assert result["command_error"]["type"] == "ImageChecksumError"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"disk_format": "qcow2"}, "qcow2"),
        ({"image_type": "partition"}, "no root_mb"),
        ({"image_type": "partition", "root_mb": 3}, "larger than the root partition"),
        ({"image_type": "partition", "root_mb": 16}, "do not fit"),
        ({"urls": []}, "no urls"),
        ({"os_hash_value": None}, "Cannot verify"),
    ],
)
def test_an_image_it_cannot_write_is_refused(bench, image, change, error):
    result = bench.boot().step("deploy", "deploy", "write_image", image_info={**image, **change})
    assert error in result["command_error"]["details"]


def test_a_partition_image_gets_partitions_around_it(bench, image):
    conductor = bench.boot()
    sizes = {"root_mb": 5, "swap_mb": 1, "ephemeral_mb": 2, "deploy_boot_mode": "bios"}
    info = {**image, **sizes, "image_type": "partition"}
    written = conductor.step("deploy", "deploy", "write_image", image_info=info)
    assert written["command_status"] == "SUCCEEDED", written
    disk = bench.machine.disk
    ephemeral, swap, root = disk.partitions()
    assert [part.size // 1024**2 for part in (ephemeral, swap, root)] == [2, 1, 5]
    assert disk.image.offset == root.start
    assert disk.digest() == image["os_hash_value"]
    uuids = conductor.command("standby.get_partition_uuids")["command_result"]
    assert uuids["root uuid"] == root.identity
    bench.power("ForceRestart")
    assert "demo.img" in bench.wait_for("instance")


def test_a_missing_image_is_a_download_error(bench, api, image):
    image["urls"] = [f"{api.url}/nothing"]
    result = bench.boot().step("deploy", "deploy", "write_image", image_info=image)
    assert result["command_error"]["type"] == "ImageDownloadError"
    assert "404" in result["command_error"]["details"]


def test_an_image_larger_than_the_disk_is_refused(bench, api, image):
    (api.directory / "demo.img").write_bytes(bytes(bench.machine.disk.size + 1))
    result = bench.boot().step("deploy", "deploy", "write_image", image_info=image)
    assert "larger than the disk" in result["command_error"]["details"]


def test_the_config_drive_is_stored(bench, image):
    content = b"ISO of a config drive"
    packed = base64.b64encode(gzip.compress(content)).decode()
    result = bench.boot().step(
        "deploy", "deploy", "write_image", image_info=image, configdrive=packed
    )
    assert result["command_status"] == "SUCCEEDED"
    assert bench.machine.configdrive["sha256"] == hashlib.sha256(content).hexdigest()
    assert bench.machine.configdrive_path.read_bytes() == content


def test_a_damaged_config_drive_fails_the_step(bench, image):
    result = bench.boot().step("deploy", "deploy", "write_image", image_info=image, configdrive="x")
    assert "config drive" in result["command_error"]["details"]


def test_a_deployed_machine_boots_its_disk(bench, api, image):
    conductor = bench.boot()
    conductor.step("deploy", "deploy", "write_image", image_info=image)
    conductor.command("standby.power_off")
    bench.sandbox.wait(lambda: bench.machine.power == "Off", "power off by the agent")
    bench.power("On")
    assert bench.wait_for("instance") == "runs demo.img"


def test_a_disk_with_changed_bytes_does_not_boot(bench, image):
    conductor = bench.boot()
    conductor.step("deploy", "deploy", "write_image", image_info=image)
    bench.machine.virtual_media["Cd"].eject()
    with bench.machine.disk.path.open("r+b") as stream:
        stream.seek(2 * 1024**2)
        stream.write(b"changed")
    bench.power("ForceRestart")
    bench.sandbox.wait(lambda: "SHA-256" in bench.machine.detail, "refusal to boot")


def test_run_image_reboots_into_the_disk(bench, image):
    conductor = bench.boot()
    conductor.step("deploy", "deploy", "write_image", image_info=image)
    conductor.command("standby.run_image")
    bench.wait_for("instance")
    assert bench.machine.power == "On"


@pytest.mark.parametrize("step", ["erase_devices_metadata", "erase_devices"])
def test_cleaning_really_wipes_the_disk(bench, image, step):
    conductor = bench.boot()
    packed = base64.b64encode(gzip.compress(b"ISO")).decode()
    conductor.step("deploy", "deploy", "write_image", image_info=image, configdrive=packed)
    assert conductor.step("clean", "deploy", step)["command_status"] == "SUCCEEDED"
    assert bench.machine.disk.partitions() == []
    wiped = 1024**2 if step == "erase_devices_metadata" else bench.machine.disk.size
    assert bench.machine.disk.digest(wiped) == hashlib.sha256(bytes(wiped)).hexdigest()
    assert bench.machine.configdrive is None
    assert not bench.machine.configdrive_path.exists()


def test_a_finished_command_causes_a_heartbeat(bench, api):
    conductor = bench.boot()
    conductor.step("clean", "deploy", "erase_devices")
    assert api.heartbeat()["agent_token"] == TOKEN


def test_only_one_command_runs_at_a_time(bench):
    conductor = bench.boot()
    bench.machine.faults.update({"agent_step_seconds": 60})
    step = {"interface": "deploy", "step": "erase_devices"}
    running = conductor.command("clean.execute_clean_step", step=step, node={}, ports=[])
    assert running["command_status"] == "RUNNING"
    status, error = conductor.request(
        "POST",
        f"/v1/commands/?agent_token={TOKEN}",
        {"name": "standby.sync", "params": {}},
    )
    assert (status, error["faultstring"][:13]) == (409, "Agent is busy")
    path = f"/v1/commands/{running['id']}?agent_token={TOKEN}"
    assert conductor.request("GET", path)[1]["command_status"] == "RUNNING"


def test_power_off_ends_the_agent_at_once(bench):
    conductor = bench.boot()
    bench.power("ForceOff")
    bench.sandbox.wait(lambda: bench.machine.power == "Off", "power off")
    with pytest.raises((OSError, urllib.error.URLError)):
        conductor.commands()


def test_a_restarted_agent_has_forgotten_its_commands(bench, api):
    conductor = bench.boot()
    conductor.command("standby.sync")
    assert bench.sandbox.call(bench.machine.restart_agent) is True
    assert Conductor(api.heartbeat()).commands() == []


def test_the_agent_can_restart_in_the_middle_of_a_step(bench, api):
    conductor = bench.boot()
    bench.machine.faults.update({"agent_restart_at": "erase_devices"})
    step = {"interface": "deploy", "step": "erase_devices"}
    conductor.command("clean.execute_clean_step", step=step, node={}, ports=[])
    again = Conductor(api.heartbeat())
    assert again.commands() == []
    assert again.step("clean", "deploy", "erase_devices")["command_status"] == "SUCCEEDED"


def test_a_step_can_be_made_to_fail(bench):
    conductor = bench.boot()
    bench.machine.faults.update({"agent_fail_step": "deploy.erase_devices"})
    result = conductor.step("clean", "deploy", "erase_devices")
    assert result["command_status"] == "FAILED"
    assert "injected fault" in result["command_error"]["details"]
    assert conductor.step("clean", "deploy", "erase_pstore")["command_status"] == "SUCCEEDED"


def test_the_command_api_can_fail_for_a_while(bench):
    conductor = bench.boot()
    bench.machine.faults.update({"agent_status": 503, "agent_times": 1})
    path = f"/v1/commands/?agent_token={TOKEN}"
    assert conductor.request("GET", path)[0] == 503
    assert conductor.request("GET", path)[0] == 200


def test_a_silent_agent_never_calls(bench, api):
    bench.machine.faults.update({"agent_silent": True})
    bench.insert()
    bench.power("On")
    bench.sandbox.wait(
        lambda: bench.machine.agent and bench.machine.agent.state == "silent", "silence"
    )
    assert api.lookups == []


def test_its_log_can_be_collected(bench):
    result = bench.boot().command("log.collect_system_logs")["command_result"]
    packed = io.BytesIO(base64.b64decode(result["system_logs"]))
    with tarfile.open(fileobj=packed) as archive, archive.extractfile("agent.log") as stream:
        assert b"lookup" in stream.read()


def test_lockdown_takes_the_agent_off_the_network(bench):
    conductor = bench.boot()
    conductor.command("system.lockdown")
    bench.sandbox.wait(lambda: bench.machine.agent.state == "locked down", "lockdown")
    assert bench.machine.power == "On"


def test_rescue_takes_a_hashed_password_only(bench):
    conductor = bench.boot()
    refused = conductor.command("rescue.finalize_rescue", rescue_password="plain")
    assert refused["command_status"] == "FAILED"
    conductor.command("rescue.finalize_rescue", rescue_password="$6$hash", hashed=True)
    assert bench.machine.rescue_hash == "$6$hash"


@pytest.mark.parametrize(
    ("iso", "reason"),
    [({"kernel": False}, "vmlinuz"), ({"bootable": False}, "El Torito")],
)
def test_a_medium_that_would_not_boot_is_not_booted(bench, iso, reason):
    bench.insert(**iso)
    bench.power("On")
    bench.sandbox.wait(lambda: reason in bench.machine.detail, reason)


def test_an_empty_drive_and_an_empty_disk_boot_nothing(bench):
    bench.power("On")
    bench.sandbox.wait(lambda: "nothing to boot" in bench.machine.detail, "end of the boot")
    assert "Cd: no medium inserted" in bench.machine.detail


def test_the_disk_comes_first_unless_a_boot_device_is_set(bench, api, image):
    bench.boot().step("deploy", "deploy", "write_image", image_info=image)
    bench.power("ForceRestart")
    bench.wait_for("instance")


def test_uefi_http_boot_takes_the_same_medium(bench, api):
    bench.insert()
    bench.machine.virtual_media["Cd"].eject()
    bench.machine.boot.target = "UefiHttp"
    bench.machine.boot.http_uri = f"{api.url}/boot.iso"
    bench.power("On")
    assert api.heartbeat()["agent_token"] == TOKEN


def test_volumes_are_made_from_the_target_of_the_node_and_deleted(bench):
    conductor = bench.boot()
    target = {"logical_disks": [{"size_gb": 10, "raid_level": "1", "is_root_volume": True}]}
    node = {"target_raid_config": target}
    made = conductor.step("clean", "raid", "create_configuration", node)
    assert made["command_result"]["clean_result"]["logical_disks"] == bench.machine.volumes
    assert bench.machine.volumes == [{"volume_name": "volume1", **target["logical_disks"][0]}]
    again = conductor.step("clean", "raid", "create_configuration", node)
    assert again["command_status"] == "FAILED"
    assert "delete the configuration first" in again["command_error"]["details"]
    conductor.step("clean", "raid", "delete_configuration")
    assert bench.machine.volumes == []


@pytest.mark.parametrize(("delete", "status"), [(True, "SUCCEEDED"), (False, "FAILED")])
def test_a_configuration_replaces_volumes_only_where_it_may(bench, delete, status):
    conductor = bench.boot()
    bench.machine.volumes = [{"volume_name": "old"}]
    applied = conductor.step(
        "deploy",
        "raid",
        "apply_configuration",
        raid_config={"logical_disks": [{"size_gb": "MAX", "raid_level": "0"}]},
        delete_existing=delete,
    )
    assert applied["command_status"] == status
    assert [disk["volume_name"] for disk in bench.machine.volumes] == [
        "volume1" if delete else "old"
    ]


def test_a_medium_without_parameters_of_the_agent_runs_an_instance(bench, api):
    bench.parameters = {"root": "/dev/ram0"}
    bench.insert()
    bench.power("On")
    assert "VMEDIA_BOOT_ISO" in bench.wait_for("instance")
    assert api.lookups == []
