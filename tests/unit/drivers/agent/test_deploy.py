"""Deployment, cleaning and servicing through the agent."""

from __future__ import annotations

import hashlib

import pytest

from ironic_rs.domain import errors, states
from ironic_rs.drivers.agent.custom import CustomAgentDeploy
from ironic_rs.drivers.agent.direct import DirectDeploy
from ironic_rs.drivers.fake.machine import FakePower
from ironic_rs.drivers.fake.provisioning import FakeStorage
from tests.unit.drivers import kit
from tests.unit.drivers.agent.doubles import Boot, Network
from tests.unit.drivers.agent_server import AgentServer
from tests.unit.image_server import ImageServer
from tests.unit.images.test_configdrive import files_of

CONTENT = b"\x5a" * 100_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PARTITION = {"image_type": "partition", "root_gb": 10}
LIST = {"deploy_steps": {}, "clean_steps": {}, "hardware_manager_version": {}}


class NoWriteStorage(FakeStorage):
    def should_write_image(self, task):
        return False


class RebootOnlyPower(FakePower):
    def get_supported_power_states(self, task):
        return [states.REBOOT]


@pytest.fixture(autouse=True)
def no_volumes(monkeypatch):
    """Nodes without volume targets, and without a database to look for them."""
    monkeypatch.setattr("ironic_rs.db.volumes.targets_of_node", lambda _id: [])


@pytest.fixture(autouse=True)
def options(config, tmp_path):
    config("service_catalog", endpoint_override="http://api.example:6385/")
    config("deploy", http_root=str(tmp_path / "httpboot"), http_url="http://127.0.0.1:1")
    config("pxe", images_path=str(tmp_path / "images"), instance_master_path="")
    config("conductor", file_url_allowed_paths=[str(tmp_path)])
    config("agent", deploy_logs_local_path=str(tmp_path / "logs"))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr("ironic_rs.images.services.RETRY_PAUSE", 0)
    with ImageServer().running() as running:
        yield running


def task_of(
    deploy=None, *, agent: AgentServer | None = None, state=states.DEPLOYING, **values
) -> kit.Task:
    interfaces = {
        name: values.pop(name) for name in ("storage", "power", "boot", "network") if name in values
    }
    interfaces = {"boot": Boot(), "network": Network()} | interfaces
    internal = {"agent_url": agent.url} if agent else {}
    internal |= values.pop("internal", {})
    row = {"provision_state": state, "driver_internal_info": internal} | values
    return kit.Task(kit.node(**row), deploy=deploy or DirectDeploy(), **interfaces)


def image(server: ImageServer | None = None, **info) -> dict:
    source = server.put("/image.img", CONTENT) if server else "http://127.0.0.1:1/image.img"
    return {"image_source": source, "image_checksum": SHA256} | info


def powers(task: kit.Task) -> list[str]:
    return [call[1] for call in task.flows.calls if call[0] == "power"]


# Validation


