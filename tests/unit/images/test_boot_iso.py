"""Boot ISOs, read back by an ISO 9660 reader."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pycdlib
import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.images import boot_iso

KERNEL = b"kernel" * 1000
RAMDISK = b"ramdisk" * 5000
ESP = b"esp" * 3000


@pytest.fixture(autouse=True)
def options():
    CONF([], project="ironic", default_config_files=[])
    yield
    CONF.clear_override("isolinux_bin")
    CONF.clear_override("ldlinux_c32")
    CONF.clear_override("grub_config_path")
    CONF.clear_override("grub_config_template")
    CONF.clear_override("api_ca_file", group="agent")
    CONF.clear_override("disable_kernel_parameter_parsing", group="conductor")


@pytest.fixture
def contents(tmp_path):
    """Return a maker of contents whose files exist."""

    def make(boot_mode: str = "uefi", **changes) -> boot_iso.Contents:
        files = {}
        for name, data in (("kernel", KERNEL), ("ramdisk", RAMDISK), ("esp", ESP)):
            files[name] = tmp_path / name
            files[name].write_bytes(data)
        values = {
            "boot_mode": boot_mode,
            "kernel_parameters": "nofb ipa-api-url=http://192.0.2.1:6385",
            "publisher_id": "the-publisher",
            **files,
            **changes,
        }
        return boot_iso.Contents(**values)

    return make


class Iso:
    """An ISO opened for reading."""

    def __init__(self, path: Path) -> None:
        self.reader = pycdlib.PyCdlib()
        self.reader.open(str(path))
        self.label = self.reader.pvd.volume_identifier.decode().strip()
        self.catalog = self.reader.eltorito_boot_catalog

    def read(self, path: str, facade: str = "rr_path") -> bytes:
        data = io.BytesIO()
        self.reader.get_file_from_iso_fp(data, **{facade: path})
        return data.getvalue()

    def paths(self) -> set[str]:
        return {
            f"{directory.rstrip('/')}/{name}"
            for directory, _directories, names in self.reader.walk(rr_path="/")
            for name in names
        }


@pytest.fixture
def build(tmp_path):
    opened = []

    def make(contents: boot_iso.Contents) -> Iso:
        target = tmp_path / "boot.iso"
        boot_iso.build(contents, target)
        opened.append(Iso(target))
        return opened[-1]

    yield make
    for iso in opened:
        iso.reader.close()


@pytest.mark.parametrize("facade", ["rr_path", "joliet_path"])
def test_uefi(contents, build, facade, tmp_path):
    iso = build(contents())
    assert iso.read("/vmlinuz", facade) == KERNEL
    assert iso.read("/initrd", facade) == RAMDISK
    assert iso.read("/boot/grub/efiboot.img", facade) == ESP
    lines = iso.read("/EFI/BOOT/grub.cfg", facade).decode().splitlines()
    assert "    linux /vmlinuz nofb ipa-api-url=http://192.0.2.1:6385 --" in lines
    assert "    initrd /initrd" in lines
    assert iso.label == "VMEDIA_BOOT_ISO"
    entry = iso.catalog.initial_entry
    assert iso.catalog.validation_entry.platform_id == 0xEF
    # The boot catalogue points to the boot image itself.
    start = entry.get_rba() * 2048
    raw = (tmp_path / "boot.iso").read_bytes()
    assert raw[start : start + len(ESP)] == ESP
    assert entry.sector_count == -(-len(ESP) // 512)


def test_bios(contents, build, tmp_path):
    loader = tmp_path / "isolinux.bin"
    loader.write_bytes(b"\1" * 2048)
    library = tmp_path / "ldlinux.c32"
    library.write_bytes(b"library")
    CONF.set_override("isolinux_bin", str(loader))
    CONF.set_override("ldlinux_c32", str(library))
    iso = build(contents("bios", esp=None))
    config = iso.read("/isolinux/isolinux.cfg").decode()
    assert "kernel /vmlinuz" in config
    assert "append initrd=/initrd nofb ipa-api-url=http://192.0.2.1:6385 --" in config
    assert iso.read("/isolinux/ldlinux.c32") == b"library"
    assert iso.catalog.validation_entry.platform_id == 0
    assert iso.catalog.initial_entry.sector_count == 4
    # The boot information table is patched into the loader.
    assert iso.read("/isolinux/isolinux.bin")[8:12] == (16).to_bytes(4, "little")


def test_the_place_of_the_grub_configuration_is_configurable(contents, build):
    CONF.set_override("grub_config_path", "/boot/grub/grub.cfg")
    iso = build(contents())
    assert b"ipa-api-url" in iso.read("/boot/grub/grub.cfg")
    assert "/EFI/BOOT/grub.cfg" not in iso.paths()


def test_a_template_of_the_operator_is_used(contents, build, tmp_path):
    template = tmp_path / "template"
    template.write_text("L {{ linux }} {{ kernel_params }}\nI {{ initrd }}\n")
    CONF.set_override("grub_config_template", str(template))
    iso = build(contents(kernel_parameters="a=b"))
    assert iso.read("/EFI/BOOT/grub.cfg") == b"L /vmlinuz a=b\nI /initrd\n"


@pytest.mark.parametrize("text", ["{{ nothing }}", "{% broken"])
def test_a_template_that_cannot_be_used_is_told(contents, build, tmp_path, text):
    template = tmp_path / "template"
    template.write_text(text)
    CONF.set_override("grub_config_template", str(template))
    with pytest.raises(errors.ImageCreationFailed, match="template"):
        build(contents())


def test_files_for_the_ramdisk(contents, build, tmp_path):
    ca_file = tmp_path / "ca.crt"
    ca_file.write_text("CERTIFICATE")
    CONF.set_override("api_ca_file", str(ca_file), group="agent")
    files = boot_iso.agent_files({"links": [], "networks": []})
    iso = build(contents(files=files))
    assert iso.read("/etc/ironic-python-agent/ironic.crt") == b"CERTIFICATE"
    config = iso.read("/etc/ironic-python-agent.d/ironic-tls.conf")
    assert config == b"[DEFAULT]\ncafile = /etc/ironic-python-agent/ironic.crt\n"
    found = json.loads(iso.read("/openstack/latest/network_data.json"))
    assert found == {"links": [], "networks": []}
    # By this label the ramdisk finds the network data.
    assert iso.label == "config-2"


def test_without_files_there_is_nothing_but_what_boots(contents, build):
    assert boot_iso.agent_files(None) == {}
    assert build(contents()).paths() == {
        "/vmlinuz",
        "/initrd",
        "/EFI/BOOT/grub.cfg",
        "/boot/grub/efiboot.img",
        "/boot/grub/boot.cat",
    }


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"esp": None}, r"\[DEFAULT\]esp_image"),
        ({"kernel": Path("/does/not/exist")}, "/does/not/exist"),
        ({"esp": Path("/does/not/exist")}, "/does/not/exist"),
    ],
)
def test_a_missing_part_is_told(contents, build, changes, complaint):
    with pytest.raises(errors.ImageCreationFailed, match=complaint):
        build(contents(**changes))


def test_a_missing_bios_loader_is_told(contents, build):
    CONF.set_override("isolinux_bin", "/does/not/exist")
    with pytest.raises(errors.ImageCreationFailed, match="/does/not/exist"):
        build(contents("bios"))


class TestCommandLine:
    def test_general_parameters_come_first(self):
        line, publisher = boot_iso.command_line(
            "nofb vga=normal", {"ipa-api-url": "http://x", "ipa-debug": "1", "alone": None}
        )
        assert line == (
            f"nofb vga=normal ir_pub_id={publisher} ipa-api-url=http://x ipa-debug=1 alone"
        )

    def test_each_iso_has_an_identifier_of_its_own(self):
        assert boot_iso.command_line("", {})[1] != boot_iso.command_line("", {})[1]

    def test_parameters_stay_before_what_is_for_init(self):
        line, publisher = boot_iso.command_line("nofb -- single", {"a": "b"})
        assert line == f"nofb ir_pub_id={publisher} a=b -- single"

    def test_a_value_with_blanks_is_quoted(self):
        assert boot_iso.command_line("", {"a": "b c"})[0].endswith('a="b c"')

    @pytest.mark.parametrize("value", ['a"b', 'a b"', "\nmenuentry x {"])
    def test_nothing_breaks_out_of_the_line(self, value):
        try:
            line = boot_iso.command_line("", {"key": value})[0]
        except errors.InvalidParameterValue:
            return
        assert "\n" not in line

    def test_a_bad_key_is_refused_unless_configured_otherwise(self):
        with pytest.raises(errors.InvalidParameterValue, match="ramdisk"):
            boot_iso.command_line("", {"bad{key": "1"})
        CONF.set_override("disable_kernel_parameter_parsing", True, group="conductor")
        assert "bad{key=1" in boot_iso.command_line("", {"bad{key": "1"})[0]
