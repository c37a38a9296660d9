"""DHCP options and providers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from oslo_config import cfg

from ironic_rs.conf import CONF, dhcp, neutron
from ironic_rs.domain import errors
from ironic_rs.drivers.dhcp import base
from ironic_rs.drivers.dhcp.dnsmasq import DnsmasqDHCP
from ironic_rs.drivers.pxe import dhcp_options
from tests.harness.servers import missing
from tests.unit.drivers import kit
from tests.unit.drivers.pxe.conftest import BOOTS, MAC, port

BIOS = {"capabilities": "boot_mode:bios"}


def options(task: kit.Task, *, tags: bool = False) -> dict[tuple[int, str], str]:
    found = dhcp_options.of_node(task.node, task.driver.boot.flavour, tags=tags)
    assert len({(option.ip_version, option.name) for option in found}) == len(found)
    return {(option.ip_version, option.name): option.value for option in found}


def test_pxe(make, config):
    config(None, my_ipv6="2001:db8::1")
    assert options(make("pxe")) == {
        (4, "67"): "bootx64.efi",
        (4, "66"): "192.0.2.1",
        (4, "150"): "192.0.2.1",
        (4, "255"): "192.0.2.1",
        (6, "59"): "tftp://[2001:db8::1]/bootx64.efi",
    }
    assert options(make("pxe", properties=BIOS))[4, "67"] == "pxelinux.0"


def test_without_an_ipv6_address_the_tftp_server_is_told(make):
    assert options(make("pxe"))[6, "59"] == "tftp://192.0.2.1/bootx64.efi"


def test_ipxe_with_tags(make):
    script = "http://192.0.2.1:8080/boot.ipxe"
    assert options(make("ipxe"), tags=True) == {
        (4, "tag:!ipxe,67"): "snponly.efi",
        (4, "tag:ipxe,67"): script,
        (4, "66"): "192.0.2.1",
        (4, "150"): "192.0.2.1",
        (4, "255"): "192.0.2.1",
        (6, "tag:!ipxe6,59"): "tftp://192.0.2.1/snponly.efi",
        (6, "tag:ipxe6,59"): script,
    }


def test_ipxe_without_tags(make):
    found = options(make("ipxe", properties=BIOS))
    assert found[4, "!175,67"] == "undionly.kpxe"
    assert found[4, "67"] == "http://192.0.2.1:8080/boot.ipxe"


def test_http(make):
    assert options(make("http")) == {
        (4, "67"): "http://192.0.2.1:8080/bootx64.efi",
        (4, "60"): "HTTPClient",
        (6, "59"): "http://192.0.2.1:8080/bootx64.efi",
    }


def test_http_ipxe(make):
    assert options(make("http-ipxe"), tags=True) == {
        (4, "tag:!ipxe,67"): "http://192.0.2.1:8080/snponly.efi",
        (4, "tag:ipxe,67"): "http://192.0.2.1:8080/boot.ipxe",
        (4, "60"): "HTTPClient",
        (6, "tag:!ipxe6,59"): "http://192.0.2.1:8080/snponly.efi",
        (6, "tag:ipxe6,59"): "http://192.0.2.1:8080/boot.ipxe",
    }


@pytest.mark.parametrize(
    ("boot", "arch", "mode", "expected"),
    [
        ("pxe", "aarch64", "uefi", "grubaa64.efi"),
        ("pxe", "aarch64", "bios", "pxelinux-arm"),
        ("pxe", "ppc64le", "bios", "pxelinux.0"),
        ("pxe", "x86_64", "uefi", "bootx64.efi"),
        ("ipxe", "aarch64", "uefi", "snponly-arm64.efi"),
        ("ipxe", "x86_64", "bios", "undionly.kpxe"),
    ],
)
def test_boot_files_by_architecture(make, config, boot, arch, mode, expected):
    config(
        "pxe",
        pxe_bootfile_name_by_arch={"aarch64-uefi": "grubaa64.efi", "aarch64": "pxelinux-arm"},
        ipxe_bootfile_name_by_arch={"aarch64": "snponly-arm64.efi"},
    )
    task = make(boot, properties={"cpu_arch": arch, "capabilities": f"boot_mode:{mode}"})
    assert task.driver.boot.flavour.boot_file(task.node) == expected


def test_ipxe_falls_back_to_the_file_of_pxe(make, config):
    config("pxe", uefi_ipxe_bootfile_name="")
    task = make("ipxe")
    assert task.driver.boot.flavour.boot_file(task.node) == "bootx64.efi"


@pytest.mark.parametrize("name", sorted(BOOTS))
def test_a_name_that_is_too_long_is_told(make, config, name):
    config("pxe", uefi_pxe_bootfile_name="x" * 65, uefi_ipxe_bootfile_name="x" * 65)
    task = make(name)
    with pytest.raises(errors.InvalidParameterValue, match="longer than 64"):
        task.driver.boot.validate(task)


# Providers


@pytest.mark.parametrize(("auth_type", "expected"), [(None, "none"), ("none", "neutron")])
def test_the_built_in_default_is_the_networking_service_where_there_is_one(
    monkeypatch, auth_type, expected
):
    # Groups of its own: an override, even a cleared one, is no default any more.
    conf = cfg.ConfigOpts()
    conf.register_opts(dhcp.OPTS, group="dhcp")
    conf.register_opts(neutron.OPTS, group="neutron")
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("auth_type", auth_type, group="neutron")
    monkeypatch.setattr(base, "CONF", conf)
    assert base.provider_name() == expected


def test_a_provider_that_the_operator_names_must_be_there(config):
    config("dhcp", dhcp_provider="carrier-pigeon")
    with pytest.raises(errors.DHCPLoadError, match="carrier-pigeon"):
        base.provider()


def test_the_provider_none_does_nothing(make):
    provider = base.NoDHCP()
    task = make("ipxe")
    provider.update_dhcp_opts(task, [])
    provider.update_port_dhcp_opts("port", [])
    provider.clean_dhcp_opts(task)
    assert provider.get_ip_addresses(task) == []
    assert provider.supports_ipxe_tag() is False


@pytest.fixture
def dnsmasq(config: Callable[..., None], tmp_path: Path) -> Path:
    """The directory of a dnsmasq."""
    for name in ("opts", "hosts"):
        (tmp_path / name).mkdir()
    config("dhcp", dhcp_provider="dnsmasq")
    config(
        "dnsmasq",
        dhcp_optsdir=str(tmp_path / "opts"),
        dhcp_hostsdir=str(tmp_path / "hosts"),
        dhcp_leasefile=str(tmp_path / "leases"),
    )
    return tmp_path


def test_dnsmasq_is_told_of_a_node_and_told_to_forget_it(make, dnsmasq):
    task = make("ipxe")
    task.ports = [port(MAC.upper()), port("52:54:00:ab:cd:02", pxe_enabled=False)]
    task.driver.boot.prepare_ramdisk(task, {})
    uuid = kit.UUID
    assert (dnsmasq / "opts" / f"ironic-{uuid}.conf").read_text().splitlines() == [
        f"tag:{uuid},tag:!ipxe,67,snponly.efi",
        f"tag:{uuid},tag:ipxe,67,http://192.0.2.1:8080/boot.ipxe",
        f"tag:{uuid},66,192.0.2.1",
        f"tag:{uuid},150,192.0.2.1",
        f"tag:{uuid},255,192.0.2.1",
        f"tag:{uuid},tag:!ipxe6,option6:59,tftp://192.0.2.1/snponly.efi",
        f"tag:{uuid},tag:ipxe6,option6:59,http://192.0.2.1:8080/boot.ipxe",
    ]
    host = dnsmasq / "hosts" / f"ironic-{MAC}.conf"
    assert host.read_text() == f"{MAC},set:{uuid},set:ironic\n"
    assert [path.name for path in (dnsmasq / "hosts").iterdir()] == [host.name]
    assert task.node.driver_internal_info["dnsmasq_tag"] == uuid

    base.provider().clean_dhcp_opts(task)
    assert host.read_text() == f"{MAC},ignore\n"
    assert list((dnsmasq / "opts").iterdir()) == []
    assert len(list((dnsmasq / "hosts").iterdir())) == 1


def test_dnsmasq_forgets_ports_that_are_gone(make, dnsmasq):
    other = "52:54:00:ab:cd:02"
    task = make("ipxe")
    task.ports = [port(), port(other)]
    task.driver.boot.prepare_ramdisk(task, {})
    hosts = {mac: dnsmasq / "hosts" / f"ironic-{mac}.conf" for mac in (MAC, other)}
    task.ports = [port()]
    task.driver.boot.prepare_ramdisk(task, {})
    assert hosts[other].read_text() == f"{other},ignore\n"
    assert "set:" in hosts[MAC].read_text()
    task.ports = []
    base.provider().clean_dhcp_opts(task)
    assert hosts[MAC].read_text() == f"{MAC},ignore\n"


def test_a_card_that_moved_to_another_machine_stays_there(make, dnsmasq):
    task = make("ipxe")
    task.driver.boot.prepare_ramdisk(task, {})
    host = dnsmasq / "hosts" / f"ironic-{MAC}.conf"
    host.write_text(f"{MAC},set:another-node,set:ironic\n")
    base.provider().clean_dhcp_opts(task)
    assert "another-node" in host.read_text()


def test_addresses_come_from_the_leases(make, dnsmasq):
    (dnsmasq / "leases").write_text(
        f"1700000000 {MAC} 192.0.2.77 * 01:{MAC}\n"
        "1700000000 52:54:00:00:00:99 192.0.2.99 other *\n"
        f"1700000000 {MAC} nonsense * *\n"
        "\nduid 00:01\n"
    )
    task = make("pxe")
    assert DnsmasqDHCP().get_ip_addresses(task) == ["192.0.2.77"]
    task.driver.boot.prepare_ramdisk(task, {})
    link = Path(CONF.pxe.tftp_root) / "192.0.2.77.conf"
    assert link.is_symlink()
    task.driver.boot.clean_up_ramdisk(task)
    assert not link.is_symlink()


def test_leases_that_are_not_there_are_none(make, dnsmasq, caplog):
    assert DnsmasqDHCP().get_ip_addresses(make("pxe")) == []
    assert "leases of dnsmasq cannot be read" in caplog.text


def test_directories_of_dnsmasq_that_are_not_there_are_told(make, dnsmasq, config, caplog):
    config("dnsmasq", dhcp_hostsdir="/no/such/dir")
    task = make("ipxe")
    with pytest.raises(errors.FailedToUpdateDHCPOptOnPort, match="/no/such/dir"):
        task.driver.boot.prepare_ramdisk(task, {})
    # Nothing is in the way of a tear-down.
    DnsmasqDHCP().clean_dhcp_opts(task)


@pytest.mark.parametrize("name", sorted(BOOTS))
def test_dnsmasq_itself_reads_the_files(make, dnsmasq, name):
    program = shutil.which("dnsmasq", path="/usr/sbin:/usr/bin:/sbin")
    if program is None:
        missing("dnsmasq is not installed (Debian package dnsmasq-base)")
    task = make(name)
    task.driver.boot.prepare_ramdisk(task, {})
    for cleaned in (False, True):
        if cleaned:
            base.provider().clean_dhcp_opts(task)
        settings = dnsmasq / "dnsmasq.conf"
        hosts = list((dnsmasq / "hosts").iterdir())
        opts = list((dnsmasq / "opts").iterdir())
        # In one file, so that "--test" reads them: it does not read directories.
        lines = ["port=0", "dhcp-range=192.0.2.10,192.0.2.20", "dhcp-range=2001:db8::1,2001:db8::9"]
        lines += [f"dhcp-host={line}" for p in hosts for line in p.read_text().splitlines()]
        lines += [f"dhcp-option={line}" for p in opts for line in p.read_text().splitlines()]
        settings.write_text("\n".join(lines) + "\n")
        done = subprocess.run(
            [program, "--test", f"--conf-file={settings}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "syntax check OK" in done.stderr, done.stderr