@pytest.mark.parametrize(
    ("info", "error", "match"),
    [
        ({"image_source": None}, errors.MissingParameterValue, "image_source"),
        ({"image_source": 5}, errors.InvalidParameterValue, "non-empty string"),
        ({"image_source": "ftp://x/y"}, errors.InvalidParameterValue, "ftp"),
        ({"image_source": "file:///etc/passwd"}, errors.InvalidParameterValue, "not allowed"),
        ({"boot_iso": "http://x/iso"}, errors.InvalidParameterValue, "boot_iso"),
        ({"image_type": "partition"}, errors.MissingParameterValue, "root_gb"),
        (PARTITION | {"root_gb": 0}, errors.InvalidParameterValue, "root_gb"),
        (PARTITION | {"root_gb": "ten"}, errors.InvalidParameterValue, "root_gb"),
        (PARTITION | {"swap_mb": -1}, errors.InvalidParameterValue, "swap_mb"),
        (PARTITION | {"ephemeral_gb": True}, errors.InvalidParameterValue, "ephemeral_gb"),
        (PARTITION | {"preserve_ephemeral": "m"}, errors.InvalidParameterValue, "preserve_eph"),
        ({"image_type": 7}, errors.InvalidParameterValue, "image_type"),
        ({"image_checksum": None}, errors.MissingParameterValue, "image_checksum"),
        ({"image_checksum": "short"}, errors.InvalidParameterValue, "short"),
        ({"image_os_hash_algo": "sha256"}, errors.MissingParameterValue, "both"),
        ({"image_os_hash_value": "abc"}, errors.MissingParameterValue, "both"),
        (
            {"image_os_hash_algo": "rot13", "image_os_hash_value": "x"},
            errors.InvalidParameterValue,
            "rot13",
        ),
        ({"image_download_source": "carrier"}, errors.InvalidParameterValue, "carrier"),
        ({"capabilities": {"boot_mode": "coreboot"}}, errors.InvalidParameterValue, "coreboot"),
        ({"root_device": {"colour": "red"}}, errors.InvalidParameterValue, "colour"),
        ({"root_device": {"size": 0}}, errors.InvalidParameterValue, "size"),
    ],
)
def test_bad_image_information_is_refused(info, error, match):
    task = task_of(instance_info=image() | info)
    with pytest.raises(error, match=match):
        task.driver.deploy.validate(task)


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"image_checksum": "http://x/SHA256SUMS"},
        {"image_checksum": None, "image_os_hash_algo": "sha512", "image_os_hash_value": "abc"},
        {"image_download_source": "local"},
        {"image_type": "partition", "root_gb": "10", "preserve_ephemeral": "true"},
        {"root_device": {"size": ">= 10", "rotational": "false", "model": "s== x"}},
        {"capabilities": '{"boot_mode": "uefi", "secure_boot": "true"}'},
    ],
)
def test_good_image_information_is_accepted(info):
    task = task_of(instance_info=image() | info)
    task.driver.deploy.validate(task)


def test_a_directory_on_a_web_server_is_no_image():
    task = task_of(instance_info=image(), internal={"is_source_a_path": True})
    with pytest.raises(errors.InvalidParameterValue, match="directory"):
        task.driver.deploy.validate(task)


def test_md5_is_refused_when_not_allowed(config):
    config("agent", allow_md5_checksum=False)
    task = task_of(instance_info=image(image_checksum="d" * 32))
    with pytest.raises(errors.InvalidParameterValue, match="md5"):
        task.driver.deploy.validate(task)


def test_checksum_files_are_refused_when_not_allowed(config):
    config("conductor", disable_support_for_checksum_files=True)
    task = task_of(instance_info=image(image_checksum="http://x/sums"))
    with pytest.raises(errors.InvalidParameterValue, match="checksum files"):
        task.driver.deploy.validate(task)


def test_an_image_served_by_the_conductor_needs_a_web_server(config):
    config("deploy", http_url=None)
    task = task_of(instance_info=image(image_download_source="local"))
    with pytest.raises(errors.MissingParameterValue, match="http_url"):
        task.driver.deploy.validate(task)


@pytest.mark.parametrize(
    ("info", "match"),
    [
        ({"image_http_proxy": "socks5://x"}, "image_http_proxy"),
        ({"image_https_proxy": "ftp://x"}, "image_https_proxy"),
        ({"image_https_proxy": "http://[::1"}, "image_https_proxy"),
        ({"image_no_proxy": "a.example,b c"}, "image_no_proxy"),
        ({"fast_track": "maybe"}, "fast_track"),
    ],
)
def test_bad_driver_info_is_refused(info, match):
    task = task_of(instance_info=image(), driver_info=info)
    with pytest.raises(errors.InvalidParameterValue, match=match):
        task.driver.deploy.validate(task)
        task.driver.deploy.prepare(task)


def test_nothing_is_asked_of_the_image_when_none_is_written():
    task = task_of(storage=NoWriteStorage())
    task.driver.deploy.validate(task)


# Preparation


