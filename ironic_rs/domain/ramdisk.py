"""Which ramdisk a node boots, and with which kernel parameters.

Source: specification drivers.md section 3 (field lookups).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.conf.types import clean_kernel_parameters, parse_kernel_parameters
from ironic_rs.domain import capabilities, errors, states

if TYPE_CHECKING:
    from ironic_rs.db import models

LOG = log.getLogger(__name__)

DEPLOY = "deploy"
RESCUE = "rescue"

#: Key of instance_info, and label of the image in the directories of a web server.
BOOT_ISO = "boot_iso"

#: Key of driver_internal_info: the slot that did not show the boot medium which the BMC
#: had just accepted; for who waits for the ramdisk in vain.
MEDIUM_NOT_SHOWN = "boot_medium_not_shown"

_RESCUE_STATES = frozenset(
    {
        states.RESCUING,
        states.RESCUEWAIT,
        states.RESCUEFAIL,
        states.UNRESCUING,
        states.UNRESCUEFAIL,
    }
)
_RAMDISK_STATES = frozenset(
    {
        states.DEPLOYING,
        states.DEPLOYWAIT,
        states.CLEANING,
        states.CLEANWAIT,
        states.RESCUING,
        states.RESCUEWAIT,
        states.INSPECTING,
        states.INSPECTWAIT,
        states.SERVICING,
        states.SERVICEWAIT,
    }
)


def mode(node: models.Node) -> str:
    """Return which ramdisk the node needs in its state: ``deploy`` or ``rescue``."""
    return RESCUE if node.provision_state in _RESCUE_STATES else DEPLOY


def needed(node: models.Node) -> bool:
    """Tell whether a ramdisk runs, or is about to, in the state of the node."""
    return node.provision_state in _RAMDISK_STATES


def needs_agent(node: models.Node, mode: str) -> bool:
    """Tell whether a ramdisk of ours is ever booted on the node.

    An instance that is nothing but a ramdisk needs ours only for cleaning.

    :param mode: ``deploy`` or ``rescue``.
    """
    if mode == RESCUE or capabilities.boot_option(node) != "ramdisk":
        return True
    if node.automated_clean is not None:
        return bool(node.automated_clean)
    return bool(CONF.conductor.automated_clean)


def of_instance(node: models.Node) -> dict[str, str]:
    """Return what an instance is that has no disk: ``boot_iso``, or ``kernel`` and ``ramdisk``.

    Nothing when it boots from a disk.

    :raises MissingParameterValue: its deploy interface wants to, but nothing is given.
    """
    info = node.instance_info
    option = capabilities.boot_option(node)
    if option == "local":
        return {}
    if option == "ramdisk" and info.get(BOOT_ISO):
        return {BOOT_ISO: str(info[BOOT_ISO])}
    missing = [name for name in ("kernel", "ramdisk") if not info.get(name)]
    if missing:
        instead = f" (or {BOOT_ISO})" if option == "ramdisk" else ""
        raise errors.MissingParameterValue(
            f"Node {node.uuid}: its instance boots without a disk, but instance_info has no "
            f"{' and no '.join(missing)}{instead}."
        )
    return {"kernel": str(info["kernel"]), "ramdisk": str(info["ramdisk"])}


def _pair(
    node: models.Node, place: str, kernel: str | None, ramdisk: str | None
) -> tuple[str, str] | None:
    """Return a complete pair; one without the other is told about and ignored."""
    if kernel and ramdisk:
        return kernel, ramdisk
    if kernel or ramdisk:
        text = (
            f"Node {node.uuid}: {place} has a {'kernel' if kernel else 'ramdisk'} "
            f"without a {'ramdisk' if kernel else 'kernel'}."
        )
        if CONF.conductor.error_on_ramdisk_config_inconsistency:
            raise errors.MissingParameterValue(text)
        LOG.warning("%s It is ignored.", text)
    return None


def kernel_and_ramdisk(node: models.Node, mode: str = DEPLOY) -> tuple[str, str] | None:
    """Return (kernel, ramdisk) of the first place that has both, None when none has.

    The places: driver_info, ``[conductor]<mode>_kernel_by_arch`` and
    ``_ramdisk_by_arch``, ``[conductor]<mode>_kernel`` and ``_ramdisk``.

    :param mode: ``deploy`` or ``rescue``.
    :raises MissingParameterValue: a place has one of the two, and
        ``[conductor]error_on_ramdisk_config_inconsistency`` is set.
    """
    info = node.driver_info
    options = CONF.conductor
    arch = str(node.properties.get("cpu_arch"))
    kernels: Mapping[str, str] = options[f"{mode}_kernel_by_arch"]
    ramdisks: Mapping[str, str] = options[f"{mode}_ramdisk_by_arch"]
    return (
        _pair(node, "driver_info", info.get(f"{mode}_kernel"), info.get(f"{mode}_ramdisk"))
        or _pair(node, f"the configuration for {arch}", kernels.get(arch), ramdisks.get(arch))
        or _pair(node, "the configuration", options[f"{mode}_kernel"], options[f"{mode}_ramdisk"])
    )


def iso(node: models.Node, mode: str = DEPLOY) -> str | None:
    """Return the pre-built boot ISO of driver_info, None when there is none."""
    info = node.driver_info
    found = info.get(f"{mode}_iso") or info.get(f"redfish_{mode}_iso")
    return str(found) if found else None


def bootloader(node: models.Node) -> str | None:
    """Return the image of the EFI boot loader for built ISOs, None when not configured."""
    found = (
        node.driver_info.get("bootloader")
        or CONF.conductor.bootloader_by_arch.get(str(node.properties.get("cpu_arch")))
        or CONF.conductor.bootloader
    )
    return str(found) if found else None


def kernel_parameters(node: models.Node, default: str) -> str:
    """Return the kernel parameters to append for the node.

    ``kernel_append_params`` of instance_info, then of driver_info, takes the place
    of ``default``; ``%default%`` in it stands for the default.  Line breaks are
    removed: they would end the kernel line of a boot configuration.

    :raises InvalidParameterValue: not a kernel command line.
    """
    key = "kernel_append_params"
    value = node.instance_info.get(key)
    if value is None:
        value = node.driver_info.get(key)
    if value is None:
        return default
    text = clean_kernel_parameters(str(value)).replace("%default%", default)
    if not CONF.conductor.disable_kernel_parameter_parsing:
        try:
            parse_kernel_parameters(text)
        except ValueError as exc:
            raise errors.InvalidParameterValue(f"{key} of node {node.uuid}: {exc}") from exc
    return text
