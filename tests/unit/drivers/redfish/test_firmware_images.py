"""The management step ``update_firmware``, and images that the conductor gives to BMCs."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace

import pytest
import requests

from ironic_rs.conf import CONF
from ironic_rs.db import nodes
from ironic_rs.domain import errors, states
from ironic_rs.drivers.redfish import firmware_flow, firmware_progress
from ironic_rs.drivers.redfish.firmware import RedfishFirmware
from ironic_rs.drivers.redfish.management import RedfishManagement
from ironic_rs.service.image_server import ImageServer
from tests.harness.bmc import MANAGER, Answer, error
from tests.harness.database import database, empty_schema  # noqa: F401
from tests.unit import image_server
from tests.unit.drivers.redfish import updates
from tests.unit.drivers.redfish.updates import TASK, URL

CONTENT = b"new firmware"
SHA1, SHA256, SHA512 = (
    hashlib.new(name, CONTENT).hexdigest() for name in ("sha1", "sha256", "sha512")
)


@pytest.fixture
def monitor(bmc):
    """The task that an update becomes."""
    return updates.offer(bmc)


@pytest.fixture
def task(make_task, bmc, monitor, database, clock, monkeypatch, config):  # noqa: F811
    """A node in a cleaning, without ramdisk."""
    config("redfish", firmware_update_required_successes=0)
    for part in (firmware_flow, firmware_progress):
        monkeypatch.setattr(part, "time", clock)
    task = make_task(bmc, clean_step={"step": "x"}, provision_state=states.CLEANING)
    record = nodes.create({"driver": "redfish", "driver_info": task.node.driver_info})
    task.node.id = record.id
    task.node.driver_internal_info["cleaning_disable_ramdisk"] = True
    task.driver.firmware = RedfishFirmware()
    return task


@pytest.fixture
def site(config, tmp_path):
    """A conductor's host with an image, and its web server."""
    images = tmp_path / "images"
    images.mkdir()
    (images / "bios 1.bin").write_bytes(CONTENT)
    server = ImageServer(tmp_path / "http", "127.0.0.1", 0)
    server.start()
    config("conductor", file_url_allowed_paths=[str(images)])
    config(
        "deploy",
        http_root=str(tmp_path / "http"),
        http_url=f"http://127.0.0.1:{server.port}",
    )
    yield f"file://{images}/bios%201.bin"
    server.stop()


@pytest.fixture
def web():
    with image_server.ImageServer().running() as server:
        yield server


@pytest.fixture
def poll(task):
    """Run the periodic; returns what it asked of the flows."""
    return lambda: updates.run(task, task.driver.management._query_firmware_update_status)


def image(url=URL, checksum=SHA256, **more):
    return {"url": url, "checksum": checksum, **more}


def start(task, *images):
    assert task.driver.management.update_firmware(task, list(images)) == states.CLEANWAIT
    task.node.provision_state = states.CLEANWAIT


def published() -> list[Path]:
    return [path for path in Path(CONF.deploy.http_root).rglob("*") if path.is_file()]


def asked(bmc) -> list[dict]:
    return [request.body for request in bmc.asked("POST", "SimpleUpdate")]


@pytest.mark.parametrize(
    ("images", "reason"),
    [
        ([], "list"),
        ("bios", "list"),
        (["bios"], "image 1 .* no object"),
        ([image(), {"url": URL}], "image 2 .* needs checksum"),
        ([{"checksum": SHA1}], "needs url"),
        ([image(more=1)], "unknown keys: more"),
        ([image(checksum="0" * 32)], "SHA1, SHA256 or SHA512"),
        ([image(checksum="x" * 40)], "SHA1, SHA256 or SHA512"),
        ([image(checksum=None)], "SHA1, SHA256 or SHA512"),
        ([image(wait=0)], "wait"),
        ([image(wait=True)], "wait"),
        ([image(source="ftp")], "source has to be one of http, local, swift"),
        ([image(source="swift")], "object storage"),
        ([image("swift://container/image")], "object storage"),
        ([image("//nowhere")], "url"),
        ([image(7)], "url"),
    ],
)
def test_malformed_images_are_refused_before_the_bmc_is_asked(task, bmc, images, reason):
    with pytest.raises(errors.InvalidParameterValue, match=reason):
        task.driver.management.update_firmware(task, images)
    assert bmc.requests == []
    assert "firmware_updates" not in task.node.driver_internal_info


