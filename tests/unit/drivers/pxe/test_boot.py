"""Boot interfaces of network boot: files, links, boot devices, validation."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.pxe import files, volumes
from ironic_rs.drivers.pxe.boot import PROPERTIES
from tests.unit.drivers import kit
from tests.unit.drivers.pxe.conftest import BOOTS, MAC, port
from tests.unit.image_server import ImageServer

DASHED = MAC.replace(":", "-")
PARAMS = {"ipa-api-url": "http://192.0.2.1:6385"}
ROOTS = {"pxe": "tftp", "ipxe": "http", "http": "http", "http-ipxe": "http"}
LINKS = {
    "pxe": [f"pxelinux.cfg/01-{DASHED}", f"grub.cfg-01-{DASHED}", f"{MAC}.conf"],
    "http": [f"pxelinux.cfg/01-{DASHED}", f"grub.cfg-01-{DASHED}", f"{MAC}.conf"],
    "ipxe": [f"pxelinux.cfg/{DASHED}"],
    "http-ipxe": [f"pxelinux.cfg/{DASHED}"],
}
BIOS = {"cpu_arch": "x86_64", "capabilities": "boot_mode:bios"}
each = pytest.mark.parametrize("name", sorted(BOOTS))


def links_below(root: Path) -> set[str]:
    return {
        os.path.relpath(path, root)
        for path in root.rglob("*")
        if path.is_symlink() and path.resolve().is_relative_to(root)
    }


def config_of(task: kit.Task, site: Path) -> str:
    root = site / ROOTS[task.node.boot_interface]
    return (root / kit.UUID / "config").read_text()


def devices(task: kit.Task) -> list[Any]:
    return [call[1:] for call in task.flows.calls if call[0] == "set_boot_device"]


# The ramdisk


@each
def test_a_ramdisk_is_prepared_and_removed(make, site, name):
    task = make(name)
    root = site / ROOTS[name]
    task.driver.boot.prepare_ramdisk(task, PARAMS)

    directory = root / kit.UUID
    assert (directory / "deploy_kernel").read_bytes() == b"kernel"
    assert (directory / "deploy_ramdisk").read_bytes() == b"ramdisk"
    assert "ipa-api-url=http://192.0.2.1:6385" in config_of(task, site)
    assert links_below(root) == set(LINKS[name])
    for link in LINKS[name]:
        # Relative: the servers may see the directory elsewhere.
        assert not os.readlink(root / link).startswith("/")
        assert (root / link).read_text() == config_of(task, site)
    device = "uefihttp" if name.startswith("http") else "pxe"
    assert devices(task) == [(device, False)]

    task.driver.boot.clean_up_ramdisk(task)
    assert not directory.exists()
    assert links_below(root) == set()
    # Nothing hidden is left either.
    assert [p for p in root.rglob(".*")] == []


@each
def test_what_all_machines_share_is_put_in_place(make, site, config, name):
    (site / "shim.efi").write_bytes(b"loader")
    config("pxe", loader_file_paths={"bootx64.efi": str(site / "shim.efi")})
    make(name)
    expected = {"http/bootx64.efi"}
    if name in ("pxe", "ipxe"):
        expected.add("tftp/bootx64.efi")
    if name == "pxe":
        expected |= {"tftp/grub/grub.cfg", "http/grub/grub.cfg"}
    elif name == "http":
        expected.add("http/grub/grub.cfg")
    else:
        expected.add("http/boot.ipxe")
    found = {
        os.path.relpath(path, site)
        for root in ("tftp", "http")
        for path in (site / root).rglob("*")
        if path.is_file()
    }
    assert found == expected


def test_what_all_machines_share_is_put_back_before_a_boot(make, site):
    task = make("ipxe")
    (site / "http" / "boot.ipxe").write_text("old")
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert (site / "http" / "boot.ipxe").read_text().startswith("#!ipxe\n")


@each
def test_a_conductor_starts_without_the_directories_of_its_servers(
    make, site, config, name, caplog
):
    config("deploy", http_root=str(site / "no-http"))
    config("pxe", tftp_root=str(site / "no-tftp"))
    task = make(name)
    assert "does not exist yet" in caplog.text
    assert not (site / "no-http").exists()
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert (site / f"no-{ROOTS[name]}" / kit.UUID / "config").exists()


@pytest.mark.parametrize("name", ["pxe", "ipxe"])
def test_a_directory_that_is_a_file_is_told_of_before_the_machine_boots(make, site, config, name):
    place = site / "in-the-way"
    place.write_text("")
    config("deploy", http_root=str(place))
    config("pxe", tftp_root=str(place))
    task = make(name)
    with pytest.raises(errors.IncorrectConfiguration, match="in-the-way"):
        task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert devices(task) == []


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ({"efi/boot.efi": "/bin/sh"}, "bare name"),
        ({"..": "/bin/sh"}, "bare name"),
        ({"boot.efi": "/no/such/file"}, "/no/such/file .*is not a file"),
    ],
)
def test_loaders_that_cannot_be_are_a_wrong_configuration(make, config, paths, text):
    config("pxe", loader_file_paths=paths)
    with pytest.raises(errors.IncorrectConfiguration, match=text):
        make("pxe")


def test_the_rescue_ramdisk_is_booted_in_rescue_states(make, site):
    task = make("pxe", provision_state=states.RESCUING)
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    directory = site / "tftp" / kit.UUID
    assert (directory / "rescue_kernel").read_bytes() == b"rescue-kernel"
    assert not (directory / "deploy_kernel").exists()
    assert f"/{kit.UUID}/rescue_kernel" in config_of(task, site)


def test_nothing_is_prepared_where_no_ramdisk_runs(make, site):
    task = make("ipxe", provision_state=states.ACTIVE)
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert not (site / "http" / kit.UUID).exists()
    assert task.flows.calls == []


def test_preparing_twice_is_preparing_once(make, site):
    task = make("pxe")
    for _time in range(2):
        task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert links_below(site / "tftp") == set(LINKS["pxe"])


def test_files_are_readable_and_images_shared_with_the_cache(make, site, config):
    old = os.umask(0o077)
    try:
        task = make("ipxe")
        task.driver.boot.prepare_ramdisk(task, PARAMS)
    finally:
        os.umask(old)
    directory = site / "http" / kit.UUID
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755
    assert stat.S_IMODE((site / "http" / "pxelinux.cfg").stat().st_mode) == 0o755
    for name in ("config", "deploy_kernel", "deploy_ramdisk"):
        assert stat.S_IMODE((directory / name).stat().st_mode) & 0o444 == 0o444


def test_modes_can_be_chosen(make, site, config):
    config("pxe", file_permission=0o640, dir_permission=0o750)
    task = make("ipxe")
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    directory = site / "http" / kit.UUID
    assert stat.S_IMODE(directory.stat().st_mode) == 0o750
    assert stat.S_IMODE((directory / "config").stat().st_mode) == 0o640


def test_a_kernel_that_cannot_be_had_stops_before_the_machine_is_touched(make, config, images):
    (images / "ramdisk").unlink()
    task = make("ipxe")
    with pytest.raises(errors.ImageRefValidationFailed, match="ramdisk"):
        task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert devices(task) == []


def test_ramdisk_and_instance_need_the_exclusive_lock(make):
    task = make("ipxe")
    task.shared = True
    with pytest.raises(errors.ExclusiveLockRequired):
        task.driver.boot.prepare_ramdisk(task, PARAMS)
    with pytest.raises(errors.ExclusiveLockRequired):
        task.driver.boot.prepare_instance(task)
    # To remove files needs none.
    task.driver.boot.clean_up_ramdisk(task)
    task.driver.boot.clean_up_instance(task)


# Ports (field case 102)


@each
def test_only_enabled_ports_get_links(make, site, name):
    task = make(name)
    task.ports = [
        port(),
        port("52:54:00:AB:CD:02"),
        port("52:54:00:ab:cd:03", pxe_enabled=False),
    ]
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    second = {link.replace("01", "02").replace("02-52", "01-52") for link in LINKS[name]}
    expected = {link.replace(MAC[-2:], number) for number in ("01", "02") for link in LINKS[name]}
    found = links_below(site / ROOTS[name])
    assert len(found) == 2 * len(LINKS[name])
    assert not any("cd-03" in link or "cd:03" in link for link in found), (second, expected)


@each
def test_all_ports_get_links_when_all_are_in_the_network(make, site, config, name):
    config("neutron", add_all_ports=True)
    task = make(name)
    task.ports = [port(), port("52:54:00:ab:cd:02", pxe_enabled=False)]
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert len(links_below(site / ROOTS[name])) == 2 * len(LINKS[name])
    task.driver.boot.clean_up_ramdisk(task)
    assert links_below(site / ROOTS[name]) == set()
    task.ports = [port(pxe_enabled=False)]
    with pytest.raises(errors.MissingParameterValue, match="pxe_enabled"):
        task.driver.boot.validate(task)


@each
def test_links_of_ports_that_do_not_boot_any_more_go(make, site, name):
    task = make(name)
    task.ports = [port(), port("52:54:00:ab:cd:02"), port("52:54:00:ab:cd:03")]
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    # One was deleted, one disabled.
    task.ports = [port(), port("52:54:00:ab:cd:02", pxe_enabled=False)]
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert links_below(site / ROOTS[name]) == set(LINKS[name])


@each
def test_links_of_deleted_ports_go_at_clean_up(make, site, name):
    task = make(name)
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    task.ports = []
    task.driver.boot.clean_up_ramdisk(task)
    assert links_below(site / ROOTS[name]) == set()


def test_a_link_that_has_come_to_be_another_nodes_stays(make, site):
    first = make("ipxe")
    first.driver.boot.prepare_ramdisk(first, PARAMS)
    other = make("ipxe", uuid="4b9e1ac4-d6f5-4bd0-ab9a-1ea23e3c2b72")
    other.driver.boot.prepare_ramdisk(other, PARAMS)
    first.driver.boot.clean_up_ramdisk(first)
    link = site / "http" / LINKS["ipxe"][0]
    assert link.resolve() == (site / "http" / other.node.uuid / "config").resolve()


def test_an_infiniband_port_has_a_link_of_its_kind(make, site):
    task = make("pxe")
    task.ports = [port(extra={"client-id": "ff:00:00"})]
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert f"pxelinux.cfg/20-{DASHED}" in links_below(site / "tftp")


@each
@pytest.mark.parametrize(
    ("ports", "text"),
    [([], "it has no ports"), ([port(pxe_enabled=False)], "none of its ports has pxe_enabled")],
    ids=["no port", "none enabled"],
)
def test_a_node_without_a_port_to_boot_from_is_not_valid(make, name, ports, text):
    task = make(name)
    task.ports = ports
    with pytest.raises(errors.MissingParameterValue, match=text):
        task.driver.boot.validate(task)
    with pytest.raises(errors.UnsupportedDriverExtension):
        task.driver.boot.validate_inspection(task)


# Validation


@each
def test_a_good_node_is_valid(make, name):
    task = make(name)
    task.driver.boot.validate(task)
    task.driver.boot.validate_inspection(task)
    task.driver.boot.validate_rescue(task)
    assert set(task.driver.boot.get_properties()) == set(PROPERTIES)


@each
@pytest.mark.parametrize("option", ["http_url", "http_root"])
def test_the_web_server_is_needed_by_what_uses_it(make, config, name, option):
    task = make(name)
    config("deploy", **{option: None})
    if name == "pxe":
        task.driver.boot.validate(task)
    else:
        with pytest.raises(errors.MissingParameterValue, match=rf"\[deploy\]{option}"):
            task.driver.boot.validate(task)


@pytest.mark.parametrize("missing", ["deploy_kernel", "deploy_ramdisk"])
def test_a_missing_ramdisk_is_told(make, config, missing):
    config("conductor", **{missing: None})
    task = make("ipxe")
    with pytest.raises(errors.MissingParameterValue, match="set deploy_kernel and deploy_ramdisk"):
        task.driver.boot.validate(task)


def test_a_missing_rescue_ramdisk_is_told(make, config):
    config("conductor", rescue_kernel=None)
    task = make("ipxe")
    task.driver.boot.validate(task)
    with pytest.raises(errors.MissingParameterValue, match="rescue_kernel"):
        task.driver.boot.validate_rescue(task)


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"driver_info": {"deploy_kernel": "gopher://x", "deploy_ramdisk": "file:///x"}}, "gopher"),
        ({"driver_info": {"kernel_append_params": 'a="b'}}, "kernel_append_params"),
        ({"driver_info": {"pxe_template": "/etc/shadow"}}, "enable_insecure_template_override"),
        ({"properties": {"capabilities": "boot_mode:tape"}}, "boot_mode"),
        ({"instance_info": {"capabilities": "{"}}, "not JSON"),
        ({"instance_info": {"image_source": "http://x/i", "boot_iso": "http://x/j"}}, "boot_iso"),
    ],
)
def test_what_is_not_acceptable_is_told(make, columns, text):
    task = make("ipxe", **columns)
    with pytest.raises(errors.InvalidParameterValue, match=text):
        task.driver.boot.validate(task)


@pytest.mark.parametrize("name", ["http", "http-ipxe"])
def test_http_boot_needs_uefi(make, name):
    task = make(name, properties=BIOS)
    with pytest.raises(errors.InvalidParameterValue, match="needs UEFI"):
        task.driver.boot.validate(task)


def test_a_template_that_is_not_there_is_told(make, config):
    config("pxe", ipxe_config_template="/no/such.template")
    task = make("ipxe")
    with pytest.raises(errors.InvalidParameterValue, match=r"/no/such\.template, does not exist"):
        task.driver.boot.validate(task)


def test_a_node_may_have_a_template_where_the_operator_allows_that(make, config, site):
    config("pxe", enable_insecure_template_override=True)
    own = site / "own.template"
    own.write_text("#!ipxe\ngoto deploy\n# {{ pxe_options.pxe_append_params }} {{ ROOT }}\n")
    task = make("ipxe", driver_info={"pxe_template": str(own)})
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    text = config_of(task, site)
    assert text.startswith("#!ipxe\ngoto deploy\n# nofb vga=normal")
    assert text.endswith("{{ ROOT }}\n")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("#!ipxe\ngoto deploy\n{{ pxe_options.__class__.__mro__ }}", "not usable"),
        ("#!ipxe\ngoto deploy\n{% include '/etc/passwd' %}", "not usable|does not exist"),
        ("#!ipxe\ngoto deploy\n{% if %}", "not usable"),
        ("#!ipxe\nboot\n", "no line 'goto deploy'"),
    ],
)
def test_a_template_can_reach_nothing_but_its_values(make, config, site, content, text):
    config("pxe", enable_insecure_template_override=True)
    own = site / "own.template"
    own.write_text(content)
    task = make("ipxe", driver_info={"pxe_template": str(own)})
    with pytest.raises(errors.InvalidParameterValue, match=text):
        task.driver.boot.prepare_ramdisk(task, PARAMS)


# Kernel parameters


@pytest.mark.parametrize("name", ["pxe", "ipxe"])
@pytest.mark.parametrize("mode", ["bios", "uefi"])
def test_kernel_parameters(make, site, name, mode):
    if mode == "bios":
        columns: dict[str, Any] = {"properties": BIOS}
    else:
        columns = {}
    task = make(name, driver_info={"kernel_append_params": "%default% console=ttyS0"}, **columns)
    task.context.global_id = "req-1"
    params = {**PARAMS, "alone": None, "text": "two words"}
    task.driver.boot.prepare_ramdisk(task, params)
    line = (
        "nofb vga=normal console=ttyS0 ipa-api-url=http://192.0.2.1:6385 alone "
        'text="two words" ipa-global-request-id=req-1'
    )
    assert line in config_of(task, site)


def test_a_line_break_ends_no_line(make, site):
    task = make("ipxe", driver_info={"kernel_append_params": "a=b\nboot\r\nchain=x"})
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert "a=bbootchain=x" in config_of(task, site)


def test_what_is_for_init_stays_at_the_end(make, site):
    task = make("ipxe", instance_info={"kernel_append_params": "a=b -- single"})
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert "a=b ipa-api-url=http://192.0.2.1:6385 -- single" in config_of(task, site)


def test_the_ramdisk_is_verbose_when_we_are(make, site, caplog):
    caplog.set_level("DEBUG", logger="ironic_rs.drivers.pxe.options")
    task = make("ipxe")
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert " ipa-debug=1 " in config_of(task, site)


# The instance


@each
def test_an_instance_on_disk_needs_no_files(make, site, name):
    task = make(name)
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    task.flows.calls.clear()
    task.driver.boot.prepare_instance(task)
    assert devices(task) == [("disk", True)]
    assert not (site / ROOTS[name] / kit.UUID).exists()
    assert links_below(site / ROOTS[name]) == set()


@pytest.mark.parametrize(
    ("name", "properties", "expected"),
    [
        ("ipxe", {}, "goto boot_whole_disk"),
        ("pxe", {}, "set default=boot_whole_disk"),
        ("pxe", BIOS, "default boot_whole_disk"),
    ],
)
def test_a_fallback_leads_machines_on_to_their_disk(make, site, config, name, properties, expected):
    config("pxe", enable_netboot_fallback=True)
    task = make(name, properties=properties)
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    task.driver.boot.prepare_instance(task)
    assert expected in config_of(task, site).splitlines()
    assert not (site / ROOTS[name] / kit.UUID / "deploy_kernel").exists()
    assert links_below(site / ROOTS[name]) == set(LINKS[name])
    assert devices(task)[-1] == ("disk", True)


@each
def test_a_ramdisk_is_an_instance(make, site, images, name):
    task = make(
        name,
        deploy_interface="ramdisk",
        instance_info={
            "kernel": f"file://{images}/kernel",
            "ramdisk": f"file://{images}/ramdisk",
            "ramdisk_kernel_arguments": "quiet\nsplash",
        },
    )
    task.driver.boot.validate(task)
    task.driver.boot.prepare_instance(task)
    text = config_of(task, site)
    assert any(line in text for line in ("goto boot_ramdisk\n", "set default=boot_ramdisk\n"))
    assert "root=/dev/ram0 text nofb vga=normal quietsplash" in text
    directory = site / ROOTS[name] / kit.UUID
    assert (directory / "kernel").read_bytes() == b"kernel"
    assert (directory / "ramdisk").read_bytes() == b"ramdisk"
    device = "uefihttp" if name.startswith("http") else "pxe"
    assert devices(task) == [(device, True)]
    task.driver.boot.clean_up_instance(task)
    assert not directory.exists()


@pytest.mark.parametrize(
    ("info", "text"),
    [
        ({}, "no kernel and no ramdisk"),
        ({"kernel": "http://x/k"}, "no ramdisk"),
        ({"kernel": "http://x/k", "ramdisk": "ftp://x/r"}, "ftp"),
    ],
)
def test_a_ramdisk_that_is_an_instance_is_checked(make, info, text):
    task = make("ipxe", deploy_interface="ramdisk", instance_info=info)
    with pytest.raises(errors.InvalidParameterValue, match=text):
        task.driver.boot.validate(task)


def test_such_an_instance_needs_our_ramdisk_only_for_cleaning(make, config):
    info = {"kernel": "http://x/k", "ramdisk": "http://x/r"}
    config("conductor", deploy_kernel=None, deploy_ramdisk=None)
    task = make("ipxe", deploy_interface="ramdisk", instance_info=info, automated_clean=True)
    with pytest.raises(errors.MissingParameterValue, match="deploy_kernel"):
        task.driver.boot.validate(task)
    task.node.automated_clean = False
    task.driver.boot.validate(task)


def test_a_boot_iso_is_an_instance(make, site, images):
    task = make(
        "ipxe", deploy_interface="ramdisk", instance_info={"boot_iso": f"file://{images}/boot.iso"}
    )
    task.driver.boot.prepare_instance(task)
    assert f"sanboot http://192.0.2.1:8080/{kit.UUID}/boot_iso" in config_of(task, site)
    assert (site / "http" / kit.UUID / "boot_iso").read_bytes() == b"boot.iso"


@pytest.mark.parametrize(
    ("name", "properties"),
    [("ipxe", {}), ("http-ipxe", {}), ("pxe", BIOS), ("pxe", {}), ("http", {})],
)
def test_a_boot_iso_needs_a_boot_loader_that_boots_one(make, site, config, name, properties):
    info = {"boot_iso": "http://x/boot.iso"}
    task = make(name, deploy_interface="ramdisk", instance_info=info, properties=properties)
    if name in ("pxe", "http") and not properties:
        with pytest.raises(errors.InvalidParameterValue, match=r"boot_iso.*Use.* ipxe"):
            task.driver.boot.validate(task)
        own = site / "own.template"
        own.write_text("set default=deploy\nloopback {{ pxe_options.boot_iso_url }}\n")
        config("pxe", uefi_pxe_config_template=str(own))
    task.driver.boot.validate(task)


@pytest.mark.parametrize("state", [states.ACTIVE, states.ADOPTING])
@pytest.mark.parametrize("deploy", ["direct", "ramdisk"])
def test_a_running_instance_keeps_its_boot_device(make, images, state, deploy):
    info = {"kernel": f"file://{images}/kernel", "ramdisk": f"file://{images}/ramdisk"}
    task = make("ipxe", provision_state=state, deploy_interface=deploy, instance_info=info)
    task.driver.boot.prepare_instance(task)
    assert devices(task) == []


def test_a_lenovo_machine_keeps_the_entry_of_its_fresh_system(make):
    lenovo = {"vendor": "Lenovo"}
    task = make("ipxe", properties=lenovo)
    task.driver.boot.prepare_instance(task)
    assert devices(task) == []
    for columns in (
        {"properties": lenovo | {"capabilities": "boot_mode:bios"}},
        {"properties": lenovo, "provision_state": states.UNRESCUING},
    ):
        task = make("ipxe", **columns)
        task.driver.boot.prepare_instance(task)
        assert devices(task) == [("disk", True)]


def test_a_bmc_without_http_boot_gets_pxe(make):
    task = make("http-ipxe")

    def set_boot_device(device: str, persistent: bool = False) -> None:
        task.flows.calls.append(("set_boot_device", device, persistent))
        if device == "uefihttp":
            raise errors.InvalidParameterValue("unknown boot device")

    task.flows.set_boot_device = set_boot_device  # type: ignore[method-assign]
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert devices(task) == [("uefihttp", False), ("pxe", False)]


def test_secure_boot_is_turned_on_for_the_instance_and_off_again(make):
    done: list[bool] = []
    task = make("pxe", instance_info={"capabilities": {"secure_boot": "true"}})
    task.driver.management.set_secure_boot_state = lambda _task, state: done.append(state)
    task.driver.boot.prepare_instance(task)
    task.driver.boot.clean_up_instance(task)
    assert done == [True, False]


# Boot from volume

VOLUME = {
    "target_iqn": "iqn.2026-01.org.example:disk",
    "target_portal": "192.0.2.9:3260",
    "target_lun": 10,
    "auth_username": "me",
    "auth_password": "secret",
}


class Row:
    """A record of the database."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


