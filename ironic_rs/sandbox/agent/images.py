"""Writing images: download, verify, put on the disk."""

from __future__ import annotations

import asyncio
import base64
import binascii
import gzip
import hashlib
import os
import uuid
import zlib
from collections.abc import Mapping
from typing import Any

import aiohttp

from ironic_rs.sandbox import gpt
from ironic_rs.sandbox.agent.errors import AgentError, unsupported
from ironic_rs.sandbox.disk import SECTOR, Disk, InstalledImage
from ironic_rs.sandbox.machine import Machine
from ironic_rs.sandbox.settings import MIB

_CHUNK = 1024**2
_RAW_FORMATS = ("raw", "gpt", None, "")
_BY_LENGTH = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
_MAX_CONFIGDRIVE = 64 * 1024**2
#: Size of the EFI system partition that the agent makes.
_ESP_MIB = 550


def checksum_of(info: Mapping[str, Any], *, allow_md5: bool) -> tuple[str, str]:
    """Algorithm and expected hex digest of an image.

    :raises AgentError: no usable checksum.
    """
    algorithm, value = info.get("os_hash_algo"), info.get("os_hash_value")
    if not (algorithm and value):
        value = info.get("checksum")
        algorithm = _BY_LENGTH.get(len(str(value)))
    if not value or not algorithm:
        raise AgentError(
            "ImageChecksumError",
            "Cannot verify the image",
            "neither checksum nor os_hash_algo and os_hash_value are usable",
        )
    if algorithm == "md5" and not allow_md5:
        raise AgentError("ImageChecksumError", "Cannot verify the image", "MD5 is not enabled")
    if algorithm not in hashlib.algorithms_available:
        raise AgentError(
            "ImageChecksumError", "Cannot verify the image", f"unknown algorithm {algorithm}"
        )
    return str(algorithm), str(value).lower()


async def write_image(machine: Machine, info: Mapping[str, Any], *, allow_md5: bool) -> None:
    """Stream a raw image to the disk, or to the root partition of it, and verify it.

    :param info: ``image_info`` of the step, agent-protocol section 8.
    :raises AgentError: unsuitable request, failed download, wrong checksum.
    """
    for key in ("id", "urls"):
        if not info.get(key):
            raise AgentError("InvalidCommandParamsError", "Invalid command params", f"no {key}")
    if info.get("disk_format") not in _RAW_FORMATS:
        raise unsupported(
            f"image format {info.get('disk_format')}: convert the image to raw, "
            "or set force_raw_images for images that the conductor serves"
        )
    algorithm, wanted = checksum_of(info, allow_md5=allow_md5)
    start, limit = 0, machine.disk.size
    if info.get("image_type") == "partition":
        start, limit = await asyncio.to_thread(_make_partitions, machine, info)
    errors = []
    for url in info["urls"]:
        try:
            size, found, sha256 = await _stream(
                machine, url, info, algorithm, start=start, limit=limit
            )
            break
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            errors.append(f"{url}: {str(exc) or repr(exc)}")
    else:
        raise AgentError(
            "ImageDownloadError", f"Error downloading image {info['id']}", "; ".join(errors)
        )
    if found != wanted:
        raise AgentError(
            "ImageChecksumError",
            "Error verifying image checksum",
            f"image {info['id']} should have the {algorithm} digest {wanted}, "
            f"the download has {found}",
        )
    if not await asyncio.to_thread(machine.disk.partitions):
        raise AgentError(
            "DeploymentError", "Error deploying instance", "no partition on the disk after writing"
        )
    image = InstalledImage(str(info["id"]), size, sha256, start)
    await asyncio.to_thread(machine.disk.record, image)


def _make_partitions(machine: Machine, info: Mapping[str, Any]) -> tuple[int, int]:
    """Make the partitions of an instance; return where the image goes, and its end.

    :raises AgentError: there is no size, or they do not fit.
    """
    root = int(info.get("root_mb") or 0)
    if not root:
        raise AgentError("InvalidCommandParamsError", "Invalid command params", "no root_mb")
    boot = [("EFI", gpt.ESP, _ESP_MIB)] if info.get("deploy_boot_mode") == "uefi" else []
    wanted = [
        *boot,
        ("ephemeral0", gpt.LINUX, int(info.get("ephemeral_mb") or 0)),
        ("swap1", gpt.SWAP, int(info.get("swap_mb") or 0)),
        ("root", gpt.LINUX, root),
    ]
    parts, next_mib = [], 1
    for label, kind, size in wanted:
        if size:
            first = next_mib * MIB // SECTOR
            next_mib += size
            last = next_mib * MIB // SECTOR - 1
            parts.append(gpt.Part(kind, uuid.uuid4(), first, last, label))
    disk = machine.disk
    sectors = disk.size // SECTOR
    if parts[-1].last > gpt.last_usable(sectors):
        raise AgentError(
            "DeploymentError",
            "Error deploying instance",
            f"partitions of {next_mib} MiB do not fit on the disk ({disk.size} bytes)",
        )
    head, tail = gpt.tables(uuid.uuid4(), parts, sectors)
    with disk.opened(write=True) as descriptor:
        os.pwrite(descriptor, head, 0)
        os.pwrite(descriptor, tail, disk.size - len(tail))
    return parts[-1].first * SECTOR, (parts[-1].last + 1) * SECTOR


