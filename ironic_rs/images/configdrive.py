"""Config drives: an ISO built from meta data, as base64 of its gzip.

Source: specification auxiliary.md section 12, drivers.md section 12.7.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pycdlib
from oslo_utils import units

from ironic_rs.domain import errors
from ironic_rs.images import services

if TYPE_CHECKING:
    from ironic_rs.db import models

LABEL = "config-2"
#: The ramdisk refuses larger config drives.
MAX_BYTES = 64 * units.Mi
_GZIP = b"\x1f\x8b"
#: Directories below ``openstack/`` that readers look into.
_VERSIONS = ("2012-08-10", "latest")

#: Key of the dictionary -> file name.
_FILES: Mapping[str, str] = {
    "meta_data": "meta_data.json",
    "user_data": "user_data",
    "network_data": "network_data.json",
    "vendor_data": "vendor_data2.json",
}


def for_agent(node: models.Node) -> str | None:
    """Return the config drive of a node as the ramdisk takes it: URL or text; None for none.

    :raises InvalidParameterValue: it can not be built, or is too large.
    """
    drive = node.instance_info.get("configdrive")
    if not drive:
        return None
    return build(node, drive) if isinstance(drive, Mapping) else str(drive)


def build(node: models.Node, drive: Mapping[str, Any]) -> str:
    """Build a config drive from its dictionary form.

    :param drive: meta_data, network_data, vendor_data (objects) and user_data (text,
        or a JSON value that becomes text).  uuid and name of meta_data default to
        those of the node.
    :returns: base64 of the gzip of an ISO 9660 image with label ``config-2``.
    :raises InvalidParameterValue: a value of the wrong type, or too large.
    """
    files: dict[str, bytes] = {}
    for key, name in _FILES.items():
        value = drive.get(key)
        if key == "meta_data":
            value = {**_defaults(node), **_object(key, value)}
        elif key != "user_data":
            value = _object(key, value)
        if value:
            files[name] = _content(value)
    size = len(_VERSIONS) * sum(map(len, files.values()))
    if size > MAX_BYTES:
        raise errors.InvalidParameterValue(
            f"The config drive of node {node.uuid} takes {size} bytes, at most {MAX_BYTES} "
            "are allowed."
        )
    return base64.b64encode(gzip.compress(make_iso(files), mtime=0)).decode()


def image_of(drive: str) -> bytes:
    """Return the image in a config drive that :func:`for_agent` gives.

    :param drive: base64 of a gzip, or the URL of that, of a gzip or of an image.
    :raises InvalidParameterValue: it is none of them, or too large.
    :raises ImageRefValidationFailed: the URL can not be read.
    """
    where = "The config drive"
    if drive.startswith(("http://", "https://")):
        where = f"The config drive at {services.redact(drive)}"
        content = services.HTTPImages().read(drive, 2 * MAX_BYTES)
    else:
        content = drive.encode()
    if not content.startswith(_GZIP):
        # A binary image is no base64; whatever else is, is unpacked.
        with contextlib.suppress(binascii.Error):
            content = base64.b64decode(b"".join(content.split()), validate=True)
    if content.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        try:
            content = unpacker.decompress(content, MAX_BYTES + 1)
        except zlib.error as exc:
            raise errors.InvalidParameterValue(f"{where} is no valid gzip: {exc}") from exc
    if len(content) > MAX_BYTES:
        raise errors.InvalidParameterValue(f"{where} has more than {MAX_BYTES} bytes.")
    if not content:
        raise errors.InvalidParameterValue(f"{where} is empty.")
    return content


def _defaults(node: models.Node) -> dict[str, Any]:
    defaults: dict[str, Any] = {"uuid": node.uuid}
    if node.name:
        defaults["name"] = node.name
    return defaults


def _object(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.InvalidParameterValue(f"{key} of a config drive must be an object.")
    return value


def _content(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def make_iso(files: Mapping[str, bytes]) -> bytes:
    """Return an ISO image with the files in every ``openstack/<version>/``."""
    return _write(
        {
            f"openstack/{version}/{name}": content
            for version in _VERSIONS
            for name, content in files.items()
        }
    )


def _write(tree: Mapping[str, bytes]) -> bytes:
    """Return an ISO image.

    :param tree: path of a file -> its content.
    """
    iso = pycdlib.PyCdlib()
    iso.new(interchange_level=3, vol_ident=LABEL, joliet=3, rock_ridge="1.09")
    try:
        plain = {"": ""}
        for number, (path, content) in enumerate(tree.items()):
            parent, _, name = path.rpartition("/")
            _add_directory(iso, plain, parent)
            iso.add_fp(
                io.BytesIO(content),
                len(content),
                iso_path=f"{plain[parent]}/FILE{number}.;1",
                rr_name=name,
                joliet_path=f"/{path}",
            )
        image = io.BytesIO()
        iso.write_fp(image)
    finally:
        iso.close()
    return image.getvalue()


def _add_directory(iso: pycdlib.PyCdlib, plain: dict[str, str], path: str) -> None:
    """Add a directory with those above it.

    :param plain: path -> name in plain ISO 9660, of the directories that are there.
    """
    if path in plain:
        return
    parent, _, name = path.rpartition("/")
    _add_directory(iso, plain, parent)
    plain[path] = f"{plain[parent]}/DIR{len(plain)}"
    iso.add_directory(plain[path], rr_name=name, joliet_path=f"/{path}")


def better_network(
    present: Mapping[str, Any] | None, make: Callable[[], Mapping[str, Any]], *, mtu: bool
) -> Mapping[str, Any] | None:
    """Return network data for an instance whose own are of no use; None to keep those.

    :param make: makes the network data; called only when they are needed.
    :param mtu: each link must have an MTU.
    """
    if not _lacks(present, mtu=mtu):
        return None
    made = make()
    if _lacks(made, mtu=mtu) and (not _lacks(present, mtu=False) or _lacks(made, mtu=False)):
        return None
    return made


def _lacks(data: Mapping[str, Any] | None, *, mtu: bool) -> bool:
    if not data or not any(data.get(key) for key in ("links", "networks", "services")):
        return True
    return mtu and any(not link.get("mtu") for link in data.get("links") or ())


def with_network(drive: str, make: Callable[[], Mapping[str, Any]], *, mtu: bool) -> str:
    """Put network data into a finished config drive that has none of use.

    :param drive: base64 of the gzip of an ISO image.
    :param make: as :func:`better_network`, and so is ``mtu``.
    :returns: the drive as it is when its own data are good, or there are no better ones.
    :raises InvalidParameterValue: not a config drive, or too large.
    """
    tree = _read(drive)
    name = _FILES["network_data"]
    latest = f"openstack/{_VERSIONS[-1]}/{name}"
    try:
        present = json.loads(tree[latest]) if latest in tree else None
    except ValueError as exc:
        raise errors.InvalidParameterValue(f"{latest} of a config drive is no JSON: {exc}") from exc
    data = better_network(present, make, mtu=mtu)
    if data is None:
        return drive
    content = json.dumps(data).encode()
    places = {path for path in tree if path.endswith(f"/{name}")} | {latest}
    return base64.b64encode(
        gzip.compress(_write(tree | dict.fromkeys(sorted(places), content)), mtime=0)
    ).decode()


def _read(drive: str) -> dict[str, bytes]:
    """Return path -> content of the files of a config drive."""
    image = image_of(drive)
    iso = pycdlib.PyCdlib()
    try:
        iso.open_fp(io.BytesIO(image))
    except pycdlib.pycdlibexception.PyCdlibException as exc:
        raise errors.InvalidParameterValue(f"A config drive is no ISO image: {exc}") from exc
    try:
        return dict(_files(iso))
    finally:
        iso.close()


def _files(iso: pycdlib.PyCdlib) -> Iterator[tuple[str, bytes]]:
    # By the names that systems show; the plain ones are the last resort.
    form = "rr_path" if iso.has_rock_ridge() else "joliet_path" if iso.has_joliet() else "iso_path"
    for directory, _, names in iso.walk(**{form: "/"}):
        for name in names:
            path = f"{directory.rstrip('/')}/{name}"
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, **{form: path})
            shown = path.partition(";")[0].lower() if form == "iso_path" else path
            yield shown.lstrip("/"), content.getvalue()