@pytest.fixture
def stored(monkeypatch):
    """Volume targets and connectors of the node."""
    found: dict[str, list[Any]] = {"targets": [], "connectors": []}
    monkeypatch.setattr(volumes.volumes, "targets_of_node", lambda _id: found["targets"])
    monkeypatch.setattr(volumes.volumes, "connectors_of_node", lambda _id: found["connectors"])
    return found


def target(index: int, **properties: Any) -> Row:
    return Row(
        uuid=f"volume-{index}",
        volume_type="iscsi",
        boot_index=index,
        properties=VOLUME | properties,
    )


@pytest.fixture
def from_volume(make, stored):
    stored["targets"] = [target(1, target_lun=11, auth_username=None), target(0)]
    stored["connectors"] = [Row(type="iqn", connector_id="iqn.2026-01.org.example:node")]
    return make("ipxe", driver_internal_info={"boot_from_volume": "volume-0"})


def test_an_instance_on_a_volume_boots_from_there(from_volume, site):
    task = from_volume
    task.driver.boot.validate(task)
    task.driver.boot.prepare_instance(task)
    text = config_of(task, site)
    assert "goto boot_iscsi\n" in text
    assert "set initiator-iqn iqn.2026-01.org.example:node\n" in text
    boot = "iscsi:192.0.2.9::3260:a:iqn.2026-01.org.example:disk"
    assert f"sanboot --keep --drive 0x80 {boot} " in text
    assert "sanhook --drive 0x81 iscsi:192.0.2.9::3260:b:iqn.2026-01.org.example:disk" in text
    assert devices(task) == [("pxe", True)]
    # The other volume has no credentials, and does not get those of this one.
    before, _hook, after = text.partition("sanhook")
    assert before.endswith("clear username ||\nclear password ||\n")
    assert "set username me\nset password secret\nsanboot" in after