def test_a_refusal_does_not_show_the_password_of_a_url(task):
    with pytest.raises(errors.InvalidParameterValue) as caught:
        task.driver.management.update_firmware(task, [image("http://me:secret@h/x", wait=0)])
    assert "secret" not in str(caught.value)


def test_each_image_is_followed_by_a_reboot_and_by_the_next(task, poll, bmc, monitor):
    start(task, image(), image(f"{URL}.2"))
    assert ("power", states.REBOOT) in task.flows.calls
    assert asked(bmc) == [{"ImageURI": URL, "TransferProtocol": "HTTP"}]
    info = task.node.driver_internal_info
    assert info["cleaning_reboot"] and info["skip_current_clean_step"] and info["cleaning_polling"]
    assert poll() == ["touch"]
    monitor["TaskState"] = "Completed"
    assert poll() == [states.REBOOT, "touch"]
    assert asked(bmc)[1]["ImageURI"] == f"{URL}.2"
    assert poll() == ["resume"]
    assert task.flows.calls[-1] == ("resume", "clean")
    assert not [key for key in info if "firmware" in key]


def test_a_warning_of_the_bmc_is_a_success(task, poll, monitor):
    start(task, image())
    monitor.update(TaskState="Completed", TaskStatus="Warning")
    assert poll() == ["resume"]


@pytest.mark.parametrize("state", ["Exception", "Cancelled", "Interrupted", "Killed"])
@pytest.mark.parametrize(
    ("kind", "wait"),
    [("clean", states.CLEANWAIT), ("service", states.SERVICEWAIT), ("deploy", states.DEPLOYWAIT)],
)
def test_a_task_that_fails_fails_the_flow_that_runs(task, poll, monitor, kind, wait, state):
    start(task, image())
    task.node.provision_state = wait
    monitor.update(TaskState=state, Messages=[{"MessageId": "X.1", "Message": "bad signature"}])
    assert poll() == ["fail"]
    (call,) = [call for call in task.flows.calls if call[0] == "fail"]
    assert call[1] == kind
    assert "bad signature" in call[2]
    assert "firmware_updates" not in task.node.driver_internal_info


def test_the_bmc_is_left_alone_for_the_given_time(task, poll, bmc, monitor, clock):
    start(task, image(wait=600))
    monitor["TaskState"] = "Completed"
    bmc.forget()
    clock.skip(590)
    assert poll() == ["touch"]
    assert bmc.requests == []
    clock.skip(11)
    assert poll() == ["resume"]


@pytest.mark.parametrize("changed", [True, False])
def test_a_task_that_is_gone_is_a_success_only_with_some_new_version(
    task, poll, bmc, clock, changed
):
    start(task, image())
    bmc.script("GET", "/Tasks/", Answer(404, error("gone")))
    assert poll() == ["touch"]
    if changed:
        bmc.tree[MANAGER]["FirmwareVersion"] = "2.0"
        assert poll() == ["resume"]
    else:
        clock.skip(301)
        assert poll() == ["fail"]
        assert "no version of BIOS, BMC and network cards has changed" in task.flows.calls[-1][2]


def test_a_task_that_waits_for_a_boot_after_its_own_gets_one_more(task, poll, monitor, clock):
    """The machine was rebooted before the BMC had read the image."""
    start(task, image())
    monitor["TaskState"] = "Pending"
    assert poll() == ["touch"]
    clock.skip(31)
    assert poll() == [states.REBOOT, "touch"]
    clock.skip(600)
    assert poll() == ["touch"]
    monitor["TaskState"] = "Completed"
    assert poll() == ["resume"]


def test_updates_without_end_are_given_up(task, poll, clock):
    start(task, image())
    clock.skip(7201)
    assert poll() == ["fail"]


def test_a_bmc_that_refuses_the_image_fails_the_step_with_its_words(task, bmc):
    bmc.script("POST", "UpdateService", Answer(400, error("not an image")))
    bmc._rules.reverse()
    with pytest.raises(errors.RedfishError, match="not an image"):
        task.driver.management.update_firmware(task, [image()])
    assert "firmware_updates" not in task.node.driver_internal_info
    assert task.flows.calls == []


