"""What the templates of boot configurations are told: ``pxe_options``.

Source: specification drivers.md section 11.3, agent-protocol.md section 1.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.conf.types import clean_kernel_parameters, parse_kernel_parameters
from ironic_rs.domain import errors, ramdisk
from ironic_rs.drivers.pxe.flavour import GRUB, IPXE
from ironic_rs.drivers.pxe.images import Images

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task
    from ironic_rs.drivers.pxe.flavour import Flavour

LOG = log.getLogger(__name__)

#: What stands for files that a node does not have; nothing boots these entries.
_NO_KERNEL = "no_kernel"
_NO_RAMDISK = "no_ramdisk"
#: What would end a word or a command in a script of GRUB.
_GRUB_SPECIAL = re.compile(r"[\\$;&|<>{}#'`]")
#: What ends a command of iPXE; it knows no quotes.
_IPXE_OPERATORS = frozenset({"||", "&&"})
#: Commands of GRUB that start a kernel under UEFI, by architecture.
_EFI_COMMANDS = {"x86_64": ("linuxefi", "initrdefi")}


def build(
    task: Task,
    flavour: Flavour,
    images: Images,
    parameters: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """Return the options of a node.

    :param images: see :mod:`ironic_rs.drivers.pxe.images`.
    :param parameters: of the ramdisk; None when no ramdisk of ours is booted.
    :raises InvalidParameterValue: not a kernel command line.
    """
    node = task.node
    linux, initrd = _EFI_COMMANDS.get(
        str(node.properties.get("cpu_arch") or "x86_64"), ("linux", "initrd")
    )
    options: dict[str, Any] = {
        "aki_path": _NO_KERNEL,
        "ari_path": _NO_RAMDISK,
        "pxe_append_params": append_parameters(task, parameters or {}),
        "tftp_server": CONF.pxe.tftp_server,
        # iPXE counts in milliseconds.
        "ipxe_timeout": CONF.pxe.ipxe_timeout * 1000,
        "ramdisk_opts": clean_kernel_parameters(
            str(node.instance_info.get("ramdisk_kernel_arguments") or "")
        ),
        "linux_cmd": linux,
        "initrd_cmd": initrd,
    }
    for label, key in (
        ("kernel", "aki_path"),
        ("ramdisk", "ari_path"),
        (ramdisk.BOOT_ISO, "boot_iso_url"),
    ):
        if label in images:
            options[key] = place(node, flavour, label)
    for mode in (ramdisk.DEPLOY, ramdisk.RESCUE):
        if f"{mode}_kernel" in images:
            options["deployment_aki_path"] = place(node, flavour, f"{mode}_kernel")
            options["deployment_ari_path"] = place(node, flavour, f"{mode}_ramdisk")
            options["initrd_filename"] = f"{mode}_ramdisk"
    for key in ("pxe_append_params", "ramdisk_opts"):
        options[key] = _harmless(node, flavour, options[key])
    if parameters is not None:
        options["ipa-api-url"] = parameters.get("ipa-api-url")
    return options


def _harmless(node: models.Node, flavour: Flavour, line: str) -> str:
    """Return kernel parameters as a script holds them: they are no commands of it.

    :raises InvalidParameterValue: they would be, and nothing prevents that.
    """
    syntax = flavour.syntax(node)
    if syntax == GRUB:
        return _GRUB_SPECIAL.sub(r"\\\g<0>", line)
    if syntax == IPXE and _IPXE_OPERATORS.intersection(line.split()):
        raise errors.InvalidParameterValue(
            f"Node {node.uuid}: kernel parameters must not contain "
            f"{' or '.join(sorted(_IPXE_OPERATORS))}, which end a command of iPXE: {line}"
        )
    return line


def place(node: models.Node, flavour: Flavour, label: str) -> str:
    """Return where a machine finds an image: a URL for iPXE, else a path on its server."""
    path = f"{node.uuid}/{label}"
    if flavour.ipxe:
        return f"{str(CONF.deploy.http_url).rstrip('/')}/{path}"
    return flavour.below_server_root + path


def append_parameters(task: Task, parameters: Mapping[str, str | None]) -> str:
    """Return the kernel parameters of a ramdisk, in one line.

    :raises InvalidParameterValue: not a kernel command line.
    """
    node = task.node
    general, dashes, for_init = ramdisk.kernel_parameters(
        node, CONF.pxe.kernel_append_params
    ).partition(" -- ")
    words = [general]
    added: dict[str, str | None] = {}
    if LOG.isEnabledFor(logging.DEBUG):
        added["ipa-debug"] = "1"
    added.update(parameters)
    request_id = getattr(task.context, "global_id", None) or getattr(
        task.context, "global_request_id", None
    )
    if request_id:
        added["ipa-global-request-id"] = request_id
    words += [
        key if value is None else f"{key}={_quoted(str(value))}" for key, value in added.items()
    ]
    if dashes:
        # What stands behind "--" is for init, not for the ramdisk.
        words += ["--", for_init]
    line = clean_kernel_parameters(" ".join(word for word in words if word))
    if not CONF.conductor.disable_kernel_parameter_parsing:
        try:
            parse_kernel_parameters(line)
        except ValueError as exc:
            raise errors.InvalidParameterValue(
                f"Parameters of the ramdisk of node {node.uuid}: {exc}"
            ) from exc
    return line


def _quoted(value: str) -> str:
    return f'"{value}"' if re.search(r"\s", value) and '"' not in value else value
