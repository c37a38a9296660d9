"""Power sync over IPMI: dead BMCs cost a bounded time, and nobody else's."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_rs.conductor.periodics.power_sync import PowerSync
from ironic_rs.conductor.service import Conductor
from ironic_rs.conf import CONF
from ironic_rs.db import nodes, ports
from ironic_rs.domain import states
from ironic_rs.drivers.base import INTERFACE_TYPES
from ironic_rs.drivers.ipmi import bmc as operations
from ironic_rs.drivers.ipmi import turns
from ironic_rs.rpc.context import admin_context
from ironic_rs.rpc.direct import DirectTransport
from tests.harness.database import database, empty_schema  # noqa: F401
from tests.harness.ipmi import PASSWORD, USER, Network, PyBmc, perfect

DEAD, ALIVE = 10, 20


class Hole:
    """A port that takes packets and never answers."""

    def __init__(self) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("0.0.0.0", 0))
        self._sock.settimeout(0.1)
        self.port = int(self._sock.getsockname()[1])
        self.packets = 0
        self._closed = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed:
            try:
                self._sock.recv(4096)
            except TimeoutError:
                continue
            self.packets += 1

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        self._sock.close()


@pytest.fixture
def hole() -> Iterator[Hole]:
    hole = Hole()
    yield hole
    hole.close()


@pytest.fixture
def bmc() -> Iterator[PyBmc]:
    bmc = PyBmc()
    yield bmc
    bmc.close()


@pytest.fixture
def networks(bmc: PyBmc) -> Iterator[list[Network]]:
    """Ways to the BMC, which look like as many BMCs."""
    made = [Network(bmc.port, perfect) for _number in range(ALIVE)]
    yield made
    for one in made:
        one.close()


@pytest.fixture
def conductor(database: str) -> Iterator[Conductor]:  # noqa: F811
    """A conductor with the ipmi driver, and no threads of its own."""
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override("enabled_hardware_types", ["ipmi"])
    enabled = {
        "boot": ["pxe"],
        "deploy": ["direct"],
        "management": ["ipmitool"],
        "power": ["ipmitool"],
        "network": ["noop"],
        "storage": ["noop"],
        "vendor": ["ipmitool"],
    }
    for kind in INTERFACE_TYPES:
        CONF.set_override(f"enabled_{kind}_interfaces", enabled.get(kind, [f"no-{kind}"]))
    conductor = Conductor("host-1", DirectTransport())
    conductor.drivers.load()
    conductor._register()
    conductor.ring.reset()
    turns._bmcs.clear()
    yield conductor
    conductor.workers.close()
    assert conductor.workers.wait(30)
    CONF.reset()
    CONF.clear()


def enrol(address: str, port: int) -> str:
    row: dict[str, Any] = {
        "driver": "ipmi",
        "uuid": str(uuid.uuid4()),
        "provision_state": states.MANAGEABLE,
        "power_state": None,
        "driver_info": {
            "ipmi_address": address,
            "ipmi_port": port,
            "ipmi_username": USER,
            "ipmi_password": PASSWORD,
        },
        **{f"{kind}_interface": CONF[f"enabled_{kind}_interfaces"][0] for kind in INTERFACE_TYPES},
    }
    return str(nodes.create(row).uuid)


def test_dead_bmcs_do_not_stretch_a_cycle(conductor, bmc, networks, hole, monkeypatch):
    monkeypatch.setattr(operations, "READ_PATIENCE", 2.0)
    monkeypatch.setattr(operations, "SILENT_PATIENCE", 1.0)
    CONF.set_override("min_command_interval", 0, "ipmi")
    # The dead ones come first.
    dead = [enrol(f"127.0.1.{n}", hole.port) for n in range(1, DEAD + 1)]
    alive = [enrol("127.0.0.1", network.port) for network in networks]
    bmc.set(power=True)
    CONF.set_override("force_power_state_during_sync", False, "conductor")

    sync = PowerSync()
    sync.run(conductor)

    # What lives was looked at, and what it told is stored.
    assert {nodes.get(one).power_state for one in alive} == {states.POWER_ON}
    assert {nodes.get(one).properties.get("vendor") for one in alive} == {"dell"}
    assert set(sync.failures) == set(dead)
    # Each dead one was sent a few packets, for as long as READ_PATIENCE.
    assert DEAD <= hole.packets <= DEAD * 4

    hole.packets = 0
    bmc.events.clear()
    sync.run(conductor)

    # They are known to be silent: given up even earlier, beside the others.
    assert DEAD <= hole.packets <= DEAD * 2
    assert len(bmc.asked("0.1")) == ALIVE
    assert bmc.asked("6.1") == []
    assert set(sync.failures.values()) == {2}


def test_a_bmc_that_comes_back_counts_as_alive_again(conductor, networks, monkeypatch):
    monkeypatch.setattr(operations, "READ_PATIENCE", 1.0)
    monkeypatch.setattr(operations, "SILENT_PATIENCE", 1.0)
    CONF.set_override("min_command_interval", 0, "ipmi")
    network = networks[0]
    network.fate = lambda *_packet: []
    node = enrol("127.0.0.1", network.port)
    sync = PowerSync()
    sync.run(conductor)
    assert sync.failures == {node: 1}
    network.fate = perfect
    sync.run(conductor)
    assert sync.failures == {}


def test_a_machine_boots_a_ramdisk_by_a_real_conductor(conductor, bmc, tmp_path):
    for name in ("http", "tftp", "images"):
        (tmp_path / name).mkdir()
    for name in ("kernel", "ramdisk"):
        (tmp_path / "images" / name).write_text(name)
    for group, options in {
        "deploy": {"http_root": str(tmp_path / "http"), "http_url": "http://192.0.2.1:8080"},
        "pxe": {"tftp_root": str(tmp_path / "tftp"), "tftp_master_path": str(tmp_path / "masters")},
        "ipmi": {"min_command_interval": 0},
        "dhcp": {"dhcp_provider": "none"},
        "conductor": {
            "file_url_allowed_paths": [str(tmp_path / "images")],
            "deploy_kernel": f"file://{tmp_path}/images/kernel",
            "deploy_ramdisk": f"file://{tmp_path}/images/ramdisk",
        },
    }.items():
        for name, value in options.items():
            CONF.set_override(name, value, group)
    node = nodes.get(enrol("127.0.0.1", bmc.port))
    ports.create({"node_id": node.id, "address": "52:54:00:00:00:07", "pxe_enabled": True})
    context = admin_context("req-7")
    with conductor.tasks.acquire(context, node.uuid, purpose="test") as task:
        task.node.provision_state = states.CLEANING
        task.driver.boot.validate(task)
        task.driver.boot.prepare_ramdisk(task, {"ipa-api-url": "http://192.0.2.1:6385"})
        task.flows.power(states.POWER_ON)
        task.save()

    # UEFI, once, and then on.
    assert bmc.asked("0.8") == ["0308", "05a004000000"]
    assert bmc.asked("0.2") == ["01"]
    config = (tmp_path / "tftp" / "52:54:00:00:00:07.conf").read_text()
    assert "ipa-global-request-id=req-7" in config
    assert f"/{node.uuid}/deploy_kernel" in config
    assert nodes.get(node.uuid).power_state == states.POWER_ON

    with conductor.tasks.acquire(context, node.uuid, purpose="test") as task:
        task.driver.boot.clean_up_ramdisk(task)
    assert [path.name for path in (tmp_path / "tftp").iterdir() if path.is_symlink()] == []
    assert not (tmp_path / "tftp" / node.uuid).exists()