@pytest.mark.parametrize("checksum", [SHA1, SHA256, SHA512.upper()])
def test_a_file_is_given_by_the_web_server_of_the_conductor(
    task, bmc, site, poll, monitor, checksum
):
    start(task, image(site, checksum))
    url = asked(bmc)[0]["ImageURI"]
    assert url == f"{CONF.deploy.http_url}/firmware/{task.node.uuid}/0/bios%201.bin"
    assert requests.get(url, timeout=10).content == CONTENT
    (file,) = published()
    assert file.stat().st_mode & 0o777 == CONF.redfish.file_permission
    assert task.node.driver_internal_info["firmware_cleanup"] == ["http"]
    monitor["TaskState"] = "Completed"
    assert poll() == ["resume"]
    assert published() == []
    assert "firmware_cleanup" not in task.node.driver_internal_info


@pytest.mark.parametrize(
    ("configured", "own", "staged"),
    [
        ("http", None, False),
        ("local", None, True),
        ("local", "http", False),
        ("http", "local", True),
        ("swift", "local", True),
    ],
)
def test_who_gives_an_image_of_a_web_server(task, bmc, site, web, config, configured, own, staged):
    config("redfish", firmware_source=configured)
    url = web.put("/nic.bin", CONTENT)
    start(task, image(url, **({"source": own} if own else {})))
    (request,) = asked(bmc)
    assert (request["ImageURI"] != url) == staged
    assert web.methods("/nic.bin") == (["GET"] if staged else [])
    if staged:
        assert requests.get(request["ImageURI"], timeout=10).content == CONTENT


def test_a_node_may_see_the_web_server_elsewhere(task, bmc, site):
    task.node.driver_info["external_http_url"] = "http://outside:81/x"
    start(task, image(site))
    assert asked(bmc)[0]["ImageURI"].startswith("http://outside:81/x/firmware/")


def test_one_damaged_image_stops_the_step_before_the_first_is_used(task, bmc, site, web):
    url = web.put("/nic.bin", b"something else")
    with pytest.raises(errors.RedfishError, match=f"nic.bin .* sha256 checksum .* not {SHA256}"):
        task.driver.management.update_firmware(task, [image(site), image(url, source="local")])
    assert bmc.requests == []
    assert published() == []
    assert "firmware_cleanup" not in task.node.driver_internal_info


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "not allowed"),
        ("{site}.gone", "can not be read"),
        ("{web}/gone", "404"),
    ],
)
def test_an_image_that_can_not_be_had_stops_the_step(task, bmc, site, web, url, reason):
    url = url.format(site=site, web=web.url)
    with pytest.raises(errors.ImageRefValidationFailed, match=reason):
        task.driver.management.update_firmware(task, [image(url, source="local")])
    assert bmc.requests == []
    assert published() == []


@pytest.mark.parametrize("name", ["..", ".hidden", "..%2F..%2Fx.bin", ""])
def test_an_odd_name_stays_below_the_directory_and_is_served(task, bmc, site, web, name):
    url = web.put(f"/a/{name}", CONTENT)
    web.pages["/"] = web.pages["/a"] = web.pages[f"/a/{name}"]
    start(task, image(url, source="local"))
    (file,) = published()
    assert file.parent == Path(CONF.deploy.http_root, "firmware", task.node.uuid, "0")
    assert requests.get(asked(bmc)[0]["ImageURI"], timeout=10).content == CONTENT


def test_two_images_of_one_name_are_two(task, bmc, site, web, monitor, poll):
    other = web.put("/bios%201.bin", b"other")
    digest = hashlib.sha256(b"other").hexdigest()
    start(task, image(site), image(other, digest, source="local"))
    monitor["TaskState"] = "Completed"
    assert poll() == [states.REBOOT, "touch"]
    contents = [requests.get(body["ImageURI"], timeout=10).content for body in asked(bmc)]
    assert contents == [CONTENT, b"other"]


