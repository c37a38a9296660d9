"""A conductor's directories, images, and a node that boots over the network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ironic_rs.db import models
from ironic_rs.domain import states
from ironic_rs.drivers.pxe.boot import HTTPBoot, HTTPIPXEBoot, IPXEBoot, PXEBoot
from tests.unit.drivers import kit

MAC = "52:54:00:ab:cd:01"
BOOTS = {"pxe": PXEBoot, "ipxe": IPXEBoot, "http": HTTPBoot, "http-ipxe": HTTPIPXEBoot}


def port(address: str = MAC, **columns: Any) -> models.Port:
    values: dict[str, Any] = {"pxe_enabled": True, "extra": {}, "internal_info": {}}
    return models.Port(address=address, **values | columns)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Directory of kernels and ramdisks."""
    place = tmp_path / "images"
    place.mkdir()
    for name in ("kernel", "ramdisk", "rescue-kernel", "rescue-ramdisk", "boot.iso"):
        (place / name).write_bytes(name.encode())
    return place


@pytest.fixture(autouse=True)
def site(tmp_path: Path, images: Path, config: Callable[..., None]) -> Path:
    """The directories of the conductor's servers, ``tftp`` and ``http``."""
    for name in ("tftp", "http"):
        (tmp_path / name).mkdir()
    config("deploy", http_root=str(tmp_path / "http"), http_url="http://192.0.2.1:8080")
    config(
        "pxe",
        tftp_root=str(tmp_path / "tftp"),
        tftp_master_path=str(tmp_path / "masters"),
        tftp_server="192.0.2.1",
    )
    config("deploy", iso_master_path=str(tmp_path / "iso_masters"))
    config("dhcp", dhcp_provider="none")
    config(
        "conductor",
        file_url_allowed_paths=[str(images)],
        deploy_kernel=f"file://{images}/kernel",
        deploy_ramdisk=f"file://{images}/ramdisk",
        rescue_kernel=f"file://{images}/rescue-kernel",
        rescue_ramdisk=f"file://{images}/rescue-ramdisk",
    )
    return tmp_path


@pytest.fixture
def make(site: Path) -> Callable[..., kit.Task]:
    """Return a maker of exclusive tasks; keywords are columns of the node."""

    def make(boot: str = "ipxe", **columns: Any) -> kit.Task:
        values: dict[str, Any] = {
            "provision_state": states.DEPLOYING,
            "boot_interface": boot,
            "properties": {"cpu_arch": "x86_64"},
            **columns,
        }
        task = kit.Task(kit.node(**values), boot=BOOTS[boot]())
        task.ports = [port()]
        return task

    return make