def test_several_portals_are_all_told(from_volume, stored, site):
    stored["targets"] = [
        target(
            0,
            target_portals=["192.0.2.9:3260", "[2001:db8::9]:3260"],
            target_iqns=["iqn.a", "iqn.b"],
            target_luns=[1, 2],
        )
    ]
    task = from_volume
    task.driver.boot.prepare_instance(task)
    assert "iscsi:192.0.2.9::3260:1:iqn.a iscsi:[2001:db8::9]::3260:2:iqn.b" in config_of(
        task, site
    )


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"target_iqn": None}, "target_portal, target_iqn and target_lun"),
        ({"target_lun": "x"}, "LUN 'x'"),
        ({"target_portal": "192.0.2.9:x"}, "192.0.2.9:x"),
        ({"target_portal": "192.0.2.9"}, "HOST:PORT"),
        ({"target_iqn": "a b"}, "without blanks"),
        ({"auth_password": "a\nboot"}, "auth_password"),
        ({"target_iqns": ["a", "b"]}, "as many"),
    ],
)
def test_incomplete_volumes_are_told(from_volume, stored, properties, text):
    stored["targets"] = [target(0, **properties)]
    with pytest.raises(errors.InvalidParameterValue, match=text):
        from_volume.driver.boot.validate(from_volume)


