"""Files that boot loaders read: they appear whole, and go without a trace.

Source: specification drivers.md section 11.2; field case 102.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task
    from ironic_rs.drivers.pxe.flavour import Flavour

LOG = log.getLogger(__name__)

_DEFAULT_DIRECTORY_MODE = 0o755
#: File in the directory of a node that lists the links to its configuration.
_LINKS = ".links"


def make_directory(path: Path) -> None:
    """Make a directory and its parents, readable for the servers.

    :raises OSError: not possible.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    path.mkdir(parents=True, exist_ok=True)
    mode = CONF.pxe.dir_permission or _DEFAULT_DIRECTORY_MODE
    for place in missing:
        place.chmod(mode)


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole, or leave the old one.

    :raises OSError: not possible.
    """
    make_directory(path.parent)
    part = _part(path)
    data = content.encode() if isinstance(content, str) else content
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.chmod(CONF.pxe.file_permission)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def copy(source: Path, path: Path) -> None:
    """Copy a file whole, or leave the old one.

    :raises OSError: not possible.
    """
    make_directory(path.parent)
    part = _part(path)
    try:
        shutil.copyfile(source, part)
        part.chmod(CONF.pxe.file_permission)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def link(path: Path, target: Path) -> None:
    """Make a relative link, in place of an older one.

    :raises OSError: not possible.
    """
    make_directory(path.parent)
    part = _part(path)
    try:
        part.symlink_to(os.path.relpath(target, path.parent))
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _part(path: Path) -> Path:
    # Hidden from the web server, and from boot loaders that list nothing anyway.
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


@contextlib.contextmanager
def explained(node: models.Node, flavour: Flavour) -> Iterator[None]:
    """Turn errors of the file system into one that names node and place.

    :raises ImageCreationFailed: the block failed to write.
    """
    try:
        yield
    except OSError as exc:
        raise errors.ImageCreationFailed(
            image_type="boot configuration",
            error=(
                f"node {node.uuid}: {exc.filename2 or exc.filename or flavour.root}: "
                f"{exc.strerror or exc}"
            ),
        ) from exc


def _links_of_port(flavour: Flavour, port: models.Port) -> list[Path]:
    """Return the links by which a port's machine finds its configuration."""
    mac = str(port.address).lower()
    dashed = mac.replace(":", "-")
    by_mac = flavour.root / CONF.pxe.pxe_config_subdir
    if flavour.ipxe:
        return [by_mac / dashed]
    kind = "20" if port.extra.get("client-id") else "01"
    return [
        by_mac / f"{kind}-{dashed}",
        flavour.root / f"grub.cfg-01-{dashed}",
        flavour.root / f"{mac}.conf",
    ]


def booting_ports(task: Task) -> list[models.Port]:
    """Return the ports that the machine may boot from."""
    return [port for port in task.ports if port.pxe_enabled]


def link_config(task: Task, flavour: Flavour, addresses: Iterable[str] = ()) -> None:
    """Make the links of all booting ports and of IP addresses; remove other ones.

    With ``[neutron]add_all_ports`` all ports are in the network of the ramdisk, so any may boot.

    :raises ImageCreationFailed: not possible.
    """
    node = task.node
    target = flavour.config(node)
    ports = task.ports if CONF.neutron.add_all_ports else booting_ports(task)
    wanted = {path for port in ports for path in _links_of_port(flavour, port)}
    wanted |= {flavour.root / f"{address}.conf" for address in addresses}
    with explained(node, flavour):
        old = _known_links(flavour, node)
        # Written down first: what a crash leaves is found again.
        names = sorted(os.path.relpath(path, flavour.root) for path in wanted | old)
        write(flavour.node_directory(node) / _LINKS, "".join(f"{name}\n" for name in names))
        for path in old - wanted:
            _remove_link(path, target)
        for path in sorted(wanted):
            link(path, target)


def _known_links(flavour: Flavour, node: models.Node) -> set[Path]:
    """Return the links that were made for a node, also of ports that are gone."""
    try:
        names = (flavour.node_directory(node) / _LINKS).read_text().splitlines()
    except OSError:
        return set()
    return {flavour.root / name for name in names if name}


def _remove_link(path: Path, target: Path) -> None:
    """Remove a link, unless it has come to be another node's."""
    with contextlib.suppress(OSError):
        if os.path.normpath(path.parent / os.readlink(path)) == os.path.normpath(target):
            path.unlink()


def remove_config(task: Task, flavour: Flavour) -> None:
    """Remove configuration, links and images of a node."""
    node = task.node
    target = flavour.config(node)
    of_ports = {path for port in task.ports for path in _links_of_port(flavour, port)}
    for path in of_ports | _known_links(flavour, node):
        _remove_link(path, target)
    directory = flavour.node_directory(node)
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():
        LOG.warning("Node %s: its boot files in %s cannot be removed", node.uuid, directory)


def make_readable(path: Path) -> None:
    """Give a fetched file the permissions that the servers need.

    It may be shared with a cache; more permissions do no harm there.

    :raises OSError: not possible.
    """
    mode = path.stat().st_mode & 0o777
    if mode & CONF.pxe.file_permission != CONF.pxe.file_permission:
        path.chmod(mode | CONF.pxe.file_permission)
