"""Images of operators, deployed for real: K10/74, K10/76, K10/78, K10/80 and K10/81.

One process with SQLite, a web server whose answers are switched, and nodes that need no
machine: what the service does with an image is done when the node waits for its ramdisk.
The qemu-img in its path writes down how it is called (field-cases.md).
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from ironic_rs.images import configdrive
from tests.harness.cluster import Cluster, Sandbox, running
from tests.harness.servers import HOST, missing, wait_until
from tests.unit.image_server import ImageServer
from tests.unit.images.test_formats import gpt, qcow2, raw, vmdk
from tests.unit.images.test_unpacking import told

pytestmark = pytest.mark.timeout(300)

CONTENT = raw(2 * 1024 * 1024)
MODES = ("local", "http")


class Room:
    """A service, and what it leaves on its disk."""

    def __init__(self, cluster: Cluster, server: ImageServer) -> None:
        self.cluster, self.server = cluster, server
        folder = cluster.folder
        self.masters, self.images = folder / "masters", folder / "images"
        self.served = folder / "httpboot" / "agent_images"
        self.allowed = folder / "allowed"
        self.calls = folder / "qemu-img.calls"

    def node(self, mode: str = "local", **more: Any) -> str:
        """Create an available node; returns its uuid."""
        body = {
            "deploy_interface": "direct",
            "boot_interface": "fake",
            "driver_info": {"image_download_source": mode},
            "properties": {"cpu_arch": "x86_64", "capabilities": "boot_mode:uefi"},
            **more,
        }
        uuid = str(self.cluster.create(**body)["uuid"])
        self.cluster.provide(uuid)
        return uuid

    def want(self, uuid: str, source: Any, content: bytes | None = None, **info: Any) -> None:
        """Say what is to be deployed.

        :param content: what the checksum is of.
        """
        document = {"image_source": source, "image_type": "whole-disk", **info}
        if content is not None:
            document["image_os_hash_algo"] = "sha256"
            document["image_os_hash_value"] = hashlib.sha256(content).hexdigest()
        change = [{"op": "add", "path": "/instance_info", "value": document}]
        self.cluster.send("PATCH", f"/v1/nodes/{uuid}", change, 200)

    def start(self, uuid: str, *args: Any, **info: Any) -> None:
        self.want(uuid, *args, **info)
        self.cluster.provision(uuid, "active")

    def deploy(self, uuid: str, *args: Any, **info: Any) -> dict[str, Any]:
        """Deploy until the node waits for its ramdisk, or has failed; returns the node."""
        self.start(uuid, *args, **info)
        return self.cluster.wait_state(uuid, "wait call-back", "deploy failed")

    def refused(self, uuid: str, *args: Any, **info: Any) -> str:
        """Deploy in vain; returns the reason, after a look at what is left."""
        before = self.left()
        calls = self.conversions()
        node = self.deploy(uuid, *args, **info)
        assert node["provision_state"] == "deploy failed"
        assert self.left() <= before
        assert self.conversions() == calls, "nothing was converted"
        assert "Traceback" not in node["last_error"]
        assert "unexpected" not in node["last_error"]
        return str(node["last_error"])

    def accepted(self, uuid: str, *args: Any, **info: Any) -> bytes:
        """Deploy until the node waits for its ramdisk; returns what that is given."""
        node = self.deploy(uuid, *args, **info)
        assert node["provision_state"] == "wait call-back", node["last_error"]
        answer = requests.get(self.image_url(uuid), timeout=30)
        assert answer.status_code == 200
        told = node["driver_internal_info"].get("resolved_image")
        if told:
            digest = hashlib.new(told["os_hash_algo"], answer.content).hexdigest()
            assert digest == told["os_hash_value"]
        return answer.content

    def image_url(self, uuid: str) -> str:
        """Where the ramdisk is sent; the API does not show it."""
        database = self.cluster.database.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(database)) as connection:
            query = "SELECT instance_info FROM nodes WHERE uuid = ?"
            ((document,),) = connection.execute(query, (uuid,)).fetchall()
        return str(json.loads(document)["image_url"])

    def undeploy(self, uuid: str) -> None:
        self.cluster.provision(uuid, "deleted")
        self.cluster.wait_state(uuid, "available")
        assert not (self.images / uuid).exists()
        assert not (self.served / uuid).is_symlink()

    def left(self) -> set[Path]:
        """What lies in the cache and beside the files of nodes."""
        places = (self.masters, self.images, self.served)
        return {path for place in places if place.exists() for path in place.rglob("*")}

    def conversions(self) -> list[str]:
        return self.calls.read_text().splitlines() if self.calls.exists() else []

    def delete(self, uuid: str) -> None:
        path = f"/v1/nodes/{uuid}"
        wait_until(lambda: self.cluster.node(uuid)["reservation"] is None, "the lock is free")
        self.cluster.send("PUT", f"{path}/maintenance", expect=202)
        self.cluster.send("DELETE", path, expect=204)
        assert not (self.images / uuid).exists()
        assert not (self.served / uuid).is_symlink()


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running(Sandbox(tmp_path_factory.mktemp("sandbox"), 1)) as fleet:
        fleet.start()
        yield fleet


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, sandbox: Sandbox) -> Iterator[Cluster]:
    real = shutil.which("qemu-img")
    if real is None:
        missing("qemu-img is not installed (Debian package qemu-utils)")
    folder: Path = tmp_path_factory.mktemp("service")
    tools = folder / "bin"
    tools.mkdir()
    spy = tools / "qemu-img"
    spy.write_text(f'#!/bin/sh\necho "$*" >> {folder}/qemu-img.calls\nexec {real} "$@"\n')
    spy.chmod(0o755)
    options = sandbox.options()
    options["conductor"]["file_url_allowed_paths"] = f"{folder}/allowed,{sandbox.files}"
    more = {
        "DEFAULT": {
            "enabled_hardware_types": "fake-hardware,redfish",
            "enabled_boot_interfaces": "fake,ipxe,redfish-virtual-media",
            "enabled_deploy_interfaces": "direct,ramdisk,fake",
            "minimum_required_memory": 1,
        },
        "conductor": {
            "automated_clean": False,
            "conductor_always_validates_images": True,
        },
        "deploy": {"iso_master_path": folder / "isos"},
        "dhcp": {"dhcp_provider": "none"},
        "pxe": {
            "instance_master_path": folder / "masters",
            "images_path": folder / "images",
            "tftp_root": folder / "tftpboot",
            "tftp_master_path": folder / "boot-masters",
            "image_cache_size": 1,
        },
    }
    for group, values in more.items():
        options.setdefault(group, {}).update(values)
    (folder / "allowed").mkdir()
    env = {"PATH": f"{tools}:{os.environ['PATH']}"}
    database = f"sqlite:///{folder}/ironic.sqlite"
    with running(Cluster(folder, database, "fake://", options, env)) as made:
        made.migrate()
        made.start_all_in_one()
        yield made


@pytest.fixture
def room(service: Cluster) -> Iterator[Room]:
    with ImageServer().running() as server:
        yield Room(service, server)


@pytest.fixture
def node(room: Room) -> Iterator[Callable[..., str]]:
    """Return a maker of nodes; they are gone after the test."""
    made: list[str] = []

    def make(mode: str = "local", **more: Any) -> str:
        made.append(room.node(mode, **more))
        return made[-1]

    yield make
    room.server.go_on.set()
    for uuid in made:
        room.delete(uuid)


# K10/74: redirects and bad answers


def test_74_redirects_and_servers_without_head_are_followed(
    room: Room, node: Callable[..., str]
) -> None:
    server = room.server
    good = server.put("/good.img", CONTENT)
    urls = [
        server.put(f"/r{status}", status=status, headers={"Location": "/good.img"})
        for status in (301, 302, 303, 307, 308)
    ]
    urls.append(server.put("/no-head", CONTENT, refuse=("HEAD",)))
    urls.append(server.put("/busy", CONTENT, statuses=[503, 503]))
    for mode in MODES:
        uuid = node(mode)
        for url in urls:
            assert room.accepted(uuid, url, CONTENT) == CONTENT
            if mode == "http" and "/r30" in url:
                assert room.image_url(uuid) == good, "the ramdisk is spared the way"
            room.undeploy(uuid)


@pytest.mark.parametrize("mode", MODES)
def test_74_what_cannot_be_had_is_told_with_its_url_and_code(
    room: Room, node: Callable[..., str], mode: str
) -> None:
    server = room.server
    uuid = node(mode)
    for status in (403, 404, 410, 500):
        url = server.put(f"/s{status}", b"no", status=status)
        text = room.refused(uuid, url, CONTENT)
        assert url in text
        assert str(status) in text
    for name, target, reason in [
        ("loop", "/loop", "too many redirects"),
        ("gone", "/nowhere", "404"),
        ("file", "file:///etc/passwd", "neither http nor https"),
        ("ftp", f"ftp://{HOST}/image", "neither http nor https"),
    ]:
        url = server.put(f"/{name}", status=302, headers={"Location": target})
        text = room.refused(uuid, url, CONTENT)
        assert url in text
        assert reason in text
    assert server.methods("/loop").count("GET") == 0
    assert len(server.methods("/loop")) < 40, "a loop is not followed for ever"
    with socket.socket() as held:
        held.bind((HOST, 0))
        url = f"http://{HOST}:{held.getsockname()[1]}/away"
        text = room.refused(uuid, url, CONTENT)
    assert url in text
    assert "refused" in text


# K10/76: checksum files

DIGEST = hashlib.sha256(CONTENT).hexdigest()
OTHER = hashlib.sha256(b"other").hexdigest()
GOOD_SUMS = {
    "bare": DIGEST,
    "text": f"{DIGEST}  image.img\n",
    "binary": f"{DIGEST} *image.img\n",
    "bsd": f"SHA256 (image.img) = {DIGEST}\n",
    "two": f"# made by hand\n{OTHER}  other.img\n{DIGEST}  image.img\n",
    "signed": (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n"
        f"{OTHER}  other.img\n{DIGEST}  image.img\n"
        "-----BEGIN PGP SIGNATURE-----\n\niQEzBAEBCAAd\n=abcd\n-----END PGP SIGNATURE-----\n"
    ),
    "windows": f"{DIGEST}  image.img\r\n",
    "sha512": f"{hashlib.sha512(CONTENT).hexdigest()}  image.img\n",
}
BAD_SUMS = {
    "empty": "",
    "html": "<html><body>Not here, but with status 200</body></html>",
    "unnamed": f"{OTHER}  other.img\n",
    "several": f"{DIGEST}\n{OTHER}\n",
    "short": f"{DIGEST[:40]}  image.img\n",
}


def test_76_checksum_files_as_people_publish_them(room: Room, node: Callable[..., str]) -> None:
    url = room.server.put("/image.img", CONTENT)
    uuid = node()
    for name, text in GOOD_SUMS.items():
        sums = room.server.put(f"/{name}", text.encode())
        assert room.accepted(uuid, url, image_checksum=sums) == CONTENT
        room.undeploy(uuid)


@pytest.mark.parametrize("mode", MODES)
def test_76_checksum_files_that_do_not_help_are_named(
    room: Room, node: Callable[..., str], mode: str
) -> None:
    server = room.server
    url = server.put("/image.img", CONTENT)
    uuid = node(mode)
    for name, text in BAD_SUMS.items():
        sums = server.put(f"/{name}", text.encode())
        said = room.refused(uuid, url, image_checksum=sums)
        assert sums in said
        assert "image.img" in said
    for name, page, reason in [
        ("missing", {"status": 404}, "404"),
        ("led-astray", {"status": 302, "headers": {"Location": "file:///etc/passwd"}}, "http"),
        ("huge", {"body": b"x" * 2_000_000}, "larger than"),
    ]:
        sums = server.put(f"/{name}", **page)
        said = room.refused(uuid, url, image_checksum=sums)
        assert sums in said
        assert reason in said
    assert "GET" not in server.methods("/image.img"), "it is not even fetched"


@pytest.mark.parametrize("mode", MODES)
def test_76_a_checksum_of_something_else_is_told(
    room: Room, node: Callable[..., str], mode: str
) -> None:
    url = room.server.put("/image.img", CONTENT)
    said = room.refused(node(mode), url, b"something else")
    assert url in said
    assert f"has sha256 {DIGEST}, not {hashlib.sha256(b'something else').hexdigest()}" in said


@pytest.mark.parametrize("mode", MODES)
def test_76_a_transfer_that_is_cut_short_is_told(
    room: Room, node: Callable[..., str], mode: str
) -> None:
    uuid = node(mode)
    url = room.server.put("/cut.img", CONTENT, cut=100_000, cuts=100)
    assert url in room.refused(uuid, url, CONTENT)
    assert room.server.methods("/cut.img").count("GET") == 3
    url = room.server.put("/short.img", CONTENT, short=1)
    assert "bytes came" in room.refused(uuid, url, CONTENT)


# K10/78: dangerous formats


def _two_formats() -> bytes:
    both = bytearray(configdrive.make_iso({"meta_data.json": b"{}"}))
    both[:512] = qcow2()[:512]
    return bytes(both)


def _hybrid_iso() -> bytes:
    hybrid = bytearray(configdrive.make_iso({"meta_data.json": b"{}"}))
    hybrid[:1024] = gpt()[:1024]
    return bytes(hybrid)


#: Name -> content, declared format, what the refusal says.
DANGEROUS: dict[str, tuple[bytes, str | None, str]] = {
    "backing": (qcow2(backing=b"/etc/passwd"), "qcow2", "not safe"),
    "data-file": (qcow2(data_file=True), "qcow2", "not safe"),
    "undeclared": (qcow2(backing=b"/etc/passwd"), None, "not safe"),
    "hidden": (qcow2(backing=b"/etc/passwd"), "raw", "not safe"),
    "vmdk": (vmdk(), "vmdk", "not "),
    "declared-qcow2": (CONTENT, "qcow2", "declared to be qcow2, but its content is raw"),
    "declared-raw": (qcow2(), "raw", "declared to be raw, but its content is qcow2"),
    "declared-iso": (CONTENT, "iso", "declared to be iso, but its content is raw"),
    "luks": (b"LUKS\xba\xbe\x00\x01".ljust(1 << 20, b"\0"), None, "not "),
    "two": (_two_formats(), None, "several formats"),
    "nothing": (b"", None, "empty"),
    "eight-exbibytes": (qcow2(size=(1 << 63) - 512), "qcow2", "virtual size"),
    "bomb": (gzip.compress(bytes(30_000_000)), "raw", "packed (gzip)"),
}


@pytest.mark.parametrize("mode", MODES)
def test_78_dangerous_and_mislabelled_images_are_refused(
    room: Room, node: Callable[..., str], mode: str
) -> None:
    uuid = node(mode)
    for name, (content, declared, reason) in DANGEROUS.items():
        url = room.server.put(f"/{name}.qcow2", content)
        info = {"image_disk_format": declared} if declared else {}
        said = room.refused(uuid, url, content, **info)
        assert reason in said, f"{name}: {said}"
    bomb = DANGEROUS["bomb"][0]
    url = room.server.put("/encoded", bomb, headers={"Content-Encoding": "gzip"})
    assert "packed (gzip)" in room.refused(uuid, url, bomb)


def test_78_packed_images_are_unpacked_where_there_is_room(
    room: Room, node: Callable[..., str]
) -> None:
    packed = told(CONTENT)
    url = room.server.put("/image.zst", packed)
    uuid = node()
    assert room.accepted(uuid, url, packed) == CONTENT
    room.undeploy(uuid)
    # The header may claim what it likes.
    bomb = b"\x28\xb5\x2f\xfd\xe0" + (1 << 62).to_bytes(8, "little") + bytes(1000)
    url = room.server.put("/bomb.zst", bomb)
    assert "disk space" in room.refused(uuid, url, bomb)
    assert "packed (zstd)" in room.refused(node("http"), url, bomb)


def test_78_qemu_img_is_told_the_format(
    room: Room, node: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "raw").write_bytes(gpt())
    command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", "raw", "qcow2"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    content = (tmp_path / "qcow2").read_bytes()
    # The name says nothing.
    url = room.server.put("/image.vmdk", content)
    before = room.conversions()
    uuid = node()
    served = room.accepted(uuid, url, content, image_disk_format="qcow2")
    assert served.rstrip(b"\0") == gpt().rstrip(b"\0")
    assert room.cluster.node(uuid)["driver_internal_info"]["resolved_image"]["disk_format"] == "raw"
    (call,) = room.conversions()[len(before) :]
    assert call.startswith("convert -f qcow2 -O raw ")
    room.undeploy(uuid)


def test_78_a_machine_boots_what_was_converted_for_it(
    room: Room, sandbox: Sandbox, tmp_path: Path
) -> None:
    shutil.copy(sandbox.image_file, tmp_path / "raw")
    command = ["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", "raw", "qcow2"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    content = (tmp_path / "qcow2").read_bytes()
    url = room.server.put("/image.qcow2", content)
    sums = room.server.put(
        "/SHA512SUMS", f"{hashlib.sha512(content).hexdigest()}  image.qcow2".encode()
    )
    (machine,) = sandbox.machines()
    uuid = str(sandbox.enroll(room.cluster, machine)["uuid"])
    room.cluster.provide(uuid)
    change = [{"op": "add", "path": "/driver_info/image_download_source", "value": "local"}]
    room.cluster.send("PATCH", f"/v1/nodes/{uuid}", change, 200)
    room.start(uuid, url, image_checksum=sums, image_disk_format="qcow2")
    found = room.cluster.wait_state(uuid, "active", "deploy failed")
    assert found["provision_state"] == "active", found["last_error"]
    wait_until(lambda: sandbox.machines()[0]["software"] == "instance", "the instance runs")
    written = sandbox.machines()[0]["image"]["sha256"]
    assert written == hashlib.sha256(sandbox.image_file.read_bytes()).hexdigest()
    assert not (room.images / uuid).exists(), "nobody needs it any more"
    assert not (room.served / uuid).is_symlink()
    room.undeploy(uuid)
    room.delete(uuid)


def test_78_a_hybrid_iso_boots_as_a_ramdisk(room: Room, node: Callable[..., str]) -> None:
    iso = _hybrid_iso()
    url = room.server.put("/hybrid.iso", iso)
    uuid = node(deploy_interface="ramdisk", boot_interface="ipxe")
    port = {"node_uuid": uuid, "address": "52:54:00:78:00:01"}
    room.cluster.send("POST", "/v1/ports", port, 201)
    change = [{"op": "add", "path": "/instance_info", "value": {"boot_iso": url}}]
    room.cluster.send("PATCH", f"/v1/nodes/{uuid}", change, 200)
    room.cluster.provision(uuid, "active")
    found = room.cluster.wait_state(uuid, "active", "deploy failed")
    assert found["provision_state"] == "active", found["last_error"]
    web = room.cluster.folder / "httpboot"
    assert (web / uuid / "boot_iso").read_bytes() == iso
    room.cluster.provision(uuid, "deleted")
    room.cluster.wait_state(uuid, "available")
    assert not (web / uuid).exists()


# K10/80: files and other schemes


@pytest.fixture
def files(room: Room) -> Iterator[Path]:
    """Things in the directory that images may come from."""
    allowed = room.allowed
    (allowed / "image.img").write_bytes(CONTENT)
    (allowed / "directory").mkdir()
    (allowed / "outside").symlink_to("/etc")
    (allowed / "inside").symlink_to(allowed / "image.img")
    os.mkfifo(allowed / "pipe")
    yield allowed
    shutil.rmtree(allowed)
    allowed.mkdir()


def test_80_only_regular_files_of_the_allowed_tree(
    room: Room, node: Callable[..., str], files: Path
) -> None:
    uuid = node()
    before = room.left()
    for source in (
        "file:///dev/zero",
        "file:///etc/passwd",
        f"file://{files}/../../../../../../../../etc/passwd",
        f"file://{files}/outside/passwd",
        f"file://{files}/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        f"file://{files}/pipe",
        f"file://{files}/directory",
        f"file://{files}/missing",
        f"file://elsewhere{files}/image.img",
        "file:image.img",
        f"ftp://{HOST}/image",
        f"ssh://{HOST}/image",
        "javascript:alert(1)",
        "image.img",
        "//host/image.img",
        "http://[::1/image",
        "aaaaaaaa-0000-4000-8000-000000000001",
        5,
        [],
        {},
        "",
        False,
    ):
        room.want(uuid, source, CONTENT)
        answer = room.cluster.send(
            "PUT", f"/v1/nodes/{uuid}/states/provision", {"target": "active"}
        )
        assert answer.status_code == 400, f"{source}: {answer.status_code} {answer.text}"
        assert "root:" not in answer.text
    assert room.cluster.node(uuid)["provision_state"] == "available"
    assert room.left() <= before


def test_80_files_of_the_allowed_tree_are_served(
    room: Room, node: Callable[..., str], files: Path
) -> None:
    uuid = node()
    for name in ("image.img", "inside"):
        assert room.accepted(uuid, f"file://{files}/{name}") == CONTENT
        room.undeploy(uuid)
    assert (files / "image.img").read_bytes() == CONTENT


def test_80_kernels_are_no_way_around(room: Room, node: Callable[..., str]) -> None:
    info = {"deploy_kernel": "file:///dev/zero", "deploy_ramdisk": "file:///etc/passwd"}
    uuid = node(boot_interface="ipxe", driver_info=info | {"image_download_source": "local"})
    port = {"node_uuid": uuid, "address": "52:54:00:80:00:01"}
    room.cluster.send("POST", "/v1/ports", port, 201)
    url = room.server.put("/image.img", CONTENT)
    found = room.deploy(uuid, url, CONTENT)
    assert found["provision_state"] == "deploy failed"
    assert "file:///dev/zero" in found["last_error"]
    assert "not allowed" in found["last_error"]
    masters = room.cluster.folder / "boot-masters"
    assert not masters.exists() or list(masters.iterdir()) == []


# K10/81: transfers that take long


def test_81_an_undeployment_stops_the_transfer(room: Room, node: Callable[..., str]) -> None:
    url = room.server.put("/big.img", CONTENT, stall=1_500_000)
    uuid = node()
    before = room.left()
    room.start(uuid, url, CONTENT)
    assert room.server.stalled.wait(60)
    assert room.cluster.node(uuid)["provision_state"] == "deploying"
    room.undeploy(uuid)
    assert room.left() <= before
    assert room.server.methods("/big.img").count("GET") == 1
    events = room.cluster.get(f"/v1/nodes/{uuid}/history", detail=True)["history"]
    assert any("aborted on request" in event["event"] for event in events)


def test_81_an_abort_stops_the_transfer(room: Room, node: Callable[..., str]) -> None:
    url = room.server.put("/big.img", CONTENT, stall=1_500_000)
    uuid = node()
    before = room.left()
    room.start(uuid, url, CONTENT)
    assert room.server.stalled.wait(60)
    room.cluster.provision(uuid, "abort")
    found = room.cluster.wait_state(uuid, "deploy failed")
    assert "aborted on request" in found["last_error"]
    assert room.left() <= before


def test_81_an_image_is_fetched_once_for_all_who_want_it(
    room: Room, node: Callable[..., str]
) -> None:
    url = room.server.put("/shared.img", CONTENT, stall=1_000_000)
    uuids = [node() for _ in range(3)]
    for uuid in uuids:
        room.start(uuid, url, CONTENT)
    assert room.server.stalled.wait(60)
    # The others do not wait for somebody who has left.
    path = f"/v1/nodes/{uuids[2]}/states/provision"
    wait_until(
        lambda: room.cluster.send("PUT", path, {"target": "abort"}).status_code == 202,
        "it waits for the image",
    )
    room.cluster.wait_state(uuids[2], "deploy failed")
    room.server.go_on.set()
    for uuid in uuids[:2]:
        room.cluster.wait_state(uuid, "wait call-back")
    one, other = (room.images / uuid / "disk" for uuid in uuids[:2])
    assert one.samefile(other)
    fetched = room.server.methods("/shared.img").count("GET")
    assert fetched in (1, 2), "2 when it was the one who fetched that left"
    for uuid in uuids[:2]:
        room.undeploy(uuid)


def test_81_a_kill_in_the_middle_leaves_nothing_for_ever(
    room: Room, node: Callable[..., str]
) -> None:
    url = room.server.put("/big.img", CONTENT, stall=1_500_000)
    uuid = node()
    before = room.left()
    room.start(uuid, url, CONTENT)
    assert room.server.stalled.wait(60)
    wait_until(lambda: list(room.masters.glob("*.part/image")), "the transfer has begun")
    room.cluster.processes["all-in-one"].kill()
    assert list(room.masters.glob("*.part/image"))
    room.server.go_on.set()
    room.cluster.start_all_in_one()
    found = room.cluster.wait_state(uuid, "deploy failed")
    assert found["last_error"]
    # The empty directory of the node goes with the instance.
    assert room.left() - {room.images / uuid} <= before
    room.server.pages["/big.img"].stall = None
    assert room.accepted(uuid, url, CONTENT) == CONTENT
    room.undeploy(uuid)


def test_81_what_nobody_uses_makes_room(room: Room, node: Callable[..., str]) -> None:
    uuid, user = node(), node()

    def fetch(uuid: str, size: int) -> None:
        content = raw(size)
        room.accepted(uuid, room.server.put(f"/{size}.img", content), content)

    def kept() -> set[int]:
        return {path.stat().st_size for path in room.masters.iterdir()}

    fetch(user, 1_500_001)
    fetch(uuid, 1_600_001)
    room.undeploy(uuid)
    assert {1_500_001, 1_600_001} <= kept()
    fetch(uuid, 1_700_001)
    assert {1_500_001, 1_700_001} <= kept()
    assert 1_600_001 not in kept(), "[pxe]image_cache_size is 1 MiB"
    room.undeploy(uuid)
    room.undeploy(user)
