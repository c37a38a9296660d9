"""Real firmware boots what the drivers write: QEMU with SeaBIOS, iPXE and pxelinux.

The "kernel" is iPXE once more.  It takes its command line for commands, and complains
of the first: so what it shows has gone the whole way, by boot loader, our scripts,
kernel, ramdisk and kernel parameters.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.domain import states
from ironic_rs.service import image_server
from tests.harness.servers import missing, wait_until
from tests.unit.drivers import kit
from tests.unit.drivers.conftest import config  # noqa: F401
from tests.unit.drivers.pxe.conftest import BOOTS, MAC, port

LKRN = Path("/usr/lib/ipxe/ipxe.lkrn")
PXELINUX = (
    Path("/usr/lib/PXELINUX/pxelinux.0"),
    Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"),
)
#: The host, as QEMU's own network shows it to the machine.
GATEWAY = "10.0.2.2"
BOOT_SECONDS = 100

# Without virtualisation by hardware a machine is slow, more so beside other tests.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """The conductor's web server: its URL for the machine, and what was fetched."""
    fetched: list[str] = []
    original = image_server._open

    def spy(target: str, *more: Any) -> Any:
        fetched.append(target)
        return original(target, *more)

    monkeypatch.setattr(image_server, "_open", spy)
    (tmp_path / "http").mkdir()
    server = image_server.ImageServer(tmp_path / "http", "127.0.0.1", 0)
    server.start()
    yield f"http://{GATEWAY}:{server.port}", fetched
    server.stop()


@pytest.fixture
def make(
    tmp_path: Path,
    web: tuple[str, list[str]],
    config: Callable[..., None],  # noqa: F811
) -> Callable[..., kit.Task]:
    """Return a maker of nodes."""
    if shutil.which("qemu-system-x86_64") is None or not LKRN.exists():
        missing("QEMU or iPXE is not installed (qemu-system-x86, ipxe, ipxe-qemu)")
    url, _fetched = web
    (tmp_path / "tftp").mkdir()
    (tmp_path / "images").mkdir()
    kernel, initrd = tmp_path / "images" / "kernel", tmp_path / "images" / "ramdisk"
    shutil.copy(LKRN, kernel)
    initrd.write_text("#!ipxe\n")
    config("deploy", http_root=str(tmp_path / "http"), http_url=url)
    config(
        "pxe",
        tftp_root=str(tmp_path / "tftp"),
        tftp_master_path=str(tmp_path / "masters"),
    )
    config("dhcp", dhcp_provider="none")
    config(
        "conductor",
        deploy_kernel=f"file://{kernel}",
        deploy_ramdisk=f"file://{initrd}",
        file_url_allowed_paths=[str(tmp_path / "images")],
    )

    def make(boot: str) -> kit.Task:
        task = kit.Task(
            kit.node(
                provision_state=states.DEPLOYING,
                boot_interface=boot,
                properties={"cpu_arch": "x86_64", "capabilities": "boot_mode:bios"},
            ),
            boot=BOOTS[boot](),
        )
        task.ports = [port()]
        return task

    return make


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a starter of a machine that boots from the network; it returns its console."""
    started: list[subprocess.Popen[bytes]] = []

    def start(network: str) -> Path:
        console = tmp_path / "console"
        with console.open("wb") as output:
            started.append(
                subprocess.Popen(
                    [
                        *("qemu-system-x86_64", "-nographic", "-m", "256", "-no-reboot"),
                        *("-boot", "n", "-netdev", f"user,id=net,{network}"),
                        *("-device", f"virtio-net-pci,netdev=net,mac={MAC}"),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
            )
        return console

    yield start
    for process in started:
        process.kill()
        process.wait()


def shown(console: Path) -> str:
    """Return what the machine's console shows."""
    return re.sub(r"\x1b\[[0-9;?=]*[a-zA-Z]", "", console.read_text(errors="replace"))