def test_deployment_prepares_power_networks_image_and_ramdisk(server):
    task = task_of(instance_info=image(server))
    task.driver.deploy.prepare(task)
    assert powers(task) == [states.POWER_OFF]
    assert task.driver.network.calls == ["unconfigure_tenant_networks", "add_provisioning_network"]
    assert task.driver.boot.calls == ["prepare_ramdisk"]
    assert task.driver.boot.params == {"ipa-api-url": "http://api.example:6385"}
    assert task.node.instance_info["image_url"] == server.url + "/image.img"
    assert task.node.instance_info["image_type"] == "whole-disk"
    assert task.node.driver_internal_info["agent_start_attempted"] is True


def test_a_machine_that_must_not_be_powered_off_is_not(server):
    task = task_of(instance_info=image(server), disable_power_off=True)
    task.driver.deploy.prepare(task)
    assert powers(task) == []


def test_an_image_that_is_not_there_fails_before_the_ramdisk_boots(server):
    task = task_of(instance_info=image(server, image_source=server.url + "/gone"))
    with pytest.raises(errors.ImageRefValidationFailed, match=r"/gone.*404"):
        task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == []


@pytest.mark.parametrize("state", [states.ACTIVE, states.UNRESCUING, states.ADOPTING])
def test_an_instance_that_is_there_is_only_made_bootable(state):
    task = task_of(state=state)
    task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == ["prepare_instance"]
    assert task.flows.calls == []


def test_without_an_image_to_write_no_ramdisk_is_booted():
    task = task_of(storage=NoWriteStorage())
    task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == []
    assert task.driver.deploy.deploy(task) is None
    assert powers(task) == [states.POWER_OFF]


def test_the_boot_can_be_somebody_elses_business(server, config):
    config("agent", manage_agent_boot=False)
    task = task_of(instance_info=image(server))
    task.driver.deploy.prepare(task)
    assert task.driver.boot.calls == []


def test_the_images_redirect_target_is_given_to_the_ramdisk(server):
    target = server.put("/target.img", CONTENT)
    source = server.put("/latest", status=302, headers={"Location": target})
    task = task_of(instance_info=image(server, image_source=source))
    task.driver.deploy.prepare(task)
    assert task.node.instance_info["image_url"] == target


def test_a_checksum_file_is_resolved_for_the_ramdisk(server):
    sums = server.put("/SHA256SUMS", f"{SHA256}  image.img\n".encode())
    task = task_of(instance_info=image(server, image_checksum=sums))
    task.driver.deploy.prepare(task)
    assert _image_info(task)["os_hash_value"] == SHA256
    assert "checksum" not in _image_info(task)
    assert task.node.instance_info["image_checksum"] == sums


def test_images_can_be_inspected_although_the_ramdisk_fetches_them(server, config, tmp_path):
    config("conductor", conductor_always_validates_images=True)
    task = task_of(instance_info=image(server))
    task.driver.deploy.prepare(task)
    assert task.node.instance_info["image_disk_format"] == "raw"
    assert task.node.instance_info["image_url"] == server.url + "/image.img"
    assert not (tmp_path / "images" / kit.UUID).exists()


@pytest.mark.parametrize("source", ["http", "file"])
def test_the_conductor_serves_an_image(server, config, tmp_path, source):
    served = server.put(f"/agent_images/{kit.UUID}", CONTENT)
    config("deploy", http_url=server.url)
    info = image(server, image_download_source="local")
    if source == "file":
        (tmp_path / "image.img").write_bytes(CONTENT)
        info = {"image_source": f"file://{tmp_path}/image.img"}
    task = task_of(instance_info=info)
    task.driver.deploy.validate(task)
    task.driver.deploy.prepare(task)
    link = tmp_path / "httpboot" / "agent_images" / kit.UUID
    assert link.read_bytes() == CONTENT
    assert task.node.instance_info["image_url"] == served
    sent = _image_info(task)
    assert (sent["os_hash_algo"], sent["os_hash_value"]) == ("sha256", SHA256)
    assert sent["disk_format"] == "raw"
    assert "checksum" not in sent
    task.driver.deploy.clean_up(task)
    assert not link.is_symlink()
    assert not (tmp_path / "images" / kit.UUID).exists()