async def _stream(
    machine: Machine,
    url: str,
    info: Mapping[str, Any],
    algorithm: str,
    *,
    start: int,
    limit: int,
) -> tuple[int, str, str]:
    """Copy a URL to the disk; size, digest by ``algorithm``, and SHA-256 digest.

    :param start: first byte of its place on the disk.
    :param limit: first byte behind it.
    """
    auth = None
    if info.get("image_server_auth_strategy") == "http_basic":
        auth = aiohttp.BasicAuth(
            str(info.get("image_server_user")), str(info.get("image_server_password"))
        )
    sha256 = hashlib.sha256()
    hashers = [sha256] if algorithm == "sha256" else [sha256, hashlib.new(algorithm)]
    disk, position = machine.disk, 0
    damage = machine.faults.agent_checksum_mismatch
    await asyncio.to_thread(disk.record, None)
    async with machine.session.get(url, auth=auth) as response:
        if response.status != 200:
            raise aiohttp.ClientError(f"answered {response.status}")
        async for chunk in response.content.iter_chunked(_CHUNK):
            piece = _damaged(chunk) if damage and position == 0 else chunk
            if start + position + len(piece) > limit:
                raise AgentError(
                    "DeploymentError",
                    "Error deploying instance",
                    f"the image is larger than the {'root partition' if start else 'disk'} "
                    f"({limit - start} bytes)",
                )
            await asyncio.to_thread(_store, disk, piece, start + position, *hashers)
            position += len(piece)
    return position, hashers[-1].hexdigest(), sha256.hexdigest()


def _store(disk: Disk, piece: bytes, position: int, *hashers: Any) -> None:
    with disk.opened(write=True) as descriptor:
        os.pwrite(descriptor, piece, position)
    for hasher in hashers:
        hasher.update(piece)


def _damaged(chunk: bytes) -> bytes:
    return bytes((chunk[0] ^ 0xFF,)) + chunk[1:]


async def read_configdrive(machine: Machine, value: str) -> bytes:
    """Content of a config drive: base64 of a gzipped ISO, or a URL of that.

    :raises AgentError: neither of them, or too large.
    """
    if value.startswith(("http://", "https://")):
        try:
            async with machine.session.get(value) as response:
                if response.status != 200:
                    raise aiohttp.ClientError(f"answered {response.status}")
                raw: bytes | str = await response.read()
        except (aiohttp.ClientError, OSError, TimeoutError) as exc:
            raise AgentError(
                "DeploymentError", "Cannot get the config drive", str(exc) or repr(exc)
            ) from exc
    else:
        raw = value
    return await asyncio.to_thread(_decode_configdrive, raw)


def _decode_configdrive(raw: bytes | str) -> bytes:
    try:
        packed = base64.b64decode(raw, validate=False)
        content = gzip.decompress(packed)
    except (binascii.Error, ValueError, OSError, EOFError, zlib.error) as exc:
        raise AgentError(
            "DeploymentError", "Cannot use the config drive", f"no base64 of gzip data: {exc}"
        ) from exc
    if len(content) > _MAX_CONFIGDRIVE:
        raise AgentError("DeploymentError", "Cannot use the config drive", "larger than 64 MiB")
    return content


def partition_uuids(machine: Machine) -> dict[str, Any]:
    """Answer of standby.get_partition_uuids (blocking)."""
    if machine.disk.image is None:
        return {}
    partitions = machine.disk.partitions()
    esp = [item for item in partitions if item.kind == str(gpt.ESP)]
    result = {"root uuid": partitions[-1].identity if partitions else None}
    if esp:
        result["efi system partition uuid"] = esp[0].identity
    return {
        **result,
        "partitions": {f"partition {item.number}": item.identity for item in partitions},
    }