def wait_for_kernel(console: Path, word: str) -> None:
    """Wait until the kernel complains of a word of its command line."""
    wait_until(
        lambda: f"{word}: command not found" in shown(console).replace("\r\n", ""),
        "the kernel runs",
        timeout=BOOT_SECONDS,
    )


def test_ipxe_boots_the_ramdisk(make, web, machine):
    url, fetched = web
    task = make("ipxe")
    task.driver.boot.validate(task)
    task.driver.boot.prepare_ramdisk(task, {"ipa-api-url": "http://192.0.2.1:6385"})
    console = machine(f"bootfile={url}/boot.ipxe")
    wait_for_kernel(console, f"BOOTIF={MAC}")
    assert fetched == [
        "/boot.ipxe",
        f"/pxelinux.cfg/{MAC.replace(':', '-')}",
        f"/{kit.UUID}/deploy_kernel",
        f"/{kit.UUID}/deploy_ramdisk",
    ]
    assert f"Looking for the configuration of {MAC}" in shown(console)


def test_a_machine_that_is_not_known_is_told_so_and_restarted(make, web, machine, tmp_path):
    url, fetched = web
    make("ipxe")
    console = machine(f"bootfile={url}/boot.ipxe")
    wait_until(
        lambda: "There is no boot configuration for this machine" in shown(console),
        "the machine finds nothing",
        timeout=BOOT_SECONDS,
    )
    assert fetched[:2] == ["/boot.ipxe", f"/pxelinux.cfg/{MAC.replace(':', '-')}"]


def test_an_unknown_machine_runs_the_script_for_discovery(make, web, machine, config, tmp_path):  # noqa: F811
    url, fetched = web
    config("pxe", ipxe_fallback_script="discover.ipxe")
    (tmp_path / "http" / "discover.ipxe").write_text(f"#!ipxe\nimgfetch {url}/found ||\nshell\n")
    make("ipxe")
    machine(f"bootfile={url}/boot.ipxe")
    wait_until(lambda: "/found" in fetched, "the script runs", timeout=BOOT_SECONDS)


def test_ipxe_tries_again_what_it_could_not_fetch(make, web, machine, tmp_path):
    url, fetched = web
    task = make("ipxe")
    task.driver.boot.prepare_ramdisk(task, {})
    initrd = tmp_path / "http" / kit.UUID / "deploy_ramdisk"
    initrd.rename(initrd.with_name("away"))
    console = machine(f"bootfile={url}/boot.ipxe")
    wait_until(
        lambda: "attempt 2 of 10 is in 5 seconds" in shown(console),
        "the machine waits",
        timeout=BOOT_SECONDS,
    )
    initrd.with_name("away").rename(initrd)
    wait_for_kernel(console, f"BOOTIF={MAC}")
    assert fetched.count(f"/{kit.UUID}/deploy_kernel") == 2


def test_a_machine_with_a_fallback_goes_on_to_its_disk(make, web, machine, config):  # noqa: F811
    url, fetched = web
    config("pxe", enable_netboot_fallback=True)
    task = make("ipxe")
    task.driver.boot.prepare_instance(task)
    console = machine(f"bootfile={url}/boot.ipxe")
    # There is no disk; that the firmware looked for one is what counts.
    wait_until(
        lambda: re.search(r"Boot(ing)? from (SAN device|Hard Disk)|No bootable", shown(console)),
        "the machine looks for its disk",
        timeout=BOOT_SECONDS,
    )
    assert fetched == ["/boot.ipxe", f"/pxelinux.cfg/{MAC.replace(':', '-')}"]


def test_pxelinux_boots_the_ramdisk(make, machine, tmp_path):
    if not all(path.exists() for path in PXELINUX):
        missing("pxelinux is not installed (Debian packages pxelinux and syslinux-common)")
    task = make("pxe")
    for path in PXELINUX:
        shutil.copy(path, tmp_path / "tftp")
    task.driver.boot.prepare_ramdisk(task, {"ipa-api-url": "http://192.0.2.1:6385"})
    console = machine(f"tftp={tmp_path / 'tftp'},bootfile=pxelinux.0")
    wait_for_kernel(console, "nofb")