def test_a_served_image_with_a_wrong_digest_fails_the_preparation(server, config):
    config("deploy", http_url=server.url)
    task = task_of(
        instance_info=image(server, image_download_source="local", image_checksum="0" * 64)
    )
    with pytest.raises(errors.ImageChecksumError):
        task.driver.deploy.prepare(task)


def test_clean_up_can_be_repeated(tmp_path):
    task = task_of()
    task.driver.deploy.clean_up(task)
    task.driver.deploy.clean_up(task)


# The deploy steps


def test_deploy_reboots_into_the_ramdisk_and_waits():
    task = task_of(instance_info=image())
    assert task.driver.deploy.deploy(task) == states.DEPLOYWAIT
    assert powers(task) == [states.REBOOT]


def test_deploy_does_not_reboot_twice():
    task = task_of(instance_info=image(), internal={"deployment_reboot": True})
    assert task.driver.deploy.deploy(task) == states.DEPLOYWAIT
    assert powers(task) == []
    assert "deployment_reboot" not in task.node.driver_internal_info


def fast_track(agent: AgentServer, **values) -> kit.Task:
    return task_of(
        agent=agent,
        driver_info={"fast_track": True},
        power_state=states.POWER_ON,
        internal={"agent_last_heartbeat": kit.now()},
        **values,
    )


def test_fast_track_uses_the_running_ramdisk(agent, server):
    agent.answers["deploy.get_deploy_steps"] = lambda _: {"status": "SUCCEEDED", "result": LIST}
    task = fast_track(agent, instance_info=image(server))
    task.driver.deploy.prepare(task)
    assert task.driver.deploy.deploy(task) is None
    assert powers(task) == []
    assert task.driver.boot.calls == []
    assert ("set_steps", "deploy", False) in task.flows.calls
    assert task.node.instance_info["image_url"]


def test_fast_track_waits_for_a_busy_ramdisk(agent):
    agent.raw = [(409, b"{}")]
    task = fast_track(agent, instance_info=image())
    with pytest.raises(errors.AgentInProgress):
        task.driver.deploy.deploy(task)


def _image_info(task: kit.Task) -> dict:
    with AgentServer().running() as agent:
        task.node.driver_internal_info["agent_url"] = agent.url
        assert task.driver.deploy.write_image(task) == states.DEPLOYWAIT
        return agent.params("deploy.execute_deploy_step")["step"]["args"]["image_info"]


def test_write_image_tells_the_ramdisk_all_about_the_image(agent, config):
    config(
        "deploy",
        image_server_auth_strategy="http_basic",
        image_server_user="user",
        image_server_password="pass",
    )
    task = task_of(
        agent=agent,
        instance_info=image(
            image_url="http://mirror/real.img",
            image_disk_format="raw",
            image_os_hash_algo="sha256",
            image_os_hash_value=SHA256,
            configdrive={"meta_data": {"k": "v"}},
        ),
        driver_info={"image_http_proxy": "http://proxy", "image_no_proxy": ".example"},
    )
    assert task.driver.deploy.write_image(task) == states.DEPLOYWAIT
    step = agent.params("deploy.execute_deploy_step")["step"]
    assert (step["interface"], step["step"]) == ("deploy", "write_image")
    assert step["args"]["image_info"] == {
        "id": "image.img",
        "urls": ["http://mirror/real.img"],
        "disk_format": "raw",
        "container_format": None,
        "stream_raw_images": True,
        "node_uuid": kit.UUID,
        "checksum": SHA256,
        "os_hash_algo": "sha256",
        "os_hash_value": SHA256,
        "proxies": {"http": "http://proxy"},
        "no_proxy": ".example",
        "image_server_auth_strategy": "http_basic",
        "image_server_user": "user",
        "image_server_password": "pass",
    }
    assert "/openstack/latest/meta_data.json" in files_of(step["args"]["configdrive"])
    assert task.node.driver_internal_info["agent_step_sent"] == "deploy.write_image"


