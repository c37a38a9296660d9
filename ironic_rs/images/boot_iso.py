"""Boot ISOs for virtual media: kernel, ramdisk, boot loader and parameters in one file.

Layout of a built ISO (ISO 9660 level 3 with Rock Ridge and Joliet; a program that
reads one, such as a simulated machine, may rely on it):

========================================  ==============================================
``/vmlinuz``, ``/initrd``                  kernel and ramdisk
``/EFI/BOOT/grub.cfg``                     UEFI: configuration of GRUB; the path is
                                           ``[DEFAULT]grub_config_path``.  The line that
                                           begins with ``linux`` holds **all** kernel
                                           parameters, ended by ``--``
``/boot/grub/efiboot.img``                 UEFI: the EFI system partition image, which is
                                           the El Torito boot image (platform EFI, no
                                           emulation)
``/isolinux/isolinux.cfg``                 BIOS: the ``append`` line holds all parameters
``/isolinux/isolinux.bin``                 BIOS: the El Torito boot image (x86, with boot
                                           information table), with ``ldlinux.c32``
``/etc/ironic-python-agent/ironic.crt``    ``[agent]api_ca_file``, when set, with
                                           ``/etc/ironic-python-agent.d/ironic-tls.conf``
``/openstack/latest/network_data.json``    network data, when there is any
========================================  ==============================================

The volume label is ``config-2`` when there is network data, else
``VMEDIA_BOOT_ISO``: by these labels the ramdisk finds its files.  The publisher
identifier is the value of the kernel parameter ``ir_pub_id``, by which the ramdisk
tells this ISO from others.

Source: specification drivers.md section 12.7, agent-protocol.md section 1.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import jinja2
import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

from ironic_rs.conf import CONF
from ironic_rs.conf.types import clean_kernel_parameters, parse_kernel_parameters
from ironic_rs.domain import bootmode, errors

KERNEL = "/vmlinuz"
RAMDISK = "/initrd"
ESP = "/boot/grub/efiboot.img"
ISOLINUX = "/isolinux/isolinux.bin"
ISOLINUX_CONFIG = "/isolinux/isolinux.cfg"
LDLINUX = "/isolinux/ldlinux.c32"
CA_FILE = "/etc/ironic-python-agent/ironic.crt"
CA_CONFIG = "/etc/ironic-python-agent.d/ironic-tls.conf"
NETWORK_DATA = "/openstack/latest/network_data.json"

LABEL = "VMEDIA_BOOT_ISO"
CONFIG_LABEL = "config-2"

#: Where distributions keep the library that isolinux needs since version 5.
_LDLINUX_PLACES = (
    "/usr/lib/syslinux/modules/bios/ldlinux.c32",
    "/usr/share/syslinux/ldlinux.c32",
)
_SECTOR = 512
_COPY_CHUNK = 1024 * 1024
_UEFI_PLATFORM = 0xEF


@dataclass(frozen=True)
class Contents:
    """What goes into an ISO.

    :param boot_mode: ``uefi`` or ``bios``.
    :param kernel_parameters: the kernel command line, see :func:`command_line`.
    :param publisher_id: see :func:`command_line`.
    :param esp: EFI system partition image; needed for ``uefi``.
    :param files: further small files by absolute path in the ISO.
    """

    boot_mode: str
    kernel: Path
    ramdisk: Path
    kernel_parameters: str
    publisher_id: str
    esp: Path | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)


def command_line(append: str, parameters: Mapping[str, str | None]) -> tuple[str, str]:
    """Return (kernel command line, publisher identifier) for a ramdisk.

    :param append: general kernel parameters.
    :param parameters: parameters of the ramdisk; None stands for a key alone.
    :raises InvalidParameterValue: not a kernel command line.
    """
    publisher_id = str(uuid.uuid4())
    # What stands behind "--" is for init, not for the ramdisk.
    general, dashes, for_init = append.partition(" -- ")
    words = [general, f"ir_pub_id={publisher_id}"]
    for key, value in parameters.items():
        words.append(key if value is None else f"{key}={_quoted(str(value))}")
    if dashes:
        words += ["--", for_init]
    line = clean_kernel_parameters(" ".join(word for word in words if word))
    if not CONF.conductor.disable_kernel_parameter_parsing:
        try:
            parse_kernel_parameters(line)
        except ValueError as exc:
            raise errors.InvalidParameterValue(f"Parameters of the ramdisk: {exc}") from exc
    return line, publisher_id


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"\s", value) and '"' not in value else value


def agent_files(network_data: Mapping[str, Any] | None = None) -> dict[str, bytes]:
    """Return the files that the ramdisk copies from its ISO.

    :param network_data: in the form of OpenStack's network_data.json.
    :raises ImageCreationFailed: ``[agent]api_ca_file`` cannot be read.
    """
    files: dict[str, bytes] = {}
    if CONF.agent.api_ca_file:
        files[CA_FILE] = _read(Path(CONF.agent.api_ca_file), "[agent]api_ca_file")
        files[CA_CONFIG] = f"[DEFAULT]\ncafile = {CA_FILE}\n".encode()
    if network_data:
        files[NETWORK_DATA] = json.dumps(network_data).encode()
    return files


def _read(path: Path, what: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise errors.ImageCreationFailed(
            image_type="boot ISO", error=f"{what} {path} cannot be read: {exc.strerror or exc}"
        ) from exc


def build(contents: Contents, target: Path) -> None:
    """Write a boot ISO.

    :raises ImageCreationFailed: a part is missing or unreadable, or no space is left.
    """
    with contextlib.ExitStack() as opened:
        try:
            _Builder(contents, opened).write(target)
        except OSError as exc:
            raise errors.ImageCreationFailed(
                image_type="boot ISO", error=f"{exc.filename or target}: {exc.strerror or exc}"
            ) from exc
        except PyCdlibException as exc:
            raise errors.ImageCreationFailed(image_type="boot ISO", error=exc) from exc


class _Builder:
    """Adds files by their real names; ISO 9660 names are made from them."""

    def __init__(self, contents: Contents, opened: contextlib.ExitStack) -> None:
        self._contents = contents
        self._opened = opened
        self._directories: set[PurePosixPath] = {PurePosixPath("/")}
        self._iso = pycdlib.PyCdlib()

    def write(self, target: Path) -> None:
        contents = self._contents
        with_config = any(path.startswith("/openstack/") for path in contents.files)
        self._iso.new(
            interchange_level=3,
            rock_ridge="1.09",
            joliet=3,
            vol_ident=CONFIG_LABEL if with_config else LABEL,
            pub_ident_str=contents.publisher_id,
        )
        try:
            self._add_path(KERNEL, contents.kernel)
            self._add_path(RAMDISK, contents.ramdisk)
            for path, data in contents.files.items():
                self._add_bytes(path, data)
            if contents.boot_mode == bootmode.UEFI:
                self._make_uefi_bootable()
            else:
                self._make_bios_bootable()
            with target.open("xb") as file:
                self._iso.write_fp(file, blocksize=_COPY_CHUNK)
        finally:
            self._iso.close()

    def _make_uefi_bootable(self) -> None:
        esp = self._contents.esp
        if esp is None:
            raise errors.ImageCreationFailed(
                image_type="boot ISO",
                error=(
                    "there is no EFI boot loader: set driver_info bootloader, "
                    "[conductor]bootloader or [DEFAULT]esp_image"
                ),
            )
        size = self._add_path(ESP, esp)
        config = _render(
            CONF.grub_config_template,
            linux=KERNEL,
            initrd=RAMDISK,
            kernel_params=self._contents.kernel_parameters,
        )
        self._add_bytes(f"/{CONF.grub_config_path.strip('/')}", config)
        # The count of sectors has 16 bits; firmware reads the size from the file system.
        sectors = min(-(-size // _SECTOR), 0xFFFF)
        self._make_bootable(ESP, platform_id=_UEFI_PLATFORM, boot_load_size=sectors)

    def _make_bios_bootable(self) -> None:
        self._add_path(ISOLINUX, Path(CONF.isolinux_bin))
        ldlinux = _ldlinux()
        if ldlinux is not None:
            self._add_path(LDLINUX, ldlinux)
        config = _render(
            CONF.isolinux_config_template,
            kernel=KERNEL,
            ramdisk=RAMDISK,
            kernel_params=self._contents.kernel_parameters,
        )
        self._add_bytes(ISOLINUX_CONFIG, config)
        self._make_bootable(ISOLINUX, boot_load_size=4, boot_info_table=True)

    def _make_bootable(self, boot_image: str, **options: Any) -> None:
        catalogue = str(PurePosixPath(boot_image).with_name("boot.cat"))
        self._iso.add_eltorito(
            _iso_path(boot_image, file=True),
            bootcatfile=_iso_path(catalogue, file=True),
            rr_bootcatname="boot.cat",
            joliet_bootcatfile=catalogue,
            **options,
        )

    def _add_path(self, path: str, source: Path) -> int:
        """Add a file; it is opened now, so that nobody can take it away meanwhile."""
        file = self._opened.enter_context(source.open("rb"))
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        self._add(path, file, size)
        return size

    def _add_bytes(self, path: str, data: bytes) -> None:
        self._add(path, io.BytesIO(data), len(data))

    def _add(self, path: str, file: Any, size: int) -> None:
        self._add_directories(PurePosixPath(path).parent)
        self._iso.add_fp(
            file,
            size,
            iso_path=_iso_path(path, file=True),
            rr_name=PurePosixPath(path).name,
            joliet_path=path,
        )

    def _add_directories(self, directory: PurePosixPath) -> None:
        if directory in self._directories:
            return
        self._add_directories(directory.parent)
        self._iso.add_directory(
            iso_path=_iso_path(str(directory)),
            rr_name=directory.name,
            joliet_path=str(directory),
        )
        self._directories.add(directory)


def _iso_path(path: str, *, file: bool = False) -> str:
    """Return an ISO 9660 level 3 path: upper case, few characters, a version."""
    plain = PurePosixPath(path)
    parts = [re.sub(r"[^A-Z0-9_]", "_", part.upper()) for part in plain.parts[1:]]
    if file:
        stem = re.sub(r"[^A-Z0-9_]", "_", plain.stem.upper())
        suffix = re.sub(r"[^A-Z0-9_]", "_", plain.suffix[1:].upper())
        parts[-1] = f"{stem}.{suffix};1"
    return "/" + "/".join(parts)


def _ldlinux() -> Path | None:
    places: Sequence[str] = [CONF.ldlinux_c32] if CONF.ldlinux_c32 else _LDLINUX_PLACES
    return next((Path(place) for place in places if Path(place).exists()), None)


def _render(template: str, **variables: str) -> bytes:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    try:
        text = environment.from_string(Path(template).read_text()).render(**variables)
    except jinja2.TemplateError as exc:
        raise errors.ImageCreationFailed(
            image_type="boot ISO", error=f"template {template}: {exc}"
        ) from exc
    return text.encode()
