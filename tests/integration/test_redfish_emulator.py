"""The Redfish driver and power sync against sushy-tools' emulator, an unmodified process.

A proxy before the emulator keeps connections alive, as BMCs do and the emulator's
development server does not, and counts connections and requests.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conductor.service import Conductor
from ironic_rs.conductor.task import Task
from ironic_rs.conf import CONF
from ironic_rs.db import inventory, models, nodes, ports
from ironic_rs.domain import errors, states
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.drivers.redfish import sessions
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from ironic_rs.service.image_server import ImageServer
from tests.harness.database import database, empty_schema  # noqa: F401
from tests.harness.servers import free_port, missing, wait_until

SYSTEMS = 6
USER, PASSWORD = "admin", "password of the emulator"


def uuid_of(number: int) -> str:
    return f"27946b59-9e44-4fa7-8e91-f3527a1ef0{number:02d}"


class Proxy:
    """Passes requests on to a port, over connections that stay open."""

    def __init__(self, port: int) -> None:
        self.connections = 0
        self.requests: list[str] = []
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                super().setup()
                proxy.connections += 1

            def _pass_on(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                proxy.requests.append(f"{self.command} {self.path}")
                with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as behind:
                    behind.request(self.command, self.path, body, dict(self.headers.items()))
                    answer = behind.getresponse()
                    content = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("connection", "content-length", "date", "server"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = _pass_on

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def forget(self) -> None:
        self.connections = 0
        self.requests.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running emulator of a few systems."""
    program = Path(sys.executable).with_name("sushy-emulator")
    if not program.exists():
        missing("sushy-tools is not installed")
    directory = tmp_path_factory.mktemp("emulator")
    port = free_port()
    systems = [
        {
            "uuid": uuid_of(n),
            "name": f"machine-{n}",
            "power_state": "On" if n % 2 else "Off",
            "external_notifier": False,
            "nics": [{"mac": f"00:5C:52:31:3A:{n:02X}", "ip": f"192.0.2.{n}"}],
        }
        for n in range(SYSTEMS)
    ]
    users = directory / "users"
    digest = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    users.write_text(f"{USER}:{digest}\n")
    # The last system has a storage with two disks, and no volumes.
    controller = {"MemberId": "0", "Name": "Contoso", "SpeedGbps": 12}
    storage = {
        "Id": "1",
        "Name": "Local storage",
        "StorageControllers": [controller],
        "Drives": ["D0", "D1"],
    }
    drives = [
        {"Id": name, "Name": name, "CapacityBytes": 100 * 1024**3, "Protocol": "SAS"}
        for name in storage["Drives"]
    ]
    settings = directory / "emulator.conf"
    settings.write_text(
        f"SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\n"
        f"SUSHY_EMULATOR_LISTEN_PORT = {port}\n"
        f"SUSHY_EMULATOR_STATE_DIR = {str(directory / 'state')!r}\n"
        f"SUSHY_EMULATOR_AUTH_FILE = {str(users)!r}\n"
        f"SUSHY_EMULATOR_FAKE_DRIVER = True\n"
        f"SUSHY_EMULATOR_FAKE_SYSTEMS = {systems!r}\n"
        f"SUSHY_EMULATOR_STORAGE = {{{uuid_of(SYSTEMS - 1)!r}: [{storage!r}]}}\n"
        f"SUSHY_EMULATOR_DRIVES = {{({uuid_of(SYSTEMS - 1)!r}, '1'): {drives!r}}}\n"
        f"SUSHY_EMULATOR_VOLUMES = {{({uuid_of(SYSTEMS - 1)!r}, '1'): []}}\n"
    )
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), "--config", str(settings)],
            stdout=log,
            stderr=log,
            # Where inserted images are kept.
            env={**os.environ, "TMPDIR": str(directory)},
        )
    try:
        wait_until(lambda: _answers(port), "the emulator answers")
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _answers(port: int) -> bool:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        try:
            connection.request("GET", "/redfish/v1/")
            return connection.getresponse().status == 200
        except OSError:
            return False