def test_a_checksum_with_its_algorithm_is_told_in_the_ramdisks_form(agent):
    task = task_of(
        agent=agent, instance_info=image(image_url="x", image_checksum=f"sha256:{SHA256}")
    )
    sent = _image_info(task)
    assert (sent["os_hash_algo"], sent["os_hash_value"]) == ("sha256", SHA256)
    assert "checksum" not in sent


def test_a_partition_image_comes_with_the_sizes_of_its_partitions(server, agent, config):
    config("pxe", default_ephemeral_format="xfs")
    info = image(server, **PARTITION, swap_mb="64", ephemeral_gb=2, configdrive="http://drive")
    task = task_of(agent=agent, instance_info=info)
    task.driver.deploy.prepare(task)
    assert task.driver.deploy.write_image(task) == states.DEPLOYWAIT
    sent = agent.params("deploy.execute_deploy_step")["step"]["args"]
    expected = {
        "image_type": "partition",
        "root_gb": 10,
        "root_mb": 10240,
        "swap_mb": 64,
        "ephemeral_mb": 2048,
        "ephemeral_format": "xfs",
        "preserve_ephemeral": False,
        "kernel": None,
        "ramdisk": None,
        "deploy_boot_mode": "uefi",
        "boot_option": "local",
        "disk_label": "gpt",
        "configdrive": "http://drive",
    }
    assert expected.items() <= sent["image_info"].items()
    assert sent["configdrive"] == "http://drive"


def test_without_an_ephemeral_partition_nothing_is_told_of_its_format(server):
    task = task_of(instance_info=image(server, **PARTITION))
    task.driver.deploy.prepare(task)
    assert "ephemeral_format" not in task.node.instance_info


@pytest.mark.parametrize(("change", "good"), [({}, True), ({"root_gb": 11}, False)])
def test_an_ephemeral_partition_is_kept_only_in_its_place(change, good):
    sizes = {"root_mb": 10240, "swap_mb": 0, "ephemeral_mb": 1024}
    info = image(**PARTITION, ephemeral_gb=1, preserve_ephemeral=True) | change
    task = task_of(instance_info=info, internal={"instance": sizes})
    if good:
        task.driver.deploy.validate(task)
    else:
        with pytest.raises(errors.InvalidParameterValue, match="root_mb 10240 to 11264"):
            task.driver.deploy.validate(task)


def test_write_image_is_skipped_when_the_instance_boots_from_a_volume():
    task = task_of(storage=NoWriteStorage())
    assert task.driver.deploy.write_image(task) is None


def uuids(agent: AgentServer, **result) -> None:
    agent.answers["standby.get_partition_uuids"] = lambda _: {
        "status": "SUCCEEDED",
        "result": {"root uuid": "root-1", "efi system partition uuid": "efi-1"} | result,
    }


def test_the_instance_is_made_bootable_in_uefi(agent, tmp_path):
    uuids(agent)
    agent.answers["image.install_bootloader"] = lambda _: {"status": "SUCCEEDED"}
    task = task_of(agent=agent, instance_info=image())
    assert task.driver.deploy.prepare_instance_boot(task) is None
    assert agent.params("image.install_bootloader") == {
        "root_uuid": "root-1",
        "efi_system_part_uuid": "efi-1",
        "prep_boot_part_uuid": None,
        "target_boot_mode": "uefi",
    }
    assert task.flows.calls == [("set_boot_device", "disk", True)]
    assert task.driver.boot.calls == ["prepare_instance"]
    assert task.node.driver_internal_info["root_uuid_or_disk_id"] == "root-1"


def test_no_boot_loader_is_installed_in_bios_mode(agent):
    uuids(agent)
    task = task_of(
        agent=agent, instance_info=image(), properties={"capabilities": "boot_mode:bios"}
    )
    task.driver.deploy.prepare_instance_boot(task)
    assert agent.posted() == ["standby.get_partition_uuids"]