def test_a_missing_volume_or_initiator_is_told(from_volume, stored):
    stored["connectors"] = []
    with pytest.raises(errors.MissingParameterValue, match="volume connector of type iqn"):
        from_volume.driver.boot.validate(from_volume)
    stored["targets"] = [target(1)]
    with pytest.raises(errors.MissingParameterValue, match="boot index 0"):
        from_volume.driver.boot.validate(from_volume)


def test_pxe_does_not_boot_from_volumes(make, site):
    task = make("pxe", driver_internal_info={"boot_from_volume": "volume-0"})
    task.driver.boot.prepare_instance(task)
    assert devices(task) == [("disk", True)]


# Writing


def test_a_crash_in_the_middle_leaves_the_old_file(site, monkeypatch):
    path = site / "file"
    files.write(path, "old")

    def broken(*_args: object) -> None:
        raise OSError("full")

    monkeypatch.setattr(files.os, "replace", broken)
    with pytest.raises(OSError, match="full"):
        files.write(path, "new")
    with pytest.raises(OSError, match="full"):
        files.link(site / "link", path)
    assert path.read_text() == "old"
    assert [p.name for p in site.iterdir() if p.name.startswith(".")] == []


def test_unwritable_places_are_told(make, site, monkeypatch):
    task = make("ipxe")
    (site / "http" / "pxelinux.cfg").write_text("in the way")
    with pytest.raises(errors.ImageCreationFailed, match=rf"{kit.UUID}.*pxelinux.cfg"):
        task.driver.boot.prepare_ramdisk(task, PARAMS)


