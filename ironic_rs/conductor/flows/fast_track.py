"""Whether a running ramdisk may be used for the next flow, without a reboot.

Source: specification conductor.md section 8.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oslo_utils import strutils

from ironic_rs.conf import CONF
from ironic_rs.domain import errors, states

if TYPE_CHECKING:
    from ironic_rs.conductor.task import Task
    from ironic_rs.db import models


def enabled(node: models.Node) -> bool:
    """Tell whether fast track is on for the node.

    :raises InvalidParameterValue: driver_info.fast_track is no boolean.
    """
    value = node.driver_info.get("fast_track")
    if value is None:
        return bool(CONF.deploy.fast_track)
    try:
        return bool(strutils.bool_from_string(value, strict=True))
    except ValueError as exc:
        raise errors.InvalidParameterValue(
            f"driver_info fast_track of node {node.uuid} is not a boolean: {exc}"
        ) from exc


def keep_agent(task: Task) -> bool:
    """Tell whether token and address of the agent survive the end of a flow."""
    node = task.node
    info = node.driver_internal_info
    try:
        wanted = enabled(node)
    except errors.InvalidParameterValue:
        return False
    return (
        wanted
        and node.last_error is None
        and node.provision_state not in states.SERVICING_STATES
        and not info.get("redfish_fw_updates")
        and not info.get("firmware_updates")
        and task.driver.storage.should_write_image(task)
    )
