"""The packaged templates: what they say, and that real tools understand it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.pxe import rendering
from ironic_rs.drivers.pxe.flavour import GRUB, IPXE, PXELINUX
from tests.harness.servers import missing
from tests.unit.drivers import kit

TEMPLATES = {
    PXELINUX: "pxe_config_template",
    GRUB: "uefi_pxe_config_template",
    IPXE: "ipxe_config_template",
}
OPTIONS = {
    "deployment_aki_path": "UUID/deploy_kernel",
    "deployment_ari_path": "UUID/deploy_ramdisk",
    "initrd_filename": "deploy_ramdisk",
    "aki_path": "UUID/kernel",
    "ari_path": "UUID/ramdisk",
    "pxe_append_params": 'nofb vga=normal text="two words" ipa-api-url=http://192.0.2.1:6385',
    "ramdisk_opts": "quiet",
    "ipxe_timeout": 0,
    "linux_cmd": "linuxefi",
    "initrd_cmd": "initrdefi",
}
ENTRIES = [rendering.DEPLOY, rendering.WHOLE_DISK, rendering.RAMDISK, rendering.ANACONDA]


def rendered(syntax: str, entry: str, **more: object) -> str:
    return rendering.config(Path(CONF.pxe[TEMPLATES[syntax]]), syntax, OPTIONS | more, entry)


def grub_script_check(text: str) -> None:
    program = shutil.which("grub-script-check")
    if program is None:
        missing("grub-script-check is not installed (Debian package grub-common)")
    done = subprocess.run([program], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + text


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    "more",
    [{}, {"repo_url": "http://192.0.2.1/repo"}, {"linux_cmd": "linux"}, {"ramdisk_opts": ""}],
)
def test_grub_understands_its_configuration(entry, more):
    text = rendered(GRUB, entry, **more)
    grub_script_check(text)
    assert f"set default={entry}\n" in text
    assert f"--id {entry} {{" in text


@pytest.mark.parametrize("below", ["", "boot/"])
def test_grub_understands_the_first_configuration(below):
    path = Path(CONF.pxe.initial_grub_template)
    text = rendering.render(path, {"config_directory": below})
    grub_script_check(text)
    assert f"configfile /{below}$net_default_mac.conf" in text


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_default_entry_of_each_syntax_is_there(entry):
    assert f"default {entry}\n" in rendered(PXELINUX, entry)
    assert f"\nlabel {entry}\n" in rendered(PXELINUX, entry)
    assert f"\ngoto {entry}\n" in rendered(IPXE, entry)


@pytest.mark.parametrize("syntax", sorted(TEMPLATES))
def test_the_kernel_line_holds_all_parameters(syntax):
    text = rendered(syntax, rendering.DEPLOY)
    (line,) = [line for line in text.splitlines() if "deploy_ramdisk" in line or "inux" in line][:1]
    lines = [line for line in text.splitlines() if "ipa-api-url" in line]
    assert lines
    assert line
    assert all(OPTIONS["pxe_append_params"] in found for found in lines)


#: Commands of iPXE, as its documentation lists them.
IPXE_COMMANDS = {
    *("boot", "chain", "clear", "echo", "exit", "goto", "imgfree", "inc", "initrd", "iseq"),
    *("isset", "kernel", "poweroff", "prompt", "reboot", "sanboot", "sanhook", "set", "sleep"),
}
VOLUME = {"url": "iscsi:192.0.2.9::3260:b:iqn.b", "username": "u", "password": "p"}


@pytest.mark.parametrize("entry", [*ENTRIES, rendering.ISCSI])
def test_ipxe_scripts_jump_to_labels_that_are_there(entry):
    text = rendered(
        IPXE,
        entry,
        ipxe_timeout=3000,
        iscsi_boot_url="iscsi:192.0.2.9::3260:a:iqn.a",
        iscsi_initiator_iqn="iqn.node",
        username="me",
        password="secret",
        iscsi_volumes=[VOLUME, {"url": "iscsi:192.0.2.9::3260:c:iqn.c"}],
    )
    check_ipxe(text)
    assert "kernel --timeout 3000 UUID/deploy_kernel" in text
    # Each drive has a number of its own.
    assert "sanhook --drive 0x81 iscsi:192.0.2.9::3260:b" in text
    assert "sanhook --drive 0x82 iscsi:192.0.2.9::3260:c" in text


@pytest.mark.parametrize("fallback", [None, "discover.ipxe"])
def test_the_first_ipxe_script(fallback):
    values = {"ipxe_for_mac_uri": "pxelinux.cfg/", "ipxe_fallback_script": fallback}
    text = rendering.render(Path(CONF.pxe.ipxe_boot_script), values)
    check_ipxe(text)
    assert "chain --autofree pxelinux.cfg/${net${card}/mac:hexhyp} " in text
    assert ("discover.ipxe" in text) == bool(fallback)


def check_ipxe(text: str) -> None:
    assert text.startswith("#!ipxe\n")
    labels = set(re.findall(r"^:(\w+)$", text, re.MULTILINE))
    for line in text.splitlines():
        if not line or line.startswith(("#", ":")):
            continue
        for command in re.split(r"\s*(?:\|\||&&)\s*", line):
            words = command.split()
            if words:
                assert words[0] in IPXE_COMMANDS, line
                if words[0] == "goto":
                    assert words[1] in labels, line


def test_custom_templates_find_the_marks_of_the_root_and_the_disk(site):
    own = site / "own.template"
    own.write_text(
        "set default=deploy\n{{ ROOT }} {{ DISK_IDENTIFIER }} {{ enumerate(['a'])|list }}"
    )
    text = rendering.config(own, GRUB, {}, rendering.DEPLOY)
    assert text.splitlines()[1] == "(( ROOT )) (( DISK_IDENTIFIER )) [(0, 'a')]"
    own.write_text("default deploy\n{{ ROOT }} {{ DISK_IDENTIFIER }}")
    text = rendering.config(own, PXELINUX, {}, rendering.DEPLOY)
    assert text.splitlines()[1] == "{{ ROOT }} {{ DISK_IDENTIFIER }}"


def test_only_the_first_jump_is_switched(site):
    own = site / "own.template"
    own.write_text("#!ipxe\ngoto deploy\n:deploy\ngoto deploy\n")
    text = rendering.config(own, IPXE, {}, rendering.WHOLE_DISK)
    assert text == "#!ipxe\ngoto boot_whole_disk\n:deploy\ngoto deploy\n"


@pytest.mark.parametrize(("arch", "command"), [("x86_64", "linuxefi"), ("aarch64", "linux")])
def test_the_grub_command_depends_on_the_architecture(make, site, arch, command):
    task = make("pxe", properties={"cpu_arch": arch}, provision_state=states.CLEANING)
    task.driver.boot.prepare_ramdisk(task, {})
    text = (site / "tftp" / kit.UUID / "config").read_text()
    grub_script_check(text)
    assert f"    {command} /{kit.UUID}/deploy_kernel " in text


@pytest.mark.parametrize(
    "value", ["a;halt", "a&&halt", "a|b", "$prefix", "a}", "{", "#", "a'b", "\\\\"]
)
def test_a_kernel_parameter_is_no_command_of_grub(make, site, value):
    task = make("pxe", instance_info={"kernel_append_params": f"key={value} last=1"})
    task.driver.boot.prepare_ramdisk(task, {})
    text = (site / "tftp" / kit.UUID / "config").read_text()
    grub_script_check(text)
    escaped = "".join(f"\\{c}" if not c.isalnum() else c for c in value)
    assert f"key={escaped} last=1" in text


@pytest.mark.parametrize("word", ["||", "&&"])
@pytest.mark.parametrize("key", ["kernel_append_params", "ramdisk_kernel_arguments"])
def test_a_kernel_parameter_is_no_command_of_ipxe(make, config, word, key):
    config("conductor", disable_kernel_parameter_parsing=True)
    task = make("ipxe", instance_info={key: f"a {word} reboot"})
    with pytest.raises(errors.InvalidParameterValue, match="end a command of iPXE"):
        task.driver.boot.prepare_ramdisk(task, {})


def test_an_architecture_may_have_a_template_of_its_own(make, site, config):
    own = site / "arm.template"
    own.write_text("set default=deploy\n# arm\n")
    config("pxe", pxe_config_template_by_arch={"aarch64": str(own)})
    task = make("pxe", properties={"cpu_arch": "aarch64"})
    task.driver.boot.prepare_ramdisk(task, {})
    assert (site / "tftp" / kit.UUID / "config").read_text() == "set default=deploy\n# arm\n"