@pytest.fixture
def proxy(emulator: int) -> Iterator[Proxy]:
    proxy = Proxy(emulator)
    yield proxy
    proxy.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """The image server of the conductor, and the files of a ramdisk."""
    files = tmp_path / "files"
    files.mkdir()
    for name in ("kernel", "ramdisk", "esp"):
        (files / name).write_bytes(name.encode() * 4096)
    server = ImageServer(tmp_path / "http", "127.0.0.1", 0)
    server.start()
    overrides: list[tuple[str, str | None, Any]] = [
        ("http_root", "deploy", str(tmp_path / "http")),
        ("http_url", "deploy", f"http://127.0.0.1:{server.port}"),
        ("file_url_allowed_paths", "conductor", [str(files)]),
        ("deploy_kernel", "conductor", f"file://{files}/kernel"),
        ("deploy_ramdisk", "conductor", f"file://{files}/ramdisk"),
        ("esp_image", None, str(files / "esp")),
    ]
    for name, group, value in overrides:
        CONF.set_override(name, value, group)
    yield files
    server.stop()


@pytest.fixture
def conductor(database: str, proxy: Proxy) -> Iterator[Conductor]:  # noqa: F811
    """A conductor with the redfish driver, and no threads of its own."""
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("enabled_hardware_types", ["redfish"])
    enabled = {
        "boot": ["redfish-virtual-media"],
        "deploy": ["direct"],
        "inspect": ["redfish"],
        "management": ["redfish"],
        "power": ["redfish"],
        "raid": ["redfish"],
        "network": ["noop"],
        "storage": ["noop"],
    }
    for kind in INTERFACE_TYPES:
        CONF.set_override(f"enabled_{kind}_interfaces", enabled.get(kind, [f"no-{kind}"]))
    conductor = Conductor("host-1", DirectTransport())
    conductor.drivers.load()
    conductor._register()
    conductor.ring.reset()
    yield conductor
    conductor.workers.close()
    assert conductor.workers.wait(30)
    sessions.close_all()
    CONF.reset()
    CONF.clear()


@pytest.fixture
def enrol(conductor: Conductor, proxy: Proxy) -> Callable[..., models.Node]:
    """Store the node of a system of the emulator."""

    def make(number: int, **values: Any) -> models.Node:
        row: dict[str, Any] = {
            "driver": "redfish",
            "uuid": uuid_of(number),
            "provision_state": states.MANAGEABLE,
            "power_state": states.POWER_ON if number % 2 else states.POWER_OFF,
            "driver_info": {
                "redfish_address": proxy.address,
                "redfish_system_id": f"/redfish/v1/Systems/{uuid_of(number)}",
                "redfish_username": USER,
                "redfish_password": PASSWORD,
            },
            **{
                f"{kind}_interface": CONF[f"enabled_{kind}_interfaces"][0]
                for kind in INTERFACE_TYPES
            },
        }
        return nodes.create(row | values)

    return make


@pytest.fixture
def locked(conductor: Conductor) -> Callable[..., contextlib.AbstractContextManager[Task]]:
    def acquire(node: models.Node, **how: Any) -> contextlib.AbstractContextManager[Task]:
        return conductor.tasks.acquire(admin_context(), node.uuid, purpose="test", **how)

    return acquire


def test_a_power_sync_cycle_is_one_connection_and_one_get_a_node(
    conductor: Conductor, proxy: Proxy, enrol: Callable[..., models.Node]
) -> None:
    for number in range(SYSTEMS):
        enrol(number)
    sync = PowerSync()
    sync.run(conductor)
    assert proxy.connections == 1
    proxy.forget()

    sync.run(conductor)

    assert sorted(proxy.requests) == [
        f"GET /redfish/v1/Systems/{uuid_of(number)}" for number in range(SYSTEMS)
    ]
    assert proxy.connections == 0
    assert sync.failures == {}
    assert sessions.session_count() == 1


