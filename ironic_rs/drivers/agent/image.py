"""The image of an instance: checks, preparation, and what the ramdisk is told of it.

Source: specification drivers.md sections 10.3, 12.2 and 12.3; field cases 74 to 81.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import errors
from ironic_rs.drivers.agent import partition
from ironic_rs.images import cache, checksum, credentials, formats, services

if TYPE_CHECKING:
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

WHOLE_DISK = "whole-disk"
_DOWNLOAD_SOURCES = ("http", "local", "swift")
_NO_PROXY_ITEM = re.compile(r"\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(:\d+)?|[0-9A-Fa-f:.]+|\*")

#: driver_internal_info key: keys of image_info found out during preparation.  The
#: digest of a converted image must not replace that of the source in instance_info,
#: where a rebuild needs it again.
_RESOLVED = "resolved_image"


def download_source(node: models.Node) -> str:
    """Return where the ramdisk fetches the image: ``http``, ``local`` or ``swift``.

    :raises InvalidParameterValue: something else.
    """
    found = (
        node.instance_info.get("image_download_source")
        or node.driver_info.get("image_download_source")
        or CONF.agent.image_download_source
    )
    if found not in _DOWNLOAD_SOURCES:
        raise errors.InvalidParameterValue(
            f"image_download_source of node {node.uuid} is '{found}', expected one of "
            f"{', '.join(_DOWNLOAD_SOURCES)}."
        )
    return str(found)


def _is_served(node: models.Node) -> bool:
    """Tell whether the conductor serves the image itself."""
    source = str(node.instance_info.get("image_source"))
    return source.startswith("file:") or download_source(node) == "local"


def validate(node: models.Node) -> None:
    """Check what the node says of its image; no request is made.

    :raises MissingParameterValue: something is missing.
    :raises InvalidParameterValue: something is not acceptable.
    """
    info = node.instance_info
    source = info.get("image_source")
    if source is None:
        raise errors.MissingParameterValue(
            f"instance_info of node {node.uuid} has no image_source."
        )
    if info.get("boot_iso"):
        raise errors.InvalidParameterValue(
            f"instance_info of node {node.uuid} has both image_source and boot_iso."
        )
    service = services.service_for(source)
    is_file = str(source).startswith("file:")
    if is_file:
        service.show(source)
    if node.driver_internal_info.get("is_source_a_path"):
        raise errors.InvalidParameterValue(
            f"image_source of node {node.uuid} is a directory on a web server, not an image."
        )
    image_type = info.get("image_type")
    if image_type not in (None, WHOLE_DISK, partition.TYPE):
        raise errors.InvalidParameterValue(
            f"image_type of node {node.uuid} is '{image_type}', expected {WHOLE_DISK} or "
            f"{partition.TYPE}."
        )
    if partition.is_wanted(node):
        partition.layout(node)
    _validate_checksum(node, required=not is_file)
    if _is_served(node):
        deploy = CONF.deploy
        options = {"http_url": deploy.http_url, "http_root": deploy.http_root}
        options["http_image_subdir"] = deploy.http_image_subdir
        missing = [name for name, value in options.items() if not value]
        if missing:
            raise errors.MissingParameterValue(
                f"The image of node {node.uuid} is served by the conductor, which needs "
                f"[deploy]{', '.join(missing)}."
            )
        _validate_conversion(node)
    _validate_proxies(node)


def _validate_conversion(node: models.Node) -> None:
    declared = node.instance_info.get("image_disk_format")
    if not _is_converted() or declared is None or declared in formats.AS_IS:
        return
    missing = formats.converter_missing()
    if missing is not None:
        raise errors.InvalidParameterValue(
            f"The {declared} image of node {node.uuid} is converted by the conductor "
            f"(force_raw_images), but {missing}."
        )


def _is_converted() -> bool:
    """Tell whether images that the conductor serves become raw images."""
    return bool(CONF.force_raw_images and CONF.agent.stream_raw_images)


def _validate_checksum(node: models.Node, *, required: bool) -> None:
    info = node.instance_info
    algorithm, value = info.get("image_os_hash_algo"), info.get("image_os_hash_value")
    given = info.get("image_checksum")
    if bool(algorithm) != bool(value):
        raise errors.MissingParameterValue(
            f"instance_info of node {node.uuid} needs both image_os_hash_algo and "
            "image_os_hash_value, or none of them."
        )
    if algorithm:
        checksum.check_algorithm(algorithm)
    elif checksum.is_url(given):
        checksum.check_url_supported(given)
    elif given:
        checksum.parse(given)
    elif required:
        raise errors.MissingParameterValue(
            f"instance_info of node {node.uuid} needs image_checksum, or image_os_hash_algo "
            "and image_os_hash_value."
        )


def _validate_proxies(node: models.Node) -> None:
    info = node.driver_info
    for name in ("image_http_proxy", "image_https_proxy"):
        proxy = info.get(name)
        if proxy and not _is_proxy(str(proxy)):
            raise errors.InvalidParameterValue(
                f"driver_info {name} of node {node.uuid} must be an http or https URL."
            )
    no_proxy = info.get("image_no_proxy")
    if no_proxy:
        for item in str(no_proxy).split(","):
            if not _NO_PROXY_ITEM.fullmatch(item.strip()):
                raise errors.InvalidParameterValue(
                    f"driver_info image_no_proxy of node {node.uuid}: '{item}' is neither a "
                    "host, an IP address nor a .domain."
                )


def _is_proxy(text: str) -> bool:
    try:
        return urlsplit(text).scheme in ("", "http", "https")
    except ValueError:
        return False


def prepare(node: models.Node) -> None:
    """Resolve the image of the node: set instance_info ``image_url`` (not saved).

    An image of a web server is checked to be there; one that the conductor serves
    is fetched, verified, converted if configured so, and published.

    :raises InvalidParameterValue: the image can not be had, is not what was
        promised, or is not safe.
    :raises ImageDownloadFailed, ImageConvertFailed, InsufficientDiskSpace: as named.
    """
    info = node.instance_info
    source = info["image_source"]
    info.setdefault("image_type", WHOLE_DISK)
    if partition.is_wanted(node):
        layout = partition.layout(node)
        info.update({name: value for name, value in layout.items() if value is not None})
    node.driver_internal_info.pop(_RESOLVED, None)
    if _is_served(node):
        info["image_url"] = _serve(node, source)
        return
    found = services.service_for(source).show(source)
    if CONF.conductor.conductor_always_validates_images:
        info["image_disk_format"] = _inspect(node, source)
    info["image_url"] = found.href
    digest = info.get("image_checksum")
    if checksum.is_url(digest) and not info.get("image_os_hash_algo"):
        _resolve(node, checksum.from_file(digest, source))


def _resolve(node: models.Node, digest: checksum.Checksum, **more: Any) -> None:
    node.driver_internal_info[_RESOLVED] = {
        "os_hash_algo": digest.algorithm,
        "os_hash_value": digest.value,
        **more,
    }


def _fetch(
    node: models.Node, source: str, *, to_raw: bool = False, unpack: bool = False
) -> cache.Image:
    info = node.instance_info
    wish = cache.Wish(
        checksum=checksum.of_instance(info, source),
        declared=info.get("image_disk_format"),
        to_raw=to_raw,
        unpack=unpack,
    )
    try:
        return cache.instance_images().fetch(source, _path(node), wish)
    except Exception:
        _drop_file(node)
        raise


def _inspect(node: models.Node, source: str) -> str | None:
    """Return the real format of an image that the ramdisk fetches by itself."""
    try:
        return _fetch(node, source).format
    finally:
        _drop_file(node)


def _serve(node: models.Node, source: str) -> str:
    """Fetch and publish an image; return its URL."""
    image = _fetch(node, source, to_raw=_is_converted(), unpack=True)
    digest = image.checksum
    if digest is None:
        digest = checksum.Checksum("sha256", services.digest(image.path, "sha256"))
    link = _link(node)
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(image.path)
    url = "/".join((CONF.deploy.http_url.rstrip("/"), CONF.deploy.http_image_subdir, node.uuid))
    services.service_for(url).show(url)
    _resolve(node, digest, disk_format=image.format)
    return url


def _path(node: models.Node) -> Path:
    return Path(CONF.pxe.images_path) / node.uuid / "disk"


def _link(node: models.Node) -> Path:
    return Path(CONF.deploy.http_root) / CONF.deploy.http_image_subdir / node.uuid


def _drop_file(node: models.Node) -> None:
    """Remove the directory of a node; its lock says that nobody writes there."""
    shutil.rmtree(_path(node).parent, ignore_errors=True)


def remove_served(node: models.Node) -> None:
    """Stop serving the image of a node, and drop its file (nothing is saved)."""
    with contextlib.suppress(OSError):
        _link(node).unlink(missing_ok=True)
    _drop_file(node)


def write_arguments(node: models.Node) -> dict[str, Any]:
    """Return ``image_info`` of the in-band step write_image.

    :raises MissingParameterValue: credentials are configured by half.
    """
    info, url = node.instance_info, node.instance_info["image_url"]
    source = str(info["image_source"])
    image: dict[str, Any] = {
        "id": source.rstrip("/").rpartition("/")[2],
        "urls": [url],
        "disk_format": info.get("image_disk_format"),
        "container_format": info.get("image_container_format"),
        "stream_raw_images": CONF.agent.stream_raw_images,
        "node_uuid": node.uuid,
        **_digests(info),
        **_proxies(node.driver_info),
    }
    if partition.is_wanted(node):
        image.update(partition.arguments(node))
    resolved = node.driver_internal_info.get(_RESOLVED)
    if resolved:
        image.pop("checksum", None)
        image.update(resolved)
    auth = credentials.basic_auth(url)
    if auth is not None:
        image["image_server_auth_strategy"] = CONF.deploy.image_server_auth_strategy
        image["image_server_user"], image["image_server_password"] = auth
    return image


def _digests(info: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if info.get("image_os_hash_algo") and info.get("image_os_hash_value"):
        found["os_hash_algo"] = info["image_os_hash_algo"]
        found["os_hash_value"] = info["image_os_hash_value"]
    given = info.get("image_checksum")
    if given and ":" in str(given) and not checksum.is_url(given):
        # The ramdisk does not know the form "algorithm:value".
        algorithm, value = checksum.parse(given)
        found.setdefault("os_hash_algo", algorithm)
        found.setdefault("os_hash_value", value)
    elif given:
        found["checksum"] = given
    return found


def _proxies(info: Mapping[str, Any]) -> dict[str, Any]:
    proxies = {
        scheme: info[f"image_{scheme}_proxy"]
        for scheme in ("http", "https")
        if info.get(f"image_{scheme}_proxy")
    }
    if not proxies:
        return {}
    found: dict[str, Any] = {"proxies": proxies}
    if info.get("image_no_proxy"):
        found["no_proxy"] = info["image_no_proxy"]
    return found
