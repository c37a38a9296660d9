"""Machines whose ramdisk does not come up are booted once more.

Source: specification conductor.md section 7 (``_check_boot_timeouts``), drivers.md
section 11.4.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from oslo_log import log
from oslo_utils import timeutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states
from ironic_rs.drivers.decorators import NodePeriodic

if TYPE_CHECKING:
    from ironic_rs.db import models
    from ironic_rs.drivers.contract import Task
    from ironic_rs.drivers.pxe.flavour import Flavour

LOG = log.getLogger(__name__)


def mark() -> NodePeriodic | None:
    """Return which nodes to look at, and how often; None when none is booted again."""
    timeout = CONF.pxe.boot_retry_timeout
    if not timeout:
        return None
    return NodePeriodic(
        purpose="retrying PXE boot",
        interval=lambda conf: int(conf.pxe.boot_retry_check_interval),
        filters={
            "provision_state_in": sorted(states.PXE_BOOT_RETRY),
            "reserved": False,
            "maintenance": False,
            "provisioned_before": timeout,
        },
    )


def _is_recent(moment: Any, seconds: int) -> bool:
    if not moment:
        return False
    try:
        parsed = timeutils.parse_isotime(str(moment))
    except ValueError:
        return False
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=datetime.UTC)
    age = timeutils.utcnow(with_timezone=True) - parsed
    return age < datetime.timedelta(seconds=seconds)


def due(node: models.Node) -> bool:
    """Tell whether nothing was heard of the machine's ramdisk for long enough."""
    info = node.driver_internal_info
    timeout = CONF.pxe.boot_retry_timeout
    return (
        bool(timeout)
        and node.provision_state in states.PXE_BOOT_RETRY
        and not node.maintenance
        # It has booted: only a running ramdisk gets a token.
        and not info.get("agent_secret_token")
        and not _is_recent(info.get("agent_last_heartbeat"), timeout)
        and not _is_recent(info.get("last_power_state_change"), timeout)
    )


def boot_again(task: Task, flavour: Flavour) -> None:
    """Power off, set the boot device, power on, if that is still due under the lock."""
    if not due(task.node):
        return
    task.upgrade_lock(purpose="retrying PXE boot", retry=False)
    if not due(task.node):
        return
    LOG.info(
        "Node %s: nothing was heard of its ramdisk for %d s, it is booted again",
        task.node.uuid,
        CONF.pxe.boot_retry_timeout,
    )
    with task.flows.power_off_and_on():
        set_network_boot(task, flavour, persistent=False)


def set_network_boot(task: Task, flavour: Flavour, *, persistent: bool) -> None:
    """Set the boot device of network boot."""
    try:
        task.flows.set_boot_device(flavour.device, persistent=persistent)
    except errors.InvalidParameterValue:
        if not flavour.http:
            raise
        LOG.warning(
            "Node %s: its management interface does not know boot device %s; pxe is set instead",
            task.node.uuid,
            flavour.device,
        )
        task.flows.set_boot_device("pxe", persistent=persistent)