def test_power_on_and_off(
    proxy: Proxy,
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    node = enrol(0)
    # The emulator needs up to 11 seconds for a change.
    with locked(node) as task:
        task.flows.power(states.POWER_ON)
        assert task.node.power_state == states.POWER_ON
        assert task.driver.power.get_power_state(task) == states.POWER_ON
        task.flows.power(states.POWER_OFF)
    stored = nodes.get(node.uuid)
    assert (stored.power_state, stored.last_error) == (states.POWER_OFF, None)
    resets = [request for request in proxy.requests if request.startswith("POST")]
    assert len([request for request in resets if "Reset" in request]) == 2


def test_boot_device_and_boot_mode(
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    with locked(enrol(2)) as task:
        management = task.driver.management
        for device in ("pxe", "cdrom", "disk"):
            management.set_boot_device(task, device, persistent=True)
            assert management.get_boot_device(task) == {
                "boot_device": device,
                "persistent": True,
            }
        management.set_boot_mode(task, "bios")
        assert management.get_boot_mode(task) == "bios"
        management.set_boot_mode(task, "uefi")
        assert management.get_boot_mode(task) == "uefi"
        assert management.get_secure_boot_state(task) is False
        assert management.get_node_health(task) == "OK"
        assert management.detect_vendor(task) == "Sushy Emulator"
        assert management.get_mac_addresses(task) == ["00:5c:52:31:3a:02"]
        assert management.get_sensors_data(task)["Fan"]


def test_the_emulator_fetches_the_boot_iso(
    site: Path,
    proxy: Proxy,
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    node = enrol(4, provision_state=states.DEPLOYING)
    with locked(node) as task:
        task.driver.boot.validate(task)
        task.driver.boot.prepare_ramdisk(task, {"ipa-api-url": "http://127.0.0.1:6385"})
        (media,) = [m for m in task.driver.management.get_virtual_media(task) if m["inserted"]]
        assert media["image"] == f"{CONF.deploy.http_url}/redfish/boot-{node.uuid}.iso"
        assert task.driver.management.get_boot_device(task)["boot_device"] == "cdrom"
        task.driver.boot.clean_up_ramdisk(task)
        assert not any(m["inserted"] for m in task.driver.management.get_virtual_media(task))
    assert not list((Path(CONF.deploy.http_root) / "redfish").iterdir())
    # The token survives: it is known to the ramdisk alone.
    assert nodes.get(node.uuid).driver_internal_info["agent_secret_token_pregenerated"] is True


def test_an_iso_that_cannot_be_fetched_is_a_clear_error(
    site: Path,
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    with locked(enrol(4)) as task:
        url = f"{CONF.deploy.http_url}/redfish/no-such.iso"
        with pytest.raises(errors.InvalidParameterValue, match=re.escape(url)):
            task.driver.management.attach_virtual_media(task, "cdrom", url)


def test_out_of_band_inspection(
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    # The fake systems of the emulator have neither processors, memory nor disks.
    known = {"cpu_arch": "x86_64", "memory_mb": 4096, "local_gb": 10}
    node = enrol(3, provision_state=states.INSPECTING, properties=dict(known))
    with locked(node) as task:
        assert task.driver.inspect.inspect_hardware(task) == states.MANAGEABLE
    stored = nodes.get(node.uuid)
    assert stored.properties == {**known, "capabilities": "boot_mode:uefi"}
    assert [port.address for port in ports.of_node(node.id)] == ["00:5c:52:31:3a:03"]
    found = inventory.get(node.id).inventory_data
    assert found["system_vendor"]["manufacturer"] == "Sushy Emulator"


def test_raid_controllers_are_read_and_a_refusal_is_told(
    proxy: Proxy,
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    node = enrol(SYSTEMS - 1, provision_state=states.CLEANING)
    with locked(node) as task:
        assert task.driver.raid.delete_configuration(task) is None
        assert task.node.raid_config["logical_disks"] == []
        task.node.target_raid_config = {"logical_disks": [{"raid_level": "5", "size_gb": 10}]}
        with pytest.raises(errors.RedfishError, match="2 x HDD SAS 100 GiB at 1"):
            task.driver.raid.create_configuration(task)
        assert not [request for request in proxy.requests if "POST" in request and "Vol" in request]
        task.node.target_raid_config = {"logical_disks": [{"raid_level": "1", "size_gb": 10}]}
        # With this driver it has no volumes, and says so.
        with pytest.raises(errors.RedfishError, match=r"is refused by the BMC.*Not implemented"):
            task.driver.raid.create_configuration(task)


def test_wrong_credentials_name_the_node_and_not_the_password(
    proxy: Proxy,
    enrol: Callable[..., models.Node],
    locked: Callable[..., contextlib.AbstractContextManager[Task]],
) -> None:
    node = enrol(5)
    node.driver_info["redfish_password"] = "not the password"
    nodes.update(node, {"driver_info": node.driver_info}, fence=None)
    with (
        locked(node, shared=True) as task,
        pytest.raises(errors.RedfishError, match=node.uuid) as raised,
    ):
        task.driver.power.get_power_state(task)
    assert "not the password" not in str(raised.value)
