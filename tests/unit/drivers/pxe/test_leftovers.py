"""A node that is deleted in the middle of everything leaves no files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ironic_rs.drivers import leftovers
from tests.unit.drivers import kit
from tests.unit.drivers.pxe.conftest import BOOTS, port


def everything(site: Path) -> set[Path]:
    places = (site / name for name in ("http", "tftp", "served", "hosts", "opts"))
    return {path for place in places for path in place.rglob("*") if not path.is_dir()}


@pytest.mark.parametrize("name", sorted(BOOTS))
def test_boot_files_and_links_go(make, site, name):
    other = make(name, uuid="99999999-2222-4333-8444-555555555555")
    other.ports = [port("52:54:00:ab:cd:99")]
    other.driver.boot.prepare_ramdisk(other, {})
    before = everything(site)
    task = make(name)
    task.driver.boot.prepare_ramdisk(task, {})
    assert everything(site) > before
    # One of its ports went before it.
    task.ports = []
    leftovers.remove(task)
    assert everything(site) == before
    leftovers.remove(task)


def test_its_image_and_its_dhcp_options_go(make, site, config, tmp_path):
    for place in ("hosts", "opts"):
        (site / place).mkdir()
    config("dhcp", dhcp_provider="dnsmasq")
    config("dnsmasq", dhcp_optsdir=str(site / "opts"), dhcp_hostsdir=str(site / "hosts"))
    config("pxe", images_path=str(tmp_path / "node-images"))
    task = make("ipxe")
    task.driver.boot.prepare_ramdisk(task, {})
    disk = tmp_path / "node-images" / kit.UUID / "disk"
    disk.parent.mkdir(parents=True)
    disk.write_bytes(b"image")
    served = site / "http" / "agent_images" / kit.UUID
    served.parent.mkdir()
    served.symlink_to(disk)
    leftovers.remove(task)
    assert not disk.parent.exists()
    assert not served.is_symlink()
    (host,) = (site / "hosts").iterdir()
    assert host.read_text().endswith(",ignore\n")
    assert list((site / "opts").iterdir()) == []


def test_a_provider_that_is_not_there_is_in_nobodys_way(make, config, caplog):
    config("dhcp", dhcp_provider="no-such-provider")
    leftovers.remove(make("ipxe"))
    assert "DHCP options were not taken back" in caplog.text