@pytest.mark.parametrize("root", ["root-1", None])
def test_a_partition_image_needs_a_boot_loader_in_any_mode(agent, root):
    uuids(agent, **{"root uuid": root})
    agent.answers["image.install_bootloader"] = lambda _: {"status": "SUCCEEDED"}
    task = task_of(
        agent=agent,
        instance_info=image(**PARTITION, root_mb=10240, swap_mb=0, ephemeral_mb=0),
        properties={"capabilities": "boot_mode:bios"},
    )
    task.driver.deploy.prepare_instance_boot(task)
    assert ("image.install_bootloader" in agent.posted()) is (root is not None)
    sizes = {"root_mb": 10240, "swap_mb": 0, "ephemeral_mb": 0}
    assert task.node.driver_internal_info["instance"] == sizes


def test_software_raid_needs_a_boot_loader_in_any_mode(agent):
    uuids(agent)
    agent.answers["image.install_bootloader"] = lambda _: {"status": "SUCCEEDED"}
    task = task_of(
        agent=agent,
        instance_info=image(image_rootfs_uuid="fs-1"),
        properties={"capabilities": "boot_mode:bios"},
        target_raid_config={"logical_disks": [{"controller": "software"}]},
    )
    task.driver.deploy.prepare_instance_boot(task)
    assert agent.params("image.install_bootloader")["root_uuid"] == "fs-1"


def test_the_boot_device_of_some_machines_is_left_alone(agent):
    uuids(agent)
    agent.answers["image.install_bootloader"] = lambda _: {"status": "SUCCEEDED"}
    task = task_of(agent=agent, instance_info=image(), properties={"vendor": "Lenovo"})
    task.driver.deploy.prepare_instance_boot(task)
    assert task.flows.calls == []


def test_a_boot_loader_that_fails_fails_the_deployment(agent):
    uuids(agent)
    agent.answers["image.install_bootloader"] = lambda _: {
        "status": "FAILED",
        "error": {"message": "no space"},
    }
    task = task_of(agent=agent, instance_info=image())
    with pytest.raises(errors.InstanceDeployFailure, match="no space"):
        task.driver.deploy.prepare_instance_boot(task)
    ((what, kind, message, logs),) = task.flows.calls
    assert (what, kind, logs) == ("fail", "deploy", True)
    assert "no space" in message


def test_a_ramdisk_that_does_not_know_what_it_has_written_fails_the_deployment(agent):
    agent.answers["standby.get_partition_uuids"] = lambda _: {
        "status": "FAILED",
        "error": {"message": "no such disk"},
    }
    task = task_of(agent=agent, instance_info=image(**PARTITION))
    with pytest.raises(errors.InstanceDeployFailure, match="no such disk"):
        task.driver.deploy.prepare_instance_boot(task)
    assert agent.posted() == ["standby.get_partition_uuids"]


@pytest.mark.parametrize("step", ["prepare_instance_boot", "tear_down_agent"])
def test_a_busy_ramdisk_does_not_fail_the_deployment(agent, step):
    agent.raw = [(409, b'{"faultstring": "Agent is busy"}')]
    task = task_of(agent=agent, instance_info=image(), disable_power_off=True)
    with pytest.raises(errors.AgentInProgress):
        getattr(task.driver.deploy, step)(task)
    assert task.flows.calls == []


def test_the_ramdisk_powers_the_machine_off(agent):
    task = task_of(agent=agent)
    assert task.driver.deploy.tear_down_agent(task) is None
    assert agent.posted() == ["standby.power_off"]
    assert [call[0] for call in task.flows.calls] == ["wait_for_power_state", "power"]
    assert powers(task) == [states.POWER_OFF]


