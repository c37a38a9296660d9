"""Identities, addresses, faults and the directory of a sandbox."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ironic_rs.sandbox import directory
from ironic_rs.sandbox.faults import Faults, apply_options, parse_option
from ironic_rs.sandbox.settings import Settings, SettingsError


def test_every_machine_has_its_own_identity_and_address():
    settings = Settings(directory=Path("/nowhere"), machines=10_000, nics=2)
    specs = [settings.spec(index) for index in range(settings.machines)]
    macs = {mac for spec in specs for mac in spec.macs}
    assert len({spec.uuid for spec in specs}) == len({spec.name for spec in specs}) == 10_000
    assert len(macs) == 20_000
    assert len({(spec.address, spec.bmc_port) for spec in specs}) == 10_000
    assert specs[0].address == "127.77.0.1"


def test_bmcs_on_ipv6_share_an_address_and_differ_by_port():
    settings = Settings(directory=Path("/tmp/x"), machines=3, bmc_ipv6=True)
    specs = [settings.spec(index) for index in range(3)]
    assert {spec.bmc_address for spec in specs} == {"::1"}
    assert [spec.bmc_port for spec in specs] == [8000, 8001, 8002]
    assert len({spec.address for spec in specs}) == 3


def test_identities_do_not_change_between_runs():
    first = Settings(directory=Path("/a"), machines=1).spec(0)
    assert first == Settings(directory=Path("/b"), machines=9).spec(0)


def test_a_small_network_is_used_by_ports():
    settings = Settings(directory=Path("/nowhere"), machines=3, network="127.0.0.1/32")
    specs = [settings.spec(index) for index in range(3)]
    assert [(spec.address, spec.bmc_port, spec.agent_port) for spec in specs] == [
        ("127.0.0.1", 8000, 9999),
        ("127.0.0.1", 8001, 10000),
        ("127.0.0.1", 8002, 10001),
    ]


@pytest.mark.parametrize("network", ["10.0.0.0/24", "nonsense", "127.0.0.1/16", "::1/128"])
def test_machines_live_on_loopback_addresses_only(network):
    with pytest.raises(SettingsError):
        Settings(directory=Path("/nowhere"), network=network)


def test_a_sandbox_needs_a_machine():
    with pytest.raises(SettingsError):
        Settings(directory=Path("/nowhere"), machines=0)


@pytest.mark.parametrize("path", ["/", "/dev", "/dev/shm/x", "/proc/self", "/sys/x", "/etc/x"])
def test_a_sandbox_does_not_live_among_devices_and_settings(path):
    with pytest.raises(SettingsError):
        directory.prepare(Path(path))


def test_a_directory_of_someone_else_is_refused(tmp_path):
    (tmp_path / "precious").touch()
    with pytest.raises(SettingsError, match="neither empty nor made by a sandbox"):
        directory.prepare(tmp_path)


def test_an_own_directory_is_used_again(tmp_path):
    place = directory.prepare(tmp_path / "new")
    (place / "file").touch()
    assert directory.prepare(place) == place


def test_a_link_to_a_device_is_not_opened(tmp_path):
    link = tmp_path / "disk.img"
    link.symlink_to("/dev/null")
    with pytest.raises(SettingsError):
        directory.open_regular(link, tmp_path, os.O_RDWR)


def test_a_pipe_in_place_of_a_disk_is_not_used(tmp_path):
    os.mkfifo(tmp_path / "disk.img")
    with pytest.raises(SettingsError, match="not an ordinary file"):
        directory.open_regular(tmp_path / "disk.img", tmp_path, os.O_RDWR)


def test_a_path_cannot_leave_the_sandbox(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "outside").touch()
    with pytest.raises(SettingsError, match="outside"):
        directory.open_regular(root / ".." / "outside", root, os.O_RDWR)
    (root / "machine").symlink_to(tmp_path)
    with pytest.raises(SettingsError, match="outside"):
        directory.open_regular(root / "machine" / "outside", root, os.O_RDWR)


def test_faults_are_parsed_from_an_option():
    option = parse_option("bmc-delay=1.5,agent-silent@machine-0002,3")
    specs = [Settings(directory=Path("/nowhere")).spec(index) for index in range(3)]
    hit = []
    for spec in specs:
        faults = Faults()
        apply_options(faults, spec, [option])
        hit.append((faults.bmc_delay, faults.agent_silent))
    assert hit == [(0.0, False), (1.5, True), (1.5, True)]


@pytest.mark.parametrize(
    "text",
    [
        "bmc-etags=weak",
        "bmc-page=-1",
        "bmc-systems=many",
        "nonsense=1",
        "bmc-delay=-1",
        "bmc-delay=x",
        "bmc-status=1.5",
        "bmc-only=(",
        "power-stuck=2",
    ],
)
def test_a_bad_fault_is_refused(text):
    with pytest.raises(SettingsError):
        parse_option(text)


def test_faults_are_set_together_or_not_at_all():
    faults = Faults()
    with pytest.raises(SettingsError):
        faults.update({"bmc_delay": 3, "power_stuck": "maybe"})
    assert faults == Faults()


def test_null_ends_a_fault():
    faults = Faults(bmc_delay=3.0, bmc_times=5)
    faults.update({"bmc-delay": None, "bmc-times": None})
    assert faults == Faults()


def test_a_counted_fault_ends_by_itself():
    faults = Faults(bmc_status=503, bmc_times=2)
    assert [faults.take_bmc_hit("GET", "/") for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("pattern", ["*", "erase_devices", "deploy.erase_devices"])
def test_a_failing_step_is_named_in_three_ways(pattern):
    faults = Faults(agent_fail_step=pattern)
    assert faults.fails("deploy", "erase_devices")
    assert faults.fails("raid", "create_configuration") == (pattern == "*")
