"""Brings boot mode and secure boot of a machine in line with what the node wants.

Source: specification drivers.md section 3 (boot mode).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_log import log

from ironic_rs.conf import CONF
from ironic_rs.domain import bootmode, errors

if TYPE_CHECKING:
    from ironic_rs.drivers.contract import Task

LOG = log.getLogger(__name__)


def sync_boot_mode(task: Task) -> None:
    """Set the boot mode of the machine to the wanted one, or adopt its own.

    A node that wants nothing takes what the machine has (or the default of the
    configuration), remembered in driver_internal_info ``deploy_boot_mode``.

    :raises UnsupportedDriverExtension: another mode is wanted than the machine
        has, and the driver cannot change it.
    :raises InvalidParameterValue: the machine cannot have the wanted mode.
    """
    node = task.node
    wanted = bootmode.requested(node)
    try:
        actual = task.driver.management.get_boot_mode(task)
    except errors.UnsupportedDriverExtension:
        actual = None
    if wanted is None:
        wanted = actual or str(CONF.deploy.default_boot_mode)
        node.driver_internal_info["deploy_boot_mode"] = wanted
        task.save()
    if wanted == actual:
        return
    try:
        task.flows.set_boot_mode(wanted)
    except errors.UnsupportedDriverExtension:
        if actual is not None:
            raise
        LOG.debug(
            "Node %s: the boot mode can not be set, it is expected to be %s", node.uuid, wanted
        )
        return
    node.boot_mode = wanted
    task.save()


def configure_secure_boot_if_needed(task: Task) -> None:
    """Turn secure boot on when the instance asks for it.

    :raises DriverOperationError: the BMC refused.
    """
    if not bootmode.secure_boot_requested(task.node):
        return
    try:
        task.driver.management.set_secure_boot_state(task, True)
    except errors.UnsupportedDriverExtension:
        # Whoever set the capability may have turned it on by hand.
        LOG.warning(
            "Node %s: secure boot is asked for, but management interface %s can not turn it on",
            task.node.uuid,
            task.node.management_interface,
        )
        return
    task.node.secure_boot = True
    task.save()


def deconfigure_secure_boot_if_needed(task: Task) -> None:
    """Turn secure boot off when the instance asked for it.

    :raises DriverOperationError: the BMC refused.
    """
    if not bootmode.secure_boot_requested(task.node):
        return
    try:
        task.driver.management.set_secure_boot_state(task, False)
    except errors.UnsupportedDriverExtension:
        LOG.debug("Node %s: secure boot can not be turned off by its driver", task.node.uuid)
        return
    task.node.secure_boot = False
    task.save()