@pytest.mark.parametrize("trouble", ["silent", "still on"])
def test_a_machine_that_does_not_power_off_by_itself_is_powered_off(agent, config, trouble):
    config("agent", max_command_attempts=1)
    task = task_of(agent=agent)
    if trouble == "silent":
        agent.drop = 100
    else:
        task.flows.errors["wait_for_power_state"] = errors.PowerStateFailure(pstate="power off")
    task.driver.deploy.tear_down_agent(task)
    assert powers(task) == [states.POWER_OFF]


def test_the_ramdisk_may_be_left_out_of_the_power_off(agent):
    task = task_of(agent=agent, driver_info={"deploy_forces_oob_reboot": "true"})
    task.driver.deploy.tear_down_agent(task)
    assert agent.posted() == ["standby.sync"]
    assert powers(task) == [states.POWER_OFF]


def test_without_power_off_the_ramdisk_is_locked_down(agent):
    agent.answers["system.lockdown"] = lambda _: setattr(agent, "drop", 1) or {"status": "RUNNING"}
    task = task_of(agent=agent, disable_power_off=True)
    task.driver.deploy.tear_down_agent(task)
    task.driver.deploy.boot_instance(task)
    assert agent.posted() == ["standby.sync", "system.lockdown"]
    assert powers(task) == [states.REBOOT]


def test_a_machine_that_can_not_be_powered_on_is_rebooted(agent):
    task = task_of(agent=agent, power=RebootOnlyPower())
    task.driver.deploy.tear_down_agent(task)
    task.driver.deploy.boot_instance(task)
    assert agent.posted() == ["standby.sync"]
    assert powers(task) == [states.REBOOT]


def test_logs_are_kept_when_asked_for_always(agent, config, tmp_path):
    config("agent", deploy_logs_collect="always")
    agent.answers["log.collect_system_logs"] = lambda _: {
        "status": "SUCCEEDED",
        "result": {"system_logs": "aGVsbG8="},
    }
    task = task_of(agent=agent, name="box")
    task.driver.deploy.tear_down_agent(task)
    (kept,) = (tmp_path / "logs").iterdir()
    assert kept.name.startswith(f"{kit.UUID}_box_")
    assert kept.name.endswith(".tar.gz")
    assert kept.read_bytes() == b"hello"


@pytest.mark.parametrize(
    "answer",
    [
        {"status": "FAILED", "error": {"message": "x"}},
        {"status": "SUCCEEDED", "result": {}},
        {"status": "SUCCEEDED", "result": {"system_logs": "%%%"}},
        {"status": "SUCCEEDED", "result": None},
    ],
)
def test_logs_that_can_not_be_kept_trouble_nobody(agent, tmp_path, answer):
    agent.answers["log.collect_system_logs"] = lambda _: answer
    task = task_of(agent=agent)
    task.driver.deploy.collect_ramdisk_logs(task)
    assert not (tmp_path / "logs").exists()


def test_the_networks_are_switched_and_the_instance_boots():
    task = task_of()
    task.driver.deploy.switch_to_tenant_network(task)
    task.driver.deploy.boot_instance(task)
    assert task.driver.network.calls == ["remove_provisioning_network", "configure_tenant_networks"]
    assert powers(task) == [states.POWER_ON]


@pytest.mark.parametrize(
    "method",
    [
        "deploy",
        "write_image",
        "prepare_instance_boot",
        "tear_down_agent",
        "boot_instance",
        "switch_to_tenant_network",
        "prepare",
        "tear_down",
        "prepare_cleaning",
        "tear_down_cleaning",
        "prepare_service",
        "tear_down_service",
    ],
)
def test_nothing_is_done_without_the_lock(method):
    task = kit.Task(kit.node(), shared=True, deploy=DirectDeploy())
    with pytest.raises(errors.ExclusiveLockRequired):
        getattr(task.driver.deploy, method)(task)


def test_tear_down_powers_off_and_disconnects(monkeypatch):
    task = task_of(state=states.DELETING)
    assert task.driver.deploy.tear_down(task) == "deleted"
    assert powers(task) == [states.POWER_OFF]
    assert task.driver.network.calls == [
        "unconfigure_tenant_networks",
        "remove_provisioning_network",
    ]