def test_another_conductor_gives_the_next_image_itself(task, bmc, site, monitor, poll, config):
    """The one that staged it may be dead, and its web server with it."""
    start(task, image(site), image(site))
    config(None, host="another")
    root = f"{CONF.deploy.http_root}-2"
    config("deploy", http_root=root, http_url="http://another")
    monitor["TaskState"] = "Completed"
    assert poll() == [states.REBOOT, "touch"]
    assert asked(bmc)[1]["ImageURI"].startswith("http://another/firmware/")
    assert len(published()) == 1
    assert poll() == ["resume"]
    assert published() == []


@pytest.mark.parametrize("wiped", [False, True])
def test_files_of_a_flow_that_has_failed_are_removed(task, site, wiped):
    start(task, image(site))
    info = task.node.driver_internal_info
    if wiped:
        # As the time-out of a step does.
        del info["firmware_updates"]
    task.node.provision_state = states.CLEANFAIL
    found = {method.__name__: mark for mark, method in RedfishManagement().periodics()}
    assert found["_query_firmware_update_failed"].predicate(task.node)
    task.driver.management._query_firmware_update_failed(task)
    assert published() == []
    assert not [key for key in info if "firmware" in key]
    assert not found["_query_firmware_update_failed"].predicate(task.node)


def test_files_that_a_dead_flow_left_are_removed_by_the_next(task, site):
    left = Path(CONF.deploy.http_root, "firmware", task.node.uuid, "7", "old.bin")
    left.parent.mkdir(parents=True)
    left.write_bytes(b"old")
    start(task, image(site))
    assert left not in published()


def test_the_firmware_interface_stages_images_too(task, bmc, site, monitor):
    settings = [{"component": "bios", "url": site}]
    assert task.driver.firmware.update(task, settings) == states.CLEANWAIT
    url = asked(bmc)[0]["ImageURI"]
    assert requests.get(url, timeout=10).content == CONTENT
    task.node.provision_state = states.CLEANWAIT
    monitor["TaskState"] = "Completed"
    polls = [updates.run(task, task.driver.firmware._query_update_status) for _poll in range(2)]
    assert polls == [[states.REBOOT, "touch"], ["resume"]]
    assert published() == []


def test_the_firmware_interface_refuses_object_storage(task, bmc, config):
    config("redfish", firmware_source="swift")
    with pytest.raises(errors.InvalidParameterValue, match=r"\[redfish\]firmware_source"):
        task.driver.firmware.update(task, [{"component": "bios", "url": URL}])
    assert bmc.requests == []


def test_without_a_web_server_the_step_says_so(task, bmc, site, config):
    config("deploy", http_url=None)
    with pytest.raises(errors.MissingParameterValue, match="http_url"):
        task.driver.management.update_firmware(task, [image(site)])
    assert bmc.requests == []


def test_each_flow_sees_its_own_updates_only(task, monitor):
    start(task, image())
    monitor["TaskState"] = "Completed"
    assert updates.run(task, task.driver.firmware._query_update_status) == []
    assert task.node.driver_internal_info["firmware_updates"][0]["task_monitor"].endswith(TASK)


def test_the_nodes_to_look_at():
    found = {method.__name__: mark for mark, method in RedfishManagement().periodics()}
    assert set(found) == {"_query_firmware_update_failed", "_query_firmware_update_status"}
    assert found["_query_firmware_update_status"].filters == {
        "reserved": False,
        "provision_state_in": [states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT],
    }
    assert found["_query_firmware_update_failed"].filters == {
        "reserved": False,
        "provision_state_in": [states.CLEANFAIL, states.DEPLOYFAIL, states.SERVICEFAIL],
        "maintenance": True,
    }
    node = SimpleNamespace(driver_internal_info={"firmware_updates": [{}]})
    for mark in found.values():
        assert mark.interval(CONF) == 60
        assert mark.predicate(node)


def test_the_steps_are_the_published_ones():
    management = RedfishManagement()
    for kind in ("clean", "service"):
        (step,) = [
            step
            for step in getattr(management, f"{kind}_steps")
            if step["step"] == "update_firmware"
        ]
        assert (step["priority"], step["abortable"], step["requires_ramdisk"]) == (0, False, True)
        assert {name: about["required"] for name, about in step["argsinfo"].items()} == {
            "firmware_images": True
        }
