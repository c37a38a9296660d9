"""What makes the network boot interfaces different: iPXE or not, HTTP or not.

Layout below the root R of a flavour:

======================================  ================================================
``R/<uuid>/config``                     boot configuration of the node
``R/<uuid>/<label>``                    its kernels, ramdisks and boot ISO
``R/pxelinux.cfg/01-<mac-with-dashes>`` link for the boot loader of BIOS machines (``20-``
                                        for InfiniBand)
``R/grub.cfg-01-<mac-with-dashes>``     link for GRUB, by the name that it looks for itself
``R/<ma:c>.conf``, ``R/<ip>.conf``      link for GRUB, by the initial configuration
``R/pxelinux.cfg/<mac-with-dashes>``    link for iPXE, by the boot script
``R/grub/grub.cfg``                     initial configuration of GRUB
======================================  ================================================

Source: specification drivers.md sections 11.1 to 11.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ironic_rs.conf import CONF
from ironic_rs.domain import bootmode

if TYPE_CHECKING:
    from ironic_rs.db import models

#: How a configuration names its default entry.
IPXE = "ipxe"
GRUB = "grub"
PXELINUX = "pxelinux"


@dataclass(frozen=True)
class Flavour:
    """One kind of network boot.

    :param ipxe: the machine runs iPXE, else GRUB (UEFI) or pxelinux (BIOS).
    :param http: the firmware fetches the boot loader by HTTP, else by TFTP.
    """

    ipxe: bool
    http: bool

    @property
    def by_http(self) -> bool:
        """Whether configuration and images are fetched by HTTP."""
        return self.ipxe or self.http

    @property
    def root(self) -> Path:
        """Directory of configurations and images."""
        return Path(CONF.deploy.http_root if self.by_http else CONF.pxe.tftp_root)

    @property
    def below_server_root(self) -> str:
        """Path of the root on its server, ended by a slash; empty when it is the top."""
        return below_web_server() if self.by_http else ""

    @property
    def needed_roots(self) -> tuple[Path, ...]:
        """Directories that a machine's first files are fetched from."""
        web = Path(CONF.deploy.http_root)
        if self.http:
            return (web,)
        tftp = Path(CONF.pxe.tftp_root)
        return (web, tftp) if self.ipxe else (tftp,)

    @property
    def shared_roots(self) -> tuple[Path, ...]:
        """Directories that get the files which all machines share."""
        web = Path(CONF.deploy.http_root)
        return (web,) if self.http else (web, Path(CONF.pxe.tftp_root))

    @property
    def device(self) -> str:
        """Boot device of the machine."""
        return "uefihttp" if self.http else "pxe"

    def node_directory(self, node: models.Node) -> Path:
        """Return the directory of a node."""
        return self.root / str(node.uuid)

    def config(self, node: models.Node) -> Path:
        """Return the boot configuration of a node."""
        return self.node_directory(node) / "config"

    def syntax(self, node: models.Node) -> str:
        """Return which boot loader reads the configuration of a node.

        :raises InvalidParameterValue: contradicting boot modes.
        """
        if self.ipxe:
            return IPXE
        return GRUB if bootmode.effective(node) == bootmode.UEFI else PXELINUX

    def template(self, node: models.Node) -> Path:
        """Return the template of the configuration of a node.

        :raises InvalidParameterValue: contradicting boot modes.
        """
        options = CONF.pxe
        if self.ipxe:
            return Path(options.ipxe_config_template)
        of_arch = options.pxe_config_template_by_arch.get(_arch(node))
        if of_arch:
            return Path(of_arch)
        if self.syntax(node) == GRUB:
            return Path(options.uefi_pxe_config_template)
        return Path(options.pxe_config_template)

    def boot_file(self, node: models.Node) -> str:
        """Return the name of the boot loader of a node.

        :raises InvalidParameterValue: contradicting boot modes.
        """
        options = CONF.pxe
        mode = bootmode.effective(node)
        arch = _arch(node)
        keys = (f"{arch}-{mode}", arch)
        uefi = mode == bootmode.UEFI
        if self.ipxe:
            by_arch = options.ipxe_bootfile_name_by_arch
            general = options.uefi_ipxe_bootfile_name if uefi else options.ipxe_bootfile_name
            found = next((by_arch[key] for key in keys if by_arch.get(key)), general)
            if found:
                return str(found)
        by_arch = options.pxe_bootfile_name_by_arch
        general = options.uefi_pxe_bootfile_name if uefi else options.pxe_bootfile_name
        return str(next((by_arch[key] for key in keys if by_arch.get(key)), general))


def below_web_server() -> str:
    """Return the path of ``[deploy]http_url``, ended by a slash; empty for the top."""
    path = urlsplit(str(CONF.deploy.http_url or "")).path.strip("/")
    return f"{path}/" if path else ""


def _arch(node: models.Node) -> str:
    return str(node.properties.get("cpu_arch") or "")