# Cleaning and servicing


def test_cleaning_boots_the_ramdisk_with_its_parameters():
    task = task_of(state=states.CLEANING)
    assert task.driver.deploy.prepare_cleaning(task) == states.CLEANWAIT
    assert task.driver.network.calls == ["add_cleaning_network"]
    assert task.driver.boot.calls == ["prepare_ramdisk"]
    assert powers(task) == [states.REBOOT]
    info = task.node.driver_internal_info
    assert info["agent_erase_devices_iterations"] == 1
    assert info["agent_erase_devices_zeroize"] is True
    assert info["agent_continue_if_secure_erase_failed"] is False
    assert info["agent_continue_if_ata_erase_failed"] is False
    assert info["agent_enable_nvme_secure_erase"] is True
    assert info["agent_enable_ata_secure_erase"] is True
    assert info["agent_erase_skip_read_only"] is False
    assert info["disk_erasure_concurrency"] == 4


def test_cleaning_uses_a_running_ramdisk(agent):
    agent.answers["clean.get_clean_steps"] = lambda _: {"status": "SUCCEEDED", "result": LIST}
    task = fast_track(agent, state=states.CLEANING)
    assert task.driver.deploy.prepare_cleaning(task) is None
    assert powers(task) == []
    task.driver.deploy.tear_down_cleaning(task)
    assert powers(task) == []


def test_cleaning_waits_for_a_busy_running_ramdisk(agent):
    agent.raw = [(409, b"{}")]
    task = fast_track(agent, state=states.CLEANING)
    assert task.driver.deploy.prepare_cleaning(task) == states.CLEANWAIT


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, [states.POWER_OFF]),
        ({"fault": states.FAULT_CLEAN}, []),
        ({"disable_power_off": True}, [states.REBOOT]),
    ],
)
def test_the_end_of_cleaning_powers_off_where_it_may(values, expected):
    task = task_of(state=states.CLEANING, **values)
    task.driver.deploy.tear_down_cleaning(task)
    assert powers(task) == expected
    assert task.driver.boot.calls == ["clean_up_ramdisk"]
    assert task.driver.network.calls == ["remove_cleaning_network"]


def test_servicing_swaps_the_instance_for_the_ramdisk_and_back():
    task = task_of(state=states.SERVICING)
    assert task.driver.deploy.prepare_service(task) == states.SERVICEWAIT
    assert powers(task) == [states.POWER_OFF, states.POWER_ON]
    assert task.driver.network.calls == ["unconfigure_tenant_networks", "add_servicing_network"]
    assert task.driver.boot.calls == ["clean_up_instance", "prepare_ramdisk"]
    task.driver.deploy.tear_down_service(task)
    assert powers(task)[2:] == [states.POWER_OFF, states.POWER_ON]
    assert task.driver.boot.calls[2:] == ["clean_up_ramdisk", "prepare_instance"]


def test_a_failed_servicing_leaves_the_machine_for_inspection():
    task = task_of(state=states.SERVICING, fault=states.FAULT_SERVICE)
    task.driver.deploy.tear_down_service(task)
    assert powers(task) == []
    assert task.driver.boot.calls == ["clean_up_ramdisk"]


# The custom agent


def test_custom_agent_leaves_the_image_to_the_ramdisk():
    deploy = CustomAgentDeploy()
    task = task_of(deploy)
    deploy.validate(task)
    deploy.prepare(task)
    assert "image_url" not in task.node.instance_info
    assert {step["step"]: step["priority"] for step in deploy.get_deploy_steps(task)} == {
        "deploy": 100,
        "prepare_instance_boot": 60,
        "tear_down_agent": 40,
        "switch_to_tenant_network": 30,
        "boot_instance": 20,
    }
    deploy.prepare_instance_boot(task)
    assert task.driver.boot.calls == ["prepare_ramdisk", "prepare_instance"]