def test_clean_up_of_nothing_is_no_error(make):
    for name in BOOTS:
        task = make(name)
        task.driver.boot.clean_up_ramdisk(task)
        task.driver.boot.clean_up_instance(task)


def test_a_path_in_the_url_of_the_web_server_is_kept(make, site, config):
    config("deploy", http_url="http://192.0.2.1:8080/boot/")
    task = make("http")
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert f"/boot/{kit.UUID}/deploy_kernel" in config_of(task, site)
    assert "configfile /boot/$net_default_mac.conf" in (site / "http/grub/grub.cfg").read_text()
    task = make("ipxe")
    task.driver.boot.prepare_ramdisk(task, PARAMS)
    url = f"http://192.0.2.1:8080/boot/{kit.UUID}/deploy_kernel"
    assert url in config_of(task, site)
    assert CONF.deploy.http_url.endswith("/boot/")


# Many machines at the same time


def test_kernels_are_fetched_once_for_all_machines(make, site, config):
    with ImageServer().running() as server:
        kernel = server.put("/kernel", b"kernel" * 50_000, stall=100_000)
        initrd = server.put("/ramdisk", b"ramdisk" * 50_000)
        config("conductor", deploy_kernel=kernel, deploy_ramdisk=initrd)
        tasks = [make("ipxe", uuid=f"{n:08d}-2222-4333-8444-555555555555") for n in range(4)]
        for number, task in enumerate(tasks):
            task.ports = [port(f"52:54:00:ab:cd:{number:02x}")]
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(task.driver.boot.prepare_ramdisk, task, PARAMS) for task in tasks]
            assert server.stalled.wait(60)
            server.go_on.set()
            for future in done:
                future.result(60)
        for path in ("/kernel", "/ramdisk"):
            assert server.methods(path).count("GET") == 1
    places = [site / "http" / task.node.uuid / "deploy_kernel" for task in tasks]
    assert all(place.samefile(places[0]) for place in places)
    assert places[0].read_bytes() == b"kernel" * 50_000
    assert not list(site.rglob("*.part"))
    for task in tasks:
        task.driver.boot.clean_up_ramdisk(task)
    assert not any(place.exists() for place in places)
    assert len(list((site / "masters").iterdir())) == 4, "two files and what is known of them"


def test_a_kernel_that_is_cut_short_leaves_nothing(make, site, config):
    with ImageServer().running() as server:
        kernel = server.put("/kernel", b"kernel" * 50_000, cut=1000, cuts=100)
        config("conductor", deploy_kernel=kernel)
        task = make("ipxe")
        with pytest.raises(errors.ImageDownloadFailed, match="/kernel"):
            task.driver.boot.prepare_ramdisk(task, PARAMS)
    assert list((site / "masters").iterdir()) == []
    assert devices(task) == [], "the machine is not touched"
